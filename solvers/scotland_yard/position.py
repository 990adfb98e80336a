"""Positions of Scotland Yard in few numbers, for searches that play many games.

The rules are those of `jaxgames.scotland_yard`; only the shape of a position differs. Mr X who
cannot move in his turn is found by his having no legal move. Games lie on the last axes `*b`.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt

from jaxgames.core import record
from jaxgames.scotland_yard.board import LOST, RUNNING, WON
from jaxgames.scotland_yard.maps import BLACK
from jaxgames.scotland_yard.rules import ScotlandYardState
from solvers.scotland_yard import station_sets
from solvers.scotland_yard.tables import TICKET_BITS, YardTables, exists, target, ticket

_TICKETS = 2**TICKET_BITS - 1  # all bits of one kind of tickets


@record
class Position:
    """A position; the tickets of a player are one number, with TICKET_BITS bits for each kind."""

    mr_x: Array  # [*b] int32 station
    detectives: Array  # [D, *b] int32 stations
    tickets: Array  # [1 + D, *b] uint32, Mr X first
    doubles: Array  # [*b] int32 double cards that Mr X has left
    moves: Array  # [*b] int32 moves that Mr X has made
    turn: Array  # [*b] int32 whose turn it is: 0 Mr X, d detective d
    doubling: Array  # [*b] int32 moves still to make of a double move of Mr X
    result: Array  # [*b] int32 RUNNING, LOST or WON, for Mr X
    possible: Array | None  # [W, *b] uint32 where Mr X may be for all that the detectives know


def from_state(state: ScotlandYardState, possible: Bool[Array, "*b N"] | None = None) -> Position:
    """The position of states after the deal, whose games lie on the first axes.

    Args:
      state: leaves `[*b, ...]`.
      possible: stations at which Mr X may be; None: they are not tracked.
    """
    board = state.board
    shift = TICKET_BITS * jnp.arange(BLACK + 1, dtype=jnp.uint32)
    tickets = board.tickets.astype(jnp.uint32)
    shift = shift.reshape((1,) * (tickets.ndim - 1) + (-1,))
    return Position(
        mr_x=state.mr_x,
        detectives=jnp.moveaxis(board.detectives, -1, 0),
        tickets=jnp.moveaxis(jnp.sum(tickets << shift, axis=-1, dtype=jnp.uint32), -1, 0),
        doubles=board.doubles,
        moves=board.moves,
        turn=board.turn,
        doubling=board.doubling,
        result=state.result,
        possible=None if possible is None else station_sets.pack(jnp.moveaxis(possible, -1, 0)),
    )


def owned(tickets: UInt[Array, "..."], kind: Int[Array, "..."]) -> UInt[Array, "..."]:
    """How many tickets of a kind a player has; `kind` `[..., *b]` may have more axes."""
    return (tickets >> (TICKET_BITS * kind).astype(jnp.uint32)) & jnp.uint32(_TICKETS)


def one_ticket(kind: Int[Array, "..."]) -> UInt[Array, "..."]:
    """One ticket of a kind."""
    return jnp.uint32(1) << (TICKET_BITS * kind).astype(jnp.uint32)


def movable(
    line: Int[Array, "M ..."], detectives: Int[Array, "D ..."], tickets: UInt[Array, "..."]
) -> Bool[Array, "M ..."]:
    """Which lines a player can take: there is a ticket, and no detective where it leads."""
    to = target(line)
    free = exists(line) & (owned(tickets[None], ticket(line)) > 0)
    for detective in detectives:
        free &= to != detective[None]
    return free


def own_station(position: Position) -> Int[Array, "..."]:
    """The station of the player whose turn it is."""
    station = position.mr_x
    for number, detective in enumerate(position.detectives, start=1):
        station = jnp.where(position.turn == number, detective, station)
    return station


def own_tickets(position: Position) -> UInt[Array, "..."]:
    """The tickets of the player whose turn it is."""
    own = position.tickets[0]
    for number in range(1, len(position.tickets)):
        own = jnp.where(position.turn == number, position.tickets[number], own)
    return own


def legal(tables: YardTables, position: Position) -> Bool[Array, "A ..."]:
    """Legal actions of the player whose turn it is, as in the game; none if Mr X has lost because
    he cannot move. The game may be over otherwise: that is not checked."""
    line = tables.lines[:, own_station(position)]
    moves = movable(line, position.detectives, own_tickets(position))
    his = position.turn == 0
    detectives_move = jnp.any(moves[: tables.num_open], axis=0)
    numbers = jnp.arange(tables.num_moves, dtype=jnp.int32).reshape(-1, *[1] * his.ndim)
    passing = ~his & ~detectives_move
    theirs = jnp.where(numbers == tables.num_open, passing[None], moves & ~his[None])
    theirs = jnp.where(numbers > tables.num_open, False, theirs)
    no_double = jnp.zeros_like(his)
    if tables.num_moves == tables.num_open:  # then the detectives pass by the last action
        last, theirs = passing, moves & ~his[None]
    else:
        last = no_double
    if tables.game.doubles:
        first = moves & _goes_on(tables, position, line)
        may = (position.doubles > 0) & (position.doubling == 0)
        may &= his & (position.moves + 2 <= tables.game.rounds)
        moves = jnp.where((position.doubling == 2)[None], first, moves)
        last |= may & jnp.any(first, axis=0)
    return jnp.concatenate([jnp.where(his[None], moves, theirs), last[None]])


def _goes_on(tables, position, line):
    """Whether Mr X could move again at once after each of his moves `[M, *b]`."""
    to, spent = target(line), ticket(line)
    opens = tables.num_lines[to]
    for detective in position.detectives:
        opens = opens - tables.links[to, detective[None]]
    left = position.tickets[0][None] - one_ticket(spent)
    can = jnp.zeros(line.shape, bool)
    for kind in range(BLACK + 1):
        bits = jnp.uint32(_TICKETS << (TICKET_BITS * kind))
        can |= ((opens & bits) > 0) & ((left & bits) > 0)
    return can


def advance(tables: YardTables, position: Position, action: Int[Array, "..."]) -> Position:
    """The position after an action of the player whose turn it is.

    Nothing changes where the game is over.
    """
    his, running = position.turn == 0, position.result == RUNNING
    double = his & (action == tables.num_moves)
    special = double | (~his & (action == tables.num_open))
    line = tables.lines[jnp.minimum(action, tables.num_moves - 1), own_station(position)]
    moves_on = running & ~special
    after = after_move(tables, position, line, moves_on, double & running)
    if position.possible is None:
        return after
    hidden = station_sets.after_mr_x(tables, position.possible, after, ticket(line))
    seen = station_sets.without(position.possible, target(line))
    possible = jnp.where(his[None], hidden, seen)
    return after.replace(possible=jnp.where(moves_on[None], possible, position.possible))


def after_move(
    tables: YardTables,
    position: Position,
    line: Int[Array, "..."],
    moves_on: Bool[Array, "..."],
    double: Bool[Array, "..."],
) -> Position:
    """The position after the player whose turn it is took a line, played a double card or passed;
    with the same set of possible stations, which the caller changes.

    Args:
      tables: of the game.
      position: before.
      line: that is taken.
      moves_on: whether it is.
      double: whether Mr X plays a double card instead.
    """
    his, running = position.turn == 0, position.result == RUNNING
    to, used = target(line), jnp.where(moves_on, one_ticket(ticket(line)), 0)
    numbers = jnp.arange(len(position.tickets), dtype=jnp.int32)
    numbers = numbers.reshape(-1, *[1] * his.ndim)
    mover = numbers == position.turn[None]
    gained = jnp.where((numbers == 0) & ~his[None], used[None], 0)
    detectives = jnp.where(mover[1:] & moves_on[None], to[None], position.detectives)
    mr_x = jnp.where(his & moves_on, to, position.mr_x)
    moves = position.moves + (his & moves_on).astype(jnp.int32)
    again = his & (double | (position.doubling == 2))
    turn = jnp.where(again, 0, (position.turn + 1) % len(position.tickets))
    doubling = jnp.where(double, 2, jnp.maximum(position.doubling - 1, 0))
    doubling = jnp.where(his & running, doubling, position.doubling)
    caught = jnp.any(detectives == mr_x[None], axis=0)
    through = (turn == 0) & (doubling == 0) & (moves == tables.game.rounds)
    result = jnp.where(caught, LOST, jnp.where(through, WON, RUNNING)).astype(jnp.int32)
    return Position(
        mr_x=mr_x,
        detectives=detectives,
        tickets=position.tickets - jnp.where(mover, used[None], 0) + gained,
        doubles=position.doubles - double.astype(jnp.int32),
        moves=moves,
        turn=jnp.where(running, turn, position.turn),
        doubling=doubling,
        result=jnp.where(running, result, position.result),
        possible=position.possible,
    )
