"""Matches of trained AlphaZero and Student of Games with different numbers of simulations."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.engines import networks
from experiments.harness import devices
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from experiments.perfect_information.simulation_pace import simulation_pace
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs.contract import BeliefGame
from solvers.perfect_information import alphazero_search, matches
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.growing_tree_agent import GrowingTreeAgent
from solvers.search import leaf_evaluators
from solvers.search.search_state import GrowingTreeCfr

ALPHAZERO, STUDENT = "AlphaZero", "SoG"
AGENTS = (ALPHAZERO, STUDENT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The players and their matches."""

    game: str = "connect_four"  # of pgx
    alphazero: str = ""  # folder of the run that trained it; empty: search without a network
    student_of_games: str = ""
    network: int = 0  # which of the networks of each run
    simulations: tuple[int, ...]
    everybody: bool  # meets everybody, or else the next on the ladder and the rival of equal search
    pairs: int  # of games, in each match
    opening_moves: int = 4  # drawn at random
    batch: int  # pairs that are played and kept together; positions side by side
    seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """Two games from one opening; players are numbers of `players`."""

    first: int
    second: int
    opening: int
    begun: float  # what the first player won in the game that it began: 1, 0 or -1
    answered: float  # and in the other one

    @property
    def share(self) -> float:
        """Of the points of both games, what the first player got."""
        return (2 + self.begun + self.answered) / 4


def players(config: Config) -> list[tuple[str, int]]:
    """Agents and simulations: first all of AlphaZero."""
    return [*itertools.product(AGENTS, config.simulations)]


def name_of(agent: str, simulations: int) -> str:
    """Such as AlphaZero(800) and SoG(800,10)."""
    pace = f",{simulation_pace(simulations):g}" if agent == STUDENT else ""
    return f"{agent}({simulations}{pace})"


def schedule(config: Config) -> list[tuple[int, int]]:
    """Who meets whom."""
    every, count = range(2 * len(config.simulations)), len(config.simulations)
    if config.everybody:
        return [*itertools.combinations(every, 2)]
    across = [(number, number + count) for number in range(count)]
    return [(i, i + 1) for i in every if (i + 1) % count] + across


def play_matches(run: Run) -> list[Pair]:
    """All games, match by match, in pieces that are kept."""
    config, game = run.config, pgx_beliefs(run.config.game)
    play, met = _player_of_pairs(run, game), schedule(config)
    found: list[Pair] = []
    with progress("pairs of games", len(met) * config.pairs) as report:
        count = counter(report)
        for first, second in met:
            for begin in range(0, config.pairs, config.batch):
                numbers = np.arange(begin, min(begin + config.batch, config.pairs))
                found += run.kept(
                    f"{first}-{second}-{begin}",
                    Pair,
                    lambda first=first, second=second, numbers=numbers: play(
                        first, second, numbers
                    ),
                )
                count(len(numbers))
    return found


def _player_of_pairs(run: Run, game: BeliefGame) -> Callable[..., Iterator[Pair]]:
    """A function that plays the pairs of these numbers between two players."""
    config, mesh = run.config, devices.local(run.mesh)
    chooses = [matches.chooser(game, agent, mesh) for agent in _agents(config, game)]
    openings = matches.draw_openings(
        game, number=config.pairs, length=config.opening_moves, seed=config.seed
    )

    def play(first, second, numbers):
        key = jax.random.fold_in(jax.random.key(config.seed), first * len(chooses) + second)
        won = matches.play_pairs(
            game,
            jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.asarray(numbers)),
            [chooses[first], chooses[second]],
            openings[numbers],
            batch=config.batch,
            devices=1 if mesh is None else mesh.size,
        )
        for number, (begun, answered) in zip(numbers.tolist(), won.tolist(), strict=True):
            yield Pair(first=first, second=second, opening=number, begun=begun, answered=answered)

    return play


def _agents(config: Config, game: BeliefGame) -> list[Any]:
    """The agents of all players."""
    evaluate, params = _network(config, config.alphazero, networks.load_value_prior, game)
    own, own_params = _network(config, config.student_of_games, networks.load_cvpn, game)
    found = []
    for agent, count in players(config):
        if agent == ALPHAZERO:
            search = AlphaZero(evaluate or alphazero_search.zero, simulations=count)
            found.append(AlphaZeroAgent(params=params, settings=search))
        else:
            settings = GrowingTreeCfr(
                own or leaf_evaluators.zero,
                simulations=count,
                pace=simulation_pace(count),
                max_path=1,
                expand=1,
            )
            found.append(GrowingTreeAgent(params=own_params, settings=settings))
    return found


def _network(config, folder, load, game):
    """The evaluator and the parameters of a run's network; None and None without one."""
    if not folder:
        return None, None
    path = pathlib.Path(folder) / "networks" / f"{config.network}.npz"
    if not path.is_file():
        raise ValueError(f"{folder} must be a folder of a finished run, with {path}")
    return load(path, game)
