"""The first street of a hold'em tree as a depth-limited subgame (Brown, Sandholm, Amos 2018).

A leaf is a point where the first street ends and cards would be dealt. There each player with more
than one choice decides among strategies for the rest of the hand, in each of its information states
and unseen by the opponent. Hands that a suit symmetry maps to each other play alike before the
deal, so they form one *class*, and the value of a leaf is a table of pairs of classes: the sums
over all their pairs of hands.

`cut_street` builds it, `DepthLimitedStreet.with_values` is the game with given leaf values, and
`DepthLimitedStreet.embed` puts its policy into one of the whole tree. `docs/depth_limited.md` has a
program.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import CHANCE, record
from jaxgames.holdem.action_translation import counterparts
from jaxgames.holdem.betting_tree import FOLD, NO_NODE, SHOWDOWN, BettingTree
from solvers.holdem.hand_classes import hand_classes, pair_sums
from solvers.holdem.sequence_layout import HoldemLayout
from solvers.holdem.showdown_by_products import expected_winners
from solvers.holdem.street_boards import IDENTITY, StreetBoards, disjoint_hands
from solvers.holdem.subgame_below import PartPolicy, embed_policy
from solvers.holdem.subgame_tree import HoldemTree
from solvers.holdem.terminal_payoffs import chips_won
from solvers.sequence_form import Policy, SequenceForm, sparse_sum
from solvers.sequence_form.sparse_sum import SparseSum
from solvers.sequence_form.treeplex import Blocks, split


@record
class LeafTerminals:
    """The T terminals of the depth-limited street, for a player with C classes of hands against an
    opponent with G classes."""

    payoffs: Array  # [T, C_0, C_1] to player 0, summed over pairs of hands
    rows: Array  # [T] int32 row of the opponent's last action
    followed: SparseSum  # terminals -> the player's own rows
    blocks: Blocks = flax.struct.field(pytree_node=False)
    player: int = flax.struct.field(pytree_node=False)

    def __call__(self, reach: Float[Array, "Q G ..."]) -> tuple[Float[Array, "_ _ C ..."], ...]:
        """Payoffs of the root `[1, C, ...]`, then by group (see `sequence_form.Terminals`)."""
        others = sparse_sum.take(reach, self.rows)
        if self.player == 0:
            payoffs = jnp.einsum("tcg,tg...->tc...", self.payoffs, others, precision="highest")
        else:
            payoffs = -jnp.einsum("tgc,tg...->tc...", self.payoffs, others, precision="highest")
        return split(self.followed(payoffs), self.blocks)


@dataclasses.dataclass(frozen=True)
class DepthLimitedStreet:
    """The first street of a hold'em tree, with L leaves and C_p classes of hands of player p; see
    `cut_street`."""

    tree: HoldemTree
    choices: tuple[int, int]  # strategies to choose from at leaves, by player
    nodes: Int[np.ndarray, " X"]  # of the tree's betting on the first street, in order
    ends: Int[np.ndarray, " E"]  # of these, folds and showdowns
    leaves: Int[np.ndarray, " L"]  # of these, deals
    classes: tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]  # [N_p] class of each hand
    layouts: tuple[HoldemLayout, HoldemLayout]  # `nodes`, then the player's own choices
    sequence_form: SequenceForm  # in which the values of leaves are 0

    @property
    def num_classes(self) -> tuple[int, int]:
        """C_0 and C_1."""
        first, second = (int(of_hand.max()) + 1 for of_hand in self.classes)
        return first, second

    def with_values(self, values: Float[Array, "L n0 n1 C0 C1"]) -> SequenceForm:
        """The depth-limited game with these values of leaves; pure.

        Args:
          values: payoffs to player 0 by leaf, both players' choices, and pair of classes.

        Raises:
          ValueError: the shape of `values` does not fit.
        """
        shape = (len(self.leaves), *self.choices, *self.num_classes)
        if values.shape != shape:
            raise ValueError(f"values have shape {values.shape}, must be {shape}")
        values = values.reshape(-1, *self.num_classes).astype(self.sequence_form.dtype)
        terminals = self.sequence_form.terminals
        payoffs = terminals[0].payoffs.at[len(self.ends) :].set(values)
        return self.sequence_form.replace(
            terminals=tuple(of_player.replace(payoffs=payoffs) for of_player in terminals)
        )

    def end_values(
        self, node: int, values: Float[Array, "L n0 n1 C0 C1"]
    ) -> Float[Array, "n0 n1 C0 C1"]:
        """The payoffs to player 0 at a leaf, or at another end of the street.

        Args:
          node: of the tree's betting.
          values: those of leaves, as in `with_values`.

        Raises:
          ValueError: the node is neither a leaf nor an end of the first street.
        """
        if node in self.leaves:
            return values[np.searchsorted(self.leaves, node)]
        at = np.flatnonzero(self.ends == node)
        if not len(at):
            raise ValueError(f"node={node} is no end of the first street")
        return jnp.broadcast_to(self.sequence_form.terminals[0].payoffs[at[0]], values.shape[1:])

    def leaf_rows(self, player: int) -> Int[np.ndarray, "L n"]:
        """The row of a player's choice at each leaf; with one choice, of its last action before."""
        layout = self.layouts[player]
        last = _choice_nodes(self.nodes, self.leaves, self.choices[player])
        return np.array(layout.row)[layout.block[last]]

    def of_classes(self, values: Float[Array, "*B N"], player: int) -> Float[Array, "*B C"]:
        """Sums of the values of a player's hands over each of its classes."""
        sums = jnp.zeros((*values.shape[:-1], self.num_classes[player]), values.dtype)
        return sums.at[..., self.classes[player]].add(values)

    def of_hands(self, values: Float[Array, "*B C"], player: int) -> Float[Array, "*B N"]:
        """The values of a player's classes, divided equally among their hands."""
        share = values / np.broadcast_to(self.sizes[player], values.shape)
        return share[..., self.classes[player]]

    @functools.cached_property
    def sizes(self) -> tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]:
        """The number of hands of each class, by player."""
        first, second = (np.bincount(of_hand).astype(float) for of_hand in self.classes)
        return first, second

    def embed(self, policy: PartPolicy, whole: Policy) -> Policy:
        """Policies of the tree that are `policy` on its first street, and `whole` elsewhere."""
        return embed_policy(self._decisions, policy, whole)

    @functools.cached_property
    def _decisions(self):
        """By player: decisions of the tree's first street, and those of their classes here."""
        pairs = []
        for player in range(2):
            of_hand, count = self.classes[player], self.num_classes[player]
            inner, outer = self.layouts[player], self.tree.layouts[player]
            into, of = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
            actor = self.tree.betting.actor[self.nodes]
            for node in np.flatnonzero(actor == player).tolist():
                whole_node = int(self.nodes[node])
                into.append(
                    outer.first_decision[whole_node] * len(of_hand) + np.arange(len(of_hand))
                )
                of.append(inner.first_decision[node] * count + of_hand)
            pairs.append((np.concatenate(into), np.concatenate(of)))
        return tuple(pairs)


def cut_street(tree: HoldemTree, *, choices: tuple[int, int]) -> DepthLimitedStreet:
    """Cuts a tree where its first street ends.

    Args:
      tree: a tree with at least two streets.
      choices: among how many strategies each player chooses at a leaf.

    Returns:
      The depth-limited street; its leaves have the value 0 until `with_values` is called.

    Raises:
      ValueError: the tree has one street, a player has less than one choice, or a range has weights
        other than 1, which the cut game would not know.
    """
    if not tree.deals:
        raise ValueError("the tree has one street, must have a later one")
    if min(choices) < 1:
        raise ValueError(f"choices={choices} must be at least 1 each")
    for player, weights in enumerate(tree.ranges):
        if np.any(weights != 1):
            raise ValueError(
                f"player {player}'s range has a hand of weight {weights[weights != 1][0]:g}; trees"
                " whose street is cut must have the weight 1 for all hands"
            )
    classes = tuple(hand_classes(hands, tree.streets[0].symmetries[0]) for hands in tree.hands)
    nodes = np.flatnonzero(tree.betting.street == 0)  # deals included
    actor = tree.betting.actor[nodes]
    ends, leaves = nodes[(actor == FOLD) | (actor == SHOWDOWN)], leaves_of(tree.betting)
    dtype, street = tree.sequence_form.dtype.name, _one_board(tree.streets[0].probability)
    bettings = [_cut_betting(tree.betting, nodes, p, choices[p]) for p in range(2)]
    layouts = tuple(
        HoldemLayout(betting, (street,), p, np.arange(classes[p].max() + 1)[:, None], dtype)
        for p, betting in enumerate(bettings)
    )
    # terminals are the ends, then every pair of choices at every leaf
    payoffs = _end_payoffs(tree, classes, ends)
    payoffs = np.pad(payoffs, ((0, len(leaves) * math.prod(choices)), (0, 0), (0, 0)))
    last = _last_nodes(nodes, ends, leaves, choices)
    sequence_form = SequenceForm(
        treeplexes=tuple(layout.treeplex for layout in layouts),
        terminals=tuple(
            _leaf_terminals(layouts, p, last, jnp.asarray(payoffs, dtype)) for p in range(2)
        ),
        num_actions=max(betting.child.shape[1] for betting in bettings),
        game=f"first street of {tree.sequence_form.game}",
        dtype=tree.sequence_form.dtype,
    )
    return DepthLimitedStreet(
        tree=tree,
        choices=choices,
        nodes=nodes,
        ends=ends,
        leaves=leaves,
        classes=classes,
        layouts=layouts,
        sequence_form=sequence_form,
    )


def leaves_of(betting: BettingTree) -> Int[np.ndarray, " L"]:
    """The nodes at which the second street is dealt."""
    return np.flatnonzero((betting.actor == CHANCE) & (betting.street == 0))


def transferred_leaf_values(
    cut: DepthLimitedStreet,
    known: DepthLimitedStreet,
    values: Float[Array, "L n0 n1 C0 C1"],
    starts: Mapping[int, float],
) -> Float[Array, "_ n0 n1 C0 C1"]:
    """Values of leaves, transferred from another tree by action translation (Brown, Sandholm, Amos
    2018, section 6.1).

    Args:
      cut: the street whose leaves need values.
      known: the street with known values.
      values: those of the leaves of `known`.
      starts: nodes of the known betting tree that the root of `cut` is translated to, with their
        probabilities; see `counterparts`.

    Returns:
      The mean of the values of each leaf's counterparts, `[L', n0, n1, C0, C1]`.

    Raises:
      ValueError: a leaf's counterpart is no end of the known street.
    """
    total = 0.0
    for start, weight in starts.items():
        nodes = counterparts(cut.tree.betting, known.tree.betting, start)[cut.leaves].tolist()
        total = total + weight * jnp.stack([known.end_values(node, values) for node in nodes])
    return total


def _cut_betting(betting, nodes, player, count):
    """The betting tree of the first street, with `count` choices of one player at each leaf."""
    number = np.full(len(betting.actor) + 1, NO_NODE)  # the last entry is for NO_NODE
    number[nodes] = np.arange(len(nodes))
    actor, child = betting.actor[nodes], number[betting.child[nodes]]
    dealt = np.flatnonzero(actor == CHANCE)
    actor[dealt], child[dealt] = SHOWDOWN, NO_NODE
    parent, whole = number[betting.parent[nodes]], nodes
    if count > 1:
        chosen = len(nodes) + np.arange(len(dealt) * count).reshape(-1, count)
        wide = max(child.shape[1], count)
        child = np.pad(
            child, ((0, chosen.size), (0, wide - child.shape[1])), constant_values=NO_NODE
        )
        child[dealt, :count] = chosen
        actor[dealt] = player
        actor = np.append(actor, np.full(chosen.size, SHOWDOWN))
        parent = np.append(parent, np.repeat(dealt, count))
        whole = np.append(nodes, np.repeat(nodes[dealt], count))
    return BettingTree(
        actor=actor,
        street=np.zeros(len(actor), int),
        parent=parent,
        child=child,
        paid=betting.paid[whole],
        pot=betting.pot,
        num_streets=1,
        actions=tuple(() for _ in actor),
        abstraction=None,
    )


def _last_nodes(nodes, ends, leaves, choices):
    """For each player, the node of each terminal in its betting tree, `[T]`: of the ends, then of
    every pair of choices at every leaf."""
    leaf, *choice = np.indices((len(leaves), *choices)).reshape(3, -1)
    return tuple(
        np.append(
            np.searchsorted(nodes, ends),
            _choice_nodes(nodes, leaves, choices[player])[leaf, choice[player]],
        )
        for player in range(2)
    )


def _choice_nodes(nodes, leaves, count):
    """The node of each choice at each leaf in the tree of `_cut_betting`, `[L, count]`."""
    if count == 1:
        return np.searchsorted(nodes, leaves)[:, None]
    return len(nodes) + np.arange(len(leaves) * count).reshape(-1, count)


def _one_board(probability):
    """A street with the one board that it begins with; cards do not matter."""
    first = np.zeros(1, np.int64)
    return StreetBoards(
        boards=np.zeros((1, 0), np.int64),
        parent=first,
        images={IDENTITY: first},
        probability=probability,
        symmetries=((IDENTITY,),),
        dealt=np.ones(1, bool),
    )


def _end_payoffs(tree, classes, ends):
    """Payoffs to player 0 at folds and all-in showdowns, `[E, C_0, C_1]`."""
    betting, (first, second) = tree.betting, tree.hands
    met = pair_sums(disjoint_hands(first, second).astype(float), classes)
    is_showdown = betting.actor[ends] == SHOWDOWN
    won = None
    if is_showdown.any():
        matrix = expected_winners(
            first,
            second,
            tree.streets[0].boards,
            deck=tree.deck,
            deals=tree.deals,
            dtype=tree.sequence_form.dtype.name,
        )
        won = pair_sums(np.asarray(matrix[0], float).T, classes)
    payoffs = [
        chips_won(betting, node, 0) * (won if shown else met)
        for node, shown in zip(ends.tolist(), is_showdown.tolist(), strict=True)
    ]
    return tree.streets[0].probability * np.array(payoffs).reshape(len(ends), *met.shape)


def _leaf_terminals(layouts, player, last, payoffs):
    """The terminals for one player; `last` is the node of each terminal in either player's tree."""
    mine, others = (
        np.array(layouts[p].row)[layouts[p].block[last[p]]] for p in (player, 1 - player)
    )
    return LeafTerminals(
        payoffs=payoffs,
        rows=jnp.asarray(others, jnp.int32),
        followed=sparse_sum.build(
            row=mine,
            columns=(np.arange(len(mine)),),
            num_rows=layouts[player].treeplex.num_sequences // layouts[player].num_hands,
            num_columns=len(mine),
        ),
        blocks=layouts[player].treeplex.blocks,
        player=player,
    )
