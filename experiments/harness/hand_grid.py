"""The 13 x 13 grid that shows how every class of hands acts at a decision, as players draw it."""

from __future__ import annotations

import functools
import pathlib

import numpy as np
from jaxtyping import Float, Int

from experiments.harness import plots
from jaxgames.holdem.ranges import CLASSES, class_numbers, hand_numbers

_PASSIVE, _FOLDED = "#8FBF8F", "#9DB4CF"  # checks and calls; folds
_BETS = ("#F4C7A1", "#E8925A", "#D55E00", "#A63603", "#7A2502", "#4D1400")  # by size


def draw(
    path: pathlib.Path,
    *,
    title: str,
    actions: tuple[str, ...],
    hands: Int[np.ndarray, "n 2"],
    weights: Float[np.ndarray, " n"],
    policy: Float[np.ndarray, "n A"],
) -> None:
    """Draws a decision as a grid with a cell for every class of hands.

    The height to which a cell is filled is in proportion to the mean weight of the class; from left
    to right it is divided by the probabilities of the actions, folds last.

    Args:
      path: of the PNG file.
      title: of the figure.
      actions: the names of the A actions.
      hands: two cards each.
      weights: how likely the hands are.
      policy: how the hands act.
    """
    from matplotlib.collections import LineCollection, PathCollection, PolyCollection

    shares, filled = of_classes(hands, weights, policy)
    order = sorted(range(len(actions)), key=lambda i: (actions[i] == "fold", -i))
    colours = _colours(actions)
    rectangles, fills, inks = [], [], []
    for number in range(len(CLASSES)):
        row, left = divmod(number, 13)
        rectangles.append(_rectangle(left, row, 1, 1))
        fills.append("#F2F2F2")
        for action in order:
            width = shares[number, action]
            if width > 0 and filled[number] > 0:
                bottom = row + 1 - filled[number]
                rectangles.append(_rectangle(left, bottom, width, filled[number]))
                fills.append(colours[action])
            left += width
        inks.append("#111111" if filled[number] > 0 else "#B5B5B5")
    edges = [line for at in range(14) for line in (((0, at), (13, at)), ((at, 0), (at, 13)))]
    with plots.figure(path, rows=1, columns=1, size=(6.4, 6.9)) as axes:
        axis = axes[0, 0]
        axis.set(xlim=(0, 13), ylim=(13, 0), aspect="equal", title=title)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.grid(False)
        for spine in axis.spines.values():
            spine.set_visible(False)
        # a collection for everything of a kind: single artists take most of a second to draw
        axis.add_collection(PolyCollection(rectangles, facecolors=fills, linewidths=0))
        halo = [(1, 1, 1, 0.7 if share > 0 else 0) for share in filled]
        names = _names()
        axis.add_collection(
            PathCollection(names, facecolors="none", edgecolors=halo, linewidths=1.6)
        )
        axis.add_collection(PathCollection(names, facecolors=inks, linewidths=0))
        axis.add_collection(LineCollection(edges, colors="white", linewidths=1))
        total = weights.sum()
        for action in order:
            frequency = float(weights @ policy[:, action] / total) if total > 0 else 0.0
            label = f"{actions[action]} {100 * frequency:.1f} %"
            axis.plot([], [], "s", color=colours[action], label=label, markersize=9)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.005), ncols=4, frameon=False)


def of_classes(
    hands: Int[np.ndarray, "n 2"],
    weights: Float[np.ndarray, " n"],
    policy: Float[np.ndarray, "n A"],
) -> tuple[Float[np.ndarray, "169 A"], Float[np.ndarray, "169"]]:
    """How the hands of each class act on average, and the mean weight of each class.

    Args:
      hands: two cards each.
      weights: how likely the hands are.
      policy: how the hands act.

    Returns:
      By class the probabilities of actions (0 where no hand has weight), and the mean weight as a
      share of the largest.
    """
    classes = class_numbers()[hand_numbers(hands)]
    weight, count = np.zeros((2, len(CLASSES)))
    np.add.at(weight, classes, weights)
    np.add.at(count, classes, 1)
    taken = np.zeros((len(CLASSES), policy.shape[1]))
    np.add.at(taken, classes, weights[:, None] * policy)
    mean = weight / np.maximum(count, 1)
    shares = taken / np.where(weight > 0, weight, 1)[:, None]
    return shares, mean / max(mean.max(), 1e-30)


def _colours(actions):
    """The colour of every action, by its index; bets and raises get darker with their size."""
    bets = [i for i, name in enumerate(actions) if name not in ("fold", "check", "call")]
    step = len(_BETS) / max(len(bets), 1)
    colours = {action: _BETS[min(int((i + 0.5) * step), 5)] for i, action in enumerate(bets)}
    for i, name in enumerate(actions):
        if i not in colours:
            colours[i] = _FOLDED if name == "fold" else _PASSIVE
    return colours


def _rectangle(x, y, width, height):
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


@functools.cache
def _names():
    """The outlines of the names of all classes, each in its cell."""
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    outlines = []
    for number, name in enumerate(CLASSES):
        row, column = divmod(number, 13)
        text = TextPath((0, 0), name, size=0.21)
        place = np.array([column + 0.06, row + 0.27])
        outlines.append(Path(text.vertices * [1, -1] + place, text.codes))  # the y axis points down
    return outlines
