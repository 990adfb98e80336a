"""Matches of board games, also with other programs: `jaxgames engine_match`."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from experiments.commands import engine_games
from experiments.commands.engine_games import GamesArguments, GamesConfig
from experiments.engines import match, tournament
from experiments.harness import devices, results
from experiments.harness.experiment import Command, text_table
from experiments.harness.runs import Run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(GamesArguments):
    """Let two players of a board game meet in pairs of games with swapped colours.

    A player is one of ours: alphazero(simulations=100,network=FILE), student_of_games(...) or
    uniform; an installed program: stockfish(nodes=1000,skill=20), stockfish(elo=1500),
    fairy_stockfish(...) or gnugo(level=10); or any other: uci:COMMAND or gtp:COMMAND. A program
    that dies, hangs, or plays no legal move loses the game, and the match goes on. Writes
    result.json, games.csv, all games with their moves and endings, and what programs print on
    stderr into --out. Ctrl-C keeps what is finished there, from which --resume continues.
    """

    a: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="A")]
    """A player."""
    b: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="B")]
    """The opponent, in the same way."""
    out: pathlib.Path = pathlib.Path("out/engine_match")
    """Folder for the results, which is made if it does not exist."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(GamesConfig):
    """On record in result.json."""

    a: str
    b: str


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command.

    Raises:
      ValueError: an unknown game or player, a program that is not installed, or a number that is
        out of range.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; finished pairs have been kept.
    """
    engine_games.check(arguments)
    devices.start(arguments, None)
    specs = (arguments.a, arguments.b)
    names = tournament.numbered(specs)
    new_players = tournament.player_factory(specs, names, engine_games.settings(arguments))
    tasks = engine_games.pair_tasks(arguments, [(0, 1)])
    config = engine_games.recorded(Config, arguments, specs)
    files = (tournament.GAMES_FILE, tournament.ERRORS)
    run = Run(arguments, config, experiment="engine_match", command=command, files=files)
    pairs = tournament.play(run, config.game, tasks, new_players, workers=arguments.workers)
    result = run.finish(
        match.numbers(names, pairs),
        measure="what A wins of B over pairs of games with swapped colours",
        error_bars=match.ERROR_BARS,
    )
    _print(result, f"{names[0]} against {names[1]}, {config.game}")


def _print(result: results.Result, title: str) -> None:
    rows = [
        (escape(number.name), results.text(number.value), _bars(number))
        for number in result.numbers
    ]
    Console().print(text_table(escape(title), ("", "value", "95 %"), rows))
    print(f"Elo difference {match.elo_text(result.numbers)}")


def _bars(number: results.Number) -> str:
    if number.low is None:
        return ""
    return f"{results.text(number.low)} to {results.text(number.high)}"


COMMAND = Command(Arguments, main)
