"""A program that speaks GTP, the Go text protocol (version 2, Farnebäck 2002), as a player."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from experiments.engines.player import Loss, Turn
from experiments.engines.program import ProgramError, RulesError, short
from experiments.engines.program_player import ProgramPlayer
from jaxgames.adapters import gtp_moves

COLOURS = ("black", "white")


class GtpEngine(ProgramPlayer):
    """A player that is a program.

    It is told the moves that it does not know yet, and asked for its own by `genmove`.

    Args:
      name: of the player.
      command: the program and its arguments.
      size: of the board.
      komi: what white gets.
      limits: the other arguments of `ProgramPlayer`.
    """

    def __init__(self, name: str, command: Sequence[str], *, size: int, komi: float, **limits: Any):
        super().__init__(name, command, **limits)
        self._size, self._komi = size, komi
        self._known: list[str] = []  # moves of the game
        self._last = -1  # number of its last move among them

    def _greet(self) -> None:
        pass

    def _begin_game(self) -> None:
        if self._ask("known_command set_random_seed", self._start_seconds) == "true":
            self._ask(f"set_random_seed {self._seed}", self._start_seconds)
        for line in (f"boardsize {self._size}", f"komi {self._komi:g}", "clear_board"):
            self._ask(line, self._start_seconds)
        self._known, self._last = [], -1

    def _answer(self, turn: Turn) -> str | Loss:
        self._tell(turn)
        answer = self._ask(f"genmove {COLOURS[len(turn.moves) % 2]}", self._seconds)
        if answer.lower() == "resign":
            return Loss(reason="resigns", fault=False)
        move = gtp_moves.PASS if answer.lower() == gtp_moves.PASS else answer.upper()
        self._last = len(self._known)
        self._known.append(move)
        return move

    def object_to(self, end: Turn, score: str | None) -> str | None:
        """The program's score after two passes, if it is another one; or that it has repeated a
        board, which others forbid."""
        own = self._begun and self._last == len(end.moves) - 1
        if own and score is not None and score.endswith("F"):
            return "repeated a board, which loses by pgx's rules"
        passes = end.moves[-2:] == (gtp_moves.PASS, gtp_moves.PASS)
        if score is None or self._program is None or not self._begun or not passes:
            return None
        try:
            self._tell(end)
            if self._ask("known_command final_score", self._seconds) != "true":
                return None
            own = self._ask("final_score", self._seconds)
        except RulesError as error:
            return str(error)
        except ProgramError:  # the game is over
            self.close()
            return None
        agree = gtp_moves.points(own) == gtp_moves.points(score)
        return None if agree else f"scores it {short(own)}, pgx {score}"

    def _tell(self, turn: Turn) -> None:
        """Tells the moves that the program does not know yet."""
        for number in range(len(self._known), len(turn.moves)):
            move = turn.moves[number]
            self._ask(f"play {COLOURS[number % 2]} {move}", self._seconds, refused=RulesError)
            self._known.append(move)

    def _ask(self, line: str, seconds: float, *, refused: type[ProgramError] = ProgramError) -> str:
        """The text of a successful answer; an error of the kind `refused` if it is none."""
        self._program.send(line)
        end = time.monotonic() + seconds
        while not (first := self._program.receive(end, line)):
            pass
        if first[0] not in "=?":
            raise ProgramError(f"answered {short(first)} to {line!r}, which is no GTP")
        while self._program.receive(end, line):  # an answer ends with an empty line
            pass
        if first[0] == "?":
            raise refused(f"refused {line!r}: {first[1:].strip()}")
        return first[1:].strip()
