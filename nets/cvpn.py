"""Counterfactual value-and-policy networks (CVPN; Student of Games, Schmid et al. 2023).

The input is a public belief state: the features of the public state and both players' normalised
ranges. The outputs are a value for every row (information state) of both players, per unit of
compatible opponent reach, and logits of a policy for every row of the player who acts.
`CvpnEvaluator` makes the evaluator of a search from a network.
"""

from __future__ import annotations

import dataclasses
import io

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, PyTree

from jaxgames.arrays import masked_softmax, safe_divide
from jaxgames.beliefs.contract import BeliefGame, PublicState
from nets.torsos import new_torso


class Cvpn(nnx.Module):
    """A torso and two linear heads: values `[2, N]` and policy logits `[A, N]`."""

    def __init__(
        self,
        *,
        num_features: int,
        num_rows: int,
        num_actions: int,
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
          num_rows: N, information states of either player in a public state.
          num_actions: A.
          width: of the hidden layers.
          depth: hidden layers, or residual blocks.
          torso: "mlp", "residual" or "convolutional".
          dtype: precision of the torso, "float32" or "bfloat16"; the outputs are float32.
          board: shape (H, W, C) of the board that the features begin with, for a convolutional
            torso.
          rngs: of the parameters.

        Raises:
          ValueError: unknown torso, a size below 1, or a convolutional torso without a board.
        """
        self.num_rows, self.num_actions = num_rows, num_actions
        self.torso = new_torso(
            torso,
            num_features + 2 * num_rows,
            width=width,
            depth=depth,
            board=board,
            rngs=rngs,
            dtype=dtype,
        )
        self.values = nnx.Linear(width, 2 * num_rows, rngs=rngs)
        self.policy = nnx.Linear(width, num_actions * num_rows, rngs=rngs)

    def __call__(
        self, features: Float[Array, "*B F"], ranges: Float[Array, "*B 2 N"]
    ) -> tuple[Float[Array, "*B 2 N"], Float[Array, "*B A N"]]:
        """Values per unit of compatible opponent reach, and logits of all actions."""
        batch = features.shape[:-1]
        inputs = jnp.concatenate([features, ranges.reshape(*batch, -1)], axis=-1)
        hidden = self.torso(inputs).astype(features.dtype)
        values = self.values(hidden).reshape(*batch, 2, self.num_rows)
        return values, self.policy(hidden).reshape(*batch, self.num_actions, self.num_rows)

    @property
    def can_prepare(self) -> bool:
        """Whether the first layer is linear in the features and the ranges."""
        return hasattr(self.torso, "go_on")

    def prepare(self, features: Float[Array, "*B F"]) -> Float[Array, "*B W"]:
        """What the first layer makes of the features of public states alone."""
        first = self.torso.first
        return features @ first.kernel[: features.shape[-1]] + first.bias[...]

    def prepared_values(
        self, prepared: Float[Array, "*B W"], ranges: Float[Array, "*B 2 N"]
    ) -> Float[Array, "*B 2 N"]:
        """The values of `__call__`, from `prepare` of the features."""
        flat = ranges.reshape(*ranges.shape[:-2], -1)
        hidden = prepared + flat @ self.torso.first.kernel[-flat.shape[-1] :]
        hidden = hidden.astype(self.torso.first.dtype)
        values = self.values(self.torso.go_on(hidden).astype(ranges.dtype))
        return values.reshape(ranges.shape)


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
      dtype: precision of the torso, "float32" or "bfloat16".

    Returns:
      The network.

    Raises:
      ValueError: unknown torso, a size below 1, or a convolutional torso in a game without a board.
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
    """The evaluator of a search, `evaluate(params, game, state, reach)`, from a `Cvpn`."""

    graph: nnx.GraphDef  # of `nnx.split(network)`
    zero_sum: bool = True  # shift the values so that both players' expectations sum to 0
    temperature: float = 1.0  # of the prior
    smoothing: float = 0.0  # share of the uniform range in the ranges that the network sees

    def __post_init__(self):
        if not 0 <= self.smoothing <= 1:
            raise ValueError(f"smoothing={self.smoothing} must be from 0 to 1")

    def __call__(
        self,
        params: PyTree,
        game: BeliefGame,
        state: PublicState,
        reach: Float[Array, "2 N"],
    ) -> tuple[Float[Array, "2 N"], Float[Array, "A N"]]:
        """Evaluates one public belief state.

        Args:
          params: of `nnx.split(network)`.
          game: the game.
          state: one of its public states.
          reach: both players' own reaches there `[2, N]`.

        Returns:
          Counterfactual values `[2, N]`, 0 in absent rows, and the prior `[A, N]`, 0 at illegal
          actions.
        """
        network = nnx.merge(self.graph, params)
        seen = smoothed(game, state, reach, self.smoothing)
        values, logits = network(game.encode(state), normalised(seen))
        values = counterfactual(game, state, reach, values, zero_sum=self.zero_sum)
        return values, masked_softmax(logits / self.temperature, game.legal(state))

    def prepare(
        self, params: PyTree, game: BeliefGame, state: PublicState
    ) -> Float[Array, " W"] | None:
        """What does not depend on the reaches, for `prepared_values`.

        Args:
          params: of `nnx.split(network)`.
          game: the game.
          state: one of its public states.

        Returns:
          The first layer's sums over the features; None for networks that begin otherwise.
        """
        network = nnx.merge(self.graph, params)
        return network.prepare(game.encode(state)) if network.can_prepare else None

    def prepared_values(
        self,
        params: PyTree,
        game: BeliefGame,
        state: PublicState,
        prepared: Float[Array, " W"] | None,
        reach: Float[Array, "2 N"],
    ) -> Float[Array, "2 N"]:
        """The values of `__call__`, from what was computed ahead.

        Args:
          params: of `nnx.split(network)`.
          game: the game.
          state: one of its public states.
          prepared: of `prepare`.
          reach: both players' own reaches there `[2, N]`.

        Returns:
          Counterfactual values `[2, N]`, 0 in absent rows.
        """
        if prepared is None:
            return self(params, game, state, reach)[0]
        network = nnx.merge(self.graph, params)
        seen = normalised(smoothed(game, state, reach, self.smoothing))
        values = network.prepared_values(prepared, seen)
        return counterfactual(game, state, reach, values, zero_sum=self.zero_sum)


def normalised(reach: Float[Array, "2 N"]) -> Float[Array, "2 N"]:
    """Ranges: reaches that sum to 1, or to 0 where nothing is reached."""
    return safe_divide(reach, jnp.sum(reach, axis=1, keepdims=True))


def smoothed(
    game: BeliefGame, state: PublicState, reach: Float[Array, "2 N"], share: float
) -> Float[Array, "2 N"]:
    """Mixes ranges with the uniform range over the rows that are present.

    The network's inputs, and so its values, then change less from one iteration of a search to the
    next. The experiment `sog_glasses` measures the effect.

    Args:
      game: the game.
      state: one of its public states.
      reach: both players' own reaches there `[2, N]`.
      share: of the uniform range; at 0 the reaches are returned as they are.

    Returns:
      Normalised ranges `[2, N]`, unless `share` is 0.
    """
    if share == 0:
        return reach
    rows = game.rows(state).astype(reach.dtype)
    return (1 - share) * normalised(reach) + share * normalised(rows)


def counterfactual(
    game: BeliefGame,
    state: PublicState,
    reach: Float[Array, "2 N"],
    values: Float[Array, "2 N"],
    *,
    zero_sum: bool,
) -> Float[Array, "2 N"]:
    """Turns values per unit of compatible opponent reach into counterfactual values.

    Args:
      game: the game.
      state: one of its public states.
      reach: both players' own reaches there `[2, N]`.
      values: `[2, N]` per unit of compatible opponent reach.
      zero_sum: whether to shift each player's values per unit by one number, so that the payoffs
        which both players expect sum to 0.

    Returns:
      Counterfactual values `[2, N]`, 0 in absent rows.
    """
    mass = jnp.stack([game.compatible(state, p, reach[1 - p]) for p in range(2)])
    mass = jnp.where(game.rows(state), mass, 0)
    weighted = values * mass
    if zero_sum:
        excess, total = jnp.sum(reach * weighted), jnp.sum(reach[0] * mass[0])
        weighted = weighted - safe_divide(mass * excess, 2 * total)
    return weighted


def to_bytes(params: PyTree) -> bytes:
    """Serialises parameters.

    Args:
      params: of `nnx.split(network)`.

    Returns:
      The content of an .npz file.
    """
    leaves = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in _leaves(params)}
    content = io.BytesIO()
    np.savez_compressed(content, **leaves)
    return content.getvalue()


def from_bytes(content: bytes, like: PyTree) -> PyTree:
    """Reads parameters that `to_bytes` has written.

    Args:
      content: of an .npz file.
      like: parameters of a network of the same sizes.

    Returns:
      The parameters, with the structure of `like`.

    Raises:
      ValueError: they are of a network of other sizes.
    """
    arrays = np.load(io.BytesIO(content))
    leaves = []
    for path, leaf in _leaves(like):
        name = jax.tree_util.keystr(path)
        if name not in arrays or arrays[name].shape != leaf.shape:
            shape = f"has shape {arrays[name].shape}" if name in arrays else "is missing"
            raise ValueError(f"parameter {name} {shape}; it must have shape {leaf.shape}")
        leaves.append(jnp.asarray(arrays[name], leaf.dtype))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _leaves(params):
    return jax.tree_util.tree_flatten_with_path(params)[0]
