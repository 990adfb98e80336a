"""Sums over ragged rows without scatter: the one sparse kernel under every sweep.

`y[r] = sum_e weight[e] * prod_f x_f[column_f[e]]` over the entries `e` of row `r`. Rows of similar
length are stored together as padded blocks `[K, R]` and summed by `K` unrolled gathers, which XLA
fuses into one vectorised loop; a reduction over an axis of a few elements, or a scatter, is many
times slower on CPU. Long rows are cut into pieces that a further stage adds up. Rows that read the
same columns, as a player's hands do at a terminal public state, form a dense tile, which reads
those columns once.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from jaxgames.core import record

_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # row lengths of blocks
_LONGEST = 16  # longer rows are cut, unless told otherwise
# What tiles cost, in gathers: a term of a dense sum, a kernel. Terms are computed in vectors.
_TERM_COST = 0.15
_KERNEL_COST = 500
_VECTOR = 16
_MOST_COLUMNS = 64  # of a tile: its sums are unrolled


@record
class Block:
    """R rows of at most K entries, as K separate columns: slices of one table would be copied.

    Without weights, padding points at a zero behind the input.
    """

    columns: tuple[tuple[Array, ...], ...]  # for each factor, K times [R] int32
    weights: tuple[Array, ...] | None  # K times [R] float, 0 at padding; None where all are 1
    entries: tuple[Array, ...] | None  # K times [R] int32: whose weight it is, -1 at padding


@record
class Tiles:
    """T dense tiles of R rows and C columns: every row of a tile reads all its columns."""

    columns: tuple[Array, ...]  # for each factor, [C, T] int32
    weights: tuple[Array, ...]  # C times [R, T] float, 0 where there is no entry
    entries: tuple[Array, ...]  # C times [R, T] int32: whose weight it is, -1 where none


@record
class SparseSum:
    """Stages of blocks; a stage reads what the one before it wrote. Made by `build`."""

    stages: tuple[tuple[Block | Tiles, ...], ...]
    opaque_one: Array  # [] int32 1, which the compiler must not know; see `materialize`

    def __call__(self, *factors: Float[Array, "_ ..."]) -> Float[Array, "R ..."]:
        """The sums of all rows; trailing axes of the factors are carried along."""
        if self.stages[0][0].weights is None:
            factors = tuple(_concatenate([x], padding=True) for x in factors)
        return _concatenate(parts(self, *factors))


@record
class Gather:
    """Rows by index: what a sum of one row each, with weight 1, comes to."""

    index: Array  # [n] int32

    def __call__(self, values: Float[Array, "Q ..."]) -> Float[Array, "n ..."]:
        """The rows `values[index]`."""
        return take(values, self.index)


def parts(plan: SparseSum, *factors: Float[Array, "_ ..."]) -> list[Float[Array, "_ ..."]]:
    """The same for each block of the last stage; factors without weights end with a zero."""
    for stage in plan.stages[:-1]:
        factors = (_written(stage, factors, plan.opaque_one),)
    return [_sum_block(block, factors) for block in plan.stages[-1]]


def reweigh(plan: SparseSum, weight: Float[Array, " E"]) -> SparseSum:
    """The same sums with the entries' weights replaced (differentiable, batched by `vmap`)."""
    padded = _concatenate([weight], padding=True)  # entry -1 is padding
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
    longest_piece: int = _LONGEST,
) -> SparseSum:
    """Plans the sums on the host. Entries come in any order; `weight=None` means all 1.

    Rows of more than `longest_piece` entries are cut and summed in several stages: what makes it
    small keeps the kernels short, what makes it large keeps the stages few.
    """
    opaque_one = jnp.int32(1)
    tiles, tile_rows, loose = _cut_tiles(row, columns, weight)
    entry = loose[np.argsort(row[loose], kind="stable")]
    lengths = np.bincount(row[entry], minlength=num_rows)
    first = np.cumsum(lengths) - lengths
    rank = np.arange(len(entry)) - first[row[entry]]
    longest = max(int(lengths.max(initial=0)), 1)
    pad = functools.partial(_block, columns=columns, weight=weight, padding=num_columns)
    pieces = _pieces(lengths, longest_piece)
    few = num_rows * longest <= 1.1 * (pieces["padded"].sum() + num_rows)
    if longest <= longest_piece and few and not tiles:
        block = pad(entry, rank, row[entry], (longest, num_rows))
        return SparseSum(stages=((block,),), opaque_one=opaque_one)

    piece = pieces["first_of_row"][row[entry]] + rank // longest_piece
    blocks, count = list(tiles), len(tile_rows)
    place = np.zeros(len(pieces["row"]), np.int64)
    for length in np.unique(pieces["padded"]):
        members = np.flatnonzero(pieces["padded"] == length)
        place[members] = np.arange(count, count + len(members))
        inside = np.isin(piece, members)
        local = place[piece[inside]] - count
        shape = (int(length), len(members))
        blocks.append(pad(entry[inside], rank[inside] % longest_piece, local, shape))
        count += len(members)
    rest = build(
        row=np.concatenate([tile_rows, pieces["row"]]),
        columns=(np.concatenate([np.arange(len(tile_rows)), place]),),
        num_rows=num_rows,
        num_columns=count,
        longest_piece=longest_piece,
    )
    return SparseSum(stages=(tuple(blocks), *rest.stages), opaque_one=opaque_one)


def build_many(
    *,
    plan: Int[np.ndarray, " E"],
    row: Int[np.ndarray, " E"],
    column: Int[np.ndarray, " E"],
    num_plans: int,
    num_rows: int,
    num_columns: int,
    longest_piece: int,
) -> SparseSum:
    """Plans of one shape, with an axis in front, for `jax.vmap` and `jax.lax.map`; weights are 1.

    Two stages each: pieces of rows by length, as many of each in every plan, and the rows.
    """
    combined = plan * num_rows + row
    entry = np.argsort(combined, kind="stable")
    lengths = np.bincount(combined, minlength=num_plans * num_rows)
    rank = np.arange(len(entry)) - (np.cumsum(lengths) - lengths)[combined[entry]]
    pieces = _pieces(lengths, longest_piece)
    owner = pieces["row"] // num_rows
    piece = pieces["first_of_row"][combined[entry]] + rank // longest_piece
    place = np.zeros(len(owner), np.int64)
    blocks, count = [], 0
    for length in np.unique(pieces["padded"]).tolist():
        members = np.flatnonzero(pieces["padded"] == length)
        number, size = _rank_within(owner[members], members)
        place[members] = count + number
        table = np.full((length, num_plans, size.max()), num_columns, np.int32)
        inside = pieces["padded"][piece] == length
        which = piece[inside]
        table[rank[inside] % longest_piece, owner[which], place[which] - count] = column[
            entry[inside]
        ]
        blocks.append(Block(columns=(tuple(map(jnp.asarray, table)),), weights=None, entries=None))
        count += size.max()
    most = -(-int(lengths.max(initial=1)) // longest_piece)
    table = np.full((most, num_plans * num_rows), count, np.int32)
    table[np.arange(len(owner)) - pieces["first_of_row"][pieces["row"]], pieces["row"]] = place
    table = table.reshape(most, num_plans, num_rows)
    rows = Block(columns=(tuple(map(jnp.asarray, table)),), weights=None, entries=None)
    return SparseSum(stages=(tuple(blocks), (rows,)), opaque_one=jnp.ones(num_plans, jnp.int32))


def take(values: Float[Array, "Q ..."], index: Int[Array, "..."]) -> Float[Array, "..."]:
    """Rows by index, which is trusted: neither checked nor wrapped."""
    return values.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def materialize(values: Array, opaque_one: Int[Array, "..."]) -> Array:
    """`values`, computed once; `opaque_one` is 1, which the compiler must not know.

    XLA copies cheap producers into every consumer, here long sums into dozens of them. It never
    copies a division (`optimization_barrier` is dropped before fusion on CPU).
    """
    return values / opaque_one.astype(values.dtype)


def num_gathers(plan: SparseSum) -> int:
    """Elements read through an index, padding included: the work of one call."""
    blocks = [block for stage in plan.stages for block in stage]
    return sum(column.size for block in blocks for column in jax.tree.leaves(block.columns))


def _concatenate(parts, *, padding=False):
    """The parts in a row, and a zero for padding to point at."""
    if padding:
        parts = [*parts, jnp.zeros((1, *parts[0].shape[1:]), parts[0].dtype)]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _written(stage, factors, opaque_one):
    """The sums of a stage and a zero, in memory before the next stage reads them.

    Otherwise XLA:CPU fuses the sums into the gathers of the next stage, where they are no longer
    vectorised, whatever divisions stand between. It leaves the branches of a conditional alone.
    """
    blocks = [block for block in stage if isinstance(block, Block)]
    tiles = [block for block in stage if isinstance(block, Tiles)]
    dense = [_sum_tiles(block, factors, opaque_one) for block in tiles]
    loose = [_sum_block(block, factors) for block in blocks]

    def together(dense, loose):
        flat = [sums.reshape(-1, *sums.shape[2:]) for sums in dense]
        return _concatenate([*flat, *loose], padding=True)

    return stored(together, opaque_one, dense, loose)


def stored(
    compute: Callable[..., PyTree], opaque_one: Int[Array, ""], *arguments: PyTree
) -> PyTree:
    """`compute(*arguments)`, in memory before anything reads it.

    XLA:CPU leaves the branches of a conditional alone, whatever it would rather fuse. `opaque_one`
    is 1, unknown to the compiler, and the same for a whole batch.
    """

    def unreachable(*arguments):
        return jax.tree.map(jnp.zeros_like, compute(*arguments))

    return jax.lax.cond(opaque_one > 0, compute, unreachable, *arguments)


def _lift(values, rank):
    """`values` with axes of length 1 behind, as many as `rank` asks for."""
    return values.reshape(values.shape + (1,) * (rank - values.ndim))


def _sum_block(block: Block, factors):
    def term(k):
        gathered = [take(x, column[k]) for x, column in zip(factors, block.columns, strict=True)]
        if block.weights is not None:
            gathered.append(block.weights[k])
        rank = max(values.ndim for values in gathered)
        return functools.reduce(operator.mul, [_lift(x, rank) for x in gathered])

    length = len(block.columns[0] if block.weights is None else block.weights)
    return functools.reduce(operator.add, map(term, range(length)))


def _sum_tiles(tiles: Tiles, factors, opaque_one):
    """[R, T, ...]; kept in two axes, for in one flat axis XLA:CPU does not vectorise them."""
    read = [take(x, column) for x, column in zip(factors, tiles.columns, strict=True)]
    read = materialize(functools.reduce(operator.mul, read), opaque_one)  # [C, T, ...]
    rank = max(read.ndim, tiles.weights[0].ndim)
    read = _lift(read, rank)
    terms = [_lift(weight, rank) * read[c][None] for c, weight in enumerate(tiles.weights)]
    return functools.reduce(operator.add, terms)


def _cut_tiles(row, columns, weight):
    """Tiles, the rows that their partial sums belong to, and the entries that are in none.

    A tile is made of rows and columns that entries connect, of all those, where that is cheaper
    than to gather every entry. Tiles of one shape are cut together or not at all.
    """
    loose = np.ones(len(row), bool)
    if weight is None or not columns:
        return [], np.zeros(0, np.int64), np.flatnonzero(loose)
    names, column = np.unique(np.stack(columns), axis=1, return_inverse=True)
    tile = _components(row, column)
    local_row, num_rows = _rank_within(tile, row)
    local_column, num_columns = _rank_within(tile, column)
    shapes = np.stack([num_rows, num_columns])
    found, found_rows = [], [np.zeros(0, np.int64)]
    for r, c in np.unique(shapes, axis=1).T:
        chosen = (shapes == [[r], [c]]).all(axis=0)
        inside = np.flatnonzero(chosen[tile])
        count = chosen.sum()
        terms = r * c * -(-count // _VECTOR) * _VECTOR
        cost = (c * len(columns) + r) * count + _TERM_COST * terms + _KERNEL_COST
        if cost >= len(inside) * len(columns) or c > _MOST_COLUMNS:
            continue
        loose[inside] = False
        number = (np.cumsum(chosen) - 1)[tile[inside]]
        rows = np.zeros((r, count), np.int64)
        rows[local_row[inside], number] = row[inside]
        found_rows.append(rows.reshape(-1))
        which = np.zeros((c, count), np.int64)
        which[local_column[inside], number] = column[inside]
        entries = np.full((c, r, count), -1, np.int32)
        entries[local_column[inside], local_row[inside], number] = inside
        weights = np.where(entries < 0, 0, weight[entries]).astype(weight.dtype)
        found.append(
            Tiles(
                columns=tuple(jnp.asarray(name[which], jnp.int32) for name in names),
                weights=tuple(map(jnp.asarray, weights)),
                entries=tuple(map(jnp.asarray, entries)),
            )
        )
    return found, np.concatenate(found_rows), np.flatnonzero(loose)


def _components(row, column):
    """Number of the connected component of rows and columns that each entry belongs to."""
    num_rows, num_columns = row.max(initial=-1) + 1, column.max(initial=-1) + 1
    size = num_rows + num_columns
    edges = coo_array((np.ones(len(row), bool), (row, num_rows + column)), shape=(size, size))
    component = connected_components(edges, directed=False)[1]
    return np.unique(component[row], return_inverse=True)[1]


def _rank_within(group, value):
    """Rank of each entry's value among the distinct ones of its group, and how many those are."""
    pairs, place = np.unique(np.stack([group, value]), axis=1, return_inverse=True)
    count = np.bincount(pairs[0])
    return place - (np.cumsum(count) - count)[group], count


def _pieces(lengths, longest):
    """Cuts rows into pieces of at most `longest` entries, and pads those to a block's length."""
    count = -(-lengths // longest)
    row = np.repeat(np.arange(len(lengths)), count)
    first_of_row = np.cumsum(count) - count
    size = np.minimum(lengths[row] - (np.arange(len(row)) - first_of_row[row]) * longest, longest)
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
