"""Networks that learn what the leaves of a depth-limited subgame are worth (Brown, Sandholm and
Amos 2018, appendix): from a description of a leaf, one value for each strategy on offer there.

For hold'em up to the end of the first street. The paper does not list its 34 features; these are
the betting so far, and both hands.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from jaxgames.holdem.betting_tree import NO_NODE, BettingTree

WIDTHS = (256, 128, 128, 128)  # the paper's
_MOST_RAISES = 4  # that are told apart


class LeafValues(nnx.Module):
    """Layers of these widths, ReLU after each, and a linear one to the K values."""

    def __init__(
        self,
        num_features: int,
        num_values: int,
        *,
        widths: tuple[int, ...] = WIDTHS,
        rngs: nnx.Rngs,
    ):
        sizes = [num_features, *widths]
        self.layers = nnx.List(
            nnx.Linear(before, after, rngs=rngs) for before, after in itertools.pairwise(sizes)
        )
        self.head = nnx.Linear(sizes[-1], num_values, rngs=rngs)

    def __call__(self, features: Float[Array, "*B F"]) -> Float[Array, "*B K"]:
        """Values to player 0, as fractions of the pot."""
        for layer in self.layers:
            features = jax.nn.relu(layer(features))
        return self.head(features)


def leaf_features(
    betting: BettingTree,
    leaves: Int[np.ndarray, " L"],
    hands: tuple[Int[np.ndarray, "C0 2"], Int[np.ndarray, "C1 2"]],
    *,
    ranks: int,
) -> Float[Array, "L C0 C1 F"]:
    """Of each leaf with each pair of hands of two cards."""
    told = np.stack([_betting_features(betting, leaf) for leaf in leaves.tolist()])
    first, second = (_hand_features(held, ranks) for held in hands)
    shape = len(leaves), len(first), len(second)
    parts = (told[:, None, None], first[None, :, None], second[None, None])
    return jnp.concatenate(
        [jnp.broadcast_to(part, (*shape, part.shape[-1])) for part in parts], axis=-1
    )


def _betting_features(betting, leaf):
    """The pot, who raised last, and raises as fractions of the pot, in order."""
    raises, raised, node = [], np.zeros(2), leaf
    while betting.parent[node] != NO_NODE:
        above = betting.parent[node]
        stakes, more = betting.paid[above].max(), betting.paid[node].max()
        if more > stakes:
            raises.insert(0, (more - stakes) / (betting.pot + 2 * stakes))
            if not raised.any():
                raised[betting.actor[above]] = 1
        node = above
    raises = (raises + [0.0] * _MOST_RAISES)[:_MOST_RAISES]
    pot = np.log(betting.pot + betting.paid[leaf].sum())
    return np.array([pot / 10, *raised, *raises], np.float32)


def _hand_features(hands, ranks):
    """Ranks, one of `ranks` each, and whether the suits are the same."""
    rank, suit = hands // 4, hands % 4
    known = np.eye(ranks, dtype=np.float32)
    suited = (suit[:, 0] == suit[:, 1]).astype(np.float32)[:, None]
    return np.concatenate([known[rank.max(axis=1)], known[rank.min(axis=1)], suited], axis=1)
