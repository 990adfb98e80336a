"""How good the moves of agents are in Connect Four, by the scores of a perfect player."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Int, Key

from experiments.perfect_information.connect_four_positions import NO_MOVE, Positions
from jaxgames.arrays import at, index_batches
from jaxgames.beliefs.contract import BeliefGame, PublicState
from solvers.perfect_information import matches
from solvers.perfect_information.matches import Agent

# choose(numbers [B], states [B, ...]) -> actions [B]
Choose = Callable[[Int[np.ndarray, " B"], PublicState], Any]


def states_of(game: BeliefGame, positions: Positions) -> PublicState:
    """The positions as public states `[n, ...]` of `pgx:connect_four`."""

    def after(moves):
        def step(state, move):
            below = game.child(state, jnp.maximum(move, 0))
            return jax.tree.map(lambda x, y: jnp.where(move != NO_MOVE, x, y), below, state), None

        return jax.lax.scan(step, game.root(), moves)[0]

    return jax.jit(jax.vmap(after))(jnp.asarray(positions.moves))


def keys_of(key: Key[Array, ""], numbers: Int[np.ndarray, " B"]) -> Key[Array, " B"]:
    """A key for each position, by its number alone."""
    return jax.vmap(functools.partial(jax.random.fold_in, key))(jnp.asarray(numbers))


def by_search(
    game: BeliefGame, agent: Agent, key: Key[Array, ""], mesh: Mesh | None = None
) -> Choose:
    """What an agent plays in positions, by its searches.

    Args:
      game: `pgx:connect_four`.
      agent: who moves.
      key: of its searches.
      mesh: the devices that share a batch; None: there is one.
    """
    choose = matches.chooser(game, agent, mesh)

    def moves(numbers, states):
        so_far = jnp.zeros(len(numbers), jnp.int32)
        return choose(keys_of(key, numbers), states, so_far)

    return moves


def chosen_moves(
    choose: Choose, states: PublicState, number: int, *, batch: int
) -> Int[np.ndarray, " n"]:
    """The moves of an agent in n positions, `batch` at a time.

    Args:
      choose: of `batch` positions with these numbers the agent's actions.
      states: the positions `[n, ...]`.
      number: n.
      batch: how many positions are asked for at a time.
    """
    moves = np.zeros(number, np.int32)
    for part in index_batches(number, batch):
        moves[part] = np.asarray(choose(part.astype(np.int32), at(states, part)))
    return moves
