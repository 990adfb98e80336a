"""Histories of a game tree: the moves that lead to them, and the game's states there."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from jaxgames.arrays import at, choose, on_device
from jaxgames.core import Game, State
from jaxgames.game_tree.tree import GameTree

_BLOCK = 512  # histories replayed at once


def states_at(game: Game, tree: GameTree, histories: Int[np.ndarray, " n"]) -> list[State]:
    """Replays a game to given histories of its tree.

    Args:
      game: the game.
      tree: its tree.
      histories: rows of the tree.

    Returns:
      The game's state at each history, on the host.
    """
    rows, inverse = np.unique(histories, return_inverse=True)
    root = jax.tree.map(lambda leaf: np.stack([leaf] * _BLOCK), jax.device_get(_init(game)))
    replayed = []
    for begin in range(0, len(rows), _BLOCK):
        states = root
        block = np.resize(rows[begin : begin + _BLOCK], _BLOCK)
        for actions in moves_to(tree, block):
            states = _step(game, states, on_device(actions, np.int32))
        host = jax.tree.map(np.asarray, states)
        replayed += [at(host, i) for i in range(_BLOCK)]
    return [replayed[i] for i in inverse]


@functools.partial(jax.jit, static_argnums=0)
def _init(game):
    return game.init()


@functools.partial(jax.jit, static_argnums=0)
def _step(game, states, actions):
    """Steps a batch of states; those with action -1 stay."""

    def step(state, action):
        moved = game.step(state, jnp.maximum(action, 0))
        return choose(action >= 0, moved, state)

    return jax.vmap(step)(states, actions)


def moves_to(tree: GameTree, histories: Int[np.ndarray, " n"]) -> Int[np.ndarray, "d n"]:
    """Returns the moves to each history, of players and of chance.

    Args:
      tree: the tree.
      histories: n rows of the tree.

    Returns:
      The moves by depth, d the greatest depth of the histories; -1 where a history has ended.
    """
    paths = np.full((tree.depth[histories].max(initial=0), len(histories)), -1)
    at = histories
    while (at > 0).any():
        moving = np.flatnonzero(at > 0)
        paths[tree.depth[at[moving]] - 1, moving] = tree.parent_action[at[moving]]
        at = np.where(at > 0, tree.parent[at], 0)
    return paths
