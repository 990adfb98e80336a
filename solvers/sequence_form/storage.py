"""What a solve remembers, in half the bytes between iterations: whole numbers of 16 bits.

A row (the hands of an action of a decision; without hands, an action of a group of decisions) has a
unit, of which its largest number is 32,766, as in postflop-solver
(https://github.com/b-inary/postflop-solver). Small changes of large numbers would always be rounded
away, and averages and regrets stand still; so how much is rounded up changes from iteration to
iteration by the golden ratio, whose multiples fill the unit evenly (Weyl 1916), and errors cancel.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgames.arrays import prepend_axes
from jaxgames.core import record

STORAGES = ("full", "int16")
_LARGEST = 2**15 - 2  # rounded up it still fits
_GOLDEN = 2654435769  # 2**32 divided by the golden ratio


@record
class Compressed:
    """Rows of whole numbers of units."""

    numbers: Array  # [..., n, ...] int16
    unit: Array  # [..., 1, ...]


def check_storage(storage: str) -> None:
    """Refuses what is none.

    Raises:
      ValueError: there is no such storage.
    """
    if storage not in STORAGES:
        raise ValueError(f"storage={storage!r} must be one of {', '.join(STORAGES)}")


def compress(values: Float[Array, "..."], *, axis: int, step: Int[Array, "..."]) -> Compressed:
    """`values`, of which those along `axis` are a row; their errors cancel over many a `step`.

    Axes of `step` are the last of `values`.
    """
    largest = jnp.max(jnp.abs(values), axis=axis, keepdims=True)
    some = largest >= jnp.finfo(values.dtype).tiny  # a smaller one has no finite reciprocal
    scale = _LARGEST / jnp.where(some, largest, _LARGEST)
    up = (step.astype(jnp.uint32) * jnp.uint32(_GOLDEN) >> 8).astype(values.dtype) / 2**24
    numbers = jnp.floor(values * scale + prepend_axes(up, values)).astype(jnp.int16)
    return Compressed(numbers=numbers, unit=largest / _LARGEST)


def decompress(values: Compressed) -> Float[Array, "..."]:
    """The values, up to a unit."""
    return values.numbers.astype(values.unit.dtype) * values.unit
