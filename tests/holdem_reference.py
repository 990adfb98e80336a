"""Reference values for hold'em trees: policies by what a player knows, and plain code that walks
betting, boards and pairs of hands, without sequences, symmetries of suits or shared sums.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.core import CHANCE
from jaxgames.game_tree import GameTree
from jaxgames.holdem.betting_tree import FOLD, NO_NODE, SHOWDOWN, BettingTree
from jaxgames.holdem.hand_evaluator import strength
from jaxgames.holdem.rules import Poker
from solvers import evaluation
from solvers.holdem.subgame_tree import HoldemTree
from solvers.sequence_form import SequenceForm

Cards = tuple[int, ...]
Known = tuple[int, tuple[Cards, ...], Cards]  # betting node, board street by street, own hand
PolicyOf = Callable[[Known], np.ndarray]  # probabilities [A] of the actions at the node
LEDUC = Poker(
    blinds=(1, 1),
    first=(0, 0),
    board=(0, 1),
    raise_sizes=(2, 4),
    max_raises=(2, 2),
    hole=1,
    ranks=3,
    suits=2,
)
NO_LIMIT = Poker(
    limit=False,
    stack=14,
    blinds=(2, 1),
    first=(1, 0, 0),
    board=(0, 1, 1),
    raise_sizes=(),
    max_raises=(0, 0, 0),
    ranks=4,
    suits=2,
)


def suits_that_keep(*sets: Cards) -> list[Cards]:
    """All permutations of suits that leave sets of cards unchanged."""
    return [
        suits
        for suits in itertools.permutations(range(4))
        if all(set(exchanged(cards, suits)) == set(cards) for cards in sets)
    ]


def exchanged(cards: Cards, suits: Cards) -> Cards:
    """Cards after a permutation of suits, in order."""
    return tuple(sorted(card // 4 * 4 + suits[card % 4] for card in cards))


def first_of_its_kind(known: Known, exchanges: list[Cards]) -> Known:
    """One representative of everything that is the same under the permutations."""
    node, board, hand = known
    return node, *min(
        (tuple(exchanged(cards, suits) for cards in board), exchanged(hand, suits))
        for suits in exchanges
    )


class RandomPolicy:
    """Random probabilities, a third of them pure; the same under permutations of suits."""

    def __init__(self, betting: BettingTree, exchanges: list[Cards], seed: int):
        self.num_actions = (betting.child != NO_NODE).sum(axis=1)
        self.exchanges, self.drawn = exchanges, {}
        self.generator = np.random.default_rng(seed)

    def __call__(self, known: Known) -> np.ndarray:
        """`[A]`"""
        known = first_of_its_kind(known, self.exchanges)
        if known not in self.drawn:
            weight = self.generator.exponential(size=self.num_actions[known[0]])
            pure = self.generator.random() < 1 / 3
            self.drawn[known] = (weight == weight.max()) * 1.0 if pure else weight / weight.sum()
        return self.drawn[known]


def rows(tree: HoldemTree, player: int) -> Iterator[tuple[int, Known]]:
    """The rows of a player's policies in a hold'em tree, and what the player knows at each; only
    for hands that share no card with the board."""
    layout, hands = tree.layouts[player], [tuple(h) for h in tree.hands[player].tolist()]
    ends = [street.boards.shape[1] for street in tree.streets]
    for node in layout.nodes:
        street = tree.betting.street[node]
        for number, cards in enumerate(tree.streets[street].boards.tolist()):
            first = (layout.first_decision[node] + number) * len(hands)
            board = (*itertools.pairwise([0, *ends[: street + 1]]),)
            board = tuple(tuple(sorted(cards[begin:end])) for begin, end in board)
            for place, hand in enumerate(hands):
                if not set(hand) & set(cards):
                    yield first + place, (node, board, hand)


def to_tree(tree: HoldemTree, policy: PolicyOf) -> tuple[np.ndarray, ...]:
    """A policy for a hold'em tree; uniform where a hand is impossible."""
    num_actions = (tree.betting.child != NO_NODE).sum(axis=1)
    tables = []
    for player, layout in enumerate(tree.layouts):
        table = np.zeros(
            (tree.sequence_form.treeplexes[player].num_decisions, tree.sequence_form.num_actions)
        )
        size = len(tree.hands[player])
        for node, first in layout.first_decision.items():
            boards = len(tree.streets[tree.betting.street[node]].boards)
            count = num_actions[node]
            table[first * size : (first + boards) * size, :count] = 1 / count
        for row, known in rows(tree, player):
            probabilities = policy(known)
            table[row, : len(probabilities)] = probabilities
        tables.append(table)
    return tuple(tables)


def from_tree(tree: HoldemTree, policy: tuple, exchanges: list[Cards]) -> PolicyOf:
    """The inverse of `to_tree`."""
    probabilities = {}
    for player, table in enumerate(map(np.asarray, policy)):
        for row, known in rows(tree, player):
            count = (tree.betting.child[known[0]] != NO_NODE).sum()
            probabilities[first_of_its_kind(known, exchanges)] = table[row, :count]
    return lambda known: probabilities[first_of_its_kind(known, exchanges)]


def known_to(game: Poker, tree: GameTree, betting: BettingTree, player: int) -> list[Known]:
    """What each information state of an explicit tree is, where the player acts."""
    return [
        _known(game, tree, betting, player, history)
        for history in tree.representative(player)[: tree.num_decisions[player]]
    ]


def moves_to(tree: GameTree, history: int) -> list[tuple[int, int]]:
    """The histories on the path to a history, and the moves made at each."""
    moves = []
    while history:
        moves.append((int(tree.parent[history]), int(tree.parent_action[history])))
        history = tree.parent[history]
    return moves[::-1]


def _known(game, tree, betting, player, history):
    dealt, node = [], 0
    for before, move in moves_to(tree, history):
        if tree.actor[before] == CHANCE:
            dealt.append(move // game.suits * 4 + move % game.suits)
            continue
        node = betting.child[node, np.flatnonzero(tree.legal[before]).tolist().index(move)]
        if betting.actor[node] == CHANCE:
            node = betting.child[node, 0]
    num_hole = 2 * game.hole
    hand = dealt[player * game.hole : (player + 1) * game.hole]
    ends = [num_hole, *(num_hole + end for end in itertools.accumulate(game.board))]
    streets = itertools.pairwise(ends[: betting.street[node] + 2])
    board = tuple(tuple(sorted(dealt[begin:end])) for begin, end in streets)
    return int(node), board, tuple(sorted(hand))


def to_explicit(tree: GameTree, known: list[list[Known]], policy: PolicyOf) -> tuple:
    """A policy for the explicit tree of a whole game, from what players know at each row."""
    tables = []
    for player in range(2):
        legal = tree.legal_actions(player)
        table = np.zeros(legal.shape)
        for row, at_row in enumerate(known[player]):
            table[row, legal[row]] = policy(at_row)
        tables.append(table)
    return tuple(tables)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subgame:
    """What plain code needs of a hold'em tree."""

    betting: BettingTree
    deck: Cards
    deals: Cards  # cards before each later street
    hands: tuple[np.ndarray, np.ndarray]  # [H, k] of each player
    policy: PolicyOf
    winners: dict = dataclasses.field(default_factory=dict)  # by player and board: `[H, G]`

    def values(self, player: int, board: Cards, reach: np.ndarray, *, best: bool) -> np.ndarray:
        """Of the player's hands `[H]`, against the other's range `[G]`."""
        return self._values(player, 0, (board,), reach, best)

    def _values(self, player, node, board, reach, best):
        betting, actor = self.betting, self.betting.actor[node]
        if actor == FOLD:
            winner = 1 - betting.actor[betting.parent[node]]
            chips = betting.pot / 2 + betting.paid[node, 1 - winner]
            return (chips if player == winner else -chips) * (self._apart(player, board) @ reach)
        if actor == SHOWDOWN:
            chips = betting.pot / 2 + betting.paid[node].min()
            return chips * (self._showdown(player, board) @ reach)
        children = [child for child in betting.child[node].tolist() if child != NO_NODE]
        if actor == CHANCE:
            after = self._after(board)
            below = (self._values(player, children[0], b, reach, best) for b in after)
            return sum(below) / self._ways(board)
        policy = self._policy(actor, node, board)
        if actor != player:
            return sum(
                self._values(player, child, board, reach * policy[:, action], best)
                for action, child in enumerate(children)
            )
        below = [self._values(player, child, board, reach, best) for child in children]
        return np.max(below, axis=0) if best else (np.stack(below, axis=1) * policy).sum(axis=1)

    def _policy(self, actor, node, board):
        width = (self.betting.child[node] != NO_NODE).sum()
        return np.stack(
            [
                np.full(width, 1 / width)  # any: the hand is impossible
                if set(hand) & set(itertools.chain(*board))
                else self.policy((node, board, tuple(hand)))
                for hand in self.hands[actor].tolist()
            ]
        )

    def _after(self, board):
        """The boards of the next street."""
        left = [card for card in self.deck if card not in itertools.chain(*board)]
        dealt = itertools.combinations(left, self.deals[len(board) - 1])
        return [(*board, cards) for cards in dealt]

    def _ways(self, board):
        """The number of boards of the next street, given two hands."""
        known = sum(map(len, board)) + 2 * self.hands[0].shape[1]
        return math.comb(len(self.deck) - known, self.deals[len(board) - 1])

    def _apart(self, player, board):
        """1 for pairs of hands that share no card with each other nor the board: `[H, G]`."""
        mine, others = self.hands[player], self.hands[1 - player]
        cards = list(itertools.chain(*board))
        own, theirs = (~np.isin(hands, cards).any(axis=1) for hands in (mine, others))
        shared = (mine[:, None, :, None] == others[None, :, None, :]).any(axis=(2, 3))
        return (own[:, None] & theirs[None] & ~shared).astype(float)

    def _showdown(self, player, board):
        """Who wins, 1 or -1, on average over the cards to come: `[H, G]`."""
        if len(board) <= len(self.deals):
            return sum(self._showdown(player, b) for b in self._after(board)) / self._ways(board)
        if (player, board) not in self.winners:
            mine, others = (self._strength(p, board) for p in (player, 1 - player))
            won = np.sign(mine[:, None] - others[None])
            self.winners[player, board] = won * self._apart(player, board)
        return self.winners[player, board]

    def _strength(self, player, board):
        hands = self.hands[player]
        cards = np.broadcast_to([*itertools.chain(*board)], (len(hands), sum(map(len, board))))
        return np.asarray(_strength(jnp.array(np.concatenate([hands, cards], axis=1))), np.int64)


_strength = jax.jit(strength)


@jax.jit
def gains(tree: SequenceForm, policy: tuple, root_reach: tuple | None = None) -> tuple:
    """Expected values, and values of best responses, by player."""
    return (
        evaluation.expected_value(tree, policy, root_reach),
        evaluation.best_response_value(tree, policy, root_reach),
    )


def assert_values_by_hand(
    tree: HoldemTree, policy: PolicyOf, subgame: Subgame, ranges: tuple, board: Cards = ()
) -> None:
    """Compares values against the reference for a random range of each player: the opponent's range
    alone has the symmetries of the tree."""
    generator, table = np.random.default_rng(0), to_tree(tree, policy)
    for player in range(2):
        own = generator.random(len(tree.hands[player]))
        reach = [*ranges]
        reach[player] = own
        values_of_tree = gains(tree.sequence_form, table, tuple(map(jnp.asarray, reach)))
        for best in (False, True):
            values = subgame.values(player, board, ranges[1 - player], best=best)
            np.testing.assert_allclose(
                values_of_tree[best][player], own @ values, rtol=1e-9, atol=1e-9
            )
