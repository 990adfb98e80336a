"""A perfect player of Connect Four, by the solver bitbully, which need not be installed."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from experiments.perfect_information.connect_four_positions import COLUMNS, ROWS, solver_module
from jaxgames.beliefs.contract import BeliefGame, PublicState
from solvers.perfect_information.matches import Choose

GAME = "pgx:connect_four"


def perfect_player(game: BeliefGame) -> Choose:
    """A player who takes a move with the best score, one of several at random.

    Such a player wins as soon as it can, and loses as late as it can.

    Args:
      game: Connect Four, by `pgx_beliefs`.

    Returns:
      A player for `matches.play_pairs`. In positions in which the game is over, which batches may
      have in places that are not needed, its action is 0.

    Raises:
      ValueError: it is another game, or the solver is not installed.
    """
    if game.name != GAME:
        raise ValueError(f"game={game.name} must be {GAME}")
    bitbully = solver_module()
    solver = bitbully.BitBully()

    @functools.cache
    def is_best(board: bytes) -> Bool[np.ndarray, " 7"]:
        cells = np.frombuffer(board, np.int8).reshape(ROWS, COLUMNS)
        position = bitbully.Board(cells.tolist())
        scores = {} if position.is_game_over() else solver.score_all_moves(position)
        most = max(scores.values(), default=0)
        return np.array([scores.get(column, most - 1) == most for column in range(COLUMNS)])

    def choose(
        keys: Key[Array, " B"], states: PublicState, num_moves: Int[Any, " B"]
    ) -> Int[np.ndarray, " B"]:
        boards, noise = map(np.asarray, _boards_and_noise(game, keys, states))
        best = np.stack([is_best(board.tobytes()) for board in boards])
        return np.argmax(np.where(best, noise, -1), axis=1).astype(np.int32)

    return choose


@jax.jit
def _boards_and_noise(
    game: BeliefGame, keys: Key[Array, " B"], states: PublicState
) -> tuple[Int[Array, "B 6 7"], Float[Array, "B 7"]]:
    """Boards, the top row first, on which 1 and 2 are the players' stones; and random numbers."""

    def board(state):
        seen = game.encode(state)  # own stones and the other's, and 0 or 1: who moves
        stones, turn = seen[:-1].reshape(ROWS, COLUMNS, 2), seen[-1]
        return (stones[..., 0] * (1 + turn) + stones[..., 1] * (2 - turn)).astype(jnp.int8)

    noise = jax.vmap(lambda key: jax.random.uniform(key, (COLUMNS,), jnp.float32))(keys)
    return jax.vmap(board)(states), noise
