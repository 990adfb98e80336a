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


@record
class Ranks:
    """The operator of a street.

    A *list* is all hands on a board, or those with one card: their ranks from the weakest on. Lists
    of similar length are in a group together, padded to equal length.
    """

    sums: SparseSum  # hands [B G] -> groups of lists, in each all weakest ranks, then the next, ...
    lists: tuple[Array, ...]  # [B, H] int32 that of all hands, and those of a hand's cards
    ranks: tuple[Array, ...]  # [B, H] int32 row of the hand's rank in them, among all
    same: Array | None  # [H] the other's hand that is the same; G: none; None: all are
    groups: tuple[tuple[int, int], ...] = flax.struct.field(pytree_node=False)  # ranks, lists

    def __call__(
        self, reach: Float[Array, "C B G X"], *, num_folds: int, num_showdowns: int
    ) -> tuple[Array, Array]:
        """Hands met by the first C blocks `[B, F, H, X]`; hands beaten less those lost to, by the
        last ones `[B, S, H, X]`."""
        blocks, boards, hands, width = reach.shape
        one = self.sums.one

        def side_by_side(reach):
            # everything below reads and adds whole rows of them
            table = jnp.transpose(reach, (1, 2, 0, 3))
            return table.reshape(boards * hands, blocks * width)

        first, behind = (blocks - num_showdowns) * width, num_folds * width
        table = stored(side_by_side, one, reach)
        before, totals = self._run_through(sparse_sum.apply(self.sums, table))

        def looked_up(table, before, totals):
            met = _difference(totals, self.lists)
            won = _difference(before[:, first:], self.ranks) - met[..., first:]
            met = met[..., :behind]
            if len(self.lists) == 3:  # the same hand shares both cards: it was taken out twice
                table = table.reshape(boards, hands, -1)
                met = met + same_hand(table[..., :behind], self.same, axis=1)
            return met, won

        def hands_last(*values):
            each = (x.reshape(*x.shape[:2], -1, width) for x in values)
            return tuple(jnp.swapaxes(x, 1, 2).ravel() for x in each)

        # each in memory before the next: fused, they would read across rows; and flat, or the
        # compiler would rather give them another layout
        found = stored(hands_last, one, *stored(looked_up, one, table, before, totals))
        return tuple(x.reshape(boards, -1, len(self.lists[0][0]), width) for x in found)

    def _run_through(self, sums):
        """What is before each rank of its list and what is not behind it, added; and all."""

        def step(before, here):
            return before + here, 2 * before + here

        found, totals, begin = [], [], 0
        for length, count in self.groups:
            group = sums[begin : begin + length * count].reshape(length, count, -1)
            total, before = jax.lax.scan(step, jnp.zeros_like(group[0]), group)
            found.append(before.reshape(length * count, -1))
            totals.append(total)
            begin += length * count
        return jnp.concatenate(found), jnp.concatenate(totals)


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
    lengths[count:] += lengths[count:] % 2
    groups = []
    # of each list: its number, the row of its weakest rank, and how far it is to the next one
    place, begin, step = np.empty((3, len(lengths)), np.int64)
    placed, rows = 0, 0
    for length in np.unique(lengths[lengths > 0]).tolist():
        members = np.flatnonzero(lengths == length)
        place[members] = placed + np.arange(len(members))
        begin[members] = rows + np.arange(len(members))
        step[members] = len(members)
        groups.append((length, len(members)))
        placed, rows = placed + len(members), rows + length * len(members)
    place[lengths == 0] = begin[lengths == 0] = step[lengths == 0] = 0  # of no hand
    row = np.where(there[..., None], begin[lists] + rank * step[lists], 0)
    lists = np.where(there[..., None], place[lists], 0)
    chosen, mine = there[:, : len(others)], slice(len(others), None)
    columns = (at * len(others) + np.arange(len(others)))[chosen]
    sums = sparse_sum.build(
        row=row[:, : len(others)][chosen].ravel(),
        columns=(np.repeat(columns, 1 + size),),
        num_rows=rows,
        num_columns=count * len(others),
    )

    def each(numbers):
        return tuple(jnp.asarray(numbers[:, mine, i], jnp.int32) for i in range(1 + size))

    return Ranks(
        sums=sums,
        lists=each(lists),
        ranks=each(row),
        same=same_hands(hands, others),
        groups=tuple(groups),
    )


@jax.jit
def _all_strengths(hands, boards):
    return jax.lax.map(lambda board: strengths(hands, board), boards, batch_size=64)
