"""Hold'em cut where the first street ends: depth-limited subgames (Brown, Sandholm, Amos 2018).

    cut = cut_street(tree, choices=4, chooser=0)
    game = cut.with_values(values)  # [L, 4, C_0, C_1] for each leaf, choice, and pair of classes
    policy = cfr.average_policy(game, cfr.run(game, cfr.init(game), ...))
    whole = cut.embed(policy, blueprint)

A leaf is where cards would be dealt; there `chooser`, if it has more than one choice, decides among
strategies for the rest of the hand, in each of its information states. Hands that become each other
when suits are exchanged that nobody can tell apart play alike before the deal, so they are one
*class*, and what a leaf is worth is a table of pairs of classes: sums over all pairs of hands.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxgames.core import CHANCE, record
from jaxgames.holdem.betting import FOLD, NO_NODE, SHOWDOWN, BettingTree, below, subtree
from jaxgames.holdem.translation import counterparts
from solvers import sparse_sum
from solvers.holdem.boards import SAME, Street, apart, exchanged_hands
from solvers.holdem.layout import Layout
from solvers.holdem.products import expected_winners
from solvers.holdem.terminals import chips_won
from solvers.holdem.tree import HoldemTree, build_holdem_tree
from solvers.public_tree import Policy, PublicStates, PublicTree
from solvers.sparse_sum import SparseSum

# as a policy of the whole tree, but for fewer or more actions and decisions
PartPolicy = tuple[Float[Array | np.ndarray, "_ B"], ...]


@record
class Ends:
    """Where the cut game ends, for a player with C classes against one with G."""

    payoffs: Array  # [T, C_0, C_1] to player 0, summed over pairs of hands
    rows: Array  # [T] int32 row of the other's last action
    followed: SparseSum  # terminals -> the player's own rows
    blocks: tuple[tuple[int, int, int], ...] = flax.struct.field(pytree_node=False)  # begin, A, n
    player: int = flax.struct.field(pytree_node=False)

    def __call__(self, reach: Float[Array, "Q G ..."]) -> tuple[Float[Array, "_ _ C ..."], ...]:
        """Counterfactual payoffs of all sequences: of the root [1, C, ...], and by group."""
        others = sparse_sum.take(reach, self.rows)
        if self.player == 0:
            found = jnp.einsum("tcg,tg...->tc...", self.payoffs, others, precision="highest")
        else:
            found = -jnp.einsum("tgc,tg...->tc...", self.payoffs, others, precision="highest")
        rows = sparse_sum.apply(self.followed, found)
        cut = [
            rows[begin : begin + width * count].reshape(width, count, *rows.shape[1:])
            for begin, width, count in self.blocks
        ]
        return cut[0][0], *cut[1:]


@dataclasses.dataclass(frozen=True)
class Cut:
    """The first street of a hold'em tree, with L leaves and C_p classes of hands of player p."""

    tree: HoldemTree
    betting: BettingTree  # a choice among strategies is a decision like others
    choices: int
    chooser: int
    node: Int[np.ndarray, " X"]  # of the tree's betting, for each node of the cut one
    leaves: Int[np.ndarray, " L"]  # nodes of the tree's betting
    classes: tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]  # [N_p] of each hand
    layouts: tuple[Layout, Layout]
    public: PublicTree  # payoffs of leaves are 0
    terminals: Int[np.ndarray, " T"]  # nodes of the cut betting
    leaf: Int[np.ndarray, " T"]  # place of each terminal among leaves times choices, or -1

    @property
    def num_classes(self) -> tuple[int, int]:
        """C_0 and C_1."""
        first, second = (int(of_hand.max()) + 1 for of_hand in self.classes)
        return first, second

    def with_values(self, values: Float[Array, "L n C0 C1"]) -> PublicTree:
        """The cut game with these payoffs to player 0 at its leaves; pure.

        Raises:
          ValueError: the shape of `values` does not fit.
        """
        shape = (len(self.leaves), self.choices, *self.num_classes)
        if values.shape != shape:
            raise ValueError(f"values have shape {values.shape}, must be {shape}")
        values = values.reshape(-1, *self.num_classes).astype(self.public.dtype)
        at_leaf = np.flatnonzero(self.leaf >= 0)
        payoffs = self.public.terminals[0].payoffs.at[at_leaf].set(values[self.leaf[at_leaf]])
        ends = tuple(found.replace(payoffs=payoffs) for found in self.public.terminals)
        return self.public.replace(terminals=ends)

    def worth(self, node: int, values: Float[Array, "L n C0 C1"]) -> Float[Array, "n C0 C1"]:
        """Of an end of the first street with all in, or of a leaf.

        Raises:
          ValueError: the node, of the tree's betting, is neither.
        """
        if node in self.leaves:
            return values[np.searchsorted(self.leaves, node)]
        at = np.flatnonzero((self.node[self.terminals] == node) & (self.leaf < 0))
        if not len(at):
            raise ValueError(f"node={node} is no end of the first street")
        return jnp.repeat(self.public.terminals[0].payoffs[at], values.shape[1], axis=0)

    def of_classes(self, values: Float[Array, " N"], player: int) -> Float[Array, " C"]:
        """Sums over the hands of each class."""
        count = self.num_classes[player]
        return jax.ops.segment_sum(values, self.classes[player], count)

    def of_hands(self, values: Float[Array, " C"], player: int) -> Float[Array, " N"]:
        """For each hand its share of what its class has."""
        return (values / self.sizes[player])[self.classes[player]]

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
            for node in np.flatnonzero(self.betting.actor == player).tolist():
                above = int(self.node[node])
                if self.tree.betting.actor[above] != player:  # a choice
                    continue
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


def cut_street(tree: HoldemTree, *, choices: int, chooser: int) -> Cut:
    """The first street of a tree, at whose end `chooser` has so many strategies to choose from.

    Raises:
      ValueError: there is no later street, fewer than one choice, or no such player.
    """
    if not tree.deals:
        raise ValueError("the tree has one street: nothing is below the end of it")
    if choices < 1 or chooser not in (0, 1):
        raise ValueError(f"choices={choices} must be at least 1, chooser={chooser} 0 or 1")
    classes = tuple(hand_classes(hands, tree.streets[0].alike[0]) for hands in tree.hands)
    betting, node, terminals, leaf = _cut_betting(tree.betting, choices, chooser)
    dtype, street = tree.public.dtype.name, _one_board(tree.streets[0].probability)
    layouts = tuple(
        Layout(betting, (street,), p, np.arange(classes[p].max() + 1)[:, None], dtype)
        for p in range(2)
    )
    payoffs = jnp.asarray(_payoffs(tree, classes, node[terminals], leaf), dtype)
    none = jnp.zeros(0, jnp.int32)
    public = PublicTree(
        players=tuple(layout.player for layout in layouts),
        terminals=tuple(_ends(layouts, p, terminals, payoffs) for p in range(2)),
        payoffs=jnp.zeros((0, 2), dtype),
        payoff_sequences=jnp.zeros((2, 0), jnp.int32),
        terminal_entry=none,
        terminal_chance=jnp.zeros(0, dtype),
        public_states=PublicStates(
            parent=none, depth=none, actor=none, information_states=(), sequences=()
        ),
        num_actions=betting.child.shape[1],
        game=f"first street of {tree.public.game}",
    )
    return Cut(
        tree=tree,
        betting=betting,
        choices=choices,
        chooser=chooser,
        node=node,
        leaves=leaves_of(tree.betting),
        classes=classes,
        layouts=layouts,
        public=public,
        terminals=terminals,
        leaf=leaf,
    )


def leaves_of(betting: BettingTree) -> Int[np.ndarray, " L"]:
    """Nodes that deal the second street."""
    return np.flatnonzero((betting.actor == CHANCE) & (betting.street == 0))


def transferred(
    cut: Cut,
    known: Cut,
    values: Float[Array, "L n C0 C1"],
    starts: Mapping[int, float],
) -> Float[Array, "_ n C0 C1"]:
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


def _cut_betting(betting, choices, chooser):
    """The betting of the first street; of its nodes, those of the whole; its terminals, and of
    these the places among leaves times choices."""
    nodes = np.flatnonzero(betting.street == 0)  # cards are dealt on the street before
    number = np.full(len(betting.actor) + 1, NO_NODE)  # the last one is that of NO_NODE
    number[nodes] = np.arange(len(nodes))
    actor, parent = betting.actor[nodes], number[betting.parent[nodes]]
    leaf = np.full(len(nodes), -1)
    dealt = np.flatnonzero(actor == CHANCE)
    leaf[dealt] = np.arange(len(dealt)) * choices
    child = number[betting.child[nodes]]
    actions = [betting.actions[node] for node in nodes.tolist()]
    actor[dealt] = SHOWDOWN
    child[dealt] = NO_NODE
    whole = nodes
    if choices > 1:
        wide = max(child.shape[1], choices)
        child = np.pad(child, ((0, 0), (0, wide - child.shape[1])), constant_values=NO_NODE)
        added = len(nodes) + np.arange(len(dealt) * choices).reshape(len(dealt), choices)
        actor[dealt] = chooser
        child[dealt, :choices] = added
        leaf[dealt] = -1
        actor = np.concatenate([actor, np.full(added.size, SHOWDOWN)])
        parent = np.concatenate([parent, np.repeat(dealt, choices)])
        child = np.concatenate([child, np.full((added.size, wide), NO_NODE)])
        leaf = np.concatenate([leaf, np.arange(added.size)])
        whole = np.concatenate([nodes, np.repeat(nodes[dealt], choices)])
        for node in dealt.tolist():
            actions[node] = tuple(f"strategy {k}" for k in range(choices))
        actions += [()] * added.size
    found = BettingTree(
        actor=actor,
        street=np.zeros(len(actor), int),
        parent=parent,
        child=child,
        paid=betting.paid[whole],
        pot=betting.pot,
        num_streets=1,
        actions=tuple(() if names == ("deal",) else names for names in actions),
        abstraction=None,
    )
    ends = np.flatnonzero((actor == FOLD) | (actor == SHOWDOWN))
    return found, whole, ends, leaf[ends]


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


def _payoffs(tree, classes, nodes, leaf):
    """[T, C_0, C_1] to player 0 at folds and where all is in, 0 at leaves."""
    betting, (first, second) = tree.betting, tree.hands
    met = pair_sums(apart(first, second).astype(float), classes)
    won = None
    found = np.zeros((len(nodes), *met.shape))
    for place, node in enumerate(nodes.tolist()):
        if leaf[place] >= 0:
            continue
        if betting.actor[node] == SHOWDOWN and won is None:
            matrix = expected_winners(
                first,
                second,
                tree.streets[0].boards,
                deck=tree.deck,
                deals=tree.deals,
                dtype=tree.public.dtype.name,
            )
            won = pair_sums(np.asarray(matrix[0], float).T, classes)
        table = met if betting.actor[node] == FOLD else won
        found[place] = chips_won(betting, node, 0) * tree.streets[0].probability * table
    return found


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


def _ends(layouts, player, terminals, payoffs):
    mine, others = layouts[player], layouts[1 - player]
    row = np.array(mine.row)[mine.block[terminals]]
    blocks = [(0, 1, 1)]
    for level in mine.player.levels:
        begin = level.begin
        for group in level.groups:
            blocks.append((begin, group.num_actions, group.num_decisions))
            begin += group.num_actions * group.num_decisions
    return Ends(
        payoffs=payoffs,
        rows=jnp.asarray(np.array(others.row)[others.block[terminals]], jnp.int32),
        followed=sparse_sum.build(
            row=row,
            columns=(np.arange(len(terminals)),),
            num_rows=mine.player.num_sequences // mine.num_hands,
            num_columns=len(terminals),
        ),
        blocks=tuple(blocks),
        player=player,
    )
