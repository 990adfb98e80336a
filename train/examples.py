"""Training examples: public belief states with targets for values and policies."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.beliefs.contract import BeliefGame, Policy, PublicState, Reach, Values
from jaxgames.core import record


@record
class Example:
    """A public belief state with targets, or a batch of them; F features, N rows, A actions.

    What both players have is a pair.
    """

    features: Array  # [F] of the public state
    actor: Array  # [] int32 who acts
    reach: tuple[Array, Array]  # [N] own reaches
    # [N] compatible opponent reach of each row, 0 in rows that do not exist
    mass: tuple[Array, Array]
    rows: tuple[Array, Array]  # [N] bool rows that exist
    legal: tuple[Array, Array]  # [A, N] bool legal actions of the actor's rows
    values: tuple[Array, Array]  # [N] target of counterfactual values
    policy: tuple[Array, Array]  # [A, N] target of the actor's policy
    value_weight: Array  # [] of the values in the loss
    policy_weight: Array  # [] of the policy in the loss


def make_example(
    game: BeliefGame,
    state: PublicState,
    reach: Reach,
    values: Values,
    policy: Policy,
    *,
    value_weight: Float[Array, ""] | float = 1.0,
    policy_weight: Float[Array, ""] | float = 1.0,
) -> Example:
    """The example of a search.

    Args:
      game: any belief-level game.
      state: the public state that was searched.
      reach: own reaches of both players there.
      values: counterfactual values by the search; those of rows that do not exist are dropped.
      policy: of the actor by the search; that of illegal actions is dropped.
      value_weight: of the values in the loss.
      policy_weight: of the policy in the loss.
    """
    rows, legal = game.rows(state), game.legal(state)
    mass = [game.compatible(state, player, reach[1 - player]) for player in range(2)]
    where = lambda masks, pair: tuple(  # noqa: E731
        jnp.where(mask, x, 0) for mask, x in zip(masks, pair, strict=True)
    )
    return Example(
        features=game.encode(state),
        actor=game.actor(state),
        reach=where(rows, reach),
        mass=where(rows, mass),
        rows=rows,
        legal=legal,
        values=where(rows, values),
        policy=where(legal, policy),
        value_weight=jnp.asarray(value_weight, values[0].dtype),
        policy_weight=jnp.asarray(policy_weight, policy[0].dtype),
    )


def blank_example(game: BeliefGame, dtype: str = "float32") -> Example:
    """An example of weight 0, which has the shapes of a game's examples."""
    reach = tuple(jnp.zeros(rows, dtype) for rows in game.num_rows)
    sizes = zip(game.num_actions, game.num_rows, strict=True)
    policy = tuple(jnp.zeros(size, dtype) for size in sizes)
    return make_example(
        game, game.root(), reach, reach, policy, value_weight=0.0, policy_weight=0.0
    )
