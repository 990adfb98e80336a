"""Betting trees: what two players may bet from some point of a hand to its end, cards aside.

    sizes = Sizes.parse(bets="50%, 100%, allin", raises="3x")
    tree = build_betting_tree(pot=200, stack=900, streets=1, sizes=sizes)

Sizes as players write them: "50%" of the pot after calling; "3x", a raise to three times what the
other has bet on this street; "allin"; "2e", the share of the pot that, bet on two streets, is
all-in on the second. Chips are whole, halves are rounded up. A bet that reaches the stack is
all-in, and bets of the same amount are one. Player 0 acts first on every street ("out of
position"). Whole games have the bets, the blinds and the order of play that their rules say:

    tree = betting_of_rules(make("limit_holdem"))
"""

from __future__ import annotations

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxgames.core import CHANCE
from jaxgames.holdem.rules import Poker, PokerState

FOLD, SHOWDOWN = -2, -3  # actors of ended hands; CHANCE deals the next street
NO_NODE = -1
MAX_NODES = 1_000_000
_SIZE = re.compile(r"(allin|all-in)|([0-9.]+)(%|x|e)")


@dataclasses.dataclass(frozen=True)
class Size:
    """One size of bets: "allin", or an amount of "%", "x" or "e"."""

    kind: str
    amount: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Size:
        """Reads "50%", "3x", "2e" or "allin".

        Raises:
          ValueError: it is none of these, or not positive.
        """
        match = _SIZE.fullmatch(text.strip().lower())
        if match is None or (match[2] and match[2].count(".") > 1) or match[2] == ".":
            raise ValueError(f"size {text.strip()!r} must be like 50%, 3x, 2e or allin")
        if match[1]:
            return cls("allin")
        amount = float(match[2])
        if not amount > 0 or (match[3] == "x" and amount <= 1):
            least = "more than 1" if match[3] == "x" else "more than 0"
            raise ValueError(f"size {text.strip()!r} must be {least}")
        return cls(match[3], amount)

    def __str__(self) -> str:
        return "allin" if self.kind == "allin" else f"{self.amount:g}{self.kind}"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What may be bet, and raised to, by one player on one street."""

    bets: tuple[Size, ...]
    raises: tuple[Size, ...]

    @classmethod
    def parse(cls, bets: str, raises: str) -> Sizes:
        """Reads sizes between commas; nothing is none.

        Raises:
          ValueError: a size is not understood, or a bet is a multiple of one that is faced.
        """
        found = [
            tuple(Size.parse(part) for part in text.split(",") if part.strip())
            for text in (bets, raises)
        ]
        for size in found[0]:
            if size.kind == "x":
                raise ValueError(f"bet {size} is a multiple of a bet, but there is none yet")
        return cls(*found)


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

    @property
    def winner(self) -> Int[np.ndarray, " X"]:
        """Who gets the pot of a hand that ended by a fold: the other than who folded."""
        folder = self.actor[np.maximum(self.parent, 0)]
        return np.where(self.actor == FOLD, 1 - folder, NO_NODE)


def build_betting_tree(
    *,
    pot: int,
    stack: int,
    streets: int,
    sizes: Sizes | tuple[tuple[Sizes, Sizes], ...],
    max_nodes: int = MAX_NODES,
) -> BettingTree:
    """The tree from the first bet of a street, with `streets` to be bet on.

    `pot` is there already, `stack` is what either player has left. `sizes` are for both players on
    all streets, or by street and player.

    Raises:
      ValueError: pot, stack or streets are not positive; sizes for other streets; or the tree has
        more than `max_nodes` nodes.
    """
    for name, value in (("pot", pot), ("stack", stack), ("streets", streets)):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    by_street = ((sizes, sizes),) * streets if isinstance(sizes, Sizes) else sizes
    if len(by_street) != streets:
        raise ValueError(f"sizes of {len(by_street)} streets are given, for streets={streets}")
    builder = _Builder(pot, stack, by_street, max_nodes)
    builder.decide(NO_NODE, 0, 0, (0, 0), 0, checked=False)
    return builder.tree(pot, streets)


def betting_of_rules(game: Poker, *, max_nodes: int = MAX_NODES) -> BettingTree:
    """The betting of a whole game, as its rules have it; `paid` counts the blinds too, `pot` is 0.

    Raises:
      ValueError: there are more than two players, or more than `max_nodes` nodes.
    """
    if game.players != 2:
        raise ValueError(f"players={game.players} of {game} must be 2: betting trees are for two")
    walker = _Walker(game, max_nodes)
    walker.decide(NO_NODE, _after(game, game.init(), jnp.int32(0)))  # the first card is dealt
    return walker.tree(0, len(game.board))


class _Nodes:
    """Nodes so far."""

    def __init__(self, name, max_nodes):
        self.name, self.max_nodes = name, max_nodes
        self.nodes: list[tuple[int, int, int, tuple[int, int]]] = []
        self.children: list[list[int]] = []
        self.names: list[tuple[str, ...]] = []

    def add(self, parent, actor, street, paid) -> int:
        if len(self.nodes) == self.max_nodes:
            raise ValueError(
                f"the betting tree of {self.name} has more than max_nodes={self.max_nodes:,} nodes;"
                " fewer sizes or streets make it smaller"
            )
        self.nodes.append((actor, street, parent, paid))
        self.children.append([])
        self.names.append(())
        if parent != NO_NODE:
            self.children[parent].append(len(self.nodes) - 1)
        return len(self.nodes) - 1

    def tree(self, pot, num_streets) -> BettingTree:
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
            actions=tuple(self.names),
        )


class _Builder(_Nodes):
    """From pot, stack and sizes."""

    def __init__(self, pot, stack, sizes, max_nodes):
        super().__init__(f"pot={pot} and stack={stack}", max_nodes)
        self.pot, self.stack, self.sizes = pot, stack, sizes

    def decide(self, parent, player, street, paid, base, *, checked):
        """A decision, and all below it; `base` is what both had paid when the street began."""
        here = self.add(parent, player, street, paid)
        facing = paid[1 - player] > paid[player]
        names = ["fold", "call"] if facing else ["check"]
        if facing:
            self.add(here, FOLD, street, paid)
        if facing or checked:
            self.end_street(here, street, max(paid))
        else:
            self.decide(here, 1 - player, street, paid, base, checked=True)
        for to in self.raises(player, street, paid, base):
            bet = f"{'raise' if facing else 'bet'} {to - base}"
            names.append("allin" if to == self.stack else bet)
            after = (to, paid[1]) if player == 0 else (paid[0], to)
            self.decide(here, 1 - player, street, after, base, checked=False)
        self.names[here] = tuple(names)

    def end_street(self, parent, street, stakes):
        """Nobody owes anything."""
        paid = (stakes, stakes)
        if street + 1 == len(self.sizes) or stakes == self.stack:
            self.add(parent, SHOWDOWN, street, paid)
        else:
            here = self.add(parent, CHANCE, street, paid)
            self.names[here] = ("deal",)
            self.decide(here, 0, street + 1, paid, stakes, checked=False)

    def raises(self, player, street, paid, base) -> list[int]:
        """What may be bet or raised to, rising, in chips since the root."""
        stakes, sizes = max(paid), self.sizes[street][player]
        pot, final = self.pot + 2 * stakes, self.pot + 2 * self.stack  # after calling, and all-in
        found = set()
        for size in sizes.raises if paid[1 - player] > paid[player] else sizes.bets:
            match size.kind:
                case "allin":
                    to = self.stack
                case "%":
                    to = stakes + pot * size.amount / 100
                case "x":
                    to = base + (stakes - base) * size.amount
                case "e":
                    bets = min(size.amount, len(self.sizes) - street)
                    to = stakes + pot * ((final / pot) ** (1 / bets) - 1) / 2
            found.add(min(int(to + 0.5), self.stack))
        return sorted(to for to in found if to > stakes)


class _Walker(_Nodes):
    """From the rules of a game, played with any cards."""

    def __init__(self, game, max_nodes):
        super().__init__(str(game), max_nodes)
        self.game = game

    def decide(self, parent, state):
        """A decision, and all below it."""
        actor, street, spent, legal = jax.device_get(
            (state.actor, state.round, state.spent, state.legal)
        )
        here = self.add(parent, int(actor), int(street), tuple(spent.tolist()))
        actions = np.flatnonzero(legal).tolist()
        self.names[here] = tuple(self.game.action_name(state, action) for action in actions)
        for action in actions:
            self.follow(here, int(street), _after(self.game, state, jnp.int32(action)))

    def follow(self, parent, street, state):
        """What comes after a decision."""
        over, folded, after, spent = jax.device_get(
            (state.over, state.folded, state.round, state.spent)
        )
        paid = tuple(spent.tolist())
        if over:
            self.add(parent, FOLD if folded.any() else SHOWDOWN, street, paid)
        elif after == street:
            self.decide(parent, state)
        else:
            dealt = self.add(parent, CHANCE, street, paid)
            self.names[dealt] = ("deal",)
            self.decide(dealt, state)


@functools.partial(jax.jit, static_argnums=0)
def _after(game: Poker, state: PokerState, action: Int[Array, ""]) -> PokerState:
    """The state after an action, and after the cards that are dealt then: always the first left."""

    def deal(state):
        return game.step(state, jnp.argmax(state.chance_probs).astype(jnp.int32))

    return jax.lax.while_loop(lambda state: state.actor == CHANCE, deal, game.step(state, action))
