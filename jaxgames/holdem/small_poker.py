"""Poker with one hole card and any betting tree, as an explicit game tree.

    >>> from jaxgames.holdem import BetSizes, build_betting_tree, build_small_poker
    >>> sizes = BetSizes.parse("100%, allin", "100%, allin")
    >>> betting = build_betting_tree(pot=2, stack=10, streets=2, sizes=sizes)
    >>> game = build_small_poker(betting, ranks=3, suits=2)  # as no-limit Leduc poker
    >>> game.tree.num_histories
    2530

Only ranks matter: the higher card wins, and on the second street a card that pairs the board beats
any that does not. So suits are merged, and all solvers of explicit trees (linear programs,
depth-limited subgames) can work on no-limit Kuhn and Leduc poker.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import GameTree, make_game_tree
from jaxgames.holdem.betting_tree import FOLD, NO_NODE, SHOWDOWN, BettingTree

NO_STATE = -1


@dataclasses.dataclass(frozen=True, eq=False)
class SmallPoker:
    """A game with R ranks; its actions are the children of a betting node, in order."""

    betting: BettingTree
    tree: GameTree
    # [X, R, C] information state of the player to act at a betting node, by own card and board, or
    # NO_STATE; on the first street the board is 0
    states: Int[np.ndarray, "X R C"]
    deals: Float[np.ndarray, "R R"]  # probability of both players' cards

    @property
    def num_ranks(self) -> int:
        """The number of ranks, R."""
        return len(self.deals)

    @property
    def stack(self) -> int:
        """Chips of a player who is all-in, counted as in `betting.paid`."""
        return int(self.betting.paid.max())

    def __str__(self) -> str:
        return self.tree.game


def build_small_poker(
    betting: BettingTree,
    *,
    ranks: int,
    suits: int = 1,
    weights: Float[np.ndarray, "2 R"] | None = None,
) -> SmallPoker:
    """Builds the game of a betting tree of one or two streets; a card is shown before the second.

    Args:
      betting: the betting tree.
      ranks: R, the ranks of the deck.
      suits: cards of each rank.
      weights: relative probabilities `[2, R]` that each player is dealt each rank, multiplied by
        the number of ways to deal the cards; None for 1.

    Returns:
      The game, its explicit tree and its information states.

    Raises:
      ValueError: the betting tree has more than two streets, the deck has too few cards, or weights
        are negative or allow no deal.
    """
    streets = betting.num_streets
    if streets > 2:
        raise ValueError(f"the betting tree has {streets} streets, must have 1 or 2")
    if ranks * suits < streets + 1:
        raise ValueError(f"ranks={ranks} times suits={suits} must be at least {streets + 1} cards")
    given = np.ones((2, ranks)) if weights is None else np.asarray(weights, float)
    remaining = suits - np.eye(ranks)  # cards of the second rank once the first card is dealt
    deals = suits * remaining * given[0][:, None] * given[1][None, :]
    if given.shape != (2, ranks) or (given < 0).any() or not deals.any():
        raise ValueError(f"weights={weights} must allow a deal of ranks={ranks} for two players")
    deals = deals / deals.sum()
    seen = np.eye(ranks)
    boards = np.maximum(suits - seen[:, None] - seen[None, :], 0)  # [R, R, R] cards left
    boards = boards / np.maximum(boards.sum(axis=2, keepdims=True), 1)
    rows = _levels(betting, deals, boards)
    tree = _game_tree(betting, rows, boards, f"small poker, {ranks} ranks of {suits}")
    states = np.full((len(betting.actor), ranks, ranks), NO_STATE)
    for player in range(2):
        acts = tree.actor == player
        own = rows["cards"][acts, player]
        board = np.maximum(rows["board"][acts], 0)
        states[rows["node"][acts], own, board] = tree.information_state[acts, player]
    return SmallPoker(betting=betting, tree=tree, states=states, deals=deals)


def known_actions(
    game: SmallPoker, abstract: SmallPoker
) -> tuple[Bool[np.ndarray, "D0 A"], Bool[np.ndarray, "D1 A"]]:
    """Which actions of a game an abstraction of it has, too.

    Args:
      game: the game with all actions.
      abstract: the same game with fewer bets.

    Returns:
      For each player, whether each action `[D_p, A]` is known; True for all actions of decisions
      that follow an unknown action.

    Raises:
      ValueError: the games have different cards, or the abstraction has an action that the game
        lacks.
    """
    if not np.array_equal(game.deals, abstract.deals):
        raise ValueError(
            "abstract.deals differ from game.deals; allowed: the same ranks, suits and weights"
        )
    known = tuple(game.tree.legal_actions(player) for player in range(2))
    waiting = [(0, 0)]  # pairs of corresponding betting nodes
    while waiting:
        node, counterpart = waiting.pop()
        same = {
            _reached(abstract.betting, child): child for child in _children(abstract, counterpart)
        }
        for action, child in enumerate(_children(game, node)):
            after = same.pop(_reached(game.betting, child), None)
            if after is not None:
                waiting.append((child, after))
            else:
                states = game.states[node]
                known[game.betting.actor[node]][states[states != NO_STATE], action] = False
        if same:
            raise ValueError(f"{game} lacks actions of the abstraction at node={counterpart}")
    return known


def _children(game, node):
    children = game.betting.child[node]
    return children[children != NO_NODE].tolist()


def _reached(betting, node):
    """What identifies a betting node among its siblings in both games: folded or not, and chips."""
    return int(betting.actor[node]) == FOLD, *betting.paid[node].tolist()


def _levels(betting, deals, boards):
    """Every history, level by level, as columns: its betting node (-1 before the deal), both cards,
    board (-1 before it is shown), parent, action, and the probability of the chance move to it."""
    first, second = np.nonzero(deals)
    levels = [
        _rows([-1], [[0, 0]], [-1], [-1], [-1], [1.0]),
        _rows(
            np.zeros(len(first), int),
            np.stack([first, second], axis=1),
            np.full(len(first), -1),
            np.zeros(len(first), int),
            np.arange(len(first)),
            deals[first, second],
        ),
    ]
    width = (betting.child != NO_NODE).sum(axis=1)
    begin = 1
    while True:
        last = levels[-1]
        possible = boards[last["cards"][:, 0], last["cards"][:, 1]]
        dealing = betting.actor[last["node"]] == CHANCE
        count = np.where(dealing, (possible > 0).sum(axis=1), width[last["node"]])
        if not count.any():
            return {name: np.concatenate([rows[name] for rows in levels]) for name in last}
        above = np.repeat(np.arange(len(count)), count)
        nth = np.arange(len(above)) - np.repeat(np.cumsum(count) - count, count)
        dealt = dealing[above]
        card = np.argsort(possible == 0, axis=1, kind="stable")[above, np.where(dealt, nth, 0)]
        levels.append(
            _rows(
                betting.child[last["node"][above], np.where(dealt, 0, nth)],
                last["cards"][above],
                np.where(dealt, card, last["board"][above]),
                begin + above,
                np.where(dealt, card, nth),
                np.where(dealt, possible[above, card], 1.0),
            )
        )
        begin += len(count)


def _rows(node, cards, board, parent, action, chance):
    """The columns of `_levels` for some histories, as arrays."""
    columns = dict(node=node, cards=cards, board=board, parent=parent, action=action)
    return {name: np.asarray(column, int) for name, column in columns.items()} | {
        "chance": np.asarray(chance, float)
    }


def _game_tree(betting, rows, boards, name):
    """The explicit tree of the histories of `_levels`."""
    node, (first, second), board = rows["node"], rows["cards"].T, rows["board"]
    ranks = len(boards)
    at = np.maximum(node, 0)
    kind = np.where(node < 0, CHANCE, betting.actor[at])
    over = (kind == FOLD) | (kind == SHOWDOWN)
    width = (betting.child != NO_NODE).sum(axis=1)
    public = (node + 1) * (ranks + 1) + board + 1
    known = [np.where(node < 0, 0, 1 + own) for own in (first, second)]
    legal = np.arange(betting.child.shape[1])[None] < width[at][:, None]
    return make_game_tree(
        parent=rows["parent"],
        parent_action=rows["action"],
        actor=np.where(over, TERMINAL, kind),
        legal=legal & (kind >= 0)[:, None],
        chance_prob=rows["chance"],
        returns=_returns(betting, at, kind, first, second, board, boards),
        information_state=np.stack([public * (ranks + 1) + own for own in known], axis=1),
        public_state=public,
        game=name,
    )


def _returns(betting, node, kind, first, second, board, boards):
    """Payoffs `[H, 2]` of histories, 0 where the hand goes on; at a showdown before the board is
    shown, the mean over the boards."""
    cards = np.arange(len(boards))
    strength = cards[:, None] + len(boards) * (cards[:, None] == cards[None, :])  # by board
    won = np.sign(strength[:, None, :] - strength[None, :, :])  # [R, R, board]
    if betting.num_streets == 1:
        unseen = np.sign(cards[:, None] - cards[None, :])
    else:
        unseen = (won * boards).sum(axis=2)
    shown = np.where(board < 0, unseen[first, second], won[first, second, np.maximum(board, 0)])
    chips = betting.pot / 2 + betting.paid
    folded = np.where(betting.winner == 0, chips[:, 1], -chips[:, 0])[node]
    payoff = np.where(kind == SHOWDOWN, shown * chips[node, 0], 0.0)
    payoff = np.where(kind == FOLD, folded, payoff)
    return np.stack([payoff, -payoff], axis=1)
