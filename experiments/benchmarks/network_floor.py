"""The floor of a search: the matrix products of its network calls, at the machine's own rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from experiments.benchmarks import Clock

_LEAST_ROWS = 1024  # of the matrices that the rate is measured with


def layers(params: Any) -> list[tuple[int, int]]:
    """Inputs and outputs of all linear layers in a network's parameters."""
    return [leaf.shape for leaf in jax.tree.leaves(params) if leaf.ndim == 2]


def operations(shapes: Sequence[tuple[int, int]]) -> int:
    """Floating-point operations of one row of inputs: a multiplication and an addition each."""
    return sum(2 * num_inputs * num_outputs for num_inputs, num_outputs in shapes)


def matrix_rate(shapes: Sequence[tuple[int, int]], *, rows: int, seconds: float) -> float:
    """Operations per second of products with matrices of these shapes, one after the other."""
    rows = max(rows, _LEAST_ROWS)
    spent = {shape: _product_seconds(*shape, rows, seconds) for shape in {*shapes}}
    return rows * operations(shapes) / sum(spent[shape] for shape in shapes)


def _product_seconds(num_inputs, num_outputs, rows, seconds):
    """Seconds of one product of `[rows, inputs]` with `[inputs, outputs]`; back again for two."""
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (rows, num_inputs))
    there = jax.random.normal(keys[1], (num_inputs, num_outputs)) / num_inputs**0.5
    back = jax.random.normal(keys[2], (num_outputs, num_inputs)) / num_outputs**0.5
    run = jax.jit(lambda x, count: jax.lax.fori_loop(0, count, lambda _, x: x @ there @ back, x))
    return seconds_per_turn(lambda count: run(x, count), seconds=seconds) / 2


def seconds_per_turn(
    run: Callable[[Any], Any], *, seconds: float, most: int | None = None
) -> float:
    """Seconds of each of the turns that `run(count)` makes, what it costs to make none apart.

    The least of three measurements, each of `seconds` or about half of that, or of `most` turns.
    """

    def measured(count):
        clock = Clock()
        jax.block_until_ready(run(jnp.int32(count)))
        return clock.seconds()

    measured(0)  # compiles

    def least(count):
        return min(measured(count) for _ in range(3))

    none, count = least(0), 1
    while (spent := least(count) - none) < seconds / 2 and (most is None or 2 * count <= most):
        count *= 2
    return spent / count
