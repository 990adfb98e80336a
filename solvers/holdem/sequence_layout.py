"""How one player's sequences are laid out: betting actions times boards times hands.

A *row* is one betting decision, action and board, with an entry for each of the player's H hands.
Hands stay side by side, so that looking up a row reads H contiguous numbers. The rows of an action
at a betting node, one for each board of its street, are a *block*. The sequence of a hand is
`row * H + hand`.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import append_axes, on_device
from jaxgames.core import record
from jaxgames.holdem.betting_tree import NO_NODE, BettingTree
from solvers.holdem.street_boards import (
    IDENTITY,
    StreetBoards,
    SuitPermutation,
    permuted_hands,
    unblocked_hands,
)
from solvers.sequence_form import sparse_sum
from solvers.sequence_form.sparse_sum import SparseSum
from solvers.sequence_form.treeplex import Group, Level, Treeplex


@record
class ParentRows:
    """Looks up each decision's parent row, the player's own action before it; 0 for hands that a
    newly dealt card makes impossible."""

    row: Array  # [N] int32, node by node for all boards
    possible: Array | None  # [B, H] 1 or 0; None: no card is dealt since the parent row

    def __call__(self, rows: Float[Array, "R H ..."]) -> Float[Array, "N H ..."]:
        """The parent's entry for each decision, from the rows of the depth above."""
        above = sparse_sum.take(rows, self.row)
        if self.possible is None:
            return above
        boards = above.reshape(-1, *self.possible.shape, *rows.shape[2:])
        return (boards * append_axes(self.possible[None], boards)).reshape(above.shape)


@record
class ChildSums:
    """Sums the values of decisions into the rows of the depth above, street by street.

    A row of a street sums over the decisions that follow on the same board and on the boards dealt
    next. There is one sum for each suit symmetry: a board that also stands for its image under the
    symmetry counts again, with the values of the permuted hands.
    """

    sums: tuple[tuple[SparseSum, ...], ...]  # by street of the rows above, then by symmetry
    hands: tuple[tuple[Array | None, ...], ...]  # [H] the hand to look up for each; None: itself
    # of each sum, the mesh axis over which its boards are sharded, or None
    axes: tuple[tuple[str | None, ...], ...] = flax.struct.field(pytree_node=False)

    def __call__(self, decisions: Float[Array, "N H ..."]) -> Float[Array, "R H ..."]:
        """The sum of the values that follow each row of the depth above."""
        by_street = []
        for street in zip(self.sums, self.hands, self.axes, strict=True):
            total = None
            for plan, hand, axis in zip(*street, strict=True):
                summed = plan(decisions)
                if axis is not None:
                    summed = jax.lax.psum(summed, axis)
                if hand is not None:
                    summed = jnp.take(summed, hand, axis=1)
                total = summed if total is None else total + summed
            by_street.append(total)
        return by_street[0] if len(by_street) == 1 else jnp.concatenate(by_street)


class HoldemLayout:
    """Numbers one player's rows level by level; block 0 is the root's.

    Args:
      betting: the betting tree.
      streets: the boards of each street.
      player: 0 or 1.
      hands: the hands `[H, k]` that the player may hold.
      dtype: of the treeplex's tables.
      axis: the mesh axis over which boards after the first are sharded; None: all are here.

    Attributes:
      treeplex: the sequences, for solvers.
      street: by block, the street of its boards.
      row: by block, its first row.
      block: by betting node, the block of the player's last action before it.
      nodes: the player's decisions in the betting tree, in the order in which they are numbered.
      first_decision: by such a node, the number of its decision on the first board.
      group_blocks: by group, its first block and the one behind its last.
    """

    def __init__(
        self,
        betting: BettingTree,
        streets: tuple[StreetBoards, ...],
        player: int,
        hands: Int[np.ndarray, "H k"],
        dtype: str,
        axis: str | None = None,
    ):
        self.betting, self.streets, self.hands, self.dtype = betting, streets, hands, dtype
        self.num_hands, self.axis = len(hands), axis
        self.possible = [
            unblocked_hands(hands, street.boards) & street.dealt[:, None] for street in streets
        ]
        self.street, self.row = [0], [0]
        self.nodes: list[int] = []
        self.first_decision: dict[int, int] = {}
        self.group_blocks: list[tuple[int, int]] = []
        self._num_rows, self._num_decisions = 1, 0

        parent, last, depth = self._own_above(player)
        below = np.zeros_like(betting.child)  # block of each action of own nodes
        levels, above = [], (0, 1)
        own = betting.actor == player
        for level in range(int(depth[own].max(initial=-1)) + 1):
            nodes = np.flatnonzero(own & (depth == level))
            block = np.where(last[nodes] < 0, 0, below[last[nodes], parent[nodes]])
            begin = len(self.row)
            levels.append(self._level(nodes, block, above, below, levels))
            above = begin, len(self.row)
        self.block = np.where(last < 0, 0, below[np.maximum(last, 0), parent])
        self.treeplex = Treeplex(
            levels=tuple(levels),
            opaque_one=on_device(1, np.int32),
            num_roots=self.num_hands,
            num_sequences=self._num_rows * self.num_hands,
            num_decisions=self._num_decisions * self.num_hands,
            row=(self.num_hands,),
        )

    def _own_above(self, player):
        """For each node: the action taken at the player's last decision before it, that decision
        (or -1), and how many decisions of the player come before it."""
        betting = self.betting
        action, last, depth = np.zeros((3, len(betting.actor)), np.int64)
        last[0] = -1
        for node in range(1, len(depth)):
            above = betting.parent[node]
            if betting.actor[above] == player:
                action[node] = np.flatnonzero(betting.child[above] == node)[0]
                last[node], depth[node] = above, depth[above] + 1
            else:
                action[node], last[node], depth[node] = action[above], last[above], depth[above]
        return action, last, depth

    def _level(self, nodes, block, above, below, levels):
        """The level of the decisions at one own depth.

        Decisions are grouped by street, street of the player's last action before them, and number
        of actions.

        Args:
          nodes: the decisions in the betting tree.
          block: of each node's last own action.
          above: the first block of the depth above, and the one behind its last.
          below: `[X, A]` the block of each action, filled in here for `nodes`.
          levels: those of smaller depths.
        """
        betting, begin = self.betting, self._num_rows
        width = (betting.child[nodes] != NO_NODE).sum(axis=1)
        kinds = np.stack([betting.street[nodes], np.array(self.street)[block], width])
        groups, entries, first = [], [], 0
        for kind in np.unique(kinds, axis=1).T:
            chosen = (kinds == kind[:, None]).all(axis=0)
            groups.append(self._group(nodes[chosen], block[chosen], *kind.tolist(), above, below))
            count = len(np.asarray(groups[-1].parent.row))
            entries.append((kind[0], kind[1], np.asarray(groups[-1].parent.row), first))
            first += count
        return Level(
            groups=tuple(groups),
            children=self._child_sums(entries, above, first),
            begin=begin,
            end=self._num_rows,
            first_group=sum(len(level.groups) for level in levels),
        )

    def _group(self, nodes, block, street, street_above, width, above, below):
        """The group of decisions of one kind; numbers their decisions and the blocks below them."""
        boards = len(self.streets[street].boards)
        first_block = len(self.row)
        for action in range(width):
            below[nodes, action] = len(self.row) + np.arange(len(nodes))
            self.row += (self._num_rows + boards * np.arange(len(nodes))).tolist()
            self.street += [street] * len(nodes)
            self._num_rows += boards * len(nodes)
        self.group_blocks.append((first_block, len(self.row)))
        first = self._num_decisions
        for number, node in enumerate(nodes.tolist()):
            self.nodes.append(node)
            self.first_decision[node] = first + number * boards
        self._num_decisions += boards * len(nodes)
        rows = np.array(self.row)[block] - self.row[above[0]]
        rows = rows[:, None] + self._board_above(street, street_above)[None]
        crossed = street != street_above
        mask = on_device(self.possible[street], self.dtype) if crossed else None
        return Group(
            parent=ParentRows(row=on_device(rows.ravel(), np.int32), possible=mask),
            decision=on_device(first * self.num_hands, np.int32),
            action=on_device(np.arange(width)[:, None], np.int32),
            uniform=on_device(np.full((width, 1), 1 / width), self.dtype),
            num_actions=width,
            num_decisions=rows.size,
        )

    def _board_above(self, street, street_above):
        """For each board of a street, its board on `street_above`, the same street or the one
        before."""
        if street == street_above:
            return np.arange(len(self.streets[street].boards))
        if street != street_above + 1:
            raise ValueError("a player has no decision on a street between two with decisions")
        return self.streets[street].parent

    def _child_sums(self, entries, above, num_columns):
        """The sums of a level into the rows of the depth above.

        Args:
          entries: of each group, its street, the street of the rows above, their rows, and its
            first column.
          above: the first block of the depth above, and the one behind its last.
          num_columns: how many decisions the level has.
        """
        streets = np.array(self.street[above[0] : above[1]])
        begins = np.array(self.row[above[0] : above[1]]) - self.row[above[0]]
        sums, hands, axes = [], [], []
        for street in np.unique(streets).tolist():
            begin = begins[streets == street].min()
            num_rows = len(self.streets[street].boards) * (streets == street).sum()
            axis = self.axis if street == 0 else None
            terms = self._terms(entries, street, axis)
            plans = []
            for terms_of_sum in terms.values():
                rows, columns = map(np.concatenate, zip(*terms_of_sum, strict=True))
                plans.append(
                    sparse_sum.build(
                        row=rows - begin,
                        columns=(columns,),
                        num_rows=int(num_rows),
                        num_columns=num_columns,
                    )
                )
            sums.append(tuple(plans))
            hands.append(tuple(self._hands_before(suits) for suits, _ in terms))
            axes.append(tuple(axis for _, axis in terms))
        return ChildSums(sums=tuple(sums), hands=tuple(hands), axes=tuple(axes))

    def _terms(self, entries, street_above, axis):
        """For each sum into rows of a street, by symmetry and mesh axis, pairs of rows and columns;
        `axis` is that of decisions on the next street's boards."""
        empty = np.zeros(0, np.int64)
        terms: dict[tuple[SuitPermutation, str | None], list] = {(IDENTITY, None): [(empty, empty)]}
        for street, above, rows, first in entries:
            if above != street_above:
                continue
            columns = first + np.arange(len(rows))
            if street == above:
                terms[IDENTITY, None].append((rows, columns))
                continue
            boards = len(self.streets[street].boards)
            for suits, which in self.streets[street].images.items():
                places = (np.arange(0, len(rows), boards)[:, None] + which[None]).ravel()
                terms.setdefault((suits, axis), []).append((rows[places], columns[places]))
        return terms

    def _hands_before(self, suits):
        """The hand that becomes each hand under a permutation of suits; None for the identity."""
        if suits == IDENTITY:
            return None
        inverse = tuple(np.argsort(suits).tolist())
        return on_device(permuted_hands(self.hands, inverse), np.int32)
