"""Hold'em cut where the first street ends: depth-limited subgames (Brown, Sandholm, Amos 2018).

    >>> import jax.numpy as jnp
    >>> from jaxgames.holdem.bet_sizes import Sizes
    >>> from jaxgames.holdem.betting import build_betting_tree
    >>> from jaxgames.holdem.cards import parse_cards
    >>> from jaxgames.holdem.ranges import parse_range
    >>> from solvers import cfr
    >>> from solvers.holdem.depth_limited_street import cut_street
    >>> from solvers.holdem.subgame_tree import holdem_tree
    >>> from solvers.sequence_form import uniform, unpack
    >>> betting = build_betting_tree(pot=200, stack=200, streets=2, sizes=Sizes.parse("100%", ""))
    >>> ranges = parse_range("QQ"), parse_range("AQ")
    >>> tree = holdem_tree(parse_cards("Td9d6hQc"), ranges, betting)
    >>> cut = cut_street(tree, choices=(4, 1))
    >>> values = jnp.zeros((len(cut.leaves), 4, 1, *cut.num_classes))
    >>> game = cut.with_values(values)  # by leaf, both choices, pair of classes
    >>> state = cfr.run(game, cfr.init(game), solver=cfr.cfr_plus(), num_iterations=10)
    >>> blueprint = unpack(tree.public, uniform(tree.public))
    >>> whole = cut.embed(cfr.average_policy(game, state), blueprint)

A leaf is where cards would be dealt; there each player with more than one choice decides among
strategies for the rest of the hand, in each of its information states, unseen by the other. Hands
that become each other when suits are exchanged that nobody can tell apart play alike before the
deal, so they are one *class*, and what a leaf is worth is a table of pairs of classes: sums over
all pairs of hands.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxgames.core import CHANCE, record
from jaxgames.holdem.action_translation import counterparts
from jaxgames.holdem.betting import FOLD, NO_NODE, SHOWDOWN, BettingTree, below, subtree
from solvers.holdem.betting_layout import Layout
from solvers.holdem.boards import SAME, Street, apart, exchanged_hands
from solvers.holdem.showdown_by_products import expected_winners
from solvers.holdem.subgame_tree import HoldemTree, build_holdem_tree
from solvers.holdem.terminals import chips_won
from solvers.sequence_form import Policy, SequenceForm, sparse_sum
from solvers.sequence_form.sparse_sum import SparseSum
from solvers.sequence_form.treeplex import Blocks, split

# as a policy of the whole tree, but for fewer or more actions and decisions
PartPolicy = tuple[Float[Array | np.ndarray, "_ B"], ...]


@record
class Ends:
    """Where the cut game ends, for a player with C classes against one with G."""

    payoffs: Array  # [T, C_0, C_1] to player 0, summed over pairs of hands
    rows: Array  # [T] int32 row of the other's last action
    followed: SparseSum  # terminals -> the player's own rows
    blocks: Blocks = flax.struct.field(pytree_node=False)
    player: int = flax.struct.field(pytree_node=False)

    def __call__(self, reach: Float[Array, "Q G ..."]) -> tuple[Float[Array, "_ _ C ..."], ...]:
        """Counterfactual payoffs of all sequences: of the root [1, C, ...], and by group."""
        others = sparse_sum.take(reach, self.rows)
        if self.player == 0:
            found = jnp.einsum("tcg,tg...->tc...", self.payoffs, others, precision="highest")
        else:
            found = -jnp.einsum("tgc,tg...->tc...", self.payoffs, others, precision="highest")
        return split(self.followed(found), self.blocks)


@dataclasses.dataclass(frozen=True)
class Cut:
    """The first street of a hold'em tree, with L leaves and C_p classes of hands of player p."""

    tree: HoldemTree
    choices: tuple[int, int]
    nodes: Int[np.ndarray, " X"]  # of the tree's betting: those of the first street, in order
    ends: Int[np.ndarray, " E"]  # of these, folds and showdowns
    leaves: Int[np.ndarray, " L"]  # and where cards are dealt
    classes: tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]  # [N_p] of each hand
    layouts: tuple[Layout, Layout]  # nodes in the same order, then each player's own choices
    public: SequenceForm  # payoffs of leaves are 0

    @property
    def num_classes(self) -> tuple[int, int]:
        """C_0 and C_1."""
        first, second = (int(of_hand.max()) + 1 for of_hand in self.classes)
        return first, second

    def with_values(self, values: Float[Array, "L n0 n1 C0 C1"]) -> SequenceForm:
        """The cut game with these payoffs to player 0 at its leaves; pure.

        Raises:
          ValueError: the shape of `values` does not fit.
        """
        shape = (len(self.leaves), *self.choices, *self.num_classes)
        if values.shape != shape:
            raise ValueError(f"values have shape {values.shape}, must be {shape}")
        values = values.reshape(-1, *self.num_classes).astype(self.public.dtype)
        payoffs = self.public.terminals[0].payoffs.at[len(self.ends) :].set(values)
        ends = tuple(found.replace(payoffs=payoffs) for found in self.public.terminals)
        return self.public.replace(terminals=ends)

    def worth(
        self, node: int, values: Float[Array, "L n0 n1 C0 C1"]
    ) -> Float[Array, "n0 n1 C0 C1"]:
        """Of an end of the first street, or of a leaf.

        Raises:
          ValueError: the node, of the tree's betting, is neither.
        """
        if node in self.leaves:
            return values[np.searchsorted(self.leaves, node)]
        at = np.flatnonzero(self.ends == node)
        if not len(at):
            raise ValueError(f"node={node} is no end of the first street")
        return jnp.broadcast_to(self.public.terminals[0].payoffs[at[0]], values.shape[1:])

    def leaf_rows(self, player: int) -> Int[np.ndarray, "L n"]:
        """The row of a player's last action before each leaf, by its choice there."""
        layout = self.layouts[player]
        last = _chosen(self.nodes, self.leaves, self.choices[player])
        return np.array(layout.row)[layout.block[last]]

    def of_classes(self, values: Float[Array, "*B N"], player: int) -> Float[Array, "*B C"]:
        """Sums over the hands of each class."""
        sums = jnp.zeros((*values.shape[:-1], self.num_classes[player]), values.dtype)
        return sums.at[..., self.classes[player]].add(values)

    def of_hands(self, values: Float[Array, "*B C"], player: int) -> Float[Array, "*B N"]:
        """For each hand its share of what its class has."""
        share = values / np.broadcast_to(self.sizes[player], values.shape)
        return share[..., self.classes[player]]

    @functools.cached_property
    def sizes(self) -> tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]:
        """How many hands each class has."""
        first, second = (np.bincount(of_hand).astype(float) for of_hand in self.classes)
        return first, second

    def embed(self, policy: PartPolicy, whole: Policy) -> Policy:
        """Policies of the tree that are `policy` on its first street, and else `whole`."""
        return _embedded(self._decisions, policy, whole)

    @functools.cached_property
    def _decisions(self):
        """By player, decisions of the first street: all of the tree's, and the cut's of each."""
        found = []
        for player in range(2):
            of_hand, count = self.classes[player], self.num_classes[player]
            inner, outer = self.layouts[player], self.tree.layouts[player]
            into, of = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
            actor = self.tree.betting.actor[self.nodes]
            for node in np.flatnonzero(actor == player).tolist():
                above = int(self.nodes[node])
                into.append(outer.first_decision[above] * len(of_hand) + np.arange(len(of_hand)))
                of.append(inner.first_decision[node] * count + of_hand)
            found.append((np.concatenate(into), np.concatenate(of)))
        return tuple(found)


@dataclasses.dataclass(frozen=True)
class Part:
    """The rest of a tree from a node of its first street, as a tree of its own."""

    whole: HoldemTree
    tree: HoldemTree
    node: int

    def embed(self, policy: PartPolicy, whole: Policy) -> Policy:
        """Policies of the whole tree that are `policy` in this part of it, and else `whole`."""
        return _embedded(self._decisions, policy, whole)

    @functools.cached_property
    def _decisions(self):
        """By player, decisions of the whole tree, and which they are of the part."""
        nodes = below(self.whole.betting, self.node)
        return tuple(_same_decisions(self.whole, self.tree, nodes, player) for player in range(2))


def _embedded(decisions, policy, whole):
    """By player, `whole` with rows of `policy` at these of its decisions."""
    found = []
    for (into, of), inner, outer in zip(decisions, policy, whole, strict=True):
        width = min(inner.shape[1], outer.shape[1])
        rows = jnp.zeros((len(of), outer.shape[1]), outer.dtype)
        rows = rows.at[:, :width].set(jnp.asarray(inner, outer.dtype)[of, :width])
        found.append(jnp.asarray(outer).at[into].set(rows))
    return tuple(found)


def _same_decisions(whole, part, nodes, player):
    outer, inner, hands = whole.layouts[player], part.layouts[player], len(part.hands[player])
    into, of = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for node, above in enumerate(nodes.tolist()):
        if part.betting.actor[node] != player:
            continue
        street = whole.streets[whole.betting.street[above]]
        rows = np.arange(len(street.boards) * hands)
        into.append(outer.first_decision[above] * hands + rows)
        of.append(inner.first_decision[node] * hands + rows)
    return np.concatenate(into), np.concatenate(of)


def part_of(tree: HoldemTree, node: int) -> Part:
    """The rest of a whole game's tree from a decision of its first street, or the end of it, on.

    Raises:
      ValueError: the node is not of the first street, or the hand is over there.
    """
    if tree.betting.street[node] != 0:
        raise ValueError(f"node={node} must be of the first street")
    found = build_holdem_tree(
        tree.board,
        tree.all_hands,
        tree.ranges,
        subtree(tree.betting, node),
        deals=tree.deals,
        deck=tree.deck,
        dtype=tree.public.dtype.name,
        isomorphism=tree.isomorphism,
        form=tree.form,
    )
    return Part(whole=tree, tree=found, node=node)


def cut_street(tree: HoldemTree, *, choices: tuple[int, int]) -> Cut:
    """The first street of a tree, at whose end each player has so many strategies to choose from.

    Raises:
      ValueError: there is no later street, or fewer than one choice.
    """
    if not tree.deals:
        raise ValueError("the tree has one street: nothing is below the end of it")
    if min(choices) < 1:
        raise ValueError(f"choices={choices} must be at least 1 each")
    classes = tuple(hand_classes(hands, tree.streets[0].alike[0]) for hands in tree.hands)
    nodes = np.flatnonzero(tree.betting.street == 0)  # cards are dealt on the street before
    actor = tree.betting.actor[nodes]
    ends, leaves = nodes[(actor == FOLD) | (actor == SHOWDOWN)], leaves_of(tree.betting)
    dtype, street = tree.public.dtype.name, _one_board(tree.streets[0].probability)
    bettings = [_cut_betting(tree.betting, nodes, p, choices[p]) for p in range(2)]
    layouts = tuple(
        Layout(betting, (street,), p, np.arange(classes[p].max() + 1)[:, None], dtype)
        for p, betting in enumerate(bettings)
    )
    payoffs = _payoffs(tree, classes, ends)
    payoffs = np.pad(payoffs, ((0, len(leaves) * math.prod(choices)), (0, 0), (0, 0)))
    # of each terminal the last node in either player's betting, which has only its own choices
    leaf, *chosen = np.indices((len(leaves), *choices)).reshape(3, -1)
    last = tuple(
        np.append(np.searchsorted(nodes, ends), _chosen(nodes, leaves, choices[p])[leaf, chosen[p]])
        for p in range(2)
    )
    public = SequenceForm(
        treeplexes=tuple(layout.player for layout in layouts),
        terminals=tuple(_ends(layouts, p, last, jnp.asarray(payoffs, dtype)) for p in range(2)),
        num_actions=max(betting.child.shape[1] for betting in bettings),
        game=f"first street of {tree.public.game}",
        dtype=tree.public.dtype,
    )
    return Cut(
        tree=tree,
        choices=choices,
        nodes=nodes,
        ends=ends,
        leaves=leaves,
        classes=classes,
        layouts=layouts,
        public=public,
    )


def leaves_of(betting: BettingTree) -> Int[np.ndarray, " L"]:
    """Nodes that deal the second street."""
    return np.flatnonzero((betting.actor == CHANCE) & (betting.street == 0))


def transferred(
    cut: Cut,
    known: Cut,
    values: Float[Array, "L n0 n1 C0 C1"],
    starts: Mapping[int, float],
) -> Float[Array, "_ n0 n1 C0 C1"]:
    """Values for the leaves of a cut, from those of another one: of the leaves where play would be
    if its root were taken for one of `starts`, on average (Brown, Sandholm, Amos 2018, section
    6.1).

    `starts` are nodes of the known betting tree with their weights; see `counterparts`.

    Raises:
      ValueError: a leaf's counterpart is no end of the known street.
    """
    total = 0.0
    for start, weight in starts.items():
        taken = counterparts(cut.tree.betting, known.tree.betting, start)[cut.leaves]
        total = total + weight * jnp.stack([known.worth(node, values) for node in taken.tolist()])
    return total


def hand_classes(
    hands: Int[np.ndarray, "N k"], alike: tuple[tuple[int, ...], ...]
) -> Int[np.ndarray, " N"]:
    """The class of each hand, numbered in order of first hands."""
    images = np.stack([exchanged_hands(hands, suits) for suits in alike])
    _, number = np.unique(images.min(axis=0), return_inverse=True)
    return number.ravel()


def _cut_betting(betting, nodes, player, count):
    """The betting of the first street, with the choices of one player where it ends."""
    number = np.full(len(betting.actor) + 1, NO_NODE)  # the last one is that of NO_NODE
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


def _chosen(nodes, leaves, count):
    """[L, n] of each leaf and choice, the node in the betting with these choices."""
    if count == 1:
        return np.searchsorted(nodes, leaves)[:, None]
    return len(nodes) + np.arange(len(leaves) * count).reshape(-1, count)


def _one_board(probability):
    nothing = np.zeros(1, np.int64)
    return Street(
        boards=np.zeros((1, 0), np.int64),
        parent=nothing,
        images={SAME: nothing},
        probability=probability,
        alike=((SAME,),),
        dealt=np.ones(1, bool),
    )


def _payoffs(tree, classes, ends):
    """[E, C_0, C_1] to player 0 at folds and where all is in."""
    betting, (first, second) = tree.betting, tree.hands
    met = pair_sums(apart(first, second).astype(float), classes)
    shown = betting.actor[ends] == SHOWDOWN
    won = None
    if shown.any():
        matrix = expected_winners(
            first,
            second,
            tree.streets[0].boards,
            deck=tree.deck,
            deals=tree.deals,
            dtype=tree.public.dtype.name,
        )
        won = pair_sums(np.asarray(matrix[0], float).T, classes)
    chips = [chips_won(betting, node, 0) for node in ends.tolist()]
    found = [
        each * (won if show else met) for each, show in zip(chips, shown.tolist(), strict=True)
    ]
    return tree.streets[0].probability * np.array(found).reshape(len(ends), *met.shape)


def pair_sums(
    pairs: Float[np.ndarray, "N0 N1"],
    classes: tuple[Int[np.ndarray, " N0"], Int[np.ndarray, " N1"]],
) -> Float[np.ndarray, "C0 C1"]:
    """Sums over the pairs of hands of each pair of classes."""
    first, second = (member(of_hand).astype(float) for of_hand in classes)
    return first.T @ pairs @ second


def member(of_hand: Int[np.ndarray, " N"]) -> Bool[np.ndarray, "N C"]:
    """Whether a hand is of a class."""
    return of_hand[:, None] == np.arange(of_hand.max() + 1)


def _ends(layouts, player, last, payoffs):
    mine, others = (
        np.array(layouts[p].row)[layouts[p].block[last[p]]] for p in (player, 1 - player)
    )
    return Ends(
        payoffs=payoffs,
        rows=jnp.asarray(others, jnp.int32),
        followed=sparse_sum.build(
            row=mine,
            columns=(np.arange(len(mine)),),
            num_rows=layouts[player].player.num_sequences // layouts[player].num_hands,
            num_columns=len(mine),
        ),
        blocks=layouts[player].player.blocks,
        player=player,
    )
