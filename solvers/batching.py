"""Loops under `vmap`: the batch behind all other axes instead of before them (`batch_last`), and
one bound for loops whose lengths differ (`widest`).

The sweeps gather rows by index. With the batch last, one look-up of an index reads a whole row of
solves that lie side by side; with the batch first, as `jax.vmap` puts it, every solve looks up the
index again and the loop's arrays are transposed to and fro. On CPUs so many solves run at once as
the caches hold, the others after them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from solvers.sequence_form import SequenceForm

_CPU_BYTES = 2**24  # of states that are run at once
_VECTOR = 16  # solves are run at once in multiples of this


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
            state = jax.tree.map(
                lambda x, b: x if b else jnp.broadcast_to(x, (size, *x.shape)), state, state_batched
            )
            result = _in_parts(wrapped, tree, tree_batched, state, count)
        return result, jax.tree.map(lambda _: True, result)

    return wrapped


def _different_games(tree: SequenceForm, batched: SequenceForm) -> bool:
    leaves = zip(jax.tree.leaves(tree), jax.tree.leaves(batched), strict=True)
    return any(is_batched and jnp.issubdtype(x.dtype, jnp.integer) for x, is_batched in leaves)


def _in_parts(function, tree, tree_batched, state, count):
    """The batch in parts, one after the other; in each, the batch behind all other axes."""
    leaves, structure = jax.tree.flatten(tree)
    batched = jax.tree.leaves(tree_batched)

    def part(given):
        mine, state = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), given)
        solves = structure.unflatten([mine.get(k, leaf) for k, leaf in enumerate(leaves)])
        found = function(solves, state, count)
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), found)

    given = {k: leaf for k, leaf in enumerate(leaves) if batched[k]}, state
    size = len(state.step)
    num_bytes = sum(x.nbytes for x in jax.tree.leaves(given))
    width = max(1, min(size, math.floor(size * _part_bytes() / num_bytes)))
    width -= width % _VECTOR if size > width > _VECTOR else 0
    if width == size:
        return part(given)

    def cut(x):  # the last part is filled up with the last solve
        more = jnp.broadcast_to(x[-1:], (-size % width, *x.shape[1:]))
        return jnp.concatenate([x, more]).reshape(-1, width, *x.shape[1:])

    found = jax.lax.map(part, jax.tree.map(cut, given))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:size], found)


def _part_bytes():
    """Solves side by side are to stay in the caches of a CPU; accelerators want all there are."""
    return _CPU_BYTES if jax.default_backend() == "cpu" else 2**62


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
