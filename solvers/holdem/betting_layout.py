"""How a player's sequences are laid out on a betting tree times boards times hands.

A *row* is one betting decision, action and board, with a number for each of the player's H hands;
hands stay side by side, so that to look up a row reads H numbers. Rows of an action at a node, one
for each board of its street, are a *block*. A sequence of the tree is `row * H + hand`.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import record
from jaxgames.holdem.betting_tree import NO_NODE, BettingTree
from solvers.holdem.boards import SAME, Street, Suits, exchanged_hands, possible
from solvers.sequence_form import sparse_sum
from solvers.sequence_form.sequence_form import expand
from solvers.sequence_form.sparse_sum import SparseSum
from solvers.sequence_form.treeplex import Group, Level, Treeplex


@record
class Above:
    """Looks up the rows of the own action before each decision, where a new board leaves hands."""

    row: Array  # [N] int32, node by node for all boards
    possible: Array | None  # [B, H] 1 or 0; None: the board is that of the action

    def __call__(self, rows: Float[Array, "R H ..."]) -> Float[Array, "N H ..."]:
        """One number for each decision, from the sequences of the depth above."""
        found = sparse_sum.take(rows, self.row)
        if self.possible is None:
            return found
        boards = found.reshape(-1, *self.possible.shape, *rows.shape[2:])
        return (boards * expand(self.possible[None], boards)).reshape(found.shape)


@record
class Below:
    """Sums decisions into the rows of the depth above: its streets one after the other.

    Sums of a street are over decisions that follow there, or on later boards; those of boards that
    stand for others also count for hands with suits exchanged.
    """

    sums: tuple[tuple[SparseSum, ...], ...]  # by street
    hands: tuple[tuple[Array | None, ...], ...]  # [H] the hand to look up for each; None: itself
    # of each sum, the mesh axis over which the boards that it is over are spread, or None
    axes: tuple[tuple[str | None, ...], ...] = flax.struct.field(pytree_node=False)

    def __call__(self, decisions: Float[Array, "N H ..."]) -> Float[Array, "R H ..."]:
        """What follows every sequence of the depth above."""
        found = []
        for street in zip(self.sums, self.hands, self.axes, strict=True):
            total = None
            for plan, hand, axis in zip(*street, strict=True):
                summed = plan(decisions)
                if axis is not None:
                    summed = jax.lax.psum(summed, axis)
                if hand is not None:
                    summed = jnp.take(summed, hand, axis=1)
                total = summed if total is None else total + summed
            found.append(total)
        return found[0] if len(found) == 1 else jnp.concatenate(found)


class Layout:
    """One player's sequences, level by level, and where everything is. Block 0 is the root's."""

    def __init__(
        self,
        betting: BettingTree,
        streets: tuple[Street, ...],
        player: int,
        hands: Int[np.ndarray, "H k"],
        dtype: str,
        axis: str | None = None,  # of the mesh over which boards after the first are spread
    ):
        self.betting, self.streets, self.hands, self.dtype = betting, streets, hands, dtype
        self.num_hands, self.axis = len(hands), axis
        self.possible = [
            possible(hands, street.boards) & street.dealt[:, None] for street in streets
        ]
        self.street, self.row = [0], [0]  # by block: of its boards, and its first row
        self.nodes: list[int] = []  # own decisions, in the order in which they are numbered
        self.first_decision: dict[int, int] = {}  # row of a node's first board among decisions
        self.group_blocks: list[tuple[int, int]] = []  # by group: its first block, and behind
        self._num_rows, self._num_decisions = 1, 0

        parent, last, depth = self._own_above(player)
        below = np.zeros_like(betting.child)  # block of each action of own nodes
        levels, above = [], (0, 1)
        own = betting.actor == player
        for level in range(int(depth[own].max(initial=-1)) + 1):
            here = np.flatnonzero(own & (depth == level))
            block = np.where(last[here] < 0, 0, below[last[here], parent[here]])
            begin = len(self.row)
            levels.append(self._level(here, block, above, below, levels))
            above = begin, len(self.row)
        # of the last own action before each node
        self.block = np.where(last < 0, 0, below[np.maximum(last, 0), parent])
        self.player = Treeplex(
            levels=tuple(levels),
            opaque_one=jnp.int32(1),
            num_roots=self.num_hands,
            num_sequences=self._num_rows * self.num_hands,
            num_decisions=self._num_decisions * self.num_hands,
            row=(self.num_hands,),
        )

    def _own_above(self, player):
        """Of each node the last own decision before it (or -1), its action there, and how many."""
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
        """Own decisions of one depth, by street, street of the action before, number of actions."""
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
            children=self._below(entries, above, first),
            begin=begin,
            end=self._num_rows,
            first_group=sum(len(found.groups) for found in levels),
        )

    def _group(self, nodes, block, street, street_above, width, above, below):
        """Decisions of one kind; the blocks below them get their numbers."""
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
        mask = jnp.asarray(self.possible[street], self.dtype) if crossed else None
        return Group(
            parent=Above(row=jnp.asarray(rows.ravel(), jnp.int32), possible=mask),
            decision=jnp.int32(first * self.num_hands),
            action=jnp.arange(width, dtype=jnp.int32)[:, None],
            uniform=jnp.full((width, 1), 1 / width, self.dtype),
            num_actions=width,
            num_decisions=rows.size,
        )

    def _board_above(self, street, street_above):
        """For each board of a street, that of an earlier one on which it is dealt."""
        if street == street_above:
            return np.arange(len(self.streets[street].boards))
        if street != street_above + 1:
            raise ValueError("a player has no decision on a street between two with decisions")
        return self.streets[street].parent

    def _below(self, entries, above, num_columns):
        """The sums of a level; `entries` are its groups: streets, rows above, first decision."""
        streets = np.array(self.street[above[0] : above[1]])
        begins = np.array(self.row[above[0] : above[1]]) - self.row[above[0]]
        sums, hands, axes = [], [], []
        for street in np.unique(streets).tolist():
            begin = begins[streets == street].min()
            num_rows = len(self.streets[street].boards) * (streets == street).sum()
            nothing = np.zeros(0, np.int64)
            spread = self.axis if street == 0 else None
            found: dict[tuple[Suits, str | None], list] = {(SAME, None): [(nothing, nothing)]}
            for here, there, rows, first in entries:
                if there != street:
                    continue
                columns = first + np.arange(len(rows))
                if here == there:
                    found[SAME, None].append((rows, columns))
                    continue
                boards = len(self.streets[here].boards)
                for suits, which in self.streets[here].images.items():
                    places = (np.arange(0, len(rows), boards)[:, None] + which[None]).ravel()
                    found.setdefault((suits, spread), []).append((rows[places], columns[places]))
            plans = []
            for entries_of_sum in found.values():
                rows, columns = map(np.concatenate, zip(*entries_of_sum, strict=True))
                plans.append(
                    sparse_sum.build(
                        row=rows - begin,
                        columns=(columns,),
                        num_rows=int(num_rows),
                        num_columns=num_columns,
                    )
                )
            sums.append(tuple(plans))
            hands.append(tuple(self._looked_up(suits) for suits, _ in found))
            axes.append(tuple(axis for _, axis in found))
        return Below(sums=tuple(sums), hands=tuple(hands), axes=tuple(axes))

    def _looked_up(self, suits):
        if suits == SAME:
            return None
        back = tuple(np.argsort(suits).tolist())
        return jnp.asarray(exchanged_hands(self.hands, back), jnp.int32)
