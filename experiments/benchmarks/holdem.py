"""Speed of hold'em subgame solving: time per iteration, and how it compares with memory bandwidth.

Each spot is solved in a process of its own at steady state; compilation is timed apart. The other
program's times were measured on two cores of another machine, not in the same run. That the work is
equal is checked by the value of the game and the exploitability, which must be the other program's.

Iterations of blueprints are measured with one core (on an accelerator where there is one), beside
the same iteration in NumPy in the same run; one step of both must give the same tables. Smooth UCT
is measured with one core, and with a learner on each core.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import Progress

from experiments.benchmarks import blueprint_iterations, holdem_solves, uct_episodes
from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.blueprint_iterations import BLUEPRINTS, OURS, PROGRAMS
from experiments.benchmarks.config_checks import check_devices, check_names, even_devices
from experiments.benchmarks.holdem_solves import EVALUATOR
from experiments.benchmarks.processes import measure_in_process
from experiments.benchmarks.reports import markdown_table
from experiments.benchmarks.uct_episodes import LEARNERS
from experiments.harness import results
from experiments.subgame_solving.holdem_spots import SPOTS
from jaxgames.files import cache_folder

_SAME = 2e-6  # how far one step of two programs may differ, of the largest number of a table
_PAPER_EPISODES = {"Smooth UCT, 169/1000/500/200": 51_000}  # 62.1 billion in 14 days
_PASSES = 4  # over memory: no solver can do with less than reading and writing regrets and reach
_SHOWN = (  # columns of the CSV that become numbers of result.json: key, name, unit
    ("milliseconds", "ms", "ms per iteration"),
    ("to_target", "to 0.1 % of the pot", "s"),
    ("compile_seconds", "compile", "s"),
    ("peak_mebibytes", "peak memory", "MiB"),
    ("floor", "floor", "ms per iteration"),
    ("over_floor", "over floor", "times"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    spots: tuple[str, ...]
    batch: int  # rivers side by side, each with ranges of its own
    devices: int  # over which these are spread in one more measurement; XLA divides the cores
    rounds: int  # times that everything is measured
    seconds: float  # how long iterations are timed for, at least
    checked: bool  # whether spots are solved to the end and compared with the other program
    blueprints: tuple[str, ...]  # whose iterations are measured
    boards: int  # different ones in these
    learners: tuple[str, ...]  # whose episodes are measured
    time_limit: float  # in seconds, for one process


PRESETS = {
    "smoke": Config(
        spots=("river",),
        batch=4,
        devices=2,
        rounds=1,
        seconds=0.2,
        checked=False,
        blueprints=("blueprint of preflop and flop, 169/50",),
        boards=2,
        learners=("Smooth UCT of preflop and flop, 169/50",),
        time_limit=300.0,
    ),
    "cpu": Config(
        spots=("river", "turn", "turn, all hands", "flop"),
        batch=64,
        devices=even_devices(),
        rounds=3,
        seconds=5.0,
        checked=True,
        blueprints=("blueprint of limit hold'em, 169/1000/500/200",),
        boards=16,
        learners=("Smooth UCT, 169/1000/500/200",),
        time_limit=900.0,
    ),
}


class Measured(NamedTuple):
    """All that is measured."""

    spots: list[dict[str, Any]]  # lines of the CSV
    hands: list[float]  # per second of the evaluator, in each round
    blueprints: list[dict[str, Any]]  # lines of their CSV
    learners: list[results.Number]


def _check(config) -> None:
    check_names("spot", config.spots, SPOTS)
    check_names("blueprint", config.blueprints, BLUEPRINTS)
    check_names("learner", config.learners, LEARNERS)
    check_devices(config.devices, {"rivers": config.batch})


def measure_all(config: Config) -> Measured:
    """Makes all measurements."""
    spots, hands = measure_spots(config)
    blueprints, learners = measure_blueprints(config), measure_learners(config)
    return Measured(spots, hands, blueprints, learners)


def measure_spots(config: Config) -> tuple[list[dict[str, Any]], list[float]]:
    """Measures iterations on spots, and the evaluator of hands, in rounds.

    Returns:
      The lines of the CSV, and the hands per second of the evaluator in each round.
    """
    jobs = [_Job(spot) for spot in (*config.spots, EVALUATOR)]
    jobs += [_Job("river", config.batch, devices) for devices in (1, config.devices)]
    measured: dict[_Job, list[dict[str, Any]]] = {job: [] for job in jobs}
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=len(jobs) * config.rounds)
        for number in range(config.rounds):
            for job in jobs:
                bar.update(task, description=job.name)
                measured[job].append(_measure(config, job, check=number == 0))
                bar.advance(task)
    hands = [run["hands_per_second"] for run in measured.pop(_Job(EVALUATOR))]
    check_equal(*(measured[job][0]["answers"] for job in jobs if job.batch > 1))
    # On an accelerator, cores are not devices: the measurement on several is left out.
    rows = [_row(job, each) for job, each in measured.items() if each[0]["devices"] == job.devices]
    return rows, hands


def measure_blueprints(config: Config) -> list[dict[str, Any]]:
    """Measures iterations of blueprints with one core each, ours and NumPy's in turn.

    Returns:
      The lines of the CSV, one for each blueprint and program.
    """
    jobs = [(name, program) for name in config.blueprints for program in PROGRAMS]
    measured: dict[tuple[str, str], list[dict[str, Any]]] = {job: [] for job in jobs}
    with Progress(console=Console(stderr=True)) as bar, tempfile.TemporaryDirectory() as folder:
        task = bar.add_task("", total=len(jobs) * config.rounds)
        for _ in range(config.rounds):
            for blueprint in config.blueprints:
                answers = []
                for program in PROGRAMS:
                    bar.update(task, description=f"{blueprint}, {program}")
                    file = pathlib.Path(folder, f"{program}.npz")
                    run = _measure_blueprint(config, blueprint, program, file)
                    measured[blueprint, program].append(run)
                    with np.load(file) as tables:
                        answers.append([tables[name] for name in tables.files])
                    bar.advance(task)
                check_same_step(*answers)
    return [_blueprint_row(*job, each) for job, each in measured.items()]


def _measure_blueprint(config, blueprint, program, file) -> dict[str, Any]:
    """What the process of a blueprint and a program reports."""
    job = {"blueprint": blueprint, "program": program, "boards": config.boards}
    job |= {"seconds": config.seconds, "answers": str(file)}
    job["folder"] = str(cache_folder("card_abstractions"))  # the process has a home of its own
    run = measure_in_process(
        blueprint_iterations.__name__, job, time_limit=config.time_limit, cores=1
    )
    if run["failure"]:
        raise ValueError(f"{blueprint}, {program}: {run['failure']}")
    return run


def measure_learners(config: Config) -> list[results.Number]:
    """Measures episodes of Smooth UCT with one core, and with a learner on each of two or more."""
    found = []
    for learner, cores in itertools.product(config.learners, (1, even_devices())):
        job = {"learner": learner, "cores": cores, "seconds": config.seconds}
        job["folder"] = str(cache_folder("card_abstractions"))
        measured = []
        for _ in range(config.rounds):
            run = measure_in_process(
                uct_episodes.__name__, job, time_limit=config.time_limit, cores=cores
            )
            if run["failure"]:
                raise ValueError(f"{learner}, {cores} cores: {run['failure']}")
            measured.append(run)
        if measured[0]["devices"] < cores:
            continue  # on an accelerator, cores are not devices
        rates = [run["episodes_per_second"] for run in measured]
        words = "1 core" if cores == 1 else f"{cores} learners on {cores} cores"
        found.append(
            results.Number(
                name=f"episodes, {words}:{learner}",
                value=statistics.median(rates),
                low=min(rates),
                high=max(rates),
                unit="episodes/s",
                paper=_PAPER_EPISODES.get(learner) if cores == 1 else None,
            )
        )
    return found


def _episodes(learners) -> str:
    """The table of Smooth UCT for people."""
    return markdown_table(["", "episodes/s"], [[each.name, each.value] for each in learners]) + "\n"


def _blueprint_row(blueprint, program, measured) -> dict[str, Any]:
    """One line of the CSV: a blueprint and a program, all rounds together."""
    times = [1000 * run["seconds"] for run in measured]
    return {
        "blueprint": blueprint,
        "program": program,
        "milliseconds": statistics.median(times),
        "milliseconds_low": min(times),
        "milliseconds_high": max(times),
        "groups": measured[0]["groups"],
        "information_states": measured[0]["sequences"],
        "compile_seconds": statistics.median(run["compile_seconds"] for run in measured),
    }


def check_same_step(ours: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> None:
    """Raises `ValueError` if two programs' tables after a step differ."""
    for table, other in zip(ours, others, strict=True):
        worst = np.abs(table - other).max() / np.abs(other).max()
        if not worst < _SAME:
            raise ValueError(f"one step differs by {worst:g} of its largest number from NumPy's")


def _blueprint_numbers(rows) -> Iterator[results.Number]:
    """Numbers of `result.json` on blueprints."""
    ours = {row["blueprint"]: row["milliseconds"] for row in rows if row["program"] == OURS}
    for row in rows:
        name, program = row["blueprint"], row["program"]
        yield results.Number(
            name=f"ms, {program}:{name}",
            value=row["milliseconds"],
            low=row["milliseconds_low"],
            high=row["milliseconds_high"],
            unit="ms per board, with one core",
        )
        if program != OURS:
            yield results.Number(
                name=f"{program} / ours:{name}",
                value=row["milliseconds"] / ours[name],
                unit="times as long",
            )


def _numbers(config, measured) -> Iterator[results.Number]:
    """All numbers of `result.json`."""
    yield from _spot_numbers(measured.spots)
    yield results.Number(
        name="seven-card hands:per second",
        value=statistics.median(measured.hands),
        low=min(measured.hands),
        high=max(measured.hands),
        unit="hands/s",
    )
    yield from _blueprint_numbers(measured.blueprints)
    yield from measured.learners


def _spot_numbers(rows) -> Iterator[results.Number]:
    """Numbers of `result.json` on spots."""
    for row in rows:
        for key, name, unit in _SHOWN:
            if row.get(key) is not None:
                yield results.Number(
                    name=f"{name}:{row['spot']}",
                    value=row[key],
                    unit=unit,
                    low=row.get(f"{key}_low"),
                    high=row.get(f"{key}_high"),
                    paper=row.get(f"{key}_other"),
                )


class _Job(NamedTuple):
    """What one process measures: a spot, or the evaluator of hands."""

    spot: str
    batch: int = 1
    devices: int = 1

    @property
    def name(self) -> str:
        """The job's name in the tables."""
        batch = f", each of {self.batch}" if self.batch > 1 else ""
        return self.spot + batch + (f", {self.devices} devices" if self.devices > 1 else "")


def _measure(config, job, *, check) -> dict[str, Any]:
    """What the process of a job reports; raises `ValueError` if the solution is a wrong one."""
    spot = job.spot
    arguments = job._asdict() | {
        "seconds": config.seconds,
        "check": check and config.checked and job.batch == 1,
    }
    run = measure_in_process(holdem_solves.__name__, arguments, time_limit=config.time_limit)
    if run["failure"]:
        raise ValueError(f"{job.name}: {run['failure']}")
    if "ev" in run:
        known = SPOTS[spot]
        if abs(run["ev"] - known.ev) > known.tolerance or (
            run["exploitability"] > 1.25 * known.exploitability
        ):
            raise ValueError(
                f"{spot}: value {run['ev']:.4f} and exploitability {run['exploitability']:.4f} are"
                f" not those of the other solver, {known.ev:.4f} and {known.exploitability:.4f}"
            )
    return run


def check_equal(single: Sequence[float], several: Sequence[float]) -> None:
    """Raises `ValueError` if the rivers' exploitability on several devices is not that on one."""
    if not np.allclose(single, several, rtol=1e-4):
        worst = np.abs(np.subtract(single, several)).max()
        raise ValueError(f"several devices change the rivers' exploitability by {worst:g}")


def _row(job, measured):
    """One line of the CSV: a job, all rounds together."""
    times = [1000 * run["seconds"] for run in measured]
    floor = _PASSES * statistics.median(1000 * r["bytes"] / r["bandwidth"] for r in measured)
    first = measured[0]
    return {
        "spot": job.name,
        "milliseconds": statistics.median(times),
        "milliseconds_low": min(times),
        "milliseconds_high": max(times),
        "milliseconds_other": 1000 * SPOTS[job.spot].seconds,
        "to_target": first.get("to_target"),
        "sequences": first["sequences"],
        "compile_seconds": statistics.median(run["compile_seconds"] for run in measured),
        "peak_mebibytes": max(run["peak"] for run in measured),
        "floor": floor,
        "over_floor": statistics.median(times) / floor,
    }


def _blueprint_markdown(rows):
    """The table of blueprints for people."""
    head = ["blueprint", "program", "ms per board", "groups of hands", "information states"]
    keys = ("blueprint", "program", "milliseconds", "groups", "information_states")
    return markdown_table(head, [[row[key] for key in keys] for row in rows]) + "\n"


def _table(config, measured, result) -> str:
    """The tables for people."""
    parts = _spots_markdown(measured.spots), _blueprint_markdown(measured.blueprints)
    return "\n".join((*parts, _episodes(measured.learners)))


def _spots_markdown(rows):
    """The table of spots for people."""
    head = ["spot", "ms per iteration", "other solver", "floor", "over floor", "compile, s"]
    keys = ("milliseconds", "milliseconds_other", "floor", "over_floor", "compile_seconds")
    lines = [[row["spot"], *(row[key] for key in keys)] for row in rows]
    return markdown_table(head, lines) + "\n"


BENCHMARK = Benchmark(
    name="holdem",
    presets=PRESETS,
    check=_check,
    measure_all=lambda config, kept: measure_all(config),
    lines=lambda config, measured: measured.spots,
    more_lines={"blueprints.csv": lambda config, measured: measured.blueprints},
    numbers=_numbers,
    measure="milliseconds of an iteration, median of all rounds; compilation apart",
    deviations=lambda config, measured: [
        "the other solver's times (`paper`) are of another machine with two cores"
    ],
    table=_table,
)
