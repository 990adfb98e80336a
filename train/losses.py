"""The loss of counterfactual value-and-policy networks (Student of Games; Schmid et al. 2023).

The paper's supplement, "Network Architecture and Optimization", has

    w_v Huber(v, v_target) + w_p sum_i KL(p_target^i || p^i)

Values are compared per unit of compatible opponent reach, which is what networks predict.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jaxgames.arrays import masked_log_softmax
from jaxgames.beliefs.contract import Policy, Values
from nets.ranges import Logits, Ranges, normalised, reached
from train.examples import Example

# network(features [B, F], ranges) -> values, policy logits; all but the features are pairs
Network = Callable[[Float[Array, "B F"], Ranges], tuple[Ranges, Logits]]


def loss(
    network: Network,
    batch: Example,
    value_weight: Float[Array, ""] | float,
    policy_weight: Float[Array, ""] | float,
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """The loss of a batch of examples.

    Args:
      network: maps features `[B, F]` and ranges to values and policy logits of both players.
      batch: examples (fields `[B, ...]`).
      value_weight: w_v.
      policy_weight: w_p.

    Returns:
      The weighted sum, and its parts "values" and "policy" before they are weighted. Each part is
      the mean over the examples by their own weights; examples of weight 0 do not count.
    """
    ranges = jax.vmap(lambda rows, reach: normalised(reached(rows, reach)))(batch.rows, batch.reach)
    values, logits = network(batch.features, ranges)
    parts = {
        "values": weighted_mean(jax.vmap(value_loss)(values, batch), batch.value_weight),
        "policy": weighted_mean(jax.vmap(policy_loss)(logits, batch), batch.policy_weight),
    }
    return value_weight * parts["values"] + policy_weight * parts["policy"], parts


def value_loss(values: Values, example: Example) -> Float[Array, ""]:
    """The Huber loss of values per unit of compatible reach, the mean over rows that have any."""
    total, count = 0.0, 0.0
    for own, mass, rows, target in zip(
        values, example.mass, example.rows, example.values, strict=True
    ):
        unreached = mass < jnp.finfo(own.dtype).tiny  # False for NaN, to stay visible
        counted = rows & ~unreached & (example.value_weight != 0)
        target = jnp.where(counted, target, 0) / jnp.where(counted, mass, 1)
        total += jnp.sum(optax.huber_loss(jnp.where(counted, own, 0), target))
        count += jnp.sum(counted, dtype=own.dtype)
    return total / jnp.maximum(count, 1)


def policy_loss(logits: Policy, example: Example) -> Float[Array, ""]:
    """The KL divergence of the target from the prediction, summed over the actor's rows."""
    loss = 0.0
    for own, legal, target in zip(logits, example.legal, example.policy, strict=True):
        legal = legal & (example.policy_weight != 0)
        target = jnp.where(legal, target, 0)
        log_target = jnp.log(jnp.where(target == 0, 1, target))  # 0 log 0 = 0
        loss += jnp.sum(target * (log_target - masked_log_softmax(own, legal)))
    return loss


def weighted_mean(losses: Float[Array, " B"], weights: Float[Array, " B"]) -> Float[Array, ""]:
    """The mean of losses by weights; 0 if all weights are 0."""
    total = jnp.sum(weights)
    return jnp.sum(losses * weights) / jnp.where(total == 0, 1, total)
