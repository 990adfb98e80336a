"""The value of a belief-level game by one linear program over its rows, without any sweep."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from jaxgames.arrays import at
from jaxgames.beliefs import BeliefGame, Listing
from jaxgames.beliefs.listing import in_blocks
from jaxgames.beliefs.row_moves import row_moves
from jaxgames.core import TERMINAL


def game_value(game: BeliefGame, listing: Listing) -> float:
    """Player 0's value.

    Player 0 chooses reaches of its rows and of their actions, which flow along the moves of rows.
    Player 1's rows are worth at most what follows each of their actions, and the roots most.
    """
    roots = [np.flatnonzero(rows) for rows in game.rows(at(listing.state, 0))]
    moves = row_moves(game, listing)
    sizes = game.num_rows
    above = [m.state * n + m.row for m, n in zip(moves, sizes, strict=True)]
    below = [m.child * n + m.row_below for m, n in zip(moves, sizes, strict=True)]
    reach, value = (np.unique(np.concatenate(pair)) for pair in zip(roots, below, strict=True))
    acts = moves[0].action >= 0
    played = above[0][acts] * game.num_actions[0] + moves[0].action[acts]
    plays, acting = np.unique(played), np.unique(above[0][acts])
    # columns: reaches of rows, then of their actions, then values of the other's rows
    columns = np.cumsum([len(reach), len(plays), len(value)])
    reach_of = lambda row: np.searchsorted(reach, row)  # noqa: E731
    play_of = lambda play: columns[0] + np.searchsorted(plays, play)  # noqa: E731
    value_of = lambda row: columns[1] + np.searchsorted(value, row)  # noqa: E731

    decision = len(reach) + np.arange(len(acting))
    decision_of = len(reach) + np.searchsorted(acting, plays // game.num_actions[0])
    flow = [
        (np.arange(len(reach)), np.arange(len(reach)), 1),
        (reach_of(below[0][~acts]), reach_of(above[0][~acts]), -1),
        (reach_of(below[0][acts]), play_of(played), -1),
        (decision, reach_of(acting), 1),
        (decision_of, play_of(plays), -1),
    ]
    start = np.zeros(len(reach) + len(acting))
    start[reach_of(roots[0])] = 1

    first, second, payoff = _payoffs(game, listing)
    options, option = np.unique(
        above[1] * (game.num_actions[1] + 1) + moves[1].action + 1, return_inverse=True
    )
    ends, end = np.unique(second, return_inverse=True)
    most = [
        (np.arange(len(options)), value_of(options // (game.num_actions[1] + 1)), 1),
        (option, value_of(below[1]), -1),
        (len(options) + np.arange(len(ends)), value_of(ends), 1),
        (len(options) + end, reach_of(first), -payoff),
    ]
    cost = np.zeros(columns[2])
    cost[value_of(roots[1])] = -1
    solved = linprog(
        cost,
        A_ub=_matrix(most, len(options) + len(ends), columns[2]),
        b_ub=np.zeros(len(options) + len(ends)),
        A_eq=_matrix(flow, len(start), columns[2]),
        b_eq=start,
        bounds=[(0, None)] * columns[1] + [(None, None)] * len(value),
        method="highs-ipm",
    )
    return -solved.fun


def _payoffs(game, listing):
    """Player 0's payoffs, weighted by chance, and the rows of both where they are made."""
    ends = np.flatnonzero(np.asarray(listing.actor) == TERMINAL)
    worth = jax.vmap(game.terminal_values, (None, None, 0), out_axes=1)
    view = jax.jit(jax.vmap(lambda state: worth(state, 0, jnp.eye(game.num_rows[1]))))
    values = in_blocks(view, jax.tree.map(lambda x: np.asarray(x)[ends], listing.state))
    end, first, second = np.nonzero(values)
    places = [ends[end] * n + row for n, row in zip(game.num_rows, (first, second), strict=True)]
    return *places, values[end, first, second].astype(np.float64)


def _matrix(entries, num_rows, num_columns):
    parts = [np.broadcast_arrays(*entry) for entry in entries]
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    return coo_array((value.astype(float), (row, column)), shape=(num_rows, num_columns)).tocsr()
