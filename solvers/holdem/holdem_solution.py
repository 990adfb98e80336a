"""A solved hold'em subgame: the policy and the value of every hand, at any node.

A `HoldemSolution` has the players' expected chips and the exploitability. Its `root` and
`HoldemSolution.play` give nodes, which have frequencies, strategies, ranges, values and equities.
`docs/holdem.md` has a program.

Nodes are decisions on boards as they are dealt. Where boards were merged by a symmetry of suits, a
node looks up its hands with their suits permuted, so callers need not know.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib

import jax
import numpy as np
from jaxtyping import Float

from jaxgames.core import CHANCE
from jaxgames.holdem.betting_tree import FOLD, SHOWDOWN
from jaxgames.holdem.cards import cards_name, parse_cards
from jaxgames.holdem.equity import equity
from jaxgames.holdem.ranges import hand_numbers, whole_range
from jaxgames.registry import unknown
from solvers import evaluation
from solvers.holdem.solution_file import load_solution, save_solution
from solvers.holdem.street_boards import (
    IDENTITY,
    SuitPermutation,
    disjoint_hands,
    permute_suits,
    permuted_hands,
    unblocked_hands,
)
from solvers.holdem.subgame_spec import DECK
from solvers.holdem.subgame_tree import HoldemTree
from solvers.sequence_form import Policy

_END_NAMES = {FOLD: "the hand was folded", SHOWDOWN: "the hands are shown"}


@dataclasses.dataclass(frozen=True)
class HoldemSolution:
    """Both players' policies `[D_p, A]` of a tree."""

    tree: HoldemTree
    policy: Policy

    @property
    def root(self) -> SolutionNode:
        """The first decision."""
        return SolutionNode(self, 0, 0, self.tree.board, IDENTITY)

    def play(self, *actions: str, card: str | None = None) -> SolutionNode:
        """The decision after these actions from the root; see `SolutionNode.play`."""
        return self.root.play(*actions, card=card)

    @functools.cached_property
    def values(self) -> tuple[Policy, tuple[Float[np.ndarray, " _"], ...]]:
        """Counterfactual values of actions `[D_p, A]` and of information states `[D_p]`."""
        values = evaluation.counterfactual_values(
            self.tree.sequence_form, self.policy, self.tree.root_reach
        )
        return jax.tree.map(np.asarray, values)

    @functools.cached_property
    def ev(self) -> tuple[float, float]:
        """Each player's expected chips from the pot, less the chips that it still puts in."""
        tree = self.tree
        values = evaluation.expected_value(tree.sequence_form, self.policy, tree.root_reach)
        values = np.asarray(values) / tree.total_weight + tree.betting.pot / 2
        values = values + tree.betting.paid[0]  # which is in the middle before the first decision
        return float(values[0]), float(values[1])

    @functools.cached_property
    def exploitability(self) -> float:
        """NashConv / 2, in chips."""
        tree = self.tree
        value = evaluation.exploitability(tree.sequence_form, self.policy, tree.root_reach)
        return float(value) / tree.total_weight

    def save(self, path: pathlib.Path | str) -> None:
        """Writes the subgame and the policies into a file; see `save_solution`.

        Raises:
          OSError: the file cannot be written.
        """
        save_solution(path, self.tree, self.policy)

    @classmethod
    def load(cls, path: pathlib.Path | str) -> HoldemSolution:
        """Reads what `save` wrote.

        Raises:
          OSError: the file cannot be read.
          ValueError: the file is not a solution of this version.
        """
        return cls(*load_solution(path))


@dataclasses.dataclass(frozen=True)
class SolutionNode:
    """A decision on a board. Its n hands are those of `HoldemTree.hands`."""

    solution: HoldemSolution
    number: int  # in the betting tree
    kept: int  # the board of the tree that stands for this board
    board: tuple[int, ...]
    suits: SuitPermutation  # that turns this board into the one that is kept

    def __str__(self) -> str:
        return f"{self.path or 'root'} on {cards_name(self.board)}"

    @property
    def player(self) -> int:
        """The player who acts."""
        return int(self.solution.tree.betting.actor[self.number])

    @property
    def actions(self) -> tuple[str, ...]:
        """The names of the A actions."""
        return self.solution.tree.betting.actions[self.number]

    @property
    def pot(self) -> int:
        """Chips in the middle, bets included."""
        betting = self.solution.tree.betting
        return int(betting.pot + betting.paid[self.number].sum())

    @property
    def path(self) -> str:
        """The actions since the root, with commas between them."""
        betting, names, node = self.solution.tree.betting, [], self.number
        while node:
            above = betting.parent[node]
            if betting.actor[above] >= 0:
                action = int(np.flatnonzero(betting.child[above] == node)[0])
                names.append(betting.actions[above][action])
            node = above
        return ", ".join(reversed(names))

    def play(self, *actions: str, card: str | None = None) -> SolutionNode:
        """The decision after some actions on this street.

        Args:
          *actions: names of actions, unambiguous beginnings of names, or bets as fractions of the
            pot: "bet 50%".
          card: the card that is dealt if the actions end the street, such as "2s". Actions of the
            next street need another call.

        Raises:
          ValueError: the node has no such action, the hand is over, or the card is missing, not
            expected, or dealt already.
        """
        tree, number = self.solution.tree, self.number
        betting = tree.betting
        for action in actions:
            if betting.actor[number] < 0:
                raise ValueError(f"after {self._before(number)} a card is dealt: give one card=")
            number = int(betting.child[number, self._at(number)._action(action)])
            if betting.actor[number] in _END_NAMES:
                end = _END_NAMES[betting.actor[number]]
                raise ValueError(f"after {self._before(number)} {end}")
        if betting.actor[number] != CHANCE:
            if card is not None:
                raise ValueError(f"card={card!r}: no card is dealt after {self._before(number)}")
            return self._at(number)
        if card is None:
            raise ValueError(f"after {self._before(number)} a card is dealt: card='2s', say")
        return self._dealt(int(betting.child[number, 0]), card)

    def strategy(self, hand: str) -> dict[str, float]:
        """The player's probability of each action with a hand such as "AhQd".

        Raises:
          ValueError: the hand is not in the player's range on this board.
        """
        cards = np.sort(np.array(parse_cards(hand)))
        hands = self.solution.tree.hands[self.player]
        rows = np.flatnonzero((hands == cards).all(axis=1)) if len(cards) == hands.shape[1] else ()
        if not len(rows) or not self._possible(self.player)[rows[0]]:
            raise ValueError(f"{hand!r} is not in player {self.player}'s range here")
        policy = self.policy[rows[0]]
        return {name: float(policy[i]) for i, name in enumerate(self.actions)}

    @functools.cached_property
    def policy(self) -> Float[np.ndarray, "n A"]:
        """The player's policy with each hand; unspecified for hands that share a card with the
        board."""
        return self._rows(self.solution.policy[self.player])[:, : len(self.actions)]

    @functools.cached_property
    def ranges(self) -> tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]:
        """Both players' ranges at this node: the weights of their hands."""
        tree, ranges = self.solution.tree, []
        for player in range(2):
            reach = tree.ranges[player] * self._possible(player)
            for node, action in self._own_decisions(player):
                reach = reach * node.policy[:, action]
            ranges.append(reach)
        return ranges[0], ranges[1]

    @functools.cached_property
    def opponent_weight(self) -> tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]:
        """For each hand of either player, the weight of the opponent's hands that share no card
        with it."""
        together = disjoint_hands(*self.solution.tree.hands)
        return together @ self.ranges[1], self.ranges[0] @ together

    @property
    def frequencies(self) -> Float[np.ndarray, " A"]:
        """The probability of each action, over the player's range.

        Raises:
          ValueError: the node is never reached.
        """
        return self._hand_probabilities(self.player) @ self.policy

    @functools.cached_property
    def ev(self) -> Float[np.ndarray, " n"]:
        """For each hand of the player its expected chips from the pot, less the chips that it still
        puts in; 0 for hands that hold a card of the board or meet no hand of the opponent."""
        return self._in_chips(self._rows(self.solution.values[1][self.player]))

    @functools.cached_property
    def action_ev(self) -> Float[np.ndarray, "n A"]:
        """`ev` of each action."""
        values = self._rows(self.solution.values[0][self.player])[:, : len(self.actions)]
        return np.stack([self._in_chips(column) for column in values.T], axis=1)

    @functools.cached_property
    def equity(self) -> Float[np.ndarray, " n"]:
        """For each hand of the player its share of the pot if both check to the showdown; 0 for
        hands that meet no hand of the opponent.

        Raises:
          ValueError: the game is not hold'em to a board of five cards, or the board has less than
            three.
        """
        tree, other = self.solution.tree, 1 - self.player
        at_showdown = len(tree.board) + sum(tree.deals)
        if tree.deck != DECK or tree.all_hands.shape[1] != 2 or at_showdown != 5:
            raise ValueError(
                f"equities are of hands of two cards, from the full deck, on boards of five; here"
                f" hands have {tree.all_hands.shape[1]}, the deck {len(tree.deck)} and boards"
                f" {at_showdown} cards"
            )
        weights = whole_range(tree.hands[other], self.ranges[other])
        return equity(self.board, weights)[hand_numbers(tree.hands[self.player])]

    def mean_ev(self) -> float:
        """The mean of `ev` over the player's range.

        Raises:
          ValueError: the node is never reached.
        """
        return float(self._hand_probabilities(self.player) @ self.ev)

    def _in_chips(self, values):
        """Counterfactual values of the player's hands, as expected chips from the pot."""
        tree = self.solution.tree
        street = tree.betting.street[self.number]
        chance = np.prod([at.probability for at in tree.streets[: street + 1]])
        met = self.opponent_weight[self.player] * chance
        paid = tree.betting.pot / 2 + tree.betting.paid[self.number, self.player]
        there = (met > 0) & self._possible(self.player)
        return np.where(there, values / np.where(there, met, 1) + paid, 0)

    def _hand_probabilities(self, player):
        """The probability of each hand of a player at this node."""
        weights = self.ranges[player] * self.opponent_weight[player]
        if not weights.sum() > 0:
            raise ValueError(f"no hand reaches {self}")
        return weights / weights.sum()

    def _rows(self, table):
        """The rows of this decision, by hand, in a table over the player's decisions."""
        layout = self.solution.tree.layouts[self.player]
        first = layout.first_decision[self.number] + self.kept
        rows = np.asarray(table[first * layout.num_hands : (first + 1) * layout.num_hands])
        if self.suits == IDENTITY:
            return rows
        return rows[permuted_hands(layout.hands, self.suits)]

    def _possible(self, player):
        """Whether each hand of a player shares no card with the board."""
        hands, board = self.solution.tree.hands[player], np.array([self.board], int)
        return unblocked_hands(hands, board.reshape(1, -1))[0]

    def _own_decisions(self, player):
        """A player's decisions on the path to this node, and its actions there."""
        tree, child = self.solution.tree, self.number
        while child:
            number = int(tree.betting.parent[child])
            if tree.betting.actor[number] == player:
                action = int(np.flatnonzero(tree.betting.child[number] == child)[0])
                yield self._ancestor(number), action
            child = number

    def _ancestor(self, number):
        """A decision on the path to this node, by its number in the betting tree."""
        tree = self.solution.tree
        kept = self.kept
        for street in range(tree.betting.street[self.number], tree.betting.street[number], -1):
            kept = int(tree.streets[street].parent[kept])
        count = tree.streets[tree.betting.street[number]].boards.shape[1]
        # the permutation of this board also turns each earlier board into the one kept for it
        return SolutionNode(self.solution, number, kept, self.board[:count], self.suits)

    def _action(self, name):
        """The index of an action, from what `play` accepts as its name."""
        names = self.actions
        if name in names:
            return names.index(name)
        share = name.rpartition(" ")[2]
        if share.endswith("%"):
            return self._bet_action(name, share)
        matches = [place for place, full_name in enumerate(names) if full_name.startswith(name)]
        if len(matches) != 1:
            raise ValueError(unknown("action", name, names))
        return matches[0]

    def _bet_action(self, name, share):
        """The index of a bet or raise of a fraction of the pot after calling, such as "50%"."""
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
            f"action {name!r} would add {wanted - stakes:g} chips, which is none of the bets here"
            f" ({', '.join(self.actions)})"
        )

    def _before(self, number):
        """The path to a node on this board, for error messages."""
        return self._at(number).path or "the root"

    def _at(self, number):
        """Another node on this board."""
        return dataclasses.replace(self, number=number)

    def _dealt(self, number, card):
        """The decision after a card is dealt: finds the board that is kept for the new board, and
        the permutation of suits that leads to it."""
        tree = self.solution.tree
        street = int(tree.betting.street[number])
        cards = parse_cards(card)
        after, before = tree.streets[street], tree.streets[street - 1]
        count = after.boards.shape[1] - before.boards.shape[1]
        if len(cards) != count or set(cards) & set(self.board) or not set(cards) <= set(tree.deck):
            raise ValueError(
                f"card={card!r} must be {count} of the deck that {cards_name(self.board)} leaves"
            )
        dealt = permute_suits(np.array(cards), self.suits)
        for suits in before.symmetries[self.kept]:
            wanted = np.sort(permute_suits(dealt, suits))
            same = (np.sort(after.boards[:, -count:], axis=1) == wanted).all(axis=1)
            matches = np.flatnonzero(same & (after.parent == self.kept))
            if len(matches):
                both = tuple(suits[suit] for suit in self.suits)
                return SolutionNode(
                    self.solution, number, int(matches[0]), (*self.board, *cards), both
                )
        raise AssertionError(f"no board stands for {cards_name((*self.board, *cards))}")
