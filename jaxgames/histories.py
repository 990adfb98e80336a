"""Histories of a game's tree: the moves that lead there, the states that they lead to."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from jaxgames.core import Game, State
from jaxgames.game_tree import GameTree

_BLOCK = 512  # histories replayed at once


def states_at(game: Game, tree: GameTree, histories: Int[np.ndarray, " n"]) -> list[State]:
    """The states of the game at these histories of its tree, on the host."""
    rows, inverse = np.unique(histories, return_inverse=True)
    root = jax.tree.map(lambda leaf: np.stack([leaf] * _BLOCK), jax.device_get(game.init()))
    found = []
    for begin in range(0, len(rows), _BLOCK):
        states = root
        block = np.resize(rows[begin : begin + _BLOCK], _BLOCK)
        for actions in moves_to(tree, block):
            states = _step(game, states, jnp.asarray(actions, jnp.int32))
        host = jax.tree.map(np.asarray, states)
        found += [jax.tree.map(lambda leaf, i=i: leaf[i], host) for i in range(_BLOCK)]
    return [found[i] for i in inverse]


@functools.partial(jax.jit, static_argnums=0)
def _step(game, states, actions):
    """The next states; an action of -1 stays."""

    def one(state, action):
        moved = game.step(state, jnp.maximum(action, 0))
        return jax.tree.map(lambda new, old: jnp.where(action >= 0, new, old), moved, state)

    return jax.vmap(one)(states, actions)


def moves_to(tree: GameTree, histories: Int[np.ndarray, " n"]) -> Int[np.ndarray, "d n"]:
    """Actions on the way to each history, chance's too, step by step, -1 where it has ended."""
    paths = np.full((tree.depth[histories].max(initial=0), len(histories)), -1)
    at = histories
    while (at > 0).any():
        below = np.flatnonzero(at > 0)
        paths[tree.depth[at[below]] - 1, below] = tree.parent_action[at[below]]
        at = np.where(at > 0, tree.parent[at], 0)
    return paths
