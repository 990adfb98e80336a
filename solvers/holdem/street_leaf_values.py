"""Exact values of the leaves of a depth-limited street under strategies for the rest of the hand
(Brown, Sandholm, Amos 2018), for every pair of classes of hands.

Below a leaf, the expected payoff of a pair of hands is a sum over boards and over the ways in which
the hand may end there, of both players' own reach from the leaf on. It is computed for all pairs at
once: on each board by two products of matrices, for folds and for showdowns.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jaxgames.core import record
from jaxgames.holdem.betting_tree import FOLD, SHOWDOWN
from solvers.holdem.depth_limited_street import DepthLimitedStreet
from solvers.holdem.hand_classes import class_members
from solvers.holdem.showdown_by_products import winners
from solvers.holdem.street_boards import disjoint_hands
from solvers.holdem.terminal_payoffs import chips_won
from solvers.sequence_form import Policy, SequenceForm, pack, sweeps


@record
class LeafEnds:
    """The T folds, or the T showdowns, below one leaf."""

    rows: tuple[Array, Array]  # [T] int32 each player's last row before them, on the first board
    chips: Array  # [T] to player 0; at showdowns, if it wins


@record
class BelowLeaves:
    """What follows the L leaves of a depth-limited street, on B boards."""

    folds: tuple[LeafEnds, ...]  # by leaf
    showdowns: tuple[LeafEnds, ...]
    boards: Array  # [B, n] int32
    place: Array  # [B] int32 each board's place among the tree's boards
    weight: Array  # [B] the number of boards that each stands for, times their probability
    hands: tuple[Array, Array]  # [N_p, k] int32
    disjoint: Array  # [N_0, N_1] 1 where hands share no card
    members: tuple[Array, Array]  # [N_p, C_p] 1 where a hand is of a class
    # [] bool by player and group of its treeplex: whether its decisions are on the first street
    first_street: tuple[tuple[Array, ...], tuple[Array, ...]]


def below_leaves(cut: DepthLimitedStreet) -> BelowLeaves:
    """Collects what follows the leaves of a depth-limited street.

    Args:
      cut: the street, of a tree with two streets.

    Returns:
      The ends below each leaf and the boards of the second street, for `leaf_values`.

    Raises:
      ValueError: the tree does not have two streets.
    """
    tree, betting = cut.tree, cut.tree.betting
    if betting.num_streets != 2:
        raise ValueError(
            f"the tree has {betting.num_streets} streets: leaf values are for the last of two"
        )
    leaf = np.full(len(betting.actor), -1)
    leaf[cut.leaves] = np.arange(len(cut.leaves))
    for node in np.flatnonzero(betting.street == 1).tolist():
        leaf[node] = leaf[betting.parent[node]]
    street, dtype = tree.streets[1], tree.sequence_form.dtype
    count = np.zeros(len(street.boards))
    for which in street.images.values():
        np.add.at(count, which, 1)

    def ends(kind):
        return tuple(
            _ends(tree, np.flatnonzero((betting.actor == kind) & (leaf == place)))
            for place in range(len(cut.leaves))
        )

    return BelowLeaves(
        folds=ends(FOLD),
        showdowns=ends(SHOWDOWN),
        boards=jnp.asarray(street.boards, jnp.int32),
        place=jnp.arange(len(street.boards), dtype=jnp.int32),
        weight=jnp.asarray(count * street.probability * tree.streets[0].probability, dtype),
        hands=tuple(jnp.asarray(hands, jnp.int32) for hands in tree.hands),
        disjoint=jnp.asarray(disjoint_hands(*tree.hands), dtype),
        members=tuple(jnp.asarray(class_members(of_hand), dtype) for of_hand in cut.classes),
        first_street=tuple(
            tuple(jnp.asarray(layout.street[first] == 0) for first, _ in layout.group_blocks)
            for layout in tree.layouts
        ),
    )


def sampled_boards(below: BelowLeaves, key: Key[Array, ""], count: int) -> BelowLeaves:
    """Replaces the boards by `count` boards drawn by their probability: rollouts for all hands on
    the same boards.

    Args:
      below: what follows the leaves, on all boards.
      key: consumed.
      count: how many boards are drawn, with replacement.

    Returns:
      The same on the drawn boards, whose leaf values are unbiased estimates of those on all boards.
    """
    drawn = jax.random.choice(
        key, len(below.boards), (count,), p=below.weight / jnp.sum(below.weight)
    )
    total = jnp.sum(below.weight) / count
    return below.replace(
        boards=below.boards[drawn],
        place=below.place[drawn],
        weight=jnp.broadcast_to(total, (count,)),
    )


def _ends(tree, nodes):
    """The ends at these betting nodes."""
    rows = [np.array(layout.row)[layout.block[nodes]] for layout in tree.layouts]
    chips = [chips_won(tree.betting, node, 0) for node in nodes.tolist()]
    return LeafEnds(
        rows=tuple(jnp.asarray(row, jnp.int32) for row in rows),
        chips=jnp.asarray(chips, tree.sequence_form.dtype),
    )


@jax.jit
def leaf_values(below: BelowLeaves, tree: SequenceForm, policy: Policy) -> Float[Array, "L C0 C1"]:
    """Values of leaves if both players follow a policy from there on.

    Args:
      below: what follows the leaves.
      tree: the whole tree's sequence form.
      policy: of the whole tree; only its part below the leaves matters.

    Returns:
      Payoffs to player 0, summed over the pairs of hands of each pair of classes.
    """
    # both players' own reach of the last rows, as if all actions before the leaves were certain
    reaches = [
        sweeps.reach(treeplex, _from_leaves(tables, first), _ones(tree, p))
        for p, (treeplex, tables, first) in enumerate(
            zip(tree.treeplexes, pack(tree, policy), below.first_street, strict=True)
        )
    ]

    def on_board(total, board):
        place, cards, weight = board
        won = winners(*below.hands, cards[None], dtype=tree.dtype.name)[0].T

        def of_pairs(end, table):
            """Payoffs of all pairs of hands at one kind of ends below a leaf, `[N_0, N_1]`."""
            first, second = (
                reach[rows + place] for reach, rows in zip(reaches, end.rows, strict=True)
            )
            first = first * end.chips[:, None]
            return table * jnp.einsum("th,tg->hg", first, second, precision="highest")

        by_leaf = [
            of_pairs(folds, below.disjoint) + of_pairs(showdowns, won)
            for folds, showdowns in zip(below.folds, below.showdowns, strict=True)
        ]
        summed = jnp.einsum(
            "lhg,hc,gd->lcd", jnp.stack(by_leaf), *below.members, precision="highest"
        )
        return total + weight * summed, None

    counts = [table.shape[1] for table in below.members]
    start = jnp.zeros((len(below.folds), *counts), tree.dtype)
    return jax.lax.scan(on_board, start, (below.place, below.boards, below.weight))[0]


def _from_leaves(tables, first_street):
    """The policy with probability 1 for all actions of the first street."""
    return tuple(
        jnp.where(first, 1, table) for table, first in zip(tables, first_street, strict=True)
    )


def _ones(tree, player):
    return jnp.ones(tree.treeplexes[player].num_roots, tree.dtype)
