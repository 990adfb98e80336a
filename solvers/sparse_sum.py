"""Sums over ragged rows without scatter: the one sparse kernel under every sweep.

`y[r] = sum_e weight[e] * prod_f x_f[column_f[e]]` over the entries `e` of row `r`. Rows of similar
length are stored together as padded blocks `[K, R]` and summed by `K` unrolled gathers, which XLA
fuses into one vectorised loop; a reduction over an axis of a few elements, or a scatter, is many
times slower on CPU. Long rows are cut into pieces that a further stage adds up.
"""

from __future__ import annotations

import functools
import operator

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import record

_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)  # row lengths of blocks; longer rows are cut
_LONGEST = _LENGTHS[-1]


@record
class Block:
    """R rows of at most K entries, as K separate columns: slices of one table would be copied.

    Without weights, padding points at a zero behind the input.
    """

    columns: tuple[tuple[Array, ...], ...]  # for each factor, K times [R] int32
    weights: tuple[Array, ...] | None  # K times [R] float, 0 at padding; None where all are 1
    entries: tuple[Array, ...] | None  # K times [R] int32: whose weight it is, -1 at padding


@record
class SparseSum:
    """Stages of blocks; a stage reads what the one before it wrote. See `apply` and `build`."""

    stages: tuple[tuple[Block, ...], ...]


def apply(plan: SparseSum, *factors: Float[Array, "_ ..."]) -> Float[Array, "R ..."]:
    """The sums of all rows; trailing axes of the factors are carried along."""
    for number, stage in enumerate(plan.stages):
        if number > 0 or stage[0].weights is None:
            factors = tuple(map(_append_zero, factors))
        parts = [_sum_block(block, factors) for block in stage]
        factors = (parts[0] if len(parts) == 1 else jnp.concatenate(parts),)
    return factors[0]


def reweigh(plan: SparseSum, weight: Float[Array, " E"]) -> SparseSum:
    """The same sums with the entries' weights replaced (differentiable, batched by `vmap`)."""
    padded = _append_zero(weight)  # entry -1 is padding
    first = tuple(
        block.replace(weights=tuple(padded[entry] for entry in block.entries))
        for block in plan.stages[0]
    )
    return plan.replace(stages=(first, *plan.stages[1:]))


def build(
    *,
    row: Int[np.ndarray, " E"],
    columns: tuple[Int[np.ndarray, " E"], ...],
    num_rows: int,
    num_columns: int,
    weight: Float[np.ndarray, " E"] | None = None,
) -> SparseSum:
    """Plans the sums on the host. Entries come in any order; `weight=None` means all 1."""
    entry = np.argsort(row, kind="stable")
    lengths = np.bincount(row, minlength=num_rows)
    first = np.cumsum(lengths) - lengths
    rank = np.arange(len(row)) - first[row[entry]]
    longest = max(int(lengths.max(initial=0)), 1)
    pad = functools.partial(_block, columns=columns, weight=weight, padding=num_columns)
    pieces = _pieces(lengths)
    if longest <= _LONGEST and num_rows * longest <= 1.1 * (pieces["padded"].sum() + num_rows):
        return SparseSum(stages=((pad(entry, rank, row[entry], (longest, num_rows)),),))

    piece = pieces["first_of_row"][row[entry]] + rank // _LONGEST
    blocks, place, count = [], np.zeros(len(pieces["row"]), np.int64), 0
    for length in np.unique(pieces["padded"]):
        members = np.flatnonzero(pieces["padded"] == length)
        place[members] = np.arange(count, count + len(members))
        inside = np.isin(piece, members)
        local = place[piece[inside]] - count
        shape = (int(length), len(members))
        blocks.append(pad(entry[inside], rank[inside] % _LONGEST, local, shape))
        count += len(members)
    rest = build(row=pieces["row"], columns=(place,), num_rows=num_rows, num_columns=count)
    return SparseSum(stages=(tuple(blocks), *rest.stages))


def take(values: Float[Array, "Q ..."], index: Int[Array, " R"]) -> Float[Array, "R ..."]:
    """Rows by index, which is trusted: neither checked nor wrapped."""
    return values.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def num_gathers(plan: SparseSum) -> int:
    """Elements read through an index, padding included: the work of one `apply`."""
    blocks = [block for stage in plan.stages for block in stage]
    return sum(column.size for block in blocks for factor in block.columns for column in factor)


def _append_zero(values):
    return jnp.concatenate([values, jnp.zeros((1, *values.shape[1:]), values.dtype)])


def _sum_block(block: Block, factors):
    def term(k):
        gathered = [take(x, column[k]) for x, column in zip(factors, block.columns, strict=True)]
        if block.weights is not None:
            gathered.append(block.weights[k])
        rank = max(values.ndim for values in gathered)
        gathered = [x.reshape(x.shape + (1,) * (rank - x.ndim)) for x in gathered]
        return functools.reduce(operator.mul, gathered)

    length = len(block.columns[0] if block.weights is None else block.weights)
    return functools.reduce(operator.add, map(term, range(length)))


def _pieces(lengths):
    """Cuts rows into pieces of at most `_LONGEST` entries, and pads those to a block's length."""
    count = -(-lengths // _LONGEST)
    row = np.repeat(np.arange(len(lengths)), count)
    first_of_row = np.cumsum(count) - count
    size = np.minimum(lengths[row] - (np.arange(len(row)) - first_of_row[row]) * _LONGEST, _LONGEST)
    padded = np.array(_LENGTHS)[np.searchsorted(_LENGTHS, size)]
    return dict(row=row, first_of_row=first_of_row, padded=padded)


def _block(entry, rank, place, shape, *, columns, weight, padding):
    filled = []
    for column in columns:
        table = np.full(shape, padding if weight is None else 0, np.int32)
        table[rank, place] = column[entry]
        filled.append(tuple(map(jnp.asarray, table)))
    if weight is None:
        return Block(columns=tuple(filled), weights=None, entries=None)
    weights, entries = np.zeros(shape, weight.dtype), np.full(shape, -1, np.int32)
    weights[rank, place], entries[rank, place] = weight[entry], entry
    return Block(
        columns=tuple(filled),
        weights=tuple(map(jnp.asarray, weights)),
        entries=tuple(map(jnp.asarray, entries)),
    )
