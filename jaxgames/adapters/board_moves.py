"""Connect Four, Hex and Othello of pgx in words: columns such as `3`, cells such as `d3`.

Columns of Connect Four are counted from 0, as in pgx. Cells of the other two are a letter for the
column and a number for the row, from the top. In Hex the second player may `swap` instead of its
first move; in Othello a player without a move must `pass`.
"""

from __future__ import annotations

import numpy as np

from jaxgames.adapters.pgx_beliefs import PgxBeliefs, PgxPosition

_LETTERS = "abcdefghijk"
_WIDTHS = {"hex": 11, "othello": 8}
_LAST_ACTIONS = {"hex": "swap", "othello": "pass"}
_ENDINGS = {  # if somebody wins, and in a draw; nobody draws in Hex
    "connect_four": ("four in a row", "full board"),
    "hex": ("connected sides", ""),
    "othello": ("no moves left", "no moves left"),
}
GAMES = (*_ENDINGS,)


def moves(game: PgxBeliefs, position: PgxPosition) -> dict[str, int]:
    """The legal moves of a position, of a game that is not over.

    Args:
      game: one of `GAMES`.
      position: of the game.

    Returns:
      The action of each move.
    """
    legal = np.flatnonzero(np.asarray(position.pgx.legal_action_mask)).tolist()
    return {_word(game.env.id, action): action for action in legal}


def ending(game: PgxBeliefs, position: PgxPosition) -> str:
    """Why a game is over, in words."""
    won, drawn = _ENDINGS[game.env.id]
    return won if float(position.score) else drawn


def _word(name, action):
    if name not in _WIDTHS:
        return str(action)
    row, column = divmod(action, _WIDTHS[name])
    return f"{_LETTERS[column]}{row + 1}" if row < _WIDTHS[name] else _LAST_ACTIONS[name]
