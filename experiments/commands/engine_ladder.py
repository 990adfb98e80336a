"""Ladders of players of chess, Gardner chess and Go: `jaxgames engine_ladder`."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Annotated

import tyro
from rich.console import Console

from experiments.commands import engine_games
from experiments.commands.engine_games import GamesArguments, GamesConfig
from experiments.engines import match
from experiments.engines.game import GameRecord
from experiments.engines.pair_queue import PairTask
from experiments.harness import devices, ladder_ratings, plots, results
from experiments.harness.experiment import Command, text_table
from experiments.harness.ladder_ratings import Ladder, Match, Rating
from experiments.harness.runs import Run

LADDER_FILE, PICTURE = "ladder.csv", "ladder.png"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(GamesArguments):
    """Let several players of chess, Gardner chess or Go meet, and rate them by Elo.

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
    config = engine_games.recorded(Config, arguments)
    new_players = engine_games.player_factory(arguments, config.game, config.players)
    files = (engine_games.GAMES_FILE, LADDER_FILE, PICTURE, engine_games.ERRORS)
    run = Run(arguments, config, experiment="engine_ladder", command=command, files=files)
    meetings = [*itertools.combinations(range(count), 2)]
    tasks = engine_games.pair_tasks(arguments, config.game, meetings)
    pairs = engine_games.play(run, config.game, tasks, new_players, workers=arguments.workers)
    names = engine_games.numbered(config.players)
    ladder = ladder_of(tasks, pairs, count)
    ratings = ladder.ratings(0)
    games = ladder.points.sum(axis=1), (ladder.points + ladder.points.T).sum(axis=1)
    rows = [*zip(names, ratings, *(column.tolist() for column in games), strict=True)]
    results.write_csv(run.out / LADDER_FILE, [*map(_row, rows)])
    draw(run.out / PICTURE, config.game, names, ratings)
    run.finish(
        numbers(names, ratings, pairs),
        measure=f"Elo, 0 for {names[0]}, from {2 * config.pairs} games of each two players",
        error_bars=ladder_ratings.ERROR_BARS,
    )
    lines = [(name, str(rating), f"{points:g}", f"{of:g}") for name, rating, points, of in rows]
    title = f"{config.game}: Elo with 95 % intervals"
    Console().print(text_table(title, ("", "Elo", "points", "games"), lines))


def ladder_of(
    tasks: Sequence[PairTask], pairs: Sequence[Sequence[GameRecord]], num_players: int
) -> Ladder:
    """The ladder of all players.

    Args:
      tasks: who has played.
      pairs: the games of each task.
      num_players: how many players there are.
    """
    shares: dict[tuple[int, int], list[float]] = {}
    for task, won in zip(tasks, match.points(pairs).mean(axis=1).tolist(), strict=True):
        shares.setdefault((task.first, task.second), []).append(won)
    met = [Match(first=i, second=j, shares=each) for (i, j), each in shares.items()]
    return Ladder(met, num_players)


def numbers(
    names: Sequence[str], ratings: Sequence[Rating], pairs: Sequence[Sequence[GameRecord]]
) -> Iterator[results.Number]:
    """Elo of all players, and the games that they lost because something went wrong."""
    for name, rating in zip(names, ratings, strict=True):
        if (number := rating.number(name)) is not None:
            yield number
    yield from match.failures(names, pairs)


def draw(path: pathlib.Path, game: str, names: Sequence[str], ratings: Sequence[Rating]) -> None:
    """Elo of all players with their intervals, the strongest on top; bounds are arrow heads.

    Args:
      path: of the PNG file.
      game: that they play.
      names: of the players, the anchor first.
      ratings: of the same players; who has none is left out.
    """
    known = [pair for pair in zip(names, ratings, strict=True) if pair[1].value is not None]
    known.sort(key=lambda pair: pair[1].value)
    with plots.figure(path, rows=1, columns=1, size=(6.4, 0.9 + 0.32 * len(known))) as ((panel,),):
        for height, (_, rating) in enumerate(known):
            if not rating.bound:
                panel.plot([rating.low, rating.high], [height] * 2, color=plots.colour(0))
            shape = {"": "o", ">=": ">", "<=": "<"}[rating.bound]
            panel.plot([rating.value], [height], color=plots.colour(0), marker=shape)
        panel.set(xlabel=f"Elo in {game}, 0 for {names[0]}")
        panel.set_yticks(range(len(known)), [name for name, _ in known])
        panel.margins(y=0.6 / len(known))


def _row(row):
    name, rating, points, games = row
    fields = ("bound", "value", "low", "high")
    shown = {field: getattr(rating, field) for field in fields}
    return dict(player=name) | shown | dict(points=points, games=games)


COMMAND = Command(Arguments, main)
