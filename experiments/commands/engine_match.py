"""Matches of chess, Gardner chess and Go with other programs: `jaxgames engine_match`."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from typing import Annotated

import tyro
from rich.console import Console

from experiments.engines import match
from experiments.engines.game import GameRecord
from experiments.engines.named_players import Settings, make_player
from experiments.engines.referee import load
from experiments.harness import devices, results
from experiments.harness.experiment import Command, text_table
from experiments.harness.progress import progress
from experiments.harness.runs import Run, RunArguments

GAMES_FILE = "games.csv"
ERRORS = "stderr"  # folder for what programs print there


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Let two players of chess, Gardner chess or Go meet in pairs of games with swapped colours.

    A player is one of ours: alphazero(simulations=100,network=FILE), student_of_games(...) or
    uniform; an installed program: stockfish(nodes=1000,skill=20), fairy_stockfish(...) or
    gnugo(level=10); or any other: uci:COMMAND or gtp:COMMAND. A program that dies, hangs, or
    plays no legal move loses the game, and the match goes on. Writes result.json, games.csv, all
    games with their moves and endings, and what programs print on stderr into --out. Ctrl-C keeps
    what is finished there, from which --resume continues.
    """

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """chess, gardner_chess, go_9x9 or go_19x19."""
    a: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="A")]
    """A player."""
    b: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="B")]
    """The opponent, in the same way."""
    pairs: int = 10
    """How many openings, from each of which two games are played."""
    opening_moves: int = 4
    """Moves of each opening, drawn at random. 0: all games begin at the start."""
    nodes: int = 1000
    """Nodes of each search of a player uci:COMMAND."""
    seed: int = 0
    """Of the openings and of the players."""
    move_seconds: float = 60.0
    """How long a program may take for a move before it has lost the game."""
    start_seconds: float = 180.0
    """How long a program may take to be ready."""
    out: pathlib.Path = pathlib.Path("out/engine_match")
    """Folder for the results, which is made if it does not exist."""

    @property
    def preset(self) -> str:
        """The name of the preset on record."""
        return "custom"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """On record in result.json."""

    game: str
    a: str
    b: str
    pairs: int
    opening_moves: int
    nodes: int
    seed: int
    move_seconds: float
    start_seconds: float


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command.

    Raises:
      ValueError: an unknown game or player, a program that is not installed, or a number that is
        out of range.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; finished pairs have been kept.
    """
    if arguments.pairs < 1:
        raise ValueError(f"pairs={arguments.pairs} must be at least 1")
    for name in ("move_seconds", "start_seconds"):
        if not getattr(arguments, name) > 0:
            raise ValueError(f"{name}={getattr(arguments, name)} must be above 0")
    devices.start(arguments, None)
    names = [field.name for field in dataclasses.fields(Config)]
    config = Config(**{name: getattr(arguments, name) for name in names})
    settings = Settings(
        referee=load(config.game),
        nodes=config.nodes,
        move_seconds=config.move_seconds,
        start_seconds=config.start_seconds,
        errors=arguments.out / ERRORS,
    )
    names = [config.a, config.b] if config.a != config.b else [f"{config.a} 1", f"{config.b} 2"]
    players = [
        make_player(spec, settings, name=name)
        for spec, name in zip((config.a, config.b), names, strict=True)
    ]
    run = Run(
        arguments, config, experiment="engine_match", command=command, files=(GAMES_FILE, ERRORS)
    )
    (run.out / ERRORS).mkdir(exist_ok=True)
    pairs = _play(run, settings.referee, players)
    numbers = match.numbers(names, pairs)
    result = run.finish(
        numbers,
        measure="what A wins of B over pairs of games with swapped colours",
        error_bars=match.ERROR_BARS,
    )
    _print(result, f"{names[0]} against {names[1]}, {config.game}")


def _play(run, referee, players):
    """The games of all pairs."""
    config, pairs = run.config, []
    openings = match.draw_openings(
        referee, pairs=config.pairs, length=config.opening_moves, seed=config.seed
    )
    with contextlib.ExitStack() as stack, progress("pairs of games", config.pairs) as report:
        for player in players:
            stack.callback(player.close)
        for number, opening in enumerate(openings):

            def play(number=number, opening=opening):
                seed = match.pair_seed(config.seed, number)
                return match.play_pair(referee, players, opening=opening, seed=seed)

            pairs.append(run.kept(f"pair-{number}", GameRecord, play))
            rows = [dataclasses.asdict(game) for pair in pairs for game in pair]
            results.write_csv(run.out / GAMES_FILE, rows)
            report(number + 1, None, 0.0)
    return pairs


def _print(result: results.Result, title: str) -> None:
    rows = [(number.name, results.text(number.value), _bars(number)) for number in result.numbers]
    Console().print(text_table(title, ("", "value", "95 %"), rows))
    print(f"Elo difference {match.elo_text(result.numbers)}")


def _bars(number: results.Number) -> str:
    if number.low is None:
        return ""
    return f"{results.text(number.low)} to {results.text(number.high)}"


COMMAND = Command(Arguments, main)
