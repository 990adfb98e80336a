"""Speed of hold'em subgame solving: seconds of an iteration, and how far from what memory allows.

Each spot is solved in a process of its own at steady state, compilation apart. The other program's
times are those that are published for two cores of another machine, not of the same run; that the
work is equal is checked by the values and the exploitability, which must be its own.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import Progress

from experiments.benchmarks import (
    arguments,
    bandwidth,
    even_devices,
    markdown_table,
    measure_apart,
    peak_memory,
    preset_config,
)
from experiments.harness import results, runs
from experiments.subgame_solving.holdem_spots import SPOTS
from jaxgames.registry import unknown

_FILES = (results.RESULT_FILE, "benchmark.csv", "table.md")
_PROGRAM = "from experiments.benchmarks import holdem; holdem.main()"
_PASSES = 4  # regrets and average reach, each read and written once: no solver can do with less
_HANDS, _EVALUATOR = 2**20, "hands"  # of the evaluator, at once; its job
_AT_ONCE = 4  # rivers, on a device that is a CPU's: faster there than all at once
_LEAST = 8  # iterations at once: the first one of a flop takes three times as long, for new memory
_ITERATIONS = 50  # after which rivers must be alike on all devices


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    spots: tuple[str, ...]
    batch: int  # rivers side by side, with ranges of their own
    devices: int  # that these are spread over, too: XLA shares the cores out to them
    rounds: int
    seconds: float  # that iterations are timed for, at least
    checked: bool  # whether spots are solved to the end, and compared
    time_limit: float


PRESETS = {
    "smoke": Config(
        spots=("river",),
        batch=4,
        devices=2,
        rounds=1,
        seconds=0.2,
        checked=False,
        time_limit=300.0,
    ),
    "cpu": Config(
        spots=("river", "turn", "turn, all hands", "flop"),
        batch=64,
        devices=even_devices(),
        rounds=3,
        seconds=5.0,
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
    jobs = [_Job(spot) for spot in (*config.spots, _EVALUATOR)]
    jobs += [_Job("river", config.batch, devices) for devices in (1, config.devices)]
    found: dict[_Job, list[dict[str, Any]]] = {job: [] for job in jobs}
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=len(jobs) * config.rounds)
        for number in range(config.rounds):
            for job in jobs:
                bar.update(task, description=job.name)
                found[job].append(_measured(config, job, check=number == 0))
                bar.advance(task)
    rates = [run["hands_per_second"] for run in found.pop(_Job(_EVALUATOR))]
    check_equal(*(found[job][0]["answers"] for job in jobs if job.batch > 1))
    # where there is an accelerator, cores are no devices
    rows = [_row(job, each) for job, each in found.items() if each[0]["devices"] == job.devices]
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


class _Job(NamedTuple):
    """What a process measures."""

    spot: str
    batch: int = 1
    devices: int = 1

    @property
    def name(self) -> str:
        among = f", each of {self.batch}" if self.batch > 1 else ""
        return self.spot + among + (f", {self.devices} devices" if self.devices > 1 else "")


def _measured(config, job, *, check):
    spot = job.spot
    given = job._asdict() | {
        "seconds": config.seconds,
        "check": check and config.checked and job.batch == 1,
    }
    run = measure_apart(_PROGRAM, given, time_limit=config.time_limit)
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


def check_equal(one: Sequence[float], other: Sequence[float]) -> None:
    """Raises `ValueError` if rivers are solved differently on several devices."""
    if not np.allclose(one, other, rtol=1e-3):
        worst = np.abs(np.subtract(one, other)).max()
        raise ValueError(f"several devices change the rivers' exploitability by {worst:g}")


def _row(job, measured):
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


def _markdown(rows):
    head = ["spot", "ms per iteration", "other solver", "floor", "over floor", "compile, s"]
    keys = ("milliseconds", "milliseconds_other", "floor", "over_floor", "compile_seconds")
    lines = [[row["spot"], *(row[key] for key in keys)] for row in rows]
    return markdown_table(head, lines) + "\n"


def main() -> None:
    """One measurement, in a process of its own."""
    job, report = arguments()
    if job["spot"] == _EVALUATOR:
        report(hands_per_second=_hands_per_second(job["seconds"]))
        return
    import jax

    jax.config.update("jax_num_cpu_devices", job["devices"])

    from solvers import cfr, evaluation
    from solvers.holdem.subgame_tree import holdem_tree
    from train.data_sharding import data_mesh

    spot, batch = SPOTS[job["spot"]], job["batch"]
    tree = holdem_tree(spot.cards, spot.ranges, spot.betting)
    solver, reach = cfr.dcfr(gamma=3.0), tree.root_reach
    if batch > 1:  # every river with ranges of its own
        keys = jax.random.split(jax.random.key(0))
        reach = tuple(
            held * jax.random.uniform(key, (batch, len(held)), minval=0.2)
            for held, key in zip(reach, keys, strict=True)
        )

    def started(public, reach):
        return cfr.init(public, root_reach=reach)

    def continued(shared, state):
        public, count = shared
        return cfr.run(public, state, solver=solver, num_iterations=count)

    if batch > 1:
        mesh = data_mesh() if job["devices"] > 1 else None
        started, continued = (_side_by_side(function, mesh) for function in (started, continued))
    start = started(tree.sequence_form, reach)

    def advanced(state, count):
        return jax.block_until_ready(continued((tree.sequence_form, count), state))

    begin = time.perf_counter()
    state = advanced(start, 1)
    report(compile_seconds=time.perf_counter() - begin)
    count, elapsed = 1, 0.0
    while elapsed < job["seconds"] or count <= _LEAST:
        begin = time.perf_counter()
        advanced(state, count)
        elapsed = time.perf_counter() - begin
        seconds, count = elapsed / count, count * 2
    kept = sum(leaf.nbytes for leaf in jax.tree.leaves(start.average_reach))
    report(
        devices=jax.device_count(),
        seconds=seconds / batch,
        sequences=sum(player.num_sequences for player in tree.sequence_form.treeplexes),
        bytes=kept / batch,
        bandwidth=bandwidth(2 * kept),
        peak=peak_memory(),
    )

    def exploitability(state, reach=reach):
        policy = cfr.average_policy(tree.sequence_form, state)
        return evaluation.exploitability(tree.sequence_form, policy, reach) / tree.total_weight

    if batch > 1:
        found = jax.vmap(exploitability)(advanced(start, _ITERATIONS), reach)
        report(answers=found.tolist())
    if not job["check"]:
        return
    target = 0.001 * spot.pot

    state = advanced(start, spot.iterations)
    policy = cfr.average_policy(tree.sequence_form, state)
    value = float(evaluation.expected_value(tree.sequence_form, policy, reach)[0])
    report(ev=value / tree.total_weight + spot.pot / 2, exploitability=float(exploitability(state)))
    done = spot.iterations
    while exploitability(state) > target:
        state, done = advanced(state, 10), done + 10
    report(to_target=done * seconds, target_iterations=done)


def _side_by_side(function, mesh):
    """`function(shared, one)` of a batch, on the devices of a mesh."""
    import jax

    from train.data_sharding import split_calls

    at_once = _AT_ONCE if jax.default_backend() == "cpu" else None

    def share(shared, batch):
        size = at_once or len(jax.tree.leaves(batch)[0])
        return jax.lax.map(functools.partial(function, shared), batch, batch_size=size)

    return jax.jit(split_calls(share, mesh))


def _hands_per_second(wanted):
    import jax
    import jax.numpy as jnp

    from jaxgames.holdem.hand_evaluator import strength

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
