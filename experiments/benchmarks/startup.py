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

from experiments.benchmarks.configs import check_names, preset_config
from experiments.benchmarks.reports import markdown_table
from experiments.harness import plots, results, runs
from experiments.harness.usage_meter import UsageMeter

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
_FILES = (results.RESULT_FILE, "benchmark.csv", "benchmark.png", "table.md")


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


def benchmark(
    out: pathlib.Path,
    *,
    preset: str = "cpu",
    overwrite: bool = False,
    command: str = "python -m experiments benchmark startup",
    **changes: Any,
) -> None:
    """Measures, and writes result.json, benchmark.csv, benchmark.png and table.md.

    Args:
      out: the folder for the results.
      preset: "smoke" or "cpu".
      overwrite: whether to delete an earlier run in `out`.
      command: the command line to put on record.
      **changes: fields of the preset's config to replace.

    Raises:
      ValueError: the preset or a command is unknown, `out` holds an earlier run, or a command
        fails.
    """
    meter = UsageMeter()
    config = preset_config(PRESETS, preset, **changes)
    check_names("command", config.commands, COMMANDS)
    runs.prepare(out, files=_FILES, resume=False, overwrite=overwrite)
    rows = list(_rows(config))
    result = results.make_result(
        experiment="benchmark_startup",
        preset=preset,
        config=dataclasses.asdict(config)
        | {
            "command_lines": {name: COMMANDS[name] for name in config.commands},
            "measure": "seconds of a whole process, median of all rounds",
        },
        command=command,
        usage=meter.usage(),
        numbers=list(_numbers(rows)),
        error_bars="the least and the most of all rounds",
    )
    head = ["command", "cache", "seconds", "processor seconds"]
    table = markdown_table(
        head,
        [[row[key] for key in ("command", "cache", "seconds", "processor")] for row in rows],
    )
    results.write_csv(out / "benchmark.csv", rows)
    results.write_file(out / "table.md", table + "\n")
    _draw(out / "benchmark.png", rows)
    results.write_result(out, result)
    Console().print(table)


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


def _numbers(rows) -> Iterator[results.Number]:
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


def _draw(path, rows) -> None:
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
