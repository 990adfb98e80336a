"""Training Student of Games for Scotland Yard on the map of London (Schmid et al. 2023, Fig. 5).

A network learns by sound self-play; detectives and Mr X are dealt anew in each game. Exploitability
cannot be computed here. In its place the agent, with the searches of training, meets PimBot with a
few simulations as training goes on, in both roles. `sog_pimbot` measures the trained agent.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence

import jax
from flax import nnx
from jaxtyping import PyTree
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run, RunArguments
from experiments.harness.win_shares import WILSON, Share, error_bars
from experiments.scotland_yard.agent_games import (
    ROLES,
    Games,
    play_games,
    student_player,
)
from experiments.scotland_yard.trained_students import NETWORKS
from experiments.student_of_games.training_run import LOG, student
from jaxgames.registry import make
from jaxgames.scotland_yard.beliefs import scotland_yard_beliefs
from nets import cvpn
from solvers.scotland_yard.match_batches import compiled_play
from solvers.scotland_yard.matches import make_pimbot
from solvers.scotland_yard.pimbot import PimBot
from solvers.search.search_state import GrowingTreeCfr
from train.learner import PAPER_SETTINGS, LearnerSettings
from train.paper_settings import paper_settings
from train.student_of_games_training import StudentOfGamesSettings

_MAX_PATH = 3  # public states from one decision to the next: Mr X's move, and showing himself


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The training and its measurements.

    A step of training plays `episodes` moves of self-play and solves `solves` queries at most.
    """

    game: str = "scotland_yard"
    measured_at: tuple[int, ...]  # steps of training, which ends at the last
    simulations: int = 32  # of searches in training and when measured
    width: int = 512
    depth: int = 6
    # room of the searches' trees: children of a node on average, and shares of nodes at which Mr X
    # and detectives act
    children: float = 16.0
    decision_shares: tuple[float, float] = (0.4, 1.0)
    episodes: int
    solves: int
    updates: int  # gradient updates in a step
    learner: LearnerSettings
    opponent: int = 10  # simulations of PimBot when measured
    games: int  # of each role when measured
    batch: int  # games side by side when measured
    exploration: float = PimBot.exploration  # C of PimBot
    reduction: float = PimBot.reduction  # r of PimBot
    seed: int = 0


_CPU = LearnerSettings(
    learning_rate=1e-3,
    decay_rate=0.05,
    decay_steps=40_000,
    batch_size=256,
    capacity=50_000,
    max_uses=20,
    policy_weight=0.05,
)
PRESETS = {
    "smoke": Config(
        game="scotland_yard(map=glasses,rounds=3)",
        measured_at=(0, 6),
        simulations=4,
        width=16,
        depth=1,
        children=4.0,
        episodes=4,
        solves=4,
        updates=1,
        learner=dataclasses.replace(_CPU, batch_size=8, capacity=256, decay_steps=6),
        games=4,
        batch=2,
    ),
    "cpu": Config(
        measured_at=(0, 2_000, 6_000, 20_000),
        episodes=24,
        solves=8,
        updates=2,
        learner=_CPU,
        games=48,
        batch=48,
    ),
    "paper": Config(
        measured_at=(0, 100_000, 1_000_000, 17_000_000),
        episodes=768,
        solves=256,
        updates=4,
        learner=PAPER_SETTINGS["scotland_yard"],
        games=1_000,
        batch=200,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    seed: int = 0
    """Seed of the initial network, of training and of the games."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """Games after some training."""

    step: int
    role: str  # of Student of Games
    games: int
    won: int

    @property
    def share(self) -> Share:
        """The games that were won."""
        return Share(wins=self.won, games=self.games)


def search_settings(config: Config, graph: nnx.GraphDef) -> GrowingTreeCfr:
    """The searches of training."""
    return GrowingTreeCfr(
        cvpn.CvpnEvaluator(graph),
        simulations=config.simulations,
        children=config.children,
        decision_shares=config.decision_shares,
        max_path=_MAX_PATH,
    )


def training_settings(config: Config, graph: nnx.GraphDef) -> StudentOfGamesSettings:
    """The paper's settings for Scotland Yard (Table S2), with the config's sizes and learner."""
    sizes = {name: getattr(config, name) for name in ("episodes", "solves", "updates", "learner")}
    return paper_settings("scotland_yard", search_settings(config, graph), **sizes)


def compute(run: Run) -> list[Measured]:
    """Trains, keeps networks, and plays against PimBot on the way."""
    config = run.config
    rules = make(config.game)
    starts = rules.detective_starts[: rules.detectives]
    beliefs = scotland_yard_beliefs(rules, detective_starts=starts)  # games are dealt anew
    network = cvpn.new_cvpn(beliefs, seed=config.seed, width=config.width, depth=config.depth)
    graph, _ = nnx.split(network)
    settings = training_settings(config, graph)
    trainee = student(beliefs, network, settings, run, seed=config.seed)
    pimbot = make_pimbot(
        rules,
        PimBot(
            simulations=config.opponent, exploration=config.exploration, reduction=config.reduction
        ),
    )
    play = compiled_play(rules, run.mesh)

    def measure(step: int) -> Iterator[Measured]:
        trainee.train(step)
        player = student_player(beliefs, trainee.params, settings.search)
        for number, role in enumerate(ROLES):
            games = Games(
                title=f"step {step:,}, {role}",
                number=config.games,
                batch=config.batch,
                key=jax.random.fold_in(jax.random.key(config.seed + 1), number),
            )
            won = play_games(play, player, pimbot, role=role, games=games)
            yield Measured(step=step, role=role, games=won.games, won=won.wins)
        if run.writes:
            _write_network(run.out / NETWORKS / f"{step}.npz", trainee.params)

    found = []
    for step in config.measured_at:
        found += run.kept(f"step-{step}", Measured, functools.partial(measure, step))
    return found


def _write_network(path: pathlib.Path, params: PyTree) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    results.write_file(path, cvpn.to_bytes(params))


def rows(config: Config, found: Sequence[Measured]) -> Iterator[dict[str, object]]:
    """A row for each measurement."""
    for each in found:
        low, high = each.share.interval
        yield dataclasses.asdict(each) | {"low": low, "high": high}


def numbers(config: Config, found: Sequence[Measured]) -> Iterator[results.Number]:
    """The share of games that were won, by step and role."""
    for each in found:
        (low, high), value = each.share.interval, each.share.value
        name = f"step {each.step}, {each.role}"
        yield results.Number(name=name, value=value, unit="share of games", low=low, high=high)


def draw(path: pathlib.Path, config: Config, found: Sequence[Measured]) -> None:
    """Shares of games by steps of training, a line for each role."""
    with plots.figure(path, rows=1, columns=1, size=(5.6, 3.6)) as axes:
        for number, role in enumerate(ROLES):
            mine = [each for each in found if each.role == role]
            shares = [each.share for each in mine]
            axes[0, 0].errorbar(
                [each.step for each in mine],
                [share.value for share in shares],
                error_bars(shares),
                label=f"as {role}",
                color=plots.colour(number),
                marker=plots.marker(number),
                capsize=2,
            )
        axes[0, 0].set(
            xlabel="steps of training",
            ylabel=f"share of games won against PimBot({config.opponent})",
            ylim=(0, 1),
        )


def tables(config: Config, found: Sequence[Measured]) -> Iterator[Table]:
    """Games won by steps of training."""
    lines = [
        (f"{step:,}", *(f"{m.won} of {m.games}" for m in found if m.step == step))
        for step in config.measured_at
    ]
    title = (
        f"sog_london: games won by SoG({config.simulations},1) against PimBot({config.opponent})"
    )
    yield text_table(title, ("step", *(f"as {role}" for role in ROLES)), lines, labels=0)


def deviations(config: Config) -> list[str]:
    """What differs from the paper."""
    learner = config.learner
    return [
        f"{config.measured_at[-1]:,} steps of {config.episodes} moves and {config.solves} queries"
        " at most; the paper: up to 17 million steps",
        f"searches of training have {config.simulations} simulations; the paper does not say how"
        " many it trains with",
        *(
            []
            if learner == PAPER_SETTINGS["scotland_yard"]
            else [
                f"{learner.optimizer} with learning rate {learner.learning_rate:g}, batches of"
                f" {learner.batch_size}, {learner.capacity:,} examples in replay, each used up to"
                f" {learner.max_uses} times (the paper: sgd, 0.1, 1,024, 1 million, 5)"
            ]
        ),
    ]


COMMAND = Experiment(
    name="sog_london",
    shown="games won against PimBot by training steps",
    options=Options,
    configure=lambda config, options: dataclasses.replace(config, seed=options.seed),
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "half a day on two cores, in the background",
        "paper": "as long as the paper's training, for accelerators",
    },
    batches=lambda config: {
        "episodes": config.episodes,
        "solves": config.solves,
        "batch_size": config.learner.batch_size,
        "capacity": config.learner.capacity,
        "queue_capacity": StudentOfGamesSettings.queue_capacity,
        "batch": config.batch,
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=WILSON,
    measure=lambda config: (
        f"share of games in {config.game} that SoG({config.simulations},1) wins against PimBot with"
        f" {config.opponent} simulations; it searches at its own decisions"
    ),
    deviations=deviations,
    more_files=(LOG, NETWORKS),
)
