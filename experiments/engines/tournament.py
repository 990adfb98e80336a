"""Pairs of games of several players, which are kept, and the ladder that they make."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from experiments.engines import match, pair_queue
from experiments.engines.game import GameRecord
from experiments.engines.named_players import Settings, make_player
from experiments.engines.pair_queue import NewPlayers, PairTask
from experiments.engines.referee import load
from experiments.harness import plots, results
from experiments.harness.experiment import text_table
from experiments.harness.ladder_ratings import Ladder, Rating, matches_of
from experiments.harness.progress import progress
from experiments.harness.runs import Run

GAMES_FILE = "games.csv"
ERRORS = "stderr"  # folder for what programs print there
Pairs = Sequence[Sequence[GameRecord]]  # the games of each pair


def numbered(specs: Sequence[str]) -> list[str]:
    """Different names for all players."""
    total, names = collections.Counter(specs), []
    for spec in specs:
        own = (f"{spec} {number}" for number in itertools.count(1))
        taken = {*specs, *names}
        names.append(spec if total[spec] == 1 else next(name for name in own if name not in taken))
    return names


def player_factory(specs: Sequence[str], names: Sequence[str], settings: Settings) -> NewPlayers:
    """A function that makes all players.

    Args:
      specs: of the players, as `make_player` takes them.
      names: of the players in the games.
      settings: of all games.

    Raises:
      ValueError: an unknown player, one of another game, or a program that is not installed.
      OSError: a network cannot be read.
    """

    def new_players():
        return [
            make_player(spec, settings, name=name) for spec, name in zip(specs, names, strict=True)
        ]

    new_players()  # programs start with their first game
    return new_players


def pair_tasks(
    game: str,
    meetings: Sequence[tuple[int, int]],
    *,
    pairs: int,
    opening_moves: int,
    seed: int,
) -> list[PairTask]:
    """The pairs of games of all meetings of two players, from the same openings.

    Args:
      game: its name.
      meetings: the numbers of the two players.
      pairs: of each meeting.
      opening_moves: moves of each opening, drawn at random.
      seed: of the openings and of the players.

    Raises:
      ValueError: there are too few openings.
    """
    openings = match.draw_openings(load(game), pairs=pairs, length=opening_moves, seed=seed)
    return [
        PairTask(
            name=f"pair-{first}-{second}-{number}",
            first=first,
            second=second,
            opening=opening,
            seed=match.pair_seed(seed, first, second, number),
        )
        for first, second in meetings
        for number, opening in enumerate(openings)
    ]


def play(
    run: Run, game: str, tasks: Sequence[PairTask], new_players: NewPlayers, *, workers: int
) -> list[list[GameRecord]]:
    """The games of all pairs, which are kept; those that were finished are written to games.csv."""
    (run.out / ERRORS).mkdir(exist_ok=True)
    known = {task.name: run.find_kept(task.name, GameRecord) for task in tasks}
    found = {name: games for name, games in known.items() if games is not None}
    left = [task for task in tasks if task.name not in found]
    played = pair_queue.play_tasks(left, new_players, referee=load(game), workers=workers)
    with contextlib.closing(played), progress("pairs of games", len(tasks)) as report:
        report(len(found), None, 0.0)
        for task, games in played:
            found[task.name] = run.kept(task.name, GameRecord, lambda games=games: games)
            report(len(found), None, 0.0)
            _write_games(run, tasks, found)
    _write_games(run, tasks, found)
    return [found[task.name] for task in tasks]


def _write_games(run, tasks, found):
    """Writes what is finished, in the order of the tasks."""
    games = [game for task in tasks for game in found.get(task.name, ())]
    results.write_csv(run.out / GAMES_FILE, [dataclasses.asdict(game) for game in games])


def ladder_of(names: Sequence[str], pairs: Pairs) -> Ladder:
    """The ladder of all players.

    Args:
      names: of the players.
      pairs: their games.
    """
    met = (
        (names.index(games[0].first), names.index(games[0].second), share)
        for games, share in zip(pairs, match.points(pairs).mean(axis=1).tolist(), strict=True)
    )
    return Ladder(matches_of(met), len(names))


def rows(names: Sequence[str], ladder: Ladder, ratings: Sequence[Rating]) -> list[dict[str, Any]]:
    """A row for every player: Elo, and the points of its games.

    Args:
      names: of the players.
      ladder: that they make.
      ratings: Elo of the same players.
    """
    games = ladder.points.sum(axis=1), (ladder.points + ladder.points.T).sum(axis=1)
    columns = zip(names, ratings, *(column.tolist() for column in games), strict=True)
    fields = ("bound", "value", "low", "high")
    return [
        dict(player=name)
        | {field: getattr(rating, field) for field in fields}
        | dict(points=points, games=of)
        for name, rating, points, of in columns
    ]


def numbers(
    names: Sequence[str], ratings: Sequence[Rating], pairs: Pairs
) -> Iterator[results.Number]:
    """Elo of all players, and the games that they lost because something went wrong."""
    for name, rating in zip(names, ratings, strict=True):
        if (number := rating.number(name)) is not None:
            yield number
    yield from match.failures(names, pairs)


def draw(
    path: pathlib.Path,
    names: Sequence[str],
    ratings: Sequence[Rating],
    *,
    label: str,
    published: Mapping[str, float],
) -> None:
    """Elo of all players with their intervals, the strongest on top; bounds are arrow heads.

    Args:
      path: of the PNG file.
      names: of the players.
      ratings: of the same players; who has none is left out.
      label: of the axis.
      published: Elo of other players, which are hollow, by their names.
    """
    known = [pair for pair in zip(names, ratings, strict=True) if pair[1].value is not None]
    known += [(name, Rating(value=value)) for name, value in published.items()]
    known.sort(key=lambda pair: pair[1].value)
    with plots.figure(path, rows=1, columns=1, size=(6.4, 0.9 + 0.32 * len(known))) as ((panel,),):
        for height, (name, rating) in enumerate(known):
            if name in published:
                style = plots.HOLLOW | dict(marker="o", markeredgecolor="black")
                panel.plot([rating.value], [height], **style)
                continue
            if not rating.bound:
                panel.plot([rating.low, rating.high], [height] * 2, color=plots.colour(0))
            shape = {"": "o", ">=": ">", "<=": "<"}[rating.bound]
            panel.plot([rating.value], [height], color=plots.colour(0), marker=shape)
        panel.set_xlabel(label, loc="right")  # it may be longer than the axis
        panel.set_yticks(range(len(known)), [name for name, _ in known])
        panel.margins(y=0.6 / len(known))


def table(game: str, rows: Sequence[dict[str, Any]], ratings: Sequence[Rating]) -> Table:
    """Elo and points of all players, for the terminal.

    Args:
      game: that they play.
      rows: of `rows`.
      ratings: Elo of the same players.
    """
    lines = [
        (escape(row["player"]), str(rating), f"{row['points']:g}", f"{row['games']:g}")
        for row, rating in zip(rows, ratings, strict=True)
    ]
    title = f"{game}: Elo with 95 % intervals"
    return text_table(title, ("", "Elo", "points", "games"), lines)
