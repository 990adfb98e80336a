"""Supervised learning of value-and-policy networks from a replay buffer (Schmid et al. 2023).

A learner holds the parameters and the state of the optimizer:

    >>> import jaxgames
    >>> import nets
    >>> from flax import nnx
    >>> from jaxgames.beliefs import belief_table
    >>> from train.learner import LearnerSettings, new_learner
    >>> game = belief_table(jaxgames.make("kuhn_poker"))
    >>> graph, params = nnx.split(nets.new_cvpn(game, seed=0, width=8))
    >>> learner = new_learner(params, LearnerSettings(batch_size=8, capacity=64))

`update` makes one gradient step on a batch; `learn` makes many, on batches that it draws from a
replay buffer.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Int, Key, PyTree

from jaxgames.arrays import at, choose
from jaxgames.checks import at_least
from jaxgames.core import record
from jaxgames.registry import unknown
from nets.parameters import require_parameters
from solvers.device_batches import DATA
from train import losses
from train.replay import Replay, draw, drawn_examples, new_replay, random_priorities, uses_share

OPTIMIZERS = ("adam", "sgd")
POLICY_DTYPES = ("bfloat16", "float16", "float32")
CHECKED = ("values", "policy", "total", "gradient")  # causes first
MOMENTUM = 0.9  # of "sgd"; the paper does not give it


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """How to learn. Update t has the learning rate `learning_rate * decay_rate**(t / decay_steps)`.

    Static under `jit`.
    """

    optimizer: str = "adam"
    learning_rate: float = 1e-4
    decay_rate: float = 0.5
    decay_steps: int = 2_000_000
    batch_size: int = 1024
    capacity: int = 1_000_000  # of the replay buffer
    max_uses: int | float = 10  # gradient updates per example
    policy_dtype: str = "bfloat16"  # of policies in the replay buffer; losses are float32
    # shares of the examples whose policies the buffer has room for, by who acts, if the players'
    # policies differ in size; examples whose policy is lost teach values only
    policy_shares: tuple[float, float] = (1.0, 1.0)
    value_weight: float = 1.0
    policy_weight: float = 0.01
    max_gradient_norm: float | None = None  # longer gradients are scaled down to it; None: never
    l2: float = 0.0  # L2 regularisation: this share of the parameters is added to the gradient

    def __post_init__(self):
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(unknown("optimizer", self.optimizer, OPTIMIZERS))
        for name in ("learning_rate", "max_gradient_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name}={value} must be positive and finite")
        if not 0 < self.decay_rate <= 1:
            raise ValueError(f"decay_rate={self.decay_rate} must be over 0 and at most 1")
        at_least(1, decay_steps=self.decay_steps, batch_size=self.batch_size)
        if self.capacity < self.batch_size:
            raise ValueError(
                f"capacity={self.capacity} must be at least batch_size={self.batch_size}"
            )
        uses_share(self.max_uses)
        if self.policy_dtype not in POLICY_DTYPES:
            raise ValueError(unknown("policy_dtype", self.policy_dtype, POLICY_DTYPES))
        if len(self.policy_shares) != 2 or not all(0 < x <= 1 for x in self.policy_shares):
            raise ValueError(
                f"policy_shares={self.policy_shares} must be two numbers over 0 and up to 1"
            )
        for name in ("value_weight", "policy_weight", "l2"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and finite")


@record
class Learner:
    """A network in training."""

    params: PyTree  # of `nnx.split(network)`
    optimizer_state: PyTree
    step: Array  # [] int32 updates made


def new_learner(params: PyTree, settings: LearnerSettings) -> Learner:
    """A learner before its first update.

    Args:
      params: of the network, from `nnx.split`.
      settings: how to learn.

    Raises:
      ValueError: `params` hold a state that is no parameter, such as statistics of batches.
    """
    require_parameters(params)
    state = optimizer(settings).init(params)
    return Learner(params=params, optimizer_state=state, step=jnp.int32(0))


def new_buffer(example_like: Any, settings: LearnerSettings) -> Replay:
    """An empty replay buffer.

    Args:
      example_like: an unbatched example with the right shapes.
      settings: how to learn.
    """
    return new_replay(
        example_like,
        settings.capacity,
        policy_dtype=settings.policy_dtype,
        policy_shares=settings.policy_shares,
    )


def update(
    graph: nnx.GraphDef,
    learner: Learner,
    batch: Any,
    settings: LearnerSettings,
    *,
    loss: Callable[..., tuple[Array, dict[str, Array]]] = losses.loss,
    mesh: Mesh | None = None,
) -> tuple[Learner, dict[str, Array]]:
    """Makes one gradient update.

    Args:
      graph: of the network, from `nnx.split`. Static.
      learner: before the update.
      batch: examples (fields `[B, ...]`).
      settings: how to learn. Static.
      loss: `loss(network, batch, value_weight, policy_weight)` gives the loss and its two parts,
        means by the weights of the examples, "values" and "policy".
      mesh: the devices over which the batch is cut, whose weights of both kinds must add up to 1,
        or to 0; None: one device has all of it, and any weights are allowed.

    Returns:
      The learner, and the losses and the gradient's norm by the names in `CHECKED`. The learner is
      unchanged if one of them is not finite, or if all weights of the examples are 0.
    """
    weights = settings.value_weight, settings.policy_weight

    def gradient_of(params, batch, weights):
        def objective(params):
            return loss(nnx.merge(graph, params), batch, *weights)

        return jax.value_and_grad(objective, has_aux=True)(params)

    def gradient_of_share(params, batch):
        # Means over a device's examples count as much as its share of the weights.
        shares = jnp.sum(batch.value_weight), jnp.sum(batch.policy_weight)
        scaled = [w * share for w, share in zip(weights, shares, strict=True)]
        (total, parts), gradient = gradient_of(params, batch, scaled)
        parts = {"values": parts["values"] * shares[0], "policy": parts["policy"] * shares[1]}
        flat, structured = ravel_pytree(((total, parts), gradient))  # so that it is one sum
        return structured(jax.lax.psum(flat, DATA))

    if mesh is None:
        (total, parts), gradient = gradient_of(learner.params, batch, weights)
    else:
        gradient_of_all = jax.shard_map(
            gradient_of_share, mesh=mesh, in_specs=(P(), P(DATA)), out_specs=P(), check_vma=False
        )
        (total, parts), gradient = gradient_of_all(learner.params, batch)
    values = dict(parts, total=total, gradient=optax.tree.norm(gradient))
    with jax.numpy_dtype_promotion("standard"):  # optax multiplies counts and floats
        rule = optimizer(settings)
        change, state = rule.update(gradient, learner.optimizer_state, learner.params)
    after = Learner(
        params=optax.apply_updates(learner.params, change),
        optimizer_state=state,
        step=learner.step + 1,
    )
    weighted = jnp.any((batch.value_weight != 0) | (batch.policy_weight != 0))
    accepted = weighted & _all_finite(values)
    return choose(accepted, after, learner), values


def _all_finite(values):
    return jnp.all(jnp.stack([jnp.isfinite(value) for value in values.values()]), axis=0)


def learn(
    graph: nnx.GraphDef,
    key: Key[Array, ""],
    learner: Learner,
    buffer: Replay,
    *,
    settings: LearnerSettings,
    updates: int,
    mesh: Mesh | None = None,
    loss: Callable[..., tuple[Array, dict[str, Array]]] = losses.loss,
) -> tuple[Learner, Replay, dict[str, Array]]:
    """Makes several updates on examples drawn from the replay buffer.

    Args:
      graph: of the network, from `nnx.split`. Static.
      key: consumed.
      learner: before the updates.
      buffer: the replay buffer.
      settings: how to learn. Static.
      updates: how many to make. Static.
      mesh: the devices that share a batch; None: one.
      loss: as for `update`.

    Returns:
      The learner, the buffer with the uses of its examples counted, and the losses of the last
      update, or of the first that was refused.
    """

    # All examples are fetched at once, so that devices wait for each other once.
    keys = jax.random.split(key, updates)
    priorities = jax.vmap(lambda key: random_priorities(buffer, key))(keys)
    size, most = settings.batch_size, settings.max_uses
    buffer, slot, drawn = draw(buffer, priorities, size, most, mesh=mesh)
    slot, drawn = (x.T.reshape(-1) for x in (slot, drawn))  # a device has its part of each batch
    examples = drawn_examples(buffer, slot, drawn, mesh=mesh)
    batches = jax.tree.map(
        lambda x: x.reshape(size, updates, *x.shape[1:]).swapaxes(0, 1), examples
    )

    if mesh is not None:
        batches = batches.replace(
            value_weight=_adding_up_to_one(batches.value_weight),
            policy_weight=_adding_up_to_one(batches.policy_weight),
        )

    def step(learner, batch):
        return update(graph, learner, batch, settings, loss=loss, mesh=mesh)

    learner, values = jax.lax.scan(step, learner, batches)
    refused = ~_all_finite(values)
    shown = jnp.where(jnp.any(refused), jnp.argmax(refused), updates - 1)
    return learner, buffer, at(values, shown)


def _adding_up_to_one(weights):
    """Weights `[U, B]` divided by their sums over each batch, unless that is 0."""
    total = jnp.sum(weights, axis=1, keepdims=True)
    return weights / jnp.where(total == 0, 1, total)


def require_finite_losses(losses: Mapping[str, Array], step: Int[Array, ""] | int) -> None:
    """Raises an error if an update was refused; to be called outside of `jit`.

    Args:
      losses: those of an update, or the metrics of a training step.
      step: the number of the training step, for the message.

    Returns:
      Nothing: the updates were made if no error is raised.

    Raises:
      FloatingPointError: names the step and what was not finite.
    """
    values = jax.device_get({name: losses[name] for name in CHECKED})
    wrong = [name for name in CHECKED if not np.isfinite(values[name])]
    if wrong:
        raise FloatingPointError(f"step {step}: not finite: {', '.join(wrong)}")


def optimizer(settings: LearnerSettings) -> optax.GradientTransformation:
    """The optimiser with its decaying learning rate, after clipping and L2 regularisation."""
    rate = learning_rate(settings)
    rule = optax.adam(rate) if settings.optimizer == "adam" else optax.sgd(rate, momentum=MOMENTUM)
    if settings.max_gradient_norm is not None:
        rule = optax.chain(optax.clip_by_global_norm(settings.max_gradient_norm), rule)
    if settings.l2:
        rule = optax.chain(optax.add_decayed_weights(settings.l2), rule)
    return rule


def learning_rate(settings: LearnerSettings) -> optax.Schedule:
    """The learning rate by the number of updates made."""
    return optax.exponential_decay(
        settings.learning_rate, settings.decay_steps, settings.decay_rate
    )
