"""Exact values of leaves under strategies for the rest of a game (Brown, Sandholm and Amos 2018).

The value of leaf history h under strategies sigma_0 and sigma_1 is the expected payoff
v^(sigma_0, sigma_1)(h) from there on (section 4). It is a sum over the terminal histories below h:
of the payoff, times chance's probability, times both players' own reach from h on, which is a
product of probabilities that are looked up in each player's strategy.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import safe_divide
from jaxgames.core import TERMINAL, record
from jaxgames.game_tree import GameTree, levels
from solvers.sequence_form import Policy
from solvers.subgames.depth_limited_subgame import Subgame

# n_p strategies of each player, every one a policy of the whole game: [n_p, D_p, A]
Continuations = tuple[Float[Array, "n0 D0 A"], Float[Array, "n1 D1 A"]]


@record
class Paths:
    """The ways from L upper histories down to Z lower ones."""

    start: Array  # [Z] int32 upper history above each lower one
    chance: Array  # [Z] chance's probability on the way
    payoff: Array  # [Z] to player 0; 0 where the game does not end
    moves: tuple[Array, ...]  # [M_p, Z] int32 decision * A + action of player p, D_p * A at padding
    num_starts: int = flax.struct.field(pytree_node=False)  # L


def paths(
    tree: GameTree,
    above: Int[np.ndarray, " L"],
    below: Int[np.ndarray, " Z"] | None = None,
    *,
    dtype: str = "float32",
) -> Paths:
    """The ways from some histories down to others.

    Args:
      tree: the game.
      above: the upper histories, none of which comes before another.
      below: the lower histories, each below one of the upper ones; by default all terminal
        histories that are.
      dtype: "float32" or "float64".
    """
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


def paths_to_leaves(tree: GameTree, subgame: Subgame) -> Paths:
    """The ways from the start of the game to the leaves of a subgame."""
    leaves = np.asarray(subgame.leaf_history)
    return paths(tree, np.zeros(1, int), leaves, dtype=subgame.form.dtype.name)


def paths_from_leaves(tree: GameTree, subgame: Subgame) -> Paths:
    """The ways from the leaves of a subgame to the ends of the game."""
    return paths(tree, np.asarray(subgame.leaf_history), dtype=subgame.form.dtype.name)


def _climb(tree, rows, first):
    """Both players' moves, and chance's probability, from the `first` histories down to `rows`.

    It climbs from each of the rows to its parent, until all are at a history that is `first`.
    """
    padding = [count * tree.num_actions for count in tree.num_decisions]
    moves, chance = ([], []), np.ones(len(rows))
    while not first[rows].all():
        above = np.where(first[rows], rows, tree.parent[rows])
        for player in range(2):
            move = tree.information_state[above, player].astype(np.int64) * tree.num_actions
            acts = (tree.actor[above] == player) & ~first[rows]
            move = np.where(acts, move + tree.parent_action[rows], padding[player])
            moves[player].append(move)
        chance *= np.where(first[rows], 1.0, tree.chance_prob[rows])
        rows = above
    return tuple(_packed(*each, len(rows)) for each in zip(moves, padding, strict=True)), chance


def _packed(moves, padding, count):
    """Moves [M, Z] of `count` ways, without the rows that are all padding."""
    table = np.array(moves, int).reshape(len(moves), count)
    table = np.sort(table, axis=0)  # padding is the largest
    return jnp.asarray(table[(table != padding).any(axis=1)], jnp.int32)


def own_reach(paths: Paths, strategies: Float[Array, "n D A"], player: int) -> Float[Array, "n Z"]:
    """A player's own reach of the lower histories from the upper ones, under n strategies.

    Args:
      paths: the ways.
      strategies: probabilities `[n, D, A]` of the player.
      player: 0 or 1.
    """
    flat = strategies.reshape(len(strategies), -1)
    flat = jnp.concatenate([flat, jnp.ones((len(flat), 1), flat.dtype)], axis=1)
    return jnp.prod(flat[:, paths.moves[player]], axis=1)


@jax.jit
def values(paths: Paths, continuations: Continuations) -> Float[Array, "L n0 n1"]:
    """Expected payoff to player 0 from each upper history on, under every pair of strategies.

    Args:
      paths: from the upper histories to all ends of the game below them.
      continuations: n_p strategies of each player.
    """
    first, second = (own_reach(paths, rows, p) for p, rows in enumerate(continuations))

    def of_pair(reach_0, reach_1):
        weighed = reach_0 * reach_1 * paths.chance * paths.payoff
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
    """Leaf values, lowered so that no strategy beats the first one against the blueprint.

    Let strategy k be worth more to a player than its first strategy in its information state at a
    leaf, when its opponent follows the blueprint to there and its first strategy from there on.
    Then all values of k in that information state are lowered by the difference (the paper,
    section 4). Information states that the opponent's blueprint does not reach keep their values.

    Args:
      subgame: the piece of the game.
      leaf_values: payoff to player 0 at each leaf, by both players' choices.
      to_leaves: see `paths_to_leaves`.
      blueprint: policies `[D_p, A]` of the game by player.
    """
    for player, states in enumerate(subgame.leaf_choice):
        if subgame.choices[player] == 1:
            continue
        other = jnp.asarray(blueprint[1 - player])[None]
        belief = to_leaves.chance * own_reach(to_leaves, other, 1 - player)[0]
        sign = 1 if player == 0 else -1
        own = sign * (leaf_values[:, :, 0] if player == 0 else leaf_values[:, 0, :])  # [L, c]
        count = subgame.form.treeplexes[player].num_decisions
        total = jax.ops.segment_sum(belief, states, count)
        mean = jax.ops.segment_sum(belief[:, None] * own, states, count)
        mean = safe_divide(mean, total[:, None])
        excess = sign * jnp.maximum(mean - mean[:, :1], 0)[states]
        axis = 2 if player == 0 else 1
        leaf_values = leaf_values - jnp.expand_dims(excess, axis)
    return leaf_values
