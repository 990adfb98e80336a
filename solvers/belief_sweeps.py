"""One step of a sweep over the public states of a belief-level game."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.arrays import sum_actions
from jaxgames.beliefs.contract import BeliefGame, PublicState


def values_above(
    game: BeliefGame,
    state: PublicState,
    below: Float[Array, "2 K N"],
    policy: Float[Array, "A N"],
) -> tuple[Float[Array, "2 N"], Float[Array, "A N"]]:
    """Counterfactual values in a public state from those in its children.

    Args:
      game: any belief-level game.
      state: a public state that is not terminal.
      below: values `[2, K, N]` of both players in the children, 0 where there is no child or row.
      policy: of the actor `[A, N]`.

    Returns:
      Values `[2, N]` of both players, and the actor's values `[A, N]` of its actions.
    """
    actions, seen = game.up(state, below)
    own = sum_actions(policy * actions)
    acts = jnp.arange(2, dtype=jnp.int32)[:, None] == game.actor(state)
    return jnp.where(acts, own[None], seen), actions
