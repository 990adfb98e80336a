"""What a search teaches: a public belief state with targets for values and policy."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import record


@record
class Example:
    """One belief state, or a batch of them on a leading axis; F features, N rows, A actions."""

    features: Array  # [F] of the public state
    reach: Array  # [2, N] own reaches
    mass: Array  # [2, N] compatible opponent reach of each row, 0 in rows that are not there
    rows: Array  # [2, N] bool which rows are there
    legal: Array  # [A, N] bool legal actions of the actor's rows
    values: Array  # [2, N] counterfactual values to learn
    policy: Array  # [A, N] policy of the actor to learn
    value_weight: Array  # [] how much the values count; 0: not at all
    policy_weight: Array  # []


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
    """What a search at `state` with own reaches `reach` found: `values` and the actor's `policy`.

    What they say of rows that are not there and of illegal actions is dropped.
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
    """An example of nothing: the shapes of what a game teaches."""
    reach = jnp.zeros((2, game.num_rows), dtype)
    policy = jnp.zeros((game.num_actions, game.num_rows), dtype)
    return make_example(
        game, game.root(), reach, reach, policy, value_weight=0.0, policy_weight=0.0
    )
