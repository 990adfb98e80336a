"""Speed of the sampling solvers: traversals per second of ours and of OpenSpiel's C++.

Every program is measured apart from the others at steady state, in interleaved rounds; building and
compiling are timed apart. Our programs are measured with many learners on all cores, which is what
they are made for, and with one learner. OpenSpiel's are measured with a learner in a process on
every core, and with one learner in one thread, as it is shipped. Both do the same work in a
traversal: moves of chance, actions and ends of the game are counted. Both give the same answers in
search, up to chance: shares of the visits. After equal numbers of traversals NashConv of our
learners must not be higher.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from experiments.benchmarks import sampling_programs
from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.cfr_peers import require_openspiel
from experiments.benchmarks.config_checks import check_names
from experiments.benchmarks.processes import measure_in_process
from experiments.benchmarks.reports import (
    Row,
    cores_busy_with_others,
    draw_bars,
    lines_table,
    markdown_table,
    rounded,
    speed_table,
)
from experiments.benchmarks.sampling_programs import (
    COUNTED,
    ONE_LEARNER,
    ONE_PEER,
    OURS,
    PEER,
    TASKS,
)
from experiments.harness import plots, results
from experiments.harness.results import Number

_COLOURS = {OURS: "#D55E00", ONE_LEARNER: "#E69F00"}
_PROGRAMS = (OURS, ONE_LEARNER, PEER, ONE_PEER)
_AGAINST = {
    OURS: PEER,
    ONE_LEARNER: ONE_PEER,
}  # which of OpenSpiel's programs ours is compared with
_CHECKED = (OURS, ONE_PEER)  # the programs whose answers and moves are compared
_QUIET = 0.2  # cores that others may keep busy before the result calls the machine loaded
# Algorithms that OpenSpiel lacks, and its algorithm that they are compared with instead.
_COMPARED_WITH = {"UCT": "outcome sampling", "Smooth UCT": "outcome sampling"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    tasks: tuple[str, ...]
    learners: int  # of our programs, in all threads together, unless the task sets a number
    rounds: int  # times that every program is measured on every task
    repeats: int  # samples in each
    seconds: float  # a sample takes half of it or more
    time_limit: float  # in seconds, for one measurement
    tolerance: float = 0.2  # allowed difference of two answers, relative to the largest number
    moves_tolerance: float = 0.1  # allowed relative difference of the moves in a traversal


PRESETS = {
    "smoke": Config(
        tasks=("outcome sampling, Kuhn", "external sampling, Kuhn", "IS-MCTS, Kuhn"),
        learners=16,
        rounds=1,
        repeats=2,
        seconds=0.05,
        time_limit=120.0,
        tolerance=0.4,
    ),
    "cpu": Config(
        tasks=tuple(name for name in TASKS if "Kuhn" not in name),
        learners=1024,
        rounds=2,
        repeats=5,
        seconds=1.0,
        time_limit=600.0,
    ),
}


def measure_all(config: Config) -> list[Row]:
    """Makes all measurements, in rounds; what failed in one round is left out of the next."""
    runs: dict[tuple[str, str], list] = {
        (task, program): [] for task in config.tasks for program in _programs(task)
    }
    with Progress(console=Console(stderr=True)) as bar:
        shown = bar.add_task("", total=config.rounds * len(runs))
        for number in range(config.rounds):
            for (task, program), earlier in runs.items():
                bar.update(shown, description=f"{task}: {program}")
                if not any(run["failure"] for run in earlier):
                    earlier.append(_measure(config, task, program, check=number == 0))
                    if program == ONE_PEER and number == 0:
                        check_same_work(
                            task, runs[task, OURS][0], earlier[0], config.moves_tolerance
                        )
                        check_answers(task, runs[task, OURS][0], earlier[0], config.tolerance)
                bar.advance(shown)
    return [Row(task=task, program=program, runs=each) for (task, program), each in runs.items()]


def _programs(task):
    """The programs that are measured on a task."""
    return (OURS, ONE_LEARNER) if TASKS[task].algorithm in _COMPARED_WITH else _PROGRAMS


def _measure(config, task, program, *, check) -> dict[str, Any]:
    """What the process of one program on one task reports."""
    job = {
        "task": task,
        "program": program,
        "learners": config.learners,
        "check": check and program in _CHECKED,
        "seconds": config.seconds,
        "repeats": config.repeats,
    }
    run = measure_in_process(sampling_programs.__name__, job, time_limit=config.time_limit)
    if (run["failure"] or "").startswith("failed"):
        raise ValueError(f"{program} on {task} {run['failure']}")
    return run


def check_answers(task: str, ours: dict[str, Any], peers: dict[str, Any], tolerance: float) -> None:
    """Compares the answers of two programs, relative to the peer's (largest) number.

    Raises:
      ValueError: shares of visits differ by more than the tolerance, or our NashConv after the same
        number of traversals is higher by more.
    """
    shares, expected = (np.array(run.get("shares", ())) for run in (ours, peers))
    if shares.size and expected.size:
        off = np.abs(shares - expected).max() / np.abs(expected).max()
        if not off <= tolerance:
            raise ValueError(
                f"{task}: the answer of {OURS} is {shares}, of {PEER} {expected}: {off:.0%} apart"
            )
    learned, other = (run.get("nash_conv") for run in (ours, peers))
    if learned is not None and other is not None and not learned <= (1 + tolerance) * other:
        raise ValueError(
            f"{task}: after as many traversals NashConv of {OURS} is {learned:.4g}, of {PEER}"
            f" {other:.4g}; it may be {tolerance:.0%} higher"
        )


def check_same_work(
    task: str, ours: dict[str, Any], peers: dict[str, Any], tolerance: float
) -> None:
    """Raises `ValueError` if a traversal does something else in one program than in the other."""
    moves, expected = (run.get("moves", {}) for run in (ours, peers))
    for name in moves.keys() | expected.keys():
        pair = moves.get(name, 0.0), expected.get(name, 0.0)
        if not abs(pair[0] - pair[1]) <= tolerance * pair[1]:
            raise ValueError(
                f"{task}: {name} in a traversal: {OURS} {pair[0]}, {PEER} {pair[1]}; they may be"
                f" {tolerance:.0%} apart"
            )


def _numbers(row: Row, rows: Sequence[Row]) -> Iterator[Number]:
    """The speed of a program, its ratio to OpenSpiel's on the same or a similar task, its moves."""
    if row.rates:
        name, low, high = f"{row.program}:{row.task}", min(row.rates), max(row.rates)
        yield Number(name=name, value=row.rate, low=low, high=high, unit="traversals/s")
    peer = _peer(row, rows)
    if peer is not None and row.rates and peer.rates:
        ratio = row.rate / peer.rate
        yield Number(
            name=f"{row.program} / {peer.program}:{row.task}",
            value=ratio,
            unit="times the peer's speed",
        )
    for name, value in _moves(row).items():
        yield Number(name=f"{row.program}, {name}:{row.task}", value=value, unit="in a traversal")
    if row.runs and (learned := row.runs[0].get("nash_conv")) is not None:
        count = TASKS[row.task].checked
        name = f"{row.program}, NashConv after {count:,} traversals:{row.task}"
        yield Number(name=name, value=learned, unit="NashConv")


def _moves(row) -> dict[str, float]:
    """What a program does in a traversal, if it was counted."""
    return row.runs[0].get("moves", {}) if row.runs else {}


def _peer(row, rows):
    """OpenSpiel's row that a row of ours is compared with; None if there is none."""
    if row.program not in _AGAINST:
        return None
    algorithm, _, game = row.task.partition(", ")
    wanted = f"{_COMPARED_WITH.get(algorithm, algorithm)}, {game}", _AGAINST[row.program]
    return next((other for other in rows if (other.task, other.program) == wanted), None)


def _details(row: Row) -> dict[str, Any]:
    """One line of the CSV; empty where there is no such number."""
    rates = row.rates
    line = {
        "task": row.task,
        "program": row.program,
        "traversals_per_second": row.rate if rates else None,
        "low": min(rates, default=None),
        "high": max(rates, default=None),
        "samples": len(rates),
        "build_seconds": row.median("build_seconds"),
        "compile_seconds": row.median("compile_seconds"),
        "moves": " ".join(f"{name} {number:.4g}" for name, number in _moves(row).items()),
        "shares": " ".join(f"{number:.4g}" for number in row.runs[0].get("shares", ())),
        "nash_conv": row.runs[0].get("nash_conv"),
        "busy_cores": row.largest("cores"),
        "cores_busy_with_others": row.largest("others"),
        "remark": row.failure,
    }
    return rounded(line)


def _conditions(config, rows) -> dict[str, Any]:
    return {
        "versions_of_peers": {"open_spiel": importlib.metadata.version("open_spiel")},
        "cores_busy_with_others": cores_busy_with_others(rows),
    }


def _remarks(config, rows) -> Iterator[str]:
    """What a reader of the numbers must know: failures, differences of the programs, other load."""
    for row in rows:
        if row.failure:
            yield f"{row.program} on {row.task}: {row.failure}"
    algorithms = {TASKS[row.task].algorithm for row in rows}
    if "outcome sampling" in algorithms:
        yield (
            "outcome sampling: OpenSpiel's makes one traversal for each player in an iteration, and"
            " adds the policy of the player that explores to the average; ours adds the other"
            " player's, whose weights vary less: after as many traversals NashConv is lower"
        )
    if "IS-MCTS" in algorithms:
        yield (
            "IS-MCTS: both search the same information state (the first decision, with the lowest"
            f" card) with {sampling_programs.SIMULATIONS:,} simulations each, and draw the hidden"
            " card anew in each by chance's probabilities; OpenSpiel's first simulation adds the"
            " root to the tree without visiting one of its actions, in ours the root is in the tree"
            " from the start"
        )
    others = cores_busy_with_others(rows)
    if others > _QUIET:
        yield (
            f"the machine was loaded: other programs kept up to {others:.2f} cores busy during a"
            " sample"
        )


def _markdown(config, rows, result) -> str:
    """The tables for people: speeds, details of every program, remarks."""
    details = [_details(row) for row in rows]
    parts = [
        f"# {result.config['measure']}",
        f"{result.device}; " + ", ".join(f"{k} {v}" for k, v in result.versions.items()) + ".",
        markdown_table(*speed_table(rows)),
        lines_table(details),
        "\n".join(f"- {remark}" for remark in result.deviations),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _shown(config, rows) -> Table:
    table = Table(title="Sampling: traversals per second")
    for number, title in enumerate(("", *_PROGRAMS)):
        table.add_column(title, justify="right" if number else "left")
    for task in dict.fromkeys(row.task for row in rows):
        programs = {row.program: row for row in rows if row.task == task}
        cells = (
            results.text(programs[name].rate) if name in programs and programs[name].rates else ""
            for name in _PROGRAMS
        )
        table.add_row(task, *cells)
    return table


def draw(path: pathlib.Path, config: Config, rows: Sequence[Row]) -> None:
    """Draws a panel per task: a bar per program on a log axis, with the range of all samples."""
    tasks = list(dict.fromkeys(row.task for row in rows))
    columns = min(len(tasks), 3)
    lines = -(-len(tasks) // columns)
    with plots.figure(path, rows=lines, columns=columns, size=(3.4 * columns, 1.7 * lines)) as axes:
        for panel, task in zip(axes.flat, tasks, strict=False):
            of_task = [row for row in rows if row.task == task]
            draw_bars(panel, of_task, labels={}, colours=_COLOURS)
            panel.set(title=task.replace(", ", "\n"), xlabel="traversals/s")
        for panel in axes.flat[len(tasks) :]:
            panel.remove()


def _check(config) -> None:
    require_openspiel()
    check_names("task", config.tasks, TASKS)


BENCHMARK = Benchmark(
    name="sampling",
    presets=PRESETS,
    check=_check,
    measure_all=lambda config, kept: measure_all(config),
    lines=lambda config, rows: map(_details, rows),
    numbers=lambda config, rows: (number for row in rows for number in _numbers(row, rows)),
    measure=(
        "traversals per second, summed over the learners (median of all samples): lines of play"
        " that update one player (in external sampling, trees of all actions of one player),"
        " episodes of UCT, simulations of IS-MCTS; what one traversal does, counted over the first"
        f" {COUNTED[1]} by each of {COUNTED[0]} new learners; all cores are used, unless one"
        " learner is named; UCT is compared with OpenSpiel's outcome sampling"
    ),
    conditions=_conditions,
    deviations=_remarks,
    table=_markdown,
    draw=draw,
    shown=_shown,
)
