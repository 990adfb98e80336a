"""Sums over ragged rows without scatter: the one sparse kernel under every sweep.

It computes `y[r] = sum_e weight[e] * prod_f x_f[column_f[e]]` over the entries `e` of row `r`. Rows
of similar length are stored together as padded blocks `[K, R]` and summed by `K` unrolled gathers,
which XLA fuses into one vectorised loop; a reduction over an axis of a few elements, or a scatter,
is many times slower on CPU. Long rows are cut into pieces, which a further stage adds up. Rows that
read the same columns, as a player's hands do at a terminal public state, form a dense tile, which
reads those columns once.
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

from jaxgames.arrays import append_axes, on_device
from jaxgames.core import record

_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # row lengths of blocks
_LONGEST = 16  # longer rows are cut, unless told otherwise
# What tiles cost, in units of one gather.
_TERM_COST = 0.15  # of one term of a dense sum; terms are computed in vectors
_KERNEL_COST = 500  # of one more kernel
_VECTOR = 16  # terms in a vector
_MOST_COLUMNS = 64  # of a tile, whose sums are unrolled


@record
class Block:
    """R rows of at most K entries, as K separate columns: slices of one table would be copied.

    Without weights, padding reads a zero that is appended to the input.
    """

    columns: tuple[tuple[Array, ...], ...]  # for each factor, K times [R] int32
    weights: tuple[Array, ...] | None  # K times [R] float, 0 at padding; None: all weights are 1
    entries: tuple[Array, ...] | None  # K times [R] int32 entry of each weight, -1 at padding


@record
class Tiles:
    """T dense tiles of R rows and C columns: every row of a tile reads all its columns."""

    columns: tuple[Array, ...]  # for each factor, [C, T] int32
    weights: tuple[Array, ...]  # C times [R, T] float, 0 where there is no entry
    entries: tuple[Array, ...]  # C times [R, T] int32 entry of each weight, -1 if there is none


@record
class SparseSum:
    """A plan of sums, made by `build`: stages of blocks, each reading what the last one wrote."""

    stages: tuple[tuple[Block | Tiles, ...], ...]
    opaque_one: Array  # [] int32 1, which the compiler must not know; see `materialize`

    def __call__(self, *factors: Float[Array, "_ ..."]) -> Float[Array, "R ..."]:
        """The sums of all rows; trailing axes of the factors are carried along."""
        if self.stages[0][0].weights is None:
            factors = tuple(_concatenate([x], padding=True) for x in factors)
        return _concatenate(parts(self, *factors))


@record
class Gather:
    """The sparse sum whose rows have one entry of weight 1 each: rows by index."""

    index: Array  # [n] int32

    def __call__(self, values: Float[Array, "Q ..."]) -> Float[Array, "n ..."]:
        """The rows `values[index]`."""
        return take(values, self.index)


def parts(plan: SparseSum, *factors: Float[Array, "_ ..."]) -> list[Float[Array, "_ ..."]]:
    """The sums, apart for each block of the last stage.

    Args:
      plan: the sums.
      factors: as in a call of the plan; if it has no weights, each with a zero appended.
    """
    for stage in plan.stages[:-1]:
        factors = (_written(stage, factors, plan.opaque_one),)
    return [_sum_block(block, factors) for block in plan.stages[-1]]


def reweigh(plan: SparseSum, weight: Float[Array, " E"]) -> SparseSum:
    """The same sums with the weights of all E entries replaced; batched by `jax.vmap`."""
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
    tiles: bool = True,
) -> SparseSum:
    """Plans sums, on the host.

    Args:
      row: the row of each of E entries, in any order.
      columns: for each factor, which of its elements each entry reads.
      num_rows: R, how many sums there are.
      num_columns: length of the factors; only matters without weights.
      weight: of each entry; None: all are 1.
      longest_piece: rows of more entries are cut and summed in several stages. A small number keeps
        the kernels short, a large one the stages few.
      tiles: whether to look for dense tiles. Each shape of tile is a kernel to compile.
    """
    opaque_one = on_device(1, np.int32)
    tiles, tile_rows, loose = _cut_tiles(row, columns, weight if tiles else None)
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


def take(values: Float[Array, "Q ..."], index: Int[Array, "..."]) -> Float[Array, "..."]:
    """Rows by index, which must be in range: it is neither checked nor wrapped."""
    return values.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def materialize(values: Array, opaque_one: Int[Array, "..."]) -> Array:
    """The same values, computed once and stored.

    XLA copies cheap producers into every consumer, here long sums into dozens of them. It never
    copies a division, so the values are divided by a 1 that the compiler does not know to be 1.
    (`optimization_barrier` is dropped before fusion on CPU.)

    Args:
      values: what to compute once.
      opaque_one: an argument of the compiled program that is always 1.
    """
    return values / opaque_one.astype(values.dtype)


def _concatenate(parts, *, padding=False):
    """The parts in a row, with `padding` followed by a zero that padding reads."""
    if padding:
        parts = [*parts, jnp.zeros((1, *parts[0].shape[1:]), parts[0].dtype)]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _written(stage, factors, opaque_one):
    """The sums of a stage followed by a zero, stored before the next stage reads them.

    XLA:CPU would fuse the sums into the gathers of the next stage, where they are no longer
    vectorised, even through a division. It does not fuse across a conditional (see `stored`).
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
    """`compute(*arguments)`, stored before anything reads it.

    It is computed in a branch of a conditional that is always taken: XLA:CPU fuses nothing across
    the border of a conditional. On other backends it is just computed: there a conditional may wait
    for the host.

    Args:
      compute: a pure function.
      opaque_one: as for `materialize`; the same for a whole batch.
      arguments: of `compute`.
    """

    if jax.default_backend() != "cpu":
        return compute(*arguments)

    shapes = []  # of the result, as the first branch was traced: tracing it again takes long

    def computed(*arguments):
        result = compute(*arguments)
        shapes.append(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), result))
        return result

    def unreachable(*arguments):
        result = shapes[-1] if shapes else jax.eval_shape(compute, *arguments)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), result)

    return jax.lax.cond(opaque_one > 0, computed, unreachable, *arguments)


def _sum_block(block: Block, factors):
    def term(k):
        gathered = [take(x, column[k]) for x, column in zip(factors, block.columns, strict=True)]
        if block.weights is not None:
            gathered.append(block.weights[k])
        deepest = max(gathered, key=jnp.ndim)
        return functools.reduce(operator.mul, [append_axes(x, deepest) for x in gathered])

    length = len(block.columns[0] if block.weights is None else block.weights)
    return functools.reduce(operator.add, map(term, range(length)))


def _sum_tiles(tiles: Tiles, factors, opaque_one):
    """The sums of tiles `[R, T, ...]`, in two axes: XLA:CPU does not vectorise one flat axis."""
    read = [take(x, column) for x, column in zip(factors, tiles.columns, strict=True)]
    read = materialize(functools.reduce(operator.mul, read), opaque_one)  # [C, T, ...]
    deepest = max(read, tiles.weights[0], key=jnp.ndim)
    read = append_axes(read, deepest)
    terms = [append_axes(w, deepest) * read[c][None] for c, w in enumerate(tiles.weights)]
    return functools.reduce(operator.add, terms)


def _cut_tiles(row, columns, weight):
    """Finds dense tiles among the entries, where they are cheaper than to gather every entry.

    The entries connect rows and columns to components; each component may be a tile, with all its
    rows and columns. Components of one shape become tiles together or not at all.

    Returns:
      The tiles, by shape; the rows `[_]` that their partial sums belong to; and the entries that
      are in no tile.
    """
    loose = np.ones(len(row), bool)
    if weight is None or not columns:
        return [], np.zeros(0, np.int64), np.flatnonzero(loose)
    names, column = np.unique(np.stack(columns), axis=1, return_inverse=True)
    tile = _components(row, column)
    local_row, num_rows = _rank_within(tile, row)
    local_column, num_columns = _rank_within(tile, column)
    shapes = np.stack([num_rows, num_columns])
    tiles, tile_rows = [], [np.zeros(0, np.int64)]
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
        tile_rows.append(rows.reshape(-1))
        which = np.zeros((c, count), np.int64)
        which[local_column[inside], number] = column[inside]
        entries = np.full((c, r, count), -1, np.int32)
        entries[local_column[inside], local_row[inside], number] = inside
        weights = np.where(entries < 0, 0, weight[entries]).astype(weight.dtype)
        tiles.append(
            Tiles(
                columns=tuple(on_device(name[which], np.int32) for name in names),
                weights=tuple(map(on_device, weights)),
                entries=tuple(map(on_device, entries)),
            )
        )
    return tiles, np.concatenate(tile_rows), np.flatnonzero(loose)


def _components(row, column):
    """The connected component of rows and columns that each entry belongs to, by number."""
    num_rows, num_columns = row.max(initial=-1) + 1, column.max(initial=-1) + 1
    size = num_rows + num_columns
    edges = coo_array((np.ones(len(row), bool), (row, num_rows + column)), shape=(size, size))
    component = connected_components(edges, directed=False)[1]
    return np.unique(component[row], return_inverse=True)[1]


def _rank_within(group, value):
    """Each entry's rank among the distinct values of its group, and how many those are by group."""
    pairs, place = np.unique(np.stack([group, value]), axis=1, return_inverse=True)
    count = np.bincount(pairs[0])
    return place - (np.cumsum(count) - count)[group], count


def _pieces(lengths, longest):
    """Cuts rows of these lengths into pieces of at most `longest` entries.

    Returns:
      By piece: its `row` and its `padded` length, that of the block it goes into. By row: the
      number of its first piece, `first_of_row`.
    """
    count = -(-lengths // longest)
    row = np.repeat(np.arange(len(lengths)), count)
    first_of_row = np.cumsum(count) - count
    size = np.minimum(lengths[row] - (np.arange(len(row)) - first_of_row[row]) * longest, longest)
    padded = np.array(_LENGTHS)[np.searchsorted(_LENGTHS, size)]
    return dict(row=row, first_of_row=first_of_row, padded=padded)


def _block(entry, rank, place, shape, *, columns, weight, padding):
    """A block [K, R] with each `entry` as number `rank` of the row in `place`."""
    filled = []
    for column in columns:
        table = np.full(shape, padding if weight is None else 0, np.int32)
        table[rank, place] = column[entry]
        filled.append(tuple(map(on_device, table)))
    if weight is None:
        return Block(columns=tuple(filled), weights=None, entries=None)
    weights, entries = np.zeros(shape, weight.dtype), np.full(shape, -1, np.int32)
    weights[rank, place], entries[rank, place] = weight[entry], entry
    return Block(
        columns=tuple(filled),
        weights=tuple(map(on_device, weights)),
        entries=tuple(map(on_device, entries)),
    )
