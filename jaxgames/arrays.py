"""Small functions of arrays that games, networks, solvers and training share."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, PyTree, Shaped

LONG = 32  # axes longer than this are not unrolled


def on_device(
    values: np.ndarray | np.generic | int, dtype: np.dtype | type | str | None = None
) -> Array:
    """Numbers of the host as an array of JAX, in a type that JAX has.

    `jnp.asarray` would compile a small program for each new shape, which takes longer than all
    other work on the tables of a game.
    """
    return jax.device_put(np.asarray(values, dtype))


def append_axes(values: Array, like: Array) -> Array:
    """`values` with axes of length 1 appended until it has as many as `like`."""
    return values.reshape(values.shape + (1,) * (like.ndim - values.ndim))


def prepend_axes(values: Array, like: Array) -> Array:
    """`values` with axes of length 1 prepended until it has as many as `like`."""
    return values.reshape((1,) * (like.ndim - values.ndim) + values.shape)


def sum_actions(values: Num[Array, "A ..."], *, longest: int = LONG) -> Num[Array, "..."]:
    """Sum over the leading axis; those up to `longest` are unrolled, which is several times faster
    than a reduction on CPU."""
    if len(values) > longest:
        return jnp.sum(values, axis=0, dtype=values.dtype)
    return functools.reduce(operator.add, [values[a] for a in range(values.shape[0])])


def max_actions(values: Num[Array, "A ..."]) -> Num[Array, "..."]:
    """Maximum over the leading axis, unrolled where it is short."""
    if len(values) > LONG:
        return jnp.max(values, axis=0)
    return functools.reduce(jnp.maximum, [values[a] for a in range(values.shape[0])])


def select_entry(
    values: Sequence[Array] | Shaped[Array, "A ..."], number: Int[Array, "..."]
) -> Shaped[Array, "..."]:
    """Returns `values[number]` by A comparisons, which on CPU cost less than a gather.

    With axes in common with `number`, each of its entries selects at its own place.
    """
    result = jnp.broadcast_to(values[0], jnp.broadcast_shapes(values[0].shape, number.shape))
    for index in range(1, len(values)):
        result = jnp.where(number == index, values[index], result)
    return result


def safe_divide(numerator: Array, denominator: Array) -> Array:
    """The quotient; the numerator itself where the denominator is not positive.

    A sum of non-negative weights divided by their total is then 0 where there are no weights, and
    finite everywhere, as are its derivatives.
    """
    return numerator / jnp.where(denominator > 0, denominator, 1)


def at(
    tree: PyTree,
    index: Int[Array | np.ndarray, "..."] | Bool[Array | np.ndarray, "..."] | slice | tuple | int,
) -> PyTree:
    """The entry `index` along the leading axis of every array of a pytree.

    Or its entries, if `index` is an array of numbers, a mask or a slice; a tuple has an index for
    each of several leading axes.
    """
    return jax.tree.map(lambda x: x[index], tree)


def merge_axes(tree: PyTree) -> PyTree:
    """The first two axes of every array of a pytree as one."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def choose(condition: Bool[Array, "..."], these: PyTree, those: PyTree) -> PyTree:
    """`these` where the condition, broadcast to each array, holds, else `those`."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), these, those)


def choose_rows(mask: Bool[Array, " B"], these: PyTree, those: PyTree) -> PyTree:
    """In arrays `[B, ...]`, the rows of `these` where the mask holds, else those of `those`."""
    return jax.tree.map(lambda x, y: jnp.where(append_axes(mask, x), x, y), these, those)


def index_batches(count: int, size: int, small: int = 0) -> Iterator[Int[np.ndarray, " _"]]:
    """Yields the numbers 0 to `count - 1` in batches of one size, for which programs compile once.

    Args:
      count: how many numbers.
      size: of a batch; the last one is filled with `count - 1`.
      small: the size of the last batch instead, where that is enough for it; at most `size`.
    """
    for begin in range(0, count, size):
        length = small if count - begin <= small else size
        yield np.minimum(np.arange(begin, begin + length), count - 1)


def masked_softmax(
    logits: Float[Array, "*n"], legal: Bool[Array, "*n"], *, axis: int = 0
) -> Float[Array, "*n"]:
    """Softmax over the legal actions, which lie along `axis`; 0 where none is legal."""
    highest = jnp.max(jnp.where(legal, logits, -jnp.inf), axis=axis, keepdims=True)
    highest = jnp.where(jnp.isfinite(highest), highest, 0)
    weights = jnp.where(legal, jnp.exp(jnp.where(legal, logits - highest, 0)), 0)
    return safe_divide(weights, jnp.sum(weights, axis=axis, keepdims=True))


def masked_log_softmax(
    logits: Float[Array, "*n"], legal: Bool[Array, "*n"], *, axis: int = 0
) -> Float[Array, "*n"]:
    """Logarithm of the softmax over the legal actions, which lie along `axis`; 0 at the others.

    Differentiable everywhere; what is not a number stays visible.
    """
    highest = jnp.max(jnp.where(legal, logits, -jnp.inf), axis=axis, keepdims=True)
    highest = jax.lax.stop_gradient(jnp.where(highest > -jnp.inf, highest, 0))
    shifted = jnp.where(legal, logits - highest, 0)
    total = jnp.sum(jnp.where(legal, jnp.exp(shifted), 0), axis=axis, keepdims=True)
    return jnp.where(legal, shifted - jnp.log(jnp.where(total == 0, 1, total)), 0)


def written(arrays: PyTree) -> PyTree:
    """The arrays, computed once and kept: XLA would compute them anew for each reader."""
    return jax.lax.optimization_barrier(arrays)
