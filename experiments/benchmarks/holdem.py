"""Speed of hold'em subgame solving: seconds of an iteration, and how far from what memory allows.

Each spot is solved in a process of its own at steady state, compilation apart. The other program's
times are those that are published for two cores of another machine, not of the same run; that the
work is equal is checked by the values and the exploitability, which must be its own.
"""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
import time
from typing import Any

from rich.console import Console
from rich.progress import Progress

from experiments import results, runs
from experiments.benchmarks import (
    arguments,
    bandwidth,
    markdown_table,
    measure_apart,
    peak_memory,
    preset_config,
)
from experiments.holdem_spots import SPOTS
from jaxgames.registry import unknown

_FILES = (results.RESULT_FILE, "benchmark.csv", "table.md")
_PROGRAM = "from experiments.benchmarks import holdem; holdem.main()"
_PASSES = 4  # regrets and average reach, each read and written once: no solver can do with less
_HANDS = 2**20  # of the evaluator, at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    spots: tuple[str, ...]
    batch: int  # rivers side by side, with ranges of their own
    rounds: int
    seconds: float  # that iterations are timed for, at least
    checked: bool  # whether spots are solved to the end, and compared
    time_limit: float


PRESETS = {
    "smoke": Config(
        spots=("river",), batch=4, rounds=1, seconds=0.2, checked=False, time_limit=300.0
    ),
    "cpu": Config(
        spots=("river", "turn", "turn, all hands"),
        batch=64,
        rounds=3,
        seconds=2.0,
        checked=True,
        time_limit=900.0,
    ),
}


def benchmark(
    out: pathlib.Path,
    *,
    preset: str = "cpu",
    overwrite: bool = False,
    command: str = "python -m experiments benchmark holdem",
    **changes: Any,
) -> None:
    """Measures, and writes result.json, benchmark.csv and table.md into `out`.

    `changes` replace fields of the preset's config.

    Raises:
      ValueError: unknown preset or spot, `out` holds an earlier run, a solution is not the other
        program's, or a measurement fails.
    """
    begin = time.perf_counter()
    config = preset_config(PRESETS, preset, **changes)
    for spot in config.spots:
        if spot not in SPOTS:
            raise ValueError(unknown("spot", spot, SPOTS))
    runs.prepare(out, files=_FILES, resume=False, overwrite=overwrite)
    jobs = [(spot, 1) for spot in config.spots] + [("river", config.batch), ("hands", 1)]
    found: dict[tuple[str, int], list[dict[str, Any]]] = {job: [] for job in jobs}
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=len(jobs) * config.rounds)
        for number in range(config.rounds):
            for spot, batch in jobs:
                bar.update(task, description=spot)
                found[spot, batch].append(_measured(config, spot, batch, check=number == 0))
                bar.advance(task)
    rows = [_row(spot, batch, each) for (spot, batch), each in found.items() if spot in SPOTS]
    rates = [run["hands_per_second"] for run in found["hands", 1]]
    numbers = [
        results.Number(
            name=f"{name}:{row['spot']}",
            value=row[key],
            unit=unit,
            low=row.get(f"{key}_low"),
            high=row.get(f"{key}_high"),
            paper=row.get(f"{key}_other"),
        )
        for row in rows
        for key, name, unit in _SHOWN
        if row.get(key) is not None
    ]
    numbers.append(
        results.Number(
            name="seven-card hands:per second",
            value=statistics.median(rates),
            low=min(rates),
            high=max(rates),
            unit="hands/s",
        )
    )
    result = results.make_result(
        experiment="benchmark_holdem",
        preset=preset,
        config=dataclasses.asdict(config)
        | {"measure": "milliseconds of an iteration, median of all rounds; compilation apart"},
        command=command,
        wall_seconds=time.perf_counter() - begin,
        numbers=numbers,
        deviations=["the other solver's times are of another machine with two cores"],
    )
    results.write_csv(out / "benchmark.csv", rows)
    results.write_file(out / "table.md", _markdown(rows))
    results.write_result(out, result)
    Console().print(_markdown(rows))


_SHOWN = (
    ("milliseconds", "ms", "ms per iteration"),
    ("to_target", "to 0.1 % of the pot", "s"),
    ("compile_seconds", "compile", "s"),
    ("peak_mebibytes", "peak memory", "MiB"),
    ("floor", "floor", "ms per iteration"),
    ("over_floor", "over floor", "times"),
)


def _measured(config, spot, batch, *, check):
    job = {
        "spot": spot,
        "batch": batch,
        "seconds": config.seconds,
        "check": check and config.checked and batch == 1,
    }
    run = measure_apart(_PROGRAM, job, time_limit=config.time_limit)
    if run["failure"]:
        raise ValueError(f"{spot}: {run['failure']}")
    if "ev" in run:
        known = SPOTS[spot]
        if abs(run["ev"] - known.ev) > 0.05 or run["exploitability"] > 1.25 * known.exploitability:
            raise ValueError(
                f"{spot}: value {run['ev']:.4f} and exploitability {run['exploitability']:.4f} are"
                f" not those of the other solver, {known.ev:.4f} and {known.exploitability:.4f}"
            )
    return run


def _row(spot, batch, measured):
    times = [1000 * run["seconds"] for run in measured]
    floor = _PASSES * statistics.median(1000 * r["bytes"] / r["bandwidth"] for r in measured)
    first = measured[0]
    return {
        "spot": spot if batch == 1 else f"{spot}, each of {batch}",
        "milliseconds": statistics.median(times),
        "milliseconds_low": min(times),
        "milliseconds_high": max(times),
        "milliseconds_other": 1000 * SPOTS[spot].seconds,
        "to_target": first.get("to_target"),
        "sequences": first["sequences"],
        "compile_seconds": statistics.median(run["compile_seconds"] for run in measured),
        "peak_mebibytes": max(run["peak"] for run in measured),
        "floor": floor,
        "over_floor": statistics.median(times) / floor,
    }


def _markdown(rows):
    head = ["spot", "ms per iteration", "other solver", "floor", "over floor", "compile, s"]
    keys = ("milliseconds", "milliseconds_other", "floor", "over_floor", "compile_seconds")
    lines = [[row["spot"], *(row[key] for key in keys)] for row in rows]
    return markdown_table(head, lines) + "\n"


def main() -> None:
    """One measurement, in a process of its own."""
    job, report = arguments()
    if job["spot"] == "hands":
        report(hands_per_second=_hands_per_second(job["seconds"]))
        return
    import jax

    from solvers import cfr, evaluation
    from solvers.holdem.tree import holdem_tree

    spot, batch = SPOTS[job["spot"]], job["batch"]
    tree = holdem_tree(spot.cards, spot.ranges, spot.betting)
    solver, reach = cfr.dcfr(gamma=3.0), tree.root_reach
    if batch > 1:  # every river with ranges of its own
        keys = jax.random.split(jax.random.key(0))
        reach = tuple(
            held * jax.random.uniform(key, (batch, len(held)), minval=0.2)
            for held, key in zip(reach, keys, strict=True)
        )
        start = jax.vmap(lambda *reach: cfr.init(tree.public, root_reach=reach))(*reach)
    else:
        start = cfr.init(tree.public, root_reach=reach)

    def advanced(state, count):
        def one(state):
            return cfr.run(tree.public, state, solver=solver, num_iterations=count)

        return jax.block_until_ready(jax.vmap(one)(state) if batch > 1 else one(state))

    begin = time.perf_counter()
    state = advanced(start, 1)
    report(compile_seconds=time.perf_counter() - begin)
    count, elapsed = 1, 0.0
    while elapsed < job["seconds"]:
        begin = time.perf_counter()
        advanced(state, count)
        elapsed = time.perf_counter() - begin
        seconds, count = elapsed / count, count * 2
    kept = sum(leaf.nbytes for leaf in jax.tree.leaves(start.average_reach))
    report(
        seconds=seconds / batch,
        sequences=sum(player.num_sequences for player in tree.public.players),
        bytes=kept / batch,
        bandwidth=bandwidth(2 * kept),
        peak=peak_memory(),
    )
    if not job["check"]:
        return
    target = 0.001 * spot.pot

    def exploitability(state):
        policy = cfr.average_policy(tree.public, state)
        return float(evaluation.exploitability(tree.public, policy, reach)) / tree.total

    state = advanced(start, spot.iterations)
    policy = cfr.average_policy(tree.public, state)
    value = float(evaluation.expected_value(tree.public, policy, reach)[0])
    report(ev=value / tree.total + spot.pot / 2, exploitability=exploitability(state))
    done = spot.iterations
    while exploitability(state) > target:
        state, done = advanced(state, 10), done + 10
    report(to_target=done * seconds, target_iterations=done)


def _hands_per_second(wanted):
    import jax
    import jax.numpy as jnp

    from jaxgames.holdem.evaluator import strength

    cards = jax.random.randint(jax.random.key(0), (_HANDS, 7), 0, 52, jnp.int32)

    @jax.jit
    def evaluated(cards, count):
        def again(number, total):
            # cards that change from round to round, so that no round can be left out
            return total + jnp.sum(strength((cards + number) % 52), dtype=jnp.int32)

        return jax.lax.fori_loop(0, count, again, jnp.int32(0))

    jax.block_until_ready(evaluated(cards, 1))
    count, elapsed = 1, 0.0
    while elapsed < wanted:
        begin = time.perf_counter()
        jax.block_until_ready(evaluated(cards, count))
        elapsed = time.perf_counter() - begin
        rate, count = count * _HANDS / elapsed, count * 2
    return rate
