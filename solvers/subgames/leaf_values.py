"""Exact values of leaves under strategies for the rest of a game (Brown, Sandholm and Amos 2018).

The value of leaf history h is the expected payoff v^(sigma_0, sigma_1)(h) from there on. It is the
sum, over the ends of the game below h, of the payoff, chance's probability, and both players' own
reach from h on, which is a product of probabilities looked up in each player's strategy.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import TERMINAL, record
from jaxgames.game_tree import GameTree, levels
from solvers.sequence_form import Policy
from solvers.subgames.depth_limited_subgame import Subgame

# n_p strategies of each player, every one a policy of the whole game: [n_p, D_p, A]
Continuations = tuple[Float[Array, "n0 D0 A"], Float[Array, "n1 D1 A"]]


@record
class Paths:
    """What happens on the way from L histories down to Z others."""

    start: Array  # [Z] int32 which of the L each comes from
    chance: Array  # [Z] chance's probability from there on
    payoff: Array  # [Z] to player 0, where the game ends
    moves: tuple[Array, ...]  # [M_p, Z] int32 decision * A + action of player p, D_p * A at padding
    num_starts: int = flax.struct.field(pytree_node=False)  # L


def paths(
    tree: GameTree,
    above: Int[np.ndarray, " L"],
    below: Int[np.ndarray, " Z"] | None = None,
    *,
    dtype: str = "float32",
) -> Paths:
    """From histories `above`, none of which comes before another, to those `below`: by default to
    all ends of the game."""
    start = np.full(tree.num_histories, -1)
    start[above] = np.arange(len(above))
    first = start >= 0
    for rows in levels(tree.parent):
        start[rows] = np.where(first[rows], start[rows], start[tree.parent[rows]])
    if below is None:
        below = np.flatnonzero((start >= 0) & (tree.actor == TERMINAL))
    moves, chance = _climb(tree, below, first)
    return Paths(
        start=jnp.asarray(start[below], jnp.int32),
        chance=jnp.asarray(chance, dtype),
        payoff=jnp.asarray(tree.returns[below, 0], dtype),
        moves=moves,
        num_starts=len(above),
    )


def to_leaves(tree: GameTree, subgame: Subgame) -> Paths:
    """From the start of the game to the leaves of a subgame."""
    leaves = np.asarray(subgame.leaf_history)
    return paths(tree, np.zeros(1, int), leaves, dtype=subgame.tree.dtype.name)


def from_leaves(tree: GameTree, subgame: Subgame) -> Paths:
    """From the leaves of a subgame to the ends of the game."""
    return paths(tree, np.asarray(subgame.leaf_history), dtype=subgame.tree.dtype.name)


def _climb(tree, rows, first):
    """Both players' moves and chance's probability, from the first histories down to `rows`."""
    padding = [count * tree.num_actions for count in tree.num_decisions]
    found, chance = ([], []), np.ones(len(rows))
    while not first[rows].all():
        above = np.where(first[rows], rows, tree.parent[rows])
        for player in range(2):
            move = tree.information_state[above, player].astype(np.int64) * tree.num_actions
            acts = (tree.actor[above] == player) & ~first[rows]
            move = np.where(acts, move + tree.parent_action[rows], padding[player])
            found[player].append(move)
        chance *= np.where(first[rows], 1.0, tree.chance_prob[rows])
        rows = above
    return tuple(_packed(*each, len(rows)) for each in zip(found, padding, strict=True)), chance


def _packed(moves, padding, count):
    """Moves [M, Z] without rows of padding only."""
    table = np.array(moves, int).reshape(len(moves), count)
    table = np.sort(table, axis=0)  # padding is the largest
    return jnp.asarray(table[(table != padding).any(axis=1)], jnp.int32)


def own_reach(paths: Paths, strategies: Float[Array, "n D A"], player: int) -> Float[Array, "n Z"]:
    """A player's own reach of the lower histories from the upper ones, under n strategies."""
    flat = strategies.reshape(len(strategies), -1)
    flat = jnp.concatenate([flat, jnp.ones((len(flat), 1), flat.dtype)], axis=1)
    return jnp.prod(flat[:, paths.moves[player]], axis=1)


@jax.jit
def values(paths: Paths, continuations: Continuations) -> Float[Array, "L n0 n1"]:
    """Expected payoff to player 0 from each upper history on, under every pair of strategies.

    `paths` lead to all ends of the game.
    """
    first, second = (own_reach(paths, rows, p) for p, rows in enumerate(continuations))

    def of_pair(one, other):
        weighed = one * other * paths.chance * paths.payoff
        return jax.ops.segment_sum(weighed, paths.start, paths.num_starts)

    of_row = jax.vmap(of_pair, in_axes=(None, 0), out_axes=1)
    return jax.vmap(of_row, in_axes=(0, None), out_axes=1)(first, second)


@jax.jit
def weakened(
    subgame: Subgame,
    leaf_values: Float[Array, "L c0 c1"],
    to_leaves: Paths,
    blueprint: Policy,
) -> Float[Array, "L c0 c1"]:
    """Values under which no strategy beats the first one against the other player's blueprint.

    Where a player's strategy k is worth more to it than its first one is, in its information state
    at a leaf (its opponent following the first strategy, and the blueprint on the way there), all
    values of k there are lowered by the difference (the paper, section 4). States that the
    opponent's blueprint does not reach keep their values.
    """
    for player, states in enumerate(subgame.leaf_choice):
        if subgame.choices[player] == 1:
            continue
        other = jnp.asarray(blueprint[1 - player])[None]
        belief = to_leaves.chance * own_reach(to_leaves, other, 1 - player)[0]
        sign = 1 if player == 0 else -1
        own = sign * (leaf_values[:, :, 0] if player == 0 else leaf_values[:, 0, :])  # [L, c]
        count = subgame.tree.treeplexes[player].num_decisions
        total = jax.ops.segment_sum(belief, states, count)
        mean = jax.ops.segment_sum(belief[:, None] * own, states, count)
        mean = mean / jnp.where(total > 0, total, 1)[:, None]
        excess = sign * jnp.maximum(mean - mean[:, :1], 0)[states]
        axis = 2 if player == 0 else 1
        leaf_values = leaf_values - jnp.expand_dims(excess, axis)
    return leaf_values
