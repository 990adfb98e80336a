"""Which hands are met, and which are beaten at showdown, by ranks of strength.

Hands that tie are summed first, then the sums are run through from the weakest on: once over all
hands, and once over those with each card, which are taken out again (after Johanson, Waugh,
Bowling, Zinkevich 2011, "Accelerating best response calculation in large extensive games", section
3.3). A board has some seventy ranks among a thousand hands, and a dozen among those with one card.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import record
from jaxgames.holdem.cards import NUM_CARDS
from solvers.holdem.boards import possible
from solvers.holdem.showdown_by_products import same_hand, same_hands, strengths
from solvers.sequence_form import sparse_sum
from solvers.sequence_form.sparse_sum import SparseSum, stored

_STEP = 4  # short lists are padded to multiples of this length
_LONGEST_SHORT = 16
_STRETCH = 10  # ranks of a long list that are run through together; it is padded to a multiple
# So many numbers of others' hands are looked up for a chunk of boards, that what is made of them
# stays in the caches; where there are more than so many.
_CHUNK, _MANY = 2**20, 2**22
_LONGEST_PIECE = 256  # there are few ranks of so many hands, but one more stage reads all


@record
class Ranks:
    """The operator of a street, whose B boards are gone through in Q chunks of b.

    A *list* is all hands on a board, or those with one card: their ranks from the weakest on. Lists
    of similar length are in a group together, padded to equal length.
    """

    # by group, of hands [b G]: all weakest ranks of its lists, then the next, ...
    sums: tuple[SparseSum, ...]
    # among the rows of all groups, each followed by the sums of its lists:
    lists: tuple[Array, ...]  # [Q, b, H] int32 sum of all hands, and of those with one of the cards
    ranks: tuple[Array, ...]  # [Q, b, H] int32 the hand's rank among these
    same: Array | None  # [H] the other's hand that is the same; G: none; None: all are
    lengths: tuple[int, ...] = flax.struct.field(pytree_node=False)  # by group, of its lists

    def arranged(self, rows: Int[np.ndarray, "C B"]) -> Int[np.ndarray, "Q C b"]:
        """Rows of blocks, as they are to be given; the last chunk is filled up."""
        count, chunk, _ = self.lists[0].shape
        rows = np.pad(rows, ((0, 0), (0, count * chunk - rows.shape[1])), mode="edge")
        return rows.reshape(len(rows), count, chunk).swapaxes(0, 1)

    def __call__(
        self,
        reach: Float[Array, "R G X"],
        rows: Int[Array, "Q C b"],
        *,
        num_folds: int,
        num_showdowns: int,
    ) -> tuple[Array, Array]:
        """Hands met by the first C blocks `[Q*b, F, H, X]`; hands beaten less those lost to, by the
        last ones `[Q*b, S, H, X]`."""

        flat = reach.reshape(len(reach), -1)  # or the compiler would give it another layout

        def chunk(part):
            sums, lists, ranks, rows = part
            of_chunk = self.replace(sums=sums, lists=lists, ranks=ranks)
            return of_chunk._chunk(flat, rows, reach.shape[2], num_folds, num_showdowns)

        parts = self.sums, self.lists, self.ranks, rows
        if len(rows) == 1:
            return chunk(jax.tree.map(lambda x: x[0], parts))
        found = jax.lax.map(chunk, parts)
        return tuple(x.reshape(-1, *x.shape[2:]) for x in found)

    def _chunk(self, reach, rows, width, num_folds, num_showdowns):
        (blocks, boards), hands = rows.shape, reach.shape[1] // width
        one = self.sums[0].opaque_one

        def side_by_side(reach):
            # everything below reads and adds whole rows of them
            found = sparse_sum.take(reach, rows)
            table = jnp.swapaxes(found.reshape(blocks, boards * hands, width), 0, 1)
            table = table.reshape(boards * hands, blocks * width)
            return jnp.pad(table, ((0, 1), (0, 0)))  # the zero that sums of ranks are padded with

        first, behind = (blocks - num_showdowns) * width, num_folds * width
        table = stored(side_by_side, one, reach)
        sums = stored(self._sums, one, table)
        sums = self._run_through(sums)

        def looked_up(table, sums):
            met = _difference(sums[:, :behind], self.lists)
            won = _difference(sums[:, first:], self.ranks)
            if len(self.lists) == 3:  # the same hand shares both cards: it was taken out twice
                table = table[:-1].reshape(boards, hands, -1)
                met = met + same_hand(table[..., :behind], self.same, axis=1)
            return met, won

        def hands_last(*values):
            each = (x.reshape(*x.shape[:2], -1, width) for x in values)
            return tuple(jnp.swapaxes(x, 1, 2).reshape(-1, x.shape[1], width) for x in each)

        # each in memory before the next: fused, they would read across rows; and flat, or the
        # compiler would rather give them another layout
        found = stored(hands_last, one, *stored(looked_up, one, table, sums))
        return tuple(x.reshape(boards, -1, len(self.lists[0][0]), width) for x in found)

    def _sums(self, table):
        return [sparse_sum.parts(plan, table)[0] for plan in self.sums]

    def _run_through(self, sums):
        """What is before each rank of its list less what is behind it; and, after the last ranks
        of each group, all."""
        found = []
        for length, group in zip(self.lengths, sums, strict=True):
            # lists are so short that products are faster than loops: of a long one, a product
            # within each stretch, and one over its stretches
            stretches = int(_stretches(length))
            parts = [_product(length // stretches, group)]
            if stretches > 1:
                whole = _product(stretches, parts[0][-1])
                here = parts[0][:-1].reshape(length // stretches, stretches, -1)
                parts = [here + whole[None, :-1], whole[-1]]
            found += [part.reshape(-1, group.shape[-1]) for part in parts]
        return jnp.concatenate(found)


def _product(length, rows):
    """For each of so many: those before it less those behind; and all."""
    matrix = np.tri(length + 1, length, -1) - np.tri(length, length + 1, -1).T
    matrix[-1] = 1
    rows = rows.reshape(length, -1)
    return jnp.matmul(jnp.asarray(matrix, rows.dtype), rows, precision="highest")


def _stretches(length):
    return np.where(length <= _LONGEST_SHORT, 1, length // _STRETCH)


def _place(rank, length):
    """Of a rank in its list: the first of all stretches, then the second of all, ..."""
    within = length // _stretches(length)
    return rank % within * _stretches(length) + rank // within


def _difference(table, rows):
    """A row of all hands less one for each card: [B, H, Y]."""
    first, *others = (table.at[row].get(mode="promise_in_bounds") for row in rows)
    return first - sum(others)


def ranks(
    hands: Int[np.ndarray, "H k"],
    others: Int[np.ndarray, "G k"],
    boards: Int[np.ndarray, "B n"],
    *,
    num_blocks: int,
) -> Ranks:
    """The operator of a street whose boards are complete, with about so many blocks of others."""
    held, num_others = np.concatenate([others, hands]), len(others)
    there, lists, rank = _lists(held, boards)
    of_board = num_blocks * num_others
    chunk = len(boards) if len(boards) * of_board <= _MANY else max(1, _CHUNK // of_board)
    chunks = -(-len(boards) // chunk)

    def by_chunk(values):
        more = ((0, chunks * chunk - len(values)), *[(0, 0)] * (values.ndim - 1))
        return np.pad(values, more).reshape(chunks, chunk, *values.shape[1:])

    there, lists, rank = map(by_chunk, (there, lists, rank))
    lists = lists + np.arange(chunk)[:, None, None] * (1 + NUM_CARDS)  # of the chunk
    at = np.arange(chunks)[:, None, None, None]
    lengths = _lengths(chunk, at, lists, rank, there)
    groups, *placed = _placed(lengths)
    weakest, step, group, last = (of_lists[at, lists] for of_lists in placed)
    row = weakest + _place(rank, np.maximum(lengths[at, lists], 1)) * step
    first = np.cumsum([0] + [(length + 1) * count for length, count in groups])
    found = np.where(there[..., None], row + first[group], 0)
    last = np.where(there[..., None], last, 0)
    given = there[:, :, :num_others]
    column = np.arange(chunk)[:, None, None] * num_others + np.arange(num_others)[:, None]
    column, plan = (
        np.broadcast_to(x, (*given.shape, lists.shape[-1]))[given].ravel() for x in (column, at)
    )
    row, group = (x[:, :, :num_others][given].ravel() for x in (row, group))
    sums = []
    for number, (length, count) in enumerate(groups):
        inside = group == number
        sums.append(
            sparse_sum.build_many(
                plan=plan[inside],
                row=row[inside],
                column=column[inside],
                num_plans=chunks,
                num_rows=length * count,
                num_columns=chunk * num_others,
                longest_piece=_LONGEST_PIECE,
            )
        )

    def each(numbers):
        mine = np.moveaxis(numbers[:, :, num_others:], -1, 0)
        return tuple(jnp.asarray(x, jnp.int32) for x in mine)

    return Ranks(
        sums=tuple(sums),
        lists=each(last),
        ranks=each(found),
        same=same_hands(hands, others),
        lengths=tuple(length for length, _ in groups),
    )


def _lengths(chunk, at, lists, rank, there):
    """Of all lists of each chunk [Q, b * 53], padded; 0: there is nobody in it."""
    lengths = np.zeros((len(at), chunk * (1 + NUM_CARDS)), np.int64)
    np.maximum.at(lengths, (np.broadcast_to(at, lists.shape)[there], lists[there]), rank[there] + 1)
    of_all = lengths[:, :: 1 + NUM_CARDS]
    of_all[:] = of_all.max()
    return lengths + -lengths % np.where(lengths <= _LONGEST_SHORT, _STEP, _STRETCH)


def _placed(lengths):
    """Groups of lists of one length, as many in every chunk: pairs of length and number.

    And of each list, the row of its weakest rank in its group; how far it is to the next one; the
    group; and among all groups, each with the sums of its lists behind, the row of its own.
    """
    weakest, step, group, last = np.zeros((4, *lengths.shape), np.int64)
    groups, rows = [], 0
    for length in np.unique(lengths[lengths > 0]).tolist():
        members = lengths == length
        number, count = (np.cumsum(members, axis=1) - 1)[members], members.sum(axis=1).max()
        weakest[members], step[members], group[members] = number, count, len(groups)
        rows += (length + 1) * count
        last[members] = rows - count + number
        groups.append((length, int(count)))
    return groups, weakest, step, group, last


def _lists(held, boards):
    """Which hands `[B, N]` are possible; and `[B, N, 1 + k]` their lists of a board, 0 for that of
    all hands and the others for their cards, and their ranks in these."""
    strength = np.asarray(
        _all_strengths(jnp.asarray(held, jnp.int32), jnp.asarray(boards, jnp.int32)), np.int64
    )
    there = possible(held, boards)
    rank = np.zeros((*strength.shape, 1 + held.shape[1]), np.int64)
    for board in range(len(boards)):
        some = np.flatnonzero(there[board])
        rank[board, some, 0] = np.unique(strength[board, some], return_inverse=True)[1]
        pairs = held[some].astype(np.int64) * 2**32 + strength[board, some][:, None]
        found, number = np.unique(pairs, return_inverse=True)
        begin = np.searchsorted(found >> 32, held[some])
        rank[board, some, 1:] = number.reshape(begin.shape) - begin
    lists = np.concatenate([np.zeros((len(held), 1), np.int64), 1 + held], axis=1)
    return there, np.broadcast_to(lists, rank.shape), rank


@jax.jit
def _all_strengths(hands, boards):
    return jax.lax.map(lambda board: strengths(hands, board), boards, batch_size=64)
