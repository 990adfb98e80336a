"""Hold'em on the river as a public tree: a betting tree times the hands that players may hold.

    tree = river_tree(board, ranges, betting)
    state = cfr.run(tree.public, cfr.init(tree.public, root_reach=tree.ranges), ...)

Sequences are blocks: a betting decision and action, or the root, by the hands of the player. What a
player earns at the ends of hands is two linear maps of the other's reaches, one for all folds and
one for all showdowns; which blocks go where, and for how many chips, is a small matrix for each.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import record
from jaxgames.holdem.betting import FOLD, NO_NODE, SHOWDOWN, BettingTree
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.equity import hand_strengths, running_sums
from jaxgames.holdem.ranges import HANDS, NUM_HANDS, blocked
from solvers import sparse_sum
from solvers.public_tree import PublicStates, PublicTree
from solvers.sequences import Group, Level, Player

_EACH_CARD = np.arange(NUM_CARDS)[:, None, None]


@record
class Showdowns:
    """What one player's H hands earn at the ends of hands, against the other's G hands.

    What a hand beats is a difference of running sums over the other's hands from the weakest on:
    over all, less those with its one card, less those with its other. Blocks that are met by equal
    sums share them.
    """

    folds: Array  # [F, C] chips that a block gets for each of the other's at folds
    showdowns: Array  # [S, C] the same at showdowns, if it wins
    placed: Array  # [B, F + S] 1 where a block has these
    order: Array  # [G] the other's hands from the weakest on
    by_card: Array  # [K, 52] the same of those with each card; G at padding
    holds: Array  # [52, G] 1 where a hand of the other's has a card
    beaten: Array  # [3, H] places of the running sums: all, one card, other card
    not_lost: Array  # [3, H]
    cards: Array  # [2, H]
    same: Array  # [H] the other's same hand, G if there is none

    def __call__(self, reach: Float[Array, "Q ..."]) -> Float[Array, "R ..."]:
        """Counterfactual payoffs of all sequences, from the other's reach of its own."""
        table = reach.reshape(self.folds.shape[1], len(self.order), -1)  # [C, G, X]
        chips = jnp.concatenate([self.folds, self.showdowns])
        rows = jnp.einsum("bc,cgx->gbx", chips, table, precision="highest")
        shape = (len(self.order), -1)
        fold, show = (x.reshape(shape) for x in jnp.split(rows, [len(self.folds)], axis=1))
        found = jnp.concatenate([self._met(fold), self._won(show)], axis=1)
        found = found.reshape(len(self.same), len(chips), -1)  # [H, F + S, X]
        blocks = jnp.einsum("bf,hfx->bhx", self.placed, found, precision="highest")
        return blocks.reshape(-1, *reach.shape[1:])

    def _met(self, rows):
        """All hands that share no card."""
        with_card = jnp.matmul(self.holds, rows, precision="highest")
        shared = with_card[self.cards[0]] + with_card[self.cards[1]]
        return jnp.sum(rows, axis=0)[None] - shared + _padded(rows)[self.same]

    def _won(self, rows):
        """Hands beaten less hands lost to, which are those met less those not lost to.

        The hand itself is in neither.
        """
        sums, width = running_sums(rows[self.order]), rows.shape[1]
        by_card = running_sums(_padded(rows)[self.by_card])
        met = sums[-1][None] - by_card[-1][self.cards[0]] - by_card[-1][self.cards[1]]
        by_card = by_card.reshape(-1, width)

        def found(places):
            return sums[places[0]] - by_card[places[1]] - by_card[places[2]]

        return found(self.beaten) + found(self.not_lost) - met


@dataclasses.dataclass(frozen=True)
class RiverTree:
    """A subgame on the river, and what its numbers stand for."""

    public: PublicTree
    betting: BettingTree
    board: tuple[int, ...]
    hands: tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]  # of each player, of all 1,326
    ranges: tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]  # their weights
    decisions: tuple[Int[np.ndarray, " _"], Int[np.ndarray, " _"]]  # nodes of each player

    @property
    def total(self) -> float:
        """Weight of all pairs of hands that go together."""
        first, second = self.hands
        apart = (HANDS[first][:, None, :, None] != HANDS[second][None, :, None, :]).all((2, 3))
        return float(self.ranges[0] @ apart @ self.ranges[1])


def river_tree(
    board: tuple[int, ...],
    ranges: tuple[Float[np.ndarray, "1326"], Float[np.ndarray, "1326"]],
    betting: BettingTree,
    *,
    dtype: str = "float32",
) -> RiverTree:
    """The subgame on a board of five cards.

    Raises:
      ValueError: the board does not have five different cards, a range is empty on it, or the
        betting tree has more than one street.
    """
    if len(set(board)) != 5 or len(board) != 5:
        raise ValueError(f"board={board} must have five different cards")
    if betting.street.max() > 0:
        raise ValueError("the betting tree has more than one street; the river has one")
    hands = tuple(np.flatnonzero((r > 0) & ~blocked(board)) for r in ranges)
    for player, held in enumerate(hands):
        if not len(held):
            raise ValueError(f"player {player}'s range is empty on this board")
    strength = np.asarray(jax.jit(hand_strengths)(jnp.array(board)))
    layouts = [_Layout(betting, player, len(hands[player]), dtype) for player in range(2)]
    terminals = tuple(
        _showdowns(betting, layouts[p], layouts[1 - p], hands[p], hands[1 - p], strength, p, dtype)
        for p in range(2)
    )
    none = jnp.zeros(0, jnp.int32)
    public = PublicTree(
        players=tuple(layout.player for layout in layouts),
        terminals=terminals,
        payoffs=jnp.zeros((0, 2), dtype),
        payoff_sequences=jnp.zeros((2, 0), jnp.int32),
        terminal_entry=none,
        terminal_chance=jnp.zeros(0, dtype),
        public_states=PublicStates(
            parent=none, depth=none, actor=none, information_states=(), sequences=()
        ),
        num_actions=betting.child.shape[1],
        game="hold'em on the river",
    )
    return RiverTree(
        public=public,
        betting=betting,
        board=tuple(board),
        hands=hands,
        ranges=tuple(r[held].astype(dtype) for r, held in zip(ranges, hands, strict=True)),
        decisions=tuple(layout.nodes for layout in layouts),
    )


class _Layout:
    """One player's sequences, node by node in blocks of one for each hand.

    `block` [X] is that of the last own action before each node; 0 is the root's.
    """

    def __init__(self, betting: BettingTree, player: int, num_hands: int, dtype: str):
        self.betting, self.num_hands, self.dtype = betting, num_hands, dtype
        self.nodes = np.flatnonzero(betting.actor == player)
        self.num_actions = (betting.child != NO_NODE).sum(axis=1)
        depth, last = np.zeros((2, len(betting.actor)), np.int64)  # `last`: own node above, or 0
        for node in range(1, len(depth)):
            above = betting.parent[node]
            own = betting.actor[above] == player
            depth[node] = depth[above] + own
            last[node] = node if own else last[above]
        self.block, self.num_blocks = np.zeros(len(depth), np.int64), 1
        levels, above = [], (0, 1)
        for level in range(int(depth[self.nodes].max(initial=-1)) + 1):
            begin, groups = self.num_blocks, []
            here = self.nodes[depth[self.nodes] == level]
            first_group = sum(len(found.groups) for found in levels)
            for width in np.unique(self.num_actions[here]).tolist():
                nodes = here[self.num_actions[here] == width]
                parent = np.where(level, self.block[last[nodes]], 0) - above[0]
                groups.append(self._group(nodes, width, parent))
            levels.append(self._level(groups, above, begin, first_group))
            above = begin, self.num_blocks
        self.block = self.block[last]
        self.player = Player(
            levels=tuple(levels),
            num_roots=num_hands,
            num_sequences=self.num_blocks * num_hands,
            num_decisions=len(self.nodes) * num_hands,
        )

    def _group(self, nodes, width, parent):
        """Decisions with equally many actions; the blocks below them get their numbers."""
        for action in range(width):
            children = self.betting.child[nodes, action]
            self.block[children] = self.num_blocks + np.arange(len(nodes))
            self.num_blocks += len(nodes)
        number, size = np.searchsorted(self.nodes, nodes), len(nodes) * self.num_hands
        actions = jnp.arange(width, dtype=jnp.int32)[:, None]
        return Group(
            parent=jnp.asarray(self._by_hand(parent), jnp.int32),
            decision=jnp.asarray(self._by_hand(number), jnp.int32),
            action=jnp.broadcast_to(actions, (width, size)),
            uniform=jnp.full((width, size), 1 / width, self.dtype),
            num_actions=width,
            num_decisions=size,
        )

    def _level(self, groups, above, begin, first_group):
        rows = np.concatenate([np.asarray(group.parent) for group in groups])
        children = sparse_sum.build(
            row=rows,
            columns=(np.arange(len(rows)),),
            num_rows=(above[1] - above[0]) * self.num_hands,
            num_columns=len(rows),
        )
        return Level(
            groups=tuple(groups),
            children=children,
            begin=begin * self.num_hands,
            end=self.num_blocks * self.num_hands,
            first_group=first_group,
        )

    def _by_hand(self, blocks):
        """Numbers of blocks as those of their rows."""
        return (blocks[:, None] * self.num_hands + np.arange(self.num_hands)).ravel()


def _showdowns(betting, mine, others, hands, other_hands, strength, player, dtype):
    folds, showdowns = np.zeros((2, mine.num_blocks, others.num_blocks))
    winner = betting.winner
    for node in np.flatnonzero((betting.actor == FOLD) | (betting.actor == SHOWDOWN)):
        place = mine.block[node], others.block[node]
        if betting.actor[node] == SHOWDOWN:
            showdowns[place] += betting.pot / 2 + betting.paid[node, 0]
        else:
            chips = betting.pot / 2 + betting.paid[node, 1 - winner[node]]
            folds[place] += chips if winner[node] == player else -chips
    num, held, theirs = len(other_hands), strength[hands], strength[other_hands]
    order = np.argsort(theirs, kind="stable")
    lists = [order[(HANDS[other_hands[order]] == card).any(axis=1)] for card in range(NUM_CARDS)]
    most = max(max(map(len, lists)), 1)
    by_card = np.array([[*row, *[num] * (most - len(row))] for row in lists]).T
    cards = HANDS[hands]

    def places(side):
        all_hands = np.searchsorted(theirs[order], held, side=side)
        found = [all_hands]
        for i in range(2):
            card = cards[:, i]
            count = [
                np.searchsorted(theirs[lists[c]], s, side=side)
                for c, s in zip(card, held, strict=True)
            ]
            found.append(card + NUM_CARDS * np.array(count, np.int64))
        return jnp.asarray(np.stack(found), jnp.int32)

    number = np.full(NUM_HANDS, num)
    number[other_hands] = np.arange(num)
    some = [np.flatnonzero(chips.any(axis=1)) for chips in (folds, showdowns)]
    placed = np.concatenate(some)[None] == np.arange(mine.num_blocks)[:, None]
    return Showdowns(
        folds=jnp.asarray(folds[some[0]], dtype),
        showdowns=jnp.asarray(showdowns[some[1]], dtype),
        placed=jnp.asarray(placed, dtype),
        order=jnp.asarray(order, jnp.int32),
        by_card=jnp.asarray(by_card, jnp.int32),
        holds=jnp.asarray((HANDS[other_hands] == _EACH_CARD).any(axis=2), dtype),
        beaten=places("left"),
        not_lost=places("right"),
        cards=jnp.asarray(cards.T, jnp.int32),
        same=jnp.asarray(number[hands], jnp.int32),
    )


def _padded(rows):
    return jnp.concatenate([rows, jnp.zeros_like(rows[:1])])
