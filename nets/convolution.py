"""Convolutions that are fast on CPUs, with gradients, and products in bfloat16.

CPUs. XLA:CPU hands a convolution to Eigen if its axes are in the order of `_by_library`. Gradients
by JAX have other orders, which XLA mends in the outermost part of a program alone. In a loop, such
as that over the updates of a training step, they take many times as long. Here gradients are
convolutions of transposed arrays, whose axes are in the same order.

With factors of bfloat16 Eigen is no faster, but matrix products are, several times where the
processor has matrix units for them (`nets.products`). So there a convolution is one product: its
left factor has the neighbours in a row of a field side by side, its right one the kernel's rows,
and what the rows of the kernel give is added up afterwards. Other processors round the factors, and
convolve them as those of float32.

Accelerators have fast convolutions of both precisions, and gradients are JAX's.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from nets import products

_AXES = ("NHWC", "HWIO", "NHWC")  # of inputs, kernel and outputs


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(
    inputs: Float[Array, "N H W I"], kernel: Float[Array, "h w I O"], dtype: str = "float32"
) -> Float[Array, "N H W O"]:
    """A convolution with stride 1, padded with zeros to outputs of the size of the inputs.

    Args:
      inputs: a batch of boards.
      kernel: its height and width are odd.
      dtype: of the factors, "float32" or "bfloat16", in gradients too. Sums are float32 on CPUs,
        and rounded to `dtype` on accelerators.
    """
    on_cpu = _by_product if _has_units(dtype) else functools.partial(_on_cpu, dtype)
    return jax.lax.platform_dependent(
        inputs, kernel, cpu=on_cpu, default=functools.partial(_on_accelerator, dtype)
    )


def _forward(inputs, kernel, dtype):
    return convolve(inputs, kernel, dtype), (inputs, kernel)


def _backward(dtype, kept, change):
    def on_cpu(inputs, kernel, change):
        back = convolve(change, jnp.flip(kernel, (0, 1)).swapaxes(2, 3), dtype)
        if _has_units(dtype):
            return back, _kernel_by_product(inputs, change, kernel.shape)
        return back, _kernel_by_library(*_factors(dtype, inputs, change), kernel.shape)

    def on_accelerator(inputs, kernel, change):
        return jax.vjp(functools.partial(_on_accelerator, dtype), inputs, kernel)[1](change)

    return jax.lax.platform_dependent(*kept, change, cpu=on_cpu, default=on_accelerator)


convolve.defvjp(_forward, _backward)


def _has_units(dtype):
    """Whether products of matrices are faster than convolutions."""
    return dtype == "bfloat16" and products.cpu_has_units()


def _factors(dtype, *numbers):
    return numbers if dtype == "float32" else map(products.rounded, numbers)


def _on_cpu(dtype, inputs, kernel):
    return _by_library(*_factors(dtype, inputs, kernel))


def _on_accelerator(dtype, inputs, kernel):
    """The library's convolution, with JAX's gradient, which must have sums of the factors' type."""
    outputs = _by_library(inputs.astype(dtype), kernel.astype(dtype))
    return outputs.astype(inputs.dtype)


def _by_library(inputs, kernel, padding="SAME"):
    return jax.lax.conv_general_dilated(inputs, kernel, (1, 1), padding, dimension_numbers=_AXES)


def _kernel_by_library(inputs, change, shape):
    # Each channel of the inputs is a board of its own, whose channels are the batch.
    boards, weights = inputs.transpose(3, 1, 2, 0), change.transpose(1, 2, 0, 3)
    edges = [(size // 2, size // 2) for size in shape[:2]]
    return _by_library(boards, weights, edges).transpose(1, 2, 0, 3)


def _by_product(inputs, kernel):
    height, width, depth, channels = kernel.shape
    rows = kernel.astype(jnp.bfloat16).reshape(height, width * depth, channels)
    found = _product(_neighbours(inputs, width), rows.swapaxes(0, 1).reshape(-1, height * channels))
    found = found.reshape(*inputs.shape[:3], height, channels)
    return sum(_moved(found[:, :, :, row], row - height // 2) for row in range(height))


def _kernel_by_product(inputs, change, shape):
    """The product of all changes, moved for each row of the kernel, with the neighbours.

    The left factor has to be in memory as it stands in the product: XLA multiplies transposed ones
    in float32. It can't fold the transposition into the product here, for it comes before others.
    """
    height, width, depth, channels = shape
    change = _bits(change).transpose(3, 0, 1, 2)
    edge = height // 2
    padded = jnp.pad(change, ((0, 0), (0, 0), (edge, edge), (0, 0)))
    moved = [
        padded[:, :, height - 1 - row : height - 1 - row + change.shape[2]] for row in range(height)
    ]
    left = _numbers(jnp.concatenate(moved)).reshape(height * channels, -1)
    found = _product(left, _neighbours(inputs, width))
    return found.reshape(height, channels, width, depth).transpose(0, 2, 3, 1)


def _neighbours(inputs, width):
    """Every field's neighbours in its row, `[N * H * W, w * I]` in bfloat16, 0 beyond the edges."""
    bits, length, edge = _bits(inputs), inputs.shape[2], width // 2
    padded = jnp.pad(bits, ((0, 0), (0, 0), (edge, edge), (0, 0)))
    near = [padded[:, :, begin : begin + length] for begin in range(width)]
    return _numbers(jnp.concatenate(near, -1)).reshape(-1, width * inputs.shape[3])


def _product(left, right):
    return jnp.dot(left, right, preferred_element_type=jnp.float32)


def _moved(rows, by):
    """`rows[:, row + by]`, 0 beyond the edges, for boards `[N, H, W, O]`."""
    if by == 0:
        return rows
    beyond = jnp.zeros_like(rows[:, : abs(by)])
    parts = (rows[:, by:], beyond) if by > 0 else (beyond, rows[:, :by])
    return jnp.concatenate(parts, axis=1)


# XLA:CPU copies numbers of bfloat16 one by one, but their bits as blocks.
def _bits(numbers):
    return jax.lax.bitcast_convert_type(numbers.astype(jnp.bfloat16), jnp.uint16)


def _numbers(bits):
    return jax.lax.bitcast_convert_type(bits, jnp.bfloat16)


def in_layer(inputs: Array, kernel: Array, *_: Any, **__: Any) -> Array:
    """`convolve` for the argument `conv_general_dilated` of `nnx.Conv`, whose layers have stride 1
    and the padding "SAME"; other arguments are ignored."""
    return convolve(inputs, kernel)


def in_bfloat16_layer(inputs: Array, kernel: Array, *_: Any, **__: Any) -> Array:
    """As `in_layer`, with factors of bfloat16."""
    return convolve(inputs, kernel, "bfloat16")
