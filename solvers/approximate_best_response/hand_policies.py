"""Policies of poker by hand: functions of the public state, which is the state without hole cards,
that give the probabilities `[N, A]` of the actions with each of the N hands of the game.

A policy that needs large tables is a pytree that can be called: compiled programs take its tables
as arguments. What a plain function closes over becomes part of the programs. Two methods, which a
policy may have, save work:

- `on_board(board)` returns the policy for the states of one board, all of whose cards are given,
  so that what depends on the board alone is computed once. What it then does in a state must not
  depend on cards that are not dealt there.
- `of_hand(state, hand)` returns the probabilities `[A]` of the actions with one hand.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jaxgames.holdem.rules import NOTHING, Poker, PokerState

HandPolicy = Callable[[PokerState], Float[Array, "N A"]]


def all_hands(game: Poker) -> Int[np.ndarray, "N k"]:
    """Returns the hands of the game's cards, in the order of `jaxgames.holdem.ranges.HANDS`."""
    hands = itertools.combinations(range(game.ranks * game.suits), game.hole)
    return np.array(sorted(hands, key=lambda hand: hand[::-1]), np.int32)


def as_argument(policy: HandPolicy) -> HandPolicy:
    """A policy as an argument of compiled functions: a plain function is wrapped as a pytree."""
    plain = jax.tree_util.treedef_is_leaf(jax.tree.structure(policy))
    return jax.tree_util.Partial(policy) if plain else policy


def on_board(policy: HandPolicy, board: Int[Array, " n"]) -> HandPolicy:
    """A policy for the states of one board, all of whose cards are given."""
    return policy.on_board(board) if hasattr(policy, "on_board") else policy


def probabilities(game: Poker, policy: HandPolicy, state: PokerState) -> Float[Array, "N A"]:
    """What a policy does at a state with every hand; it sees the public part of the state.

    Raises:
      ValueError: the policy has the wrong shape for this game's hands and actions.
    """
    rows = policy(_public(state))
    expected = (len(all_hands(game)), game.num_actions)
    if rows.shape != expected:
        raise ValueError(
            f"policy gives an array of shape {rows.shape} in {game}; allowed: {expected}, by hand"
            " and action"
        )
    return rows


def of_hand(
    game: Poker, policy: HandPolicy, state: PokerState, hand: Int[Array, " k"]
) -> Float[Array, " A"]:
    """What a policy does at a state with one hand, whose cards may be in any order.

    Raises:
      ValueError: the policy has the wrong shape for this game's hands and actions.
    """
    if hasattr(policy, "of_hand"):
        return policy.of_hand(_public(state), hand)
    same = jnp.all(jnp.asarray(all_hands(game)) == jnp.sort(hand)[None], axis=1)
    return probabilities(game, policy, state)[jnp.argmax(same)]


def draw_action(
    game: Poker, policy: HandPolicy, state: PokerState, hand: Int[Array, " k"], key: Key[Array, ""]
) -> Int[Array, ""]:
    """Draws what a policy does at a state with one hand; `key` is consumed."""
    return jax.random.categorical(key, jnp.log(of_hand(game, policy, state, hand)))


def _public(state):
    return state.replace(hole=jnp.full_like(state.hole, NOTHING))
