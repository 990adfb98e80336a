"""pgx's chess and Gardner chess with faster steps; all states are pgx's.

A step of pgx looks for checks after every move that might be legal, which is most of its work.
`chess_moves` finds the same moves at once. The observation is made in the order of its axes, where
pgx makes planes and turns them.
"""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxgames.adapters import chess_moves
from jaxgames.adapters.without_branches import WithoutBranches

_PIECES = np.array([1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6])  # in the order of pgx's planes


class _Seen(WithoutBranches):
    """Shows the player to move what `_seen` makes."""

    def _observe(self, state: Any, player_id: Int[Array | np.ndarray, ""]) -> Array:
        if player_id is not state.current_player:
            return super()._observe(state, player_id)
        return self._seen(state)


def _observation(board_history, hash_history, more):
    """pgx's observation `[rows, columns, planes]` of who is to move, `more` on all squares of the
    last planes."""
    size, eight = int(board_history.shape[1] ** 0.5), len(board_history)
    boards = board_history.reshape(eight, size, size)[:, :, ::-1].transpose(2, 1, 0)
    pieces = (boards[..., None] == _PIECES).astype(jnp.float32)
    same = (hash_history[:eight, None] == hash_history).all(axis=2)  # [8, all positions]
    again = (jnp.sum(same, axis=1) > 1) & (hash_history[:eight] != 0).any(axis=1)
    again = jnp.stack([~again, again], axis=1).astype(jnp.float32)
    again = jnp.broadcast_to(again, (size, size, eight, 2))
    history = jnp.concatenate([pieces, again], axis=3).reshape(size, size, -1)
    more = jnp.stack([jnp.asarray(x, jnp.float32) for x in more])
    return jnp.concatenate([history, jnp.broadcast_to(more, (size, size, len(more)))], axis=2)


class _ChessRules:
    """What differs from pgx's rules of chess without players."""

    def step(self, state, action):
        from pgx._src.games import chess  # makes arrays when imported

        after = chess._apply_move(state, chess.Action._from_label(action))
        after = chess._update_history(chess._flip(after))
        legal = chess_moves.legal_actions(after.board, after.en_passant, after.castling_rights[0])
        return after._replace(legal_action_mask=legal, step_count=after.step_count + 1)


class _Chess(_Seen):
    def _seen(self, state):
        from pgx._src.games import chess

        x = state._x
        moves, quiet = x.step_count / chess.MAX_TERMINATION_STEPS, x.halfmove_count / 100.0
        more = (x.color, moves, *x.castling_rights.ravel(), quiet)
        return _observation(x.board_history, x.hash_history, more)


class _GardnerChess(_Seen):
    def _step(self, state, action, key):
        import pgx.gardner_chess as gardner

        move = gardner.Action._from_label(action)
        after = gardner._apply_move(gardner._update_zobrist_hash(state, move), move)
        after = gardner._update_history(gardner._flip(after))
        legal = chess_moves.legal_actions(after._board)
        after = gardner._check_termination(after.replace(legal_action_mask=legal))
        too_long = after._step_count >= gardner.MAX_TERMINATION_STEPS
        return after.replace(terminated=after.terminated | too_long)

    def _seen(self, state):
        import pgx.gardner_chess as gardner

        moves = state._step_count / gardner.MAX_TERMINATION_STEPS
        more = (state._turn, moves, state._halfmove_count / 100.0)
        return _observation(state._board_history, state._hash_history, more)


@functools.cache
def fast_chess() -> Any:
    """`pgx.chess.Chess` with the same states and steps."""
    from pgx._src.games import chess
    from pgx.chess import Chess

    class Rules(_ChessRules, chess.Game):
        pass

    class FastChess(_Chess, Chess):
        pass

    env = FastChess()
    env.game = Rules()
    return env


@functools.cache
def fast_gardner_chess() -> Any:
    """`pgx.gardner_chess.GardnerChess` with the same states and steps."""
    from pgx.gardner_chess import GardnerChess

    class FastGardnerChess(_GardnerChess, GardnerChess):
        pass

    return FastGardnerChess()


ENVIRONMENTS = {"chess": fast_chess, "gardner_chess": fast_gardner_chess}
