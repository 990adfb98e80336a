"""Training examples: public belief states with targets for values and policies."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import record


@record
class Example:
    """A public belief state with targets, or a batch of them; F features, N rows, A actions."""

    features: Array  # [F] of the public state
    reach: Array  # [2, N] own reaches
    mass: Array  # [2, N] compatible opponent reach of each row, 0 in rows that do not exist
    rows: Array  # [2, N] bool rows that exist
    legal: Array  # [A, N] bool legal actions of the actor's rows
    values: Array  # [2, N] target of counterfactual values
    policy: Array  # [A, N] target of the actor's policy
    value_weight: Array  # [] of the values in the loss
    policy_weight: Array  # [] of the policy in the loss


def make_example(
    game: BeliefGame,
    state: PublicState,
    reach: Float[Array, "2 N"],
    values: Float[Array, "2 N"],
    policy: Float[Array, "A N"],
    *,
    value_weight: Float[Array, ""] | float = 1.0,
    policy_weight: Float[Array, ""] | float = 1.0,
) -> Example:
    """The example of a search.

    Args:
      game: any belief-level game.
      state: the public state that was searched.
      reach: own reaches `[2, N]` of both players there.
      values: counterfactual values `[2, N]` by the search; those of rows that do not exist are
        dropped.
      policy: of the actor `[A, N]` by the search; that of illegal actions is dropped.
      value_weight: of the values in the loss.
      policy_weight: of the policy in the loss.
    """
    rows, legal = game.rows(state), game.legal(state)
    mass = jnp.stack([game.compatible(state, player, reach[1 - player]) for player in range(2)])
    return Example(
        features=game.encode(state),
        reach=jnp.where(rows, reach, 0),
        mass=jnp.where(rows, mass, 0),
        rows=rows,
        legal=legal,
        values=jnp.where(rows, values, 0),
        policy=jnp.where(legal, policy, 0),
        value_weight=jnp.asarray(value_weight, values.dtype),
        policy_weight=jnp.asarray(policy_weight, policy.dtype),
    )


def blank_example(game: BeliefGame, dtype: str = "float32") -> Example:
    """An example of weight 0, which has the shapes of a game's examples."""
    reach = jnp.zeros((2, game.num_rows), dtype)
    policy = jnp.zeros((game.num_actions, game.num_rows), dtype)
    return make_example(
        game, game.root(), reach, reach, policy, value_weight=0.0, policy_weight=0.0
    )
