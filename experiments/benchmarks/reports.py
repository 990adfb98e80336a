"""Rows of measurements, and how the benchmarks show them: CSV, Markdown tables, bars."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from experiments.harness import results

_GREY = "#8c8c8c"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One program on one task, all rounds together."""

    task: str
    program: str
    runs: Sequence[dict[str, Any]]  # by round, what the process reported; some hold `samples`

    @property
    def rates(self) -> list[float]:
        """Units of work per second in every sample."""
        return [sample["rate"] for run in self.runs for sample in run.get("samples", ())]

    @property
    def rate(self) -> float:
        """The median of the rates."""
        return statistics.median(self.rates)

    @property
    def failure(self) -> str:
        """Why there are no samples, or fewer than wanted; empty if nothing failed."""
        return next((run["failure"] for run in self.runs if run["failure"]), "")

    def median(self, key: str) -> float | None:
        """The median over the rounds that reported a number of this name; None if none did."""
        values = [run[key] for run in self.runs if key in run]
        return float(statistics.median(values)) if values else None

    def largest(self, key: str) -> float:
        """The largest value over all samples."""
        samples = [sample for run in self.runs for sample in run.get("samples", ())]
        return max((sample[key] for sample in samples), default=0.0)


def lines_report(lines: Sequence[dict[str, Any]], result: results.Result) -> str:
    """The lines of a CSV as a table in Markdown, under what was measured and over the deviations.

    Args:
      lines: of the CSV, all with the same names.
      result: whose config has a `measure`.
    """
    remarks = "\n".join(f"- {remark}" for remark in result.deviations)
    parts = [f"# {result.config['measure']}", lines_table(lines), *filter(None, [remarks])]
    return "\n\n".join(parts) + "\n"


def cores_busy_with_others(rows: Sequence[Row]) -> float:
    """The most cores that other programs kept busy during a sample."""
    return round(max(row.largest("others") for row in rows), 2)


def speed(row: Row, unit: str) -> results.Number:
    """The median of the rates, from the lowest to the highest."""
    return results.Number(
        name=f"{row.program}:{row.task}",
        value=row.rate,
        low=min(row.rates),
        high=max(row.rates),
        unit=unit,
    )


def speed_ratio(name: str, first: Row, second: Row, unit: str) -> results.Number:
    """How many times as fast the first one is, from its lowest to its highest rate."""
    return results.Number(
        name=name,
        value=first.rate / second.rate,
        low=min(first.rates) / max(second.rates),
        high=max(first.rates) / min(second.rates),
        unit=f"times the {unit}",
    )


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """A line of a CSV with six digits of every float."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()}


def speed_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the table program x task.

    A program that failed shows why; one that was not run on a task leaves the cell empty.
    """
    cells = {}
    for row in rows:
        cells[row.program, row.task] = results.text(row.rate) if row.rates else row.failure
    tasks = list(dict.fromkeys(row.task for row in rows))
    programs = dict.fromkeys(row.program for row in rows)
    return ["", *tasks], [
        [name, *(cells.get((name, task), "") for task in tasks)] for name in programs
    ]


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown, numbers written for people."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in rows)


def lines_table(lines: Sequence[dict[str, Any]]) -> str:
    """The lines of a CSV as a table in Markdown."""
    return markdown_table(list(lines[0]), [list(line.values()) for line in lines])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = results.text(float(value)) if isinstance(value, int | float) else str(value)
    return text.replace("|", "/")


def draw_bars(axes: Any, rows: Sequence[Row], *, labels: dict[str, str], colours: dict[str, str]):
    """Draws one horizontal bar per program on a log axis, from the first row down."""
    measured = [row.rate for row in rows if row.rates]
    low, high = min(measured) / 5, max(measured) * 12  # room for the numbers
    axes.set(xscale="log", xlim=(low, high), ylim=(len(rows) - 0.4, -0.6))
    axes.set_yticks(range(len(rows)), [labels.get(row.program, row.program) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_axisbelow(True)
    for place, row in enumerate(rows):
        if not row.rates:
            reason = row.failure.partition(":")[0]
            axes.text(low * 1.2, place, reason, va="center", style="italic", color=_GREY)
            continue
        axes.barh(place, row.rate, height=0.72, color=colours.get(row.program, _GREY))
        axes.hlines(place, min(row.rates), max(row.rates), color="black", linewidth=1)
        end = max(row.rates) * 1.15
        axes.text(end, place, _short(row.rate), va="center", fontsize=8)


def _short(rate: float) -> str:
    """Three digits: 1.04M, 20.1k, 157."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if rate >= 0.9995 * size:
            return f"{float(f'{rate / size:.3g}'):g}{unit}"
    return f"{rate:.3g}"
