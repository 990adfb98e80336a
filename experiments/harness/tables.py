"""The tables of docs/results.md, written from every `experiments/results/**/result.json`.

They stand between two marker lines, so that a check can tell whether the page is up to date. Before
that the words of the results, what they measure and how they deviate from the papers, are brought
up to date: they are the experiments' today. The numbers stay as their runs measured them.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence

from experiments import registry
from experiments.harness import results
from experiments.harness.results import Number, Result
from experiments.harness.runs import agrees

_MANY = 40  # numbers of a list that is folded
_OTHERS = {  # whose numbers stand beside ours, where they are not published
    "benchmark_holdem": "another solver on another machine",
    "cfr_convergence": "OpenSpiel",
}
PAGE = pathlib.Path("docs", "results.md")
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def main(*, check: bool) -> None:
    """Brings the words of all results and the tables in docs/results.md up to date.

    Args:
      check: only compare them.

    Raises:
      ValueError: docs/results.md lacks the markers or, with `check`, something is out of date.
    """
    folder, page = results.ROOT / "experiments" / "results", results.ROOT / PAGE
    for path in sorted(folder.rglob(results.RESULT_FILE)):
        result = results.read_result(path)
        worded = with_registered_words(result)
        if worded != result:
            _refuse_if(check, path)
            results.write_result(path.parent, worded)
    before = page.read_text(encoding="utf-8")
    after = replace(before, render(folder, page.parent))
    if before != after:
        _refuse_if(check, page)
        results.write_file(page, after)


def _refuse_if(check, path):
    if check:
        name = path.relative_to(results.ROOT).as_posix()
        raise ValueError(f"{name} is out of date: run `python -m experiments tables`")


def with_registered_words(result: Result) -> Result:
    """The result with the words that its experiment has today.

    The words of benchmarks depend on what was measured, and those of a run whose config is not
    today's preset may not fit it: both stay as they are, but for the error bars, which are of the
    same kind in all runs. (Fields that the config did not have yet when the result was recorded
    have their defaults.)
    """
    if result.experiment.startswith("benchmark_"):
        return _with_error_bars(result, result.error_bars or results.LEAST_AND_MOST_SAMPLE)
    if result.experiment not in registry.EXPERIMENTS:
        return result
    experiment = registry.load(result.experiment)
    result = _with_error_bars(result, experiment.error_bars)
    preset = experiment.presets[result.preset]
    if not agrees(result.config, preset):
        return result
    words = experiment.words(preset)
    config = result.config | {"measure": words["measure"]}
    return dataclasses.replace(result, config=config, deviations=words["deviations"])


def _with_error_bars(result: Result, words: str | None) -> Result:
    drawn = any(number.low is not None for number in result.numbers)
    return dataclasses.replace(result, error_bars=words if drawn else None)


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
    # a folder is named by the preset, and after a hyphen by an option beside it, such as the game
    lines = [f"### {result.experiment}, {folder.name.replace('-', ', ')}", ""]
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
    if result.superseded:
        lines += ["", f"**Since this was measured,** {result.superseded}."]
    if result.deviations:
        lines += ["", "Deviations:", "", *(f"- {text}" for text in result.deviations)]
    return lines


def _used(result: Result) -> Iterator[str]:
    """How long the run took, in how much memory, and how busy the machine was."""
    if result.load_average is None:  # an older result, whose time may be that of its last part
        yield f"{_duration(result.wall_seconds)} or more"
        return
    parts, commits = len(result.load_average), dict.fromkeys(result.commits or ())
    yield _duration(result.wall_seconds) + (f" in {parts} parts" if parts > 1 else "")
    yield f"{result.peak_memory_gib:.1f} GiB"
    starts, ends = zip(*result.load_average, strict=True)
    busy = max(starts) > result.cores / 2 or max(ends) > 1.5 * result.cores
    cores = f"{result.cores} core{'s' if result.cores > 1 else ''}"
    yield (
        f"the machine was {'loaded' if busy else 'quiet'} (load average of {max(starts):.1f} at the"
        f" start and {max(ends):.1f} at the end on {cores})"
    )
    if len(commits) > 1:
        yield f"parts at commits {', '.join(map(_short, commits))}"


def _short(commit: str) -> str:
    """A commit's first digits, and "-dirty" where files were changed."""
    number, *dirty = commit.split("-")
    return "-".join([number[:7], *dirty])


def _duration(seconds: float) -> str:
    """A time in the largest unit of which it has at least two."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _tables(result: Result) -> list[str]:
    """A matrix where all names are of the form column:row, else a list."""
    others = _OTHERS.get(result.experiment, "published")
    is_matrix = all(number.name.count(":") == 1 for number in result.numbers)
    lines = []
    if result.error_bars:
        where = "low and high in result.json" if is_matrix else "range"
        lines = [f"{where[0].upper()}{where[1:]}: {result.error_bars}.", ""]
    if not is_matrix:
        return lines + _list(result.numbers, others)
    begin = len(lines)
    for unit in dict.fromkeys(number.unit for number in result.numbers):
        numbers = [number for number in result.numbers if number.unit == unit]
        matrix = _matrix(numbers, unit, others)
        # without a gap they would be one table
        lines += ["", *matrix] if len(lines) > begin else matrix
    return lines


def _list(numbers: Sequence[Number], others: str) -> list[str]:
    if len(numbers) > _MANY:
        summary = "<details markdown><summary>numbers</summary>"
        return [summary, "", *_rows(numbers, others), "", "</details>"]
    return _rows(numbers, others)


def _rows(numbers: Sequence[Number], others: str) -> list[str]:
    rows = [f"| | value | range | {others} | unit |", "|---|---:|---:|---:|---|"]
    for number in numbers:
        low, high = _cell(number.low), _cell(number.high)
        span = f"{low} to {high}" if low and high else ""
        value, paper = _cell(number.value), _cell(number.paper)
        rows.append(f"| {number.name} | {value} | {span} | {paper} | {number.unit} |")
    return rows


def _matrix(numbers: Sequence[Number], unit: str, others: str) -> list[str]:
    cells = {tuple(number.name.split(":")): number for number in numbers}
    columns = list(dict.fromkeys(column for column, _ in cells))
    lines = [f"| {unit} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for row in dict.fromkeys(row for _, row in cells):
        texts = [_with_other(cells.get((column, row)), others) for column in columns]
        lines.append(f"| {row} | " + " | ".join(texts) + " |")
    return lines


def _with_other(number: Number | None, others: str) -> str:
    if number is None:
        return ""
    other = "" if number.paper is None else f" ({others} {_cell(number.paper)})"
    return _cell(number.value) + other


def _cell(value: float | None) -> str:
    return "" if value is None else results.text(value)
