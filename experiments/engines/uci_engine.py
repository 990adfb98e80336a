"""A program that speaks UCI (Meyer-Kahlen and Huber 2000) as a player."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.engines.player import Loss, Turn
from experiments.engines.program import Program, ProgramError, RulesError, short
from experiments.engines.program_player import ProgramPlayer


def spin_range(command: Sequence[str], option: str, *, seconds: float = 20.0) -> tuple[int, int]:
    """The least and the most value of an option, by the program's own words.

    Args:
      command: the program and its arguments, which is started and ended.
      option: such as `UCI_Elo`.
      seconds: how long it may take.

    Raises:
      ValueError: the program does not have the option, or fails.
    """
    try:
        program = Program(command)
    except ProgramError as error:
        raise ValueError(f"{command[0]} {error}") from None
    try:
        program.send("uci")
        end, line = time.monotonic() + seconds, ""
        while line != "uciok":
            line = program.receive(end, "uci")
            found = re.fullmatch(rf"option name {option} type spin .*min (-?\d+) max (-?\d+)", line)
            if found:
                return int(found[1]), int(found[2])
        raise ValueError(f"{command[0]} has no option {option}")
    except ProgramError as error:
        raise ValueError(f"{command[0]} {error}") from None
    finally:
        program.close()


class UciEngine(ProgramPlayer):
    """A player that is a program.

    Every move is asked for by `go nodes`, so that games do not depend on the speed of the machine.

    Args:
      name: of the player.
      command: the program and its arguments.
      nodes: of each search.
      options: names and values of `setoption`.
      limits: the other arguments of `ProgramPlayer`.

    Raises:
      ValueError: there are no nodes.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        nodes: int,
        options: Mapping[str, str | int] | None = None,
        **limits: Any,
    ):
        if nodes < 1:
            raise ValueError(f"{name}: nodes={nodes} must be at least 1")
        super().__init__(name, command, **limits)
        self._nodes, self._options = nodes, dict(options or {})
        self._offered: set[str] = set()  # options that the program has

    def _greet(self) -> None:
        self._offered = set()
        self._ask("uci", "uciok", self._start_seconds)

    def _begin_game(self) -> None:
        for name, value in (self._options | {"Seed": self._seed}).items():
            if name in self._options or name in self._offered:
                self._program.send(f"setoption name {name} value {value}")
        self._program.send("ucinewgame")
        self._ask("isready", "readyok", self._start_seconds)

    def _answer(self, turn: Turn) -> str | Loss:
        moves = f" moves {' '.join(turn.moves)}" if turn.moves else ""
        self._program.send(f"position startpos{moves}")
        answer = self._ask(f"go nodes {self._nodes}", "bestmove", self._seconds)
        words = answer.split()
        if words[1:2] == ["(none)"]:
            raise RulesError("says by 'bestmove (none)' that the game is over")
        return words[1] if len(words) > 1 else Loss(reason=f"answered {short(answer)}")

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
