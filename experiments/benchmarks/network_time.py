"""The floor of a search: the matrix products of its network calls, at the machine's own rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from experiments.benchmarks.measurements import seconds_per_turn

_LEAST_ROWS = 1024  # of inputs, when the rate is measured


def layers(params: Any) -> list[tuple[int, int]]:
    """Inputs and outputs of all linear layers in a network's parameters."""
    return [leaf.shape for leaf in jax.tree.leaves(params) if leaf.ndim == 2]


def operations(shapes: Sequence[tuple[int, int]]) -> int:
    """Floating-point operations per row of inputs: a multiplication and an addition per weight."""
    return sum(2 * num_inputs * num_outputs for num_inputs, num_outputs in shapes)


def matrix_rate(shapes: Sequence[tuple[int, int]], *, rows: int, seconds: float) -> float:
    """Floating-point operations per second of products with matrices of these shapes in turn.

    Args:
      shapes: inputs and outputs of every layer.
      rows: rows of inputs; at least 1024 are used.
      seconds: how long the products with each shape are timed for.
    """
    rows = max(rows, _LEAST_ROWS)
    spent = {shape: _product_seconds(*shape, rows, seconds) for shape in {*shapes}}
    return rows * operations(shapes) / sum(spent[shape] for shape in shapes)


def _product_seconds(num_inputs, num_outputs, rows, seconds):
    """Seconds of a product of `[rows, inputs]` with `[inputs, outputs]`: the mean of one such
    product and of one with `[outputs, inputs]`, which leads back to the first shape."""
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (rows, num_inputs))
    forward = jax.random.normal(keys[1], (num_inputs, num_outputs)) / num_inputs**0.5
    backward = jax.random.normal(keys[2], (num_outputs, num_inputs)) / num_outputs**0.5

    @jax.jit
    def run(x, count):
        return jax.lax.fori_loop(0, count, lambda _, x: x @ forward @ backward, x)

    return seconds_per_turn(lambda count: run(x, count), seconds=seconds) / 2
