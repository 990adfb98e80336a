"""The betting trees of whole games: blinds, order of play and bets as their rules say, or bets of
given sizes.

    >>> from jaxgames.holdem import BetSizes, betting_of_rules, nlfh
    >>> tree = betting_of_rules(nlfh(), sizes=BetSizes.parse("50%, allin", "3x"))
    >>> tree.actions[0]  # facing the big blind of 100
    ('fold', 'call', 'raise 300')
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxgames.core import CHANCE
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
)
from jaxgames.holdem.rules import Poker, PokerState


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
        which the smaller one acts first; or the tree has more than `max_nodes` nodes.
    """
    if game.players != 2:
        raise ValueError(f"players={game.players} of {game} must be 2: betting trees are for two")
    if game.draws_size:
        raise ValueError(f"bets of {game} must not be random: a betting tree has known sizes")
    streets = len(game.board)
    if sizes is None:
        builder = _RulesBuilder(game, max_nodes)
        dealt = state_after(game, game.init(), jnp.int32(0))  # deals all private cards
        builder.add_decision(NO_NODE, "", dealt)
        return builder.tree(0, streets, None)
    abstraction = _abstraction(game, sizes)
    builder = SizesBuilder(0, abstraction, max_nodes)
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


class _RulesBuilder(BettingTreeBuilder):
    """Plays all actions of a game, with any cards."""

    def __init__(self, game: Poker, max_nodes: int):
        super().__init__(str(game), max_nodes)
        self.game = game

    def add_decision(self, parent: int, move: str, state: PokerState) -> None:
        """Adds the decision at a state, and all that follows."""
        actor, street, spent, legal = jax.device_get(
            (state.actor, state.round, state.spent, state.legal)
        )
        node = self.add(parent, move, int(actor), int(street), tuple(spent.tolist()))
        for action in np.flatnonzero(legal).tolist():
            name = self.game.action_name(state, action)
            after = state_after(self.game, state, jnp.int32(action))
            self.add_outcome(node, name, int(street), after)

    def add_outcome(self, parent: int, move: str, street: int, state: PokerState) -> None:
        """Adds the state after an action on `street`: an end, a deal or a decision."""
        over, folded, after, spent = jax.device_get(
            (state.over, state.folded, state.round, state.spent)
        )
        paid = tuple(spent.tolist())
        if over:
            self.add(parent, move, FOLD if folded.any() else SHOWDOWN, street, paid)
        elif after == street:
            self.add_decision(parent, move, state)
        else:
            dealt = self.add(parent, move, CHANCE, street, paid)
            self.add_decision(dealt, "deal", state)


@functools.partial(jax.jit, static_argnums=0)
def state_after(game: Poker, state: PokerState, action: Int[Array, ""]) -> PokerState:
    """The next decision or end after an action; each card that is dealt on the way is the first one
    left in the deck."""

    def deal(state):
        return game.step(state, jnp.argmax(state.chance_probs).astype(jnp.int32))

    return jax.lax.while_loop(lambda state: state.actor == CHANCE, deal, game.step(state, action))
