"""Tic-tac-toe: three in a row on a board of 3 x 3 cells.

Player 0 draws crosses, player 1 noughts. Actions 0..8 are the cells, row by row, as in OpenSpiel's
`tic_tac_toe`. Nothing is hidden, so both players' information state is the list of moves.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import TERMINAL, Game, State, absorb, record
from jaxgames.registry import register

EMPTY = -1
_LINES = (
    *((0, 1, 2), (3, 4, 5), (6, 7, 8)),  # rows
    *((0, 3, 6), (1, 4, 7), (2, 5, 8)),  # columns
    *((0, 4, 8), (2, 4, 6)),  # diagonals
)


@record
class TicTacToeState(State):
    """The board, and the moves in order."""

    board: Array  # [9] int32: the player whose mark is in the cell, or EMPTY
    moves: Array  # [9] int32: the cells in the order of play, EMPTY after the last move


@register("tic_tac_toe")
@dataclasses.dataclass(frozen=True)
class TicTacToe(Game):
    """The game has no parameters."""

    @property
    def num_players(self) -> int:
        return 2

    @property
    def num_actions(self) -> int:
        return 9

    @property
    def max_depth(self) -> int:
        return 9

    def init(self) -> TicTacToeState:
        return TicTacToeState(
            actor=jnp.int32(0),
            legal=jnp.ones(9, bool),
            chance_probs=jnp.zeros(1, float),
            returns=jnp.zeros(2, float),
            board=jnp.full(9, EMPTY, jnp.int32),
            moves=jnp.full(9, EMPTY, jnp.int32),
        )

    def step(self, state: TicTacToeState, action: Int[Array, ""]) -> TicTacToeState:
        cells = jnp.arange(9, dtype=jnp.int32)
        taken = jnp.sum(state.moves != EMPTY, dtype=jnp.int32)
        board = jnp.where(cells == action, state.actor, state.board)
        won = jnp.any(jnp.all((board == state.actor)[np.array(_LINES)], axis=1))
        over = won | (taken == 8)
        seats = jnp.arange(2, dtype=jnp.int32)
        payoffs = jnp.where(seats == state.actor, 1.0, -1.0).astype(float)
        after = TicTacToeState(
            actor=jnp.where(over, TERMINAL, 1 - state.actor).astype(jnp.int32),
            legal=(board == EMPTY) & ~over,
            chance_probs=state.chance_probs,
            returns=jnp.where(won, payoffs, 0.0),
            board=board,
            moves=jnp.where(cells == taken, action, state.moves),
        )
        return absorb(state, after)

    def information_state(self, state: TicTacToeState, player: int) -> Int[Array, " L"]:
        """The moves."""
        return state.moves

    def public_state(self, state: TicTacToeState) -> Int[Array, " M"]:
        """The moves."""
        return state.moves

    def features(self, state: TicTacToeState, player: int) -> Float[Array, " F"]:
        """Own cells, then the other player's."""
        return jnp.concatenate([state.board == player, state.board == 1 - player]).astype(float)

    def render(self, state: TicTacToeState) -> str:
        drawn = "".join({EMPTY: ".", 0: "x", 1: "o"}[int(cell)] for cell in np.asarray(state.board))
        return "\n".join(drawn[row : row + 3] for row in (0, 3, 6))

    def action_name(self, state: TicTacToeState, action: int) -> str:
        return f"{'xo'[int(state.actor)]}({action // 3},{action % 3})"
