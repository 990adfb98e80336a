"""Networks with a value and a prior policy for one information state, as AlphaZero uses them."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, PyTree

from jaxgames.beliefs.contract import BeliefGame, PublicState
from nets.alphazero_network import AlphaZeroNetwork
from nets.parameters import check_sizes, merged
from nets.torsos import new_torso


class ValuePrior(nnx.Module):
    """A torso and two linear heads: a value, and logits of the prior `[A]`."""

    def __init__(
        self,
        num_features: int,
        num_actions: int,
        *,
        width: int = 128,
        depth: int = 2,
        torso: str = "mlp",
        dtype: str = "float32",
        board: tuple[int, ...] | None = None,
        rngs: nnx.Rngs,
    ):
        """Makes a network with random parameters.

        Args:
          num_features: F, of an information state.
          num_actions: A.
          width: of the hidden layers.
          depth: hidden layers, or residual blocks.
          torso: "mlp", "residual" or "convolutional".
          dtype: precision of the factors in the torso, "float32" or "bfloat16".
          board: shape (H, W, C) of the board that the features begin with, for a convolutional
            torso.
          rngs: of the parameters.

        Raises:
          ValueError: unknown torso or dtype, a size below 1, or a convolutional torso without a
            board.
        """
        self.num_features, self.num_actions = num_features, num_actions
        self.torso = new_torso(
            torso, num_features, width=width, depth=depth, board=board, rngs=rngs, dtype=dtype
        )
        self.value = nnx.Linear(width, 1, rngs=rngs)
        self.prior = nnx.Linear(width, num_actions, rngs=rngs)

    @property
    def num_logits(self) -> int:
        """How many logits the parameters give."""
        return self.prior.kernel.shape[-1]

    def __call__(
        self, features: Float[Array, "*B F"]
    ) -> tuple[Float[Array, "*B"], Float[Array, "*B A"]]:
        """Values, in units of the scale of payoffs, and logits of all actions."""
        hidden = jax.nn.relu(self.torso(features))
        return self.value(hidden)[..., 0], self.prior(hidden)


def new_value_prior(
    game: BeliefGame,
    *,
    seed: int,
    width: int = 128,
    depth: int = 2,
    torso: str = "mlp",
    dtype: str = "float32",
) -> ValuePrior | AlphaZeroNetwork:
    """Makes a network of the sizes that a game of perfect information asks for.

    Args:
      game: the game, whose `encode` gives the features.
      seed: of the first parameters.
      width: of the hidden layers.
      depth: hidden layers, or residual blocks.
      torso: "alphazero", with a residual tower and two heads of their own; or "mlp", "residual" or
        "convolutional", whose outputs both heads share.
      dtype: precision of the factors, "float32" or "bfloat16"; the shared heads' are float32.

    Returns:
      The network.

    Raises:
      ValueError: unknown torso or dtype, a size below 1, or a torso that needs a board in a game
        without one.
    """
    features = jax.eval_shape(lambda: game.encode(game.root()))
    if torso == "alphazero":
        return AlphaZeroNetwork(
            features.shape[0],
            max(game.num_actions),
            width=width,
            depth=depth,
            board=game.board or (),
            move_planes=game.move_planes,
            rngs=nnx.Rngs(seed),
            dtype=dtype,
        )
    return ValuePrior(
        features.shape[0],
        max(game.num_actions),
        width=width,
        depth=depth,
        torso=torso,
        dtype=dtype,
        board=game.board,
        rngs=nnx.Rngs(seed),
    )


@dataclasses.dataclass(frozen=True)
class ValuePriorEvaluator:
    """The evaluator of AlphaZero's search, `evaluate(params, game, state)`, from a `ValuePrior`.

    Any other module of nnx will do that has `num_features` F and `num_actions` A as attributes, and
    maps features `[*B, F]` to values `[*B]` and logits `[*B, A]`. What is no such module needs a
    function `evaluate` of its own.
    """

    graph: nnx.GraphDef  # of `nnx.split(network)`

    def __call__(
        self, params: PyTree, game: BeliefGame, state: PublicState
    ) -> tuple[Float[Array, ""], Float[Array, " A"]]:
        """Evaluates one public state.

        Args:
          params: of `nnx.split(network)`.
          game: a game of perfect information.
          state: one of its public states.

        Returns:
          The value to the player who acts, in units of the scale of payoffs, and logits `[A]`.

        Raises:
          ValueError: the network or `params` do not fit the game.
        """
        features = game.encode(state)
        network = merged(self.graph, params)
        sizes = {"num_features": features.shape[-1], "num_actions": max(game.num_actions)}
        check_sizes(network, game, sizes)
        return network(features.astype(jnp.float32))
