"""Networks for the leaf values of depth-limited subgames (Brown, Sandholm, Amos 2018, appendix).

The input describes a leaf; the output is one value for each of the continuation strategies that the
opponent may choose there. Made for hold'em up to the end of the first street. The paper does not
list its 34 features; here they are the betting so far and both hands.
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
_MOST_RAISES = 4  # raises beyond these are left out of the features


class LeafValues(nnx.Module):
    """Hidden layers with a ReLU after each, and a linear layer to the K values."""

    def __init__(
        self,
        num_features: int,
        num_values: int,
        *,
        widths: tuple[int, ...] = WIDTHS,
        rngs: nnx.Rngs,
    ):
        """Makes a network with random parameters.

        Args:
          num_features: F.
          num_values: K, strategies to choose from at a leaf.
          widths: of the hidden layers.
          rngs: of the parameters.
        """
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
    """Describes every leaf with every pair of hands.

    Args:
      betting: the betting tree.
      leaves: nodes of it, L of them.
      hands: both players' hands of two cards, `[C_p, 2]`.
      ranks: of the deck.

    Returns:
      Features `[L, C_0, C_1, F]`: the pot, who raised last, the raises, and both hands.
    """
    bets = np.stack([_betting_features(betting, leaf) for leaf in leaves.tolist()])
    first, second = (_hand_features(held, ranks) for held in hands)
    shape = len(leaves), len(first), len(second)
    parts = (bets[:, None, None], first[None, :, None], second[None, None])
    return jnp.concatenate(
        [jnp.broadcast_to(part, (*shape, part.shape[-1])) for part in parts], axis=-1
    )


def _betting_features(betting, leaf):
    """The pot, who raised last, and raises as fractions of the pot, in order."""
    raises, last_raiser, node = [], np.zeros(2), leaf
    while betting.parent[node] != NO_NODE:
        above = betting.parent[node]
        stakes, more = betting.paid[above].max(), betting.paid[node].max()
        if more > stakes:
            raises.insert(0, (more - stakes) / (betting.pot + 2 * stakes))
            if not last_raiser.any():
                last_raiser[betting.actor[above]] = 1
        node = above
    raises = (raises + [0.0] * _MOST_RAISES)[:_MOST_RAISES]
    pot = np.log(betting.pot + betting.paid[leaf].sum())
    return np.array([pot / 10, *last_raiser, *raises], np.float32)


def _hand_features(hands, ranks):
    """The higher and the lower rank, one-hot, and whether the suits are the same."""
    rank, suit = hands // 4, hands % 4
    one_hot = np.eye(ranks, dtype=np.float32)
    suited = (suit[:, 0] == suit[:, 1]).astype(np.float32)[:, None]
    return np.concatenate([one_hot[rank.max(axis=1)], one_hot[rank.min(axis=1)], suited], axis=1)
