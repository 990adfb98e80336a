"""Playouts: the rest of a game, played by epsilon-greedy players (Nijssen and Winands 2012).

With probability epsilon a player moves at random. Otherwise Mr X moves as far as he can from the
closest detective, and a detective as close as it can: to the station at which Mr X is assumed to
be, when detectives search; to all stations at which he may be (the smallest sum of distances),
when he searches, because they do not know where he is. Ties are broken at random. Mr X plays no
double cards in playouts. Where a playout begins right after a double card, its
first move may leave Mr X without a second one, which the rules do not allow, and then he has lost.

All games of a batch play a round at a time: Mr X, then the detectives in their order.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt

from jaxgames.arrays import choose
from jaxgames.core import record
from jaxgames.scotland_yard.board import LOST, RUNNING
from jaxgames.scotland_yard.maps import BLACK, FAR
from solvers.scotland_yard import noise, station_sets
from solvers.scotland_yard.position import Position, after_move, movable
from solvers.scotland_yard.tables import YardTables, target, ticket

NO_MOVE = -1
_RANKS = 2**12 - 1  # the worst rank of a move


@record
class Playout:
    """Playouts of a batch of games; T is the most moves that they may have."""

    position: Position  # where they ended
    played: Array  # [T, *b] int32 which player made which move (see `move_number`), or NO_MOVE
    length: Array  # [] int32 the first T rows that may have moves


def move_number(
    tables: YardTables, player: Int[Array, "..."] | int, line: Int[Array, "..."]
) -> Int[Array, "..."]:
    """A number for a move: who moves, by which ticket, to where."""
    place = ticket(line) * tables.num_stations + target(line)
    return player * ((BLACK + 1) * tables.num_stations) + place


def num_move_numbers(tables: YardTables) -> int:
    """How many numbers of moves there are."""
    return (1 + tables.game.detectives) * (BLACK + 1) * tables.num_stations


def without_black(
    tables: YardTables,
    position: Position,
    line: Int[Array, "M ..."],
    moves: Bool[Array, "M ..."],
) -> Bool[Array, "M ..."]:
    """Mr X's moves without those by black ticket that tell the detectives nothing less: in rounds 1
    and 2, when he shows himself, and where all lines are taxis. All moves, if none is left."""
    number = position.moves + 1
    useless = (number <= 2) | tables.reveals[jnp.minimum(number, tables.game.rounds)]
    useless |= tables.only_taxi[position.mr_x]
    kept = moves & ~(useless[None] & (ticket(line) == BLACK))
    return jnp.where(jnp.any(kept, axis=0)[None], kept, moves)


def play(
    tables: YardTables,
    position: Position,
    seed: UInt[Array, "..."],
    epsilon: Float[Array, ""],
) -> Playout:
    """Plays games to their ends.

    Args:
      tables: of the game.
      position: where they begin; with sets of possible stations, the detectives minimise the sum
        of the distances to all of them, and else the distance to Mr X's station.
      seed: of everything random, one for each game.
      epsilon: the probability of a random move.

    Returns:
      The playouts.
    """
    players = 1 + tables.game.detectives
    rounds = tables.game.rounds + 1  # the first may begin with a detective
    shape = (rounds * players, *position.mr_x.shape)

    def goes_on(carry):
        number, position, _ = carry
        return jnp.any(position.result == RUNNING) & (number < rounds)

    def play_round(carry):
        number, position, played = carry
        first = number * players
        position, made = _mr_x(tables, position, noise.bits(seed, first), epsilon)
        played = jax.lax.dynamic_update_index_in_dim(played, made, first, 0)
        totals = _totals(tables, position)

        def detective(d, carry):
            position, played = carry
            word = noise.bits(seed, first + d)
            position, made = _detective(tables, position, d, totals, word, epsilon)
            return position, jax.lax.dynamic_update_index_in_dim(played, made, first + d, 0)

        position, played = jax.lax.fori_loop(1, players, detective, (position, played))
        return number + 1, position, played

    carry = jnp.int32(0), position, jnp.full(shape, NO_MOVE, jnp.int32)
    number, position, played = jax.lax.while_loop(goes_on, play_round, carry)
    return Playout(position=position, played=played, length=number * players)


def _mr_x(tables, position, word, epsilon):
    """Mr X's move where it is his turn."""
    acts = (position.turn == 0) & (position.result == RUNNING)
    lines = tables.lines[:, position.mr_x]
    moves = movable(lines, position.detectives, position.tickets[0])
    kept = without_black(tables, position, lines, moves)
    closest = functools.reduce(
        jnp.minimum, [tables.distance[target(lines), d[None]] for d in position.detectives]
    )
    line, can = _choose(lines, kept, FAR - closest.astype(jnp.uint32), word, epsilon)
    position = position.replace(result=jnp.where(acts & ~can, LOST, position.result))
    acts &= can
    after, made = _moved(tables, position, line, acts, acts, 0)
    if position.possible is None:
        return after, made
    hidden = station_sets.after_mr_x(tables, position.possible, after, ticket(line))
    possible = jnp.where(acts[None], hidden, position.possible)
    return after.replace(possible=possible), made


def _detective(tables, position, d, totals, word, epsilon):
    """The move of detective `d` where it is its turn; it passes if it cannot move."""
    acts = (position.turn == d) & (position.result == RUNNING)
    lines = tables.lines[: tables.num_open, position.detectives[d - 1]]
    moves = movable(lines, position.detectives, position.tickets[d])
    to = target(lines)
    if totals is None:
        rank = tables.distance[to, position.mr_x[None]].astype(jnp.uint32)
    else:
        games = jnp.arange(to.shape[-1], dtype=jnp.int32)
        rank = totals[to, games[None]]
    line, can = _choose(lines, moves, rank, word, epsilon)
    after, made = _moved(tables, position, line, acts, acts & can, d)
    if position.possible is None:
        return after, made
    seen = station_sets.without(position.possible, target(line))
    possible = jnp.where((acts & can)[None], seen, position.possible)
    return after.replace(possible=possible), made


def _moved(tables, position, line, acts, moves_on, player):
    """The position after a player's move or pass where it acts, and the number of the move."""
    after = after_move(tables, position, line, moves_on, jnp.zeros_like(acts))
    after = choose(acts, after, position)
    return after, jnp.where(moves_on, move_number(tables, player, line), NO_MOVE)


def _choose(lines, moves, rank, word, epsilon):
    """The line of the least rank among the moves, or any move with probability epsilon; and whether
    there is a move."""
    size = len(lines)
    slot = jnp.arange(size, dtype=jnp.uint32).reshape(-1, *[1] * (lines.ndim - 1))
    slot_bits = max(size - 1, 1).bit_length()
    explores = noise.uniform(word) < epsilon
    rank = jnp.where(explores[None], 0, jnp.minimum(rank, _RANKS))
    order = noise.bits(word[None], slot + 1) >> (12 + slot_bits)
    key = (((rank << (20 - slot_bits)) | order) << slot_bits) | slot
    key = jnp.min(jnp.where(moves, key, jnp.uint32(2**32 - 1)), axis=0)
    chosen = (key & jnp.uint32(2**slot_bits - 1)).astype(jnp.int32)
    line = jnp.take_along_axis(lines, jnp.minimum(chosen, size - 1)[None], axis=0)[0]
    return line, jnp.any(moves, axis=0)


def _totals(tables, position):
    """Sums of the distances to all possible stations `[N, b]`, from each station."""
    if position.possible is None:
        return None
    mask = station_sets.unpack(position.possible, tables.num_stations)
    totals = tables.total_of @ mask.astype(jnp.float32)
    return totals.astype(jnp.uint32)
