"""Networks of a torso and one linear head, as many side by side as there are players."""

from __future__ import annotations

import jax
from flax import nnx
from jaxtyping import Array, Float, Key, PyTree

from nets.torsos import Mlp


class MlpHead(nnx.Module):
    """`depth` hidden layers of one `width`, then a linear layer to `num_outputs`."""

    def __init__(
        self, num_inputs: int, num_outputs: int, *, width: int, depth: int, rngs: nnx.Rngs
    ):
        self.torso = Mlp(num_inputs, width=width, depth=depth, rngs=rngs)
        self.head = nnx.Linear(width, num_outputs, rngs=rngs)

    def __call__(self, inputs: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        return self.head(self.torso(inputs))


def new_player_networks(
    key: Key[Array, ""],
    *,
    players: int,
    num_inputs: int,
    num_outputs: int,
    width: int,
    depth: int,
) -> tuple[nnx.GraphDef, PyTree]:
    """One graph, and parameters of their own for all players: leaves `[P, ...]`.

    Raises:
      ValueError: a size below 1.
    """

    def new(seed):
        rngs = nnx.Rngs(seed)
        return MlpHead(num_inputs, num_outputs, width=width, depth=depth, rngs=rngs)

    graph = nnx.split(nnx.eval_shape(lambda: new(0)))[0]
    return graph, jax.vmap(lambda key: nnx.split(new(key))[1])(jax.random.split(key, players))


def apply_player_networks(
    graph: nnx.GraphDef, params: PyTree, inputs: Float[Array, "*B I"]
) -> Float[Array, "P *B O"]:
    """What all players' networks make of the same inputs."""
    return jax.vmap(lambda own: nnx.merge(graph, own)(inputs))(params)
