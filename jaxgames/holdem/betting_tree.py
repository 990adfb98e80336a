"""Betting trees: all that two players may bet from some point of a hand to its end, without cards.

Chips are whole numbers; halves are rounded up. `betting_from_sizes` builds trees from bet sizes,
puts a bet into a tree and cuts out subtrees; `betting_from_rules` builds the trees of whole games.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from jaxgames.holdem.bet_sizes import BetSizesByStreet

FOLD, SHOWDOWN = -2, -3  # actors of ended hands; CHANCE deals the next street
NO_NODE = -1
MAX_NODES = 1_000_000


@dataclasses.dataclass(frozen=True)
class BettingAbstraction:
    """The bet sizes and rules that a tree was built from; chips count as in its `paid`."""

    stack: int  # all-in
    sizes: BetSizesByStreet
    first: tuple[int, ...]  # who acts first, by street
    least_bet: int
    max_raises: tuple[int, ...]  # bets included, by street, or UNLIMITED
    base: int = 0  # what both had paid when the root's street began
    num_raises: int = 0  # on that street, before the root


@dataclasses.dataclass(frozen=True)
class BettingTree:
    """X nodes, parents before children; A actions at most. Chips count from the tree's root."""

    actor: Int[np.ndarray, " X"]  # 0, 1, CHANCE, FOLD or SHOWDOWN
    street: Int[np.ndarray, " X"]  # from 0; at showdowns the last one with betting
    parent: Int[np.ndarray, " X"]  # NO_NODE at the root
    child: Int[np.ndarray, "X A"]  # NO_NODE beyond the last action
    paid: Int[np.ndarray, "X 2"]  # chips of either player since the root
    pot: int  # at the root
    num_streets: int  # with betting; all-ins may leave no bets on the last ones
    actions: tuple[tuple[str, ...], ...]  # [X] names, in the order of the children
    abstraction: BettingAbstraction | None  # None: all bets of the rules

    @property
    def winner(self) -> Int[np.ndarray, " X"]:
        """The player who wins the pot at each fold; NO_NODE at all other nodes."""
        folder = self.actor[np.maximum(self.parent, 0)]
        return np.where(self.actor == FOLD, 1 - folder, NO_NODE)


def descendants(tree: BettingTree, node: int) -> Int[np.ndarray, " _"]:
    """The nodes of the subtree at `node`, itself included, in the tree's order."""
    below = np.arange(len(tree.actor)) == node
    for other in range(node + 1, len(below)):
        below[other] = below[tree.parent[other]]
    return np.flatnonzero(below)


def restricted_to(tree: BettingTree, nodes: Int[np.ndarray, " _"]) -> BettingTree:
    """The tree of some of a tree's nodes, in their order.

    Args:
      tree: a tree.
      nodes: all nodes of the subtree at `nodes[0]`, parents before children.

    Returns:
      The nodes with new numbers; all else as in `tree`.
    """
    number = np.full(len(tree.actor) + 1, NO_NODE)  # the last entry is for NO_NODE
    number[nodes] = np.arange(len(nodes))
    actions = tuple(tree.actions[node] for node in nodes.tolist())
    return dataclasses.replace(
        tree,
        actor=tree.actor[nodes],
        street=tree.street[nodes],
        parent=number[tree.parent[nodes]],
        child=number[tree.child[nodes, : max(map(len, actions))]],
        paid=tree.paid[nodes],
        actions=actions,
    )


class BettingNode(NamedTuple):
    """A node while its tree is built; fields as in `BettingTree`."""

    actor: int
    street: int
    parent: int
    paid: tuple[int, int]


class BettingTreeBuilder:
    """Collects the nodes of a betting tree.

    Args:
      description: names the tree in the error for too many nodes.
      max_nodes: the largest number of nodes that is allowed.
    """

    def __init__(self, description: str, max_nodes: int):
        self.description, self.max_nodes = description, max_nodes
        self.nodes: list[BettingNode] = []
        self.children: list[list[int]] = []
        self.names: list[list[str]] = []  # of the actions that lead to the children

    def add(self, parent: int, move: str, actor: int, street: int, paid: tuple[int, int]) -> int:
        """Adds the node that the action `move` of `parent` leads to, and returns its number.

        Raises:
          ValueError: the tree has `max_nodes` nodes already.
        """
        number = len(self.nodes)
        self.check_size(number + 1)
        self.nodes.append(BettingNode(actor, street, parent, paid))
        self.children.append([])
        self.names.append([])
        if parent != NO_NODE:
            self.children[parent].append(number)
            self.names[parent].append(move)
        return number

    def check_size(self, num_nodes: int) -> None:
        """Refuses a tree that is known to have `num_nodes` nodes or more.

        Raises:
          ValueError: these are more than `max_nodes`.
        """
        if num_nodes > self.max_nodes:
            raise ValueError(
                f"the betting tree of {self.description} has more than"
                f" max_nodes={self.max_nodes:,} nodes; fewer sizes or streets make it smaller"
            )

    def tree(
        self, pot: int, num_streets: int, abstraction: BettingAbstraction | None
    ) -> BettingTree:
        """The tree of all nodes so far."""
        actor, street, parent, paid = zip(*self.nodes, strict=True)
        width = max(map(len, self.children))
        child = [row + [NO_NODE] * (width - len(row)) for row in self.children]
        return BettingTree(
            actor=np.array(actor),
            street=np.array(street),
            parent=np.array(parent),
            child=np.array(child),
            paid=np.array(paid),
            pot=pot,
            num_streets=num_streets,
            actions=tuple(map(tuple, self.names)),
            abstraction=abstraction,
        )
