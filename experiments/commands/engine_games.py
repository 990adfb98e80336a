"""What `engine_match` and `engine_ladder` have in common: options, and games that are kept."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Annotated, TypeVar

import tyro

from experiments.engines import match, pair_queue
from experiments.engines.game import GameRecord
from experiments.engines.named_players import Settings, make_player
from experiments.engines.pair_queue import NewPlayers, PairTask
from experiments.engines.referee import load
from experiments.harness import results
from experiments.harness.progress import progress
from experiments.harness.runs import Run, RunArguments

GAMES_FILE = "games.csv"
ERRORS = "stderr"  # folder for what programs print there
Config = TypeVar("Config", bound="GamesConfig")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GamesArguments(RunArguments):
    """The options about pairs of games."""

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """chess, gardner_chess, go_9x9 or go_19x19; for our agents connect_four, hex or othello too."""
    pairs: int = 10
    """How many openings, from each of which two players play two games."""
    opening_moves: int = 4
    """Moves of each opening, drawn at random. 0: all games begin at the start."""
    nodes: int = 1000
    """Nodes of each search of a player uci:COMMAND."""
    seed: int = 0
    """Of the openings and of the players."""
    workers: int = 1
    """How many pairs are played at a time. The games do not depend on it."""
    move_seconds: float = 60.0
    """How long a program may take for a move before it has lost the game."""
    start_seconds: float = 180.0
    """How long a program may take to be ready."""

    @property
    def preset(self) -> str:
        """The name of the preset on record."""
        return "custom"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GamesConfig:
    """What is on record in result.json of the options."""

    game: str
    pairs: int
    opening_moves: int
    nodes: int
    seed: int
    move_seconds: float
    start_seconds: float


def recorded(config: type[Config], arguments: GamesArguments) -> Config:
    """The record of a kind that has fields of the arguments' names."""
    names = [field.name for field in dataclasses.fields(config)]
    return config(**{name: getattr(arguments, name) for name in names})


def check(arguments: GamesArguments) -> None:
    """A ValueError if a number is out of range."""
    for name in ("pairs", "workers"):
        if getattr(arguments, name) < 1:
            raise ValueError(f"{name}={getattr(arguments, name)} must be at least 1")
    for name in ("move_seconds", "start_seconds"):
        if not getattr(arguments, name) > 0:
            raise ValueError(f"{name}={getattr(arguments, name)} must be above 0")


def player_factory(arguments: GamesArguments, game: str, specs: Sequence[str]) -> NewPlayers:
    """A function that makes all players; players of the same spec get numbers in their names.

    Raises:
      ValueError: an unknown game or player, or a program that is not installed.
      OSError: a network cannot be read.
    """
    settings = Settings(
        referee=load(game),
        nodes=arguments.nodes,
        move_seconds=arguments.move_seconds,
        start_seconds=arguments.start_seconds,
        errors=arguments.out / ERRORS,
    )
    names = numbered(specs)

    def new_players():
        return [
            make_player(spec, settings, name=name) for spec, name in zip(specs, names, strict=True)
        ]

    new_players()  # programs start with their first game
    return new_players


def numbered(specs: Sequence[str]) -> list[str]:
    """Different names for all players."""
    total, seen = collections.Counter(specs), collections.Counter()
    names = []
    for spec in specs:
        seen[spec] += 1
        names.append(spec if total[spec] == 1 else f"{spec} {seen[spec]}")
    return names


def pair_tasks(
    arguments: GamesArguments, game: str, meetings: Sequence[tuple[int, int]]
) -> list[PairTask]:
    """The pairs of games of all meetings of two players, from the same openings.

    Raises:
      ValueError: there are too few openings.
    """
    openings = match.draw_openings(
        load(game), pairs=arguments.pairs, length=arguments.opening_moves, seed=arguments.seed
    )
    return [
        PairTask(
            name=f"pair-{first}-{second}-{number}",
            first=first,
            second=second,
            opening=opening,
            seed=match.pair_seed(arguments.seed, first, second, number),
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
