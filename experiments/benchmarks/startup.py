"""How long an answer takes from the command line: whole processes, cold and warm.

Every measurement is a process of its own. Cold, its folder of compiled programs is new; warm, a run
of the same command has filled it. Times are wall-clock seconds from the start of Python to its end,
result, tables and figures included; the seconds of the processor are beside them.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import Progress

from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.config_checks import check_names
from experiments.benchmarks.reports import markdown_table
from experiments.harness import plots, results

TURN = (
    "solve_holdem --board 8s8d3cJd --ip random --pot 200 --stack 900 --bets 50%,allin --raises 3x"
    " --target 0.1% --oop 66+,A8s+,A5s-A4s,AJo+,K9s+,KQo,QTs+,JTs,96s+,85s+,75s+,65s,54s"
)
COMMANDS = {
    "help": "--help",
    "kuhn": "solve kuhn_poker",
    "leduc": "solve leduc_poker",
    "turn": TURN,
}
_COLOURS = {"cold": "#0072B2", "warm": "#E69F00"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    commands: tuple[str, ...]
    rounds: int  # times that every command is measured cold and warm
    time_limit: float  # in seconds, for one process


PRESETS = {
    "smoke": Config(commands=("help", "kuhn"), rounds=1, time_limit=300.0),
    "cpu": Config(commands=tuple(COMMANDS), rounds=3, time_limit=900.0),
}


def _rows(config) -> Iterator[dict[str, Any]]:
    """The lines of the CSV: each command, cold and warm, all rounds together."""
    times = {(name, cache): [] for name in config.commands for cache in _COLOURS}
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=len(times) * config.rounds)
        for _ in range(config.rounds):
            for name in config.commands:
                bar.update(task, description=name)
                with tempfile.TemporaryDirectory() as folder:
                    for cache in _COLOURS:
                        times[name, cache].append(_seconds(name, folder, config.time_limit))
                        bar.advance(task)
    for (name, cache), measured in times.items():
        wall, processor = zip(*measured, strict=True)
        yield {
            "command": name,
            "cache": cache,
            "seconds": statistics.median(wall),
            "seconds_low": min(wall),
            "seconds_high": max(wall),
            "processor": statistics.median(processor),
            "processor_low": min(processor),
            "processor_high": max(processor),
        }


def _seconds(name: str, folder: str, time_limit: float) -> tuple[float, float]:
    """Runs a command with `folder` as the user's cache folder: its wall-clock seconds, and those of
    all processors.

    Raises:
      ValueError: the command fails, or takes longer than `time_limit` seconds.
    """
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")
    }
    paths = [str(results.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment |= {"XDG_CACHE_HOME": folder, "PYTHONPATH": os.pathsep.join(paths)}
    words = [sys.executable, "-m", "experiments", *COMMANDS[name].split()]
    with tempfile.TemporaryDirectory() as out:
        if name != "help":
            words += ["--out", str(pathlib.Path(out, "run"))]
        before, begin = _processor_seconds(), time.perf_counter()
        try:
            done = subprocess.run(
                words, env=environment, timeout=time_limit, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"{name} took more than {time_limit:g} s") from None
        wall, processor = time.perf_counter() - begin, _processor_seconds() - before
    if done.returncode:
        raise ValueError(f"{name} failed: {done.stderr.strip()[-300:]}")
    return wall, processor


def _processor_seconds() -> float:
    """Processor seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _table(config, rows, result) -> str:
    """The table for people."""
    head = ["command", "cache", "seconds", "processor seconds"]
    keys = ("command", "cache", "seconds", "processor")
    return markdown_table(head, [[row[key] for key in keys] for row in rows]) + "\n"


def _numbers(config, rows) -> Iterator[results.Number]:
    """All numbers of `result.json`."""
    for row in rows:
        for key, name in (("seconds", "wall"), ("processor", "processor")):
            yield results.Number(
                name=f"{row['command']}:{row['cache']}, {name}",
                value=row[key],
                low=row[f"{key}_low"],
                high=row[f"{key}_high"],
                unit="s",
            )


def _draw(path, config, rows) -> None:
    with plots.figure(path, rows=1, columns=1, size=(5.2, 2.8)) as figure_axes:
        axes = figure_axes[0, 0]
        names = list(dict.fromkeys(row["command"] for row in rows))
        for row in rows:
            place = names.index(row["command"]) + (0.2 if row["cache"] == "warm" else -0.2)
            label = row["cache"] if row["command"] == names[0] else None
            axes.barh(place, row["seconds"], height=0.38, color=_COLOURS[row["cache"]], label=label)
            axes.text(row["seconds"] * 1.05, place, f"{row['seconds']:.2g}", va="center")
        axes.set(xscale="log", xlabel="seconds", title="From the command to the answer")
        axes.set_xlim(0.1, 2 * max(row["seconds"] for row in rows))
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.legend(frameon=False)


BENCHMARK = Benchmark(
    name="startup",
    presets=PRESETS,
    check=lambda config: check_names("command", config.commands, COMMANDS),
    measure_all=lambda config, kept: list(_rows(config)),
    lines=lambda config, rows: rows,
    numbers=_numbers,
    measure="seconds of a whole process, median of all rounds",
    conditions=lambda config, rows: {
        "command_lines": {name: COMMANDS[name] for name in config.commands}
    },
    error_bars="the least and the most of all rounds",
    table=_table,
    draw=_draw,
)
