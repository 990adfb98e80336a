"""Go of pgx in the words of GTP: vertices such as `D4` (without the letter I) and `pass`.

The action of a point is row * size + column, rows from the top; the last action passes.
"""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import Int

from jaxgames.adapters import board_text
from jaxgames.adapters.pgx_beliefs import PgxBeliefs, PgxPosition, legal_action_numbers

LETTERS = "ABCDEFGHJKLMNOPQRST"
PASS = "pass"
GAMES = ("go_9x9", "go_19x19")


def size(game: PgxBeliefs) -> int:
    """The number of rows and columns."""
    return int(game.env.id.partition("x")[2])


def komi(game: PgxBeliefs) -> float:
    """What white gets for moving second."""
    return float(game.env._game.komi)


def vertex(action: int, size: int) -> str:
    """The vertex of an action, such as `D4`."""
    if action == size * size:
        return PASS
    row, column = divmod(action, size)
    return f"{LETTERS[column]}{size - row}"


def moves(game: PgxBeliefs, position: PgxPosition) -> dict[str, int]:
    """The legal moves of a position, of a game that is not over.

    A move that repeats an earlier board is among them, but loses the game (positional superko).

    Args:
      game: one of `GAMES`.
      position: of the game.

    Returns:
      The action of each vertex.
    """
    return {vertex(action, size(game)): action for action in legal_action_numbers(position)}


def stones(game: PgxBeliefs, position: PgxPosition) -> Int[np.ndarray, "N N"]:
    """The board, rows from the top: 1 black, -1 white, 0 empty."""
    board = np.sign(np.asarray(position.pgx._x.board))
    return board.reshape(size(game), size(game)).astype(np.int32)


def picture(game: PgxBeliefs, position: PgxPosition) -> str:
    """The board in lines: `X` is black, `O` white.

    Args:
      game: one of `GAMES`.
      position: of the game.
    """
    number = size(game)
    return board_text.lines(
        stones(game, position), columns=LETTERS[:number], rows=range(number, 0, -1)
    )


def score(points: float) -> str:
    """Black's points less white's in the words of GTP, such as `B+3.5`; `0` for a draw."""
    return f"{'B' if points > 0 else 'W'}+{abs(points):g}" if points else "0"


def points(score: str) -> float | None:
    """Black's points less white's of a score; None if it is no number, such as `W+Resign`."""
    match = re.fullmatch(r"([BW])\+(\d+(?:\.\d*)?)|0", score.strip(), re.IGNORECASE)
    if match is None:
        return None
    if match[1] is None:
        return 0.0
    return float(match[2]) if match[1].upper() == "B" else -float(match[2])


def area(board: Int[np.ndarray, "N N"]) -> int:
    """Black's stones and points less white's (Tromp and Taylor's rules, without komi).

    A point is a player's if only stones of that player can be reached from it by empty points.
    """
    reached = []
    for player in (1, -1):
        own = board == player
        while True:
            near = np.pad(own, 1)
            near = near[:-2, 1:-1] | near[2:, 1:-1] | near[1:-1, :-2] | near[1:-1, 2:]
            more = own | (near & (board == 0))
            if (more == own).all():
                break
            own = more
        reached.append(own)
    black, white = reached
    return int(np.sum(black & ~white)) - int(np.sum(white & ~black))
