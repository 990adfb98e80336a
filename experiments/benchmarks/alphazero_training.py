"""Training of AlphaZero beside the recipe of pgx's example: positions and games per second.

Both train the same network in the same games, with as many games side by side, simulations in a
search, positions searched in a step and updates on as many positions, and Adam. They run in the
same process, a step of one after a step of the other, on one device with the threads of all cores,
and in another process on one device per core; the fastest of both are compared. Compiling is timed
apart. Equal work is counted and required: positions, simulations and so evaluations of the network
(a search makes one more, at its root), and updates.

A step of the recipe gives up the games that it leaves unfinished; ours go on in the next step. That
is why finished games and positions with a known value are counted, too. Our training can also play
whole games in a step, in which all wait for the last; it is measured on the tasks of `whole`, with
as many games and updates, but however many positions that makes.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from experiments.benchmarks import alphazero_programs, mctx_search
from experiments.benchmarks.alphazero_programs import OURS, PEER, TASKS, WHOLE
from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.config_checks import check_devices, check_names, even_devices
from experiments.benchmarks.pgx_alphazero import DEVIATIONS
from experiments.benchmarks.processes import measure_in_process
from experiments.benchmarks.reports import Row, cores_busy_with_others, rounded, speed
from experiments.harness import results
from experiments.harness.experiment import text_table
from experiments.harness.progress import status
from experiments.harness.results import Number

_HOUR = 3600.0
_REMARKS = (
    *DEVIATIONS,
    "ours searches by PUCT with noise at the root, the recipe by Gumbel AlphaZero, so that their"
    " games differ in length: positions per second are compared before games per hour",
    "ours draws positions from a replay buffer of four steps, the recipe uses each position of the"
    " step once",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    tasks: tuple[str, ...]
    whole: tuple[str, ...]  # those of the tasks in which ours plays whole games, too
    devices: int  # in the second process; XLA divides the cores among them
    repeats: int  # samples, of one step each
    sampling_seconds: float  # after which two samples of each program are enough
    time_limit: float  # in seconds, for one process


PRESETS = {
    "smoke": Config(
        tasks=("tic-tac-toe, 1x4 blocks",),
        whole=("tic-tac-toe, 1x4 blocks",),
        devices=2,
        repeats=2,
        sampling_seconds=60.0,
        time_limit=300.0,
    ),
    "cpu": Config(
        tasks=tuple(TASKS)[:-2],
        whole=tuple(TASKS)[:1],
        devices=even_devices(most=16),
        repeats=7,
        sampling_seconds=120.0,
        time_limit=1800.0,
    ),
}


def _check(config) -> None:
    mctx_search.require()
    check_names("task", (*config.tasks, *config.whole), TASKS)
    for size in ("games", "batch_size"):
        sizes = {f"{size} of {task}": getattr(TASKS[task], size) for task in config.tasks}
        check_devices(config.devices, sizes)


def measure_all(config: Config) -> list[Row]:
    """Makes all measurements: a row for each task, program and number of devices.

    Raises:
      ValueError: a measurement fails, or the programs do not do the same work.
    """
    rows = []
    for task in config.tasks:
        for devices in dict.fromkeys((1, config.devices)):
            where = "" if devices == 1 else f", {devices} devices"
            programs = [OURS, PEER, *[WHOLE] * (task in config.whole)]
            job = {"task": task, "programs": programs, "devices": devices}
            job |= {name: getattr(config, name) for name in ("repeats", "sampling_seconds")}
            with status(f"benchmark alphazero_training: {task}{where}"):
                run = measure_in_process(
                    alphazero_programs.__name__, job, time_limit=config.time_limit
                )
            if run["failure"]:
                raise ValueError(f"{task}{where}: {run['failure']}")
            if run["devices"] < devices:
                continue  # on an accelerator, cores are not devices
            for program in programs:
                measured = run["programs"][program] | {"failure": None}
                rows.append(Row(task=task, program=f"{program}{where}", runs=[measured]))
                if program != WHOLE:
                    check_work(rows[-1])
    return rows


def check_work(row: Row) -> None:
    """Raises `ValueError` if a sample is not of as much work as the task says."""
    task = TASKS[row.task]
    for sample in _samples(row):
        for name in ("positions", "simulations", "updates"):
            found, expected = sample[name], getattr(task, name)
            if found != expected:
                raise ValueError(
                    f"{row.task}: {name} of {row.program} are {found:g}, must be {expected}"
                )


def numbers(config: Config, rows: Sequence[Row]) -> Iterator[Number]:
    """All numbers of `result.json`: speeds, and comparisons of ours with the recipe."""
    for row in rows:
        yield from _speeds(row)
    for ours, peer in _pairs(rows):
        name = f"{ours.program} / {peer.program}:{ours.task}"
        ratios = [x / y for x, y in zip(ours.rates, peer.rates, strict=True)]
        yield Number(
            name=name,
            value=statistics.median(ratios),
            low=min(ratios),
            high=max(ratios),
            unit="times the positions/s (median of the pairs of samples)",
        )
        if games_per_hour(peer):
            yield Number(
                name=f"{ours.program} / {peer.program}, games:{ours.task}",
                value=games_per_hour(ours) / games_per_hour(peer),
                unit="times the games/h",
            )
    for task in dict.fromkeys(row.task for row in rows):
        best = [
            max((row for row in rows if _is(row, task, program)), key=lambda row: row.rate)
            for program in (OURS, PEER)
        ]
        yield Number(
            name=f"fastest by fastest, {best[0].program} / {best[1].program}:{task}",
            value=best[0].rate / best[1].rate,
            unit="times the positions/s, on the same cores",
        )


def games_per_hour(row: Row) -> float:
    """Games that ended, over all samples together."""
    samples = _samples(row)
    return sum(s["games"] for s in samples) / sum(s["seconds"] for s in samples) * _HOUR


def valued_share(row: Row) -> float:
    """Positions whose game ended, so that their value can be learned, by positions searched.

    Those of games under way wait for later steps, so that a few samples may have more than 1.
    """
    samples = _samples(row)
    return sum(s["valued"] for s in samples) / sum(s["positions"] for s in samples)


def _samples(row: Row) -> list[dict[str, float]]:
    return [sample for run in row.runs for sample in run["samples"]]


def _steps_per_second(row: Row) -> float:
    """Steps, by the median of their time."""
    return 1 / statistics.median(sample["seconds"] for sample in _samples(row))


def _is(row, task, program):
    """Whether a row is of a task and a program, on however many devices."""
    return row.task == task and row.program.partition(", ")[0] == program


def _pairs(rows) -> Iterator[tuple[Row, Row]]:
    """Rows of ours and of the recipe whose samples were taken by turns."""
    for row in rows:
        if _is(row, row.task, OURS):
            name = row.program.replace(OURS, PEER, 1)
            yield row, next(r for r in rows if (r.task, r.program) == (row.task, name))


def _speeds(row) -> Iterator[Number]:
    yield speed(row, "positions/s (median of the samples)")
    for name, value, unit in (
        ("games/h", games_per_hour(row), "games/h (all samples together)"),
        ("steps/s", _steps_per_second(row), "steps/s (median of the samples)"),
        ("valued", valued_share(row), "share of positions with a value to learn"),
    ):
        yield Number(name=f"{row.program}, {name}:{row.task}", value=value, unit=unit)


def _details(row) -> dict[str, Any]:
    """One line of the CSV."""
    return rounded(
        {
            "task": row.task,
            "program": row.program,
            "positions/s": row.rate,
            "low": min(row.rates),
            "high": max(row.rates),
            "games/h": games_per_hour(row),
            "steps/s": _steps_per_second(row),
            "positions of a step": statistics.median(s["positions"] for s in _samples(row)),
            "updates of a step": TASKS[row.task].updates,
            "share with a value": valued_share(row),
            "samples": len(row.rates),
            "compile seconds": row.median("compile_seconds"),
            "busy cores": row.largest("cores"),
            "cores busy with others": row.largest("others"),
        }
    )


def _shown(config, rows) -> Table:
    """The speeds for the terminal."""
    lines = [
        (
            row.task,
            row.program,
            results.text(row.rate),
            results.text(games_per_hour(row)),
            results.text(_steps_per_second(row)),
        )
        for row in rows
    ]
    headings = ("task", "program", "positions/s", "games/h", "steps/s")
    return text_table("Training of AlphaZero", headings, lines, labels=2)


BENCHMARK = Benchmark(
    name="alphazero_training",
    presets=PRESETS,
    check=_check,
    measure_all=lambda config, kept: measure_all(config),
    lines=lambda config, rows: map(_details, rows),
    numbers=numbers,
    measure="steps of training from an untrained network, median of all samples",
    conditions=lambda config, rows: {
        "sizes": {task: dataclasses.asdict(TASKS[task]) for task in config.tasks},
        "cores_busy_with_others": cores_busy_with_others(rows),
    },
    deviations=lambda config, rows: _REMARKS,
    error_bars="the least and the most of all samples, or of all pairs of samples side by side",
    shown=_shown,
)
