"""The 13 x 13 grid that shows how every class of hands acts at a decision, as players draw it."""

from __future__ import annotations

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
    from matplotlib.patheffects import withStroke

    shares, filled = of_classes(hands, weights, policy)
    order = sorted(range(len(actions)), key=lambda i: (actions[i] == "fold", -i))
    colours = _colours(actions)
    with plots.figure(path, rows=1, columns=1, size=(6.4, 6.9)) as axes:
        axis = axes[0, 0]
        axis.set(xlim=(0, 13), ylim=(13, 0), aspect="equal", title=title)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.grid(False)
        for spine in axis.spines.values():
            spine.set_visible(False)
        for number, name in enumerate(CLASSES):
            row, column = divmod(number, 13)
            axis.add_patch(_rectangle(column, row, 1, 1, "#F2F2F2"))
            left = column
            for action in order:
                width = shares[number, action]
                bottom = row + 1 - filled[number]
                if width > 0 and filled[number] > 0:
                    colour = colours[action]
                    axis.add_patch(_rectangle(left, bottom, width, filled[number], colour))
                left += width
            ink = "#111111" if filled[number] > 0 else "#B5B5B5"
            text = axis.text(column + 0.06, row + 0.27, name, fontsize=7, color=ink)
            if filled[number] > 0:
                text.set_path_effects([withStroke(linewidth=1.6, foreground="white", alpha=0.7)])
        for edge in range(14):
            axis.plot([0, 13], [edge, edge], color="white", linewidth=1)
            axis.plot([edge, edge], [0, 13], color="white", linewidth=1)
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


def _rectangle(x, y, width, height, colour):
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, facecolor=colour, linewidth=0)
