"""Lets two blueprints of hold'em play each other, over all pairs of hands: `jaxgames match`."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Annotated

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from experiments.harness import devices, results
from experiments.harness.experiment import Command
from experiments.harness.progress import progress, status
from experiments.harness.runs import Run, RunArguments, checksum
from jaxgames.checks import at_least
from jaxgames.holdem.rules import Poker
from jaxgames.registry import unknown
from solvers.blueprint.blueprint import (
    DESCRIPTION_FILE,
    POLICY_FILE,
    Blueprint,
    fixed_blueprint,
    read_blueprint,
)
from solvers.blueprint.deals import random_boards
from solvers.blueprint.enumerated_match import check_same_betting, winnings

_PIECE = 64  # boards, after which Ctrl-C stops and a kill loses nothing
# policies that do not look at their cards, by name
FIXED = {
    "always_call": {"call": 1.0},
    "always_raise": {"raise": 1.0, "call": 1e-6},
    "uniform": {},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Let two blueprints of hold'em play each other, over all pairs of hands.

    Boards are drawn; on each of them all pairs of hands are played in both seats, so that the
    result varies with the board alone. Writes result.json and boards.csv, what A wins on each
    board, into --out. Ctrl-C keeps what is finished there, from which --resume continues to exactly
    the same numbers.
    """

    a: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="A")]
    """Folder of a blueprint, as blueprint_limit leaves it in blueprints/; or always_call,
    always_raise or uniform."""
    b: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="B")]
    """The opponent, in the same way; one of both must be a folder."""
    boards: int = 1_000
    """How many boards are drawn."""
    seed: int = 0
    """Of the boards: two matches with the same seed are played on the same ones."""
    out: pathlib.Path = pathlib.Path("out/match")
    """Folder for the results, which is made if it does not exist."""

    @property
    def preset(self) -> str:
        """The name of the preset on record."""
        return "custom"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """On record in result.json."""

    a: str
    b: str
    contents: tuple[str, str]
    """Of both folders, as SHA-256; empty for a player without one."""
    game: str
    boards: int
    seed: int


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command.

    Raises:
      ValueError: a folder holds no blueprint, both play different games, or a number is out of
        range.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; finished boards have been kept.
    """
    at_least(2, boards=arguments.boards)
    mesh = devices.start(arguments, {"boards of a piece": _PIECE})
    with status("reading the blueprints"):
        first, second, game = read_players(arguments.a, arguments.b)
    config = Config(
        a=arguments.a,
        b=arguments.b,
        contents=(_content(arguments.a), _content(arguments.b)),
        game=str(game),
        boards=arguments.boards,
        seed=arguments.seed,
    )
    run = Run(
        arguments,
        config,
        experiment="match",
        command=command,
        files=("boards.csv",),
        mesh=mesh,
    )
    found, key, mesh = [], jax.random.key(arguments.seed), devices.local(mesh)
    with progress("match", arguments.boards) as report:
        for begin in range(0, arguments.boards, _PIECE):
            piece_key = jax.random.fold_in(key, begin)
            boards = random_boards(piece_key, _PIECE, num_cards=sum(game.board))
            play = lambda boards=boards: np.asarray(  # noqa: E731
                winnings(first, second, boards, mesh=mesh), np.float64
            ).tolist()
            found += run.kept_json(run.checkpoint / f"boards-{begin}.json", play)
            report(min(begin + _PIECE, arguments.boards), None, 0.0)
    if not run.writes:
        return
    won = 1000 / max(game.blinds) * np.array(found[: arguments.boards])
    rows = [
        {"board": n, "seat_0": f"{x:.6g}", "seat_1": f"{y:.6g}"} for n, (x, y) in enumerate(won)
    ]
    results.write_csv(run.out / "boards.csv", rows)
    numbers = [_number(name, values) for name, values in _seats(won).items()]
    run.finish(
        numbers,
        measure="what A wins of B, over all pairs of hands on drawn boards, mb/h",
        error_bars=results.TWO_STANDARD_ERRORS,
    )
    table = Table("seat of A", title=f"{arguments.a} against {arguments.b}")
    table.add_column("won, mb/h", justify="right")
    table.add_column("95 %", justify="right")
    for number in numbers:
        half = (number.high - number.low) / 2
        table.add_row(number.name, f"{number.value:+.1f}", f"± {results.text(half)}")
    Console().print(table)


def read_players(a: str, b: str) -> tuple[Blueprint, Blueprint, Poker]:
    """Both players of a match, and their game.

    Args:
      a: a folder, or a name of `FIXED`.
      b: the same; not both may be names.

    Raises:
      ValueError: there is no such player, or they play different games.
    """
    names, read, games = (a, b), {}, []
    for name in names:
        if name in FIXED:
            continue
        if not pathlib.Path(name).is_dir():
            raise ValueError(unknown("player", name, [*FIXED, "FOLDER"]))
        read[name], game = read_blueprint(pathlib.Path(name))
        games.append(game)
    if not games:
        raise ValueError(f"one of a={a} and b={b} must be a folder, which says what is played")
    players = [read.get(n) or fixed_blueprint(games[0], FIXED[n]) for n in names]
    check_same_betting(*(player.game.rounds for player in players))
    return *players, games[0]


def _content(name):
    """What tells whether a folder holds the same blueprint as before."""
    if name in FIXED:
        return ""
    files = (pathlib.Path(name, file) for file in (DESCRIPTION_FILE, POLICY_FILE))
    return checksum(files)


def _seats(won):
    return {"0": won[:, 0], "1": won[:, 1], "both": won.mean(axis=1)}


def _number(name, values):
    low, high = results.interval(values.tolist())
    return results.Number(name=name, value=float(values.mean()), unit="mb/h", low=low, high=high)


COMMAND = Command(Arguments, main)
