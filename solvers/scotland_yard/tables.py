"""What never changes in a game of Scotland Yard, as tables that are quick to look up.

All arrays of this folder have the games of a batch on their last axes (`*b`), which may be absent.
Sets of stations are bits of W words, station s being bit s % 32 of word s // 32.
"""

from __future__ import annotations

import flax.struct
import numpy as np
from jaxtyping import Array

from jaxgames.arrays import on_device
from jaxgames.core import record
from jaxgames.scotland_yard.maps import BLACK, NOWHERE, distances
from jaxgames.scotland_yard.rules import ScotlandYard

WORD = 32  # bits
TICKET_BITS = 8  # of a player's number of tickets of each kind
CHUNK = 8  # stations whose sets are looked up at once
_TAXI = 0
_TO_BITS = 16
_MOST_STATIONS, _MOST_TICKETS = 2**_TO_BITS - 1, 2**TICKET_BITS - 1


@record
class YardTables:
    """Tables of a game with N stations, M moves per station, and D detectives.

    A line is a number: the station that it leads to, above it the ticket, above that whether it
    exists.
    """

    lines: Array  # [M, N] int32
    distance: Array  # [N, N] uint8 moves of a detective with all tickets, at most FAR
    total_of: Array  # [N, N] float32 the same numbers
    num_lines: Array  # [N] uint32 lines from a station, TICKET_BITS for each ticket
    links: Array  # [N, N] uint32 lines from one station to another, in the same way
    only_taxi: Array  # [N] bool whether all lines of a station are taxis
    spread: Array  # [4 C 256, W] uint32 where each set of a chunk of stations leads, by ticket
    reveals: Array  # [rounds + 1] bool whether Mr X shows himself after each number of moves
    game: ScotlandYard = flax.struct.field(pytree_node=False)
    num_open: int = flax.struct.field(pytree_node=False)

    @property
    def num_stations(self) -> int:
        """N."""
        return self.lines.shape[1]

    @property
    def num_moves(self) -> int:
        """M; action M is to play a double card."""
        return self.lines.shape[0]


def yard_tables(game: ScotlandYard) -> YardTables:
    """The tables of a game.

    Raises:
      ValueError: the map has too many stations or the players too many tickets for these tables.
    """
    _check(game)
    moves, size = game.moves, game.num_stations
    exists = moves.to != NOWHERE
    to = np.where(exists, moves.to, 0)
    lines = to + (moves.ticket << _TO_BITS) + (exists << (_TO_BITS + 2))
    station, slot = np.nonzero(exists)
    links = np.zeros((size, size), np.uint32)
    one = (1 << (TICKET_BITS * moves.ticket[station, slot])).astype(np.uint32)
    np.add.at(links, (station, to[station, slot]), one)
    distance = distances(game.map)
    return YardTables(
        lines=on_device(lines.T, np.int32),
        distance=on_device(distance, np.uint8),
        total_of=on_device(distance, np.float32),
        num_lines=on_device(links.sum(axis=1), np.uint32),
        links=on_device(links, np.uint32),
        only_taxi=on_device(_only_taxi(game)),
        spread=on_device(_spread(moves, exists)),
        reveals=on_device(game.reveal_mask),
        game=game,
        num_open=game.num_open,
    )


def target(line: Array) -> Array:
    """The station that a line leads to."""
    return line & _MOST_STATIONS


def ticket(line: Array) -> Array:
    """The ticket that a line takes."""
    return (line >> _TO_BITS) & BLACK


def exists(line: Array) -> Array:
    """Whether there is a line."""
    return line >= (1 << (_TO_BITS + 2))


def _check(game):
    own, theirs = (*game.mr_x_tickets, game.black), (*game.detective_tickets, 0)
    tickets = max(mine + game.detectives * each for mine, each in zip(own, theirs, strict=True))
    for name, value, limit in (
        ("stations", game.num_stations, _MOST_STATIONS),
        ("tickets of a kind for all players", tickets, _MOST_TICKETS),
    ):
        if value > limit:
            raise ValueError(f"{game} has {value} {name}, which must be at most {limit}")


def _only_taxi(game):
    """Stations without a line of another kind than taxis; ferries are lines too."""
    edges = game.layout.edges
    others = np.zeros(game.num_stations, bool)
    others[edges[edges[:, 2] != _TAXI, :2].ravel()] = True
    return ~others


def _spread(moves, exists):
    """Unions of the stations next to each set of a chunk of stations, as words."""
    size, words = len(exists), -(-len(exists) // WORD)
    chunks = words * WORD // CHUNK
    near = np.zeros((BLACK + 1, chunks * CHUNK, words), np.uint32)
    for station, slot in zip(*np.nonzero(exists), strict=True):
        other = moves.to[station, slot]
        near[moves.ticket[station, slot], station, other // WORD] |= np.uint32(1 << other % WORD)
    near = near.reshape(BLACK + 1, chunks, CHUNK, words)
    table = np.zeros((BLACK + 1, chunks, 2**CHUNK, words), np.uint32)
    for members in range(2**CHUNK):
        inside = np.array([members >> bit & 1 for bit in range(CHUNK)], bool)
        table[:, :, members] = np.bitwise_or.reduce(near[:, :, inside], axis=2)
    assert size <= chunks * CHUNK
    return table.reshape(-1, words)
