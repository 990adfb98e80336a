"""Results: the one schema of every `result.json`, and files that are never half-written.

A result records what was measured, by which command, on which code and on which machine. README's
results table is made from these files (see `tables`).
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Number:
    """One measured number; `value` is the mean where several seeds were run."""

    name: str
    value: float
    unit: str
    low: float | None = None  # range or interval, `config` says which; None if nothing is random
    high: float | None = None
    paper: float | None = None  # the published number, None where there is none
    seeds: int = 1

    def __post_init__(self):
        for field in ("value", "low", "high", "paper"):
            given = getattr(self, field)
            if given is not None and not math.isfinite(given):
                raise ValueError(f"number {self.name!r}: {field}={given} is not finite")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """Everything worth keeping of one run of an experiment."""

    experiment: str
    preset: str
    config: dict[str, Any]
    commit: str
    versions: dict[str, str]
    device: str
    command: str
    wall_seconds: float  # of the process that finished the run
    deviations: tuple[str, ...]  # from the published setting, in words
    numbers: tuple[Number, ...]

    def number(self, name: str) -> Number:
        """The number of this name."""
        return next(number for number in self.numbers if number.name == name)


def make_result(
    *,
    experiment: str,
    preset: str,
    config: dict[str, Any],
    command: str,
    wall_seconds: float,
    numbers: Iterable[Number],
    deviations: Iterable[str] = (),
) -> Result:
    """A result stamped with the code and the machine of this process."""
    return Result(
        experiment=experiment,
        preset=preset,
        config=config,
        commit=commit(),
        versions=versions(),
        device=device(),
        command=command,
        wall_seconds=round(wall_seconds, 3),
        deviations=tuple(deviations),
        numbers=tuple(numbers),
    )


def interval(samples: Sequence[float]) -> tuple[float, float]:
    """Two standard errors about the mean of two samples or more: confidence of about 95 %."""
    mean, error = statistics.fmean(samples), statistics.stdev(samples) / len(samples) ** 0.5
    return mean - 2 * error, mean + 2 * error


def write_result(folder: pathlib.Path, result: Result) -> None:
    """Writes `folder/result.json`: last of a run's files, so that it tells the run is complete."""
    text = json.dumps(dataclasses.asdict(result), indent=2, allow_nan=False)
    write_file(folder / RESULT_FILE, text + "\n")


def read_result(path: pathlib.Path) -> Result:
    """The result in a file.

    Raises:
      ValueError: the file is not of the schema.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        numbers = tuple(_number(**number) for number in fields.pop("numbers"))
        deviations = tuple(fields.pop("deviations"))
        return Result(**fields, deviations=deviations, numbers=numbers)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not a result of this version: {error}") from None


def _number(**fields: Any) -> Number:
    """A number as JSON has it, in which 2.0 may have become 2."""
    floats = {name: fields[name] for name in ("value", "low", "high", "paper") if name in fields}
    return Number(**fields | {name: None if x is None else float(x) for name, x in floats.items()})


def write_csv(path: pathlib.Path, rows: Sequence[dict[str, Any]]) -> None:
    """Writes rows, all with the keys of the first as columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_file(path, text.getvalue())


def write_file(path: pathlib.Path, content: str | bytes) -> None:
    """Puts `content` in place of the file at once: whatever happens, it is the old or the new."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    content = content.encode() if isinstance(content, str) else content
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):  # a full disk does not say which file it is about
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def text(value: float) -> str:
    """A number for people: counts with separators, the rest with four digits."""
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.4g}"


def commit() -> str:
    """The git commit of this checkout; unknown outside of one.

    `-dirty` if files were changed, other than results, which a run overwrites.
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
    found = {"python": platform.python_version()}
    for package in ("jaxgames", "jax", "jaxlib", "numpy"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found


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
