"""Matches of trained AlphaZero and Student of Games with different numbers of simulations."""

from __future__ import annotations

import dataclasses
import itertools

from experiments.harness.runs import Run
from experiments.perfect_information import paired_matches
from experiments.perfect_information.paired_matches import Pair
from experiments.perfect_information.student_search import agent_name
from experiments.perfect_information.trained_players import (
    ALPHAZERO,
    STUDENT,
    read_last_networks,
)
from jaxgames.adapters.pgx_beliefs import pgx_beliefs

AGENTS = (ALPHAZERO, STUDENT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The players and their matches."""

    game: str = "connect_four"  # of pgx
    alphazero: str = ""  # folder of the run that trained it; empty: search without a network
    student_of_games: str = ""
    network: int = 0  # the seed of the networks, of runs that train several
    simulations: tuple[int, ...]
    everybody: bool  # meets everybody, or else the next on the ladder and the rival of equal search
    pairs: int  # of games, in each match
    opening_moves: int = 4  # drawn at random
    batch: int  # pairs that are played and kept together; positions side by side
    seed: int = 0


def players(config: Config) -> list[tuple[str, int]]:
    """Agents and simulations: first all of AlphaZero."""
    return [*itertools.product(AGENTS, config.simulations)]


def name_of(agent: str, simulations: int) -> str:
    """Such as AlphaZero(800) and SoG(800,10)."""
    return agent_name(simulations) if agent == STUDENT else f"{agent}({simulations})"


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
    met = [(first, second, config.network) for first, second in schedule(config)]
    (networks,) = read_last_networks(run, game, [config.network])
    agents = [networks[agent].player(agent, count) for agent, count in players(config)]
    return paired_matches.play_matches(run, game, agents, met)
