"""pgx's chess and Gardner chess with faster steps; all states are pgx's.

A step of pgx looks for checks after every move that might be legal, which is most of its work.
`chess_moves` finds the same moves at once.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pgx.gardner_chess as gardner
from jaxtyping import Array, Int
from pgx._src.games import chess
from pgx.chess import Chess
from pgx.gardner_chess import GardnerChess

from jaxgames.adapters import chess_moves


class _WithoutBranches:
    """Steps like `pgx.core.Env.step`, which has branches. XLA computes all branches of a batch, and
    in them the tables of `chess_moves` once for every game."""

    def step(self, state: Any, action: Int[Array, ""], key: Any = None) -> Any:
        """The state after an action; a loss for an illegal one, as in pgx."""
        moved = self._step(state.replace(_step_count=state._step_count + 1), action, key)
        over = state.terminated | state.truncated
        after = _where(over, state.replace(rewards=jnp.zeros_like(moved.rewards)), moved)
        lost = self._step_with_illegal_action(after, state.current_player)
        after = _where(state.legal_action_mask[action], after, lost)
        after = after.replace(legal_action_mask=after.legal_action_mask | after.terminated)
        return after.replace(observation=self.observe(after))


def _where(condition, first, second):
    return jax.tree.map(lambda *each: jnp.where(condition, *each), first, second)


class _ChessRules(chess.Game):
    def step(self, state, action):
        after = chess._apply_move(state, chess.Action._from_label(action))
        after = chess._update_history(chess._flip(after))
        legal = chess_moves.legal_actions(after.board, after.en_passant, after.castling_rights[0])
        return after._replace(legal_action_mask=legal, step_count=after.step_count + 1)


class FastChess(_WithoutBranches, Chess):
    """`pgx.chess.Chess` with the same states and steps."""

    def __init__(self):
        super().__init__()
        self.game = _ChessRules()


class FastGardnerChess(_WithoutBranches, GardnerChess):
    """`pgx.gardner_chess.GardnerChess` with the same states and steps."""

    def _step(self, state, action, key):
        move = gardner.Action._from_label(action)
        after = gardner._apply_move(gardner._update_zobrist_hash(state, move), move)
        after = gardner._update_history(gardner._flip(after))
        legal = chess_moves.legal_actions(after._board)
        after = gardner._check_termination(after.replace(legal_action_mask=legal))
        too_long = after._step_count >= gardner.MAX_TERMINATION_STEPS
        return after.replace(terminated=after.terminated | too_long)


ENVIRONMENTS = {"chess": FastChess, "gardner_chess": FastGardnerChess}
