"""Speed of growing-tree CFR: searches per second, and what of that is the network's.

Every task is measured in a process of its own at steady state, compiling apart: our search on one
device of JAX and, where told, on as many as there are cores; AlphaZero's search by mctx on games of
perfect information, with the same network and as many simulations, which must find the same move.
The floor is what the matrix products of the network calls would take at the rate that the machine
reaches on layers of their shape. Besides, the cost of an iteration of CFR against the tree's size,
and searches and games per second of ISMCTS-BR.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from experiments.benchmarks import (
    Row,
    even_devices,
    markdown_table,
    mctx_search,
    measure_apart,
    preset_config,
    rounded,
    speeds,
)
from experiments.benchmarks import response_search as ismcts_br
from experiments.benchmarks.search_plot import draw
from experiments.benchmarks.search_tasks import TASKS
from experiments.harness import results, runs
from experiments.harness.results import Number
from jaxgames.registry import unknown

OURS, RIVAL, RESPONDER = "ours", "AlphaZero (mctx)", "ISMCTS-BR"
_FILES = (results.RESULT_FILE, "benchmark.csv", "growth.csv", "table.md", "benchmark.png")
_PROGRAM = "from experiments.benchmarks import search_pieces; search_pieces.main()"
_SHARES = ("network", "regret phase", "expansion")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    tasks: tuple[str, ...]
    split: tuple[str, ...]  # of these, searched on several devices too
    devices: int  # then: XLA shares the cores out to them
    growth: tuple[str, ...]  # games whose trees are grown
    nodes: tuple[int, ...]  # to these sizes, as far as the game goes
    growth_batch: int
    responses: tuple[str, ...]  # tasks of ISMCTS-BR
    repeats: int  # samples
    sampling_seconds: float  # after which two samples are enough
    seconds: float  # that timing a part of a search takes about
    time_limit: float  # in seconds, for one process


PRESETS = {
    "smoke": Config(
        tasks=("Kuhn (8,1), 1x8", "tic-tac-toe (40,1), 1x8"),
        split=("Kuhn (8,1), 1x8",),
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
        tasks=tuple(TASKS)[:5],
        split=tuple(TASKS)[:2],
        devices=even_devices(),
        growth=("leduc_poker", "scotland_yard(map=glasses)"),
        nodes=(16, 32, 64, 128, 256, 512, 1024),
        growth_batch=64,
        responses=tuple(ismcts_br.TASKS)[:3],
        repeats=7,
        sampling_seconds=30.0,
        seconds=1.0,
        time_limit=1800.0,
    ),
}


def benchmark(
    out: pathlib.Path,
    *,
    preset: str = "cpu",
    overwrite: bool = False,
    command: str = "python -m experiments benchmark search",
    **changes: Any,
) -> None:
    """Measures, and writes result.json, two CSVs, table.md and benchmark.png into `out`.

    `changes` replace fields of the preset's config.

    Raises:
      ValueError: unknown preset or task; `out` holds an earlier run; programs that should find the
        same do not, or one of ours fails.
    """
    begin = time.perf_counter()
    config = make_config(preset, **changes)
    runs.prepare(out, files=_FILES, resume=False, overwrite=overwrite)
    rows, growth, responses = measure_all(config)
    remarks = _remarks(config, rows)
    numbers = [number for row in rows for number in _speeds(row)]
    numbers += [number for row in rows for number in _ratio(row, rows)]
    numbers += [number for row in _of_ours(rows) for number in _parts(row)]
    numbers += [number for game, points in growth.items() for number in _growth(game, points)]
    numbers += [number for row in responses for number in _response(row)]
    result = results.make_result(
        experiment="benchmark_search",
        preset=preset,
        config=dataclasses.asdict(config) | _conditions(rows),
        command=command,
        wall_seconds=time.perf_counter() - begin,
        numbers=numbers,
        deviations=remarks,
    )
    results.write_csv(out / "benchmark.csv", [_details(row) for row in rows])
    results.write_csv(out / "growth.csv", _growth_rows(growth))
    results.write_file(out / "table.md", _markdown(rows, growth, responses, result))
    draw(out / "benchmark.png", rows, growth, shares={r.task: shares(r) for r in _of_ours(rows)})
    results.write_result(out, result)
    _print([*rows, *responses])


def make_config(preset: str, **changes: Any) -> Config:
    """The config of a preset with some fields replaced."""
    config = preset_config(PRESETS, preset, **changes)
    for task in (*config.tasks, *config.split):
        if task not in TASKS:
            raise ValueError(unknown("task", task, TASKS))
    for task in config.responses:
        if task not in ismcts_br.TASKS:
            raise ValueError(unknown("response", task, ismcts_br.TASKS))
    return config


def measure_all(config: Config) -> tuple[list[Row], dict[str, list], list[Row]]:
    """All measurements: rows by task and program, the points of growth by game, rows of ISMCTS-BR
    (searches, then games)."""
    jobs = [job for task in config.tasks for job in _jobs(config, task)]
    growth: dict[str, list] = {}
    rows: list[Row] = []
    responses: list[Row] = []
    with Progress(console=Console(stderr=True)) as bar:
        shown = bar.add_task("", total=len(jobs) + len(config.growth) + len(config.responses))
        for task, program, job in jobs:
            bar.update(shown, description=f"{task} {program}")
            run = _measure(config, job, name=f"{program} on {task}")
            rows.append(Row(task=task, program=program, runs=[run]))
            check_equal(rows[-1], rows)
            bar.advance(shown)
        for game in config.growth:
            bar.update(shown, description=f"growth of {game}")
            job = {"program": "growth", "game": game, "nodes": config.nodes}
            run = _measure(config, job | {"batch": config.growth_batch}, name=f"growth of {game}")
            growth[game] = run.get("points", [])
            bar.advance(shown)
        for task in config.responses:
            bar.update(shown, description=f"{RESPONDER} {task}")
            run = _measure(config, {"program": "response", "task": task}, name=task)
            games = {"failure": run["failure"], "samples": run.pop("games", [])}
            responses.append(Row(task=task, program=RESPONDER, runs=[run]))
            responses.append(Row(task=task, program=f"{RESPONDER}, games", runs=[games]))
            bar.advance(shown)
    return rows, growth, responses


def _jobs(config, task) -> Iterator[tuple[str, str, dict[str, Any]]]:
    ours = {"program": "search", "task": task, "devices": 1, "pieces": True}
    yield task, OURS, ours
    if task in config.split:
        split = {"devices": config.devices, "pieces": False}
        yield task, f"ours, {config.devices} devices", ours | split
    if TASKS[task].has_rival and mctx_search.is_installed():
        yield task, RIVAL, {"program": "alphazero", "task": task}


def _measure(config, job, *, name) -> dict[str, Any]:
    names = ("repeats", "sampling_seconds", "seconds")
    timing = {name: getattr(config, name) for name in names}
    run = measure_apart(_PROGRAM, job | timing, time_limit=config.time_limit)
    if (run["failure"] or "").startswith("failed") and job["program"] != "alphazero":
        raise ValueError(f"{name} {run['failure']}")
    return run


def check_equal(row: Row, rows: Sequence[Row]) -> None:
    """Raises `ValueError` if a program's work or answer is not that of ours on the same task."""
    run, task = row.runs[0], TASKS[row.task]
    ours = next(other for other in rows if (other.task, other.program) == (row.task, OURS)).runs[0]
    for name, expected in (("simulations", task.simulations), ("move", task.mate)):
        if expected is not None and run.get(name, expected) != expected:
            raise ValueError(
                f"{row.task}: {name} of {row.program} is {run[name]}, must be {expected}"
            )
    if "answer" in run and not np.allclose(run["answer"], ours["answer"], rtol=1e-3, atol=1e-4):
        worst = np.abs(np.subtract(run["answer"], ours["answer"])).max()
        raise ValueError(f"{row.task}: policies of {row.program} are off by {worst:g}")


def shares(row: Row) -> dict[str, float]:
    """Of the time of one of our searches, by its parts."""
    run = row.runs[0]
    iterate, simulate = run["iterate_seconds"], run["simulate_seconds"]
    network = run["network_seconds"], run["simulate_network_seconds"]
    parts = (sum(network), iterate - network[0], simulate - network[1])
    return {name: part / (iterate + simulate) for name, part in zip(_SHARES, parts, strict=True)}


def floor(row: Row) -> float | None:
    """Searches per second if there was nothing but the network's matrix products."""
    run = row.runs[0]
    return run["matrix_rate"] / run["operations"] if run.get("matrix_rate") else None


def _speeds(row: Row) -> Iterator[Number]:
    if not row.rates:
        return
    name, unit = f"{row.program}:{row.task}", "searches/s (median of the samples)"
    low, high = min(row.rates), max(row.rates)
    yield Number(name=name, value=row.rate, low=low, high=high, unit=unit)
    yield Number(
        name=f"{row.program}, lowest:{row.task}", value=low, unit="searches/s (lowest sample)"
    )


def _ratio(row: Row, rows: Sequence[Row]) -> Iterator[Number]:
    """How many times faster than ours on one device, at equal simulations."""
    ours = next(o for o in rows if (o.task, o.program) == (row.task, OURS))
    if row is not ours and row.rates and ours.rates:
        ratio, unit = row.rate / ours.rate, "times the searches/s of ours"
        yield Number(name=f"{row.program} / ours:{row.task}", value=ratio, unit=unit)


def _parts(row: Row) -> Iterator[Number]:
    run, task, least = row.runs[0], TASKS[row.task], floor(row)
    if least is not None:
        unit = "ours and the network's matrix products alone"
        yield Number(name=f"floor, searches/s:{row.task}", value=least, unit=unit)
        yield Number(name=f"floor / ours:{row.task}", value=least / row.rate, unit=unit)
        found = run["matrix_rate"] / 1e9
        yield Number(name=f"matrix rate, GFLOP/s:{row.task}", value=found, unit=unit)
        asked, unit = run["calls"], "network calls (of one public belief state)"
        yield Number(name=f"per second:{row.task}", value=asked * row.rate, unit=unit)
        yield Number(name=f"per simulation:{row.task}", value=asked / task.simulations, unit=unit)
        padded = run["computed_calls"] / asked
        yield Number(name=f"computed / asked for:{row.task}", value=padded, unit=unit)
    for name, share in shares(row).items():
        yield Number(name=f"{name}:{row.task}", value=share, unit="share of our time")


def _response(row: Row) -> Iterator[Number]:
    if row.rates:
        low, high = min(row.rates), max(row.rates)
        unit = "searches or games/s (median of the samples)"
        name = f"{row.program}:{row.task}"
        yield Number(name=name, value=row.rate, low=low, high=high, unit=unit)


def _growth(game: str, points: Sequence[Sequence[float]]) -> Iterator[Number]:
    unit = "microseconds per iteration of CFR of one search"
    for nodes, one, twice in points:
        yield Number(name=f"{nodes} nodes:{game}", value=one, unit=unit)
        yield Number(name=f"{nodes} nodes:{game}, twice the capacity", value=twice, unit=unit)
    if exponent(points) is not None:
        yield Number(name=f"exponent:{game}", value=exponent(points), unit="power of the nodes")


def exponent(points: Sequence[Sequence[float | int]]) -> float | None:
    """Of the power law between the last two sizes of a tree: 1 if its cost is linear."""
    if len(points) < 2:
        return None
    (fewer, less, _), (more, much, _) = points[-2:]
    return float(np.log(much / less) / np.log(more / fewer))


def _growth_rows(growth) -> list[dict[str, Any]]:
    rows = [
        {"game": game, "nodes": nodes, "microseconds": one, "microseconds_twice_capacity": twice}
        for game, points in growth.items()
        for nodes, one, twice in points
    ]
    return rows or [{"game": "", "nodes": ""}]


def _details(row: Row) -> dict[str, Any]:
    """One line of the CSV; empty where there is no such number."""
    run, task, rates = row.runs[0], TASKS[row.task], row.rates
    kept = ("calls", "computed_calls", "operations", "matrix_rate", "nodes", "iterate_seconds")
    kept = (*kept, "simulate_seconds", "network_seconds", "simulate_network_seconds")
    found = {
        "task": row.task,
        "program": row.program,
        "batch": task.batch,
        "searches_per_second": row.rate if rates else None,
        "low": min(rates, default=None),
        "high": max(rates, default=None),
        "samples": len(rates),
        "compile_seconds": run.get("compile_seconds"),
        **{name: run.get(name) for name in kept},
        "parts_to_whole": parts_to_whole(row) if "iterate_seconds" in run and rates else None,
        "busy_cores": row.largest("cores"),
        "cores_busy_with_others": row.largest("others"),
        "remark": row.failure,
    }
    return rounded(found)


def parts_to_whole(row: Row) -> float:
    """Time of the parts, half-way through a search, over that of the whole: about 1."""
    run, task = row.runs[0], TASKS[row.task]
    parts = task.simulations * (run["iterate_seconds"] + run["simulate_seconds"])
    return parts * row.rate / task.batch


def _remarks(config, rows) -> list[str]:
    remarks = [f"{row.program} on {row.task}: {row.failure}" for row in rows if row.failure]
    if not mctx_search.is_installed() and any(TASKS[task].has_rival for task in config.tasks):
        remarks.append("mctx is not installed")
    for task in config.tasks:
        number = TASKS[task].expand
        if number is not None:
            children = "child" if number == 1 else "children"
            remarks.append(f"{task}: new nodes start with their {number} best {children}")
    return remarks


def _conditions(rows) -> dict[str, Any]:
    """What `result.json` tells besides the config."""
    conditions = {
        "measure": "searches per second from the root of the game, untrained networks",
        "cores_busy_with_others": round(max(row.largest("others") for row in rows), 2),
    }
    if any(row.program == RIVAL for row in rows):
        conditions["mctx"] = importlib.metadata.version(mctx_search.DISTRIBUTION)
    return conditions


def _of_ours(rows):
    """One row per task, those left out that took too long to be told."""
    return [row for row in rows if row.program == OURS and "iterate_seconds" in row.runs[0]]


def _markdown(rows, growth, responses, result) -> str:
    """The tables for people: speeds, parts, growth, ISMCTS-BR, remarks."""
    numbers = [number for row in _of_ours(rows) for number in _parts(row)]
    names = list(dict.fromkeys(number.name.partition(":")[0] for number in numbers))
    cells = {number.name: number.value for number in numbers}
    parts = [[r.task, *(cells.get(f"{n}:{r.task}") for n in names)] for r in _of_ours(rows)]
    details = [_details(row) for row in rows]
    grown = _growth_rows(growth)
    tables = [
        f"# {result.config['measure']}",
        f"{result.device}; " + ", ".join(f"{k} {v}" for k, v in result.versions.items()) + ".",
        markdown_table(list(details[0]), [list(line.values()) for line in details]),
        markdown_table(["ours", *names], parts),
        markdown_table(list(grown[0]), [list(line.values()) for line in grown]),
        markdown_table(*speeds(responses)),
        "\n".join(f"- {remark}" for remark in result.deviations),
    ]
    return "\n\n".join(filter(None, tables)) + "\n"


def _print(rows) -> None:
    header = ("task", "program", "searches/s", "lowest")
    table = Table(title="Searches per second")
    for number, title in enumerate(header):
        table.add_column(title, justify="right" if number > 1 else "left", overflow="fold")
    for row in rows:
        rates = map(results.text, (row.rate, min(row.rates))) if row.rates else (row.failure, "")
        table.add_row(row.task, row.program, *rates)
    Console().print(table)
