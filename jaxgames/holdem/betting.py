"""Betting trees: what two players may bet from some point of a hand to its end, cards aside.

    >>> from jaxgames.holdem.bet_sizes import Sizes
    >>> from jaxgames.holdem.betting import build_betting_tree
    >>> sizes = Sizes.parse(bets="50%, 100%, allin", raises="3x")
    >>> tree = build_betting_tree(pot=200, stack=900, streets=1, sizes=sizes)
    >>> tree.actions[0]
    ('check', 'bet 100', 'bet 200', 'allin')

Chips are whole, halves are rounded up. A raise is at least as large as the one before it: smaller
sizes are lifted to that. A bet that reaches the stack is all-in, and bets of the same amount are
one. Player 0 acts first on every street ("out of position"). Whole games have the bets, the blinds
and the order of play that their rules say, or blinds and order with such sizes:

    >>> from jaxgames import make
    >>> from jaxgames.holdem.betting import betting_of_rules
    >>> betting_of_rules(make("limit_holdem")).actions[0]
    ('fold', 'call', 'raise')

What an opponent bets that is not in a tree is put into it (`with_bet`); `subtree` is the rest of a
tree from a decision, or a deal, on.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxgames.core import CHANCE
from jaxgames.holdem.bet_sizes import Sizes, SizesByStreet
from jaxgames.holdem.rules import UNLIMITED, Poker, PokerState

FOLD, SHOWDOWN = -2, -3  # actors of ended hands; CHANCE deals the next street
NO_NODE = -1
MAX_NODES = 1_000_000


@dataclasses.dataclass(frozen=True)
class Abstraction:
    """What the bets of a tree come from; chips count as in its `paid`."""

    stack: int  # all-in
    sizes: SizesByStreet
    first: tuple[int, ...]  # to act, by street
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
    num_streets: int  # to be bet on; on the last ones nobody may have anything left
    actions: tuple[tuple[str, ...], ...]  # [X] names, in the order of the children
    abstraction: Abstraction | None  # None: all bets of the rules

    @property
    def winner(self) -> Int[np.ndarray, " X"]:
        """Who gets the pot of a hand that ended by a fold: the other than who folded."""
        folder = self.actor[np.maximum(self.parent, 0)]
        return np.where(self.actor == FOLD, 1 - folder, NO_NODE)


def build_betting_tree(
    *,
    pot: int,
    stack: int | tuple[int, int],
    streets: int,
    sizes: Sizes | SizesByStreet,
    least_bet: int = 1,
    max_nodes: int = MAX_NODES,
) -> BettingTree:
    """The tree from the first bet of a street, with `streets` to be bet on.

    `pot` is there already, `stack` is what either player has left: of two the smaller one counts,
    since what the other one has beyond it can be neither won nor lost. `sizes` are for both players
    on all streets, or by street and player; `least_bet` is the big blind.

    Raises:
      ValueError: pot, stack, streets or least_bet are not positive; sizes for other streets; or the
        tree has more than `max_nodes` nodes.
    """
    smaller = stack if isinstance(stack, int) else min(stack)
    allowed = {"pot": pot, "stack": smaller, "streets": streets, "least_bet": least_bet}
    for name, value in allowed.items():
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    abstraction = Abstraction(
        stack=smaller,
        sizes=_by_street(sizes, streets),
        first=(0,) * streets,
        least_bet=least_bet,
        max_raises=(UNLIMITED,) * streets,
    )
    builder = _Builder(pot, abstraction, max_nodes)
    builder.decide(NO_NODE, "", 0, 0, (0, 0), closes=False)
    return builder.tree(pot, streets, abstraction)


def betting_of_rules(
    game: Poker, *, sizes: Sizes | SizesByStreet | None = None, max_nodes: int = MAX_NODES
) -> BettingTree:
    """The betting of a whole game, as its rules have it; `paid` counts the blinds too, `pot` is 0.

    Actions are all that are legal, or, with `sizes` as in `build_betting_tree`, those of them in
    no-limit games. Who opens before the flop raises the blind.

    Raises:
      ValueError: there are more than two players, or more than `max_nodes` nodes; sizes for other
        streets, for a game whose rules have sizes, or for one without blinds of which the smaller
        one acts first; or the rules draw the size of bets.
    """
    if game.players != 2:
        raise ValueError(f"players={game.players} of {game} must be 2: betting trees are for two")
    if game.draws_size:
        raise ValueError(f"bets of {game} must not be random: a betting tree has known sizes")
    streets = len(game.board)
    if sizes is None:
        walker = _Walker(game, max_nodes)
        dealt = after_action(game, game.init(), jnp.int32(0))  # the first card, and the others
        walker.decide(NO_NODE, "", dealt)
        return walker.tree(0, streets, None)
    if game.limit or game.bets:
        raise ValueError(f"sizes are for no-limit games without bets, but {game} has its own")
    first, blinds = game.first[0], game.blinds
    if not any(blinds) or blinds[first] > blinds[1 - first]:
        raise ValueError(
            f"sizes are for games with blinds where the smaller one acts first, but {game} has"
            f" blinds={blinds} and first={game.first}"
        )
    abstraction = Abstraction(
        stack=game.stack,
        sizes=_by_street(sizes, streets),
        first=game.first,
        least_bet=max(blinds),
        max_raises=game.max_raises,
        # equal blinds are antes; of others the larger is a bet, which may be raised
        base=blinds[0] if blinds[0] == blinds[1] else 0,
    )
    builder = _Builder(0, abstraction, max_nodes)
    builder.decide(NO_NODE, "", first, 0, blinds, closes=False)
    return builder.tree(0, streets, abstraction)


def _by_street(sizes, streets):
    by_street = ((sizes, sizes),) * streets if isinstance(sizes, Sizes) else sizes
    if len(by_street) != streets:
        raise ValueError(f"sizes of {len(by_street)} streets are given, for streets={streets}")
    return by_street


def with_bet(tree: BettingTree, node: int, to: int, *, max_nodes: int = MAX_NODES) -> BettingTree:
    """The tree with one more bet at a decision, after which bets have the tree's own sizes again.

    `to` is what the player has paid then, counted as in `paid`. Other nodes keep their numbers. A
    tree that has the bet stays as it is.

    Raises:
      ValueError: the node is no decision, the tree has no sizes, the bet is not legal, or there are
        more than `max_nodes` nodes.
    """
    builder = _Builder.resumed(tree, node, max_nodes)
    legal = builder.legal(node)
    if to not in legal:
        allowed = f"from {legal[0]} to {legal[-1]}" if legal else "nothing: no raise is legal"
        raise ValueError(f"to={to} at node={node} must be {allowed}")
    if any(builder.nodes[child].paid[tree.actor[node]] == to for child in builder.children[node]):
        return tree
    builder.bet(node, to)
    return builder.tree(tree.pot, tree.num_streets, tree.abstraction)


def subtree(tree: BettingTree, node: int) -> BettingTree:
    """The tree from a decision, or from where cards are dealt, on; `pot` and `paid` still count
    from the root of the whole one.

    Raises:
      ValueError: the hand is over at the node, or the tree has no sizes.
    """
    builder = _Builder.resumed(tree, node, MAX_NODES, deals=True)
    base, num_raises = builder.so_far(node)
    kept = below(tree, node)
    number = np.full(len(tree.actor) + 1, NO_NODE)  # the last one is that of NO_NODE
    number[kept] = np.arange(len(kept))
    actions = tuple(tree.actions[other] for other in kept.tolist())
    street, abstraction = int(tree.street[node]), tree.abstraction
    return BettingTree(
        actor=tree.actor[kept],
        street=tree.street[kept] - street,
        parent=number[tree.parent[kept]],
        child=number[tree.child[kept, : max(map(len, actions))]],
        paid=tree.paid[kept],
        pot=tree.pot,
        num_streets=tree.num_streets - street,
        actions=actions,
        abstraction=dataclasses.replace(
            abstraction,
            sizes=abstraction.sizes[street:],
            first=abstraction.first[street:],
            max_raises=abstraction.max_raises[street:],
            base=base,
            num_raises=num_raises,
        ),
    )


def below(tree: BettingTree, node: int) -> Int[np.ndarray, " _"]:
    """Nodes from `node` on: those of its subtree, in their order."""
    found = np.arange(len(tree.actor)) == node
    for other in range(node + 1, len(found)):
        found[other] = found[tree.parent[other]]
    return np.flatnonzero(found)


class _Node(NamedTuple):
    actor: int
    street: int
    parent: int
    paid: tuple[int, int]


class _Nodes:
    """Nodes so far."""

    def __init__(self, name, max_nodes):
        self.name, self.max_nodes = name, max_nodes
        self.nodes: list[_Node] = []
        self.children: list[list[int]] = []
        self.names: list[list[str]] = []  # of the moves to the children

    def add(self, parent, move, actor, street, paid) -> int:
        if len(self.nodes) == self.max_nodes:
            raise ValueError(
                f"the betting tree of {self.name} has more than max_nodes={self.max_nodes:,} nodes;"
                " fewer sizes or streets make it smaller"
            )
        number = len(self.nodes)
        self.nodes.append(_Node(actor, street, parent, paid))
        self.children.append([])
        self.names.append([])
        if parent != NO_NODE:
            self.children[parent].append(number)
            self.names[parent].append(move)
        return number

    def tree(self, pot, num_streets, abstraction) -> BettingTree:
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


class _Builder(_Nodes):
    """From sizes."""

    def __init__(self, pot, abstraction, max_nodes):
        super().__init__(f"pot={pot} and stack={abstraction.stack}", max_nodes)
        self.pot, self.abstraction = pot, abstraction

    @classmethod
    def resumed(cls, tree, node, max_nodes, *, deals=False):
        """What built a tree, to go on from a decision, or from where cards are dealt."""
        here = tree.actor[node] if 0 <= node < len(tree.actor) else FOLD
        if here < 0 and not (deals and here == CHANCE):
            raise ValueError(f"node={node} is no decision{' or deal' * deals} of the betting tree")
        if tree.abstraction is None:
            raise ValueError("the betting tree has all bets of the rules, and no sizes to go on")
        builder = cls(tree.pot, tree.abstraction, max_nodes)
        columns = (column.tolist() for column in (tree.actor, tree.street, tree.parent))
        paid = map(tuple, tree.paid.tolist())
        builder.nodes = list(map(_Node, *columns, paid))
        builder.children = [[n for n in row if n != NO_NODE] for row in tree.child.tolist()]
        builder.names = list(map(list, tree.actions))
        return builder

    def decide(self, parent, move, player, street, paid, *, closes):
        """A decision, and all below it; `closes`: to call, or to check, ends the street."""
        here = self.add(parent, move, player, street, paid)
        stakes = max(paid)
        facing = paid[player] < stakes
        if facing:
            self.add(here, "fold", FOLD, street, paid)
        move, after = "call" if facing else "check", (stakes, stakes)
        if not closes:
            self.decide(here, move, 1 - player, street, after, closes=True)
        elif street + 1 == len(self.abstraction.sizes) or stakes == self.abstraction.stack:
            self.add(here, move, SHOWDOWN, street, after)
        else:
            dealt = self.add(here, move, CHANCE, street, after)
            first = self.abstraction.first[street + 1]
            self.decide(dealt, "deal", first, street + 1, after, closes=False)
        for to in self.wanted(here):
            self.bet(here, to)

    def bet(self, here, to):
        """One bet or raise at a decision, and all below it; it comes after smaller ones."""
        player, street, _, paid = self.nodes[here]
        base, _ = self.so_far(here)
        name = f"{'raise' if max(paid) > base else 'bet'} {to - base}"
        name = "allin" if to == self.abstraction.stack else name
        after = (to, paid[1]) if player == 0 else (paid[0], to)
        self.decide(here, name, 1 - player, street, after, closes=True)
        moves = zip(self.children[here], self.names[here], strict=True)
        ordered = sorted(moves, key=lambda move: self.nodes[move[0]].paid[player])
        self.children[here], self.names[here] = map(list, zip(*ordered, strict=True))

    def so_far(self, node) -> tuple[int, int]:
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

    def legal(self, node) -> range:
        """What may be bet or raised to, in chips since the root."""
        player, street, _, paid = self.nodes[node]
        stakes, stack = max(paid), self.abstraction.stack
        limit = self.abstraction.max_raises[street]
        if stakes == stack or (limit != UNLIMITED and self.so_far(node)[1] >= limit):
            return range(0)
        # what is faced is the last raise, or less: a part of the big blind
        least = stakes + max(self.abstraction.least_bet, stakes - paid[player])
        return range(min(least, stack), stack + 1)

    def wanted(self, node) -> list[int]:
        """What the sizes say, rising, in the same chips."""
        player, street, _, paid = self.nodes[node]
        legal, (base, _) = self.legal(node), self.so_far(node)
        if not legal:
            return []
        stakes, stack = max(paid), self.abstraction.stack
        by_street = self.abstraction.sizes
        sizes = by_street[street][player]
        pot, final = self.pot + 2 * stakes, self.pot + 2 * stack  # after calling, and all-in
        found = set()
        for size in sizes.raises if stakes > base else sizes.bets:
            match size.kind:
                case "any":
                    found.update(legal)
                    continue
                case "allin":
                    to = stack
                case "%":
                    to = stakes + pot * size.amount / 100
                case "x":
                    to = base + (stakes - base) * size.amount
                case "e":
                    bets = min(size.amount, len(by_street) - street)
                    to = stakes + pot * ((final / pot) ** (1 / bets) - 1) / 2
            found.add(min(max(int(to + 0.5), legal[0]), legal[-1]))
        return sorted(found)


class _Walker(_Nodes):
    """From the rules of a game, played with any cards."""

    def __init__(self, game, max_nodes):
        super().__init__(str(game), max_nodes)
        self.game = game

    def decide(self, parent, move, state):
        """A decision, and all below it."""
        actor, street, spent, legal = jax.device_get(
            (state.actor, state.round, state.spent, state.legal)
        )
        here = self.add(parent, move, int(actor), int(street), tuple(spent.tolist()))
        for action in np.flatnonzero(legal).tolist():
            name = self.game.action_name(state, action)
            self.follow(here, name, int(street), after_action(self.game, state, jnp.int32(action)))

    def follow(self, parent, move, street, state):
        """What comes after a decision."""
        over, folded, after, spent = jax.device_get(
            (state.over, state.folded, state.round, state.spent)
        )
        paid = tuple(spent.tolist())
        if over:
            self.add(parent, move, FOLD if folded.any() else SHOWDOWN, street, paid)
        elif after == street:
            self.decide(parent, move, state)
        else:
            dealt = self.add(parent, move, CHANCE, street, paid)
            self.decide(dealt, "deal", state)


@functools.partial(jax.jit, static_argnums=0)
def after_action(game: Poker, state: PokerState, action: Int[Array, ""]) -> PokerState:
    """The state after an action, and after the cards that are dealt then: always the first left."""

    def deal(state):
        return game.step(state, jnp.argmax(state.chance_probs).astype(jnp.int32))

    return jax.lax.while_loop(lambda state: state.actor == CHANCE, deal, game.step(state, action))
