"""The exact solver of belief-level games, in Scotland Yard on districts of London.

Listing all public states, building the sequence form, compiling and solving by predictive CFR+ are
timed apart on one core, each as it is the first time in a process. Solving ends when
exploitability, which is computed now and then, is as low as asked for. Iterations are then timed
alone. How long all parts take on all cores is measured in another process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
from rich.table import Table

from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.config_checks import check_names
from experiments.benchmarks.measurements import Clock, peak_memory, sample_searches
from experiments.benchmarks.processes import measure_in_process
from experiments.benchmarks.reports import Row, cores_busy_with_others, rounded
from experiments.harness import results
from experiments.harness.devices import cores
from experiments.harness.experiment import text_table
from experiments.harness.progress import status
from jaxgames.beliefs import list_public_states
from jaxgames.registry import make
from solvers import cfr, evaluation
from solvers.sequence_form import sequence_form_of_beliefs

GAMES = {  # with their values to Mr X: docs/student_of_games.md says where these are from
    "glasses": ("scotland_yard(map=glasses)", -7 / 9),
    "district": ("scotland_yard(map=district)", -0.6),
    "district_two_detectives": (
        "scotland_yard(map=district,edition=district_two_detectives)",
        0.0,
    ),
    "district_reveals": ("scotland_yard(map=district,edition=district_reveals)", 0.75),
}
_PARTS = ("list", "build", "compile", "solve")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    games: tuple[str, ...] = ("district", "district_two_detectives", "district_reveals")
    exploitability: float = 0.005  # to solve to
    checked_after: int = 25  # iterations, every time
    iterations: int = 100  # of a sample
    repeats: int = 5  # samples
    sampling_seconds: float = 60.0  # after which two samples are enough
    time_limit: float = 600.0  # in seconds, for one process


PRESETS = {"smoke": Config(games=("glasses",), repeats=2), "cpu": Config()}


def _measured(config, game):
    """A row with what one game took."""
    with status(f"benchmark districts: {game}"):
        job = dataclasses.asdict(config) | {"game": game}
        run = measure_in_process(__name__, job, time_limit=config.time_limit, cores=1)
        elsewhere = measure_in_process(__name__, job | {"repeats": 1}, time_limit=config.time_limit)
    for failure in (run["failure"], elsewhere["failure"]):
        if failure:
            raise ValueError(f"{game}: {failure}")
    run["all_cores_seconds"] = sum(elsewhere[f"{part}_seconds"] for part in _PARTS)
    return Row(task=game, program="PCFR+", runs=[run])


def numbers(row: Row) -> Iterator[results.Number]:
    """The numbers of one game."""
    seconds = [row.median(f"{part}_seconds") for part in _PARTS]
    for part, value in zip((*_PARTS, "all"), (*seconds, sum(seconds)), strict=True):
        yield results.Number(name=f"{part}:{row.task}", value=value, unit="s")
    value = row.median("all_cores_seconds")
    yield results.Number(name=f"all, {cores()} cores:{row.task}", value=value, unit="s")
    count = row.median("iterations")
    yield results.Number(name=f"iterations:{row.task}", value=count, unit="iterations")
    low, value, high = (
        microseconds(row, rate) for rate in (max(row.rates), row.rate, min(row.rates))
    )
    yield results.Number(
        name=f"node and iteration:{row.task}", value=value, low=low, high=high, unit="microseconds"
    )


def microseconds(row: Row, rate: float) -> float:
    """Microseconds of an iteration by public decision, at `rate` iterations per second."""
    return 1e6 / (rate * row.median("nodes"))


def _shown(config, rows) -> Table:
    """The times for the terminal."""
    lines = [
        [
            row.task,
            *(results.text(row.median(f"{part}_seconds")) for part in (*_PARTS, "all_cores")),
            results.text(microseconds(row, row.rate)),
        ]
        for row in rows
    ]
    parts = *_PARTS, f"all on {cores()} cores"
    headings = ("game", *(f"{part}, s" for part in parts), "us by node and iteration")
    return text_table("Exact solutions on one core", headings, lines)


def _details(row) -> dict[str, Any]:
    """One line of the CSV."""
    return rounded(
        {"game": row.task, "public decisions": row.median("nodes")}
        | {f"{part} seconds": row.median(f"{part}_seconds") for part in _PARTS}
        | {f"seconds on {cores()} cores": row.median("all_cores_seconds")}
        | {
            "iterations": row.median("iterations"),
            "exploitability": row.median("exploitability"),
            "value": row.median("value"),
            "microseconds by node and iteration": microseconds(row, row.rate),
            "samples": len(row.rates),
            "peak MiB": row.median("peak_memory"),
            "cores busy with others": row.largest("others"),
        }
    )


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Reports what listing, building, compiling and solving take, and samples of iterations.

    Args:
      job: the fields of a `Config`, and `game`, a key of `GAMES`.
      report: takes the numbers as keywords.

    Raises:
      ValueError: the value that is found is not the known one.
    """
    spec, expected = GAMES[job["game"]]
    game = make(spec).belief_game()
    clock = Clock()
    listing = list_public_states(game)
    report(list_seconds=clock.seconds(), nodes=listing.num_inner)
    clock = Clock()
    form = sequence_form_of_beliefs(game, listing)
    report(build_seconds=clock.seconds())

    def run(state, num_iterations):
        solver = cfr.pcfr_plus()
        state = cfr.run(form, state, solver=solver, num_iterations=num_iterations)
        return jax.block_until_ready(state)

    def measured(state):
        values, nash_conv = evaluation.values_and_nash_conv(form, cfr.average_policy(form, state))
        return float(values[0]), float(nash_conv) / 2

    clock = Clock()
    start = cfr.init(form)
    measured(run(start, 0))
    report(compile_seconds=clock.seconds())
    clock, state = Clock(), start
    exploitability = float("inf")
    while exploitability > job["exploitability"]:
        state = run(state, job["checked_after"])
        value, exploitability = measured(state)
    report(solve_seconds=clock.seconds(), iterations=int(state.step))
    report(value=value, exploitability=exploitability)
    if abs(value - expected) > 2 * job["exploitability"]:
        raise ValueError(f"{spec} is worth {expected:.4g} to Mr X, but {value:.4g} was found")
    report(
        samples=sample_searches(lambda _: run(start, job["iterations"]), job["iterations"], job)[1]
    )
    report(peak_memory=peak_memory())


BENCHMARK = Benchmark(
    name="districts",
    presets=PRESETS,
    check=lambda config: check_names("game", config.games, GAMES),
    measure_all=lambda config, kept: [_measured(config, game) for game in config.games],
    lines=lambda config, rows: map(_details, rows),
    numbers=lambda config, rows: (number for row in rows for number in numbers(row)),
    measure=lambda config: (
        "seconds on one core to list all public states, to build the sequence form, to compile, and"
        f" to solve to exploitability {config.exploitability:g}; of all these on {cores()} cores;"
        " microseconds of an iteration by public decision on one core: median of all samples"
    ),
    conditions=lambda config, rows: {"cores_busy_with_others": cores_busy_with_others(rows)},
    shown=_shown,
)
