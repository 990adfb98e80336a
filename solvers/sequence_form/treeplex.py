"""Treeplexes: one player's sequences, laid out for the sweeps.

A *sequence* of a player is its last own action together with the information state in which it was
taken; before any own action it is a root sequence. With perfect recall it determines the player's
whole past, so the player's own reach is one number per sequence, in whichever public state.
Sequences are laid out by own depth (the number of own actions before), and within a depth by the
number of legal actions, so that both sweeps of CFR are a short fixed list of vectorised steps.
`docs/performance.md` says why this layout was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import flax.struct
import numpy as np
from jaxtyping import Array, Bool, Int, Num

from jaxgames.arrays import on_device
from jaxgames.core import record
from jaxgames.game_tree import GameTree, levels
from solvers.sequence_form import sparse_sum
from solvers.sequence_form.sparse_sum import Gather, SparseSum, stored

NO_ACTION = -1
# First row, number of actions A and of decisions n: of the root (A = 1), then of each group.
Blocks = tuple[tuple[int, int, int], ...]
_GROUP_COST = 300  # one more group of decisions costs as much as this many padded slots


@record
class Group:
    """n rows of decisions of one player at one own depth, with A slots for their legal actions.

    A row is one decision; or H decisions, one for each hand (see `Treeplex.row`).
    """

    # rows of sequences of the depth above -> rows of the parent sequences `[n, *row, ...]`
    parent: Callable[[Array], Array]
    # [n] int32 number of each row's information state; [] number of the first, if they are in order
    decision: Array
    action: Array  # [A, n] or [A, 1] int32 action of each slot, NO_ACTION at padding
    uniform: Array  # [A, n] or [A, 1] the uniform policy, 0 at padding
    num_actions: int = flax.struct.field(pytree_node=False)  # A
    num_decisions: int = flax.struct.field(pytree_node=False)  # n


@record
class ChildSums:
    """The `Level.children` of an explicit tree: a sum over the decisions that follow a sequence."""

    sums: SparseSum

    def __call__(self, decisions: Num[Array, "n ..."]) -> Num[Array, "_ ..."]:
        """See `Level.children`. The sums are stored, so that they are computed once."""
        return stored(lambda rows: self.sums(rows), self.sums.opaque_one, decisions)


@record
class Level:
    """The decisions of one own depth; their sequences are the rows `begin:end`."""

    groups: tuple[Group, ...]
    # rows of decisions of this depth -> for each sequence of the depth above, the sum of the
    # decisions that follow it
    children: Callable[[Array], Array]
    begin: int = flax.struct.field(pytree_node=False)
    end: int = flax.struct.field(pytree_node=False)
    first_group: int = flax.struct.field(pytree_node=False)


@record
class Treeplex:
    """One player's sequences: the R root sequences first, then depth by depth, Q in all.

    Arrays of sequences and of decisions have one row for each; or, in hold'em, one row for each H
    that differ in the hand only. Groups and levels count rows.
    """

    levels: tuple[Level, ...]
    opaque_one: Array  # [] int32 1, which the compiler must not know; see `sparse_sum.stored`
    num_roots: int = flax.struct.field(pytree_node=False)  # R
    num_sequences: int = flax.struct.field(pytree_node=False)  # Q, padding included
    num_decisions: int = flax.struct.field(pytree_node=False)  # D
    row: tuple[int, ...] = flax.struct.field(pytree_node=False, default=())  # its shape: () or (H,)

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, in order of depth."""
        return tuple(group for level in self.levels for group in level.groups)

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return sum(len(level.groups) for level in self.levels)

    @property
    def num_root_rows(self) -> int:
        """Number of rows of the root sequences."""
        return self.num_roots // math.prod(self.row)

    @property
    def blocks(self) -> Blocks:
        """Where the rows of the root and of each group are, for `split`."""
        blocks = [(0, 1, self.num_root_rows)]
        for level in self.levels:
            begin = level.begin
            for group in level.groups:
                blocks.append((begin, group.num_actions, group.num_decisions))
                begin += group.num_actions * group.num_decisions
        return tuple(blocks)


def split(rows: Num[Array, "_ ..."], blocks: Blocks) -> tuple[Num[Array, "..."], ...]:
    """Rows of all sequences as those of the root `[r, ...]` and by group `[A_g, n_g, ...]`."""
    root, *groups = (
        rows[begin : begin + width * count].reshape(width, count, *rows.shape[1:])
        for begin, width, count in blocks
    )
    return root[0], *groups


class Layout:
    """Lays out the sequences of one player of an explicit tree with H histories.

    Sequences have two numberings. The raw number of a root sequence is 0 to R - 1, and of an action
    of a decision R + decision * A + action. Rows are the places of the layout.

    Attributes:
      last: [H] raw number of the player's last sequence at each history.
      rows: row of each raw number.
      treeplex: the result.
    """

    def __init__(self, tree: GameTree, player: int, root: int, inside: np.ndarray, dtype: np.dtype):
        """`inside` are the histories [H] bool at or below public state `root`."""
        states = tree.information_state[:, player]
        self.root_states = np.unique(states[tree.public_state == root])
        self.num_roots = len(self.root_states)
        decides = np.zeros(tree.num_decisions[player], bool)
        decides[states[inside & (tree.actor == player)]] = True
        self.last = self._last_sequences(tree, player, root, decides)
        decisions = np.flatnonzero(decides)
        parent = np.zeros(len(decides), np.int64)
        parent[decisions] = self.last[first_inside(states, inside, decisions)]
        depth = self._own_depth(parent, decides, tree.num_actions)
        self.rows = np.zeros(self.num_roots + decides.size * tree.num_actions, np.int64)
        self.rows[: self.num_roots] = np.arange(self.num_roots)
        self.treeplex = self._treeplex(depth, tree.legal_actions(player), parent, dtype)

    def _last_sequences(self, tree, player, root, decides):
        """See `last`; `decides` [D] are the decisions of the player below the root."""
        states = tree.information_state[:, player]
        last = np.zeros(tree.num_histories, np.int64)
        at_root = tree.public_state == root
        last[at_root] = np.searchsorted(self.root_states, states[at_root])
        own = self.num_roots + states.astype(np.int64) * tree.num_actions
        for rows in levels(tree.parent):
            above = tree.parent[rows]
            is_decision = np.append(decides, False)[np.minimum(states[above], len(decides))]
            acted = (tree.actor[above] == player) & is_decision
            inherited = np.where(acted, own[above] + tree.parent_action[rows], last[above])
            last[rows] = np.where(at_root[rows], last[rows], inherited)
        return last

    def _treeplex(self, depth, legal, parent, dtype):
        """The treeplex, of decisions [D] with own depths, legal actions and raw parents."""
        levels, begin, first_group = [], self.num_roots, 0
        above = (0, self.num_roots)
        for d in range(depth.max(initial=-1) + 1):
            at_depth = np.flatnonzero(depth == d)
            members = group_by_num_actions(at_depth, legal[at_depth].sum(axis=1))
            groups, end = [], begin
            for decisions in members:
                groups.append(self._group(decisions, legal, parent, above[0], end, dtype))
                end += groups[-1].num_actions * groups[-1].num_decisions
            parents = self.rows[parent[np.concatenate(members)]] - above[0]
            children = sparse_sum.build(
                row=parents,
                columns=(np.arange(len(parents)),),
                num_rows=above[1] - above[0],
                num_columns=len(parents),
            )
            levels.append(
                Level(
                    groups=tuple(groups),
                    children=ChildSums(sums=children),
                    begin=begin,
                    end=end,
                    first_group=first_group,
                )
            )
            above, begin, first_group = (begin, end), end, first_group + len(groups)
        return Treeplex(
            levels=tuple(levels),
            opaque_one=on_device(1, np.int32),
            num_roots=self.num_roots,
            num_sequences=begin,
            num_decisions=len(depth),
        )

    def _own_depth(self, parent, decides, num_actions):
        """How many own decisions come before each decision [D]; -1 for those outside."""
        depth = np.where(decides, 0, -1)
        above = (parent - self.num_roots) // num_actions
        deeper = decides & (parent >= self.num_roots)
        while True:
            updated = np.where(deeper, depth[np.where(deeper, above, 0)] + 1, depth)
            if (updated == depth).all():
                return depth
            depth = updated

    def _group(self, decisions, legal, parent, above, first, dtype):
        """Decisions as a group; rows begin at `first`, those of the level above at `above`."""
        width = int(legal[decisions].sum(axis=1).max())
        slots = np.argsort(~legal[decisions], axis=1, kind="stable")[:, :width].T  # [A, n]
        allowed = np.take_along_axis(legal[decisions], slots.T, axis=1).T
        rows = first + np.arange(slots.size).reshape(slots.shape)
        raw = self.num_roots + decisions[None, :] * legal.shape[1] + slots
        self.rows[raw[allowed]] = rows[allowed]
        return Group(
            parent=Gather(index=on_device(self.rows[parent[decisions]] - above, np.int32)),
            decision=on_device(decisions, np.int32),
            action=on_device(np.where(allowed, slots, NO_ACTION), np.int32),
            uniform=on_device(allowed / allowed.sum(axis=0), dtype),
            num_actions=width,
            num_decisions=len(decisions),
        )


def group_by_num_actions(
    decisions: Int[np.ndarray, " n"], num_actions: Int[np.ndarray, " n"]
) -> list[Int[np.ndarray, " _"]]:
    """Splits decisions by their numbers of actions into few groups with little padding.

    A group costs its slots, padding included, plus `_GROUP_COST`. The cheapest split is found by
    dynamic programming over the distinct numbers of actions, largest first.

    Args:
      decisions: their numbers.
      num_actions: of each decision.

    Returns:
      The decisions of each group, those with the most actions first.
    """
    counts, sizes = np.unique(num_actions, return_counts=True)
    counts, sizes = counts[::-1], sizes[::-1]
    best, cut = [0.0], []
    for end in range(1, len(counts) + 1):
        costs = [
            best[begin] + _GROUP_COST + counts[begin] * sizes[begin:end].sum()
            for begin in range(end)
        ]
        cut.append(int(np.argmin(costs)))
        best.append(min(costs))
    groups, end = [], len(counts)
    while end:
        begin = cut[end - 1]
        widest_first = [decisions[num_actions == count] for count in counts[begin:end]]
        groups.insert(0, np.concatenate(widest_first))
        end = begin
    return groups


def first_inside(
    states: Int[np.ndarray, " H"], inside: Bool[np.ndarray, " H"], wanted: Int[np.ndarray, " W"]
) -> Int[np.ndarray, " W"]:
    """The first history inside of each wanted information state.

    Args:
      states: a player's information state at each history.
      inside: which histories count.
      wanted: information states, each with a history inside.
    """
    histories = np.flatnonzero(inside)[::-1]
    first = np.zeros(states.max() + 1, np.int64)
    first[states[histories]] = histories
    return first[wanted]
