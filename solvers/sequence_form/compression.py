"""Compressed state of a solve: whole numbers of 16 bits between iterations, half of float32.

Each row (the hands of one action of a decision; without hands, one action of a group of decisions)
has a unit, chosen so that its largest number becomes 32,766, as in postflop-solver
(https://github.com/b-inary/postflop-solver). If numbers were rounded to the nearest unit, small
changes of large numbers would always be lost, and averages and regrets would stop moving. So the
share that is rounded up changes from iteration to iteration by the golden ratio, whose multiples
fill the unit evenly (Weyl 1916), and the errors cancel over time.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgames.arrays import prepend_axes
from jaxgames.core import record
from jaxgames.registry import unknown

STORAGES = ("full", "int16")
_LARGEST = 2**15 - 2  # still fits when it is rounded up
_GOLDEN = 2654435769  # 2**32 divided by the golden ratio


@record
class Compressed:
    """Rows of whole numbers, each row with its unit."""

    numbers: Array  # [..., n, ...] int16
    unit: Array  # [..., 1, ...]


def check_storage(storage: str) -> None:
    """Checks the name of a storage.

    Raises:
      ValueError: it is not one of `STORAGES`.
    """
    if storage not in STORAGES:
        raise ValueError(unknown("storage", storage, STORAGES))


def compress(values: Float[Array, "..."], *, axis: int, step: Int[Array, "..."]) -> Compressed:
    """The values as whole numbers of a unit for each row.

    Args:
      values: what to compress.
      axis: the axis along which a row lies.
      step: number of the iteration, which decides how much is rounded up; its axes are the last
        axes of `values`.
    """
    largest = jnp.max(jnp.abs(values), axis=axis, keepdims=True)
    invertible = largest >= jnp.finfo(values.dtype).tiny  # below, the reciprocal is not finite
    scale = _LARGEST / jnp.where(invertible, largest, _LARGEST)
    rounding = (step.astype(jnp.uint32) * jnp.uint32(_GOLDEN) >> 8).astype(values.dtype) / 2**24
    numbers = jnp.floor(values * scale + prepend_axes(rounding, values)).astype(jnp.int16)
    return Compressed(numbers=numbers, unit=largest / _LARGEST)


def decompress(values: Compressed) -> Float[Array, "..."]:
    """The values, with errors of less than a unit."""
    return values.numbers.astype(values.unit.dtype) * values.unit
