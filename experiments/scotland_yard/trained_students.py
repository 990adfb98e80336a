"""Agents of Student of Games that `sog_london` has trained, read from its folders."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from flax import nnx
from jaxtyping import PyTree

from experiments.harness import results
from experiments.harness.network_files import NETWORKS, network_file
from experiments.harness.runs import read_config
from experiments.scotland_yard.agent_games import student_player
from jaxgames.registry import make
from jaxgames.scotland_yard.beliefs import ScotlandYardBeliefs, scotland_yard_beliefs
from jaxgames.scotland_yard.rules import ScotlandYard
from nets import cvpn, parameters
from nets.station_network import StationNetwork, new_station_network
from solvers.scotland_yard.search_match_agent import SearchMatchAgent
from solvers.search.search_state import GrowingTreeCfr

_SIZES = "network", "width", "depth", "dtype"  # of the network, in the config
# Room of the searches' trees: children of a node on average, and shares of nodes at which Mr X and
# detectives act.
CHILDREN, DECISION_SHARES = 12.0, (0.3, 1.0)


@dataclasses.dataclass(frozen=True)
class TrainedStudent:
    """What a run of `sog_london` has left, or has kept so far."""

    folder: pathlib.Path
    config: dict
    steps: tuple[int, ...]  # after which networks were kept

    @functools.cached_property
    def rules(self) -> ScotlandYard:
        """The game that the agent was trained in."""
        return make(self.config["game"])

    @property
    def start_games(self) -> tuple[str, ...]:
        """Other games that its first network was trained in, in runs before."""
        return tuple(self.config.get("start_games", ()))

    @functools.cached_property
    def beliefs(self) -> ScotlandYardBeliefs:
        """The same game by beliefs, after one of its deals."""
        starts = self.rules.detective_starts[: self.rules.detectives]
        return scotland_yard_beliefs(self.rules, detective_starts=starts)

    @functools.cached_property
    def _network(self):
        """The graph of its networks, and parameters that are not trained."""
        return nnx.split(new_network(self.beliefs, self.config, seed=0))

    @property
    def compared(self) -> tuple[int, ...]:
        """The first network, the one nearest to a tenth of the training, and the last."""
        last = self.steps[-1]
        tenth = min(self.steps, key=lambda step: abs(step - last / 10))
        return tuple(dict.fromkeys((self.steps[0], tenth, last)))

    def params(self, step: int) -> PyTree:
        """The parameters of the network that was kept after `step` steps of training.

        Raises:
          ValueError: the file is damaged, or of another network than the run's; names it.
          OSError: the file cannot be read.
        """
        try:
            return parameters.read_params(network_file(self.folder, step), self._network[1])
        except ValueError as error:
            sizes = ", ".join(f"{name}={self.config[name]}" for name in ("game", *_SIZES))
            raise ValueError(f"{error}; its run has {sizes}") from None

    def player(
        self,
        step: int,
        simulations: int,
        *,
        children: float = CHILDREN,
        decision_shares: tuple[float, float] = DECISION_SHARES,
    ) -> SearchMatchAgent:
        """The agent with the network that was kept after `step` steps.

        Args:
          step: of training, one of `steps`.
          simulations: of its searches.
          children: of a node on average, for which the searches' trees have room.
          decision_shares: of the nodes at which Mr X and detectives act, likewise.

        Raises:
          ValueError: as of `params`, or there are no simulations.
          OSError: as of `params`.
        """
        graph, params = self._network[0], self.params(step)
        search = GrowingTreeCfr(
            cvpn.CvpnEvaluator(graph),
            simulations=simulations,
            children=children,
            decision_shares=decision_shares,
        )
        return student_player(self.beliefs, params, search)


def new_network(
    beliefs: ScotlandYardBeliefs, config: Mapping[str, Any], *, seed: int
) -> cvpn.Cvpn | StationNetwork:
    """A network with random parameters.

    Args:
      beliefs: the game.
      config: of a run of `sog_london`, by name: which network, its sizes, and its precision.
      seed: of the parameters.
    """
    sizes = {name: config[name] for name in ("width", "depth", "dtype")}
    new = new_station_network if config["network"] == "stations" else cvpn.new_cvpn
    return new(beliefs, seed=seed, **sizes)


def trained_elsewhere(games: Sequence[str]) -> str:
    """In words, the other games in which a network had steps of its training; empty for none."""
    return f", also in {' and '.join(games)}" if games else ""


def trained_player(folder: pathlib.Path, game: ScotlandYard, simulations: int) -> SearchMatchAgent:
    """The agent with the last network that a run has kept so far.

    Args:
      folder: of a run of `sog_london`.
      game: that the agent is to play.
      simulations: of its searches.

    Raises:
      ValueError: as of `read_student` and `TrainedStudent.player`, or the agent was trained in
        another game.
      OSError: the network cannot be read.
    """
    student = read_student(folder)
    if student.rules != game:
        raise ValueError(f"agent={folder} was trained in {student.rules}, and cannot play {game}")
    return student.player(student.steps[-1], simulations)


def read_student(folder: pathlib.Path) -> TrainedStudent:
    """What a run of `sog_london` has left, or has kept so far if it is not finished.

    Raises:
      ValueError: the folder has no such run, or not its networks, which git does not see.
    """
    try:
        config = read_config(folder, experiment="sog_london")
        # What is kept of a run that is not finished does not say of which experiment it is.
        if not {"game", "opponents", *_SIZES} <= config.keys():
            raise ValueError("its run is of another experiment")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"agent={folder} must be the folder of a run of sog_london: {error}"
        ) from error
    steps = sorted(int(path.stem) for path in (folder / NETWORKS).glob("*.npz"))
    if not steps:
        missing = (
            "they are large, and not in the repository; train them with sog_london, or name another"
            " folder"
            if (folder / results.RESULT_FILE).exists()
            else "its run is not finished, and keeps the first before its first games"
        )
        raise ValueError(f"agent={folder} has no networks in {NETWORKS}: {missing}")
    return TrainedStudent(folder, config, tuple(steps))
