"""Loops under `vmap`: the batch behind all other axes instead of before them (`batch_last`), and
one bound for loops whose lengths differ (`widest`).

The sweeps gather rows by index. With the batch last, one look-up of an index reads a whole row of
solves that lie side by side; with the batch first, as `jax.vmap` puts it, every solve looks up the
index again and the loop's arrays are transposed to and fro.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from solvers.public_tree import PublicTree


def batch_last(function: Callable) -> Callable:
    """`function(tree, state, count) -> state`, which carries trailing axes, with a `vmap` that uses
    them.

    Two cases fall back to the ordinary `vmap`: trees batched in their index tables (different
    games), and trees batched outside of another `vmap`, whose axis they may lack.

    Raises:
      ValueError: when `count`, which all solves of a batch share, is batched.
    """
    wrapped = jax.custom_batching.custom_vmap(function)

    @wrapped.def_vmap
    def rule(size, batched, tree, state, count):
        tree_batched, state_batched, count_batched = batched
        if count_batched:
            raise ValueError("num_iterations must be the same for all solves of a batch")
        nested = state.step.ndim > state_batched.step  # of solves that are a batch already
        if _different_games(tree, tree_batched) or (nested and any(jax.tree.leaves(tree_batched))):
            axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, batched)
            result = jax.vmap(function, in_axes=tuple(axes), axis_size=size)(tree, state, count)
        else:
            tree = jax.tree.map(lambda x, b: jnp.moveaxis(x, 0, -1) if b else x, tree, tree_batched)
            state = jax.tree.map(lambda x, b: _last(x, b, size), state, state_batched)
            result = wrapped(tree, state, count)
            result = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), result)
        return result, jax.tree.map(lambda _: True, result)

    return wrapped


def _different_games(tree: PublicTree, batched: PublicTree) -> bool:
    leaves = zip(jax.tree.leaves(tree), jax.tree.leaves(batched), strict=True)
    return any(is_batched and jnp.issubdtype(x.dtype, jnp.integer) for x, is_batched in leaves)


def _last(x: Array, batched: bool, size: int) -> Array:
    return jnp.moveaxis(x, 0, -1) if batched else jnp.broadcast_to(x[..., None], (*x.shape, size))


@jax.custom_batching.custom_vmap
def widest(count: Int[Array, ""]) -> Int[Array, ""]:
    """The largest count in the batch.

    As a bound it lets `vmap` leave a loop as it is, instead of choosing between old and new for
    everything that the loop carries.
    """
    return count


@widest.def_vmap
def _widest_of_batch(axis_size, in_batched, count):
    return widest(jnp.max(count)), False
