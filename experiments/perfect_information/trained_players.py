"""Trained AlphaZero and Student of Games as players, each network with either search."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable
from typing import Any

from jaxtyping import PyTree

from experiments.engines import networks
from experiments.harness import runs
from experiments.harness.network_files import NETWORKS, network_file
from experiments.harness.runs import Run
from experiments.perfect_information.student_search import student_search
from jaxgames.beliefs.contract import BeliefGame
from solvers.perfect_information import alphazero_search
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.evaluators import BeliefEvaluator, PositionEvaluator
from solvers.perfect_information.growing_tree_agent import GrowingTreeAgent
from solvers.search import leaf_evaluators

ALPHAZERO, STUDENT = "AlphaZero", "SoG"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """A network, or none, as both searches ask it."""

    params: PyTree = None
    of_positions: Any = alphazero_search.zero  # for AlphaZero's search
    of_beliefs: Any = leaf_evaluators.zero  # for growing-tree CFR

    def alphazero(self, simulations: int) -> AlphaZeroAgent:
        """The player with AlphaZero's search."""
        settings = AlphaZero(self.of_positions, simulations=simulations)
        return AlphaZeroAgent(params=self.params, settings=settings)

    def student_of_games(
        self, simulations: int, *, pace: float | None = None, expand: int = 1
    ) -> GrowingTreeAgent:
        """The player with growing-tree CFR.

        Args:
          simulations: of a search.
          pace: c, simulations for an iteration of CFR; None: the paper's.
          expand: k, children that a new node starts with.
        """
        settings = student_search(self.of_beliefs, simulations, pace=pace, expand=expand)
        return GrowingTreeAgent(params=self.params, settings=settings)


def trained_networks(folder: str) -> int:
    """How many networks a run of training has trained so far, one for each seed.

    Raises:
      ValueError: the folder has no run, or no network.
    """
    names = {*_names(folder)}
    if "seeds" not in runs.read_config(pathlib.Path(folder)):
        return 1
    trained = next(seed for seed in itertools.count() if str(seed) not in names)
    if not trained:
        raise ValueError(f"{folder}: there is no network of seed 0 whose training has ended")
    return trained


def last_network(folder: str, seed: int) -> str:
    """The name of the last network of a run, finished or not.

    Args:
      folder: of the run.
      seed: whose network it is in runs that train several; others name networks by their steps.

    Raises:
      ValueError: the folder has no run, or no network.
    """
    names = _names(folder)
    if "seeds" in runs.read_config(pathlib.Path(folder)):
        return str(seed)
    return str(max(map(int, names)))


def _names(folder):
    """The names of a run's networks."""
    names = [path.stem for path in (pathlib.Path(folder) / NETWORKS).glob("*.npz")]
    if not names:
        raise ValueError(f"{folder} must be a folder of a run of training, with {NETWORKS}")
    return names


def read_network(agent: str, folder: str, name: str, game: BeliefGame) -> Network:
    """A network that a run of training has left.

    Args:
      agent: that was trained, `ALPHAZERO` or `STUDENT`.
      folder: of the run; empty: there is no network, all values are 0 and all priors uniform.
      name: of the network's file.
      game: that it was trained in.

    Raises:
      ValueError: there is no such network, or it is of another kind or another game.
      OSError: a file cannot be read.
    """
    if not folder:
        return Network()
    path = network_file(pathlib.Path(folder), name)
    if not path.is_file():
        raise ValueError(f"{folder} must be a folder of a run of training, with {path}")
    return read_network_file(agent, path, game)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkName:
    """Which network plays, also after an interruption in which its training has gone on."""

    agent: str
    seed: int
    name: str


def read_last_networks(
    run: Run, game: BeliefGame, seeds: Iterable[int]
) -> list[dict[str, Network]]:
    """For each seed the last networks of both agents' runs, finished or not, by agent.

    Args:
      run: whose config has the folders; if it is resumed, those networks play with which it began.
      game: that they were trained in.
      seeds: of runs that train several networks.

    Raises:
      ValueError, OSError: as of `last_network` and `read_network`.
    """
    folders = {ALPHAZERO: run.config.alphazero, STUDENT: run.config.student_of_games}

    def last():
        for seed, (agent, folder) in itertools.product(seeds, folders.items()):
            name = last_network(folder, seed) if folder else ""
            yield NetworkName(agent=agent, seed=seed, name=name)

    found: dict[int, dict[str, Network]] = {}
    for known in run.kept("networks", NetworkName, last):
        network = read_network(known.agent, folders[known.agent], known.name, game)
        found.setdefault(known.seed, {})[known.agent] = network
    return [*found.values()]


def read_network_file(agent: str, path: str | pathlib.Path, game: BeliefGame) -> Network:
    """The network in a file of a run's folder `networks`.

    Args:
      agent: that was trained, `ALPHAZERO` or `STUDENT`.
      path: of the file.
      game: that it was trained in.

    Raises:
      ValueError: it is of another kind or another game.
      OSError: a file cannot be read.
    """
    path = pathlib.Path(path)
    if agent == ALPHAZERO:
        evaluate, params = networks.load_value_prior(path, game)
        others = BeliefEvaluator(evaluate)
        return Network(params=params, of_positions=evaluate, of_beliefs=others)
    own, params = networks.load_cvpn(path, game)
    return Network(params=params, of_positions=PositionEvaluator(own), of_beliefs=own)
