"""Leaf evaluators that need no learning: search is tested with them, and networks against them.

An evaluator is `evaluate(params, game, state, reach [2, N]) -> values [2, N], prior [A, N]`; its
priors here are uniform.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from jaxgames.game_tree import GameTree, levels
from jaxgames.public_game import PublicGame, PublicState
from jaxgames.public_table import PublicTable
from solvers.public_tree import Policy
from solvers.search.search_tree import uniform


def zero(
    params: PyTree, game: PublicGame, state: PublicState, reach: Float[Array, "2 N"]
) -> tuple[Float[Array, "2 N"], Float[Array, "A N"]]:
    """Nothing is worth anything. `params` are ignored."""
    return jnp.zeros_like(reach), uniform(game, state, reach.dtype)


def continuation(
    params: Float[Array, "S N N"],
    game: PublicTable,
    state: PublicState,
    reach: Float[Array, "2 N"],
) -> tuple[Float[Array, "2 N"], Float[Array, "A N"]]:
    """What a fixed policy of both players would earn from here; `params` from
    `continuation_values`."""
    values = params[state]
    first = jnp.sum(values * reach[1][None, :], axis=1)
    second = -jnp.sum(values * reach[0][:, None], axis=0)
    return jnp.stack([first, second]), uniform(game, state, reach.dtype)


def continuation_values(
    tree: GameTree, table: PublicTable, policy: Policy
) -> Float[Array, "S N N"]:
    """Player 0's chance-weighted payoff from every pair of rows on, if both follow `policy`."""
    chance = tree.chance_prob.copy()
    for level in levels(tree.parent):
        chance[level] *= chance[tree.parent[level]]
    above, acted = tree.parent, tree.parent_action
    played = np.ones(tree.num_histories)
    for player in range(2):
        rows = np.asarray(policy[player], np.float64)
        own = (tree.actor[above] == player) & (above >= 0)
        played[own] = rows[tree.information_state[above[own], player], acted[own]]
    values = chance * tree.returns[:, 0]
    for level in list(levels(tree.parent))[::-1]:
        np.add.at(values, above[level], played[level] * values[level])
    states = np.asarray(table.information_states)
    total = np.zeros(table.payoffs.shape)
    at = tree.public_state
    rows = [
        np.argmax(states[at, player] == tree.information_state[:, player, None], axis=1)
        for player in range(2)
    ]
    np.add.at(total, (at, rows[0], rows[1]), values)
    return jnp.asarray(total, table.payoffs.dtype)
