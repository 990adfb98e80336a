"""Maps of Scotland Yard: stations, the lines between them, and the moves that these allow.

The package has `london`, the board of Ravensburger (1996 and later, 199 stations), `glasses`, the
small map of Schmid et al. 2023 (Fig. S3), and `district`, twenty stations of London: those that are
nearest to station 13 by taxi, with the lines between them, none of which is of the underground.
They are found breadth first, neighbours in ascending order. `add_map` adds others.
"""

from __future__ import annotations

import csv
import functools
import importlib.resources
import re
from collections.abc import Iterable

import numpy as np
from jaxtyping import Array, Int

from jaxgames.core import record
from jaxgames.registry import unknown

KINDS = ("taxi", "bus", "underground", "ferry")
TICKETS = ("taxi", "bus", "underground", "black")
BLACK = 3  # pays for any line; ferries take nothing else
NOWHERE = -1
FAR = 63  # the distance of stations that cannot be reached
_PACKAGED = ("district", "glasses", "london")


@record
class Map:
    """N stations and E lines, which go both ways. Stations are counted from 0."""

    numbers: np.ndarray  # [N] int32 as printed on the board, ascending
    edges: np.ndarray  # [E, 3] int32: two stations, and a kind of line (index into KINDS)


@record
class Moves:
    """Up to M moves from each of N stations, NOWHERE at padding.

    First the moves by taxi, bus and underground, each by station; then, if there are black cards,
    one move by black card to each neighbour.
    """

    to: Array | np.ndarray  # [N, M] int32 station
    ticket: Array | np.ndarray  # [N, M] int32 index into TICKETS, 0 at padding
    back: Array | np.ndarray  # [N, M] int32 which move of the other station leads back


_added: dict[str, Map] = {}


def load_map(name: str) -> Map:
    """The map of this name, from the package or added by `add_map`.

    Raises:
      ValueError: there is no such map.
    """
    if name in _added:
        return _added[name]
    if name not in _PACKAGED:
        raise ValueError(unknown("map of scotland_yard", name, [*_PACKAGED, *_added]))
    return _packaged(name)


def add_map(name: str, edges: Iterable[tuple[int, int, str]]) -> Map:
    """Adds a map for `scotland_yard(map=name)`.

    Args:
      name: of the map.
      edges: lines, as two station numbers and a kind of `KINDS`.

    Returns:
      The map.

    Raises:
      ValueError: the name has other characters than letters, digits and underscores, or a map of
        this name exists; a station's number is below 1; or an edge is a loop, given twice or of
        unknown kind.
    """
    if not re.fullmatch(r"\w+", name):
        raise ValueError(f"add_map: name={name!r} must be letters, digits and underscores")
    if name in (*_PACKAGED, *_added):
        raise ValueError(f"add_map: a map named {name!r} exists already")
    _added[name] = _make_map(name, edges)
    return _added[name]


@functools.cache
def moves(name: str, *, black: bool) -> Moves:
    """The moves on the map of this name, with or without moves by black card."""
    links = set()
    for first, second, kind in load_map(name).edges.tolist():
        tickets = {kind, BLACK} if black else {kind} - {BLACK}  # a ferry has the number of BLACK
        links |= {(a, t, b) for t in tickets for a, b in ((first, second), (second, first))}
    slots: list[dict[tuple[int, int], int]] = [{} for _ in load_map(name).numbers]
    for station, ticket, target in sorted(links):
        slots[station][ticket, target] = len(slots[station])
    shape = (len(slots), max(1, *map(len, slots)))
    to, ticket_of, back = np.full(shape, NOWHERE, np.int32), *np.zeros((2, *shape), np.int32)
    for station, ticket, target in links:
        slot = slots[station][ticket, target]
        to[station, slot], ticket_of[station, slot] = target, ticket
        back[station, slot] = slots[target][ticket, station]
    return Moves(to=to, ticket=ticket_of, back=back)


@functools.cache
def distances(name: str) -> Int[np.ndarray, "N N"]:
    """How many moves a detective with all tickets needs between all stations, at most FAR.

    Raises:
      ValueError: there is no such map.
    """
    table = moves(name, black=False)
    size = len(table.to)
    station, slot = np.nonzero((table.to != NOWHERE) & (table.ticket < BLACK))
    step = np.zeros((size, size), bool)
    step[station, table.to[station, slot]] = True
    near = np.eye(size, dtype=bool)
    distance = np.where(near, 0, FAR)
    for number in range(1, FAR):
        near = near @ step
        distance = np.minimum(distance, np.where(near, number, FAR))
    return distance


@functools.cache
def _packaged(name: str) -> Map:
    file = importlib.resources.files("jaxgames.scotland_yard") / "data" / f"{name}.csv"
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    return _make_map(name, [(int(row["a"]), int(row["b"]), row["kind"]) for row in rows])


def _make_map(name, edges):
    edges = [(min(a, b), max(a, b), kind) for a, b, kind in edges]
    for edge in edges:
        if edge[2] not in KINDS:
            raise ValueError(unknown(f"kind of edge {edge} of map {name!r}:", edge[2], KINDS))
        if edge[0] == edge[1]:
            raise ValueError(f"map {name!r}: edge {edge} leads from a station to itself")
        if edge[0] < 1:
            raise ValueError(f"map {name!r}: station {edge[0]} of edge {edge} must be at least 1")
    twice = [edge for edge in sorted(set(edges)) if edges.count(edge) > 1]
    if twice or not edges:
        raise ValueError(f"map {name!r}: " + (f"edge {twice[0]} twice" if twice else "no edges"))
    numbers = sorted({station for edge in edges for station in edge[:2]})
    index = {number: n for n, number in enumerate(numbers)}
    return Map(
        numbers=np.array(numbers, np.int32),
        edges=np.array([(index[a], index[b], KINDS.index(k)) for a, b, k in edges], np.int32),
    )
