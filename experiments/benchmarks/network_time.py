"""The floor of a search: the products of its network calls, at the machine's own rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from experiments.benchmarks.measurements import seconds_per_turn

_LEAST_ROWS = 1024  # of inputs, when the rate is measured
_PLANES = ("NHWC", "HWIO", "NHWC")  # the axes of images, kernels and results


class Layer(NamedTuple):
    """A linear layer, or a convolution on a board whose edges are padded with zeros."""

    num_inputs: int
    num_outputs: int
    kernel: tuple[int, int] = (1, 1)
    board: tuple[int, int] | None = None  # height and width; None: the layer is linear

    @property
    def operations(self) -> int:
        """Floating-point operations for one input: a multiplication and an addition for each
        weight, at each place of the board, padding included."""
        (height, width), (rows, columns) = self.board or (1, 1), self.kernel
        return 2 * height * width * rows * columns * self.num_inputs * self.num_outputs


def layers(params: Any, board: Sequence[int] | None = None) -> list[Layer]:
    """All linear layers and convolutions in a network's parameters.

    Args:
      params: of `nnx.split(network)`; kernels are arrays with two or four axes.
      board: height and width of the board on which the convolutions are computed; what follows them
        is ignored.

    Raises:
      ValueError: there are convolutions, and `board` is not given.
    """
    found = []
    for leaf in jax.tree.leaves(params):
        if leaf.ndim == 2:
            found.append(Layer(*leaf.shape))
        elif leaf.ndim == 4:
            if board is None:
                raise ValueError(f"board={board} must be given, as there are convolutions")
            kernel, channels = leaf.shape[:2], leaf.shape[2:]
            found.append(Layer(*channels, kernel=kernel, board=(board[0], board[1])))
    return found


def operations(found: Sequence[Layer]) -> int:
    """Floating-point operations of all layers for one input."""
    return sum(layer.operations for layer in found)


def matrix_rate(found: Sequence[Layer], *, rows: int, seconds: float) -> float:
    """Floating-point operations per second of these layers in turn.

    Args:
      found: the layers.
      rows: inputs side by side; at least 1024 are used.
      seconds: how long each kind of layer is timed for.
    """
    rows = max(rows, _LEAST_ROWS)
    spent = {layer: _layer_seconds(layer, rows, seconds) for layer in {*found}}
    return rows * operations(found) / sum(spent[layer] for layer in found)


def _layer_seconds(layer, rows, seconds):
    """Seconds of a layer on `rows` inputs: the mean of one such layer and of one with inputs and
    outputs exchanged, which leads back to the first shape."""
    keys = jax.random.split(jax.random.key(0), 3)
    there, back = (layer.num_inputs, layer.num_outputs), (layer.num_outputs, layer.num_inputs)
    kernel = () if layer.board is None else layer.kernel
    x = jax.random.normal(keys[0], (rows, *(layer.board or ()), layer.num_inputs))
    scale = (layer.kernel[0] * layer.kernel[1]) ** 0.5
    forward, backward = (
        jax.random.normal(key, (*kernel, *shape)) / (scale * shape[0] ** 0.5)
        for key, shape in zip(keys[1:], (there, back), strict=True)
    )

    def apply(x, weights):
        if layer.board is None:
            return x @ weights
        return jax.lax.conv_general_dilated(x, weights, (1, 1), "SAME", dimension_numbers=_PLANES)

    @jax.jit
    def run(x, count):
        return jax.lax.fori_loop(0, count, lambda _, x: apply(apply(x, forward), backward), x)

    return seconds_per_turn(lambda count: run(x, count), seconds=seconds) / 2
