"""Positions of Connect Four with the scores of all moves, by a perfect player.

The command `connect_four_positions` makes the file that is packaged here, by the solver `bitbully`,
which a user of the positions does not need. A move's score is 0 if both players can hold the
draw after it. It is positive if the player to move wins, the higher the sooner: 22 - n, where the
winner has n stones on the board at the end. It is negative likewise if the other player wins.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import pathlib
import random
from collections.abc import Iterator, Sequence
from types import ModuleType

import numpy as np
from jaxtyping import Float, Int

from experiments.harness import results
from experiments.harness.experiment import Command
from experiments.harness.progress import counter, progress
from jaxgames.checks import at_least

ROWS, COLUMNS = 6, 7
CELLS = ROWS * COLUMNS
NO_MOVE = -1  # in `Positions.moves` after the last
PACKAGED = pathlib.Path(__file__).parent / "connect_four_positions.csv"


@dataclasses.dataclass(frozen=True)
class Positions:
    """n positions in order of their plies."""

    moves: Int[np.ndarray, "n 42"]  # columns from 0 on, then NO_MOVE
    scores: Float[np.ndarray, "n 7"]  # of each column, for the player to move; NaN if it is full

    @property
    def ply(self) -> Int[np.ndarray, " n"]:
        """The numbers of stones on the board."""
        return np.sum(self.moves != NO_MOVE, axis=1)

    def keeps_result(self, action: Int[np.ndarray, " n"]) -> np.ndarray:
        """Whether a move `[n]` in each position wins if any does, or else draws if any does."""
        return np.sign(self._chosen(action)) == np.sign(np.nanmax(self.scores, axis=1))

    @property
    def matters(self) -> np.ndarray:
        """Whether some moves `[n]` of each position keep the result and others do not."""
        signs = np.sign(self.scores)
        return np.nanmin(signs, axis=1) < np.nanmax(signs, axis=1)

    def is_best(self, action: Int[np.ndarray, " n"]) -> np.ndarray:
        """Whether a move `[n]` in each position has the best score."""
        return self._chosen(action) == np.nanmax(self.scores, axis=1)

    def judged(self, action: Int[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Whether moves `[n]` are good: `keeps` the result, `decides` (the same in the positions
        in which it matters), is `best`. Their means are the shares that experiments report."""
        keeps = self.keeps_result(action)
        return {"keeps": keeps, "decides": keeps[self.matters], "best": self.is_best(action)}

    def every(self, number: int) -> Positions:
        """One position in `number`."""
        return Positions(moves=self.moves[::number], scores=self.scores[::number])

    def _chosen(self, action):
        return np.take_along_axis(self.scores, action[:, None], axis=1)[:, 0]


@functools.cache
def read_positions(path: pathlib.Path = PACKAGED) -> Positions:
    """Reads positions that the command has written."""
    with path.open(newline="") as file:
        lines = [*csv.DictReader(file)]
    moves = np.full((len(lines), CELLS), NO_MOVE, np.int32)
    scores = np.full((len(lines), COLUMNS), np.nan)
    for number, line in enumerate(lines):
        played = [int(column) for column in line["moves"]]
        moves[number, : len(played)] = played
        for column in range(COLUMNS):
            if text := line[f"column {column}"]:
                scores[number, column] = int(text)
    return Positions(moves=moves, scores=scores)


def solver_module() -> ModuleType:
    """The module of the solver.

    Raises:
      ValueError: it is not installed.
    """
    try:
        import bitbully
    except ImportError as error:
        raise ValueError("bitbully is not installed: pip install bitbully") from error
    return bitbully


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Write positions of Connect Four with the scores of all moves, by a solver.

    The solver is bitbully. Positions are met by games in which each move is, with probability
    one half, a best one, and else any legal one. They are different, up to reflection, and have two
    legal moves or more.
    """

    out: pathlib.Path
    """The file, which must not exist."""
    per_ply: int = 26
    """Positions with each number of stones, from 0 to 38; fewer where there are not as many."""
    seed: int = 0
    """Of the games."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command.

    Raises:
      ValueError: the solver is not installed, the file exists, or `per_ply` is below 1.
    """
    at_least(1, per_ply=arguments.per_ply)
    if arguments.out.exists():
        raise ValueError(f"out={arguments.out} exists")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [*_drawn(solver_module(), arguments.per_ply, random.Random(arguments.seed))]
    results.write_csv(arguments.out, rows)


_LAST_PLY = 38
_GAMES_PER_POSITION = 50  # tried at most


def _drawn(bitbully, per_ply: int, source: random.Random) -> Iterator[dict[str, object]]:
    """Rows of the file."""
    solver = bitbully.BitBully()
    with progress("positions", _LAST_PLY + 1) as report:
        count = counter(report)
        for ply in range(_LAST_PLY + 1):
            seen: set[int] = set()
            for _ in range(_GAMES_PER_POSITION * per_ply):
                moves, board = _game(bitbully, solver, ply, source)
                if board is None or seen & {board.uid(), board.mirror().uid()}:
                    continue
                scores = solver.score_all_moves(board)
                if len(scores) < 2:
                    continue
                seen.add(board.uid())
                texts = {f"column {c}": scores.get(c, "") for c in range(COLUMNS)}
                yield {"ply": ply, "moves": "".join(map(str, moves))} | texts
                if len(seen) == per_ply:
                    break
            count(1)


def _game(bitbully, solver, ply: int, source: random.Random) -> tuple[Sequence[int], object]:
    """`ply` moves and the board after them; no board if the game has ended before."""
    board, moves = bitbully.Board(), []
    for _ in range(ply):
        legal = board.legal_moves()
        if source.random() < 0.5:
            scores = solver.score_all_moves(board)
            best = max(scores.values())
            legal = [move for move in legal if scores[move] == best]
        moves.append(source.choice(legal))
        board.play(moves[-1])
        if board.is_game_over():
            return moves, None
    return moves, board


COMMAND = Command(Arguments, main)
