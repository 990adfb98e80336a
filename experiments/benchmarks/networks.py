"""Torsos of networks with factors of float32 and of bfloat16, on one core or on an accelerator.

Evaluations and gradients of a batch are timed, each as a loop in one program as in searches and in
training, where the parameters do not change from one turn to the next. How many operations these
have is counted from the sizes of the layers. How many a product of two large matrices makes per
second in the same precision is measured beside them, as the most that there can be.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from rich.table import Table

from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.config_checks import check_names
from experiments.benchmarks.measurements import sample_searches
from experiments.benchmarks.network_time import layers, operations
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
from nets.torsos import new_torso

EXACT, ROUNDED = DTYPES = ("float32", "bfloat16")
EVALUATIONS, GRADIENTS = KINDS = ("evaluations", "gradients")
_MOST_ROUNDING = 0.05  # of the outputs, in their norm
_MATRIX = 1024  # rows and columns of the matrices of the product


@dataclasses.dataclass(frozen=True, kw_only=True)
class Torso:
    """The sizes of a torso, and of the batches that it is measured with."""

    kind: str
    num_inputs: int
    width: int
    depth: int
    board: tuple[int, int, int] | None = None
    evaluated: int  # positions side by side in evaluations
    trained: int  # in gradients

    def build(self, dtype: str) -> nnx.Module:
        """The torso with the same parameters in either precision."""
        return new_torso(
            self.kind,
            self.num_inputs,
            width=self.width,
            depth=self.depth,
            board=self.board,
            rngs=nnx.Rngs(0),
            dtype=dtype,
        )


TASKS = {
    "small": Torso(
        kind="convolutional",
        num_inputs=18,
        width=4,
        depth=1,
        board=(3, 3, 2),
        evaluated=4,
        trained=4,
    ),
    "Connect Four, 5 blocks of 64": Torso(
        kind="convolutional",
        num_inputs=84,
        width=64,
        depth=5,
        board=(6, 7, 2),
        evaluated=32,
        trained=128,
    ),
    "9x9 Go, 5 blocks of 64": Torso(
        kind="convolutional",
        num_inputs=1377,
        width=64,
        depth=5,
        board=(9, 9, 17),
        evaluated=32,
        trained=128,
    ),
    "London, 6 layers of 512": Torso(
        kind="mlp", num_inputs=1223, width=512, depth=6, evaluated=32, trained=256
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    tasks: tuple[str, ...]
    turns: int = 10  # of a sample
    repeats: int = 7  # samples
    sampling_seconds: float = 60.0  # after which two samples are enough
    time_limit: float = 600.0  # in seconds, for one process


PRESETS = {
    "smoke": Config(tasks=("small",), turns=2, repeats=2),
    "cpu": Config(tasks=tuple(TASKS)[1:]),
}


def _measured(config, task, dtype) -> Iterator[Row]:
    """Rows of one torso in one precision."""
    with status(f"benchmark networks: {task}, {dtype}"):
        job = dataclasses.asdict(config) | {"task": task, "dtype": dtype}
        run = measure_in_process(__name__, job, time_limit=config.time_limit, cores=1)
    if run["failure"]:
        raise ValueError(f"{task}, {dtype}: {run['failure']}")
    if not run["rounding"] < _MOST_ROUNDING:
        raise ValueError(
            f"{task}: outputs of {dtype} are {run['rounding']:.2g} of their norm away from those of"
            f" {EXACT}, must be less than {_MOST_ROUNDING}"
        )
    for kind in KINDS:
        own = run | {"samples": run[kind]}
        yield Row(task=task, program=f"{kind}, {dtype}", runs=[own])


def numbers(config: Config, rows: Sequence[Row]) -> Iterator[results.Number]:
    """Speeds, and how many times as fast bfloat16 is."""
    yield from (speed(row, "positions/s") for row in rows)
    found = {(row.task, row.program): row for row in rows}
    for task, kind in itertools.product(dict.fromkeys(row.task for row in rows), KINDS):
        exact, fast = (found[task, f"{kind}, {dtype}"] for dtype in DTYPES)
        yield speed_ratio(f"{kind}, {ROUNDED} / {EXACT}:{task}", fast, exact, "positions/s")
        if kind == EVALUATIONS:
            yield results.Number(
                name=f"rounding, {ROUNDED}:{task}",
                value=fast.median("rounding"),
                unit="of the norm of the outputs",
            )


def _operations(row):
    """Billions of operations per second, and the share of the product's. A gradient has products
    for the outputs, for the kernels and for the inputs of layers."""
    count = row.median("operations") * (3 if row.program.startswith(GRADIENTS) else 1)
    return row.rate * count / 1e9, row.rate * count / row.median("peak")


def _details(row) -> dict[str, Any]:
    """One line of the CSV."""
    rate, share = _operations(row)
    return rounded(
        {
            "task": row.task,
            "program": row.program,
            "positions/s": row.rate,
            "low": min(row.rates),
            "high": max(row.rates),
            "microseconds a position": 1e6 / row.rate,
            "billion operations/s": rate,
            "share of a large product's": share,
            "samples": len(row.rates),
            "cores busy with others": row.largest("others"),
        }
    )


def _shown(config, rows) -> Table:
    """The speeds for the terminal."""
    lines = []
    for row in rows:
        rate, share = _operations(row)
        lines.append(
            (
                row.task,
                row.program,
                results.text(1e6 / row.rate),
                results.text(rate),
                f"{share:.0%}",
            )
        )
    headings = ("torso", "", "us a position", "billion operations/s", "of a large product's")
    return text_table("Networks by the precision of factors", headings, lines, labels=2)


def operations_of(torso: nnx.Module) -> int:
    """Floating-point operations of a torso for one position."""
    return operations(layers(nnx.state(torso, nnx.Param), getattr(torso, "board", None)))


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Reports samples of evaluations and gradients, rounding, operations, and those of a product.

    Args:
      job: the fields of a `Config`, `task`, a key of `TASKS`, and `dtype`.
      report: takes the numbers as keywords.
    """
    devices.set_core_flags()  # compiled as for several cores, as the commands do
    task, dtype = TASKS[job["task"]], job["dtype"]
    graph, params = nnx.split(task.build(dtype))
    exact, _ = nnx.split(task.build(EXACT))
    turns = job["turns"]

    def outputs(graph, params, inputs):
        return nnx.merge(graph, params)(inputs)

    def loss(params, inputs):
        return jnp.mean(outputs(graph, params, inputs) ** 2)

    @jax.jit
    def evaluated(inputs):
        """The inputs of a turn have to do with the outputs before it, so that no turn is left
        out."""
        return jax.lax.fori_loop(
            0, turns, lambda _, x: x + 1e-6 * jnp.mean(outputs(graph, params, x)), inputs
        )

    @jax.jit
    def trained(inputs):
        def update(_, params):
            change = jax.grad(loss)(params, inputs)
            return jax.tree.map(lambda x, dx: x - 1e-6 * dx, params, change)

        return jax.lax.fori_loop(0, turns, update, params)

    for kind, run, batch in (
        (EVALUATIONS, evaluated, task.evaluated),
        (GRADIENTS, trained, task.trained),
    ):
        inputs = jax.random.uniform(jax.random.key(1), (batch, task.num_inputs))
        jax.block_until_ready(run(inputs))  # compiles
        report(**{kind: sample_searches(lambda _: run(inputs), batch * turns, job)[1]})  # noqa: B023
    found, expected = (
        jax.jit(functools.partial(outputs, g))(params, inputs) for g in (graph, exact)
    )
    report(rounding=float(jnp.linalg.norm(found - expected) / jnp.linalg.norm(expected)))
    report(operations=operations_of(task.build(dtype)), peak=_product_rate(dtype, job))


def _product_rate(dtype, job):
    """Operations per second of a product of square matrices with sums of float32."""
    matrix = jnp.ones((_MATRIX, _MATRIX), dtype)
    product = jax.jit(functools.partial(jnp.dot, preferred_element_type=jnp.float32))
    jax.block_until_ready(product(matrix, matrix))
    samples = sample_searches(
        lambda _: [product(matrix, matrix) for _ in range(job["turns"])], job["turns"], job
    )[1]
    return max(sample["rate"] for sample in samples) * 2 * _MATRIX**3


BENCHMARK = Benchmark(
    name="networks",
    presets=PRESETS,
    check=lambda config: check_names("task", config.tasks, TASKS),
    measure_all=lambda config, kept: [
        row for task in config.tasks for dtype in DTYPES for row in _measured(config, task, dtype)
    ],
    lines=lambda config, rows: map(_details, rows),
    numbers=numbers,
    measure=(
        "positions per second of torsos of networks on one core of a CPU, or on an accelerator,"
        " evaluated and with gradients of the parameters, by the precision of the factors: median"
        " of all samples"
    ),
    conditions=lambda config, rows: {
        "sizes": {task: dataclasses.asdict(TASKS[task]) for task in config.tasks},
        "cores_busy_with_others": cores_busy_with_others(rows),
    },
    shown=_shown,
)
