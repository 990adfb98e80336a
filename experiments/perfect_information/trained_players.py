"""Trained AlphaZero and Student of Games as players, each network with either search."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

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
from solvers.perfect_information.matches import Agent
from solvers.search import leaf_evaluators

ALPHAZERO, STUDENT = "AlphaZero", "SoG"
OPTION_OF = {ALPHAZERO: "alphazero", STUDENT: "student_of_games"}  # of commands, and in configs
Found = TypeVar("Found")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """A network, or none, as both searches ask it."""

    params: PyTree = None
    of_positions: Any = alphazero_search.zero  # for AlphaZero's search
    of_beliefs: Any = leaf_evaluators.zero  # for growing-tree CFR

    def player(
        self, search: str, simulations: int, *, pace: float | None = None, expand: int = 1
    ) -> Agent:
        """The player with a search.

        Args:
          search: whose: `ALPHAZERO`, or `STUDENT` for growing-tree CFR.
          simulations: of a search.
          pace: c of growing-tree CFR, simulations for an iteration of CFR; None: the paper's.
          expand: k of growing-tree CFR, children that a new node starts with.
        """
        if search == ALPHAZERO:
            alphazero = AlphaZero(self.of_positions, simulations=simulations)
            return AlphaZeroAgent(params=self.params, settings=alphazero)
        settings = student_search(self.of_beliefs, simulations, pace=pace, expand=expand)
        return GrowingTreeAgent(params=self.params, settings=settings)


def in_folders(options: Any, find: Callable[[str], Found]) -> dict[str, Found]:
    """What a function finds in the folders of both agents' runs, by agent.

    Args:
      options: of a command, with both folders; None: there is none, and it is left out.
      find: takes a folder.

    Raises:
      ValueError: as `find` does, with the name of the option.
    """
    found = {}
    for agent, option in OPTION_OF.items():
        folder = getattr(options, option)
        if folder is not None:
            try:
                found[agent] = find(str(folder))
            except ValueError as error:
                raise ValueError(f"{option}: {error}") from None
    return found


def networks_of(config: Any) -> dict[str, str]:
    """The folders, or the files, of both agents' networks in a config, by agent; empty: none."""
    return {agent: getattr(config, option) for agent, option in OPTION_OF.items()}


def without_networks(config: Any) -> Iterator[str]:
    """A deviation for each agent of a config that has no network, in words."""
    for agent, folder in networks_of(config).items():
        if not folder:
            yield f"{agent} is without a network: all values are 0 and all priors uniform"


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


def last_network(folder: str, seed: int) -> pathlib.Path:
    """The file of the last network of a run, finished or not.

    Args:
      folder: of the run.
      seed: whose network it is in runs that train several; others name networks by their steps.

    Raises:
      ValueError: the folder has no run, or no such network.
    """
    names = _names(folder)
    alone = "seeds" not in runs.read_config(pathlib.Path(folder))
    return existing_network(folder, str(max(map(int, names)) if alone else seed))


def existing_network(folder: str, name: str) -> pathlib.Path:
    """The file of a network of a run.

    Raises:
      ValueError: it is not there.
    """
    path = network_file(pathlib.Path(folder), name)
    if not path.is_file():
        raise ValueError(f"{folder} must be a folder of a run of training, with {path}")
    return path


def _names(folder):
    """The names of a run's networks."""
    names = [path.stem for path in (pathlib.Path(folder) / NETWORKS).glob("*.npz")]
    if not names:
        raise ValueError(f"{folder} must be a folder of a run of training, with {NETWORKS}")
    return names


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownNetwork:
    """Which network plays, also after an interruption in which its training has gone on."""

    agent: str
    seed: int
    name: str  # of its file; empty: there is no network
    checksum: str = ""  # of the file; empty: not known, in runs of before


def read_last_networks(
    run: Run, game: BeliefGame, seeds: Iterable[int]
) -> list[dict[str, Network]]:
    """For each seed the last networks of both agents' runs, finished or not, by agent.

    Args:
      run: whose config has the folders; if it is resumed, those networks play with which it began.
      game: that they were trained in.
      seeds: of runs that train several networks.

    Raises:
      ValueError, OSError: as of `last_network` and `read_network_file`; a resumed run began with
        another network of this name.
    """
    folders = networks_of(run.config)

    def last():
        for seed, (agent, folder) in itertools.product(seeds, folders.items()):
            which = KnownNetwork(agent=agent, seed=seed, name="")
            if folder:
                path = last_network(folder, seed)
                which = dataclasses.replace(which, name=path.stem, checksum=runs.checksum([path]))
            yield which

    found: dict[int, dict[str, Network]] = {}
    for known in run.kept("networks", KnownNetwork, last):
        network = Network()
        if known.name:
            path = existing_network(folders[known.agent], known.name)
            if known.checksum not in ("", runs.checksum([path])):
                raise ValueError(
                    f"{path} is another network than the one that this run began with: use another"
                    " --out, or --overwrite to start again"
                )
            network = read_network_file(known.agent, path, game)
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
