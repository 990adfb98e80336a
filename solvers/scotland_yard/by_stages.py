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

from jaxgames.arrays import at
from jaxgames.beliefs import list_public_states
from jaxgames.beliefs.listing import MAX_STATES, distinct_states
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
class SomeBoards:
    """Which boards of a game are solved together."""

    moves: int  # that Mr X has made
    first: int  # number of the first one in its stage
    count: int
    total: int  # boards of all stages


# values and errors [b] of boards, as in `Stage`
BoardValues = tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"]]


def _solved_now(boards: SomeBoards, solve: Callable[[], BoardValues]) -> BoardValues:
    return solve()


@dataclasses.dataclass(frozen=True)
class _Part:
    """What is known of some boards of a stage, when their public states have been listed."""

    end: int  # moves of Mr X at which the next stage begins
    num_boards: int
    num_states: int
    ends: Int[np.ndarray, " E"]  # which of the states begin the next stage
    board: Int[np.ndarray, " E"]  # on which of its boards


def solve_by_stages(
    game: ScotlandYardBeliefs,
    *,
    num_iterations: int = 400,
    boards_at_once: int = 100,
    max_states: int = MAX_STATES,
    keep: Callable[[SomeBoards, Callable[[], BoardValues]], BoardValues] = _solved_now,
) -> SolvedStages:
    """Solves Scotland Yard by predictive CFR+, the last stage first.

    Args:
      game: with any number of reveals; with none, or one that cannot be reached, it has one stage.
      num_iterations: on every board.
      boards_at_once: how many boards are listed and solved together, as many as memory allows.
      max_states: the most public states of boards that are listed together.
      keep: is called for all boards, those of the last stage first, when it is known how many there
        are. It gets which boards are next and a function that solves them, and returns their values
        and errors: what that function returns, or what it returned before in the same game with the
        same `num_iterations` and `boards_at_once`.

    Returns:
      The value, a bound of the exploitability, and the values of all boards that can be reached.

    Raises:
      ValueError: `game` is another one, `num_iterations` or `boards_at_once` is not positive, there
        are more than `max_states` public states, or `keep` returns another number of values.
    """
    if not isinstance(game, ScotlandYardBeliefs):
        raise ValueError(
            f"game={game!s:.80} is a {type(game).__name__}; allowed: Scotland Yard by beliefs, such"
            " as make('scotland_yard(map=district)').belief_game()"
        )
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
    total = sum(len(boards.result) for _, boards, _ in listed)
    stages: list[Stage] = []
    known = np.zeros(0)  # values of the boards of the stage below
    for begin, boards, parts in reversed(listed):
        # of Mr X's starts chance may draw one; on all later boards he is where he was seen
        stage_game = game.replace(deal=jnp.ones_like(game.deal)) if begin else game
        solved = []
        for number, part in enumerate(parts):
            first = number * boards_at_once
            own = _slice(boards, first, boards_at_once)
            solve = functools.partial(
                _solve_part, stage_game, own, part, known, num_iterations, max_states
            )
            some = SomeBoards(moves=begin, first=first, count=part.num_boards, total=total)
            solved.append(_checked(keep(some, solve), some))
        known, errors = (np.concatenate(each) for each in zip(*solved, strict=True))
        num_states = sum(part.num_states for part in parts)
        stages.insert(
            0,
            Stage(moves=begin, boards=boards, values=known, errors=errors, num_states=num_states),
        )
    return SolvedStages(stages=tuple(stages))


def _list_stage(game, boards, end, boards_at_once, max_states):
    """The parts of a stage, and the boards, if any, that it leads to: those after `end` moves."""
    counts, ends, reached = [], [], []
    for first in range(0, len(boards.result), boards_at_once):
        own = _slice(boards, first, boards_at_once)
        listing = _list_boards(game, own, end, max_states)
        states = jax.tree.map(np.asarray, listing.state)
        ends.append(np.flatnonzero(_has_shown_himself(states, moves=end)))
        reached.append(at(states, ends[-1]))
        counts.append((len(own.result), len(listing.parent)))
    below = _without_history(game, jax.tree.map(lambda *leaves: np.concatenate(leaves), *reached))
    first, board = distinct_states(below)
    boards_of_ends = np.split(board, np.cumsum([len(e) for e in ends])[:-1])
    parts = [
        _Part(end, *count, *own) for count, *own in zip(counts, ends, boards_of_ends, strict=True)
    ]
    return parts, at(below, first)


def _slice(boards, first, count):
    return jax.tree.map(lambda leaf: leaf[first : first + count], boards)


def _list_boards(game, boards, end, max_states):
    """All public states of boards up to the next stage, which begins after `end` moves."""
    is_end = functools.partial(_has_shown_himself, moves=end)
    return list_public_states(game, roots=boards, is_end=is_end, max_states=max_states)


def _has_shown_himself(state, *, moves):
    """Whether Mr X is known after `moves` moves, of which the listings end at the first."""
    return (state.board.moves == moves) & (state.showing == NOT_SHOWING)


def _without_history(game, states):
    """The same positions without what no longer matters: cards of which enough are left for all
    moves to come, and the block of stations that was shown."""
    board = states.board
    left = game.game.rounds - board.moves  # moves of Mr X; detectives may have one more
    his = np.arange(board.tickets.shape[1]) == 0
    tickets = np.minimum(board.tickets, (left[:, None] + ~his)[:, :, None])
    doubles = np.minimum(board.doubles, left // 2)
    return states.replace(
        board=board.replace(tickets=tickets, doubles=doubles), block=np.zeros_like(states.block)
    )


def _solve_part(game, boards, part, known, num_iterations, max_states):
    """Values and errors of some boards; `known` are those of the next stage's boards."""
    listing = _list_boards(game, boards, part.end, max_states)
    end_values = np.zeros(part.num_states)
    end_values[part.ends] = known[part.board]
    form = sequence_form_of_beliefs(game, listing, end_values=end_values)
    state = cfr.run(form, cfr.init(form), solver=cfr.pcfr_plus(), num_iterations=num_iterations)
    best = evaluation.root_best_response_values(form, cfr.average_policy(form, state))
    his, theirs = (
        np.bincount(np.nonzero(rows)[0], np.asarray(values, float), len(rows))
        for rows, values in zip(jax.vmap(game.rows)(boards), best, strict=True)
    )
    return (his - theirs) / 2, (his + theirs) / 2


def _checked(solved, boards):
    """What `keep` has returned, if it is of these boards."""
    for what, numbers in zip(("values", "errors"), solved, strict=True):
        if len(numbers) != boards.count:
            raise ValueError(
                f"keep has returned {len(numbers)} {what} for {boards.count} boards: {boards}"
            )
    return solved
