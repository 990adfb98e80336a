"""Connect Four, Hex and Othello of pgx in words: columns such as `3`, cells such as `d3`.

Columns of Connect Four are counted from 0, as in pgx. Cells of the other two are a letter for the
column and a number for the row, from the top. In Hex the second player may `swap` instead of its
first move; in Othello a player without a move must `pass`.
"""

from __future__ import annotations

import numpy as np

from jaxgames.adapters import board_text
from jaxgames.adapters.pgx_beliefs import PgxBeliefs, PgxPosition, legal_action_numbers

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
    return {_word(game.env.id, action): action for action in legal_action_numbers(position)}


def ending(game: PgxBeliefs, position: PgxPosition) -> str:
    """Why a game is over, in words."""
    won, drawn = _ENDINGS[game.env.id]
    return won if float(position.score) else drawn


def picture(game: PgxBeliefs, position: PgxPosition) -> str:
    """The board in lines: `X` is the player who began, `O` the other one.

    Args:
      game: one of `GAMES`.
      position: of the game.
    """
    name, x = game.env.id, position.pgx._x
    board = np.asarray(x.board)
    if name == "connect_four":
        stones = np.where(board < 0, 0, 1 - 2 * board)
        return board_text.lines(stones.reshape(6, 7), columns="0123456", rows=None)
    width = _WIDTHS[name]
    to_move = int(x.step_count) % 2 if name == "hex" else int(x.turn)
    return board_text.lines(
        np.sign(board.reshape(width, width)) * (1 - 2 * to_move),  # pgx: 1 is who is to move
        columns=_LETTERS[:width],
        rows=range(1, 1 + width),
        slant=name == "hex",
    )


def _word(name, action):
    if name not in _WIDTHS:
        return str(action)
    row, column = divmod(action, _WIDTHS[name])
    return f"{_LETTERS[column]}{row + 1}" if row < _WIDTHS[name] else _LAST_ACTIONS[name]
