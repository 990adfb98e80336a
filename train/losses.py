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
from nets.cvpn import normalised
from train.examples import Example

# network(features [B, F], ranges [B, 2, N]) -> values [B, 2, N], policy logits [B, A, N]
Network = Callable[
    [Float[Array, "B F"], Float[Array, "B 2 N"]],
    tuple[Float[Array, "B 2 N"], Float[Array, "B A N"]],
]


def loss(
    network: Network,
    batch: Example,
    value_weight: Float[Array, ""] | float,
    policy_weight: Float[Array, ""] | float,
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """The loss of a batch of examples.

    Args:
      network: maps features `[B, F]` and ranges `[B, 2, N]` to values and policy logits.
      batch: examples (fields `[B, ...]`).
      value_weight: w_v.
      policy_weight: w_p.

    Returns:
      The weighted sum, and its parts "values" and "policy" before they are weighted. Each part is
      the mean over the examples by their own weights; examples of weight 0 do not count.
    """
    values, logits = network(batch.features, jax.vmap(normalised)(batch.reach))
    parts = {
        "values": _mean(jax.vmap(value_loss)(values, batch), batch.value_weight),
        "policy": _mean(jax.vmap(policy_loss)(logits, batch), batch.policy_weight),
    }
    return value_weight * parts["values"] + policy_weight * parts["policy"], parts


def value_loss(values: Float[Array, "2 N"], example: Example) -> Float[Array, ""]:
    """The Huber loss of values per unit of compatible reach, the mean over rows that have any."""
    unreached = example.mass < jnp.finfo(values.dtype).tiny  # False for NaN, to stay visible
    counted = example.rows & ~unreached & (example.value_weight != 0)
    target = jnp.where(counted, example.values, 0) / jnp.where(counted, example.mass, 1)
    losses = optax.huber_loss(jnp.where(counted, values, 0), target)
    return jnp.sum(losses) / jnp.maximum(jnp.sum(counted, dtype=values.dtype), 1)


def policy_loss(logits: Float[Array, "A N"], example: Example) -> Float[Array, ""]:
    """The KL divergence of the target from the prediction, summed over the actor's rows."""
    legal = example.legal & (example.policy_weight != 0)
    target = jnp.where(legal, example.policy, 0)
    log_target = jnp.log(jnp.where(target == 0, 1, target))  # 0 log 0 = 0
    return jnp.sum(target * (log_target - masked_log_softmax(logits, legal)))


def _mean(losses, weights):
    total = jnp.sum(weights)
    return jnp.sum(losses * weights) / jnp.where(total == 0, 1, total)
