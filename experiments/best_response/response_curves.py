"""How experiments show the learning curves of responders in enumerable games.

`Curves` are by name; all functions take the experiment's config first, as an `Experiment` asks for.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from experiments.best_response.enumerable_responses import Point, games_interval, last_point
from experiments.harness import plots, results
from experiments.harness.experiment import text_table

Curves = Mapping[str, Sequence[Point]]

MEASURE = (
    "NashConv, the sum of what both players' best responses win, in units of the game's payoffs:"
    " exact, by ISMCTS-BR (the exact value of what it plays), by its games, and what a"
    " search without training wins"
)
ERROR_BARS = f"{results.TWO_STANDARD_ERRORS}, of what is won in games"
DEVIATIONS = (
    "the paper trains a larger network for 100,000 steps; published percentages were not available",
    "all responders were trained with one seed, 0",
    "Connect Four, chess and Go are left out: their exact NashConv against uniform play cannot be"
    " computed here",
)


def rows(config: Any, curves: Curves) -> Iterator[dict[str, object]]:
    """A row for every point."""
    for curve in curves.values():
        for point in curve:
            columns = dict(game=point.game, agent=point.agent, step=point.step)
            names = ("exact_0", "exact_1", "won_0", "won_1")
            values = zip(names, (*point.exact, *point.won), strict=True)
            columns |= {name: f"{value:.6g}" for name, value in values}
            yield columns | {"percent": f"{point.percent:.4g}"}


def numbers(config: Any, curves: Curves) -> Iterator[results.Number]:
    """NashConv at the end of every curve: exact, learned, by games; shares of the exact one."""
    for name, curve in curves.items():
        yield from _numbers(name.replace(":", " "), curve)


def _numbers(name: str, curve: Sequence[Point]) -> Iterator[results.Number]:
    end, unit = last_point(curve), "NashConv"
    yield results.Number(name=f"exact:{name}", value=sum(end.exact), unit=unit)
    yield results.Number(name=f"ISMCTS-BR:{name}", value=sum(end.won), unit=unit)
    mean, low, high = games_interval(end)
    yield results.Number(name=f"by games:{name}", value=mean, low=low, high=high, unit=unit)
    share = "% of exact"
    yield results.Number(name=f"ISMCTS-BR:{name}", value=end.percent, unit=share)
    scale = 100 / sum(end.exact)
    yield results.Number(
        name=f"by games:{name}", value=scale * mean, low=scale * low, high=scale * high, unit=share
    )
    if curve[0].step == 0:
        yield results.Number(name=f"untrained:{name}", value=curve[0].percent, unit=share)


def draw(path: pathlib.Path, config: Any, curves: Curves) -> None:
    """Percent of the exact NashConv against training steps, a line for each curve."""
    with plots.figure(path, rows=1, columns=1, size=(5.6, 3.4)) as axes:
        place = axes[0, 0]
        lines = [
            plots.Band(
                name=name,
                x=[point.step for point in curve],
                samples=[[point.percent] for point in curve],
            )
            for name, curve in curves.items()
        ]
        plots.bands(place, lines, published={}, x_label="training steps", log_x=False)
        place.set(yscale="linear", ylabel="% of the exact NashConv")
        place.set_ylim(bottom=min(90, place.get_ylim()[0]))  # so that small differences look small
        plots.level(place, 100.0, "exact best response")


def tables(experiment: str, config: Any, curves: Curves) -> Iterator[Table]:
    """NashConv at the end of every curve, by the name of the experiment."""
    lines = []
    for name, curve in curves.items():
        end = last_point(curve)
        mean, low, high = games_interval(end)
        texts = map(results.text, (sum(end.exact), sum(end.won), end.percent, mean))
        lines.append((name, *texts, f"{results.text(low)} to {results.text(high)}"))
    headings = ("", "exact", "ISMCTS-BR", "% of exact", "by games", "95 % confidence")
    yield text_table(f"{experiment}: NashConv", headings, lines)
