"""Folds and showdowns by ranks of strength, with card removal.

The reach of hands that tie is summed first, and the sums are then accumulated from the weakest rank
on: once over all hands, and once over those with each card, which are subtracted again (after
Johanson, Waugh, Bowling, Zinkevich 2011, "Accelerating best response calculation in large extensive
games", section 3.3). A board has some seventy ranks among a thousand hands, and a dozen among those
with one card. `showdown_by_products` computes the same by products of matrices.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import on_device
from jaxgames.core import record
from jaxgames.holdem.cards import NUM_CARDS
from solvers.holdem.showdown_by_products import same_hand, same_hands, strengths
from solvers.holdem.street_boards import unblocked_hands
from solvers.holdem.tied_hands import TiedSums, build_tied_sums
from solvers.sequence_form import sparse_sum
from solvers.sequence_form.sparse_sum import stored

_STEP = 4  # short lists are padded to multiples of this length
_LONGEST_SHORT = 16
_STRETCH = 10  # ranks of a long list that are accumulated together; its length is a multiple
# Where a street has more than _MANY entries of opponents' hands, boards are processed in chunks of
# about _CHUNK entries, so that intermediate results stay in the caches.
_CHUNK, _MANY = 2**20, 2**22
_NUM_LISTS = 1 + NUM_CARDS  # of a board


@record
class RankShowdowns:
    """The operator of a street, whose B boards are processed in Q chunks of b.

    A *list* is all hands on a board, or those with one card: their ranks from the weakest on. Lists
    of similar length form a group, padded to equal length.
    """

    # of hands [b G], by group: the weakest ranks of all its lists, then the next ranks, ...
    sums: TiedSums
    # positions among the rows of all groups, each of which is followed by the totals of its lists:
    lists: tuple[Array, ...]  # [Q, b, H] int32 total of all hands, and of those with each card
    ranks: tuple[Array, ...]  # [Q, b, H] int32 the hand's rank in each of these lists
    same: Array | None  # [H] the opponent's hand that is the same; G: none; None: all are
    lengths: tuple[int, ...] = flax.struct.field(pytree_node=False)  # by group, of its lists

    def arranged(self, rows: Int[np.ndarray, "C B"]) -> Int[np.ndarray, "Q C b"]:
        """The opponent's rows of C blocks on B boards, in the form that `__call__` takes: by chunk,
        the last one padded."""
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
        """The weights of folds and showdowns; see `ProductShowdowns`.

        Returns:
          `[Q*b, F, H, X]` and `[Q*b, S, H, X]`.
        """
        flat = reach.reshape(len(reach), -1)  # or the compiler would choose another layout

        def chunk(part):
            sums, lists, ranks, rows = part
            of_chunk = self.replace(sums=sums, lists=lists, ranks=ranks)
            return of_chunk._chunk(flat, rows, reach.shape[2], num_folds, num_showdowns)

        parts = self.sums, self.lists, self.ranks, rows
        if len(rows) == 1:
            return chunk(jax.tree.map(lambda x: x[0], parts))
        weights = jax.lax.map(chunk, parts)
        return tuple(x.reshape(-1, *x.shape[2:]) for x in weights)

    def _chunk(self, reach, rows, width, num_folds, num_showdowns):
        """The weights on the boards of one chunk."""
        (blocks, boards), hands = rows.shape, reach.shape[1] // width
        opaque_one = self.sums.short.opaque_one

        def side_by_side(reach):
            # blocks on the last axis: everything below reads and adds whole rows of them
            taken = sparse_sum.take(reach, rows)
            table = jnp.swapaxes(taken.reshape(blocks, boards * hands, width), 0, 1)
            table = table.reshape(boards * hands, blocks * width)
            return jnp.pad(table, ((0, 1), (0, 0)))  # the zero that sums of ranks are padded with

        # sums of tied hands, accumulated by rank within each list
        first, behind = (blocks - num_showdowns) * width, num_folds * width
        table = stored(side_by_side, opaque_one, reach)
        sums = self._accumulated(self.sums(table))

        def looked_up(table, sums):
            met = _difference(sums[:, :behind], self.lists)
            won = _difference(sums[:, first:], self.ranks)
            if len(self.lists) == 3:  # the same hand shares both cards: it was subtracted twice
                table = table[:-1].reshape(boards, hands, -1)
                met = met + same_hand(table[..., :behind], self.same, axis=1)
            return met, won

        def hands_last(*values):
            each = (x.reshape(*x.shape[:2], -1, width) for x in values)
            return tuple(jnp.swapaxes(x, 1, 2).reshape(-1, x.shape[1], width) for x in each)

        # each in memory before the next: fused, they would read across rows; and flat, or the
        # compiler would choose another layout
        weights = stored(hands_last, opaque_one, *stored(looked_up, opaque_one, table, sums))
        return tuple(x.reshape(boards, -1, len(self.lists[0][0]), width) for x in weights)

    def _accumulated(self, sums):
        """For each rank, the sum of the weaker ranks of its list less the sum of the stronger ones;
        and after the ranks of each group, the totals of its lists."""
        parts_of_groups = []
        for length, group in zip(self.lengths, sums, strict=True):
            # lists are so short that products are faster than loops: for a long list, a product
            # within each stretch, and one over its stretches
            stretches = int(_stretches(length))
            parts = [_product(length // stretches, group)]
            if stretches > 1:
                whole = _product(stretches, parts[0][-1])
                within = parts[0][:-1].reshape(length // stretches, stretches, -1)
                parts = [within + whole[None, :-1], whole[-1]]
            parts_of_groups += [part.reshape(-1, group.shape[-1]) for part in parts]
        return jnp.concatenate(parts_of_groups)


def _product(length, rows):
    """For each of `length` rows, the sum of those before it less the sum of those behind it; and
    the total."""
    matrix = np.tri(length + 1, length, -1) - np.tri(length, length + 1, -1).T
    matrix[-1] = 1
    rows = rows.reshape(length, -1)
    return jnp.matmul(jnp.asarray(matrix, rows.dtype), rows, precision="highest")


def _stretches(length):
    """How many stretches a list of this length has."""
    return np.where(length <= _LONGEST_SHORT, 1, length // _STRETCH)


def _place(rank, length):
    """The place of a rank in its list: the first ranks of all stretches come first, then the second
    ranks, ..."""
    within = length // _stretches(length)
    return rank % within * _stretches(length) + rank // within


def _difference(table, rows):
    """The row of all hands less the rows of each card: `[B, H, Y]`."""
    first, *others = (table.at[row].get(mode="promise_in_bounds") for row in rows)
    return first - sum(others)


def rank_showdowns(
    hands: Int[np.ndarray, "H k"],
    others: Int[np.ndarray, "G k"],
    boards: Int[np.ndarray, "B n"],
    *,
    num_blocks: int,
) -> RankShowdowns:
    """Builds the operator of a street whose boards are complete.

    Args:
      hands: the player's hands of k cards.
      others: the opponent's hands.
      boards: the boards of the street.
      num_blocks: about how many blocks of the opponent it will be called with.
    """
    both, num_others = np.concatenate([others, hands]), len(others)
    possible, lists, rank = _lists(both, boards)
    per_board = num_blocks * num_others
    chunk = len(boards) if len(boards) * per_board <= _MANY else max(1, _CHUNK // per_board)
    chunks = -(-len(boards) // chunk)

    def by_chunk(values):
        padding = ((0, chunks * chunk - len(values)), *[(0, 0)] * (values.ndim - 1))
        return np.pad(values, padding).reshape(chunks, chunk, *values.shape[1:])

    possible, lists, rank = map(by_chunk, (possible, lists, rank))
    lists = lists + np.arange(chunk)[:, None, None] * _NUM_LISTS  # numbered within the chunk
    at = np.arange(chunks)[:, None, None, None]
    # where the rank of each hand in each of its lists is: its group, its row in the group, and the
    # positions of the rank and of the list's total among the rows of all groups
    lengths = _lengths(chunk, at, lists, rank, possible)
    groups, *placed = _placed(lengths)
    weakest, step, group, total = (of_lists[at, lists] for of_lists in placed)
    row = weakest + _place(rank, np.maximum(lengths[at, lists], 1)) * step
    begin = np.cumsum([0] + [(length + 1) * count for length, count in groups])
    position = np.where(possible[..., None], row + begin[group], 0)
    total = np.where(possible[..., None], total, 0)

    def by_list(positions):
        mine = np.moveaxis(positions[:, :, num_others:], -1, 0)
        return tuple(on_device(x, np.int32) for x in mine)

    theirs = (x[:, :, :num_others] for x in (possible, row, group))
    return RankShowdowns(
        sums=_rank_sums(groups, *theirs),
        lists=by_list(total),
        ranks=by_list(position),
        same=same_hands(hands, others),
        lengths=tuple(length for length, _ in groups),
    )


def _rank_sums(groups, possible, row, group):
    """The sums of the opponent's reach into the ranks of its lists.

    Args:
      groups: lengths and numbers of lists, as in `_placed`.
      possible: `[Q, b, G]` whether the opponent can hold each hand.
      row: `[Q, b, G, 1 + k]` of the hand's rank in its group, by list.
      group: `[Q, b, G, 1 + k]` of each list.
    """
    chunks, chunk, num_hands, _ = row.shape
    num_rows = tuple(length * count for length, count in groups)
    row = row + np.cumsum((0, *num_rows))[group]
    plan = np.arange(chunks)[:, None, None, None]
    column = np.arange(chunk)[:, None, None] * num_hands + np.arange(num_hands)[:, None]
    plan, row, column = (
        np.broadcast_to(x, group.shape)[possible].ravel() for x in (plan, row, column)
    )
    return build_tied_sums(
        plan=plan,
        row=row,
        column=column,
        num_plans=chunks,
        num_rows=num_rows,
        num_columns=chunk * num_hands,
    )


def _lengths(chunk, at, lists, rank, possible):
    """The padded lengths of all lists of each chunk, `[Q, b * 53]`; 0 for empty lists."""
    lengths = np.zeros((len(at), chunk * _NUM_LISTS), np.int64)
    chunks = np.broadcast_to(at, lists.shape)
    np.maximum.at(lengths, (chunks[possible], lists[possible]), rank[possible] + 1)
    of_all_hands = lengths[:, ::_NUM_LISTS]
    of_all_hands[:] = of_all_hands.max()
    return lengths + -lengths % np.where(lengths <= _LONGEST_SHORT, _STEP, _STRETCH)


def _placed(lengths):
    """Groups lists by length, with as many lists in every chunk.

    Returns:
      Pairs of the length and number of lists of each group; and for each list, `[Q, b * 53]`: the
      row of its weakest rank in its group, the distance to the next rank, its group, and the
      position of its total among the rows of all groups, each followed by its totals.
    """
    weakest, step, group, total = np.zeros((4, *lengths.shape), np.int64)
    groups, rows = [], 0
    for length in np.unique(lengths[lengths > 0]).tolist():
        members = lengths == length
        number, count = (np.cumsum(members, axis=1) - 1)[members], members.sum(axis=1).max()
        weakest[members], step[members], group[members] = number, count, len(groups)
        rows += (length + 1) * count
        total[members] = rows - count + number
        groups.append((length, int(count)))
    return groups, weakest, step, group, total


def _lists(hands, boards):
    """Whether each hand is possible on each board, `[B, N]`; and `[B, N, 1 + k]` the lists of a
    board that it is in, 0 for that of all hands and 1 + c for card c, and its rank in each."""
    strength = np.asarray(
        _all_strengths(on_device(hands, np.int32), on_device(boards, np.int32)), np.int64
    )
    possible = unblocked_hands(hands, boards)
    rank = np.zeros((*strength.shape, 1 + hands.shape[1]), np.int64)
    for board in range(len(boards)):
        some = np.flatnonzero(possible[board])
        rank[board, some, 0] = np.unique(strength[board, some], return_inverse=True)[1]
        pairs = hands[some].astype(np.int64) * 2**32 + strength[board, some][:, None]
        values, number = np.unique(pairs, return_inverse=True)
        begin = np.searchsorted(values >> 32, hands[some])
        rank[board, some, 1:] = number.reshape(begin.shape) - begin
    lists = np.concatenate([np.zeros((len(hands), 1), np.int64), 1 + hands], axis=1)
    return possible, np.broadcast_to(lists, rank.shape), rank


@jax.jit
def _all_strengths(hands, boards):
    return jax.lax.map(lambda board: strengths(hands, board), boards, batch_size=64)
