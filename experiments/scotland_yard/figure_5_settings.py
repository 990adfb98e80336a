"""The settings of `sog_pimbot`: which agents meet PimBot and how often, presets, and options."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Literal

from experiments.harness.runs import RunArguments
from experiments.scotland_yard.trained_students import CHILDREN, DECISION_SHARES, read_student
from solvers.scotland_yard.pimbot import PimBot

PAPER_GAME = "scotland_yard"  # on the map of London


@dataclasses.dataclass(frozen=True, kw_only=True)
class Match:
    """What agents with one number of simulations play."""

    simulations: int  # of their searches
    networks: Literal["last", "earlier"] = "last"  # earlier: untrained, and of a tenth
    opponents: tuple[int, ...]  # simulations of PimBot
    games: int  # of each point, half of them in each role
    batch: int  # games side by side

    def __post_init__(self):
        if self.games < 2 or self.games % 2 or self.games // 2 % self.side_by_side:
            raise ValueError(
                f"games={self.games} must be twice a multiple of batch={self.batch}, or less"
            )

    @property
    def side_by_side(self) -> int:
        """Games of one role that are played side by side."""
        return min(self.batch, self.games // 2)

    @property
    def parts(self) -> int:
        """Batches of one role."""
        return self.games // 2 // self.side_by_side


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The agents and their games."""

    agent: str = "experiments/results/sog_london/stations"  # folder of a run of `sog_london`
    game: str = PAPER_GAME  # that the agent was trained in, and plays
    network: str = "stations"  # kind of the agent's network
    start_steps: int = 0  # of training that its first network had had in another run
    start_games: tuple[str, ...] = ()  # others that it was trained in before
    matches: tuple[Match, ...]
    # room of the searches' trees: children of a node on average, and shares of nodes at which Mr X
    # and detectives act
    children: float = CHILDREN
    decision_shares: tuple[float, float] = DECISION_SHARES
    threshold: float = 0.0  # the agent does not play what its policy plays with less than this
    exploration: float = PimBot.exploration  # C of PimBot
    reduction: float = PimBot.reduction  # r of PimBot
    seed: int = 0


_MANY = (10, 100, 1_000, 10_000)
# SoG(400,1) has a preset of its own, so that either fits into an evening of two cores. A game has
# up to 26 searches of Mr X, two of them after double cards, or 120 of the detectives.
PRESETS = {
    "smoke": Config(
        matches=(
            Match(simulations=4, opponents=(4,), games=4, batch=2),
            Match(simulations=4, networks="earlier", opponents=(4,), games=4, batch=2),
        )
    ),
    "cpu": Config(matches=(Match(simulations=100, opponents=_MANY, games=200, batch=20),)),
    "cpu_training": Config(
        matches=(
            Match(simulations=100, opponents=(10, 100), games=40, batch=20),
            Match(simulations=100, networks="earlier", opponents=(10, 100), games=40, batch=20),
        )
    ),
    # Eight games as detectives may take two hours on a core, which an interruption loses.
    # `cpu_simulations` has the games against PimBot(100).
    "cpu_400": Config(
        matches=(Match(simulations=400, opponents=(10, 1_000, 10_000), games=16, batch=8),)
    ),
    # the agent's own simulations against one opponent, beside SoG(100,1) in the preset `cpu`
    "cpu_simulations": Config(
        matches=(
            *(
                Match(simulations=simulations, opponents=(100,), games=200, batch=20)
                for simulations in (10, 32)
            ),
            Match(simulations=400, opponents=(100,), games=32, batch=8),
        )
    ),
    # ours, beside the paper's method: with few simulations policies are noisy
    "cpu_threshold": Config(
        threshold=0.15,
        matches=(Match(simulations=100, opponents=(100, 1_000), games=200, batch=20),),
    ),
    "large": Config(
        matches=(
            Match(simulations=100, opponents=_MANY, games=2_000, batch=200),
            Match(simulations=100, networks="earlier", opponents=_MANY, games=2_000, batch=200),
            Match(simulations=400, opponents=_MANY, games=2_000, batch=200),
            # a tree of PimBot with 100,000 simulations takes 0.11 GB
            Match(simulations=100, opponents=(100_000,), games=2_000, batch=50),
            Match(simulations=400, opponents=(100_000,), games=2_000, batch=50),
        )
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    agent: pathlib.Path = pathlib.Path(Config.agent)
    """Folder of a run of sog_london, with its networks; those of its preset stations are in the
    repository. The run need not be finished: the last network so far plays, also if this run is
    resumed later."""


def configure(config: Config, options: Options) -> Config:
    """The preset with another agent, whose networks can be read.

    Raises:
      ValueError: the folder has no trained agent, or a network is damaged or another one.
      OSError: a network cannot be read.
    """
    trained = read_student(options.agent)
    for step in {step for match in config.matches for step in steps(match, trained.compared)}:
        trained.params(step)
    of_the_agent = {name: trained.config[name] for name in ("game", "network")}
    of_the_agent["start_steps"] = trained.config.get("start_steps", 0)
    of_the_agent["start_games"] = trained.start_games
    return dataclasses.replace(config, agent=str(options.agent), **of_the_agent)


def steps(match: Match, compared: Sequence[int]) -> Sequence[int]:
    """Steps of training after which the networks of a match were kept.

    Args:
      match: whose networks are wanted.
      compared: steps of training that are compared, the last one of all training.
    """
    return compared[-1:] if match.networks == "last" else compared[:-1]
