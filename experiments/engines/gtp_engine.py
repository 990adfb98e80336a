"""A program that speaks GTP, the Go text protocol (version 2, Farnebäck 2002), as a player."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Sequence

from experiments.engines.player import Loss, Turn
from experiments.engines.program import Program, ProgramError, short
from jaxgames.adapters import gtp_moves

COLOURS = ("black", "white")


class GtpEngine:
    """A player that is a program.

    It starts with the first move that it is asked for, and again after it has failed. It is told
    the moves that it does not know yet, and asked for its own by `genmove`.

    Args:
      name: of the player.
      command: the program and its arguments.
      size: of the board.
      komi: what white gets.
      move_seconds: how long a move may take before the game is lost.
      start_seconds: how long the program may take to be ready.
      errors: a file for its stderr; None: nowhere.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        size: int,
        komi: float,
        move_seconds: float = 60.0,
        start_seconds: float = 180.0,
        errors: pathlib.Path | None = None,
    ):
        self.name, self._command, self._errors = name, command, errors
        self._size, self._komi = size, komi
        self._seconds, self._start_seconds = move_seconds, start_seconds
        self._program: Program | None = None
        self._known: list[str] | None = None  # moves of the game; None: it has not begun
        self._seed = 0

    def begin(self, seed: int) -> None:
        self._known, self._seed = None, seed

    def choose(self, turn: Turn) -> str | Loss:
        try:
            if self._known is None:
                self._begin()
            for number in range(len(self._known), len(turn.moves)):
                move = turn.moves[number]
                self._ask(f"play {COLOURS[number % 2]} {move}", self._seconds)
                self._known.append(move)
            answer = self._ask(f"genmove {COLOURS[len(turn.moves) % 2]}", self._seconds)
        except ProgramError as error:
            self.close()
            return Loss(reason=str(error))
        if answer.lower() == "resign":
            return Loss(reason="resigns", fault=False)
        move = gtp_moves.PASS if answer.lower() == gtp_moves.PASS else answer.upper()
        self._known.append(move)
        return move

    def close(self) -> None:
        if self._program is not None:
            with contextlib.suppress(ProgramError):
                self._program.send("quit")
            self._program.close()
        self._program = self._known = None

    def _begin(self) -> None:
        """Starts the program if needed, and a new game."""
        if self._program is None:
            self._program = Program(self._command, self._errors)
        if self._ask("known_command set_random_seed", self._start_seconds) == "true":
            self._ask(f"set_random_seed {self._seed}", self._start_seconds)
        for line in (f"boardsize {self._size}", f"komi {self._komi:g}", "clear_board"):
            self._ask(line, self._start_seconds)
        self._known = []

    def _ask(self, line: str, seconds: float) -> str:
        """The text of a successful answer."""
        self._program.send(line)
        end = time.monotonic() + seconds
        while not (first := self._program.receive(end, line)):
            pass
        if first[0] not in "=?":
            raise ProgramError(f"answered {short(first)} to {line!r}, which is no GTP")
        while self._program.receive(end, line):  # an answer ends with an empty line
            pass
        if first[0] == "?":
            raise ProgramError(f"refused {line!r}: {first[1:].strip()}")
        return first[1:].strip()
