"""Figures: curves on log axes, with published points beside them.

The colours are those of Okabe and Ito, which colour-blind readers can tell apart. Figures are drawn
without a display.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from experiments.harness import published, results

COLOURS = {
    "cfr": "#0072B2",
    "linear_cfr": "#E69F00",
    "cfr_plus": "#D55E00",
    "dcfr": "#009E73",
    "pcfr_plus": "#CC79A7",
}
_OTHER_COLOUR = "#333333"
_LABELS = {
    "cfr": "CFR",
    "cfr_plus": "CFR+",
    "linear_cfr": "Linear CFR",
    "dcfr": "DCFR",
    "pcfr_plus": "PCFR+",
}
_OVERLAID = ("linear_cfr", "pcfr_plus")  # dashed, as they often lie on cfr_plus and dcfr
_DASHED = (0, (3, 1.2))
HOLLOW = {"linestyle": "none", "marker": "o", "markersize": 4, "markerfacecolor": "white"}
_HANDLE, _LETTER = 0.55, 0.063  # inches in legends: a line with its margins, and a letter
_STYLE = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "xtick.direction": "out",
    "ytick.direction": "out",
    "lines.linewidth": 1.6,
    "axes.formatter.min_exponent": 4,  # numbers on logarithmic axes: 300, not 3 x 10^2
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """A line of a convergence plot; `solver` gives its colour and its label."""

    solver: str
    x: Sequence[int | float]
    exploitability: Sequence[float]
    published: dict[int, float] = dataclasses.field(default_factory=dict)  # exploitability by x


def label(solver: str) -> str:
    """The name of a solver in figures, with its parameters if it has any."""
    name, bracket, parameters = solver.partition("(")
    return _LABELS.get(name, name) + bracket + parameters


@contextlib.contextmanager
def figure(
    path: pathlib.Path, *, rows: int, columns: int, size: tuple[float, float]
) -> Iterator[Any]:
    """A context that yields axes `[rows, columns]`, and writes the figure to `path` at its end.

    What has a label in panels without a legend of their own is explained below all panels, or below
    each of them if a label looks different in two.

    Args:
      path: of a PNG file.
      rows: of panels.
      columns: of panels.
      size: width and height in inches; legends below are added to the height.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        canvas = FigureCanvasAgg(Figure(figsize=size, layout="constrained"))
        axes = canvas.figure.subplots(rows, columns, squeeze=False)
        yield axes
        _explain_below(canvas.figure, axes)
        content = io.BytesIO()
        canvas.figure.savefig(content, format="png", dpi=200, metadata={"Software": None})
    results.write_file(path, content.getvalue())


def _explain_below(figure, axes) -> None:
    """Adds the legends of panels that have none."""
    panels = [panel for panel in axes.flat if panel.get_legend() is None]
    entries = [
        dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True)) for panel in panels
    ]
    merged = {name: handle for panel in entries for name, handle in panel.items()}
    alike = all(
        _look(handle) == _look(merged[name]) for panel in entries for name, handle in panel.items()
    )
    width, height = figure.get_size_inches()
    if alike:
        rows = _legend(figure, merged, width, loc="outside lower center") if merged else 0
    else:
        width /= axes.shape[1]
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.55 * axes.shape[0] / height)}
        rows = sum(
            _legend(panel, names, width, **below)
            for panel, names in zip(panels, entries, strict=True)
            if names
        )
    figure.set_size_inches(width if alike else width * axes.shape[1], height + 0.17 * rows)


def _legend(place, entries, width, **where) -> int:
    """Adds a legend in as many columns as fit into a width in inches; returns its rows."""
    names = [*entries]
    for rows in range(1, len(names) + 1):
        columns = [names[begin : begin + rows] for begin in range(0, len(names), rows)]
        if sum(_HANDLE + _LETTER * max(map(len, column)) for column in columns) < width:
            break
    place.legend(
        entries.values(), entries.keys(), ncols=len(columns), frameon=False, fontsize=8, **where
    )
    return rows


def _look(handle) -> tuple:
    """What tells the lines of a legend apart; areas all mean the same."""
    if not hasattr(handle, "get_marker"):
        return ()
    return handle.get_color(), handle.get_marker(), handle.get_linestyle()


def convergence(axes: Any, curves: Iterable[Curve], *, x_label: str) -> None:
    """Draws exploitability on log axes, with published points; labels every curve at its end."""
    curves = list(curves)
    axes.set(xscale="log", yscale="log", xlabel=x_label)
    for curve in curves:
        y = np.asarray(curve.exploitability, float)
        dashes = _DASHED if curve.solver.partition("(")[0] in _OVERLAID else "solid"
        y = np.where(y > 0, y, np.nan)
        axes.plot(curve.x, y, color=_colour(curve.solver), linestyle=dashes)
    for curve in curves:
        points = {x: y for x, y in curve.published.items() if x <= max(curve.x)}
        x, y = [*points], [*points.values()]
        axes.plot(x, y, markeredgecolor=_colour(curve.solver), **HOLLOW)
    if any(curve.published for curve in curves):
        axes.plot([], [], markeredgecolor=_OTHER_COLOUR, label=published.SOURCE, **HOLLOW)
        axes.legend(loc="upper right", frameon=False, handletextpad=0.1, borderaxespad=0.1)
    _label_ends(axes, curves)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Band:
    """A line of means with a band: the range of the samples, or a confidence interval."""

    name: str
    x: Sequence[int | float]
    samples: Sequence[Sequence[float]]  # for every x
    confidence: bool = False  # the band is `results.interval`, or else the range


_BAND_COLOURS = (*COLOURS.values(), "#56B4E9", "#8C6D1F", "#666666")
_MARKERS = "osD^v<>P"


def bands(
    axes: Any,
    lines: Iterable[Band],
    *,
    published: dict[str, dict[int, float]],
    x_label: str,
    log_x: bool = True,
) -> None:
    """Draws means with their bands, which the legend explains, and published lines as points.

    Args:
      axes: of one panel; the y axis becomes logarithmic.
      lines: to draw.
      published: y by x, by the name in the legend; two at most have shapes of their own.
      x_label: of the x axis.
      log_x: whether the x axis is logarithmic, too.
    """
    axes.set(xscale="log" if log_x else "linear", yscale="log", xlabel=x_label)
    lines = list(lines)
    for number, line in enumerate(lines):
        mean = [float(np.mean(samples)) for samples in line.samples]
        spread = results.interval if line.confidence else _range
        low, high = zip(*map(spread, line.samples), strict=True)
        axes.fill_between(line.x, low, high, color=colour(number), alpha=0.18, linewidth=0)
        axes.plot(
            line.x,
            mean,
            color=colour(number),
            marker=marker(number),
            linestyle="-" if number < len(_BAND_COLOURS) else "--",
            markersize=3.5,
            label=line.name,
        )
    for (name, points), shape in zip(published.items(), ("o", "s"), strict=False):
        style = HOLLOW | {"marker": shape}
        axes.plot([*points], [*points.values()], markeredgecolor="black", label=name, **style)
    spread = [line.confidence for line in lines if max(map(len, line.samples), default=1) > 1]
    if spread:
        words = "two standard errors" if spread[0] else "least to most"
        axes.fill_between(
            [], [], [], color="#888888", alpha=0.3, linewidth=0, label=f"band: {words}"
        )


def count_in_thousands(axis: Any) -> None:
    """Labels an axis with a logarithmic scale of few decades as 500k, 1M, 2M and so on."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.EngFormatter(sep=""))
    axis.set_minor_formatter(ticker.NullFormatter())


def colour(number: int) -> str:
    """The colour of line `number` of `bands`."""
    return _BAND_COLOURS[number % len(_BAND_COLOURS)]


def marker(number: int) -> str:
    """The marker of line `number` of `bands`."""
    return _MARKERS[number % len(_MARKERS)]


def _range(samples: Sequence[float]) -> tuple[float, float]:
    return min(samples), max(samples)


def points(axes: Any, known: dict[int, float], number: int) -> None:
    """Draws published points, y by x, in the colour of line `number` of `bands`."""
    axes.plot([*known], [*known.values()], markeredgecolor=colour(number), **HOLLOW)


def level(axes: Any, height: float, name: str) -> None:
    """Draws a named horizontal line."""
    axes.axhline(height, color=_OTHER_COLOUR, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        name,
        xy=(0.99, height),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
        ha="right",
        color=_OTHER_COLOUR,
        fontsize=7,
    )


def _colour(solver: str) -> str:
    return COLOURS.get(solver.partition("(")[0], _OTHER_COLOUR)


def _label_ends(axes, curves) -> None:
    """Labels every curve at its right end; labels that would overlap are moved apart."""
    ends = []
    for curve in curves:
        y = np.asarray(curve.exploitability, float)
        last = np.flatnonzero(y > 0)[-1:]
        if len(last):
            ends.append((np.log10(y[last[0]]), curve))
    low, high = np.log10(axes.get_ylim())
    gap = 0.065 * (high - low)
    places = _apart([end for end, _ in ends], gap)
    for place, (_, curve) in zip(places, ends, strict=True):
        axes.annotate(
            label(curve.solver),
            xy=(1.0, 10**place),
            xycoords=("axes fraction", "data"),
            xytext=(3, 0),
            textcoords="offset points",
            color=_colour(curve.solver),
            va="center",
            fontsize=8,
            annotation_clip=False,
        )


def _apart(places: Sequence[float], gap: float) -> list[float]:
    """Moves numbers apart until neighbours differ by `gap` or more, keeping order and mean."""
    clusters: list[list[int]] = []  # of indices, in ascending order of place
    for index in np.argsort(places).tolist():
        clusters.append([index])
        while len(clusters) > 1 and _overlap(clusters[-2], clusters[-1], places, gap):
            last = clusters.pop()
            clusters[-1] += last
    moved = [0.0] * len(places)
    for cluster in clusters:
        for rank, index in enumerate(cluster):
            moved[index] = _begin(cluster, places, gap) + rank * gap
    return moved


def _begin(cluster, places, gap):
    """The lowest place of a cluster whose members are `gap` apart about their mean place."""
    return float(np.mean([places[i] for i in cluster])) - gap * (len(cluster) - 1) / 2


def _overlap(below, above, places, gap):
    """Whether two neighbouring clusters are closer than `gap`."""
    return _begin(above, places, gap) < _begin(below, places, gap) + gap * len(below)
