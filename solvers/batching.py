"""Loops under `jax.vmap`: the batch as the last axis of all arrays (`batch_last`), and one bound
for loops of different lengths (`widest`).

The sweeps gather rows by index. With the batch last, one look-up of an index reads a whole row of
solves that lie side by side. With the batch first, as `jax.vmap` puts it, every solve looks the
index up again, and the loop's arrays are transposed to and fro. On CPUs only as many solves run at
once as the caches hold; the others follow in parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from jaxgames.arrays import merge_axes
from solvers.sequence_form import SequenceForm

_CPU_BYTES = 2**24  # of the states that run at once on a CPU
_VECTOR = 16  # solves run at once in multiples of this


def batch_last(function: Callable) -> Callable:
    """The same function, with a `jax.vmap` that puts the batch last.

    Two cases fall back to the ordinary `vmap`: sequence forms that are batched in their index
    tables (different games), and sequence forms that are batched outside of another `vmap`, whose
    axis they may lack.

    Args:
      function: `function(form, state, count) -> state`, which must carry trailing axes of all
        arrays along.

    Raises:
      ValueError: when called with a batched `count`, which all solves of a batch must share.
    """
    wrapped = jax.custom_batching.custom_vmap(function)

    @wrapped.def_vmap
    def rule(size, batched, form, state, count):
        form_batched, state_batched, count_batched = batched
        if count_batched:
            raise ValueError("num_iterations must be the same for all solves of a batch")
        nested = state.step.ndim > state_batched.step  # the solves are a batch already
        if _different_games(form, form_batched) or (nested and any(jax.tree.leaves(form_batched))):
            axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, batched)
            result = jax.vmap(function, in_axes=tuple(axes), axis_size=size)(form, state, count)
        else:
            state = jax.tree.map(
                lambda x, b: x if b else jnp.broadcast_to(x, (size, *x.shape)), state, state_batched
            )
            result = _in_parts(wrapped, form, form_batched, state, count)
        return result, jax.tree.map(lambda _: True, result)

    return wrapped


def _different_games(form: SequenceForm, batched: SequenceForm) -> bool:
    """Whether an index table differs from solve to solve, not only payoffs."""
    leaves = zip(jax.tree.leaves(form), jax.tree.leaves(batched), strict=True)
    return any(is_batched and jnp.issubdtype(x.dtype, jnp.integer) for x, is_batched in leaves)


def _in_parts(function, form, form_batched, state, count):
    """`function` for a batch, in parts one after the other; the batch is the last axis in each."""
    leaves, structure = jax.tree.flatten(form)
    batched = jax.tree.leaves(form_batched)

    def run_part(given):
        of_part, state = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), given)
        forms = structure.unflatten([of_part.get(k, leaf) for k, leaf in enumerate(leaves)])
        result = function(forms, state, count)
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), result)

    given = {k: leaf for k, leaf in enumerate(leaves) if batched[k]}, state
    size = len(state.step)
    num_bytes = sum(x.nbytes for x in jax.tree.leaves(given))
    width = max(1, min(size, math.floor(size * _part_bytes() / num_bytes)))
    width -= width % _VECTOR if size > width > _VECTOR else 0
    if width == size:
        return run_part(given)

    def in_parts(x):  # the last part is filled up with the last solve
        padding = jnp.broadcast_to(x[-1:], (-size % width, *x.shape[1:]))
        return jnp.concatenate([x, padding]).reshape(-1, width, *x.shape[1:])

    result = jax.lax.map(run_part, jax.tree.map(in_parts, given))
    return jax.tree.map(lambda x: x[:size], merge_axes(result))


def _part_bytes():
    """How many bytes of states to solve side by side: what a CPU's caches hold; all, elsewhere."""
    return _CPU_BYTES if jax.default_backend() == "cpu" else 2**62


@jax.custom_batching.custom_vmap
def widest(count: Int[Array, ""]) -> Int[Array, ""]:
    """The largest count in the batch.

    With this as its bound a loop needs no masks under `jax.vmap`: with a bound for each element of
    the batch, JAX would choose between old and new for everything that the loop carries.
    """
    return count


@widest.def_vmap
def _widest_of_batch(axis_size, in_batched, count):
    return widest(jnp.max(count)), False
