"""Counterfactual value-and-policy networks (CVPN; Student of Games, Schmid et al. 2023).

The input is a public belief state: the features of the public state and both players' normalised
ranges. The outputs are a value for every row (information state) of both players, per unit of
compatible opponent reach, and logits of a policy for every row of both players, of which those of
who acts count.
`CvpnEvaluator` makes the evaluator of a search from a network.
"""

from __future__ import annotations

import dataclasses
import math
import operator

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, PyTree

from jaxgames.arrays import masked_softmax
from jaxgames.beliefs.contract import BeliefGame, Policy, PublicState, Reach, Values
from nets.parameters import check_sizes, merged
from nets.ranges import Logits, Ranges, counterfactual, normalised, reached, smoothed
from nets.torsos import new_torso, product


class Cvpn(nnx.Module):
    """A torso and linear heads: values `[N]` and policy logits `[A, N]` of either player."""

    def __init__(
        self,
        *,
        num_features: int,
        num_rows: tuple[int, int],
        num_actions: tuple[int, int],
        width: int = 128,
        depth: int = 3,
        torso: str = "mlp",
        dtype: str = "float32",
        board: tuple[int, ...] | None = None,
        rngs: nnx.Rngs,
    ):
        """Makes a network with random parameters.

        Args:
          num_features: F, of a public state.
          num_rows: N0 and N1, information states of the players in a public state.
          num_actions: A0 and A1.
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
        self.num_features, self.num_rows, self.num_actions = num_features, num_rows, num_actions
        self.torso = new_torso(
            torso,
            num_features + sum(num_rows),
            width=width,
            depth=depth,
            board=board,
            rngs=rngs,
            dtype=dtype,
        )
        self.values = nnx.Linear(width, sum(num_rows), rngs=rngs)
        self.policy = nnx.Linear(width, sum(map(operator.mul, num_actions, num_rows)), rngs=rngs)

    def __call__(self, features: Float[Array, "*B F"], ranges: Ranges) -> tuple[Ranges, Logits]:
        """Values per unit of compatible opponent reach, and logits of all actions."""
        hidden = self.torso(jnp.concatenate([features, *ranges], axis=-1)).astype(features.dtype)
        logits, sizes = self.policy(hidden), self._sizes
        parts = jnp.split(logits, [math.prod(sizes[0])], axis=-1)
        first, second = (
            part.reshape(*part.shape[:-1], *size) for part, size in zip(parts, sizes, strict=True)
        )
        return self._by_player(self.values(hidden)), (first, second)

    def _by_player(self, rows):
        """What stands in one row, first player 0's and then player 1's, as a pair."""
        return rows[..., : self.num_rows[0]], rows[..., self.num_rows[0] :]

    def check_fits(self, game: BeliefGame, features: Float[Array, " F"] | None = None) -> None:
        """Checks that the network has the sizes of a game; they are known when a program is traced.

        Args:
          game: the game.
          features: of one of its public states; None: their number is not checked.

        Raises:
          ValueError: the sizes are those of another game, or the parameters of another network.
        """
        allowed = {"num_rows": game.num_rows, "num_actions": game.num_actions}
        if features is not None:
            allowed["num_features"] = features.shape[-1]
        check_sizes(self, game, allowed)
        sizes = {
            "values": (self.values.kernel.shape[-1], sum(self.num_rows)),
            "policy logits": (self.policy.kernel.shape[-1], sum(map(math.prod, self._sizes))),
        }
        if self.can_prepare:
            inputs = self.num_features + sum(self.num_rows)
            sizes["inputs"] = self.torso.first.kernel.shape[0], inputs
        for name, (found, expected) in sizes.items():
            if found != expected:
                raise ValueError(
                    f"params are of a network with {found} {name}, and do not fit the graph of one"
                    f" with {expected}"
                )

    @property
    def _sizes(self):
        """Actions and rows of either player."""
        return [*zip(self.num_actions, self.num_rows, strict=True)]

    @property
    def can_prepare(self) -> bool:
        """Whether the first layer is linear in the features and the ranges."""
        return hasattr(self.torso, "go_on")

    def prepare(self, features: Float[Array, "*B F"]) -> Float[Array, "*B W"]:
        """The first layer's sums over the features of public states alone."""
        first = self.torso.first
        return product(first, features, slice(features.shape[-1])) + first.bias[...]

    def prepared_values(self, prepared: Float[Array, "*B W"], ranges: Ranges) -> Ranges:
        """The values of `__call__`, from `prepare` of the features."""
        flat = jnp.concatenate(ranges, axis=-1)
        hidden = prepared + product(self.torso.first, flat, slice(-flat.shape[-1], None))
        return self._by_player(self.values(self.torso.go_on(hidden).astype(flat.dtype)))


def new_cvpn(
    game: BeliefGame,
    *,
    seed: int,
    width: int = 128,
    depth: int = 3,
    torso: str = "mlp",
    dtype: str = "float32",
) -> Cvpn:
    """Makes a network of the sizes that a game asks for.

    Args:
      game: the belief-level game.
      seed: of the first parameters.
      width: of the hidden layers.
      depth: hidden layers, or residual blocks.
      torso: "mlp", "residual" or "convolutional".
      dtype: precision of the factors in the torso, "float32" or "bfloat16".

    Returns:
      The network.

    Raises:
      ValueError: unknown torso or dtype, a size below 1, or a convolutional torso in a game without
        a board.
    """
    features = jax.eval_shape(lambda: game.encode(game.root()))
    return Cvpn(
        num_features=features.shape[0],
        num_rows=game.num_rows,
        num_actions=game.num_actions,
        width=width,
        depth=depth,
        torso=torso,
        dtype=dtype,
        board=getattr(game, "board", None),
        rngs=nnx.Rngs(seed),
    )


@dataclasses.dataclass(frozen=True)
class CvpnEvaluator:
    """The evaluator of a search, `evaluate(params, game, state, reach)`, from a `Cvpn` or another
    network with its methods."""

    graph: nnx.GraphDef  # of `nnx.split(network)`
    zero_sum: bool = True  # shift the values so that both players' expectations sum to 0
    temperature: float = 1.0  # of the prior
    smoothing: float = 0.0  # share of the uniform range in the ranges that the network sees

    def __post_init__(self):
        if not 0 <= self.smoothing <= 1:
            raise ValueError(f"smoothing={self.smoothing} must be from 0 to 1")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature={self.temperature} must be positive and finite")

    def __call__(
        self,
        params: PyTree,
        game: BeliefGame,
        state: PublicState,
        reach: Reach,
    ) -> tuple[Values, Policy]:
        """Evaluates one public belief state.

        Args:
          params: of `nnx.split(network)`.
          game: the game.
          state: one of its public states.
          reach: both players' own reaches there.

        Returns:
          Counterfactual values, 0 in absent rows, and the prior, 0 at illegal actions and for who
          does not act.

        Raises:
          ValueError: the network or `params` do not fit the game; as in the other methods.
        """
        features = game.encode(state)
        network = self._network(params, game, features)
        values, logits = network(features, self._ranges(game, state, reach))
        values = counterfactual(game, state, reach, values, zero_sum=self.zero_sum)
        legal = game.legal(state)
        first, second = (masked_softmax(logits[p] / self.temperature, legal[p]) for p in range(2))
        return values, (first, second)

    def prepare(
        self, params: PyTree, game: BeliefGame, state: PublicState
    ) -> Float[Array, "*W"] | None:
        """What does not depend on the reaches, for `prepared_values`.

        Args:
          params: of `nnx.split(network)`.
          game: the game.
          state: one of its public states.

        Returns:
          A layer's sums over the features; None for networks that begin otherwise.
        """
        features = game.encode(state)
        network = self._network(params, game, features)
        return network.prepare(features) if network.can_prepare else None

    def prepared_values(
        self,
        params: PyTree,
        game: BeliefGame,
        state: PublicState,
        prepared: Float[Array, "*W"] | None,
        reach: Reach,
    ) -> Values:
        """The values of `__call__`, from what was computed ahead.

        Args:
          params: of `nnx.split(network)`.
          game: the game.
          state: one of its public states.
          prepared: of `prepare`.
          reach: both players' own reaches there.

        Returns:
          Counterfactual values, 0 in absent rows.
        """
        if prepared is None:
            return self(params, game, state, reach)[0]
        network = self._network(params, game)
        values = network.prepared_values(prepared, self._ranges(game, state, reach))
        return counterfactual(game, state, reach, values, zero_sum=self.zero_sum)

    def _ranges(self, game, state, reach):
        seen = reached(game.rows(state), reach)
        return normalised(smoothed(game, state, seen, self.smoothing))

    def _network(self, params, game, features=None):
        network = merged(self.graph, params)
        network.check_fits(game, features)
        return network
