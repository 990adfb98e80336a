"""Regression of leaf values by a network (Brown, Sandholm and Amos 2018, appendix).

The Huber loss is minimised by Adam:

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from train import leaf_value_regression
    >>> features = jax.random.normal(jax.random.key(0), (512, 5))
    >>> targets = jnp.abs(features[:, :2])
    >>> graph, state = leaf_value_regression.init(5, 2, jax.random.key(1), widths=(32, 32))
    >>> state = leaf_value_regression.train_steps(
    ...     graph, state, features, targets, jax.random.key(2), num_steps=500, batch=64
    ... )
    >>> bool(leaf_value_regression.huber_loss(graph, state.params, features, targets) < 0.1)
    True
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Key, PyTree

from jaxgames.core import record
from nets.leaf_value_network import WIDTHS, LeafValues


@record
class LeafValueTraining:
    """The state of a regression."""

    params: PyTree  # of the network
    optimizer: PyTree  # Adam's moments


def init(
    num_features: int,
    num_values: int,
    key: Key[Array, ""],
    *,
    widths: tuple[int, ...] = WIDTHS,
) -> tuple[nnx.GraphDef, LeafValueTraining]:
    """Makes a network and the state before the first step.

    Args:
      num_features: F.
      num_values: K.
      key: consumed by the first parameters.
      widths: of the hidden layers.

    Returns:
      The network's graph, which is static under `jit`, and the state.
    """
    network = LeafValues(num_features, num_values, widths=widths, rngs=nnx.Rngs(key))
    graph, params = nnx.split(network)
    optimizer = optax.adam(1.0).init(params)  # moments, which do not depend on the rate
    return graph, LeafValueTraining(params=params, optimizer=optimizer)


@functools.partial(jax.jit, static_argnames=("graph", "num_steps", "batch", "learning_rate"))
def train_steps(
    graph: nnx.GraphDef,
    state: LeafValueTraining,
    features: Float[Array, "E F"],
    targets: Float[Array, "E K"],
    key: Key[Array, ""],
    *,
    num_steps: int,
    batch: int,
    learning_rate: float = 1e-3,
) -> LeafValueTraining:
    """Makes gradient steps, each on a batch of examples drawn at random with replacement.

    Args:
      graph: of `init`.
      state: of `init` or an earlier call.
      features: of E examples.
      targets: the values to learn.
      key: consumed.
      num_steps: how many steps to make.
      batch: examples in a step.
      learning_rate: of Adam.

    Returns:
      The state after these steps.

    Raises:
      ValueError: a number is not positive.
    """
    for name, value in (("batch", batch), ("learning_rate", learning_rate)):
        if not value > 0:
            raise ValueError(f"{name}={value} must be positive")

    def step(state, key):
        rows = jax.random.randint(key, (batch,), 0, len(features))
        gradient = jax.grad(lambda params: huber_loss(graph, params, features[rows], targets[rows]))
        with jax.numpy_dtype_promotion("standard"):  # optax multiplies counts and floats
            updates, optimizer = optax.adam(learning_rate).update(
                gradient(state.params), state.optimizer, state.params
            )
        params = optax.apply_updates(state.params, updates)
        return LeafValueTraining(params=params, optimizer=optimizer), None

    return jax.lax.scan(step, state, jax.random.split(key, num_steps))[0]


def huber_loss(
    graph: nnx.GraphDef, params: PyTree, features: Float[Array, "E F"], targets: Float[Array, "E K"]
) -> Float[Array, ""]:
    """Computes the mean Huber loss over examples.

    Args:
      graph: of `init`.
      params: of the network.
      features: of E examples.
      targets: their values.

    Returns:
      The loss.
    """
    return jnp.mean(optax.huber_loss(nnx.merge(graph, params)(features), targets))
