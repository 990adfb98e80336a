"""Sums of the reach of hands that tie: one row of a table for each rank of each list of hands.

Ranks have one hand or hundreds. Those of similar length form a block, in which each hand is one
unrolled gather (see `solvers.sequence_form.sparse_sum`). Blocks are made of all groups of ranks
together and long ranks are cut into pieces first: each unrolled gather takes time to compile.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import on_device
from jaxgames.core import record
from solvers.sequence_form import sparse_sum
from solvers.sequence_form.sparse_sum import Block, SparseSum, stored

_LENGTHS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96])  # of rows, padded
_LONGEST = 16  # longer rows are summed in pieces of this length


@record
class TiedSums:
    """A plan of sums over groups of rows, with a leading axis Q in all arrays for `jax.lax.map`."""

    short: SparseSum  # sums of the table
    pieces: SparseSum  # of long rows: sums of the table
    long: SparseSum  # sums of pieces
    groups: tuple[Array, ...]  # [Q, n] int32 of each group's rows: the row of short, long and a 0

    def __call__(self, table: Float[Array, "C X"]) -> list[Float[Array, "n X"]]:
        """The sums of each group's rows.

        Args:
          table: the rows that are summed, the last of which is 0.
        """
        write = functools.partial(stored, _sums, self.short.opaque_one)
        pieces = write([self.pieces], [table])
        sums = write([self.short, self.long], [table, pieces])
        return stored(_looked_up, self.short.opaque_one, sums, self.groups)


def _sums(plans, tables):
    """The sums of several plans, followed by a 0."""
    sums = [part for each in zip(plans, tables, strict=True) for part in sparse_sum.parts(*each)]
    return jnp.concatenate([*sums, jnp.zeros((1, tables[0].shape[1]), tables[0].dtype)])


def _looked_up(sums, groups):
    return [sparse_sum.take(sums, group) for group in groups]


def build_tied_sums(
    *,
    plan: Int[np.ndarray, " E"],
    row: Int[np.ndarray, " E"],
    column: Int[np.ndarray, " E"],
    num_plans: int,
    num_rows: tuple[int, ...],
    num_columns: int,
) -> TiedSums:
    """Plans sums of one shape, on the host.

    Args:
      plan: the plan of each of E entries.
      row: its row, numbered over all groups.
      column: the row of the table that it reads.
      num_plans: Q, how many plans.
      num_rows: how many rows each group has.
      num_columns: C - 1, the place of the table's 0.
    """
    every = sum(num_rows)
    lengths = np.bincount(plan * every + row, minlength=num_plans * every)
    is_long = lengths[plan * every + row] > _LONGEST
    blocks = functools.partial(_blocks, num_plans=num_plans)

    short, place, count = blocks(
        plan[~is_long], row[~is_long], column[~is_long], num_rows=every, padding=num_columns
    )
    # the pieces of long rows, numbered within their plan
    entry = np.flatnonzero(is_long)
    entry = entry[np.lexsort((row[entry], plan[entry]))]
    starts = np.flatnonzero(np.diff(plan[entry] * every + row[entry], prepend=-1))
    rank = np.arange(len(entry)) - np.repeat(starts, np.diff(starts, append=len(entry)))
    begins = rank % _LONGEST == 0
    piece = np.cumsum(begins) - 1
    owner, of_row = plan[entry][begins], row[entry][begins]
    piece = piece - np.searchsorted(owner, owner)[piece] if len(piece) else piece
    most = int(piece.max(initial=-1)) + 1
    pieces, piece_place, num_pieces = blocks(
        plan[entry], piece, column[entry], num_rows=most, padding=num_columns
    )
    number = np.arange(len(owner)) - np.searchsorted(owner, owner)
    long, long_place, num_long = blocks(
        owner, of_row, piece_place[owner, number], num_rows=every, padding=num_pieces
    )
    place = np.where(long_place >= 0, count + long_place, place)
    place = np.where(place >= 0, place, count + num_long)
    groups = np.split(place, np.cumsum(num_rows)[:-1], axis=1)
    return TiedSums(
        short=short,
        pieces=pieces,
        long=long,
        groups=tuple(on_device(group, np.int32) for group in groups),
    )


def _blocks(plan, row, column, *, num_plans, num_rows, padding):
    """Sums of rows of at most 96 entries each, in blocks of similar length.

    Args:
      plan, row, column: of each entry, as in `build_tied_sums`.
      num_plans: how many plans.
      num_rows: how many rows a plan has.
      padding: what is read where a row is shorter than its block.

    Returns:
      The sums; the place `[Q, num_rows]` of each row among them, -1 for rows without entries; and
      how many sums there are.
    """
    combined = plan * num_rows + row
    entry = np.argsort(combined, kind="stable")
    of_entry = combined[entry]
    lengths = np.bincount(combined, minlength=num_plans * num_rows)
    rank = np.arange(len(entry)) - (np.cumsum(lengths) - lengths)[of_entry]
    padded = np.where(lengths > 0, _LENGTHS[np.searchsorted(_LENGTHS, lengths)], 0)
    place, blocks, count = np.full(len(lengths), -1), [], 0
    for length in np.unique(padded[padded > 0]).tolist():
        rows = np.flatnonzero(padded == length)
        owner = rows // num_rows
        place[rows] = count + np.arange(len(rows)) - np.searchsorted(owner, owner)
        size = int(np.bincount(owner).max())
        table = np.full((length, num_plans, size), padding, np.int32)
        inside = padded[of_entry] == length
        which = of_entry[inside]
        table[rank[inside], which // num_rows, place[which] - count] = column[entry[inside]]
        blocks.append(Block(columns=(tuple(map(on_device, table)),), weights=None, entries=None))
        count += size
    one = on_device(np.ones(num_plans, np.int32))
    sums = SparseSum(stages=(tuple(blocks),), opaque_one=one)
    return sums, place.reshape(num_plans, num_rows), count
