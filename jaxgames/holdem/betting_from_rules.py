"""The betting trees of whole games: blinds, order of play and bets as their rules say, or bets of
given sizes.

    >>> from jaxgames.holdem import BetSizes, betting_of_rules, nlfh
    >>> tree = betting_of_rules(nlfh(), sizes=BetSizes.parse("50%, allin", "3x"))
    >>> tree.actions[0]  # facing the big blind of 100
    ('fold', 'call', 'raise 300')
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxgames.arrays import at
from jaxgames.core import CHANCE, no_legal
from jaxgames.holdem.bet_sizes import BetSizes, BetSizesByStreet
from jaxgames.holdem.betting_from_sizes import SizesBuilder, checked_sizes
from jaxgames.holdem.betting_tree import (
    FOLD,
    MAX_NODES,
    NO_NODE,
    SHOWDOWN,
    BettingAbstraction,
    BettingTree,
    BettingTreeBuilder,
    restricted_to,
)
from jaxgames.holdem.rules import Poker, PokerState

BATCH = 256  # actions that are played at once


def betting_of_rules(
    game: Poker,
    *,
    sizes: BetSizes | BetSizesByStreet | None = None,
    max_nodes: int = MAX_NODES,
) -> BettingTree:
    """Builds the betting tree of a whole game for two players.

    Args:
      game: the rules.
      sizes: None for all legal actions; or, for a no-limit game with blinds, the sizes of bets as
        in `build_betting_tree`. The first bet before the flop is a raise of the big blind.
      max_nodes: the largest number of nodes that is allowed.

    Returns:
      The tree; its `paid` includes the blinds, and its `pot` is 0.

    Raises:
      ValueError: the game has more than two players, or draws the size of bets; sizes are given for
        another number of streets, for a game whose rules have sizes, or for one without blinds of
        which the smaller one acts first; or the tree has more than `max_nodes` nodes, or
        lines of hundreds of raises.
    """
    if game.players != 2:
        raise ValueError(f"players={game.players} of {game} must be 2: betting trees are for two")
    if game.draws_size:
        raise ValueError(f"bets of {game} must not be random: a betting tree has known sizes")
    streets = len(game.board)
    if sizes is None:
        builder = _RulesBuilder(game, max_nodes)
        builder.add_all()
        return _depth_first(builder.tree(0, streets, None))
    abstraction = _abstraction(game, sizes)
    builder = SizesBuilder(0, abstraction, max_nodes)
    with builder.refusing_long_lines():
        builder.add_decision(NO_NODE, "", game.first[0], 0, game.blinds, closes=False)
    return builder.tree(0, streets, abstraction)


def _abstraction(game, sizes):
    """Sizes for a game; refuses games whose blinds the sizes cannot be counted from."""
    if game.limit or game.bets:
        raise ValueError(f"sizes are for no-limit games without bets, but {game} has its own")
    first, blinds = game.first[0], game.blinds
    if not any(blinds) or blinds[first] > blinds[1 - first]:
        raise ValueError(
            f"sizes are for games with blinds where the smaller one acts first, but {game} has"
            f" blinds={blinds} and first={game.first}"
        )
    return BettingAbstraction(
        stack=game.stack,
        sizes=checked_sizes(sizes, len(game.board)),
        first=game.first,
        least_bet=max(blinds),
        max_raises=game.max_raises,
        # equal blinds are antes; of unequal ones the larger is a bet, which may be raised
        base=blinds[0] if blinds[0] == blinds[1] else 0,
    )


class _Level(NamedTuple):
    """Decisions of a level of the tree, and all actions there."""

    states: PokerState  # [D] of the decisions, without `legal`: masks of all sizes are large
    nodes: Int[np.ndarray, " D"]  # the decisions' numbers, rising
    parents: Int[np.ndarray, " N"]  # the decision of each action, rising
    actions: Int[np.ndarray, " N"]


class _RulesBuilder(BettingTreeBuilder):
    """Plays all actions of a game, with any cards."""

    def __init__(self, game: Poker, max_nodes: int):
        super().__init__(str(game), max_nodes)
        self.game = game

    def add_all(self) -> None:
        """Adds the nodes of the whole game, level by level.

        Raises:
          ValueError: the tree has more than `max_nodes` nodes, of which not all were added.
        """
        start = jax.tree.map(lambda x: np.asarray(x)[None], self.game.init().replace(legal=None))
        root = np.array([NO_NODE])
        level = _Level(start, root, root, np.array([0]))  # the first card, and with it the others
        while len(level.actions):
            parts, waiting = [], 0
            for first in range(0, len(level.actions), BATCH):
                parts.append(self.add_outcomes(level, slice(first, first + BATCH)))
                waiting += len(parts[-1].actions)
                self.check_size(len(self.nodes) + waiting)
            level = jax.tree.map(lambda *parts: np.concatenate(parts), *parts)

    def add_outcomes(self, level: _Level, batch: slice) -> _Level:
        """Adds what follows a batch of a level's actions; returns the decisions among it."""
        parents, actions = level.parents[batch], level.actions[batch]
        # some actions are played again, so that all batches have one size and are one program
        rows = np.searchsorted(level.nodes, np.resize(parents, BATCH))
        before = at(level.states, rows)
        after = _states_after(self.game, before, np.resize(actions, BATCH).astype(np.int32))
        before, after = jax.tree.map(lambda x: x[: len(actions)], jax.device_get((before, after)))
        # an action has the same name at all decisions
        state = at(before, 0)
        names = {action: self.game.action_name(state, action) for action in set(actions.tolist())}
        columns = actions, parents, before.round, after.over, after.folded.any(axis=1)
        columns = *columns, after.actor, after.round, after.spent
        nodes = []
        for action, *outcome in zip(*(column.tolist() for column in columns), strict=True):
            nodes.append(self.add_outcome(names[action], *outcome))
        decisions = ~after.over
        rows, actions = np.nonzero(after.legal[decisions])
        states = at(after.replace(legal=None), decisions)
        nodes = np.array(nodes)[decisions]
        return _Level(states, nodes, nodes[rows], actions)

    def add_outcome(self, move, parent, street, over, folded, actor, next_street, spent) -> int:
        """Adds the end, the decision, or the deal and the decision after an action on `street`, and
        returns the number of the last."""
        paid = tuple(spent)
        if over:
            return self.add(parent, move, FOLD if folded else SHOWDOWN, street, paid)
        if next_street > street:
            parent, move = self.add(parent, move, CHANCE, street, paid), "deal"
        return self.add(parent, move, actor, next_street, paid)


def _depth_first(tree: BettingTree) -> BettingTree:
    """The same tree with its nodes in the order of a walk that goes down first."""
    children = tree.child[:, ::-1].tolist()
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        if node != NO_NODE:
            order.append(node)
            waiting.extend(children[node])
    return restricted_to(tree, np.array(order))


@functools.partial(jax.jit, static_argnums=0)
def state_after(game: Poker, state: PokerState, action: Int[Array, ""]) -> PokerState:
    """The next decision or end after an action; each card that is dealt on the way is the first one
    left in the deck.

    Its `returns` stay those of `state`: the comparison of hands would be long to compile.
    """

    def play(now):
        state = game.step(now[0], now[1]).replace(returns=now[0].returns)
        return state, jnp.argmax(state.chance_probs).astype(jnp.int32), state.actor == CHANCE

    # one loop, since the rules are long to compile: the action is played before cards are dealt
    return jax.lax.while_loop(lambda now: now[2], play, (state, action, jnp.bool_(True)))[0]


@functools.partial(jax.jit, static_argnums=0)
def _states_after(game, states, actions):
    """`state_after` of a batch; the states are given without `legal`."""

    def after(state, action):
        return state_after(game, state.replace(legal=no_legal(game.num_actions)), action)

    return jax.vmap(after)(states, actions)
