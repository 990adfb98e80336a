"""Scotland Yard solved stage by stage, from one move after which Mr X shows himself to the next.

Once he has shown himself all positions are common knowledge. What follows from such a *board* is a
game of its own, whatever came before. So the last boards are solved first, and in the stage before
their values stand for all that follows. This solves games that are far too long for a list of all
their public states. (Where something stays hidden a subgame has no value of its own; see Burch,
Johanson and Bowling 2014.)

Many boards are solved together, as one sequence form with many roots. Boards of a stage differ in
the stations, in who moves next, or in cards that may run out; stages differ in the rounds left.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from jaxgames.beliefs import NO_STATE, Listing, list_public_states
from jaxgames.beliefs.listing import MAX_STATES
from jaxgames.scotland_yard.beliefs import NOT_SHOWING, ScotlandYardBeliefs, YardPublicState
from solvers import cfr, evaluation
from solvers.sequence_form import sequence_form_of_beliefs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """The B boards at one move of Mr X, and what they are worth to him."""

    moves: int  # that Mr X has made
    boards: YardPublicState  # [B, ...] as NumPy arrays
    values: Float[np.ndarray, " B"]
    errors: Float[np.ndarray, " B"]  # exploitability of the stage's policies, later values given
    num_states: int  # public states that were listed, terminals included

    @property
    def error(self) -> float:
        """The largest error of a board."""
        return float(self.errors.max())


@dataclasses.dataclass(frozen=True, kw_only=True)
class SolvedStages:
    """A game's value, and its stages, the first of which has the root of the game as its board."""

    stages: tuple[Stage, ...]

    @property
    def value(self) -> float:
        """Mr X's value of the game, wrong by at most `exploitability_bound`."""
        return float(self.stages[0].values[0])

    @property
    def exploitability_bound(self) -> float:
        """How exploitable the policies of all stages together are at most: a best response gains
        no more in a stage than its largest error, whatever the boards that it comes to."""
        return sum(stage.error for stage in self.stages)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Boards:
    """Some boards of a stage, which are solved together."""

    moves: int  # that Mr X has made
    first: int  # number of the first one in its stage
    count: int
    of: int  # boards of all stages


# values and errors [b] of boards, as in `Stage`
BoardValues = tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"]]
Keep = Callable[[Boards, Callable[[], BoardValues]], BoardValues]


def _without_keeping(boards, solve):
    return solve()


@dataclasses.dataclass(frozen=True)
class _Part:
    """Some boards of a stage, and all public states up to the next one."""

    listing: Listing
    ends: Int[np.ndarray, " E"]  # which of them begin the next stage
    board: Int[np.ndarray, " E"]  # on which of its boards


def solve_by_stages(
    game: ScotlandYardBeliefs,
    *,
    num_iterations: int = 400,
    boards_at_once: int = 100,
    max_states: int = MAX_STATES,
    keep: Keep = _without_keeping,
) -> SolvedStages:
    """Solves Scotland Yard by predictive CFR+, the last stage first.

    Args:
      game: with any number of reveals; with none, or one that cannot be reached, it has one stage.
      num_iterations: on every board.
      boards_at_once: how many boards are listed and solved together, as many as memory allows.
      max_states: the most public states of boards that are listed together.
      keep: gets boards, the last stage's first, and a function that solves them. It returns their
        values, of that function or kept from before, and may show how far the work has come.

    Returns:
      The value, a bound of the exploitability, and the values of all boards that can be reached.

    Raises:
      ValueError: `num_iterations` or `boards_at_once` is not positive, or there are more than
        `max_states` public states.
    """
    for name, number in (("num_iterations", num_iterations), ("boards_at_once", boards_at_once)):
        if number < 1:
            raise ValueError(f"solve_by_stages: {name}={number} must be at least 1")
    reveals = np.flatnonzero(game.game.reveal_mask).tolist()
    boards = jax.tree.map(lambda leaf: np.asarray(leaf)[None], game.root())
    listed, never = [], game.game.rounds + 1
    for begin, end in zip([0, *reveals], [*reveals, never], strict=True):
        parts, below = _list_stage(game, boards, end, boards_at_once, max_states)
        listed.append((begin, boards, parts))
        boards = below
        if not len(boards.result):
            break
    of = sum(len(boards.result) for _, boards, _ in listed)
    stages: list[Stage] = []
    known = np.zeros(0)  # values of the boards of the stage below
    for begin, boards, parts in reversed(listed):
        # of Mr X's starts chance may draw one; on all later boards he is where he was seen
        stage_game = game.replace(deal=jnp.ones_like(game.deal)) if begin else game
        count, solved = len(boards.result), []
        for part, first in zip(parts, range(0, count, boards_at_once), strict=True):
            some = Boards(moves=begin, first=first, count=min(boards_at_once, count - first), of=of)
            solve = functools.partial(_solve_part, stage_game, part, known, num_iterations)
            solved.append(keep(some, solve))
        known, errors = (np.concatenate(each) for each in zip(*solved, strict=True))
        num_states = sum(len(part.listing.parent) for part in parts)
        stages.insert(
            0,
            Stage(moves=begin, boards=boards, values=known, errors=errors, num_states=num_states),
        )
    return SolvedStages(stages=tuple(stages))


def _list_stage(game, boards, end, boards_at_once, max_states):
    """The parts of a stage, and the boards, if any, that it leads to: those after `end` moves."""
    is_end = functools.partial(_has_shown_himself, moves=end)
    listings = [
        list_public_states(
            game,
            roots=jax.tree.map(lambda leaf, b=begin: leaf[b : b + boards_at_once], boards),
            is_end=is_end,
            max_states=max_states,
        )
        for begin in range(0, len(boards.result), boards_at_once)
    ]
    states = [jax.tree.map(np.asarray, listing.state) for listing in listings]
    ends = [np.flatnonzero(is_end(each)) for each in states]
    reached = [
        jax.tree.map(lambda leaf, e=e: leaf[e], each) for each, e in zip(states, ends, strict=True)
    ]
    below = _without_history(game, jax.tree.map(lambda *leaves: np.concatenate(leaves), *reached))
    first, board = _distinct(below)
    parts = map(_Part, listings, ends, np.split(board, np.cumsum([len(e) for e in ends])[:-1]))
    return list(parts), jax.tree.map(lambda leaf: leaf[first], below)


def _distinct(states):
    """The first of all states that are equal, and for each state which of these it equals."""
    count = len(states.result)
    if not count:
        return np.zeros((2, 0), int)
    rows = np.concatenate([leaf.reshape(count, -1) for leaf in jax.tree.leaves(states)], axis=1)
    return np.unique(rows, axis=0, return_index=True, return_inverse=True)[1:]


def _has_shown_himself(state, *, moves):
    """Where Mr X is known after so many moves, of which the listings end at the first."""
    return (state.board.moves == moves) & (state.showing == NOT_SHOWING)


def _without_history(game, states):
    """The same positions without what no longer matters: cards of which enough are left for all
    moves to come, and the block of stations that was shown."""
    board = states.board
    left = game.game.rounds - board.moves  # moves of Mr X; detectives may have one more
    tickets = np.minimum(board.tickets, left[:, None, None] + 1)
    doubles = np.minimum(board.doubles, left // 2)
    return states.replace(
        board=board.replace(tickets=tickets, doubles=doubles), block=np.zeros_like(states.block)
    )


def _solve_part(game, part, known, num_iterations):
    """Values and errors of the roots of a part; `known` are those of the next stage's boards."""
    listing = part.listing
    end_values = np.zeros(len(listing.parent))
    end_values[part.ends] = known[part.board]
    form = sequence_form_of_beliefs(game, listing, end_values=end_values)
    state = cfr.run(form, cfr.init(form), solver=cfr.pcfr_plus(), num_iterations=num_iterations)
    best = evaluation.root_best_response_values(form, cfr.average_policy(form, state))
    roots = jax.tree.map(lambda leaf: leaf[np.asarray(listing.parent) == NO_STATE], listing.state)
    his, theirs = (
        np.bincount(np.nonzero(rows)[0], np.asarray(values, float), len(rows))
        for rows, values in zip(jax.vmap(game.rows)(roots), best, strict=True)
    )
    return (his - theirs) / 2, (his + theirs) / 2
