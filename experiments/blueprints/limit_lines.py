"""How good policies of limit hold'em are along training, and the figure of it beside published
numbers."""

from __future__ import annotations

import dataclasses
import pathlib

from experiments.blueprints.first_actions import FirstActions
from experiments.blueprints.real_values import Estimate
from experiments.harness import plots, results

PERCENTILES, K_MEANS = (
    "169/percentile:1000/percentile:500/percentile:200",
    "169/kmeans:200/kmeans:200/kmeans:200",
)
# the value of the game to the dealer, and between which bounds it is known to be (Bowling, Burch,
# Johanson and Tammelin 2015), mb/h
PAPER_VALUE, PAPER_VALUE_BOUNDS = 88.0, (87.7, 89.7)
# what abstract strategies lose in the real game after convergence (Johanson, Bard, Burch and
# Bowling 2012), mb/h
PAPER_EXPLOITABILITY = {PERCENTILES: 358.0, K_MEANS: 282.0}
PAPER_CFR_BR = 64.8
PAPER_OVERFITTING = 277.0, 305.0  # what CFR in an abstraction loses, from its best on as it goes on
PAPER_LEVELS = {
    "CFR, percentiles": PAPER_EXPLOITABILITY[PERCENTILES],
    "CFR, k-means": PAPER_EXPLOITABILITY[K_MEANS],
    "CFR-BR": PAPER_CFR_BR,
}
SHORT = {PERCENTILES: "percentiles 169/1000/500/200", K_MEANS: "k-means 169/200/200/200"}

# in the figure, points of the same boards stand side by side
_APART, _ASIDE = 1.05, ("from_turn", "best", "local")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """An average policy in the real game, in thousandths of a big blind per hand; what responders
    win is the mean of both seats.
    """

    boards: int  # that it learned from
    value: Estimate  # to the dealer, against itself
    from_turn: Estimate  # what responders win who deviate from the turn on
    best: Estimate | None  # what best responses win; None: not computed
    local: Estimate | None  # what local best response wins; None: not computed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """The policies of one abstraction."""

    points: list[Point]
    change: Estimate  # of what responders win from the turn on, since it was least; on equal flops
    first: FirstActions  # of the last policy


Lines = dict[str, Line]  # by abstraction


def draw(path: pathlib.Path, lines: Lines, *, whole: bool) -> None:
    """Draws the value and what responders win against boards.

    Args:
      path: of the PNG file.
      lines: by what they are called.
      whole: whether this is all of limit hold'em, so that the papers' numbers are shown beside.
    """
    with plots.figure(path, rows=1, columns=2, size=(9.6, 4.2)) as axes:
        value, won = axes[0]
        for number, (short, line) in enumerate(lines.items()):
            for panel, name, words, shape in (
                (value, "value", short, "o-"),
                (won, "from_turn", f"{short}: from the turn on", "o-"),
                (won, "best", f"{short}: best responses", "D"),
                (won, "local", f"{short}: local best response", "x"),
            ):
                points = [(p.boards, getattr(p, name)) for p in line.points if getattr(p, name)]
                aside = number + len(lines) * (_ASIDE.index(name) if name in _ASIDE else 0)
                panel.errorbar(
                    [_APART**aside * boards for boards, _ in points],
                    [found.value for _, found in points],
                    [2 * found.error for _, found in points],
                    fmt=shape,
                    color=plots.colour(number),
                    markersize=4,
                    capsize=2,
                    label=words,
                )
        if whole:
            value.axhspan(*PAPER_VALUE_BOUNDS, color="#888888", alpha=0.3, linewidth=0)
            plots.level(value, PAPER_VALUE_BOUNDS[1], "the game's value: 87.7 to 89.7")
            won.axhspan(*PAPER_OVERFITTING, color="#888888", alpha=0.2, linewidth=0)
            plots.level(won, PAPER_OVERFITTING[1], "CFR as training goes on: 277 to 305 (paper)")
            for name, height in PAPER_LEVELS.items():
                plots.level(won, height, f"{name}: {results.text(height)} (paper)")
        won.set_ylim(bottom=0)
        value.set(xscale="log", xlabel="boards", ylabel="value to the dealer, mb/h")
        won.set(xscale="log", xlabel="boards", ylabel="won by responders, mb/h")
