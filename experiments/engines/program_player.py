"""A program as a player, whatever it speaks."""

from __future__ import annotations

import abc
import contextlib
import pathlib
from collections.abc import Sequence

from experiments.engines.player import Loss, Turn
from experiments.engines.program import Program, ProgramError, RulesError


class ProgramPlayer(abc.ABC):
    """A player that is a program.

    It starts with the first move that it is asked for, and again after it has failed. A program
    that fails loses the game.

    Args:
      name: of the player.
      command: the program and its arguments.
      move_seconds: how long a move may take before the game is lost.
      start_seconds: how long the program may take to be ready.
      errors: a file for its stderr; None: nowhere.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        move_seconds: float = 60.0,
        start_seconds: float = 180.0,
        errors: pathlib.Path | None = None,
    ):
        self.name, self._command, self._errors = name, command, errors
        self._seconds, self._start_seconds = move_seconds, start_seconds
        self._program: Program | None = None
        self._begun, self._seed = False, 0

    def begin(self, seed: int) -> None:
        self._begun, self._seed = False, seed

    def choose(self, turn: Turn) -> str | Loss:
        try:
            if self._program is None:
                self._program = Program(self._command, self._errors)
                self._greet()
            if not self._begun:
                self._begin_game()
                self._begun = True
            return self._answer(turn)
        except ProgramError as error:
            self.close()
            rules = isinstance(error, RulesError)
            return Loss(reason=str(error), fault=not rules, disagrees=rules)

    def object_to(self, end: Turn, score: str | None) -> str | None:
        return None

    def close(self) -> None:
        if self._program is not None:
            with contextlib.suppress(ProgramError):
                self._program.send("quit")
            self._program.close()
        self._program, self._begun = None, False

    @abc.abstractmethod
    def _greet(self) -> None:
        """Tells and asks a program what it needs to be told and asked once."""

    @abc.abstractmethod
    def _begin_game(self) -> None:
        """Tells the program that a new game begins."""

    @abc.abstractmethod
    def _answer(self, turn: Turn) -> str | Loss:
        """Asks the program for a move."""
