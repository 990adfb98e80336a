"""Benchmarks: our solvers side by side with the peers that are installed.

`run` carries out one of `BENCHMARKS`. Every measurement is made in a process of its own, so that
memory, threads, settings and crashes stay with the program they belong to.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from experiments.harness import results

_GREY = "#8c8c8c"
Config = TypeVar("Config")  # of a benchmark, a dataclass


def _cfr(out: pathlib.Path, **options: Any) -> None:
    """Iterations per second of CFR+ on four games, with build and compile times and memory."""
    from experiments.benchmarks import cfr  # imports JAX

    cfr.benchmark(out, **options)


def _search(out: pathlib.Path, **options: Any) -> None:
    """Searches per second of growing-tree CFR, where their time goes, and the network's floor."""
    from experiments.benchmarks import search  # imports JAX

    search.benchmark(out, **options)


def _sampling(out: pathlib.Path, **options: Any) -> None:
    """Traversals per second of MCCFR, self-play search and information-set MCTS."""
    from experiments.benchmarks import sampling  # imports JAX

    sampling.benchmark(out, **options)


def _holdem(out: pathlib.Path, **options: Any) -> None:
    """Milliseconds of an iteration on hold'em spots, and of a river of many; hands per second."""
    from experiments.benchmarks import holdem  # imports JAX

    holdem.benchmark(out, **options)


BENCHMARKS: dict[str, Callable[..., None]] = {
    "cfr": _cfr,
    "search": _search,
    "sampling": _sampling,
    "holdem": _holdem,
}


def run(name: str, out: pathlib.Path, **options: Any) -> None:
    """Runs a benchmark and writes its results into the folder `out`.

    `options` are those of the benchmark; all know `preset` ("smoke" or "cpu"), `overwrite` and
    `command` (the command line to put on record).

    Raises:
      ValueError: unknown benchmark or preset, `out` holds an earlier run, or two programs that
        should give the same answer do not.
      OSError: the results cannot be written.
    """
    if name not in BENCHMARKS:
        from jaxgames.registry import unknown  # imports JAX, which not all processes need

        raise ValueError(unknown("benchmark", name, BENCHMARKS))
    BENCHMARKS[name](pathlib.Path(out), **options)


def measure_apart(program: str, job: dict[str, Any], *, time_limit: float) -> dict[str, Any]:
    """What `program`, a text in Python, reports when a new process runs it.

    The program finds `job` and a function to report with in `arguments`. Adds `failure`: None, or
    why the process did not come to its end; what it had reported before is kept.
    """
    with tempfile.TemporaryDirectory() as folder:
        reported = pathlib.Path(folder, "reported")
        reported.touch()
        command = [sys.executable, "-c", program, json.dumps(job), str(reported)]
        found: dict[str, Any] = {"failure": _execute(command, folder, time_limit)}
        for line in reported.read_text().split("\n")[:-1]:  # what follows is incomplete
            found |= json.loads(line)
    return found


def arguments() -> tuple[dict[str, Any], Callable[..., None]]:
    """Inside a process of `measure_apart`: the job, and the function that reports."""
    job, reported = json.loads(sys.argv[1]), pathlib.Path(sys.argv[2])

    def report(**found: Any) -> None:
        with reported.open("a") as file:
            file.write(json.dumps(found) + "\n")

    return job, report


def even_devices() -> int:
    """Devices of JAX that XLA is to share this machine's cores out to: one for each, or as many
    below that as share batches evenly."""
    return 2 ** max((os.cpu_count() or 1).bit_length() - 1, 1)


def preset_config(presets: dict[str, Config], preset: str, **changes: Any) -> Config:
    """The config of a preset with some fields replaced.

    Raises:
      ValueError: unknown preset.
    """
    if preset not in presets:
        from jaxgames.registry import unknown  # imports JAX

        raise ValueError(unknown("preset", preset, presets))
    return dataclasses.replace(presets[preset], **changes)


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """A line of a CSV with six digits of every float."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One program on one task, all rounds together."""

    task: str
    program: str
    runs: Sequence[dict[str, Any]]  # by round, what `measure_apart` found; some hold `samples`

    @property
    def rates(self) -> list[float]:
        """Work per second in every sample."""
        return [sample["rate"] for run in self.runs for sample in run.get("samples", ())]

    @property
    def rate(self) -> float:
        """Their median."""
        return statistics.median(self.rates)

    @property
    def failure(self) -> str:
        """Why there are no samples, or fewer than wanted; empty if nothing failed."""
        return next((run["failure"] for run in self.runs if run["failure"]), "")

    def median(self, key: str) -> float | None:
        """Median over the rounds of a number that each may report."""
        found = [run[key] for run in self.runs if key in run]
        return float(statistics.median(found)) if found else None

    def largest(self, key: str) -> float:
        """Largest value over all samples."""
        samples = [sample for run in self.runs for sample in run.get("samples", ())]
        return max((sample[key] for sample in samples), default=0.0)


def speeds(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the table program x task: what failed says why, else blank if not run."""
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


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = results.text(float(value)) if isinstance(value, int | float) else str(value)
    return text.replace("|", "/")


def bars(axes: Any, rows: Sequence[Row], *, labels: dict[str, str], colours: dict[str, str]):
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


def _execute(command, folder, time_limit) -> str | None:
    """Runs a command in which `folder` is the home folder; returns why it failed, if it did."""
    paths = [str(results.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"HOME": folder, "PYTHONPATH": os.pathsep.join(paths)}
    environment["JAX_ENABLE_X64"] = "0"  # programs in float64 say so themselves
    errors = pathlib.Path(folder, "errors")
    with errors.open("wb") as stream:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": stream}
        try:
            done = subprocess.run(command, env=environment, timeout=time_limit, **streams)
        except subprocess.TimeoutExpired:
            return f"capped: over {time_limit:g} s"
    if done.returncode == 0:
        return None
    lines = errors.read_text(errors="replace").strip().splitlines()
    return f"failed: {lines[-1] if lines else f'exit code {done.returncode}'}"


class Clock:
    """Times one stretch of work; tells how many cores this process and all others kept busy."""

    def __init__(self):
        self._others = _busy_seconds()
        self._own = time.process_time()
        self._begin = time.perf_counter()

    def seconds(self) -> float:
        """Wall time so far."""
        return time.perf_counter() - self._begin

    def sample(self, count: int) -> dict[str, float]:
        """Work per second so far, if it was `count` units, and the busy cores."""
        seconds, own = self.seconds(), time.process_time() - self._own
        others = max(_busy_seconds() - self._others - own, 0.0)
        return {"rate": count / seconds, "cores": own / seconds, "others": others / seconds}


def _busy_seconds() -> float:
    """Core-seconds that the whole machine has been busy since its start; 0 if it does not say."""
    try:
        fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, soft_irq, stolen = map(int, fields)
    return (user + nice + system + irq + soft_irq + stolen) / os.sysconf("SC_CLK_TCK")


def peak_memory() -> float:
    """Peak resident memory of this process so far, in MiB.

    Linux passes `ru_maxrss` of a parent on to its children, so its own count is read first.
    """
    try:
        for line in pathlib.Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    except OSError:
        pass
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def bandwidth(num_bytes: int, *, seconds: float = 0.2) -> float:
    """Bytes per second that a compiled `x = a x + y` moves on two arrays of `num_bytes` together.

    The best of five measurements, as in STREAM (McCalpin 1995). Small arrays stay in the caches.
    """
    import jax
    import jax.numpy as jnp

    @jax.jit
    def triad(x, y, count):
        return jax.lax.fori_loop(0, count, lambda _, x: jnp.float32(0.5) * x + y, x)

    def measured(count):
        clock = Clock()
        jax.block_until_ready(triad(x, x, count))
        return clock.seconds()

    x = jnp.ones(max(num_bytes // 8, 1), jnp.float32)
    measured(0)  # compiles
    count = 1
    while measured(count) < seconds / 2:
        count *= 2
    return 3 * x.nbytes * count / min(measured(count) for _ in range(5))
