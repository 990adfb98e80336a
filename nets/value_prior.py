"""Networks of value and prior: what an information state is worth to its player, what to do."""

from __future__ import annotations

import jax
from flax import nnx
from jaxtyping import Array, Float

from nets.cvpn import TORSOS


class ValuePrior(nnx.Module):
    """A torso of a kind in `cvpn.TORSOS`, and two linear heads."""

    def __init__(
        self,
        num_features: int,
        num_actions: int,
        *,
        width: int = 128,
        depth: int = 2,
        torso: str = "mlp",
        board: tuple[int, ...] | None = None,  # what the features begin with, if it is a board
        rngs: nnx.Rngs,
    ):
        if torso not in TORSOS:
            raise ValueError(f"unknown torso {torso!r}; allowed: {', '.join(TORSOS)}")
        more = {"board": board or ()} if torso == "convolutional" else {}
        self.torso = TORSOS[torso](num_features, width=width, depth=depth, rngs=rngs, **more)
        self.value = nnx.Linear(width, 1, rngs=rngs)
        self.prior = nnx.Linear(width, num_actions, rngs=rngs)

    def __call__(
        self, features: Float[Array, "*B F"]
    ) -> tuple[Float[Array, "*B"], Float[Array, "*B A"]]:
        """Values, in units of the scale of payoffs, and logits of all actions."""
        hidden = jax.nn.relu(self.torso(features))
        return self.value(hidden)[..., 0], self.prior(hidden)
