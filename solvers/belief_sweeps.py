"""One step of a sweep over the public states of a belief-level game."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.arrays import sum_actions
from jaxgames.beliefs.contract import BeliefGame, Policy, PublicState, Values


def values_above(
    game: BeliefGame,
    state: PublicState,
    below: tuple[Float[Array, "K N0"], Float[Array, "K N1"]],
    policy: Policy,
) -> tuple[Values, Policy]:
    """Counterfactual values in a public state from those in its children.

    Args:
      game: any belief-level game.
      state: a public state that is not terminal.
      below: values of both players in the children, 0 where there is no child or row.
      policy: of who acts.

    Returns:
      Values of both players, and their values of their actions, which are unspecified for who does
      not act.
    """
    actor = game.actor(state)
    actions, seen = game.up(state, below)
    own = [sum_actions(policy[p] * actions[p]) for p in range(2)]
    first, second = (jnp.where(actor == p, own[p], seen[p]) for p in range(2))
    return (first, second), actions
