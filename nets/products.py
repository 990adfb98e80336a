"""Products whose factors are rounded to bfloat16, as fast as the device makes them.

Accelerators multiply matrices of bfloat16 many times as fast as those of float32, and so do CPUs
that have matrix units for them (Intel's AMX). On other CPUs XLA converts every factor to bfloat16
and back, which takes longer than a product of float32. There the factors are rounded, and stay
float32: products are those of bfloat16, but for the order of their sums.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

DTYPES = ("float32", "bfloat16")  # precisions that factors may have
_CPU = pathlib.Path("/proc/cpuinfo")


@functools.cache
def cpu_has_units() -> bool:
    """Whether this machine's CPU has matrix units for factors of bfloat16."""
    return _CPU.is_file() and " amx_bf16" in _CPU.read_text()


def rounded(numbers: Array) -> Array:
    """The numbers rounded to bfloat16, in the type that they have."""
    return jax.lax.reduce_precision(numbers, exponent_bits=8, mantissa_bits=7)


def dot_general(dtype: str) -> Callable[..., Array]:
    """`jax.lax.dot_general` of float32 by the precision of the factors, one of `DTYPES`; sums are
    float32. Its third argument is the dimension numbers; later ones are ignored."""
    return jax.lax.dot_general if dtype == "float32" else _bfloat16_dot_general


def dot(left: Float[Array, "*M K"], right: Float[Array, "K N"], dtype: str) -> Float[Array, "*M N"]:
    """The product of matrices of float32, or of a vector and a matrix, likewise."""
    axes = (((left.ndim - 1,), (0,)), ((), ()))
    return dot_general(dtype)(left, right, axes)


def _bfloat16_dot_general(left, right, axes, *_: Any, **__: Any) -> Array:
    return _product(left, right, axes)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(left, right, axes):
    on_cpu, on_accelerator = _ways(axes)
    return jax.lax.platform_dependent(left, right, cpu=on_cpu, default=on_accelerator)


def _backward(axes, factors, change):
    def gradients(way):
        return lambda left, right, change: jax.vjp(way, left, right)[1](change)

    on_cpu, on_accelerator = map(gradients, _ways(axes))
    return jax.lax.platform_dependent(*factors, change, cpu=on_cpu, default=on_accelerator)


_product.defvjp(lambda left, right, axes: (_product(left, right, axes), (left, right)), _backward)


def _ways(axes):
    """The product on CPUs, and on accelerators."""

    def by_units(left, right):
        factors = left.astype(jnp.bfloat16), right.astype(jnp.bfloat16)
        return jax.lax.dot_general(*factors, axes, preferred_element_type=jnp.float32)

    def in_float32(left, right):
        return jax.lax.dot_general(rounded(left), rounded(right), axes)

    return by_units if cpu_has_units() else in_float32, by_units
