"""Results: the schema of every `result.json`, and how files are written without ever being partial.

A result records what was measured, by which command, with which code and on which machine. The
tables of results are made from these files (see `tables`, which may reword them: the words of a
result are its experiment's, the numbers are the run's).
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import importlib.metadata
import io
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULT_FILE = "result.json"
LEVEL = 0.05  # at which tests refuse, and how often intervals of 95 % miss
TWO_STANDARD_ERRORS = "two standard errors to either side, about 95 % confidence"
TWO_STANDARD_ERRORS_OF_SEEDS = (
    "two standard errors of the mean over seeds to either side: 88 % confidence with five seeds,"
    " 82 % with three and 70 % with two, by Student's t"
)
LEAST_AND_MOST_SAMPLE = "the least and the most of all samples of the speed"
LEAST_AND_MOST = "the least and the most of all seeds"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Number:
    """A measured number; `value` is the mean where several seeds were run."""

    name: str
    value: float
    unit: str
    low: float | None = None  # `Result.error_bars` says of what; None if there is no error bar
    high: float | None = None
    paper: float | None = None  # the published number, or another program's; None: there is none
    seeds: int = 1

    def __post_init__(self):
        for field in ("value", "low", "high", "paper"):
            value = getattr(self, field)
            if value is not None and not math.isfinite(value):
                raise ValueError(f"number {self.name!r}: {field}={value} is not finite")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usage:
    """What a run has used, in all its parts."""

    wall_seconds: float = 0.0
    peak_memory_gib: float = 0.0
    """Of the main memory, by the process of the run or the largest one that it started."""
    load_average: tuple[tuple[float, float], ...] = ()
    """Of the machine over a minute, at the start and at the end of each part: the number of
    threads of all programs that ran or waited for a core."""
    cores: int = dataclasses.field(default_factory=lambda: os.cpu_count() or 1)
    """Of the machine, whether the run may use them all or not."""
    commits: tuple[str, ...] = ()
    """Of the code at the start of each part; see `commit`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """The record of a run of an experiment."""

    experiment: str
    preset: str
    config: dict[str, Any]
    commit: str  # of the last part of the run
    versions: dict[str, str]
    device: str
    command: str
    wall_seconds: float  # of all parts of the run; of older results, of the last part
    peak_memory_gib: float | None = None  # this and the next two: see `Usage`; None: older results
    load_average: tuple[tuple[float, float], ...] | None = None
    cores: int | None = None
    commits: tuple[str, ...] | None = None  # of all parts, as `Usage` has them; None: older results
    deviations: tuple[str, ...]  # from the published setting, in words
    superseded: str | None = None  # what the code does otherwise today; written by hand
    error_bars: str | None = None  # what low and high of the numbers are; None: there are none
    numbers: tuple[Number, ...]

    def number(self, name: str) -> Number:
        """The first number of this name; StopIteration if there is none."""
        return next(number for number in self.numbers if number.name == name)


def make_result(
    *,
    experiment: str,
    preset: str,
    config: dict[str, Any],
    command: str,
    usage: Usage,
    numbers: Iterable[Number],
    deviations: Iterable[str] = (),
    error_bars: str | None = None,
) -> Result:
    """A result with the versions and the device of this process, and the commit of its last part.

    Raises:
      ValueError: numbers have low and high, and `error_bars` does not say what these are.
    """
    numbers = tuple(numbers)
    unsaid = [number.name for number in numbers if number.low is not None]
    if unsaid and not error_bars:
        raise ValueError(f"{experiment}: error_bars={error_bars!r} must explain {unsaid[0]!r}")
    return Result(
        experiment=experiment,
        preset=preset,
        config=config,
        commit=usage.commits[-1] if usage.commits else commit(),
        versions=versions(),
        device=device(),
        command=command,
        **dataclasses.asdict(usage),
        deviations=tuple(deviations),
        error_bars=error_bars if unsaid else None,
        numbers=numbers,
    )


def interval(samples: Sequence[float]) -> tuple[float, float]:
    """Two standard errors to either side of the samples' mean: about 95 % confidence with many
    samples, and less with few (`TWO_STANDARD_ERRORS_OF_SEEDS`)."""
    mean, error = statistics.fmean(samples), statistics.stdev(samples) / len(samples) ** 0.5
    return mean - 2 * error, mean + 2 * error


def unseen_range(
    mean: float, count: int, *, least: float = 0.0, most: float = 1.0
) -> tuple[float, float]:
    """What samples unlike all that were drawn may make of a mean, at 95 % confidence.

    If such samples are a part q of all that there can be, none of n that are drawn is one with the
    probability (1 - q)^n. So q = 1 - 0.05^(1/n) is the most that an exact test does not refuse at
    5 %. At the ends of the range this part has the least or the most value that a sample can have.

    Args:
      mean: of the samples that were drawn, all alike or not.
      count: how many they are.
      least: that a sample can be.
      most: that a sample can be.
    """
    part = 1 - LEVEL ** (1 / count)
    return mean - part * (mean - least), mean + part * (most - mean)


def write_result(folder: pathlib.Path, result: Result) -> None:
    """Writes `folder/result.json`, which a run writes last: where it is, the run is complete."""
    fields = dataclasses.asdict(result)
    known = {name: value for name, value in fields.items() if value is not None}
    text = json.dumps(known, indent=2, allow_nan=False)
    write_file(folder / RESULT_FILE, text + "\n")


def read_result(path: pathlib.Path) -> Result:
    """Reads a result.

    Raises:
      ValueError: the file does not have the schema.
      OSError: the file cannot be read.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        numbers = tuple(_number(**number) for number in fields.pop("numbers"))
        deviations = tuple(fields.pop("deviations"))
        if fields.get("load_average") is not None:
            fields["load_average"] = tuple(map(tuple, fields["load_average"]))
        if fields.get("commits") is not None:
            fields["commits"] = tuple(fields["commits"])
        return Result(**fields, deviations=deviations, numbers=numbers)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not a result of this version: {error}") from None


def _number(**fields: Any) -> Number:
    """A number as JSON has it, in which 2.0 may have become 2."""
    floats = {name: fields[name] for name in ("value", "low", "high", "paper") if name in fields}
    return Number(**fields | {name: None if x is None else float(x) for name, x in floats.items()})


def write_csv(path: pathlib.Path, rows: Sequence[dict[str, Any]]) -> None:
    """Writes rows that all have the keys of the first, which are the columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_file(path, text.getvalue())


def write_file(path: pathlib.Path, content: str | bytes) -> None:
    """Writes a file so that, whatever happens, it has either the old content or the new."""
    from jaxgames import files  # imports JAX, which not all that uses results needs

    files.write_file(path, content)


def text(value: float) -> str:
    """A number for people: whole and large ones with separators, others with four digits."""
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.4g}"


def commit() -> str:
    """The git commit of this checkout, or "unknown" if this is none.

    It ends in `-dirty` if files are changed, not counting results, which a run overwrites.
    """
    try:
        if pathlib.Path(_git("rev-parse", "--show-toplevel")).resolve() != ROOT:
            return "unknown"
        others = [".", ":!experiments/results"]
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", *others)
        return _git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(*arguments: str) -> str:
    command = ["git", "--no-optional-locks", *arguments]
    run = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=10)
    return run.stdout.strip()


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    by_package = {"python": platform.python_version()}
    for package in ("jaxgames", "jax", "jaxlib", "numpy"):
        try:
            by_package[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            by_package[package] = "unknown"
    return by_package


def device() -> str:
    """The device that JAX computes on, in words."""
    import jax

    devices = jax.devices()
    if devices[0].platform == "cpu":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return f"{_processor()}, {cores} core{'' if cores == 1 else 's'}"
    count = f"{len(devices)} x " if len(devices) > 1 else ""
    return f"{count}{devices[0].device_kind}"


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
