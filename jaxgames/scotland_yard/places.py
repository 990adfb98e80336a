"""Where the histories of Scotland Yard are in its belief tables, which merge information states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from jaxgames.beliefs.contract import BeliefGame
from jaxgames.core import CHANCE
from jaxgames.game_tree import GameTree, levels
from jaxgames.scotland_yard.rules import ScotlandYard


def history_places(
    game: ScotlandYard, tree: GameTree, table: BeliefGame
) -> tuple[Int[np.ndarray, " H"], Int[np.ndarray, "H 2"]]:
    """The public state `[H]` and both players' rows `[H, 2]` of every history; -1 before the deal.

    Mr X's row is his station, whatever his route; the detectives' is 0.

    Args:
      game: the rules.
      tree: `enumerate_game(game)`, H histories.
      table: the tables of the same game.
    """
    follow = jax.jit(jax.vmap(lambda s, row, a: table.follow(s, jnp.stack([row, 0]), a)))
    successors, actors = np.asarray(table.successors), np.asarray(table.actors)
    starts = np.searchsorted(game.layout.numbers, game.mr_x_starts)
    state, row = np.full((2, tree.num_histories), -1)
    if tree.actor[0] != CHANCE:
        state[0], row[0] = int(table.first), starts[0]
    for level in levels(tree.parent):
        above, action = tree.parent[level], tree.parent_action[level]
        if (tree.actor[above] == CHANCE).any():  # the deal
            state[level], row[level] = int(table.first), starts[action]
            continue
        public, station = state[above], row[above]
        moving = np.ones(len(public), bool)
        while moving.any():  # on through the states in which Mr X shows himself
            pairs = np.asarray(
                follow(*(jnp.asarray(x, jnp.int32) for x in (public, station, action)))
            )
            k = (pairs >= 0).all(axis=2).argmax(axis=1)
            station = np.where(moving, pairs[np.arange(len(k)), k, 0], station)
            public = np.where(moving, successors[public, k], public)
            moving = actors[public] == CHANCE
        state[level], row[level] = public, station
    return state, np.stack([row, np.minimum(row, 0)], axis=1)
