"""Counterfactual value-and-policy networks (Student of Games; Schmid et al. 2023).

A network sees a public belief state: the public features and both players' ranges, normalised. It
answers with a value for every row of both players, per unit of compatible opponent range, and with
a policy for every row of the actor. `CvpnEvaluator` turns that into the evaluator of a search.
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
    """Values `[2, N]` and policy logits `[A, N]` from features `[F]` and ranges `[2, N]`."""

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
        board: tuple[int, ...] | None = None,  # what the features begin with, if it is a board
        rngs: nnx.Rngs,
    ):
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
        batch = features.shape[:-1]
        inputs = jnp.concatenate([features, ranges.reshape(*batch, -1)], axis=-1)
        hidden = self.torso(inputs).astype(features.dtype)
        values = self.values(hidden).reshape(*batch, 2, self.num_rows)
        return values, self.policy(hidden).reshape(*batch, self.num_actions, self.num_rows)


def new_cvpn(
    game: BeliefGame,
    *,
    seed: int,
    width: int = 128,
    depth: int = 3,
    torso: str = "mlp",
    dtype: str = "float32",
) -> Cvpn:
    """A network of the shape that `game` asks for.

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
    """`evaluate(params, game, state, reach)` for `solvers.search`, from `nnx.split(network)`."""

    graph: nnx.GraphDef
    zero_sum: bool = True  # takes half of what both players together would win from each
    temperature: float = 1.0  # of the prior
    smoothing: float = 0.0  # share of uniform in the ranges that the network sees

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
        network = nnx.merge(self.graph, params)
        seen = smoothed(game, state, reach, self.smoothing)
        values, logits = network(game.encode(state), normalised(seen))
        values = counterfactual(game, state, reach, values, zero_sum=self.zero_sum)
        return values, masked_softmax(logits / self.temperature, game.legal(state))


def normalised(reach: Float[Array, "2 N"]) -> Float[Array, "2 N"]:
    """Ranges: reaches that sum to 1, or to 0 where nothing is reached."""
    return safe_divide(reach, jnp.sum(reach, axis=1, keepdims=True))


def smoothed(
    game: BeliefGame, state: PublicState, reach: Float[Array, "2 N"], share: float
) -> Float[Array, "2 N"]:
    """Ranges of which a `share` is uniform over the rows that are there; 0: the reaches themselves.

    The values that a search asks for then change less from one iteration to the next, as its
    policies do: `sog_glasses` measures what that is worth.
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
    """Counterfactual values from values per unit of compatible opponent reach.

    `zero_sum` shifts both players' values by one number each, so that their beliefs expect
    opposite payoffs.
    """
    mass = jnp.stack([game.compatible(state, p, reach[1 - p]) for p in range(2)])
    mass = jnp.where(game.rows(state), mass, 0)
    found = values * mass
    if zero_sum:
        excess, total = jnp.sum(reach * found), jnp.sum(reach[0] * mass[0])
        found = found - mass * excess / jnp.where(total > 0, 2 * total, 1)
    return found


def to_bytes(params: PyTree) -> bytes:
    """Parameters (`nnx.split`) as the content of an .npz file."""
    leaves = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in _leaves(params)}
    content = io.BytesIO()
    np.savez_compressed(content, **leaves)
    return content.getvalue()


def from_bytes(content: bytes, like: PyTree) -> PyTree:
    """Parameters from `to_bytes`, for a network whose parameters look `like` these.

    Raises:
      ValueError: they are of another network.
    """
    found = np.load(io.BytesIO(content))
    leaves = []
    for path, leaf in _leaves(like):
        name = jax.tree_util.keystr(path)
        if name not in found or found[name].shape != leaf.shape:
            shape = found[name].shape if name in found else "nothing"
            raise ValueError(f"parameter {name} must have shape {leaf.shape}; found {shape}")
        leaves.append(jnp.asarray(found[name], leaf.dtype))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _leaves(params):
    return jax.tree_util.tree_flatten_with_path(params)[0]
