"""Convolutions whose gradients are fast in loops on CPUs.

XLA:CPU hands a convolution to Eigen if its axes are in the order of `convolve`. Gradients by JAX
have other orders, which XLA mends in the outermost part of a program alone. In a loop, such as that
over the updates of a training step, they take many times as long. Here gradients are convolutions
of transposed arrays, whose axes are in the same order.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_AXES = ("NHWC", "HWIO", "NHWC")  # of inputs, kernel and outputs


@jax.custom_vjp
def convolve(
    inputs: Float[Array, "N H W I"], kernel: Float[Array, "h w I O"]
) -> Float[Array, "N H W O"]:
    """A convolution with stride 1, padded with zeros to outputs of the size of the inputs.

    Args:
      inputs: a batch of boards.
      kernel: its height and width are odd.
    """
    return _convolved(inputs, kernel, "SAME")


def _forward(inputs, kernel):
    return convolve(inputs, kernel), (inputs, kernel)


def _backward(kept, change):
    inputs, kernel = kept
    back = convolve(change, jnp.flip(kernel, (0, 1)).swapaxes(2, 3))
    # Each channel of the inputs is a board of its own, whose channels are the batch.
    boards, weights = inputs.transpose(3, 1, 2, 0), change.transpose(1, 2, 0, 3)
    edges = [(size // 2, size // 2) for size in kernel.shape[:2]]
    return back, _convolved(boards, weights, edges).transpose(1, 2, 0, 3)


convolve.defvjp(_forward, _backward)


def _convolved(inputs, kernel, padding):
    return jax.lax.conv_general_dilated(inputs, kernel, (1, 1), padding, dimension_numbers=_AXES)


def in_layer(inputs: Array, kernel: Array, *_: Any, **__: Any) -> Array:
    """`convolve` for the argument `conv_general_dilated` of `nnx.Conv`, whose layers have stride 1
    and the padding "SAME"; other arguments are not looked at."""
    return convolve(inputs, kernel)
