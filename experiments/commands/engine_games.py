"""The options that `engine_match` and `engine_ladder` have in common."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
from collections.abc import Sequence
from typing import Annotated, TypeVar

import tyro

from experiments.engines import tournament
from experiments.engines.named_players import Settings
from experiments.engines.pair_queue import PairTask
from experiments.engines.program import check_seconds
from experiments.engines.referee import load
from experiments.harness.runs import RunArguments, checksum
from jaxgames.checks import at_least

Config = TypeVar("Config", bound="GamesConfig")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GamesArguments(RunArguments):
    """The options about pairs of games."""

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """chess, gardner_chess, go_9x9 or go_19x19; for our agents connect_four, hex or othello too."""
    pairs: int = 10
    """How many openings, from each of which two players play two games."""
    opening_moves: int = 4
    """Moves of each opening, drawn at random. 0: all games begin at the start. Players that draw
    nothing then play the same two games again and again, each of which is counted."""
    nodes: int = 1000
    """Nodes of each search of a player uci:COMMAND."""
    seed: int = 0
    """Of the openings and of the players."""
    workers: int = 1
    """How many pairs are played at a time. Then an agent of ours searches in the positions of
    several games at once. Programs have a process for each of them."""
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
    networks_checksum: str = ""  # of the files of the players' networks


def recorded(config: type[Config], arguments: GamesArguments, players: Sequence[str]) -> Config:
    """The record of a kind that has fields of the arguments' names, with the checksum of the
    networks that the players have."""
    words = itertools.chain(*(re.findall(r"network=([^,)]+)", player) for player in players))
    networks = [path for path in map(pathlib.Path, words) if path.is_file()]
    found = {"networks_checksum": checksum(networks) if networks else ""}
    names = [field.name for field in dataclasses.fields(config) if field.name not in found]
    return config(**found, **{name: getattr(arguments, name) for name in names})


def check(arguments: GamesArguments) -> None:
    """A ValueError if a number is out of range."""
    at_least(1, pairs=arguments.pairs, workers=arguments.workers)
    for name in ("move_seconds", "start_seconds"):
        check_seconds(name, getattr(arguments, name))


def settings(arguments: GamesArguments) -> Settings:
    """What all players share."""
    return Settings(
        referee=load(arguments.game),
        nodes=arguments.nodes,
        move_seconds=arguments.move_seconds,
        start_seconds=arguments.start_seconds,
        errors=arguments.out / tournament.ERRORS,
        side_by_side=arguments.workers,
    )


def pair_tasks(arguments: GamesArguments, meetings: Sequence[tuple[int, int]]) -> list[PairTask]:
    """The pairs of games of all meetings of two players.

    Raises:
      ValueError: there are too few openings.
    """
    options = {name: getattr(arguments, name) for name in ("pairs", "opening_moves", "seed")}
    return tournament.pair_tasks(arguments.game, meetings, **options)
