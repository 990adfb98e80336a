"""The rules of chess, Go and other board games, one position at a time, with moves as text.

pgx is the referee: what it calls illegal is illegal, and the game is over when it says so.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import jax
import numpy as np

from jaxgames.adapters import board_moves, gtp_moves, uci_moves
from jaxgames.adapters.pgx_beliefs import PgxBeliefs, PgxPosition, pgx_beliefs
from jaxgames.registry import unknown

GAMES = (*uci_moves.GAMES, *gtp_moves.GAMES)  # that other programs play
_WORDS = {name: words for words in (uci_moves, gtp_moves, board_moves) for name in words.GAMES}
BOARD_GAMES = (*_WORDS,)


class Referee:
    """The rules of a game. Positions are pgx's, as NumPy arrays.

    Args:
      name: one of `BOARD_GAMES`.

    Raises:
      ValueError: an unknown name.
    """

    def __init__(self, name: str):
        if name not in BOARD_GAMES:
            raise ValueError(unknown("board game", name, BOARD_GAMES))
        self.name, self.game, self._words = name, pgx_beliefs(name), _WORDS[name]

    @functools.cached_property
    def start(self) -> PgxPosition:
        """The first position."""
        return jax.device_get(self.game.root())

    def seat(self, position: PgxPosition) -> int:
        """Who moves, 0 (who begins: white in chess, black in the others) or 1."""
        return (int(position.pgx.current_player) - int(self.game.first)) % 2

    def is_over(self, position: PgxPosition) -> bool:
        """Whether the game is over."""
        pgx = position.pgx
        return bool(pgx.terminated | pgx.truncated) or self._is_long(position)

    def payoff(self, position: PgxPosition) -> float:
        """What player 0 has won in a game that is over: 1, 0 or -1."""
        return float(position.score)

    def moves(self, position: PgxPosition) -> dict[str, int]:
        """The action of each legal move, none if the game is over."""
        return {} if self.is_over(position) else self._words.moves(self.game, position)

    def picture(self, position: PgxPosition) -> str:
        """The board in lines of text."""
        return self._words.picture(self.game, position)

    def is_move(self, text: str) -> bool:
        """Whether a text is a move in some position, as it is written by programs."""
        form = r"[A-Z]\d\d?|pass" if self._words is gtp_moves else r"0000|([a-h]\d){2}[a-z]?"
        return re.fullmatch(form, text) is not None

    def after(self, position: PgxPosition, action: int) -> PgxPosition:
        """The position after a legal action."""
        return jax.device_get(_child(self.game, position, np.int32(action)))

    def played(self, moves: Sequence[str], start: PgxPosition) -> PgxPosition:
        """The position after some moves.

        Raises:
          ValueError: one of them is illegal.
        """
        position = start
        for move in moves:
            legal = self.moves(position)
            if move not in legal:
                raise ValueError(f"move {move!r} is illegal")
            position = self.after(position, legal[move])
        return position

    def ending(self, position: PgxPosition) -> str:
        """Why a game is over, in words."""
        if self._words is gtp_moves:
            x = position.pgx._x
            if bool(x.is_psk):
                return "repeated board"
            return "two passes" if int(x.consecutive_pass_count) >= 2 else "length of the game"
        if self._words is board_moves:
            return board_moves.ending(self.game, position)
        if self.payoff(position):
            return "checkmate"
        if self._is_long(position):
            return "length of the game"
        if uci_moves.still_moves(self.game, position) >= 100:
            return "fifty moves"
        return "stalemate, repetition or too few pieces"

    def final_score(self, position: PgxPosition) -> str | None:
        """The result of a game of Go as it is, as GTP has it, such as W+3.5; None: another game.

        Who has repeated a board has lost by forfeit, such as W+F.
        """
        if self._words is not gtp_moves:
            return None
        if bool(position.pgx._x.is_psk):
            return "B+F" if self.payoff(position) > 0 else "W+F"
        area = gtp_moves.area(gtp_moves.stones(self.game, position))
        return gtp_moves.score(area - gtp_moves.komi(self.game))

    def _is_long(self, position):
        return int(position.num_steps) >= self.game.max_depth


@functools.cache
def load(name: str) -> Referee:
    """The rules of a game, one of `BOARD_GAMES`, made once; a ValueError if the name is unknown."""
    return Referee(name)


@jax.jit
def _child(game: PgxBeliefs, position: PgxPosition, action):
    return game.child(position, action)
