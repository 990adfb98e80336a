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
from solvers import sparse_sum
from solvers.holdem.boards import possible
from solvers.holdem.products import same_hand, same_hands, strengths
from solvers.sparse_sum import SparseSum, stored

_STEP = 4  # short lists are padded to multiples of this length
_LONGEST_SHORT = 16
_STRETCH = 10  # ranks of a long list that are run through together; it is padded to a multiple
_LONGEST_PIECE = 256  # there are few ranks of so many hands, but one more stage reads all


@record
class Ranks:
    """The operator of a street.

    A *list* is all hands on a board, or those with one card: their ranks from the weakest on. Lists
    of similar length are in a group together, padded to equal length.
    """

    # by group, of hands [B G]: all weakest ranks of its lists, then the next, ...
    sums: tuple[SparseSum, ...]
    # among the rows of all groups, each followed by the sums of its lists:
    lists: tuple[Array, ...]  # [B, H] int32 sum of all hands, and of those with one of the cards
    ranks: tuple[Array, ...]  # [B, H] int32 the hand's rank among these
    same: Array | None  # [H] the other's hand that is the same; G: none; None: all are
    lengths: tuple[int, ...] = flax.struct.field(pytree_node=False)  # by group, of its lists

    def __call__(
        self, reach: Float[Array, "C B G X"], *, num_folds: int, num_showdowns: int
    ) -> tuple[Array, Array]:
        """Hands met by the first C blocks `[B, F, H, X]`; hands beaten less those lost to, by the
        last ones `[B, S, H, X]`."""
        blocks, boards, hands, width = reach.shape
        one = self.sums[0].one

        def side_by_side(reach):
            # everything below reads and adds whole rows of them
            table = jnp.swapaxes(reach.reshape(blocks, boards * hands, width), 0, 1)
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
                parts = [here + whole[:-1], whole[-1]]
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
    hands: Int[np.ndarray, "H k"], others: Int[np.ndarray, "G k"], boards: Int[np.ndarray, "B n"]
) -> Ranks:
    """The operator of a street whose boards are complete."""
    count, size = len(boards), hands.shape[1]
    held = np.concatenate([others, hands])
    strength = np.asarray(
        _all_strengths(jnp.asarray(held, jnp.int32), jnp.asarray(boards, jnp.int32)), np.int64
    )
    there = possible(held, boards)
    every = np.zeros(strength.shape, np.int64)  # [B, G + H] rank on the board
    each_card = np.zeros((*strength.shape, size), np.int64)  # among hands with the same card
    for board in range(count):
        some = np.flatnonzero(there[board])
        every[board, some] = np.unique(strength[board, some], return_inverse=True)[1]
        pairs = held[some].astype(np.int64) * 2**32 + strength[board, some][:, None]
        found, number = np.unique(pairs, return_inverse=True)
        begin = np.searchsorted(found >> 32, held[some])
        each_card[board, some] = number.reshape(begin.shape) - begin
    at = np.arange(count)[:, None]
    # lists: 0 to B - 1 of all hands, then board by board those of each card
    of_cards = count + at[..., None] * NUM_CARDS + held
    lists = np.concatenate([np.broadcast_to(at, every.shape)[..., None], of_cards], axis=-1)
    rank = np.concatenate([every[..., None], each_card], axis=-1)  # [B, G + H, 1 + k]
    lengths = np.zeros(count * (1 + NUM_CARDS), np.int64)
    np.maximum.at(lengths, lists[there], rank[there] + 1)
    lengths[:count] = lengths[:count].max()
    lengths += -lengths % np.where(lengths <= _LONGEST_SHORT, _STEP, _STRETCH)
    groups = []
    # of each list: the row of its weakest rank, how far it is to the next one, how many sums of
    # lists there are before its ranks, and the row of its own
    begin, step, before, last = np.zeros((4, len(lengths)), np.int64)
    rows, placed = 0, 0
    for length in np.unique(lengths[lengths > 0]).tolist():
        members = np.flatnonzero(lengths == length)
        begin[members] = rows + np.arange(len(members))
        step[members] = len(members)
        before[members] = placed
        rows += length * len(members)
        last[members] = rows + placed + np.arange(len(members))
        placed += len(members)
        groups.append((length, len(members)))
    place = _place(rank, np.maximum(lengths[lists], 1))
    row = np.where(there[..., None], begin[lists] + place * step[lists], 0)
    found = np.where(there[..., None], row + before[lists], 0)
    lists = np.where(there[..., None], last[lists], 0)
    chosen, mine = there[:, : len(others)], slice(len(others), None)
    columns = np.repeat((at * len(others) + np.arange(len(others)))[chosen], 1 + size)
    entries = row[:, : len(others)][chosen].ravel()
    sums, behind = [], np.cumsum([length * number for length, number in groups])
    for (length, number), end in zip(groups, behind.tolist(), strict=True):
        begin = end - length * number
        inside = (entries >= begin) & (entries < end)
        plan = sparse_sum.build(
            row=entries[inside] - begin,
            columns=(columns[inside],),
            num_rows=end - begin,
            num_columns=count * len(others),
            longest_piece=_LONGEST_PIECE,
        )
        sums.append(plan)

    def each(numbers):
        return tuple(jnp.asarray(numbers[:, mine, i], jnp.int32) for i in range(1 + size))

    return Ranks(
        sums=tuple(sums),
        lists=each(lists),
        ranks=each(found),
        same=same_hands(hands, others),
        lengths=tuple(length for length, _ in groups),
    )


@jax.jit
def _all_strengths(hands, boards):
    return jax.lax.map(lambda board: strengths(hands, board), boards, batch_size=64)
