"""Games of Student of Games against PimBot, in either role."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
from jaxtyping import Array, Key, PyTree

from experiments.harness.progress import counter, progress
from experiments.harness.win_shares import Share
from jaxgames.scotland_yard.beliefs import ScotlandYardBeliefs
from solvers.scotland_yard.match_batches import Play
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
    settings = dataclasses.replace(search, max_path=room_for_paths(beliefs))
    return SearchMatchAgent(beliefs=beliefs, params=params, settings=settings)


def room_in_words(children: float, decision_shares: tuple[float, float]) -> str:
    """What searches of `GrowingTreeCfr` with these settings leave out, in words."""
    his, theirs = (f"{share:.0%}" for share in decision_shares)
    return (
        f"trees of searches have room for {children:g} children a node on average, and for"
        f" decisions of Mr X at {his} and of the detectives at {theirs} of the nodes; a tree that"
        " is full stops growing"
    )


def won_by_mr_x(
    play: Play,
    agents: tuple[MatchAgent, MatchAgent],
    keys: Key[Array, " G"],
    *,
    batch: int,
    report: Callable[[int], None] = lambda games: None,
) -> int:
    """Plays G games, `batch` at a time, and counts those that Mr X wins.

    Args:
      play: of `compiled_play`.
      agents: who plays Mr X, and who plays the detectives.
      keys: consumed, one for each game.
      batch: games side by side.
      report: is called with the number of games that have ended since the last call.

    Raises:
      ValueError: an agent has played an illegal action.
    """
    won = 0
    for begin in range(0, len(keys), batch):
        played = play(agents, keys[begin : begin + batch], report)
        if not played.legal.all():
            names = " and ".join(type(agent).__name__ for agent in agents)
            raise ValueError(f"an illegal action was played in a game between {names}")
        won += int(played.mr_x_won.sum())
    return won


def play_games(
    play: Play, player: MatchAgent, opponent: MatchAgent, *, role: str, games: Games
) -> Share:
    """Plays games, and shows a progress bar.

    Args:
      play: of `compiled_play`.
      player: whose wins are counted.
      opponent: plays the other side.
      role: of the player, one of `ROLES`.
      games: how many, and from which random numbers.

    Returns:
      The games that `player` has won.

    Raises:
      ValueError: an agent has played an illegal action.
    """
    agents = (player, opponent) if role == MR_X else (opponent, player)
    keys = jax.random.split(games.key, games.number)
    with progress(games.title, games.number) as report:
        won = won_by_mr_x(play, agents, keys, batch=games.batch, report=counter(report))
    return Share(wins=won if role == MR_X else games.number - won, games=games.number)
