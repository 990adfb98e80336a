"""Steps of chess and Go beside pgx's own, on one core or on an accelerator.

Games are played side by side by the same random moves, from the first position on; a step makes a
move, the legal moves and the observation afterwards. Both programs must come to the same positions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.config_checks import check_names
from experiments.benchmarks.measurements import Clock, sample_searches
from experiments.benchmarks.processes import measure_in_process
from experiments.benchmarks.reports import (
    Row,
    cores_busy_with_others,
    rounded,
    speed,
    speed_ratio,
)
from experiments.harness import devices, results
from experiments.harness.experiment import text_table
from experiments.harness.progress import status
from jaxgames.adapters.pgx import lenient, make_env

OURS, PGX = PROGRAMS = ("ours", "pgx")
TASKS = ("gardner_chess", "chess", "go_9x9", "go_19x19")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    tasks: tuple[str, ...] = TASKS
    batch: int = 64  # games side by side
    turns: int = 64  # steps of each in a sample
    repeats: int = 7  # samples
    sampling_seconds: float = 60.0  # after which two samples are enough
    time_limit: float = 600.0  # in seconds, for one process


PRESETS = {
    "smoke": Config(tasks=("gardner_chess",), batch=4, turns=4, repeats=2),
    "cpu": Config(),
    "gpu": Config(batch=4096),
}


def _measured(config, task) -> list[Row]:
    """Both programs in one game."""
    rows = []
    for program in PROGRAMS:
        with status(f"benchmark board_steps: {task}, {program}"):
            job = dataclasses.asdict(config) | {"task": task, "program": program}
            run = measure_in_process(__name__, job, time_limit=config.time_limit, cores=1)
        if run["failure"]:
            raise ValueError(f"{task}, {program}: {run['failure']}")
        rows.append(Row(task=task, program=program, runs=[run]))
    ours, theirs = (row.runs[0]["positions"] for row in rows)
    if ours != theirs:
        raise ValueError(f"{task}: ours and pgx come to different positions")
    return rows


def numbers(config: Config, rows: Sequence[Row]) -> Iterator[results.Number]:
    """Speeds, and how many times as fast ours is."""
    yield from (speed(row, "steps/s") for row in rows)
    found = {(row.task, row.program): row for row in rows}
    for task in dict.fromkeys(row.task for row in rows):
        ours, theirs = (found[task, program] for program in PROGRAMS)
        yield speed_ratio(f"{OURS} / {PGX}:{task}", ours, theirs, "steps/s")


def _details(row) -> dict[str, Any]:
    """One line of the CSV."""
    return rounded(
        {
            "task": row.task,
            "program": row.program,
            "steps/s": row.rate,
            "low": min(row.rates),
            "high": max(row.rates),
            "microseconds a step": 1e6 / row.rate,
            "samples": len(row.rates),
            "compile seconds": row.median("compile_seconds"),
            "busy cores": row.largest("cores"),
            "cores busy with others": row.largest("others"),
        }
    )


def _shown(config, rows) -> Table:
    """The speeds for the terminal."""
    lines = [
        (row.task, row.program, results.text(row.rate), results.text(1e6 / row.rate))
        for row in rows
    ]
    return text_table(
        "Steps of board games", ("game", "", "per second", "microseconds"), lines, labels=2
    )


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Reports compile time, samples of steps per second, and where the games have come to.

    Args:
      job: the fields of a `Config`, `task`, one of `TASKS`, and `program`.
      report: takes the numbers as keywords.
    """
    devices.set_core_flags()  # compiled as for several cores, as the commands do
    import pgx  # makes arrays when imported

    batch, turns = job["batch"], job["turns"]
    with lenient():
        env = make_env(job["task"]) if job["program"] == OURS else pgx.make(job["task"])

        @jax.jit
        def play(key):
            def turn(states, key):
                # Draws for all actions of all games would take longer than a step: the games share
                # them, each from another one on.
                actions = states.legal_action_mask.shape[1]
                shared, own = jax.random.split(key)
                noise = jnp.tile(jax.random.uniform(shared, (actions,)), 2)
                begin = jax.random.randint(own, (batch, 1), 0, actions)
                noise = jax.vmap(lambda at: jax.lax.dynamic_slice(noise, at, (actions,)))(begin)
                action = jnp.argmax(jnp.where(states.legal_action_mask, noise, -1), axis=1)
                return jax.vmap(env.step)(states, action.astype(jnp.int32)), None

            first, others = jax.random.split(key)
            states = jax.vmap(env.init)(jax.random.split(first, batch))
            return jax.lax.scan(turn, states, jax.random.split(others, turns))[0]

        clock = Clock()
        jax.block_until_ready(play(jax.random.key(0)))
        report(compile_seconds=round(clock.seconds(), 3))
        states, samples = sample_searches(
            lambda number: play(jax.random.key(number)), batch * turns, job
        )
    seen = [states.observation, states.legal_action_mask, states.rewards, states.terminated]
    report(samples=samples, positions=[float(np.sum(x, dtype=np.float64)) for x in seen])


BENCHMARK = Benchmark(
    name="board_steps",
    presets=PRESETS,
    check=lambda config: check_names("task", config.tasks, TASKS),
    measure_all=lambda config, kept: [
        row for task in config.tasks for row in _measured(config, task)
    ],
    lines=lambda config, rows: map(_details, rows),
    numbers=numbers,
    measure=lambda config: (
        f"steps per second of {config.batch} games side by side, {config.turns} random moves from"
        " the first position on, on one core of a CPU or on an accelerator: median of all samples"
    ),
    conditions=lambda config, rows: {"cores_busy_with_others": cores_busy_with_others(rows)},
    shown=_shown,
)
