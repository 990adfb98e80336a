"""A solved hold'em subgame: what every hand does and what it is worth, wherever play goes.

    >>> from jaxgames.holdem.bet_sizes import Sizes
    >>> from jaxgames.holdem.betting import build_betting_tree
    >>> from jaxgames.holdem.cards import parse_cards
    >>> from jaxgames.holdem.ranges import parse_range
    >>> from solvers import cfr
    >>> from solvers.holdem.subgame_tree import holdem_tree
    >>> betting = build_betting_tree(pot=200, stack=900, streets=1, sizes=Sizes.parse("50%", ""))
    >>> board = parse_cards("Td9d6hQc2s")
    >>> ranges = parse_range("66+, A8s+"), parse_range("QQ+, AQ")
    >>> tree = holdem_tree(board, ranges, betting)
    >>> state = cfr.init(tree.public, root_reach=tree.root_reach)
    >>> state = cfr.run(tree.public, state, solver=cfr.dcfr(gamma=3.0), num_iterations=20)
    >>> from solvers.holdem.solution import Solution
    >>> solution = Solution(tree, cfr.average_policy(tree.public, state))
    >>> node = solution.play("check", "bet 100")
    >>> node.actions
    ('fold', 'call')

Nodes are decisions, on boards as they are dealt. Where suits were solved once for all, a node looks
up its hands with suits exchanged; nobody needs to know.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import os
import pathlib
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxgames.holdem.bet_sizes import Size, Sizes
from jaxgames.holdem.betting import CHANCE, FOLD, SHOWDOWN, Abstraction, BettingTree
from jaxgames.holdem.cards import cards_name, parse_cards
from jaxgames.holdem.equity import equity
from jaxgames.holdem.ranges import hand_numbers, whole_range
from jaxgames.registry import unknown
from solvers import evaluation
from solvers.holdem.boards import SAME, Suits, apart, exchanged, exchanged_hands, possible
from solvers.holdem.subgame_tree import HoldemTree, build_holdem_tree
from solvers.sequence_form import Policy

_ENDS = {FOLD: "the hand was folded", SHOWDOWN: "the hands are shown"}


@dataclasses.dataclass(frozen=True)
class Solution:
    """Policies `[D_p, A]` on a tree."""

    tree: HoldemTree
    policy: Policy

    @property
    def root(self) -> Node:
        """The first decision."""
        return Node(self, 0, 0, self.tree.board, SAME)

    def play(self, *actions: str, card: str | None = None) -> Node:
        """The decision after these actions of the root; see `Node.play`."""
        return self.root.play(*actions, card=card)

    @functools.cached_property
    def values(self) -> tuple[Policy, tuple[Float[np.ndarray, " _"], ...]]:
        """Counterfactual values of actions `[D_p, A]` and of information states `[D_p]`."""
        found = evaluation.counterfactual_values(
            self.tree.public, self.policy, self.tree.root_reach
        )
        return jax.tree.map(np.asarray, found)

    @functools.cached_property
    def ev(self) -> tuple[float, float]:
        """Each player's expected share of the pot, in chips, less what is still put in."""
        found = evaluation.expected_value(self.tree.public, self.policy, self.tree.root_reach)
        found = np.asarray(found) / self.tree.total + self.tree.betting.pot / 2
        return float(found[0]), float(found[1])

    @functools.cached_property
    def exploitability(self) -> float:
        """NashConv / 2, in chips."""
        tree = self.tree
        found = evaluation.exploitability(tree.public, self.policy, tree.root_reach)
        return float(found) / tree.total

    def save(self, path: pathlib.Path | str) -> None:
        """Writes the subgame and the policies into a file, at once.

        Raises:
          OSError: the file cannot be written.
        """
        path, tree = pathlib.Path(path), self.tree
        arrays = {f"betting_{name}": value for name, value in _arrays(tree.betting).items()}
        arrays["all_hands"] = tree.all_hands
        for player in range(2):
            arrays[f"hands_{player}"] = tree.hands[player]
            arrays[f"range_{player}"] = tree.ranges[player]
            arrays[f"policy_{player}"] = np.asarray(self.policy[player])
        text = {
            "version": _VERSION,
            "board": list(tree.board),
            "deck": list(tree.deck),
            "deals": list(tree.deals),
            "isomorphism": tree.isomorphism,
            "pot": tree.betting.pot,
            "num_streets": tree.betting.num_streets,
            "actions": tree.betting.actions,
            "abstraction": _written(tree.betting.abstraction),
            "dtype": str(tree.public.dtype),
        }
        content = io.BytesIO()
        np.savez_compressed(content, text=np.array(json.dumps(text)), **arrays)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_bytes(content.getvalue())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: pathlib.Path | str) -> Solution:
        """Reads what `save` wrote.

        Raises:
          OSError: the file cannot be read.
          ValueError: it is not a solution of this version.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                text = json.loads(str(file["text"]))
                if text["version"] != _VERSION:
                    raise ValueError(f"version {text['version']} is not {_VERSION}")
                arrays = {name: file[name] for name in file.files if name != "text"}
            betting = BettingTree(
                **{name: arrays[f"betting_{name}"] for name in _BETTING},
                pot=text["pot"],
                num_streets=text["num_streets"],
                actions=tuple(map(tuple, text["actions"])),
                abstraction=_read(text["abstraction"]),
            )
            hands, ranges = arrays["all_hands"], []
            for player in range(2):
                held = (hands[:, None] == arrays[f"hands_{player}"][None]).all(axis=2)
                ranges.append(held @ arrays[f"range_{player}"])
            tree = build_holdem_tree(
                tuple(text["board"]),
                hands,
                tuple(ranges),
                betting,
                deals=tuple(text["deals"]),
                deck=tuple(text["deck"]),
                dtype=text["dtype"],
                isomorphism=text["isomorphism"],
            )
            policy = tuple(jnp.asarray(arrays[f"policy_{player}"]) for player in range(2))
        except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is not a solution of this version: {error}") from None
        return cls(tree, policy)


_VERSION = 2
_BETTING = ("actor", "street", "parent", "child", "paid")


def _arrays(betting):
    return {name: getattr(betting, name) for name in _BETTING}


def _written(abstraction):
    return None if abstraction is None else dataclasses.asdict(abstraction)


def _read(written):
    """The inverse, of lists for tuples."""
    if written is None:
        return None
    first, max_raises = tuple(written["first"]), tuple(written["max_raises"])
    by_street = tuple(tuple(map(_sizes, players)) for players in written["sizes"])
    changed = {"sizes": by_street, "first": first, "max_raises": max_raises}
    return Abstraction(**written | changed)


def _sizes(written):
    return Sizes(**{kind: tuple(Size(**size) for size in sizes) for kind, sizes in written.items()})


@dataclasses.dataclass(frozen=True)
class Node:
    """A decision on a board. Hands are those of `HoldemTree.hands`, as they are."""

    solution: Solution
    number: int  # in the betting tree
    kept: int  # the board of its street that stands for this one
    board: tuple[int, ...]
    suits: Suits  # what suits are on the board that is kept

    def __str__(self) -> str:
        return f"{self.path or 'root'} on {cards_name(self.board)}"

    @property
    def player(self) -> int:
        """Who acts."""
        return int(self.solution.tree.betting.actor[self.number])

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the A actions."""
        return self.solution.tree.betting.actions[self.number]

    @property
    def pot(self) -> int:
        """Chips in the middle, bets included."""
        betting = self.solution.tree.betting
        return int(betting.pot + betting.paid[self.number].sum())

    @property
    def path(self) -> str:
        """Actions since the root, with commas between them."""
        betting, names, node = self.solution.tree.betting, [], self.number
        while node:
            above = betting.parent[node]
            if betting.actor[above] >= 0:
                action = int(np.flatnonzero(betting.child[above] == node)[0])
                names.append(betting.actions[above][action])
            node = above
        return ", ".join(reversed(names))

    def play(self, *actions: str, card: str | None = None) -> Node:
        """The decision after these actions; `card` is dealt when they end a street.

        Bets may be named by any beginning of their name that only one has, or as a share of the
        pot: "bet 50%". With several streets, one call for each.

        Raises:
          ValueError: no such action here, the hand is over, a card is missing, not expected, or
            there already.
        """
        tree, number = self.solution.tree, self.number
        betting = tree.betting
        for action in actions:
            if betting.actor[number] < 0:
                raise ValueError(f"after {self._before(number)} a card is dealt: give one card=")
            number = int(betting.child[number, self._at(number)._action(action)])
            if betting.actor[number] in _ENDS:
                raise ValueError(f"after {self._before(number)} {_ENDS[betting.actor[number]]}")
        if betting.actor[number] != CHANCE:
            if card is not None:
                raise ValueError(f"card={card!r}: no card is dealt after {self._before(number)}")
            return self._at(number)
        if card is None:
            raise ValueError(f"after {self._before(number)} a card is dealt: card='2s', say")
        return self._dealt(int(betting.child[number, 0]), card)

    def strategy(self, hand: str) -> dict[str, float]:
        """What the player does with a hand such as "AhQd": a probability for each action.

        Raises:
          ValueError: the player cannot hold it here.
        """
        cards = np.sort(np.array(parse_cards(hand)))
        hands = self.solution.tree.hands[self.player]
        found = np.flatnonzero((hands == cards).all(axis=1)) if len(cards) == hands.shape[1] else ()
        if not len(found) or not self._possible(self.player)[found[0]]:
            raise ValueError(f"{hand!r} is not in player {self.player}'s range here")
        policy = self.policy[found[0]]
        return {name: float(policy[i]) for i, name in enumerate(self.actions)}

    @functools.cached_property
    def policy(self) -> Float[np.ndarray, "n A"]:
        """What the player does with each hand; of no meaning for hands that the board takes."""
        return self._rows(self.solution.policy[self.player])[:, : len(self.actions)]

    @functools.cached_property
    def ranges(self) -> tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]:
        """Both players' ranges here: weights of their hands."""
        tree, found = self.solution.tree, []
        for player in range(2):
            reach = tree.ranges[player] * self._possible(player)
            for node, action in self._own(player):
                reach = reach * node.policy[:, action]
            found.append(reach)
        return found[0], found[1]

    @functools.cached_property
    def met(self) -> tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]:
        """For each hand of either player, the weight of the other's that share no card with it."""
        together = apart(*self.solution.tree.hands)
        return together @ self.ranges[1], self.ranges[0] @ together

    @property
    def frequencies(self) -> Float[np.ndarray, " A"]:
        """How often the player takes each action, over its range.

        Raises:
          ValueError: nobody comes here.
        """
        return self._weights(self.player) @ self.policy

    @functools.cached_property
    def ev(self) -> Float[np.ndarray, " n"]:
        """For each hand of the player its expected share of the pot, in chips, less what it still
        puts in; 0 for hands that meet none."""
        return self._in_chips(self._rows(self.solution.values[1][self.player]))

    @functools.cached_property
    def action_ev(self) -> Float[np.ndarray, "n A"]:
        """The same of every action."""
        values = self._rows(self.solution.values[0][self.player])[:, : len(self.actions)]
        return np.stack([self._in_chips(column) for column in values.T], axis=1)

    @functools.cached_property
    def equity(self) -> Float[np.ndarray, " n"]:
        """For each hand of the player its share of the pot if nobody bets any more; 0 for hands
        that meet none.

        Raises:
          ValueError: the board does not have three to five cards, or hands are not of two.
        """
        tree, other = self.solution.tree, 1 - self.player
        weights = whole_range(tree.hands[other], self.ranges[other])
        return equity(self.board, weights)[hand_numbers(tree.hands[self.player])]

    def mean_ev(self) -> float:
        """Of the player's range.

        Raises:
          ValueError: nobody comes here.
        """
        return float(self._weights(self.player) @ self.ev)

    def mean_equity(self) -> float:
        """The same of the equity."""
        return float(self._weights(self.player) @ self.equity)

    def _in_chips(self, values):
        tree = self.solution.tree
        street = tree.betting.street[self.number]
        chance = np.prod([at.probability for at in tree.streets[: street + 1]])
        met = self.met[self.player] * chance
        paid = tree.betting.pot / 2 + tree.betting.paid[self.number, self.player]
        return np.where(met > 0, values / np.where(met > 0, met, 1) + paid, 0)

    def _weights(self, player):
        """How likely each hand is."""
        weights = self.ranges[player] * self.met[player]
        if not weights.sum() > 0:
            raise ValueError(f"nobody comes to {self}")
        return weights / weights.sum()

    def _rows(self, table):
        """Of a table over the player's decisions, the rows of this one by hand."""
        layout = self.solution.tree.layouts[self.player]
        first = layout.first_decision[self.number] + self.kept
        rows = np.asarray(table[first * layout.num_hands : (first + 1) * layout.num_hands])
        if self.suits == SAME:
            return rows
        return rows[exchanged_hands(layout.hands, self.suits)]

    def _possible(self, player):
        hands, board = self.solution.tree.hands[player], np.array([self.board], int)
        return possible(hands, board.reshape(1, -1))[0]

    def _own(self, player):
        """A player's decisions on the way here, and the actions taken."""
        tree, child = self.solution.tree, self.number
        while child:
            number = int(tree.betting.parent[child])
            if tree.betting.actor[number] == player:
                action = int(np.flatnonzero(tree.betting.child[number] == child)[0])
                yield self._above(number), action
            child = number

    def _above(self, number):
        """A decision on the way here."""
        tree = self.solution.tree
        kept = self.kept
        for street in range(tree.betting.street[self.number], tree.betting.street[number], -1):
            kept = int(tree.streets[street].parent[kept])
        count = tree.streets[tree.betting.street[number]].boards.shape[1]
        # the suits of this board are right for all boards that it came from
        return Node(self.solution, number, kept, self.board[:count], self.suits)

    def _action(self, name):
        names = self.actions
        if name in names:
            return names.index(name)
        share = name.rpartition(" ")[2]
        if share.endswith("%"):
            return self._by_share(name, share)
        found = [place for place, one in enumerate(names) if one.startswith(name)]
        if len(found) != 1:
            raise ValueError(unknown("action", name, names))
        return found[0]

    def _by_share(self, name, share):
        """A bet or raise of a share of the pot after calling."""
        betting = self.solution.tree.betting
        stakes = betting.paid[self.number].max()
        pot = betting.pot + 2 * stakes
        try:
            wanted = stakes + pot * float(share[:-1]) / 100
        except ValueError:
            raise ValueError(f"action {name!r}: {share!r} is not a share of the pot") from None
        after = betting.paid[betting.child[self.number], self.player]
        for place in range(len(self.actions)):
            if abs(after[place] - wanted) < 1 and after[place] > stakes:
                return place
        raise ValueError(
            f"action {name!r} would be {wanted - stakes:g} chips more, which nobody can bet here"
            f" ({', '.join(self.actions)})"
        )

    def _before(self, number):
        return self._at(number).path or "the root"

    def _at(self, number):
        """Another decision on this board."""
        return dataclasses.replace(self, number=number)

    def _dealt(self, number, card):
        tree = self.solution.tree
        street = int(tree.betting.street[number])
        cards = parse_cards(card)
        here, before = tree.streets[street], tree.streets[street - 1]
        count = here.boards.shape[1] - before.boards.shape[1]
        if len(cards) != count or set(cards) & set(self.board) or not set(cards) <= set(tree.deck):
            raise ValueError(
                f"card={card!r} must be {count} of the deck that {cards_name(self.board)} leaves"
            )
        dealt = exchanged(np.array(cards), self.suits)
        for suits in before.alike[self.kept]:
            wanted = np.sort(exchanged(dealt, suits))
            same = (np.sort(here.boards[:, -count:], axis=1) == wanted).all(axis=1)
            found = np.flatnonzero(same & (here.parent == self.kept))
            if len(found):
                both = tuple(suits[suit] for suit in self.suits)
                return Node(self.solution, number, int(found[0]), (*self.board, *cards), both)
        raise AssertionError(f"no board stands for {cards_name((*self.board, *cards))}")
