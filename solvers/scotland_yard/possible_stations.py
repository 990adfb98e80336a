"""Where Mr X may be for all that the detectives know, by the rules and to the last detail.

These sets are the rows of `jaxgames.scotland_yard.beliefs`. They differ from the cheaper ones of
`station_sets` in that they leave out stations where Mr X would have lost because he could not move,
and from which he could not have completed a double move.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from jaxgames.scotland_yard.board import can_pay_on, mr_x_legal, mr_x_moves, open_tickets
from jaxgames.scotland_yard.maps import NOWHERE
from jaxgames.scotland_yard.rules import ScotlandYard, ScotlandYardState


def first_stations(game: ScotlandYard, state: ScotlandYardState) -> Bool[Array, " N"]:
    """Where Mr X may be after the deal: at all his start cards that the detectives do not have."""
    cards = np.isin(game.layout.numbers, game.mr_x_starts)
    return jnp.asarray(cards) & ~_taken(game, state)


def after_action(
    game: ScotlandYard,
    possible: Bool[Array, " N"],
    before: ScotlandYardState,
    action: Int[Array, ""],
    after: ScotlandYardState,
) -> Bool[Array, " N"]:
    """Where Mr X may be after an action.

    Args:
      game: the rules.
      possible: where he might be before.
      before: the state before, in which a player moves.
      action: of which no more is used than what the detectives see.
      after: the state after.

    Returns:
      The stations; where the game has ended, those at which it might have ended so.
    """
    table, board = jax.tree.map(jnp.asarray, game.moves), before.board
    stations = jnp.arange(game.num_stations, dtype=jnp.int32)
    his, double = board.turn == 0, action == game.num_actions - 1
    goes_on = can_pay_on(board.tickets[0], open_tickets(table, board, table.to), table.ticket)
    legal = mr_x_legal(table, board, stations, goes_on, game.rounds) & possible[:, None]
    used = table.ticket[before.mr_x, jnp.minimum(action, game.num_actions - 2)]
    arrives = legal[table.to, table.back] & (table.to != NOWHERE) & (table.ticket == used)
    moved = jnp.where(double, legal[:, -1], jnp.any(arrives, axis=1))
    shows = after.board.moves > board.moves
    shows &= jnp.asarray(game.reveal_mask)[after.board.moves]
    seen = moved & (~shows | (stations == after.mr_x))
    caught = jnp.any(after.mr_x == after.board.detectives)
    open_end = after.board.moves == game.rounds
    stuck = (after.board.turn == 0) & ~open_end
    stuck = stuck & ~jnp.any(mr_x_moves(table, after.board, stations), axis=1)
    left = possible & ~_taken(game, after) & ~stuck
    lost = possible & (_taken(game, after) | stuck)
    left = jnp.where((after.actor < 0) & (caught | ~open_end), lost, left)
    return jnp.where(his, seen, left)


def _taken(game, state):
    """Stations of detectives."""
    stations = jnp.arange(game.num_stations, dtype=jnp.int32)
    return jnp.any(stations[:, None] == state.board.detectives[None], axis=1)
