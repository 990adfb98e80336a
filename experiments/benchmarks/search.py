"""Speed of growing-tree CFR: searches per second, and the network's share of the time.

Every task is measured in a process of its own at steady state; compiling is timed apart. Our search
runs on one device of JAX, which has the threads of all cores, and, for the tasks of `Config.split`,
on several, which share the batch. On games of perfect information, AlphaZero's searches, ours and
that of mctx, run in the same ways, with the same network and as many simulations, and must find the
same move; the fastest rows of ours and of mctx are compared. The floor is the time that the matrix
products and convolutions of the network calls would take at the rate that the machine reaches on
layers of their shape. Further measurements are the cost of an iteration of CFR by the size of the
tree, and searches and games per second of ISMCTS-BR.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import Progress

from experiments.benchmarks import (
    alphazero_search,
    growing_tree_search,
    mctx_search,
    response_search,
    search_report,
    tree_growth,
)
from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.config_checks import check_devices, check_names, even_devices
from experiments.benchmarks.processes import measure_in_process
from experiments.benchmarks.reports import Row, cores_busy_with_others
from experiments.benchmarks.search_plot import draw
from experiments.benchmarks.search_report import (
    ALPHAZERO,
    OURS,
    RIVAL,
    row_of_ours,
    rows_of_ours,
)
from experiments.benchmarks.search_tasks import TASKS

RESPONDER = "ISMCTS-BR"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    tasks: tuple[str, ...]
    split: tuple[str, ...]  # those of the tasks that are searched on several devices, too
    devices: int  # how many; XLA divides the cores among them
    growth: tuple[str, ...]  # games whose trees are grown
    nodes: tuple[int, ...]  # sizes to which they are grown, if the game has as many nodes
    growth_batch: int  # trees side by side
    responses: tuple[str, ...]  # tasks of ISMCTS-BR
    repeats: int  # samples of every speed
    sampling_seconds: float  # after which two samples are enough
    seconds: float  # about how long a part of a search is timed for
    time_limit: float  # in seconds, for one process


PRESETS = {
    "smoke": Config(
        tasks=("Kuhn (8,1), 1x8", "tic-tac-toe (40,1), 1x8"),
        split=("Kuhn (8,1), 1x8", "tic-tac-toe (40,1), 1x8"),
        devices=2,
        growth=("leduc_poker",),
        nodes=(16, 32),
        growth_batch=2,
        responses=("Kuhn (8), zero",),
        repeats=2,
        sampling_seconds=60.0,
        seconds=0.02,
        time_limit=300.0,
    ),
    "cpu": Config(
        tasks=tuple(TASKS)[:-2],
        split=tuple(name for name in tuple(TASKS)[:-2] if not TASKS[name].batch % even_devices()),
        devices=even_devices(),
        growth=("leduc_poker", "scotland_yard(map=glasses)"),
        nodes=(16, 32, 64, 128, 256, 512, 1024),
        growth_batch=64,
        responses=tuple(response_search.TASKS)[:3],
        repeats=7,
        sampling_seconds=15.0,
        seconds=0.5,
        time_limit=1800.0,
    ),
}


class Measured(NamedTuple):
    """All that is measured."""

    rows: list[Row]  # one for each task and program
    growth: dict[str, list]  # by game its points, as of `tree_growth.measure`
    responses: list[Row]  # for each task of ISMCTS-BR one of searches, and one of games


def _check(config) -> None:
    check_names("task", (*config.tasks, *config.split), TASKS)
    check_names("response", config.responses, response_search.TASKS)
    check_devices(config.devices, {task: TASKS[task].batch for task in config.split})


def measure_all(config: Config, once: Callable[..., dict[str, Any]]) -> Measured:
    """Makes all measurements.

    Args:
      config: what is measured.
      once: makes each of them, as of `benchmark.Kept`.
    """
    measure = functools.partial(_measure, config, once)
    jobs = [job for task in config.tasks for job in _jobs(config, task)]
    growth: dict[str, list] = {}
    rows: list[Row] = []
    responses: list[Row] = []
    with Progress(console=Console(stderr=True)) as bar:
        shown = bar.add_task("", total=len(jobs) + len(config.growth) + len(config.responses))
        for task, program, module, job in jobs:
            bar.update(shown, description=f"{task} {program}")
            run = measure(module, job, name=f"{program} on {task}")
            bar.advance(shown)
            if run.get("devices", job["devices"]) < job["devices"]:
                continue  # on an accelerator, cores are not devices
            rows.append(Row(task=task, program=program, runs=[run]))
            check_equal(rows[-1], rows)
        for game in config.growth:
            bar.update(shown, description=f"growth of {game}")
            job = {"game": game, "nodes": config.nodes, "batch": config.growth_batch}
            run = measure(tree_growth, job, name=f"growth of {game}")
            growth[game] = run.get("points", [])
            bar.advance(shown)
        for task in config.responses:
            bar.update(shown, description=f"{RESPONDER} {task}")
            run = measure(response_search, {"task": task}, name=f"{RESPONDER} on {task}")
            games = {"failure": run["failure"], "samples": run.pop("games", [])}
            responses.append(Row(task=task, program=RESPONDER, runs=[run]))
            responses.append(Row(task=task, program=f"{RESPONDER}, games", runs=[games]))
            bar.advance(shown)
    return Measured(rows, growth, responses)


def _jobs(config, task) -> Iterator[tuple[str, str, types.ModuleType, dict[str, Any]]]:
    """What is measured of a task: task, program, the module that measures it, and its job."""
    several = config.devices if task in config.split and config.devices > 1 else None
    one = {"task": task, "devices": 1, "pieces": True}
    split = {"task": task, "devices": several, "pieces": False}
    programs = [(OURS, growing_tree_search)]
    if TASKS[task].has_rival:
        programs.append((ALPHAZERO, alphazero_search))
    if TASKS[task].has_rival and mctx_search.is_installed():
        programs.append((RIVAL, mctx_search))
    for program, module in programs:
        yield task, program, module, one
        if several:
            yield task, f"{program}, {several} devices", module, split


def _measure(config, once, module, job, *, name) -> dict[str, Any]:
    """What a module measures in a process of its own."""
    names = ("repeats", "sampling_seconds", "seconds")
    timing = {name: getattr(config, name) for name in names}
    limit = config.time_limit
    run = once(name, lambda: measure_in_process(module.__name__, job | timing, time_limit=limit))
    if (run["failure"] or "").startswith("failed") and module is not mctx_search:
        raise ValueError(f"{name} {run['failure']}")
    return run


def check_equal(row: Row, rows: Sequence[Row]) -> None:
    """Raises `ValueError` if a program's work or answer is not that of ours on the same task."""
    run, task = row.runs[0], TASKS[row.task]
    ours = row_of_ours(row.task, rows).runs[0]
    for name, expected in (("simulations", task.simulations), ("move", task.mate)):
        if expected is not None and run.get(name, expected) != expected:
            raise ValueError(
                f"{row.task}: {name} of {row.program} is {run[name]}, must be {expected}"
            )
    both = "answer" in run and "answer" in ours  # else one of the two was capped before
    if both and not np.allclose(run["answer"], ours["answer"], rtol=1e-3, atol=1e-4):
        worst = np.abs(np.subtract(run["answer"], ours["answer"])).max()
        raise ValueError(f"{row.task}: policies of {row.program} are off by {worst:g}")


def _remarks(config, measured) -> list[str]:
    """What readers of the results should know: failures, what was left out, settings of tasks."""
    failed = (row for row in measured.rows if row.failure)
    remarks = [f"{row.program} on {row.task}: {row.failure}" for row in failed]
    if not mctx_search.is_installed() and any(TASKS[task].has_rival for task in config.tasks):
        remarks.append("mctx is not installed")
    for task in config.tasks:
        number = TASKS[task].expand
        if number is not None:
            children = "child" if number == 1 else "children"
            remarks.append(f"{task}: new nodes start with their {number} best {children}")
    return remarks


def _conditions(config, measured) -> dict[str, Any]:
    conditions: dict[str, Any] = {"cores_busy_with_others": cores_busy_with_others(measured.rows)}
    if any(row.program == RIVAL for row in measured.rows):
        conditions["mctx"] = importlib.metadata.version(mctx_search.DISTRIBUTION)
    return conditions


def _draw(path, config, measured) -> None:
    shares = {row.task: search_report.shares(row) for row in rows_of_ours(measured.rows)}
    draw(path, measured.rows, measured.growth, shares=shares)


BENCHMARK = Benchmark(
    name="search",
    presets=PRESETS,
    check=_check,
    measure_all=lambda config, kept: measure_all(config, kept.once),
    resumable=True,
    lines=lambda config, measured: map(search_report.details, measured.rows),
    more_lines={"growth.csv": lambda config, measured: search_report.growth_rows(measured.growth)},
    numbers=lambda config, measured: search_report.numbers(*measured),
    measure="searches per second from the root of the game, untrained networks",
    conditions=_conditions,
    deviations=_remarks,
    table=lambda config, measured, result: search_report.markdown(*measured, result),
    draw=_draw,
    shown=lambda config, measured: search_report.shown([*measured.rows, *measured.responses]),
)
