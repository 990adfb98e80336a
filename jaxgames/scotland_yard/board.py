"""The public board of Scotland Yard and the rules of moving, for the rules and the belief game.

Stations are counted from 0. Mr X is number 0, the detectives are 1 to D. Functions of Mr X's
station take any number of stations at once, because the board is public and his station is not.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgames.core import record
from jaxgames.scotland_yard.maps import BLACK, NOWHERE, Moves

RUNNING, LOST, WON = 0, 1, 2  # for Mr X
_CARDS = 10.0  # scale of the numbers of cards in features


@record
class Board:
    """The public part of a position."""

    detectives: Array  # [D] int32 stations, NOWHERE before the deal
    tickets: Array  # [1 + D, 4] int32, Mr X first
    doubles: Array  # [] int32 double cards that Mr X has left
    moves: Array  # [] int32 moves that Mr X has made
    turn: Array  # [] int32 whose turn it is: 0 Mr X, d detective d
    doubling: Array  # [] int32 moves still to make of a double move of Mr X


def advance(
    board: Board, to: Int[Array, ""], ticket: Int[Array, ""], special: Bool[Array, ""]
) -> Board:
    """The board after the move of the player whose turn it is.

    Args:
      board: before the move.
      to: the station moved to.
      ticket: the ticket that was used.
      special: whether, instead of a move, Mr X plays a double card or the detective passes.
    """
    numbers = jnp.arange(board.tickets.shape[0], dtype=jnp.int32)
    mover, his = numbers == board.turn, board.turn == 0
    used = (jnp.arange(BLACK + 1, dtype=jnp.int32) == ticket) & ~special
    spent = (mover[:, None] & used[None, :]).astype(jnp.int32)
    gained = ((numbers == 0) & ~his)[:, None] & used[None, :]  # detectives' tickets go to Mr X
    again = his & (special | (board.doubling == 2))
    doubling = jnp.where(special, 2, jnp.maximum(board.doubling - 1, 0))
    return Board(
        detectives=jnp.where(mover[1:] & ~special, to, board.detectives),
        tickets=board.tickets - spent + gained.astype(jnp.int32),
        doubles=board.doubles - (his & special).astype(jnp.int32),
        moves=board.moves + (his & ~special).astype(jnp.int32),
        turn=jnp.where(again, 0, (board.turn + 1) % numbers.shape[0]),
        doubling=jnp.where(his, doubling, board.doubling),
    )


def open_moves(table: Moves, board: Board, station: Int[Array, "*n"]) -> Bool[Array, "*n M"]:
    """Which moves from `station` lead to a station without a detective."""
    to = table.to[station]
    is_open = to != NOWHERE
    for detective in range(board.detectives.shape[0]):
        is_open &= to != board.detectives[detective]
    return is_open


def open_tickets(table: Moves, board: Board, station: Int[Array, "*n"]) -> Bool[Array, "*n 4"]:
    """By which tickets a move from `station` is open, whether Mr X has these tickets or not."""
    is_open, ticket = open_moves(table, board, station), table.ticket[station]
    by_ticket = [jnp.any(is_open & (ticket == t), axis=-1) for t in range(BLACK + 1)]
    return jnp.stack(by_ticket, axis=-1)


def detective_legal(table: Moves, board: Board, num_open: int) -> Bool[Array, " A"]:
    """Legal moves of the detective whose turn it is; only if there is none, to pass (the last).

    Args:
      table: the moves of the map.
      board: the public board.
      num_open: the most moves that a detective has anywhere, A - 1.
    """
    station = board.detectives[board.turn - 1]
    can = open_moves(table, board, station) & _owned(table, board.tickets[board.turn], station)
    return jnp.append(can[:num_open], ~jnp.any(can))


def mr_x_moves(table: Moves, board: Board, station: Int[Array, "*n"]) -> Bool[Array, "*n M"]:
    """Open moves of Mr X from `station` for which he has the ticket."""
    return open_moves(table, board, station) & _owned(table, board.tickets[0], station)


def can_pay_on(
    tickets: Int[Array, "4"], opens: Bool[Array, "*n 4"], spent: Int[Array, "*n"] | int
) -> Bool[Array, "*n"]:
    """Whether Mr X can move on after he has spent a ticket.

    Args:
      tickets: that he has, before.
      opens: by which tickets a move is open where he is then.
      spent: the ticket that he spends.
    """
    can = jnp.zeros(opens.shape[:-1], bool)
    for t in range(BLACK + 1):
        can |= opens[..., t] & (tickets[t] > jnp.where(jnp.equal(spent, t), 1, 0))
    return can


def mr_x_legal(
    table: Moves, board: Board, station: Int[Array, "*n"], goes_on: Bool[Array, "*n M"], rounds: int
) -> Bool[Array, "*n A"]:
    """Legal moves of Mr X at `station`; the last action is to play a double card.

    Args:
      table: the moves of the map.
      board: the public board.
      station: of Mr X, any number of them.
      goes_on: which first moves leave a second one, since a double move must be completed.
      rounds: of the game.
    """
    moves = mr_x_moves(table, board, station)
    first = moves & goes_on
    may = (board.doubles > 0) & (board.doubling == 0) & (board.moves + 2 <= rounds)
    double = may & jnp.any(first, axis=-1, keepdims=True)
    return jnp.concatenate([jnp.where(board.doubling == 2, first, moves), double], axis=-1)


def outcome(table: Moves, board: Board, station: Int[Array, "*n"], rounds: int) -> Int[Array, "*n"]:
    """RUNNING, LOST or WON if Mr X is at `station`.

    He has lost when he is caught or cannot move, and won when he has survived the last round.
    """
    caught = jnp.zeros_like(station, bool)
    for detective in range(board.detectives.shape[0]):
        caught |= station == board.detectives[detective]
    round_over = (board.turn == 0) & (board.doubling == 0)
    through = round_over & (board.moves == rounds)
    stuck = round_over & ~jnp.any(mr_x_moves(table, board, station), axis=-1)
    open_end = jnp.where(through, WON, jnp.where(stuck, LOST, RUNNING))
    return jnp.where(caught, LOST, open_end).astype(jnp.int32)


def encode(
    board: Board, running: Bool[Array, ""], num_stations: int, rounds: int
) -> Float[Array, " F"]:
    """Features of the board as in Schmid et al. 2023, Table S1.

    They are the one-hot stations of the detectives `[D, N]`, their cards `[D, 3]`, Mr X's cards
    (tickets and double cards) `[5]`, the one-hot player who moves next `[1 + D]` (all 0 unless
    `running`), half of the moves that a double card still owes (the paper: whether one was just
    played), and the share of rounds played.
    """
    stations = jnp.arange(num_stations, dtype=jnp.int32)
    numbers = jnp.arange(board.tickets.shape[0], dtype=jnp.int32)
    cards = board.tickets.astype(float) / _CARDS
    parts = [
        (board.detectives[:, None] == stations[None, :]).ravel(),
        cards[1:, :BLACK].ravel(),
        cards[0],
        board.doubles[None].astype(float) / _CARDS,
        (numbers == board.turn) & running,
        board.doubling[None].astype(float) / 2,
        board.moves[None].astype(float) / rounds,
    ]
    return jnp.concatenate([part.astype(float) for part in parts])


def _owned(table, tickets, station):
    return tickets[table.ticket[station]] > 0
