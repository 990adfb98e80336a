"""Where the stations of a map are drawn.

London's stations lie as on the board: their places were taken from a picture of it, in pixels, by
the authors of AlexElvers/scotland-yard-data. Stations of `district` lie where London's do. The
stations of all other maps are laid out by their lines: two stations should be as far from each
other as there are lines on the shortest way between them.
"""

from __future__ import annotations

import csv
import functools
import importlib.resources

import numpy as np
import scipy.sparse.csgraph
from jaxtyping import Float, Int

from jaxgames.scotland_yard.maps import Map, load_map

_OF_LONDON = ("london", "district")
_STEPS = 500  # after which a layout no longer changes by what can be seen


def coordinates(name: str) -> Float[np.ndarray, "N 2"]:
    """The places of a map's stations, x to the right and y up.

    Args:
      name: of the map, as in `maps.load_map`.

    Returns:
      The places in units of a line between neighbours: 1 is the median length of the lines.

    Raises:
      ValueError: there is no such map.
    """
    yard = load_map(name)
    places = _london()[yard.numbers - 1] if name in _OF_LONDON else _laid_out(yard)
    first, second = yard.edges[:, 0], yard.edges[:, 1]
    unit = np.median(np.linalg.norm(places[first] - places[second], axis=1))
    return (places - places.mean(axis=0)) / unit


@functools.cache
def _london() -> Float[np.ndarray, "199 2"]:
    """The places of London's stations in pixels, y up."""
    file = importlib.resources.files("jaxgames.scotland_yard") / "data" / "london_stations.csv"
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    return np.array([(int(row["x"]), -int(row["y"])) for row in rows], float)


def _laid_out(yard: Map) -> Float[np.ndarray, "N 2"]:
    """Places of least stress, where a pair at distance d weighs 1 / d^2 (Gansner, Koren and North
    2004, "Graph Drawing by Stress Majorization"), from those of classical scaling on."""
    lines = _number_of_lines(yard)
    weight = 1.0 / np.where(lines > 0, lines, np.inf) ** 2
    inverse = np.linalg.pinv(np.diag(weight.sum(axis=1)) - weight)
    places = _classical_scaling(lines)
    for _ in range(_STEPS):
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        ratio = np.where(apart > 0, weight * lines / np.where(apart > 0, apart, 1.0), 0.0)
        places = inverse @ ((np.diag(ratio.sum(axis=1)) - ratio) @ places)
    return places


def _number_of_lines(yard: Map) -> Int[np.ndarray, "N N"] | Float[np.ndarray, "N N"]:
    """Numbers of lines on the shortest ways; one more than the most of all where there is none."""
    size = len(yard.numbers)
    linked = np.zeros((size, size))
    linked[yard.edges[:, 0], yard.edges[:, 1]] = 1
    lines = scipy.sparse.csgraph.shortest_path(linked, directed=False, unweighted=True)
    return np.where(np.isfinite(lines), lines, 1 + lines[np.isfinite(lines)].max())


def _classical_scaling(distance: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N 2"]:
    """The plane that keeps most of the distances; the first station is on the left and above."""
    centred = distance**2 - (distance**2).mean(axis=0)
    centred = -0.5 * (centred - centred.mean(axis=1, keepdims=True))
    values, vectors = np.linalg.eigh((centred + centred.T) / 2)
    places = vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 1e-3))
    return places * np.where(places[0] * (-1, 1) < 0, -1, 1)
