"""Perfect play in small games of perfect information, by backward induction.

A position that several histories lead to occurs once: tic-tac-toe has 5,478 positions and 549,946
histories. A policy over positions is `[S, A]`; values are player 0's.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.beliefs.listing import distinct_states, in_blocks
from jaxgames.core import TERMINAL, record

NOWHERE = -1  # in `Positions.child`: the action is illegal
_BLOCK = 1024  # positions expanded at once


@record
class Positions:
    """S positions in order of depth, the root first. All fields are NumPy arrays."""

    state: PublicState  # [S, ...]
    depth: Array  # [S] int32 moves from the root
    actor: Array  # [S] int32
    child: Array  # [S, A] int32 position after each action, NOWHERE at padding
    payoff: Array  # [S] float of player 0 at terminals, else 0


def enumerate_positions(game: BeliefGame, *, max_positions: int = 1_000_000) -> Positions:
    """All positions below the root of a game of perfect information.

    Args:
      game: a belief-level game with one row per player and no chance moves, in which child k is
        where action k leads.
      max_positions: the most positions to list.

    Returns:
      The positions; each occurs once, however many histories lead to it.

    Raises:
      ValueError: another kind of game, or more positions than `max_positions`.
    """
    if game.num_rows != (1, 1) or game.num_actions != (game.num_children,) * 2:
        raise ValueError(
            f"{game.name} has num_rows={game.num_rows}, num_children={game.num_children}, "
            f"num_actions={game.num_actions}; allowed: one row, a child for every action"
        )
    level = jax.tree.map(lambda leaf: np.asarray(leaf)[None], game.root())
    levels, actors, children, payoffs, count = [], [], [], [], 0
    while (size := _length(level)) > 0:
        count += size
        if count > max_positions:
            raise ValueError(f"{game.name} has more than max_positions={max_positions} positions")
        actor, payoff, mask, below = in_blocks(
            lambda block: _expand(game, block), level, size=_BLOCK
        )
        levels.append(level)
        below = at(below, mask)
        first, number = distinct_states(below)
        level = at(below, first)
        child = np.full(mask.shape, NOWHERE, np.int32)
        child[mask] = count + number
        for values, new in zip((actors, children, payoffs), (actor, child, payoff), strict=True):
            values.append(new)
    sizes = [_length(states) for states in levels]
    depth = np.repeat(np.arange(len(levels), dtype=np.int32), sizes)
    return Positions(
        state=jax.tree.map(lambda *parts: np.concatenate(parts), *levels),
        depth=depth,
        actor=np.concatenate(actors),
        child=np.concatenate(children),
        payoff=np.concatenate(payoffs),
    )


def perfect_values(positions: Positions) -> Float[np.ndarray, " S"]:
    """The values of all positions if both players play perfectly.

    Args:
      positions: of the game.

    Returns:
      Player 0's values `[S]`.
    """
    sign = np.where(positions.actor == 1, -1.0, 1.0)[:, None]
    legal = positions.child != NOWHERE

    def choose(here, below):
        return sign[here, 0] * np.max(np.where(legal[here], sign[here] * below, -np.inf), axis=1)

    return _induct(positions, choose)


def perfect_actions(positions: Positions) -> Bool[np.ndarray, "S A"]:
    """Which actions `[S, A]` keep the perfect value; none at terminals."""
    values = perfect_values(positions)
    kept = values[np.maximum(positions.child, 0)] == values[:, None]
    return kept & (positions.child != NOWHERE)


def perfect_policy(positions: Positions) -> Float[np.ndarray, "S A"]:
    """The policy that is uniform over `perfect_actions`.

    Args:
      positions: of the game.

    Returns:
      Action probabilities `[S, A]`; 0 at terminals.
    """
    kept = perfect_actions(positions)
    return kept / np.maximum(kept.sum(axis=1, keepdims=True), 1)


def best_response_values(
    positions: Positions, policy: Float[np.ndarray, "S A"], *, player: int
) -> Float[np.ndarray, " S"]:
    """Player 0's values if `player` plays a best response to a policy of the other player.

    Args:
      positions: of the game.
      policy: action probabilities `[S, A]` of the other player.
      player: who responds, 0 or 1.

    Returns:
      Values `[S]`; at the root, the worst that can happen to the policy.
    """
    legal = positions.child != NOWHERE
    sign = 1.0 if player == 0 else -1.0

    def choose(here, below):
        best = sign * np.max(np.where(legal[here], sign * below, -np.inf), axis=1)
        played = np.sum(np.where(legal[here], policy[here] * below, 0), axis=1)
        return np.where(positions.actor[here] == player, best, played)

    return _induct(positions, choose)


def _induct(positions: Positions, choose: Callable) -> np.ndarray:
    """Values `[S]` of all positions, from the deepest ones up.

    `choose(here, below)` gives the values of positions `here` `[n]` from those of their children
    `below` `[n, A]`.
    """
    values = positions.payoff.astype(np.float64)
    for depth in range(int(positions.depth.max()), -1, -1):
        here = np.flatnonzero((positions.depth == depth) & (positions.actor != TERMINAL))
        if len(here):
            values[here] = choose(here, values[np.maximum(positions.child[here], 0)])
    return values


@jax.jit
def _expand(game, states):
    def expand_one(state):
        actor = game.actor(state)
        payoff = game.terminal_values(state, 0, jnp.ones(1, float))[0]
        payoff = jnp.where(actor == TERMINAL, payoff, 0)
        return actor, payoff, game.child_mask(state), game.children(state)

    return jax.vmap(expand_one)(states)


def _length(states: PublicState) -> int:
    return len(jax.tree.leaves(states)[0])
