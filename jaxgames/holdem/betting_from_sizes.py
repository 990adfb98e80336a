"""Betting trees from bet sizes, and changes to such trees.

    >>> from jaxgames.holdem import BetSizes, build_betting_tree, with_bet
    >>> sizes = BetSizes.parse(bets="50%, 100%, allin", raises="3x")
    >>> tree = build_betting_tree(pot=200, stack=900, streets=1, sizes=sizes)
    >>> with_bet(tree, 0, 150).actions[0]
    ('check', 'bet 100', 'bet 150', 'bet 200', 'allin')

A raise is at least as large as the one before it: smaller sizes are lifted to that. A bet that
reaches the stack is all-in, and sizes that come to the same amount are one bet. Player 0 acts first
on every street ("out of position").
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from jaxgames.checks import at_least
from jaxgames.core import CHANCE
from jaxgames.holdem.bet_sizes import BetSizes, BetSizesByStreet
from jaxgames.holdem.betting_tree import (
    FOLD,
    MAX_NODES,
    NO_NODE,
    SHOWDOWN,
    BettingAbstraction,
    BettingNode,
    BettingTree,
    BettingTreeBuilder,
    descendants,
    restricted_to,
)
from jaxgames.holdem.rules import UNLIMITED


def build_betting_tree(
    *,
    pot: int,
    stack: int | tuple[int, int],
    streets: int,
    sizes: BetSizes | BetSizesByStreet,
    least_bet: int = 1,
    max_nodes: int = MAX_NODES,
) -> BettingTree:
    """Builds the betting tree from the first bet of a street on.

    Args:
      pot: chips in the middle at the root.
      stack: chips that each player has left. Of two stacks the smaller one counts: chips beyond it
        can be neither won nor lost.
      streets: how many streets of betting are left.
      sizes: for both players on all streets, or by street and player.
      least_bet: the smallest bet in chips: the big blind.
      max_nodes: the largest number of nodes that is allowed.

    Returns:
      The tree; `paid` counts from its root.

    Raises:
      ValueError: pot, stack, streets or least_bet is below 1; sizes are given for another number of
        streets; or the tree has more than `max_nodes` nodes, or lines of hundreds of raises.
    """
    smaller = stack if isinstance(stack, int) else min(stack)
    at_least(1, pot=pot, stack=smaller, streets=streets, least_bet=least_bet)
    abstraction = BettingAbstraction(
        stack=smaller,
        sizes=checked_sizes(sizes, streets),
        first=(0,) * streets,
        least_bet=least_bet,
        max_raises=(UNLIMITED,) * streets,
    )
    builder = SizesBuilder(pot, abstraction, max_nodes)
    with builder.refusing_long_lines():
        builder.add_decision(NO_NODE, "", 0, 0, (0, 0), closes=False)
    return builder.tree(pot, streets, abstraction)


def checked_sizes(sizes: BetSizes | BetSizesByStreet, streets: int) -> BetSizesByStreet:
    """Sizes by street and player, from those or from the same sizes for all.

    Raises:
      ValueError: sizes are given for another number of streets.
    """
    by_street = ((sizes, sizes),) * streets if isinstance(sizes, BetSizes) else sizes
    if len(by_street) != streets:
        raise ValueError(f"sizes of {len(by_street)} streets are given, for streets={streets}")
    return by_street


def with_bet(tree: BettingTree, node: int, to: int, *, max_nodes: int = MAX_NODES) -> BettingTree:
    """Adds a bet at a decision; after it, bets have the tree's own sizes again.

    Args:
      tree: a tree that was built from sizes.
      node: the decision.
      to: chips that the player has paid after the bet, counted as in `tree.paid`.
      max_nodes: the largest number of nodes that is allowed.

    Returns:
      The larger tree, in which the other nodes keep their numbers; `tree` if it has the bet.

    Raises:
      ValueError: the node is no decision, the tree was not built from sizes, the bet is not legal,
        or the tree has more than `max_nodes` nodes, or lines of hundreds of raises.
    """
    builder = SizesBuilder.resumed(tree, node, max_nodes)
    legal = builder.legal(node)
    if to not in legal:
        allowed = f"from {legal[0]} to {legal[-1]}" if legal else "nothing: no raise is legal"
        raise ValueError(f"to={to} at node={node} must be {allowed}")
    if any(builder.nodes[child].paid[tree.actor[node]] == to for child in builder.children[node]):
        return tree
    with builder.refusing_long_lines():
        builder.add_bet(node, to)
    return builder.tree(tree.pot, tree.num_streets, tree.abstraction)


def subtree(tree: BettingTree, node: int) -> BettingTree:
    """The part of a tree that follows a decision or a deal, as a tree whose root is that node.

    Args:
      tree: a tree that was built from sizes.
      node: a decision, or a node at which cards are dealt.

    Returns:
      The subtree; its `pot` and `paid` still count from the root of the whole tree.

    Raises:
      ValueError: the hand is over at the node, or the tree was not built from sizes.
    """
    builder = SizesBuilder.resumed(tree, node, MAX_NODES, deals=True)
    base, num_raises = builder.street_so_far(node)
    part = restricted_to(tree, descendants(tree, node))
    street, abstraction = int(tree.street[node]), tree.abstraction
    return dataclasses.replace(
        part,
        street=part.street - street,
        num_streets=tree.num_streets - street,
        abstraction=dataclasses.replace(
            abstraction,
            sizes=abstraction.sizes[street:],
            first=abstraction.first[street:],
            max_raises=abstraction.max_raises[street:],
            base=base,
            num_raises=num_raises,
        ),
    )


class SizesBuilder(BettingTreeBuilder):
    """Adds the decisions and bets that sizes allow."""

    def __init__(self, pot: int, abstraction: BettingAbstraction, max_nodes: int):
        super().__init__(f"pot={pot} and stack={abstraction.stack}", max_nodes)
        self.pot, self.abstraction = pot, abstraction

    @classmethod
    def resumed(
        cls, tree: BettingTree, node: int, max_nodes: int, *, deals: bool = False
    ) -> SizesBuilder:
        """A builder that holds all nodes of `tree`, to continue at a decision.

        Raises:
          ValueError: the node is neither a decision nor, with `deals`, a deal; or the tree was not
            built from sizes.
        """
        actor = tree.actor[node] if 0 <= node < len(tree.actor) else FOLD
        if actor < 0 and not (deals and actor == CHANCE):
            raise ValueError(f"node={node} is no decision{' or deal' * deals} of the betting tree")
        if tree.abstraction is None:
            raise ValueError("the betting tree has all bets of the rules, and no sizes to go on")
        builder = cls(tree.pot, tree.abstraction, max_nodes)
        columns = (column.tolist() for column in (tree.actor, tree.street, tree.parent))
        paid = map(tuple, tree.paid.tolist())
        builder.nodes = list(map(BettingNode, *columns, paid))
        builder.children = [[n for n in row if n != NO_NODE] for row in tree.child.tolist()]
        builder.names = list(map(list, tree.actions))
        return builder

    @contextlib.contextmanager
    def refusing_long_lines(self) -> Iterator[None]:
        """Inside, a line of raises too long for Python's stack is a ValueError."""
        try:
            yield
        except RecursionError:
            raise ValueError(
                f"the betting tree of {self.description} has lines of hundreds of raises; fewer or"
                " larger sizes make them shorter"
            ) from None

    def add_decision(
        self,
        parent: int,
        move: str,
        player: int,
        street: int,
        paid: tuple[int, int],
        *,
        closes: bool,
    ) -> None:
        """Adds a decision of `player` and all that follows; `closes`: a call or a check there ends
        the street."""
        node = self.add(parent, move, player, street, paid)
        stakes = max(paid)
        facing = paid[player] < stakes
        if facing:
            self.add(node, "fold", FOLD, street, paid)
        move, after = "call" if facing else "check", (stakes, stakes)
        if not closes:
            self.add_decision(node, move, 1 - player, street, after, closes=True)
        elif street + 1 == len(self.abstraction.sizes) or stakes == self.abstraction.stack:
            self.add(node, move, SHOWDOWN, street, after)
        else:
            dealt = self.add(node, move, CHANCE, street, after)
            first = self.abstraction.first[street + 1]
            self.add_decision(dealt, "deal", first, street + 1, after, closes=False)
        for to in self.wanted(node):
            self.add_bet(node, to)

    def add_bet(self, node: int, to: int) -> None:
        """Adds a bet or raise to `to` chips at a decision, and all that follows; children stay in
        the order of their chips."""
        player, street, _, paid = self.nodes[node]
        base, _ = self.street_so_far(node)
        name = f"{'raise' if max(paid) > base else 'bet'} {to - base}"
        name = "allin" if to == self.abstraction.stack else name
        after = (to, paid[1]) if player == 0 else (paid[0], to)
        self.add_decision(node, name, 1 - player, street, after, closes=True)
        moves = zip(self.children[node], self.names[node], strict=True)
        ordered = sorted(moves, key=lambda move: self.nodes[move[0]].paid[player])
        self.children[node], self.names[node] = map(list, zip(*ordered, strict=True))

    def street_so_far(self, node: int) -> tuple[int, int]:
        """What both had paid when a decision's street began, and the number of raises since."""
        num_raises = 0
        while True:
            _, _, parent, paid = self.nodes[node]
            if parent == NO_NODE:
                return self.abstraction.base, self.abstraction.num_raises + num_raises
            if self.nodes[parent].actor == CHANCE:
                return max(paid), num_raises
            num_raises += max(paid) > max(self.nodes[parent].paid)
            node = parent

    def legal(self, node: int) -> range:
        """The legal bets and raises at a decision: chips since the root after the bet."""
        player, street, _, paid = self.nodes[node]
        stakes, stack = max(paid), self.abstraction.stack
        limit = self.abstraction.max_raises[street]
        if stakes == stack or (limit != UNLIMITED and self.street_so_far(node)[1] >= limit):
            return range(0)
        # the difference to call is the last raise, or less: a part of the big blind
        least = stakes + max(self.abstraction.least_bet, stakes - paid[player])
        return range(min(least, stack), stack + 1)

    def wanted(self, node: int) -> list[int]:
        """The bets and raises that the sizes ask for, lifted to legal ones, rising, as in
        `legal`."""
        player, street, _, paid = self.nodes[node]
        legal, (base, _) = self.legal(node), self.street_so_far(node)
        if not legal:
            return []
        stakes, stack = max(paid), self.abstraction.stack
        by_street = self.abstraction.sizes
        sizes = by_street[street][player]
        pot, final = self.pot + 2 * stakes, self.pot + 2 * stack  # after calling, and all-in
        chips = set()
        for size in sizes.raises if stakes > base else sizes.bets:
            match size.kind:
                case "any":
                    chips.update(legal)
                    continue
                case "allin":
                    to = stack
                case "%":
                    to = stakes + pot * size.amount / 100
                case "x":
                    to = base + (stakes - base) * size.amount
                case "e":  # the pot grows by the same factor on each of these streets
                    bets = min(size.amount, len(by_street) - street)
                    to = stakes + pot * ((final / pot) ** (1 / bets) - 1) / 2
            chips.add(min(max(int(to + 0.5), legal[0]), legal[-1]))
        return sorted(chips)
