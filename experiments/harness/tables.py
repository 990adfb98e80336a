"""The tables of docs/results.md, written from every `experiments/results/**/result.json`.

They stand between two marker lines, so that a check can tell whether the page is up to date.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Sequence

from experiments.harness import results
from experiments.harness.results import Number, Result

_MANY = 40  # numbers of a list that is folded
PAGE = pathlib.Path("docs", "results.md")
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def main(*, check: bool) -> None:
    """Rewrites the tables in docs/results.md, or only compares them if `check` is true.

    Raises:
      ValueError: docs/results.md lacks the markers or, with `check`, is out of date.
    """
    page = results.ROOT / PAGE
    before = page.read_text(encoding="utf-8")
    after = replace(before, render(results.ROOT / "experiments" / "results", page.parent))
    if before == after:
        return
    if check:
        raise ValueError(f"{PAGE.as_posix()} is out of date: run `python -m experiments tables`")
    results.write_file(page, after)


def replace(page: str, tables: str) -> str:
    """The text of `page` with `tables` between its markers.

    Raises:
      ValueError: the page does not have each marker exactly once.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"{PAGE.as_posix()} must have one line {BEGIN} and one line {END}")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{tables}\n{END}{tail}"


def render(folder: pathlib.Path, start: pathlib.Path) -> str:
    """All results under `folder` as Markdown, one section each; links are relative to `start`."""
    sections = []
    for path in sorted(folder.rglob(results.RESULT_FILE)):
        result = results.read_result(path)
        sections += [*_head(result, path.parent, start), "", *_tables(result), ""]
    return "\n".join(["", *sections])


def _head(result: Result, folder: pathlib.Path, start: pathlib.Path) -> list[str]:
    """The section's heading, what was measured, how to repeat it, its files and deviations."""
    measure = result.config.get("measure")
    lines = [f"### {result.experiment}, {result.preset}", ""]
    if measure:
        lines += [f"{measure[0].upper()}{measure[1:]}.", ""]
    lines += ["```", result.command, "```", ""]
    files = [
        f"[{path.name}]({pathlib.Path(os.path.relpath(path, start)).as_posix()})"
        for path in sorted(folder.iterdir())
        if path.suffix in {".png", ".json"}
    ]
    machine = f"{result.device}; jax {result.versions['jax']}; {'; '.join(_used(result))}"
    lines.append(f"{machine}; {', '.join(files)}.")
    if result.deviations:
        lines += ["", f"Deviations: {'; '.join(result.deviations)}."]
    return lines


def _used(result: Result) -> Iterator[str]:
    """How long the run took, in how much memory, and how busy the machine was."""
    if result.load_average is None:  # an older result, whose time may be that of its last part
        yield f"{_duration(result.wall_seconds)} or more"
        return
    parts = len(result.load_average)
    yield _duration(result.wall_seconds) + (f" in {parts} parts" if parts > 1 else "")
    yield f"{result.peak_memory_gib:.1f} GiB"
    starts, ends = zip(*result.load_average, strict=True)
    busy = max(starts) > result.cores / 2 or max(ends) > 1.5 * result.cores
    yield (
        f"the machine was {'loaded' if busy else 'quiet'} (load average of {max(starts):.1f} at the"
        f" start and {max(ends):.1f} at the end on {result.cores} cores)"
    )


def _duration(seconds: float) -> str:
    """A time in the largest unit of which it has at least two."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _tables(result: Result) -> list[str]:
    """A matrix where all names are of the form column:row, else a list."""
    if not all(number.name.count(":") == 1 for number in result.numbers):
        return _list(result.numbers)
    lines = []
    for unit in dict.fromkeys(number.unit for number in result.numbers):
        matrix = _matrix([number for number in result.numbers if number.unit == unit], unit)
        lines += ["", *matrix] if lines else matrix  # without a gap they would be one table
    return lines


def _list(numbers: Sequence[Number]) -> list[str]:
    if len(numbers) > _MANY:
        summary = "<details markdown><summary>numbers</summary>"
        return [summary, "", *_rows(numbers), "", "</details>"]
    return _rows(numbers)


def _rows(numbers: Sequence[Number]) -> list[str]:
    rows = ["| | value | range | published | unit |", "|---|---:|---:|---:|---|"]
    for number in numbers:
        low, high = _cell(number.low), _cell(number.high)
        span = f"{low} to {high}" if low and high else ""
        value, paper = _cell(number.value), _cell(number.paper)
        rows.append(f"| {number.name} | {value} | {span} | {paper} | {number.unit} |")
    return rows


def _matrix(numbers: Sequence[Number], unit: str) -> list[str]:
    cells = {tuple(number.name.split(":")): number for number in numbers}
    columns = list(dict.fromkeys(column for column, _ in cells))
    lines = [f"| {unit} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for row in dict.fromkeys(row for _, row in cells):
        texts = [_with_paper(cells.get((column, row))) for column in columns]
        lines.append(f"| {row} | " + " | ".join(texts) + " |")
    return lines


def _with_paper(number: Number | None) -> str:
    if number is None:
        return ""
    paper = "" if number.paper is None else f" (published {_cell(number.paper)})"
    return _cell(number.value) + paper


def _cell(value: float | None) -> str:
    return "" if value is None else results.text(value)
