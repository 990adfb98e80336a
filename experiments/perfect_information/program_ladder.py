"""Elo of trained agents beside other programs (Student of Games, Table 1).

AlphaZero and Student of Games have been trained by other experiments, in the same game. Programs
play with a fixed number of nodes or at a level, never by time. All players meet in pairs of games
from the same random openings.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator
from typing import Literal

from rich.table import Table

from experiments.engines import tournament
from experiments.engines.named_players import Settings
from experiments.engines.program import check_seconds
from experiments.engines.referee import load
from experiments.engines.tournament import Pairs
from experiments.harness import ladder_ratings, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.network_files import NETWORKS
from experiments.harness.runs import Run, RunArguments, checksum, interrupted_config
from experiments.perfect_information import paired_matches, published_elo
from experiments.perfect_information.student import SEARCHES_ANEW
from experiments.perfect_information.trained_players import (
    OPTION_OF,
    in_folders,
    last_network,
    networks_of,
    without_networks,
)
from jaxgames.checks import at_least

UNIFORM = "uniform"
# By game; the first one's Elo is 0, as in the paper that of GNU Go at its highest level.
PROGRAMS = {
    "gardner_chess": (
        "fairy_stockfish(nodes=1000,skill=-20)",
        "fairy_stockfish(nodes=1000,skill=-10)",
        "fairy_stockfish(nodes=1000,skill=0)",
    ),
    "chess": ("stockfish(nodes=1000,skill=0)", "stockfish(nodes=1000,skill=5)"),
    "go_9x9": ("gnugo(level=10)", "gnugo(level=0)"),
    "go_19x19": ("gnugo(level=10)", "gnugo(level=0)"),
}
_LEAST = 8_000  # simulations of the agents in Table 1
_PAPER_GAMES = 200  # of each two players


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Who plays whom."""

    game: str = "go_9x9"
    programs: tuple[str, ...] = PROGRAMS["go_9x9"]
    simulations: tuple[int, ...] = (100, 800)  # of each trained agent
    pairs: int = 20  # of each two players
    opening_moves: int = 4
    move_seconds: float = 60.0
    seed: int = 0
    alphazero: str = ""  # file of its network; empty: it has none
    student_of_games: str = ""
    networks_checksum: str = ""  # of both files; empty: there are none


PRESETS = {
    "smoke": Config(programs=(), simulations=(2,), pairs=1),
    "cpu": Config(),
    "large": Config(simulations=(800, 8_000), pairs=100),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    game: Literal["gardner_chess", "chess", "go_9x9", "go_19x19"] = "go_9x9"
    """What is played, in which both agents were trained."""
    alphazero: pathlib.Path | None = None
    """Folder of a run of alphazero_board_games. None: it searches without a network."""
    student_of_games: pathlib.Path | None = None
    """The same of sog_board_games."""
    pairs: int | None = None
    """Openings of each two players, from each of which they play two games; None: the preset's."""
    move_seconds: float | None = None
    """How long a program may take for a move before it has lost the game; None: the preset's. Where
    many pairs share a few cores, GNU Go may need more than the preset's 60 seconds."""
    workers: int = 8
    """How many pairs are played at a time. Then our agents search in the positions of several games
    at once. Programs have a process for each of them."""


def configure(config: Config, options: Options) -> Config:
    """The preset with the options.

    A run that is resumed keeps the networks that it began with, though their training has gone on.

    Raises:
      ValueError: an option cannot be, or a folder has no run of training with a network.
    """
    at_least(1, workers=options.workers)
    if options.pairs is not None:
        at_least(1, pairs=options.pairs)
    if options.move_seconds is not None:
        check_seconds("move_seconds", options.move_seconds)
    interrupted = interrupted_config(options)
    begun = [interrupted.get(option) for option in OPTION_OF.values()]
    networks = in_folders(options, lambda folder: _network(folder, begun))
    return dataclasses.replace(
        config,
        game=options.game,
        programs=PROGRAMS[options.game] if config.programs else (),
        pairs=options.pairs or config.pairs,
        move_seconds=options.move_seconds or config.move_seconds,
        networks_checksum=checksum(networks.values()) if networks else "",
        **{OPTION_OF[agent]: str(path) for agent, path in networks.items()},
    )


def _network(folder, begun):
    """The file of a run's network that a ladder began with, or else that of the last one."""
    if "," in folder:
        raise ValueError(f"the folder {folder} must not have a comma, which parts players' options")
    files = pathlib.Path(folder, NETWORKS).glob("*.npz")
    return next((path for path in files if str(path) in begun), None) or last_network(folder, 0)


def players(config: Config) -> dict[str, str]:
    """All players as `make_player` takes them, by their names; the first one's Elo is 0."""
    found = {name: name for name in (*config.programs, UNIFORM)}
    for agent, network in networks_of(config).items():
        options = f",network={network}" if network else ""
        for simulations in config.simulations:
            spec = f"{OPTION_OF[agent]}(simulations={simulations}{options})"
            found[f"{agent}({simulations})"] = spec
    return found


def compute(run: Run) -> Pairs:
    """All games."""
    config, known = run.config, players(run.config)
    settings = Settings(
        referee=load(config.game),
        move_seconds=config.move_seconds,
        errors=run.out / tournament.ERRORS,
        side_by_side=run.arguments.workers,
    )
    new_players = tournament.player_factory([*known.values()], [*known], settings)
    tasks = tournament.pair_tasks(
        config.game,
        [*itertools.combinations(range(len(known)), 2)],
        pairs=config.pairs,
        opening_moves=config.opening_moves,
        seed=config.seed,
    )
    return tournament.play(run, config.game, tasks, new_players, workers=run.arguments.workers)


def _ladder(config, pairs):
    """Names of the players, their ladder and their ratings."""
    names = [*players(config)]
    ladder = tournament.ladder_of(names, pairs)
    return names, ladder, ladder.ratings(0)


def rows(config: Config, pairs: Pairs) -> list[dict[str, object]]:
    """A row for every player."""
    return tournament.rows(*_ladder(config, pairs))


def numbers(config: Config, pairs: Pairs) -> Iterator[results.Number]:
    """Elo of all players, and the games that they lost because something went wrong."""
    names, _, ratings = _ladder(config, pairs)
    return tournament.numbers(names, ratings, pairs)


def published(config: Config) -> dict[str, float]:
    """Elo in Table 1, in the full game of the same kind."""
    if "chess" in config.game:
        full, table, programs = "chess", published_elo.TABLE_1_CHESS, published_elo.CHESS_PROGRAMS
    else:
        full, table, programs = "Go 19x19", published_elo.TABLE_S3, published_elo.GO_PROGRAMS
    known = published_elo.by_name(table, least=_LEAST) | programs
    return {f"{name}, {full} (paper)": elo for name, elo in known.items()}


def draw(path: pathlib.Path, config: Config, pairs: Pairs) -> None:
    """The ladder, with the paper's players."""
    names, _, ratings = _ladder(config, pairs)
    label = f"Elo in {config.game}, 0 for {names[0]}; paper: 0 for its weakest program"
    tournament.draw(path, names, ratings, label=label, published=published(config))


def tables(config: Config, pairs: Pairs) -> Iterator[Table]:
    """Elo of all players, and the paper's."""
    names, ladder, ratings = _ladder(config, pairs)
    yield tournament.table(config.game, tournament.rows(names, ladder, ratings), ratings)
    lines = [(name, f"{elo:+,.0f}") for name, elo in published(config).items()]
    yield text_table("Table 1", ("", "Elo"), lines)


def measure(config: Config) -> str:
    """What the numbers are."""
    first = next(iter(players(config)))
    return f"Elo in {config.game}, 0 for {first}, from {2 * config.pairs} games of each two players"


def deviations(config: Config) -> Iterator[str]:
    """From the paper's setting, in words."""
    if config.game not in ("chess", "go_19x19"):
        yield f"{config.game} instead of chess and 19x19 Go"
    yield "programs play with fixed nodes or levels (the paper: Stockfish by time)"
    yield "Debian's package pachi is another program, so there is no Pachi"
    yield f"games begin with {config.opening_moves} random moves, as the agents draw next to none"
    if 2 * config.pairs != _PAPER_GAMES:
        yield f"{2 * config.pairs} games of each two players (the paper: {_PAPER_GAMES})"
    yield from without_networks(config)
    yield SEARCHES_ANEW


COMMAND = Experiment(
    name="program_ladder",
    shown="Elo of all players",
    presets=PRESETS,
    preset_docs={
        "smoke": "seconds, our agents without networks and no programs",
        "cpu": (
            "20 minutes in Gardner chess on two cores, an hour or two in 9x9 Go and some hours in"
            " others (estimates)"
        ),
        "large": "200 games of each two with 800 and 8,000 simulations, for accelerators",
    },
    options=Options,
    configure=configure,
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=measure,
    deviations=deviations,
    error_bars=ladder_ratings.ERROR_BARS + paired_matches.OF_THESE_NETWORKS,
    more_files=(tournament.GAMES_FILE, tournament.ERRORS),
)
