"""What experiments on self-play show of their measurements: rows, numbers, a plot and a table."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from experiments.blueprints.self_play import CALLER, READ_OUTS, UNIFORM, Measurement, Settings
from experiments.harness import plots, results
from experiments.harness.experiment import text_table


def rows(found: Sequence[Measurement]) -> Iterator[dict[str, object]]:
    """A row for every measurement."""
    for each in found:
        yield {
            "episodes": each.episodes,
            "name": each.name,
            "unit": each.unit,
            "value": f"{each.value:.6g}",
            "standard_error": f"{each.error:.3g}",
        }


def _last(found):
    """The measurements at the end."""
    return [each for each in found if each.episodes == found[-1].episodes]


def numbers(found: Sequence[Measurement], paper: Mapping[str, float]) -> Iterator[results.Number]:
    """The measurements at the end, beside those of a paper."""
    for each in _last(found):
        match = each.error > 0
        yield results.Number(
            name=each.name,
            value=each.value,
            unit=each.unit,
            low=each.value - 2 * each.error if match else None,
            high=each.value + 2 * each.error if match else None,
            paper=paper.get(each.name),
        )


def draw(
    path: pathlib.Path,
    found: Sequence[Measurement],
    paper: Mapping[str, float],
    *,
    reference: str | None = None,
) -> None:
    """Matches against episodes, of average policies above and of greedy ones below: of methods
    against each other on the left, then against fixed players who do not look at their cards, and
    on the right against a reference, which is one who does."""
    matches = [each for each in found if " against " in each.name]
    columns = 2 if reference is None else 3
    with plots.figure(path, rows=2, columns=columns, size=(4.8 * columns, 6.4)) as axes:
        for panels, kind in zip(axes, READ_OUTS, strict=True):
            ending = f", {kind}"
            of_kind = [each for each in matches if each.name.endswith(ending)]
            names = dict.fromkeys(each.name for each in of_kind)
            by_fixed = [_against(fixed, names, ending) for fixed in (CALLER, UNIFORM)]
            against = _against(reference, names, ending) if reference else []
            others = [name for name in names if name not in itertools.chain(against, *by_fixed)]
            _draw_lines(panels[0], of_kind, others, ending, "solid")
            for lines, dashes in zip(by_fixed, ((0, (2.5, 1)), (0, (1, 1.2))), strict=True):
                _draw_lines(panels[1], of_kind, lines, ending, dashes)
            for name, level in paper.items():
                if name in names:
                    plots.level(panels[0], level, f"{name} (paper)")
            panels[0].axhline(0, color="#999999", linewidth=0.8, zorder=0)
            panels[0].set_yscale("symlog", linthresh=20, linscale=1.5)
            limits = panels[0].get_ylim()
            panels[0].set_yticks([-100, -50, -30, -20, -10, 0, 10, 20, 30, 50, 100])
            panels[0].set_ylim(limits)
            panels[0].yaxis.set_major_formatter("{x:g}")
            panels[0].set_title(f"{kind} policies against each other")
            panels[1].set_title("against fixed players")
            if reference is not None:
                _draw_lines(panels[2], of_kind, against, ending, "solid")
                panels[2].axhline(0, color="#999999", linewidth=0.8, zorder=0)
                panels[2].set_title(f"against {reference}")
            panels[0].set_ylabel("mb/h (bars: two standard errors)")


def _against(opponent, names, ending) -> list[str]:
    """Those of the names of matches in which an opponent has all other seats."""
    ends = f" against {opponent}{ending}", f" against two {opponent}{ending}"
    return [name for name in names if name.endswith(ends)]


def _draw_lines(panel, matches, names, ending, dashes):
    """Adds a line for each name, dashed alike; colours tell what stands first in the names."""
    panel.set(xscale="log", xlabel="episodes of each method")
    for number, name in enumerate(names):
        line = [each for each in matches if each.name == name]
        panel.errorbar(
            [each.episodes for each in line],
            [each.value for each in line],
            [2 * each.error for each in line],
            color=plots.colour(number),
            marker=plots.marker(number),
            markersize=3.5,
            linestyle=dashes,
            label=name.removesuffix(ending),
        )


def table(command: str, found: Sequence[Measurement], paper: Mapping[str, float]) -> Table:
    """The measurements at the end, beside the paper's."""
    texts = [
        (
            each.name,
            results.text(each.value),
            f"{2 * each.error:.2g}" if each.error else "",
            each.unit,
            results.text(paper[each.name]) if each.name in paper else "",
        )
        for each in _last(found)
    ]
    headings = ("", "value", "+-", "unit", "Heinrich and Silver 2015")
    title = f"{command}: after {found[-1].episodes:,} episodes of each method"
    return text_table(title, headings, texts)


def deviations(config: Settings, paper: Settings, published: str) -> Iterator[str]:
    """What differs from the paper, in words.

    Args:
      config: that was run.
      paper: the published one.
      published: numbers of episodes, in words.
    """
    yield f"{config.batch:,} episodes of a batch see the same table; the paper's see each other"
    if config.episodes < paper.episodes:
        yield f"{config.episodes:,} episodes instead of {published}"
    if config.abstraction != paper.abstraction:
        yield f"buckets {config.abstraction} instead of {paper.abstraction}"
    if config.game != paper.game:
        yield f"the game is {config.game}"
