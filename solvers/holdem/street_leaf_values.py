"""What the ends of the first street are worth under strategies for the rest: exact values of
leaves of hold'em (Brown, Sandholm, Amos 2018), for every pair of classes of hands.

Below a leaf the expected payoff of a pair of hands is a sum over boards, and over the ways in which
the hand may end there, of both players' own reach from the leaf on: on each board two products of
matrices, of what is folded and of what is shown.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jaxgames.core import record
from jaxgames.holdem.betting_tree import FOLD, SHOWDOWN
from solvers.holdem.boards import apart
from solvers.holdem.depth_limited_street import Cut, member
from solvers.holdem.showdown_by_products import winners
from solvers.holdem.terminals import chips_won
from solvers.sequence_form import Policy, SequenceForm, pack, sweeps


@record
class LeafEnd:
    """The ends of the hand below one leaf: T folds or showdowns."""

    rows: tuple[Array, Array]  # [T] int32 each player's row, on the first board
    chips: Array  # [T] to player 0, of a showdown if it wins


@record
class Below:
    """What is below the L leaves of a cut street, to be played on B boards."""

    folds: tuple[LeafEnd, ...]  # by leaf
    showdowns: tuple[LeafEnd, ...]
    boards: Array  # [B, n] int32
    place: Array  # [B] int32 of each among the tree's boards
    weight: Array  # [B] how many boards each stands for, times their probability
    hands: tuple[Array, Array]  # [N_p, k] int32
    apart: Array  # [N_0, N_1] 1 where hands share no card
    members: tuple[Array, Array]  # [N_p, C_p] 1 where a hand is of a class
    first_street: tuple[tuple[Array, ...], tuple[Array, ...]]  # [] bool of each group of players


def below_leaves(cut: Cut) -> Below:
    """Where hands end below the leaves of a cut tree.

    Raises:
      ValueError: there are more than two streets.
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
    street, dtype = tree.streets[1], tree.public.dtype
    count = np.zeros(len(street.boards))
    for which in street.images.values():
        np.add.at(count, which, 1)

    def ends(kind):
        return tuple(
            _ends(tree, np.flatnonzero((betting.actor == kind) & (leaf == place)))
            for place in range(len(cut.leaves))
        )

    return Below(
        folds=ends(FOLD),
        showdowns=ends(SHOWDOWN),
        boards=jnp.asarray(street.boards, jnp.int32),
        place=jnp.arange(len(street.boards), dtype=jnp.int32),
        weight=jnp.asarray(count * street.probability * tree.streets[0].probability, dtype),
        hands=tuple(jnp.asarray(hands, jnp.int32) for hands in tree.hands),
        apart=jnp.asarray(apart(*tree.hands), dtype),
        members=tuple(jnp.asarray(member(of_hand), dtype) for of_hand in cut.classes),
        first_street=tuple(
            tuple(jnp.asarray(layout.street[first] == 0) for first, _ in layout.group_blocks)
            for layout in tree.layouts
        ),
    )


def sampled(below: Below, key: Key[Array, ""], count: int) -> Below:
    """The same on so many boards only, drawn by their probability: rollouts, for all hands alike.

    Values on them are those on all, on average.
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
    rows = [np.array(layout.row)[layout.block[nodes]] for layout in tree.layouts]
    chips = [chips_won(tree.betting, node, 0) for node in nodes.tolist()]
    return LeafEnd(
        rows=tuple(jnp.asarray(row, jnp.int32) for row in rows),
        chips=jnp.asarray(chips, tree.public.dtype),
    )


@jax.jit
def values(below: Below, tree: SequenceForm, policy: Policy) -> Float[Array, "L C0 C1"]:
    """Payoffs to player 0 from each leaf on, when both follow `policy`, summed over the pairs of
    hands of each pair of classes."""
    reaches = [
        sweeps.reach(player, _from_leaves(tables, first), _ones(tree, p))
        for p, (player, tables, first) in enumerate(
            zip(tree.treeplexes, pack(tree, policy), below.first_street, strict=True)
        )
    ]

    def on_board(total, board):
        place, cards, weight = board
        won = winners(*below.hands, cards[None], dtype=tree.dtype.name)[0].T

        def of_pairs(end, table):
            first, second = (
                reach[rows + place] for reach, rows in zip(reaches, end.rows, strict=True)
            )
            first = first * end.chips[:, None]
            return table * jnp.einsum("th,tg->hg", first, second, precision="highest")

        found = [
            of_pairs(fold, below.apart) + of_pairs(show, won)
            for fold, show in zip(below.folds, below.showdowns, strict=True)
        ]
        summed = jnp.einsum("lhg,hc,gd->lcd", jnp.stack(found), *below.members, precision="highest")
        return total + weight * summed, None

    counts = [table.shape[1] for table in below.members]
    start = jnp.zeros((len(below.folds), *counts), tree.dtype)
    return jax.lax.scan(on_board, start, (below.place, below.boards, below.weight))[0]


def _from_leaves(tables, first_street):
    """The policy with 1 for all actions of the first street."""
    return tuple(
        jnp.where(first, 1, table) for table, first in zip(tables, first_street, strict=True)
    )


def _ones(tree, player):
    return jnp.ones(tree.treeplexes[player].num_roots, tree.dtype)
