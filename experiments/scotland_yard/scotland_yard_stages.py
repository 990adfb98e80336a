"""Long games of Scotland Yard in a district of London, solved exactly from reveal to reveal.

Whenever Mr X has shown himself all positions are common knowledge, and what follows from such a
board is a game of its own. How much are they worth to him, by the rounds that are left?
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from jaxgames.registry import make
from solvers.scotland_yard import solve_by_stages
from solvers.scotland_yard.by_stages import Boards, BoardValues

_DECIDED = 0.99  # a board is decided if its value is as far as this from 0; a win is worth 1
_BAND = (10, 90)  # percentiles of the boards that the plot shows beside the mean


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The games and how exactly they are solved."""

    games: tuple[str, ...]  # of Scotland Yard, with reveals
    num_iterations: int = 400  # of PCFR+ on every board
    boards_at_once: int = 100


PRESETS = {
    "smoke": Config(games=("scotland_yard(map=glasses,rounds=3,reveals=2)",)),
    "cpu": Config(
        games=(
            "scotland_yard(map=district,rounds=24,reveals=3/6/9/12/15/18/21)",
            "scotland_yard(map=district,edition=district_two_detectives,rounds=6,reveals=2/4)",
        )
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Board:
    """What is known of a board when it has been solved."""

    value: float  # to Mr X
    error: float  # exploitability in its stage, with later values given


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """The boards of a game at one move of Mr X."""

    game: str
    moves: int  # that Mr X has made
    rounds_left: int
    boards: int
    states: int  # public states up to the next reveal or the end, of all boards
    mean: float  # value to Mr X, of all boards that can be reached alike
    low: float  # percentile of the boards
    high: float
    won: float  # share of boards that Mr X wins for certain
    lost: float
    error: float  # the largest of a board

    @property
    def is_root(self) -> bool:
        """Whether its one board is the beginning of the game."""
        return self.moves == 0


def compute(run: Run) -> list[Stage]:
    """Solves all games; boards that are solved together are kept for an interrupted run."""
    return [
        stage
        for number, game in enumerate(run.config.games)
        for stage in run.kept(
            f"game-{number}", Stage, functools.partial(_solved, run, game, f"boards-{number}")
        )
    ]


def _solved(run, game, prefix):
    """The stages of a game."""
    rules = make(game)
    with contextlib.ExitStack() as shown:

        @functools.cache  # the bar begins when it is known how many boards there are
        def count(of: int) -> Callable[[int], None]:
            return counter(shown.enter_context(progress(game, of)))

        def keep(boards: Boards, solve: Callable[[], BoardValues]) -> BoardValues:
            def solved() -> Iterator[Board]:
                for value, error in zip(*solve(), strict=True):
                    yield Board(value=float(value), error=float(error))

            advance = count(boards.of)
            kept = run.kept(f"{prefix}-{boards.moves}-{boards.first}", Board, solved)
            advance(boards.count)
            values, errors = zip(*map(dataclasses.astuple, kept), strict=True)
            return np.array(values), np.array(errors)

        stages = solve_by_stages(
            rules.belief_game(),
            num_iterations=run.config.num_iterations,
            boards_at_once=run.config.boards_at_once,
            keep=keep,
        ).stages
    for stage in stages:
        low, high = np.percentile(stage.values, _BAND)
        yield Stage(
            game=game,
            moves=stage.moves,
            rounds_left=rules.rounds - stage.moves,
            boards=len(stage.values),
            states=stage.num_states,
            mean=float(stage.values.mean()),
            low=float(low),
            high=float(high),
            won=float((stage.values > _DECIDED).mean()),
            lost=float((stage.values < -_DECIDED).mean()),
            error=stage.error,
        )


def rows(config: Config, stages: Sequence[Stage]) -> Iterator[dict[str, object]]:
    """A row for each stage of each game."""
    return map(dataclasses.asdict, stages)


def of_game(stages: Sequence[Stage], game: str) -> list[Stage]:
    """The stages of a game, the beginning of the game first."""
    return [stage for stage in stages if stage.game == game]


def numbers(config: Config, stages: Sequence[Stage]) -> Iterator[results.Number]:
    """The values of the games, and the means of all boards by the rounds that are left."""
    for game in config.games:
        own = of_game(stages, game)
        bound = sum(stage.error for stage in own)
        for stage in own:
            if stage.is_root:
                yield results.Number(name=f"value:{game}", value=stage.mean, unit="value to Mr X")
                name = f"exploitability, at most:{game}"
                yield results.Number(name=name, value=bound, unit="value to Mr X")
            else:
                name = f"mean of {stage.boards:,} boards, {stage.rounds_left} rounds left:{game}"
                yield results.Number(name=name, value=stage.mean, unit="value to Mr X")


def draw(path: pathlib.Path, config: Config, stages: Sequence[Stage]) -> None:
    """Mean values of boards by the rounds that are left, and where most of them lie."""
    with plots.figure(path, rows=1, columns=1, size=(5.6, 3.6)) as axes:
        panel = axes[0, 0]
        for number, game in enumerate(config.games):
            boards = [stage for stage in of_game(stages, game) if not stage.is_root]
            x = [stage.rounds_left for stage in boards]
            colour, detectives = plots.colour(number), make(game).detectives
            panel.plot(
                x,
                [stage.mean for stage in boards],
                label=f"mean of all boards, {detectives} detective{'s' * (detectives > 1)}",
                color=colour,
                marker=plots.marker(number),
            )
            panel.fill_between(
                x,
                [stage.low for stage in boards],
                [stage.high for stage in boards],
                color=colour,
                alpha=0.15,
                linewidth=0,
                label=f"from the {_BAND[0]}th to the {_BAND[1]}th percentile",
            )
        panel.set(
            xlabel="rounds left after Mr X has shown himself",
            ylabel="value to Mr X",
            ylim=(-1.05, 1.05),
        )


def tables(config: Config, stages: Sequence[Stage]) -> Iterator[Table]:
    """The stages of each game."""
    headings = ("Mr X's moves", "boards", "states", "mean value", "lost", "won", "largest error")
    for game in config.games:
        lines = [
            (
                f"{stage.moves}",
                f"{stage.boards:,}",
                f"{stage.states:,}",
                results.text(stage.mean),
                f"{stage.lost:.0%}",
                f"{stage.won:.0%}",
                results.text(stage.error),
            )
            for stage in of_game(stages, game)
        ]
        yield text_table(game, headings, lines, labels=0)


COMMAND = Experiment(
    name="scotland_yard_stages",
    shown="values of boards by the rounds that are left",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": (
            "an hour on one core (an estimate): 24 rounds with one detective and six with two, on"
            " twenty stations"
        ),
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=lambda config: (
        "value to Mr X, where a win is worth 1, of games and of the boards at which he has just"
        f" shown himself; {config.num_iterations} iterations of PCFR+ on every board; all boards"
        " that can be reached count alike"
    ),
)
