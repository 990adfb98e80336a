"""Training of networks of leaf values (Brown, Sandholm and Amos 2018, appendix): Huber loss, Adam.

graph, state = new_leaf_value_training(features.shape[1], targets.shape[1], key)
state = train(graph, state, features, targets, key, num_steps=1000, batch=256)
print(huber(graph, state.params, features, targets))
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
    """Parameters, and what the optimiser remembers."""

    params: PyTree
    optimizer: PyTree


def new_leaf_value_training(
    num_features: int,
    num_values: int,
    key: Key[Array, ""],
    *,
    widths: tuple[int, ...] = WIDTHS,
    learning_rate: float = 1e-3,
) -> tuple[nnx.GraphDef, LeafValueTraining]:
    """A network before its first step.

    Raises:
      ValueError: the learning rate is not positive.
    """
    if not learning_rate > 0:
        raise ValueError(f"learning_rate={learning_rate} must be positive")
    network = LeafValues(num_features, num_values, widths=widths, rngs=nnx.Rngs(key))
    graph, params = nnx.split(network)
    return graph, LeafValueTraining(params=params, optimizer=_adam(learning_rate).init(params))


@functools.partial(jax.jit, static_argnames=("graph", "num_steps", "batch", "learning_rate"))
def train(
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
    """The state after so many steps, each on a batch of examples drawn at random."""

    def step(state, key):
        rows = jax.random.randint(key, (batch,), 0, len(features))
        gradient = jax.grad(lambda params: huber(graph, params, features[rows], targets[rows]))
        with jax.numpy_dtype_promotion("standard"):  # optax multiplies counts and floats
            updates, optimizer = _adam(learning_rate).update(
                gradient(state.params), state.optimizer, state.params
            )
        params = optax.apply_updates(state.params, updates)
        return LeafValueTraining(params=params, optimizer=optimizer), None

    return jax.lax.scan(step, state, jax.random.split(key, num_steps))[0]


def huber(
    graph: nnx.GraphDef, params: PyTree, features: Float[Array, "E F"], targets: Float[Array, "E K"]
) -> Float[Array, ""]:
    """Mean Huber loss of the values of these examples."""
    return jnp.mean(optax.huber_loss(nnx.merge(graph, params)(features), targets))


def _adam(learning_rate):
    return optax.adam(learning_rate)
