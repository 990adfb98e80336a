"""Speed of CFR+: iterations per second of ours and of the other packages that are installed.

Every solver is measured in a process of its own, in interleaved rounds (A B A B), at steady state;
building and compiling are timed apart. All solvers must reach the same NashConv after the same
number of iterations, as `pyspiel.nash_conv` computes it, so that the speeds are of equal work.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from experiments.benchmarks import cfr_ours, cfr_peers
from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.cfr_ours import NUM_SOLVES, OURS, REFERENCE
from experiments.benchmarks.cfr_peers import PEERS, require_openspiel
from experiments.benchmarks.cfr_program import GAMES, CfrProgram
from experiments.benchmarks.config_checks import check_names
from experiments.benchmarks.processes import measure_in_process
from experiments.benchmarks.reports import (
    Row,
    cores_busy_with_others,
    draw_bars,
    markdown_table,
    rounded,
    speed_table,
)
from experiments.harness import plots, results

SOLVERS: dict[str, type[CfrProgram]] = OURS | PEERS
_LABELS = {
    "ours": "ours (float32)",
    "ours_float64": "ours (float64)",
    "numpy_sequence_form": "NumPy sequence form",
    "openspiel_cpp": "OpenSpiel C++",
    "openspiel_jax": "OpenSpiel JAX, loop compiled",
    "liteefg": "LiteEFG",
    "gpugt": "gpugt, on NumPy",
    "noregret": "noregret",
}
_COLOURS = {"ours": "#D55E00", "ours_float64": "#E69F00", "numpy_sequence_form": "#0072B2"}
_SHOWN = {  # the columns of the CSV that table.md shows, and their titles there
    "game": "game",
    "solver": "solver",
    "precision": "precision",
    "iterations_per_second": "iterations/s",
    "low": "lowest",
    "high": "highest",
    "build_seconds": "build, s",
    "compile_seconds": "compile, s",
    "import_mebibytes": "after imports, MiB",
    "peak_mebibytes": "peak, MiB",
    "nash_conv": "NashConv",
    "nash_conv_iterations": "after iterations",
    "remark": "remark",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    games: tuple[str, ...]
    solvers: tuple[str, ...]
    rounds: int  # times that every solver is measured on every game
    repeats: int  # samples in each
    seconds: float  # a sample takes half of it to all of it
    checkpoints: tuple[int, ...]  # iterations at which NashConv is checked, besides early ones
    climb_seconds: float  # a checkpoint that takes longer is left out
    time_limit: float  # in seconds, for one measurement


PRESETS = {
    "smoke": Config(
        games=("kuhn_poker", "leduc_poker"),
        solvers=tuple(SOLVERS),
        rounds=1,
        repeats=3,
        seconds=0.1,
        checkpoints=(100, 1000),
        climb_seconds=2.0,
        time_limit=120.0,
    ),
    "cpu": Config(
        games=tuple(GAMES),
        solvers=tuple(SOLVERS),
        rounds=2,
        repeats=5,
        seconds=0.5,
        checkpoints=(100, 1000),
        climb_seconds=4.0,
        time_limit=300.0,
    ),
}


def _check(config) -> None:
    require_openspiel()
    check_names("game", config.games, GAMES)
    check_names("solver", config.solvers, SOLVERS)


def _installed(config) -> list[str]:
    """The solvers that are measured, and the one whose NashConv the others must reach; packages
    that are not installed are left out."""
    solvers = dict.fromkeys((*config.solvers, REFERENCE))
    return [name for name in solvers if SOLVERS[name].is_installed()]


def measure_all(config: Config) -> list[Row]:
    """Makes all measurements, in rounds; what failed in one round is left out of the next."""
    solvers = _installed(config)
    runs: dict[tuple[str, str], list] = {(g, s): [] for g in config.games for s in solvers}
    order = sorted(solvers, key=lambda solver: solver != REFERENCE)  # the reference is first
    jobs = [
        (number, game, solver)
        for number in range(config.rounds)
        for game in config.games
        for solver in order
    ]
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=len(jobs))
        for number, game, solver in jobs:
            bar.update(task, description=f"{game} {solver}")
            earlier = runs[game, solver]
            if not any(run["failure"] for run in earlier):
                earlier.append(_measure(config, game, solver, check=number == 0))
                if number == 0:
                    check_equal(game, solver, earlier[0], runs[game, REFERENCE][0])
            bar.advance(task)
    return [Row(task=game, program=solver, runs=each) for (game, solver), each in runs.items()]


def _measure(config, game, solver, *, check) -> dict[str, Any]:
    """What the process of one solver on one game reports."""
    job = {
        "game": game,
        "solver": solver,
        "check": check,
        "checkpoints": sorted({GAMES[game].exact_iterations, *config.checkpoints}),
        "climb_seconds": config.climb_seconds,
        "seconds": config.seconds,
        "repeats": config.repeats,
    }
    module = cfr_ours if solver in OURS else cfr_peers
    run = measure_in_process(module.__name__, job, time_limit=config.time_limit)
    if run["failure"] and solver in OURS:
        raise ValueError(f"{solver} on {game} {run['failure']}")
    return run


def check_equal(game: str, solver: str, run: dict[str, Any], reference: dict[str, Any]) -> None:
    """Raises `ValueError` if a run's NashConv differs from the reference's, at any checkpoint."""
    expected = dict(reference["nash_conv"])
    precisions = {SOLVERS[solver].precision, SOLVERS[REFERENCE].precision}
    for iterations, value in run.get("nash_conv", ()):
        allowed = GAMES[game].tolerance(iterations, precisions)
        if iterations in expected and not (
            abs(value - expected[iterations]) <= allowed * max(value, expected[iterations])
        ):
            raise ValueError(
                f"{game}: after {iterations} iterations NashConv of {solver} is {value:.9g}, but"
                f" of {REFERENCE} {expected[iterations]:.9g} (relative tolerance {allowed:g})"
            )


def layout(row: Row) -> dict[str, tuple[float, str]]:
    """What our layout costs on one game: numbers with their units, by name.

    Near bandwidth is that of arrays as large as the tree and the state together, which caches may
    hold; far bandwidth is that of arrays too large for the caches.
    """
    near, far = row.median("near_bandwidth"), row.median("far_bandwidth")
    moved = row.median("bytes_per_iteration")
    reached = moved * row.rate
    return {
        f"ours, {NUM_SOLVES} solves at once": (row.median("batched_rate"), "iterations/s"),
        "build": (row.median("build_seconds"), "s"),
        "compile": (row.median("compile_seconds"), "s"),
        "tree": (row.median("tree_bytes") / row.median("public_states"), "bytes per public state"),
        "moved": (moved, "bytes per iteration"),
        "reached": (reached / 1e9, "GB/s"),
        "near bandwidth": (near / 1e9, "GB/s"),
        "far bandwidth": (far / 1e9, "GB/s"),
        "reached / near": (reached / near, "fraction"),
        "reached / far": (reached / far, "fraction"),
    }


def _numbers(row: Row) -> Iterator[results.Number]:
    """The speed of a solver, and the costs of the layout if it is ours."""
    if row.rates:
        name, low, high = f"{row.program}:{row.task}", min(row.rates), max(row.rates)
        unit = "iterations/s"
        yield results.Number(name=name, value=row.rate, low=low, high=high, unit=unit)
    if row.program == "ours":
        for name, (value, unit) in layout(row).items():
            yield results.Number(name=f"{name}:{row.task}", value=value, unit=unit)


def _details(row: Row) -> dict[str, Any]:
    """One line of the CSV; empty where there is no such number."""
    solver, rates = SOLVERS[row.program], row.rates
    iterations, nash_conv = (row.runs[0].get("nash_conv") or [(None, None)])[-1]
    line = {
        "game": row.task,
        "solver": row.program,
        "precision": solver.precision,
        "iterations_per_second": row.rate if rates else None,
        "low": min(rates, default=None),
        "high": max(rates, default=None),
        "build_seconds": row.median("build_seconds"),
        "compile_seconds": row.median("compile_seconds"),
        "import_mebibytes": row.median("memory_of_imports"),
        "peak_mebibytes": row.median("peak_memory"),
        "nash_conv": nash_conv,
        "nash_conv_iterations": iterations,
        "timed_from_iteration": row.median("timed_from"),
        "samples": len(rates),
        "busy_cores": row.largest("cores"),
        "cores_busy_with_others": row.largest("others"),
        "remark": row.failure or solver.note,
    }
    return rounded(line)


def _conditions(config, rows) -> dict[str, Any]:
    packages = {SOLVERS[name].distribution for name in _installed(config)} - {"jaxgames"}
    return {
        "versions_of_peers": {name: importlib.metadata.version(name) for name in sorted(packages)},
        "cores_busy_with_others": cores_busy_with_others(rows),
    }


def _remarks(config, rows) -> Iterator[str]:
    """What is not installed, what failed or took too long, and what is special about a solver."""
    installed = _installed(config)
    yield from (f"{name} is not installed" for name in config.solvers if name not in installed)
    yield from (f"{row.program} on {row.task}: {row.failure}" for row in rows if row.failure)
    yield from (f"{name}: {SOLVERS[name].note}" for name in installed if SOLVERS[name].note)


def _markdown(config, rows, result) -> str:
    """The tables for people: speeds, details of every solver, our layout, remarks."""
    details = [{k: v for k, v in _details(row).items() if k in _SHOWN} for row in rows]
    layouts = {row.task: layout(row) for row in rows if row.program == "ours"}
    units = [f"{k} ({unit})" for k, (_, unit) in next(iter(layouts.values()), {}).items()]
    cells = [[game, *(value for value, _ in costs.values())] for game, costs in layouts.items()]
    versions = result.versions | result.config["versions_of_peers"]
    parts = [
        f"# {result.config['measure']}",
        f"{result.device}; " + ", ".join(f"{k} {v}" for k, v in versions.items()) + ".",
        markdown_table(*speed_table(rows)),
        markdown_table(list(_SHOWN.values()), [list(line.values()) for line in details]),
        markdown_table(["layout of ours", *units], cells) if layouts else "",
        "\n".join(f"- {remark}" for remark in result.deviations),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _shown(config, rows) -> Table:
    header, lines = speed_table(rows)
    table = Table(title="CFR+ iterations per second")
    for number, title in enumerate(header):
        table.add_column(title, justify="right" if number else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


def draw(path: pathlib.Path, config: Config, rows: Sequence[Row]) -> None:
    """Draws a panel per game: a bar per solver on a log axis, with the range of all samples."""
    games = list(dict.fromkeys(row.task for row in rows))
    size = (2.6 * len(games) + 1.4, 0.9 + 0.25 * len(rows) / len(games))
    with plots.figure(path, rows=1, columns=len(games), size=size) as axes:
        for panel, game in zip(axes[0], games, strict=True):
            of_game = [row for row in rows if row.task == game]
            draw_bars(panel, of_game, labels=_LABELS, colours=_COLOURS)
            panel.set(title=GAMES[game].title, xlabel="iterations/s")
            panel.tick_params(labelleft=game == games[0])


BENCHMARK = Benchmark(
    name="cfr",
    presets=PRESETS,
    check=_check,
    measure_all=lambda config, kept: measure_all(config),
    lines=lambda config, rows: map(_details, rows),
    numbers=lambda config, rows: (number for row in rows for number in _numbers(row)),
    measure="CFR+ iterations per second (each updates both players; median of all samples)",
    conditions=_conditions,
    deviations=_remarks,
    table=_markdown,
    draw=draw,
    shown=_shown,
)
