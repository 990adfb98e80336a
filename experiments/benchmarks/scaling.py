"""Weak scaling over cores: twice the work on two devices on two cores takes as long as on one.

Searches and steps of training are measured on one device that is pinned to one core, with a number
of searches side by side; with as many per core on one device per core; and with these on one device
that has the threads of all cores, and on more devices than there are cores, which shows what
devices cost. Cores are devices as in the commands (`experiments.harness.devices`).

The processes of a program take turns at samples of a few seconds, and speeds are compared within
each round: the speed of a shared machine changes by much more over minutes than it does in a round.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from experiments.benchmarks import scaling_runs
from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.config_checks import check_devices, check_names, even_devices
from experiments.benchmarks.processes import MeasuringProcess
from experiments.benchmarks.reports import Row, cores_busy_with_others, rounded
from experiments.benchmarks.search_tasks import TASKS
from experiments.harness import results
from experiments.harness.devices import cores
from experiments.harness.experiment import text_table

PROGRAMS = scaling_runs.PROGRAMS
_QUARTILES = "the quartiles of all samples of a speed, and of all rounds of a comparison"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    task: str  # the searches, alone and in training
    programs: tuple[str, ...]
    batch: int  # searches side by side on one core
    cores: int  # that are used, each of them a device
    forced: int  # devices on these cores in the last measurement
    rounds: int  # in each of which every process of a program takes one sample
    seconds: float  # about how long a sample takes
    time_limit: float  # in seconds, for one sample


PRESETS = {
    "smoke": Config(
        task="Kuhn (8,1), 1x8",
        programs=("training",),
        batch=8,
        cores=2,
        forced=8,
        rounds=3,
        seconds=0.05,
        time_limit=300.0,
    ),
    "cpu": Config(
        task="Leduc (100,1), 3x128",
        programs=tuple(PROGRAMS),
        batch=16,
        cores=even_devices(),
        forced=4 * even_devices(),
        rounds=45,
        seconds=2.0,
        time_limit=600.0,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """What a program runs on."""

    devices: int
    cores: int
    batch: int

    @property
    def name(self) -> str:
        """In words."""
        of_devices, of_cores = (
            f"{number} {noun}{'s' if number > 1 else ''}"
            for number, noun in ((self.devices, "device"), (self.cores, "core"))
        )
        return f"{of_devices} on {of_cores}"


def places(config: Config) -> list[Place]:
    """What each program runs on: first the one that others are compared with, then one device per
    core, then other numbers of devices on as many cores, with as many searches."""
    whole = {"cores": config.cores, "batch": config.cores * config.batch}
    each = dict.fromkeys((config.cores, 1, config.forced))
    return [
        Place(devices=1, cores=1, batch=config.batch),
        *(Place(devices=devices, **whole) for devices in each),
    ]


def _check(config) -> None:
    check_names("task", [config.task], TASKS)
    check_names("program", config.programs, PROGRAMS)
    if config.cores > cores():
        raise ValueError(f"cores={config.cores} must be at most the {cores()} cores here")
    for place in places(config):  # in training, half of the searches play and half solve
        check_devices(place.devices, {f"half of {place.name}": place.batch // 2})


def measure_all(config: Config) -> list[Row]:
    """Makes all measurements: a row for each program and each of its `places`, with as many samples
    as there are rounds.

    Raises:
      ValueError: a measurement fails.
    """
    rows = []
    with Progress(console=Console(stderr=True)) as bar:
        turns = (config.rounds + 1) * len(places(config))
        shown = bar.add_task("", total=turns * len(config.programs))

        def measured(program, place, process):
            bar.update(shown, description=f"{program}, {place.name}")
            try:
                return process.measure()
            except ValueError as error:
                raise ValueError(f"{program}, {place.name}: {error}") from error
            finally:
                bar.advance(shown)

        for program in config.programs:
            with contextlib.ExitStack() as stack:
                processes, runs = {}, {}
                for place in places(config):  # one after another, so that each compiles alone
                    process = stack.enter_context(_process(config, program, place))
                    runs[place] = measured(program, place, process) | {"samples": []}
                    processes[place] = process
                for _ in range(config.rounds):
                    for place, process in processes.items():
                        runs[place]["samples"].append(measured(program, place, process))
            rows += [
                Row(task=program, program=place.name, runs=[run | {"failure": None}])
                for place, run in runs.items()
            ]
    return rows


def _process(config, program, place) -> MeasuringProcess:
    """Measures a program in one of its places."""
    job = {"program": program, "task": config.task, "seconds": config.seconds}
    return MeasuringProcess(
        scaling_runs.__name__,
        job | dataclasses.asdict(place),
        time_limit=config.time_limit,
        cores=place.cores,
    )


def numbers(config: Config, rows: Sequence[Row]) -> Iterator[results.Number]:
    """All numbers of `result.json`: speeds, and what they are in comparison with one core and with
    one device per core, each with its quartiles."""
    for row in rows:
        unit = "searches/s (median of the samples)"
        yield _number(f"{row.program}:{row.task}", row.rates, unit)
    for row in rows:
        for other, unit in _compared(config, row, rows):
            yield _number(f"{row.program} / {other.program}:{row.task}", _times(row, other), unit)


def _number(name, values, unit) -> results.Number:
    """The median of values, with their quartiles."""
    low, middle, high = _quartiles(values)
    return results.Number(name=name, value=middle, low=low, high=high, unit=unit)


def _quartiles(values) -> list[float]:
    """Quarter, half and three quarters of the values are at most these."""
    return statistics.quantiles(values, n=4, method="inclusive")


def _times(row, other) -> list[float]:
    """How many times as fast as another row one is, round by round."""
    return [rate / slower for rate, slower in zip(row.rates, other.rates, strict=True)]


def _compared(config, row, rows) -> Iterator[tuple[Row, str]]:
    """The rows that a row is compared with, each with the unit of the comparison."""
    one, each, *_ = places(config)
    others = {other.program: other for other in rows if other.task == row.task}
    if row.program != one.name:
        yield others[one.name], f"times; {config.cores} would be perfect"
    if row.program not in (one.name, each.name):
        yield others[each.name], "times; less than 1 is what these devices cost"


def _shown(config, rows) -> Table:
    """The speeds and comparisons for the terminal."""
    lines = _lines(config, rows)
    names = ("program", "on", "searches/s", "times one core", "times one device per core")
    cells = [["" if line[name] is None else line[name] for name in names] for line in lines]
    rows = [[*map(str, row[:2]), *(x and results.text(x) for x in row[2:])] for row in cells]
    return text_table("Weak scaling", names, rows, labels=2)


def _lines(config, rows) -> list[dict[str, Any]]:
    """The lines of the CSV."""
    return [_details(config, row, rows) for row in rows]


def _details(config, row, rows) -> dict[str, Any]:
    """One line of the CSV; empty where nothing is compared."""
    place = next(place for place in places(config) if place.name == row.program)
    low, middle, high = _quartiles(row.rates)
    times = [_quartiles(_times(row, other)) for other, _ in _compared(config, row, rows)]
    over_one, over_each = (*times, [None] * 3, [None] * 3)[:2]
    return rounded(
        {
            "program": row.task,
            "on": row.program,
            "searches at a time": place.batch,
            "searches/s": middle,
            "low": low,
            "high": high,
            "samples": len(row.rates),
            "times one core": over_one[1],
            "times one core, low": over_one[0],
            "times one core, high": over_one[2],
            "times one device per core": over_each[1],
            "compile seconds": row.median("compile_seconds"),
            "busy cores": row.largest("cores"),
            "cores busy with others": row.largest("others"),
        }
    )


BENCHMARK = Benchmark(
    name="scaling",
    presets=PRESETS,
    check=_check,
    measure_all=lambda config, kept: measure_all(config),
    lines=_lines,
    numbers=numbers,
    measure=lambda config: (
        f"searches per second of {config.task}, median of all samples; comparisons are medians over"
        " rounds, in each of which all take one sample"
    ),
    conditions=lambda config, rows: {"cores_busy_with_others": cores_busy_with_others(rows)},
    error_bars=_QUARTILES,
    shown=_shown,
)
