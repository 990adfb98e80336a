"""AlphaZero's network (Silver et al. 2018): a residual tower, with heads of their own for the value
and the prior.

The prior's head depends on the game, as in the paper. Where actions are moves from a square, it is
convolutional, with a plane for each kind of move; elsewhere a dense layer sees two channels of all
cells. The value's sees one channel of all cells, and has a hidden layer. Differences from the
paper: the tower normalises before its convolutions, and normalises channels (layer normalisation),
not batches; the value's hidden layer is as wide as the tower, as 256 units are there.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from nets.torsos import ResidualTower, convolution_layer, few_at_a_time, linear

_PRIOR_CHANNELS = 2  # before a dense layer


class AlphaZeroNetwork(ResidualTower):
    """A value, from -1 to 1, and logits of the prior `[A]`, as of `nets.ValuePrior`."""

    def __init__(
        self,
        num_features: int,
        num_actions: int,
        *,
        width: int,
        depth: int,
        board: tuple[int, ...],
        move_planes: int = 0,
        rngs: nnx.Rngs,
        dtype: str = "float32",
    ):
        """Makes a network with random parameters.

        Args:
          num_features: F, of an information state.
          num_actions: A.
          width: channels of the tower.
          depth: its blocks.
          board: shape (H, W, C) of the board that the features begin with.
          move_planes: kinds of moves from a square, as of `BeliefGame.move_planes`; 0: actions are
            not moves from squares.
          rngs: of the parameters.
          dtype: precision of the factors, "float32" or "bfloat16".

        Raises:
          ValueError: an unknown dtype, a size below 1, a board that the features do not have, or
            planes that are not A.
        """
        options = dict(rngs=rngs, dtype=dtype)
        super().__init__(num_features, width=width, depth=depth, board=board, **options)
        cells = math.prod(board[:2])
        if move_planes and cells * move_planes != num_actions:
            raise ValueError(
                f"move_planes={move_planes} on board={board} are not num_actions={num_actions}"
            )
        self.num_features, self.num_actions = num_features, num_actions
        self.move_planes = move_planes
        self.last_norm = nnx.LayerNorm(width, rngs=rngs)
        if move_planes:
            self.prior_board = convolution_layer(width, width, **options)
            self.prior_norm = nnx.LayerNorm(width, rngs=rngs)
            self.prior = convolution_layer(width, move_planes, size=1, **options)
        else:
            self.prior_board = convolution_layer(width, _PRIOR_CHANNELS, size=1, **options)
            self.prior = linear(cells * _PRIOR_CHANNELS, num_actions, **options)
        self.value_board = convolution_layer(width, 1, size=1, **options)
        self.value_hidden = linear(cells, width, **options)
        self.value = nnx.Linear(width, 1, rngs=rngs)

    def __call__(
        self, features: Float[Array, "*B F"]
    ) -> tuple[Float[Array, "*B"], Float[Array, "*B A"]]:
        """Values, in units of the scale of payoffs, and logits of all actions."""
        found = few_at_a_time(self, features)
        return found[..., 0], found[..., 1:]

    @property
    def num_logits(self) -> int:
        """How many logits the parameters give."""
        return self.prior.kernel.shape[-1] * (math.prod(self.board[:2]) if self.move_planes else 1)

    def at_once(self, inputs: Float[Array, "*B F"]) -> Float[Array, "*B O"]:
        """The values of all boards at once, and then their logits."""
        batch = inputs.shape[:-1]
        hidden = jax.nn.relu(self.last_norm(self.tower(inputs).astype(jnp.float32)))
        cells = jax.nn.relu(self.value_board(hidden)).reshape(*batch, -1)
        value = jnp.tanh(self.value(jax.nn.relu(self.value_hidden(cells))))
        return jnp.concatenate([value, self._logits(hidden)], axis=-1)

    def _logits(self, hidden):
        batch, prior = hidden.shape[:-3], self.prior_board(hidden)
        if not self.move_planes:
            return self.prior(jax.nn.relu(prior).reshape(*batch, -1))
        planes = self.prior(jax.nn.relu(self.prior_norm(prior.astype(jnp.float32))))
        # Actions count squares column by column, and each column from the mover's side on; boards
        # have rows, the mover's side last.
        by_column = jnp.swapaxes(jnp.flip(planes, -3), -3, -2)
        return by_column.reshape(*batch, -1)
