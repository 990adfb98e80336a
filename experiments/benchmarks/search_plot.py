"""The figure of the benchmark of searches: speeds, shares of time, cost against tree size."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from experiments.benchmarks.reports import Row, draw_bars
from experiments.benchmarks.search_report import ALPHAZERO, OURS, RIVAL
from experiments.harness import plots

_COLOURS = {OURS: "#D55E00", ALPHAZERO: "#009E73", RIVAL: "#0072B2"}
_GAMES = ("#D55E00", "#0072B2")
_PARTS = ("#0072B2", "#D55E00", "#E69F00")  # network, regret phase, expansion


def draw(
    path: pathlib.Path,
    rows: Sequence[Row],
    growth: dict[str, list],
    *,
    shares: dict[str, dict[str, float]],
) -> None:
    """Draws the speeds, the shares of time, and the growth of the cost of an iteration.

    The third panel has a line per game, and crosses for trees of twice the capacity.
    """
    named = [dataclasses.replace(row, program=f"{row.task}, {row.program}") for row in rows]
    colours = {
        name.program: next(c for begin, c in _COLOURS.items() if row.program.startswith(begin))
        for name, row in zip(named, rows, strict=True)
    }
    size = (14.0, 1.2 + max(0.3 * len(rows), 2.4))
    with plots.figure(path, rows=1, columns=3, size=size) as axes:
        speed, parts, cost = axes[0]
        draw_bars(speed, named, labels={}, colours=colours)
        speed.set(title="Searches per second", xlabel="searches/s")
        _stacked(parts, shares)
        _lines(cost, growth)


def _stacked(axes: Any, shares: dict[str, dict[str, float]]) -> None:
    """One horizontal bar per task, cut into its parts."""
    axes.set(title="Where the time goes", xlim=(0, 1), xlabel="share")
    axes.set_yticks(range(len(shares)), list(shares))
    axes.set_ylim(len(shares) - 0.4, -1.2)  # room for the legend
    axes.set_axisbelow(True)
    axes.grid(visible=False, axis="y")
    for place, parts in enumerate(shares.values()):
        left = 0.0
        for (name, share), colour in zip(parts.items(), _PARTS, strict=True):
            width = max(share, 0.0)  # the difference of two times may be below 0
            label = name if place == 0 else None
            axes.barh(place, width, left=left, height=0.72, color=colour, label=label)
            left += width
    if shares:
        axes.legend(fontsize=7, loc="upper center", ncols=3, frameon=False)


def _lines(axes: Any, growth: dict[str, list]) -> None:
    """The cost of an iteration against the nodes of the tree, both axes logarithmic."""
    axes.set(title="An iteration of CFR", xlabel="nodes", ylabel="microseconds per search")
    axes.set(xscale="log", yscale="log")
    counts = sorted({nodes for points in growth.values() for nodes, *_ in points})
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_xticks([], minor=True)
    for (game, points), colour in zip(growth.items(), _GAMES, strict=False):
        nodes, costs, twice = zip(*points, strict=True)
        axes.plot(nodes, costs, marker="o", markersize=4, color=colour, label=game)
        axes.plot(nodes, twice, "x", color=colour)
    if growth:
        axes.legend(fontsize=7, frameon=False)
