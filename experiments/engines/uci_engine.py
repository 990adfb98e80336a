"""A program that speaks UCI (Meyer-Kahlen and Huber 2000) as a player."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Mapping, Sequence

from experiments.engines.player import Loss, Turn
from experiments.engines.program import Program, ProgramError, short


class UciEngine:
    """A player that is a program.

    It starts with the first move that it is asked for, and again after it has failed. Every move is
    asked for by `go nodes`, so that games do not depend on the speed of the machine.

    Args:
      name: of the player.
      command: the program and its arguments.
      nodes: of each search.
      options: names and values of `setoption`.
      move_seconds: how long a move may take before the game is lost.
      start_seconds: how long the program may take to be ready.
      errors: a file for its stderr; None: nowhere.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        nodes: int,
        options: Mapping[str, str | int] | None = None,
        move_seconds: float = 60.0,
        start_seconds: float = 180.0,
        errors: pathlib.Path | None = None,
    ):
        if nodes < 1:
            raise ValueError(f"{name}: nodes={nodes} must be at least 1")
        self.name, self._command, self._nodes = name, command, nodes
        self._options, self._errors = dict(options or {}), errors
        self._seconds, self._start_seconds = move_seconds, start_seconds
        self._program: Program | None = None
        self._offered: set[str] = set()  # options that the program has
        self._begun, self._seed = False, 0

    def begin(self, seed: int) -> None:
        self._begun, self._seed = False, seed

    def choose(self, turn: Turn) -> str | Loss:
        try:
            if not self._begun:
                self._begin()
            moves = f" moves {' '.join(turn.moves)}" if turn.moves else ""
            self._program.send(f"position startpos{moves}")
            answer = self._ask(f"go nodes {self._nodes}", "bestmove", self._seconds)
        except ProgramError as error:
            self.close()
            return Loss(reason=str(error))
        words = answer.split()
        return words[1] if len(words) > 1 else Loss(reason=f"answered {short(answer)}")

    def close(self) -> None:
        if self._program is not None:
            with contextlib.suppress(ProgramError):
                self._program.send("quit")
            self._program.close()
        self._program, self._begun = None, False

    def _begin(self) -> None:
        """Starts the program if needed, and a new game."""
        if self._program is None:
            self._program = Program(self._command, self._errors)
            self._offered = set()
            self._ask("uci", "uciok", self._start_seconds)
        for name, value in (self._options | {"Seed": self._seed}).items():
            if name in self._options or name in self._offered:
                self._program.send(f"setoption name {name} value {value}")
        self._program.send("ucinewgame")
        self._ask("isready", "readyok", self._start_seconds)
        self._begun = True

    def _ask(self, line: str, wanted: str, seconds: float) -> str:
        """The line of the answer that begins with a word; others are skipped, as UCI has it."""
        self._program.send(line)
        end = time.monotonic() + seconds
        while True:
            answer = self._program.receive(end, line)
            words = answer.split()
            if words[:2] == ["option", "name"] and "type" in words:
                self._offered.add(" ".join(words[2 : words.index("type")]))
            if words[:1] == [wanted]:
                return answer
