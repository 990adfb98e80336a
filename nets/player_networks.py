"""One network for each player: a torso and a linear head, applied side by side."""

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
        """Makes a network with random parameters.

        Args:
          num_inputs: I.
          num_outputs: O.
          width: of the hidden layers.
          depth: hidden layers.
          rngs: of the parameters.

        Raises:
          ValueError: a size below 1.
        """
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
    """Makes networks of the same sizes with parameters of their own.

    Args:
      key: consumed by the first parameters.
      players: P.
      num_inputs: I.
      num_outputs: O.
      width: of the hidden layers.
      depth: hidden layers.

    Returns:
      The graph that the networks share, and their parameters, leaves `[P, ...]`.

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
    """Applies every player's network to the same inputs.

    Args:
      graph: of `new_player_networks`.
      params: of all players, leaves `[P, ...]`.
      inputs: `[..., I]`.

    Returns:
      Outputs `[P, ..., O]`.
    """
    return jax.vmap(lambda own: nnx.merge(graph, own)(inputs))(params)
