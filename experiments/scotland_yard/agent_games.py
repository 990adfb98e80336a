"""Games of Student of Games against PimBot, in either role."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, PyTree

from experiments.harness.progress import counter, progress
from jaxgames.scotland_yard.beliefs import ScotlandYardBeliefs
from jaxgames.scotland_yard.rules import ScotlandYard
from solvers.device_batches import split_calls
from solvers.scotland_yard import matches
from solvers.scotland_yard.matches import MatchAgent
from solvers.scotland_yard.search_match_agent import SearchMatchAgent, room_for_paths
from solvers.search.search_state import GrowingTreeCfr

MR_X, DETECTIVES = ROLES = ("Mr X", "detectives")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Games:
    """How many games are played, and how."""

    title: str  # of the progress bar
    number: int  # a multiple of `batch`
    batch: int  # side by side
    key: Array

    def __post_init__(self):
        if self.number < 1 or self.number % self.batch:
            raise ValueError(f"number={self.number} of games must be a multiple of {self.batch}")


def student_player(
    beliefs: ScotlandYardBeliefs, params: PyTree, search: GrowingTreeCfr
) -> SearchMatchAgent:
    """An agent that searches at its own decisions, with room for the paths between them."""
    settings = dataclasses.replace(search, max_path=room_for_paths(beliefs), logged_queries=0)
    return SearchMatchAgent(beliefs=beliefs, params=params, settings=settings)


def play_games(
    rules: ScotlandYard,
    player: MatchAgent,
    opponent: MatchAgent,
    *,
    role: str,
    games: Games,
    mesh: Mesh | None,
) -> int:
    """Plays games, and shows a progress bar.

    Args:
      rules: of the games.
      player: whose wins are counted.
      opponent: plays the other side.
      role: of the player, one of `ROLES`.
      games: how many, and from which random numbers.
      mesh: the devices that share batches; None: one.

    Returns:
      The number of games that `player` has won.
    """
    agents = (player, opponent) if role == MR_X else (opponent, player)
    play = jax.jit(split_calls(lambda agents, keys: matches.play(rules, keys, *agents), mesh))
    keys, won = jax.random.split(games.key, games.number), 0
    with progress(games.title, games.number) as report:
        count = counter(report)
        for begin in range(0, games.number, games.batch):
            played = play(agents, keys[begin : begin + games.batch])
            won += int(np.sum(np.asarray(played.mr_x_won) == (role == MR_X)))
            count(games.batch)
    return won
