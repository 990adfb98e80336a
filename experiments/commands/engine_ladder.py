"""Ladders of players of board games: `jaxgames engine_ladder`."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from typing import Annotated

import tyro
from rich.console import Console

from experiments.commands import engine_games
from experiments.commands.engine_games import GamesArguments, GamesConfig
from experiments.engines import tournament
from experiments.harness import devices, ladder_ratings, results
from experiments.harness.experiment import Command
from experiments.harness.runs import Run

LADDER_FILE, PICTURE = "ladder.csv", "ladder.png"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(GamesArguments):
    """Let several players of a board game meet, and rate them by Elo.

    Players are those of engine_match. The first one is the anchor, whose Elo is 0: as a rule the
    weakest program, such as gnugo(level=0) or stockfish(nodes=1000,skill=0). Each meets all others
    in pairs of games with swapped colours, from the same openings. Writes result.json,
    ladder.csv, the same as a picture in ladder.png, games.csv, all games with their moves and
    endings, and what programs print on stderr into --out. Ctrl-C keeps what is finished there, from
    which --resume continues.
    """

    players: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="A B ...")]
    """At least two players, the anchor first."""
    out: pathlib.Path = pathlib.Path("out/engine_ladder")
    """Folder for the results, which is made if it does not exist."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(GamesConfig):
    """On record in result.json."""

    players: tuple[str, ...]


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command.

    Raises:
      ValueError: an unknown game or player, a program that is not installed, or a number that is
        out of range.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; finished pairs have been kept.
    """
    engine_games.check(arguments)
    count = len(arguments.players)
    if count < 2:
        raise ValueError(f"players={arguments.players} must be at least two")
    devices.start(arguments, None)
    specs = arguments.players
    names = tournament.numbered(specs)
    new_players = tournament.player_factory(specs, names, engine_games.settings(arguments))
    tasks = engine_games.pair_tasks(arguments, [*itertools.combinations(range(count), 2)])
    config = engine_games.recorded(Config, arguments, specs)
    files = (tournament.GAMES_FILE, LADDER_FILE, PICTURE, tournament.ERRORS)
    run = Run(arguments, config, experiment="engine_ladder", command=command, files=files)
    pairs = tournament.play(run, config.game, tasks, new_players, workers=arguments.workers)
    ladder = tournament.ladder_of(names, pairs)
    ratings = ladder.ratings(0)
    rows = tournament.rows(names, ladder, ratings)
    results.write_csv(run.out / LADDER_FILE, rows)
    label = f"Elo in {config.game}, 0 for {names[0]}"
    tournament.draw(run.out / PICTURE, names, ratings, label=label, published={})
    run.finish(
        tournament.numbers(names, ratings, pairs),
        measure=f"Elo, 0 for {names[0]}, from {2 * config.pairs} games of each two players",
        error_bars=ladder_ratings.ERROR_BARS,
    )
    Console().print(tournament.table(config.game, rows, ratings))


COMMAND = Command(Arguments, main)
