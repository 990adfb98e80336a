"""The numbers and tables of the benchmark of searches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from experiments.benchmarks.reports import Row, lines_table, markdown_table, rounded, speed_table
from experiments.benchmarks.search_tasks import TASKS
from experiments.harness import results
from experiments.harness.experiment import text_table
from experiments.harness.results import Number

# programs; those on several devices begin like that
OURS, ALPHAZERO, RIVAL = "ours", "AlphaZero (ours)", "AlphaZero (mctx)"
_PARTS = ("network", "regret phase", "expansion")
_BEST = ("task", "fastest of ours", "searches/s", "fastest of the rival", "searches/s", "ratio")
_STEPS = {
    "sequential steps per iteration": "iterate_steps",
    "sequential steps per simulation": "simulate_steps",
}


def numbers(
    rows: Sequence[Row], growth: dict[str, list], responses: Sequence[Row]
) -> Iterator[Number]:
    """All numbers of `result.json`."""
    for row in rows:
        yield from _speeds(row)
    for row in rows:
        yield from _ratio(row, rows)
    for name in (OURS, ALPHAZERO):
        for pair in best_by_task(rows, name):
            yield _best_ratio(name, *pair)
    for row in rows_of_ours(rows):
        yield from _parts(row)
    for game, points in growth.items():
        yield from _growth(game, points)
    for row in responses:
        yield from _response(row)


def shares(row: Row) -> dict[str, float]:
    """Shares of the time of one of our searches, by its parts; they sum to 1.

    The network is measured apart, and counts at most the time of what calls it.
    """
    run = row.runs[0]
    iterate, simulate = run["iterate_seconds"], run["simulate_seconds"]
    network = (
        min(run["network_seconds"], iterate),
        min(run["simulate_network_seconds"], simulate),
    )
    together = TASKS[row.task].pace  # simulations, for one iteration
    parts = (
        network[0] + together * network[1],
        iterate - network[0],
        together * (simulate - network[1]),
    )
    return {name: part / sum(parts) for name, part in zip(_PARTS, parts, strict=True)}


def floor(row: Row) -> float | None:
    """Searches per second that the network's matrix products alone would allow; None without a
    network."""
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
    room = row.runs[0].get("bytes_per_search")
    if room is not None:
        yield Number(name=f"MB:{row.task}", value=room / 1e6, unit="of a search and its results")


def _ratio(row: Row, rows: Sequence[Row]) -> Iterator[Number]:
    """How many times faster a program is than ours on one device, at equal simulations."""
    ours = row_of_ours(row.task, rows)
    if row is not ours and row.rates and ours.rates:
        ratio, unit = row.rate / ours.rate, "times the searches/s of ours"
        yield Number(name=f"{row.program} / ours:{row.task}", value=ratio, unit=unit)


def best_by_task(rows: Sequence[Row], name: str) -> list[tuple[Row, Row]]:
    """The fastest row of a program and the fastest of the rival on each task that both were
    measured on: both use all cores, as one device or as several, whichever suits them.

    Args:
      rows: of all programs.
      name: OURS or ALPHAZERO.
    """
    pairs = []
    for task in dict.fromkeys(row.task for row in rows):
        there = [row for row in rows if row.task == task and row.rates]
        ours, rivals = (
            [row for row in there if row.program.startswith(begin)] for begin in (name, RIVAL)
        )
        if ours and rivals:
            pairs.append(tuple(max(own, key=lambda row: row.rate) for own in (ours, rivals)))
    return pairs


def _best_ratio(name: str, ours: Row, rival: Row) -> Number:
    whose = "ours" if name == OURS else f"{name}'s"
    unit = f"times the searches/s of the fastest of {whose}, on the same cores"
    name = f"fastest by fastest, {rival.program} / {ours.program}:{ours.task}"
    return Number(name=name, value=rival.rate / ours.rate, unit=unit)


def _parts(row: Row) -> Iterator[Number]:
    run, task, least = row.runs[0], TASKS[row.task], floor(row)
    if least is not None:
        unit = "ours and the network's matrix products alone"
        yield Number(name=f"floor, searches/s:{row.task}", value=least, unit=unit)
        yield Number(name=f"floor / ours:{row.task}", value=least / row.rate, unit=unit)
        rate = run["matrix_rate"] / 1e9
        yield Number(name=f"matrix rate, GFLOP/s:{row.task}", value=rate, unit=unit)
        asked, unit = run["calls"], "network calls (of one public belief state)"
        yield Number(name=f"per second:{row.task}", value=asked * row.rate, unit=unit)
        yield Number(name=f"per simulation:{row.task}", value=asked / task.simulations, unit=unit)
        padded = run["computed_calls"] / asked
        yield Number(name=f"computed / asked for:{row.task}", value=padded, unit=unit)
    for name, share in shares(row).items():
        yield Number(name=f"{name}:{row.task}", value=share, unit="share of our time")
    for name, key in _STEPS.items():
        if key in run:
            unit = "turns of innermost loops, half-way through a search"
            yield Number(name=f"{name}:{row.task}", value=float(run[key]), unit=unit)


def _response(row: Row) -> Iterator[Number]:
    if row.rates:
        low, high = min(row.rates), max(row.rates)
        unit = "searches or games/s (median of the samples)"
        name = f"{row.program}:{row.task}"
        yield Number(name=name, value=row.rate, low=low, high=high, unit=unit)


def _growth(game: str, points: Sequence[Sequence[int | float]]) -> Iterator[Number]:
    unit = "microseconds per iteration of CFR of one search"
    for nodes, cost, twice in points:
        yield Number(name=f"{nodes} nodes:{game}", value=cost, unit=unit)
        yield Number(name=f"{nodes} nodes:{game}, twice the capacity", value=twice, unit=unit)
    if exponent(points) is not None:
        yield Number(name=f"exponent:{game}", value=exponent(points), unit="power of the nodes")


def exponent(points: Sequence[Sequence[float | int]]) -> float | None:
    """The exponent of the power law between the last two sizes of a tree; 1 if cost is linear."""
    if len(points) < 2:
        return None
    (fewer, less, _), (more, much, _) = points[-2:]
    return float(np.log(much / less) / np.log(more / fewer))


def growth_rows(growth: dict[str, list]) -> list[dict[str, Any]]:
    """The lines of growth.csv."""
    rows = [
        {"game": game, "nodes": nodes, "microseconds": cost, "microseconds_twice_capacity": twice}
        for game, points in growth.items()
        for nodes, cost, twice in points
    ]
    return rows or [{"game": "", "nodes": ""}]


def details(row: Row) -> dict[str, Any]:
    """One line of the CSV; empty where there is no such number."""
    run, task, rates = row.runs[0], TASKS[row.task], row.rates
    kept = ("calls", "computed_calls", "operations", "matrix_rate", "nodes", "iterate_seconds")
    kept = (*kept, "simulate_seconds", "network_seconds", "simulate_network_seconds")
    kept = (*kept, *_STEPS.values())
    line = {
        "task": row.task,
        "program": row.program,
        "batch": task.batch,
        "searches_per_second": row.rate if rates else None,
        "low": min(rates, default=None),
        "high": max(rates, default=None),
        "samples": len(rates),
        "compile_seconds": run.get("compile_seconds"),
        "bytes_per_search": run.get("bytes_per_search"),
        **{name: run.get(name) for name in kept},
        "parts_to_whole": parts_to_whole(row) if "iterate_seconds" in run and rates else None,
        "busy_cores": row.largest("cores"),
        "cores_busy_with_others": row.largest("others"),
        "remark": row.failure,
    }
    return rounded(line)


def parts_to_whole(row: Row) -> float:
    """The time of the parts, half-way through a search, over that of the whole: about 1."""
    run, task = row.runs[0], TASKS[row.task]
    parts = task.simulations * (run["iterate_seconds"] / task.pace + run["simulate_seconds"])
    return parts * row.rate / task.batch


def row_of_ours(task: str, rows: Sequence[Row]) -> Row:
    """The row of our search on a task, on one device."""
    return next(row for row in rows if (row.task, row.program) == (task, OURS))


def rows_of_ours(rows: Sequence[Row]) -> list[Row]:
    """The rows of our search on one device whose parts were measured within the time limit."""
    return [row for row in rows if row.program == OURS and "iterate_seconds" in row.runs[0]]


def markdown(
    rows: Sequence[Row],
    growth: dict[str, list],
    responses: Sequence[Row],
    result: results.Result,
) -> str:
    """The tables for people: speeds, parts, growth, ISMCTS-BR, remarks."""
    measured = [number for row in rows_of_ours(rows) for number in _parts(row)]
    names = list(dict.fromkeys(number.name.partition(":")[0] for number in measured))
    cells = {number.name: number.value for number in measured}
    parts = [[r.task, *(cells.get(f"{n}:{r.task}") for n in names)] for r in rows_of_ours(rows)]
    lines = [details(row) for row in rows]
    grown = growth_rows(growth)
    best = [
        [ours.task, ours.program, ours.rate, rival.program, rival.rate, rival.rate / ours.rate]
        for name in (OURS, ALPHAZERO)
        for ours, rival in best_by_task(rows, name)
    ]
    tables = [
        f"# {result.config['measure']}",
        f"{result.device}; " + ", ".join(f"{k} {v}" for k, v in result.versions.items()) + ".",
        lines_table(lines),
        markdown_table(_BEST, best) if best else "",
        markdown_table(["ours", *names], parts),
        lines_table(grown),
        markdown_table(*speed_table(responses)),
        "\n".join(f"- {remark}" for remark in result.deviations),
    ]
    return "\n\n".join(filter(None, tables)) + "\n"


def shown(rows: Sequence[Row]) -> Table:
    """The speeds of all programs for the terminal."""
    lines = []
    for row in rows:
        rates = map(results.text, (row.rate, min(row.rates))) if row.rates else (row.failure, "")
        lines.append((row.task, row.program, *rates))
    headings = ("task", "program", "searches/s", "lowest")
    return text_table("Searches per second", headings, lines, labels=2)
