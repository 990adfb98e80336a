"""Long games of Scotland Yard in a district of London, solved exactly from reveal to reveal.

Whenever Mr X has shown himself all positions are common knowledge, and what follows from such a
board is a game of its own. How much are they worth to him, by the moves that he has left? The later
a reveal, the more boards can be reached, and means are of all of them.
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
from experiments.harness.progress import counter, progress, status
from experiments.harness.runs import Run
from jaxgames.registry import make
from jaxgames.scotland_yard.rules import ScotlandYard
from solvers.scotland_yard import SomeBoards, solve_by_stages
from solvers.scotland_yard.by_stages import BoardValues

_DECIDED = 0.99  # a board is decided if its value is farther than this from 0; a win is worth 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The games and how exactly they are solved."""

    games: tuple[str, ...]  # of Scotland Yard, with reveals
    num_iterations: int = 400  # of PCFR+ on every board
    boards_at_once: int = 100

    def __post_init__(self):
        for name in self.games:
            game = make(name)
            if not isinstance(game, ScotlandYard) or not game.reveal_mask.any():
                raise ValueError(f"games: {name!r} must be Scotland Yard with reveals")


PRESETS = {
    "smoke": Config(games=("scotland_yard(map=glasses,rounds=3,reveals=2)",)),
    "cpu": Config(games=("scotland_yard(map=district,rounds=15,reveals=3/6/9/12)",)),
    "large": Config(
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
    """The boards of a game after some moves of Mr X."""

    game: str
    moves: int  # that Mr X has made; after 0 the beginning of the game is the only board
    moves_left: int
    boards: int  # that can be reached
    states: int  # public states up to the next reveal or the end, of all boards
    mean: float  # value to Mr X, of all boards alike
    won: float  # share of boards that are worth more than 0.99
    lost: float  # share of boards that are worth less than -0.99
    error: float  # the largest of a board


def compute(run: Run) -> list[Stage]:
    """Solves all games; boards that are solved together are kept for an interrupted run."""
    return [
        stage
        for number, game in enumerate(run.config.games)
        for stage in run.kept(
            f"game-{number}", Stage, functools.partial(_solved, run, game, number)
        )
    ]


def _solved(run, game, number):
    """The stages of a game."""
    rules, title = make(game), f"game {number + 1} of {len(run.config.games)}"
    with contextlib.ExitStack() as shown:
        listing = shown.enter_context(contextlib.ExitStack())
        listing.enter_context(status(f"{title}: listing its boards"))

        @functools.cache  # the bar takes the place of the status when all boards are listed
        def bar(total: int) -> Callable[[int], None]:
            listing.close()
            return counter(shown.enter_context(progress(title, total)))

        def keep(boards: SomeBoards, solve: Callable[[], BoardValues]) -> BoardValues:
            def solved() -> Iterator[Board]:
                for value, error in zip(*solve(), strict=True):
                    yield Board(value=float(value), error=float(error))

            advance = bar(boards.total)
            kept = run.kept(f"boards-{number}-{boards.moves}-{boards.first}", Board, solved)
            if len(kept) != boards.count:
                raise ValueError(
                    f"{run.out}: {len(kept)} values of {boards} were kept: use another --out"
                )
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
        yield Stage(
            game=game,
            moves=stage.moves,
            moves_left=rules.rounds - stage.moves,
            boards=len(stage.values),
            states=stage.num_states,
            mean=float(stage.values.mean()),
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
    """The values of the games, and the means of all boards by the moves that are left."""
    unit = "value to Mr X"
    for game in config.games:
        start, *boards = of_game(stages, game)
        bound = start.error + sum(stage.error for stage in boards)
        yield results.Number(name=f"{game}:value", value=start.mean, unit=unit)
        yield results.Number(name=f"{game}:exploitability, at most", value=bound, unit=unit)
        for stage in boards:
            name = f"{game}:mean of the reached boards, {stage.moves_left} moves left"
            yield results.Number(name=name, value=stage.mean, unit=unit)


def draw(path: pathlib.Path, config: Config, stages: Sequence[Stage]) -> None:
    """Mean values of boards by the moves that Mr X has left."""
    with plots.figure(path, rows=1, columns=1, size=(5.6, 3.6)) as axes:
        panel = axes[0, 0]
        for number, game in enumerate(config.games):
            boards = of_game(stages, game)[1:]
            x, rules = [stage.moves_left for stage in boards], make(game)
            name = f"{rules.detectives} detective{'s' * (rules.detectives > 1)}"
            panel.plot(
                x,
                [stage.mean for stage in boards],
                label=f"{name}, all boards",
                color=plots.colour(number),
                marker=plots.marker(number),
            )
        panel.set(
            xlabel="moves that Mr X has left when he has shown himself",
            ylabel="value to Mr X",
            ylim=(-1.05, 1.05),
        )


def tables(config: Config, stages: Sequence[Stage]) -> Iterator[Table]:
    """The stages of each game."""
    decided = f"below -{_DECIDED}", f"above {_DECIDED}"
    headings = ("moves", "boards", "states", "mean", *decided, "largest error")
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
    shown="values of boards by the moves that Mr X has left",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "half an hour on one core: 15 rounds with one detective",
        "large": (
            "an hour and a half on one core (an estimate): 24 rounds with one detective, and six"
            " with two"
        ),
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=lambda config: (
        "value to Mr X, where a win is worth 1, of games, and of the boards at which he has just"
        " shown himself by the moves that he has left, with"
        f" {config.num_iterations} iterations of PCFR+ on every board. Means are of all boards that"
        " can be reached then. The exploitability of a game is at most the sum over its stages of"
        " the largest exploitability of a board with later values given"
    ),
)
