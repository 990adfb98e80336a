"""Chess and Gardner chess of pgx in the words of UCI: moves such as `e2e4`, positions as FEN.

The square of a column c and a row r, seen by the player to move, is c * size + r in pgx; an action
is a square and one of the planes of AlphaZero, the first nine of which promote to less than a
queen. Fairy-Stockfish calls Gardner chess the variant `gardner`.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.adapters import board_text, chess_moves
from jaxgames.adapters.pgx import lenient
from jaxgames.adapters.pgx_beliefs import PgxBeliefs, PgxPosition, legal_action_numbers

_PIECES = ".PNBRQKkqrbnp"  # by pgx's numbers: 1 to 6 are the pieces of the player to move, -1 to -6
_PROMOTIONS = "rbn"  # those of three planes each; the other planes promote to a queen
_PAWN = 1
_STRAIGHT = (0, 1), (0, -1), (1, 0), (-1, 0)
_DIAGONAL = (1, 1), (1, -1), (-1, 1), (-1, -1)
_KNIGHT = (1, 2), (2, 1), (-1, 2), (-2, 1), (1, -2), (2, -1), (-1, -2), (-2, -1)


@dataclasses.dataclass(frozen=True)
class _Kind:
    """Where pgx keeps what a FEN says."""

    size: int
    planes: int
    board: Callable[[PgxPosition], np.ndarray]
    color: Callable[[PgxPosition], int]
    counts: Callable[[PgxPosition], tuple[int, int]]  # moves without progress, number of the move


_KINDS = {
    "chess": _Kind(
        size=8,
        planes=73,
        board=lambda position: np.asarray(position.pgx._x.board),
        color=lambda position: int(position.pgx._x.color),
        counts=lambda position: (
            int(position.pgx._x.halfmove_count),
            int(position.pgx._x.fullmove_count),
        ),
    ),
    "gardner_chess": _Kind(
        size=5,
        planes=49,
        board=lambda position: np.asarray(position.pgx._board),
        color=lambda position: int(position.pgx._turn),
        counts=lambda position: (
            int(position.pgx._halfmove_count),
            int(position.pgx._fullmove_count),
        ),
    ),
}
GAMES = (*_KINDS,)


def moves(game: PgxBeliefs, position: PgxPosition) -> dict[str, int]:
    """The legal moves of a position, of a game that is not over.

    Args:
      game: one of `GAMES`.
      position: of the game.

    Returns:
      The action of each move of UCI.
    """
    kind, targets = _KINDS[game.env.id], _targets(game.env.id)
    board, color, size = kind.board(position), kind.color(position), kind.size

    def square(number):
        column, row = divmod(int(number), size)
        return f"{'abcdefgh'[column]}{1 + (size - 1 - row if color else row)}"

    found = {}
    for action in legal_action_numbers(position):
        origin, plane = divmod(action, kind.planes)
        promotes = board[origin] == _PAWN and origin % size == size - 2
        piece = _PROMOTIONS[plane // 3] if plane < 9 else "q" if promotes else ""
        found[square(origin) + square(targets[origin, plane]) + piece] = action
    return found


def still_moves(game: PgxBeliefs, position: PgxPosition) -> int:
    """How many moves there were since the last capture or move of a pawn, by both players."""
    return _KINDS[game.env.id].counts(position)[0]


def fen(game: PgxBeliefs, position: PgxPosition) -> str:
    """A position as FEN.

    Args:
      game: one of `GAMES`.
      position: of the game.
    """
    kind = _KINDS[game.env.id]
    color, size = kind.color(position), kind.size
    rows = "/".join(_rows(kind, position))
    board = re.sub(r"\.+", lambda empty: str(len(empty[0])), rows)
    castling, passing = "-", "-"
    if game.env.id == "chess":
        own, other = np.asarray(position.pgx._x.castling_rights)[:: -1 if color else 1]
        rights = zip("KQkq", (own[1], own[0], other[1], other[0]), strict=True)
        castling = "".join(letter for letter, has in rights if has) or "-"
        if (square := int(position.pgx._x.en_passant)) >= 0:
            passing = f"{'abcdefgh'[square // size]}{3 if color else 6}"
    still, number = kind.counts(position)
    return f"{board} {'wb'[color]} {castling} {passing} {still} {number}"


def picture(game: PgxBeliefs, position: PgxPosition) -> str:
    """The board in lines, seen by white; white's pieces are capital letters.

    Args:
      game: one of `GAMES`.
      position: of the game.
    """
    kind = _KINDS[game.env.id]
    return board_text.labelled(
        _rows(kind, position), columns="abcdefgh"[: kind.size], rows=range(kind.size, 0, -1)
    )


def _rows(kind, position):
    """The rows of the board from the top, seen by white."""
    rows = kind.board(position).reshape(kind.size, kind.size).T[::-1]  # seen by who is to move
    rows = -rows[::-1] if kind.color(position) else rows
    return ["".join(_PIECES[piece] for piece in row) for row in rows]


def from_fen(game: PgxBeliefs, text: str) -> PgxPosition:
    """The position of a FEN, in which no move counts as made: repetitions begin there.

    Args:
      game: one of `GAMES`.
      text: the FEN, with six fields.

    Returns:
      The position, with the seats of the game: white is player 0.

    Raises:
      ValueError: it is no FEN of this game, or the player to move could take the other's king.
    """
    size = _KINDS[game.env.id].size
    _check_fen(text, size)
    from pgx import gardner_chess  # makes arrays when imported: not at the head of this module
    from pgx.experimental import chess

    read = chess.from_fen if game.env.id == "chess" else gardner_chess._from_fen
    with lenient():
        state = _without_past(game, read(text))
    turn = jnp.int32("wb".index(text.split()[1]))
    # pgx gives rewards for mate alone: who is to move has lost
    score = jnp.where(jnp.any(state.rewards != 0), 2 * turn - 1, 0).astype(jnp.float32)
    state = state.replace(
        current_player=(game.first + turn) % 2,
        observation=None,
        rewards=None,
    )
    if game.env.id == "chess":
        state = state.replace(_player_order=game.start.pgx._player_order)
    return PgxPosition(pgx=state, score=score, num_steps=jnp.int32(0))


def _without_past(game, state):
    """A state that pgx has read, without the first position of the game, which pgx takes for the
    one before it, and with all legal actions, of which pgx looks for the first 200 only."""
    if game.env.id == "chess":
        x = state._x
        legal = _legal_actions(x.board, x.en_passant, x.castling_rights[0])
        state = state.replace(
            _x=x._replace(
                board_history=x.board_history.at[1:].set(0),
                hash_history=x.hash_history.at[1:].set(0),
                legal_action_mask=legal,
            )
        )
    else:
        legal = _legal_actions(state._board)
        state = state.replace(
            _board_history=state._board_history.at[1:].set(0),
            _hash_history=state._hash_history.at[1:].set(0),
        )
    return state.replace(legal_action_mask=legal | state.terminated)


_legal_actions = jax.jit(chess_moves.legal_actions)


def _check_fen(text, size):
    fields = text.split()
    if len(fields) != 6:
        raise ValueError(f"fen={text!r} must have six fields")
    rows = fields[0].split("/")
    widths = [sum(int(c) if c.isdigit() else 1 for c in row) for row in rows]
    if widths != [size] * size or not re.fullmatch(r"[pnbrqkPNBRQK1-8/]+", fields[0]):
        raise ValueError(f"fen={text!r} must have {size} rows of {size} squares")
    if any(fields[0].count(king) != 1 for king in "kK"):
        raise ValueError(f"fen={text!r} must have a king of each colour")
    passing = "-" if size == 5 else rf"-|[a-h]{'6' if fields[1] == 'w' else '3'}"
    castling = "-" if size == 5 else r"-|K?Q?k?q?"
    forms = (r"[wb]", castling, passing, r"\d{1,3}", r"\d{1,4}")
    for field, form in zip(fields[1:], forms, strict=True):
        if not re.fullmatch(form, field):
            raise ValueError(f"fen={text!r}: {field!r} is not of the form {form}")
    if _takes_the_king(*fields[:2]):
        raise ValueError(f"fen={text!r}: the player to move could take the other's king")


def _takes_the_king(board, turn):
    """Whether the player to move attacks the other's king: no legal move leads to such a board."""
    rows = [re.sub(r"\d", lambda empty: "." * int(empty[0]), row) for row in board.split("/")]
    if turn == "b":  # seen by black, whose pieces become the large letters
        rows = [row.swapcase() for row in rows[::-1]]
    pieces = {(r, c): piece for r, row in enumerate(rows) for c, piece in enumerate(row)}
    (king,) = (square for square, piece in pieces.items() if piece == "k")

    def first(down, right, far):
        """The piece nearest to the king within `far` squares along a line, or "-"."""
        line = ((king[0] + n * down, king[1] + n * right) for n in range(1, far + 1))
        return next((pieces[square] for square in line if pieces.get(square, ".") != "."), "-")

    attackers = (
        (_STRAIGHT, len(rows), "RQ"),
        (_DIAGONAL, len(rows), "BQ"),
        (_STRAIGHT + _DIAGONAL, 1, "K"),
        (_KNIGHT, 1, "N"),
        (((1, -1), (1, 1)), 1, "P"),
    )
    return any(
        first(*step, far) in attacking for steps, far, attacking in attackers for step in steps
    )


@functools.cache
def _targets(game_id):
    """The squares that actions move to, `[squares, planes]`."""
    from pgx import gardner_chess  # makes arrays when imported: not at the head of this module
    from pgx._src.games import chess

    return np.asarray(chess.FROM_PLANE if game_id == "chess" else gardner_chess.TO_MAP)
