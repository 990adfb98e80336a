"""From buckets to groups of hands and back: what a group reads from the row of its bucket.

Accelerators take all groups at once. CPUs go from group to group: XLA would fuse gathers and sums
with what makes their rows, and compute a row anew for each group that reads it. Groups beyond the
first `used` have no hands: CPUs leave them out.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


def meet(
    rows: Float[Array, "B n T"],
    reach: Float[Array, "G T"],
    bucket: Int[Array, " G"],
    used: Int[Array, ""],
) -> Float[Array, "G n T"]:
    """Reaches of groups at n places: their reaches before, times the rows of their buckets."""

    def on_cpu(rows, reach, bucket, used):
        def visit(g, result):
            return _put(result, _at(rows, bucket[g]) * _at(reach, g)[:, None], g)

        nothing = jnp.zeros((len(bucket), *rows.shape[1:]), rows.dtype)
        return _over_groups(used, visit, nothing)

    def at_once(rows, reach, bucket, used):
        return rows[bucket] * reach[:, None]

    return jax.lax.platform_dependent(rows, reach, bucket, used, cpu=on_cpu, default=at_once)


def sums_and_values(
    worth: Float[Array, "G n T"],
    rows: Float[Array, "B n T"],
    values: Float[Array, "G T"],
    bucket: Int[Array, " G"],
    used: Int[Array, ""],
) -> tuple[Float[Array, "B n T"], Float[Array, "G T"]]:
    """Adds the winnings of groups at n places to sums by bucket and to the groups' values.

    Args:
      worth: of each group.
      rows: the factors of each bucket.
      values: so far.
      bucket: of each group.
      used: groups that have hands.

    Returns:
      Sums over the groups of each bucket, and the values with the factors times what is won.
    """

    def on_cpu(worth, rows, values, bucket, used):
        def visit(g, carry):
            sums, values = carry
            row, mine = bucket[g], _at(worth, g)
            gains = mine * _at(rows, row)
            gain = functools.reduce(jnp.add, [gains[:, n] for n in range(gains.shape[1])])
            return _put(sums, _at(sums, row) + mine, row), _put(values, _at(values, g) + gain, g)

        return _over_groups(used, visit, (jnp.zeros_like(rows), values))

    def at_once(worth, rows, values, bucket, used):
        sums = jnp.zeros_like(rows).at[bucket].add(worth)
        return sums, values + jnp.sum(worth * rows[bucket], axis=1)

    given = worth, rows, values, bucket, used
    return jax.lax.platform_dependent(*given, cpu=on_cpu, default=at_once)


def sum_by_bucket(
    values: Float[Array, "G T"], bucket: Int[Array, " G"], used: Int[Array, ""], count: int
) -> Float[Array, "B T"]:
    """Sums over the groups of each of `count` buckets."""

    def on_cpu(values, bucket, used):
        def visit(g, sums):
            return _put(sums, _at(sums, bucket[g]) + _at(values, g), bucket[g])

        return _over_groups(used, visit, jnp.zeros((count, values.shape[1]), values.dtype))

    def at_once(values, bucket, used):
        return jnp.zeros((count, values.shape[1]), values.dtype).at[bucket].add(values)

    return jax.lax.platform_dependent(values, bucket, used, cpu=on_cpu, default=at_once)


def copied(tables: Float[Array, "N C B E"], k: Int[Array, ""]) -> Float[Array, "C B E"]:
    """One of N tables, which may be written while the copy is read.

    On CPUs XLA would otherwise read it where it is needed, and copy all N first.
    """

    def on_cpu(tables, k):
        def visit(c, result):
            return _put(result, _at(tables[k], c), c)

        nothing = jnp.zeros(tables.shape[1:], tables.dtype)
        return jax.lax.fori_loop(np.int32(0), np.int32(tables.shape[1]), visit, nothing)

    return jax.lax.platform_dependent(tables, k, cpu=on_cpu, default=lambda tables, k: tables[k])


def _over_groups(used, visit, start):
    return jax.lax.fori_loop(np.int32(0), used, visit, start)


def _at(table, row):
    """One row of a table."""
    return jax.lax.dynamic_slice_in_dim(table, row, 1)


def _put(table, row, at):
    return jax.lax.dynamic_update_slice_in_dim(table, row, at, axis=0)
