"""PimBot on one core: simulations and bare playouts per second, in Scotland Yard on London.

Searches are those of the first round, whose playouts are the longest: of Mr X, and of the first
detective if it were to move first. Many games are searched side by side, in one process on one
core.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from rich.table import Table

from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.config_checks import check_names
from experiments.benchmarks.measurements import Clock, sample_searches
from experiments.benchmarks.processes import measure_in_process
from experiments.benchmarks.reports import Row, cores_busy_with_others, rounded, speed
from experiments.harness import results
from experiments.harness.experiment import text_table
from experiments.harness.progress import status
from jaxgames.registry import make
from solvers.scotland_yard import matches, pimbot, playouts, station_sets
from solvers.scotland_yard.position import from_state

# by name: whether Mr X searches, and whether whole simulations are counted or playouts alone
TASKS = {
    "Mr X, simulations": (True, True),
    "detectives, simulations": (False, True),
    "Mr X, bare playouts": (True, False),
    "detectives, bare playouts": (False, False),
}
_PLAYOUTS = 20  # of each game in one call


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    game: str = "scotland_yard(map=london)"
    tasks: tuple[str, ...] = tuple(TASKS)
    simulations: int = 1000
    batch: int = 256  # games side by side
    repeats: int = 5  # samples
    sampling_seconds: float = 60.0  # after which two samples are enough
    time_limit: float = 600.0  # in seconds, for one process


PRESETS = {
    "smoke": Config(
        game="scotland_yard(map=london,rounds=3,detectives=2)",
        simulations=10,
        batch=8,
        repeats=2,
        sampling_seconds=1.0,
    ),
    "cpu": Config(),
}


def _measured(config, task):
    """A row with the samples of one task."""
    job = dataclasses.asdict(config) | {"task": task}
    with status(f"benchmark pimbot: {task}"):
        run = measure_in_process(__name__, job, time_limit=config.time_limit, cores=1)
    if run["failure"]:
        raise ValueError(f"{task}: {run['failure']}")
    return Row(task=task, program="PimBot", runs=[run])


def numbers(config: Config, rows: Sequence[Row]) -> Iterator[results.Number]:
    """All numbers of `result.json`."""
    for row in rows:
        yield speed(row, f"{row.task.split()[-1]}/s (median of the samples)")


def _shown(config, rows) -> Table:
    """The speeds for the terminal."""
    lines = [[row.task, results.text(row.rate)] for row in rows]
    return text_table("PimBot on one core", ("task", "per second"), lines)


def _details(row) -> dict[str, Any]:
    """One line of the CSV."""
    return rounded(
        {
            "task": row.task,
            "per second": row.rate,
            "low": min(row.rates),
            "high": max(row.rates),
            "samples": len(row.rates),
            "compile seconds": row.median("compile_seconds"),
            "busy cores": row.largest("cores"),
            "cores busy with others": row.largest("others"),
        }
    )


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Reports compile time, and samples of simulations or playouts per second.

    Args:
      job: the fields of a `Config`, and `task`, a key of `TASKS`.
      report: takes the numbers as keywords.
    """
    mr_x, whole = TASKS[job["task"]]
    run, count = _program(job, mr_x, whole)
    clock = Clock()
    jax.block_until_ready(run(0))
    report(compile_seconds=round(clock.seconds(), 3))
    report(samples=sample_searches(lambda number: run(number + 1), count, job)[1])


def _program(job, mr_x, whole):
    """A function of a number that searches or plays all games, and how much work that is."""
    game, batch = make(job["game"]), job["batch"]
    agent = matches.make_pimbot(game, pimbot.PimBot(simulations=job["simulations"]))
    deal = jax.jit(jax.vmap(functools.partial(matches.deal, game)))
    states = deal(jax.random.split(jax.random.key(0), batch))
    root, possible = from_state(states.state), states.possible.T
    if not mr_x:
        root = root.replace(turn=jnp.ones_like(root.turn))

    def search(number):
        keys = jax.random.split(jax.random.key(number), batch)
        settings = agent.settings
        return pimbot.search(
            agent.tables, root, possible, keys, settings=settings, mr_x_searches=mr_x
        )

    if mr_x:
        root = root.replace(possible=station_sets.pack(possible))
    epsilon = agent.settings.epsilon_mr_x if mr_x else agent.settings.epsilon_detectives
    play_once = jax.jit(lambda *given: playouts.play(*given).position.result)

    def play(number):
        keys = jax.random.split(jax.random.key(number), _PLAYOUTS)
        seeds = [jax.random.bits(key, (batch,)) for key in keys]
        return [play_once(agent.tables, root, seed, jnp.float32(epsilon)) for seed in seeds]

    return (search, batch * job["simulations"]) if whole else (play, batch * _PLAYOUTS)


BENCHMARK = Benchmark(
    name="pimbot",
    presets=PRESETS,
    check=lambda config: check_names("task", config.tasks, TASKS),
    measure_all=lambda config, kept: [_measured(config, task) for task in config.tasks],
    lines=lambda config, rows: map(_details, rows),
    numbers=numbers,
    measure=lambda config: (
        f"simulations and playouts per second on one core, {config.batch} games of {config.game}"
        " side by side: median of all samples"
    ),
    conditions=lambda config, rows: {"cores_busy_with_others": cores_busy_with_others(rows)},
    shown=_shown,
)
