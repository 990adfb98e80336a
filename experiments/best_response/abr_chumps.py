"""Best responses to chumps of hold'em: exact, local and learned (Timbers et al. 2020, Tables 2, 3).

Chumps do not look at their cards: they always fold, always call, always raise, call or raise with
equal probability, or do everything with equal probability. In no-limit hold'em, where there are two
raises, three readings of the papers' chump that calls or raises stand side by side. The exact
values of a best response and of local best response can therefore be computed
(`solvers.approximate_best_response.exact_chump_responses`). What local best response wins in hands
that are played, each deal in both seats, is measured, too. ISMCTS-BR learns in both seats.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence

from rich.table import Table

from experiments.best_response import holdem_response_tables
from experiments.best_response.holdem_response_tables import PUBLISHED, READINGS, last_cells, title
from experiments.best_response.holdem_responses import (
    LEARNING,
    LIMIT,
    NO_LIMIT,
    Cell,
    HoldemLearning,
    deviations_of,
    exact_cells,
    learned_cells,
    played_cells,
)
from experiments.harness import plots, results
from experiments.harness.experiment import Experiment
from experiments.harness.runs import Run
from jaxgames.registry import make
from solvers.approximate_best_response.exact_chump_responses import chumps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    games: tuple[str, ...] = (LIMIT, NO_LIMIT)
    played: tuple[str, ...] = ("call or raise",)  # chumps of the first game, by LBR
    deals: int  # that LBR plays, each in both seats
    learned: dict[str, dict[str, int]]  # by game and chump, in turn, steps of ISMCTS-BR's training
    learning: HoldemLearning


# Chumps that never fold come first: a folded hand teaches nothing about later rounds.
_LIMIT = ("always call", "call or raise", "always raise", "uniform", "always fold")
_NO_LIMIT = (
    "always call",
    "always pot",
    *READINGS,
    "uniform",
    "always all-in",
    "always fold",
)
_ONE_CARD = "poker(board=0/1,first=1/0,raise_sizes=10/20,max_raises=1/1)"
PRESETS = {
    "smoke": Config(
        games=(_ONE_CARD,),
        played=("always call",),
        deals=32,
        learned={_ONE_CARD: {"always call": 4, "always raise": 2}},
        learning=dataclasses.replace(
            LEARNING,
            simulations=4,
            measured_simulations=4,
            episodes=8,
            width=8,
            depth=1,
            batch_size=16,
            capacity=256,
            games=64,
        ),
    ),
    "cpu": Config(
        deals=2000,
        learned={
            LIMIT: dict.fromkeys(_LIMIT, 600) | {"always raise": 2000, "always fold": 200},
            NO_LIMIT: dict.fromkeys(_NO_LIMIT, 600) | {"always fold": 200},
        },
        learning=LEARNING,
    ),
    "paper": Config(
        deals=100_000,
        learned={
            LIMIT: dict.fromkeys(_LIMIT, 100_000),
            NO_LIMIT: dict.fromkeys(_NO_LIMIT, 100_000),
        },
        learning=dataclasses.replace(
            LEARNING,
            simulations=100,
            measured_simulations=400,
            episodes=2048,
            width=512,
            depth=4,
            learning_rate=2e-4,
            batch_size=2048,
            capacity=2_000_000,
            games=1_000_000,
        ),
    ),
}


def compute(run: Run) -> list[Cell]:
    """Exact values, hands that are played, and what ISMCTS-BR learns to win."""
    config = run.config
    cells: list[Cell] = []
    for game in config.games:
        for name in chumps(make(game)):
            compute_exact = functools.partial(exact_cells, game, name)
            cells += run.kept(f"computed-{game}-{name}", Cell, compute_exact)
    for name in config.played:
        play = functools.partial(
            played_cells, config.games[0], name, deals=config.deals, seed=config.learning.seed
        )
        cells += run.kept(f"played-{name}", Cell, play)
    for game, steps in config.learned.items():
        lessons = {name: (count,) for name, count in steps.items()}
        learn = functools.partial(learned_cells, run, game, lessons, config.learning)
        cells += run.kept(f"learned-{game}", Cell, learn)
    return cells


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """A panel per game, a row per chump, a bar per responder."""
    columns, shown = len(config.games), last_cells(cells)
    responders = dict.fromkeys(cell.responder for cell in shown)
    colours = {name: plots.colour(number) for number, name in enumerate(responders)}
    with plots.figure(path, rows=1, columns=columns, size=(5.2 * columns, 4.6)) as axes:
        for place, game in zip(axes[0], config.games, strict=True):
            panel = [cell for cell in shown if cell.game == game]
            names = list(dict.fromkeys(cell.chump for cell in panel))
            kinds = list(dict.fromkeys(cell.responder for cell in panel))
            height, known = 0.8 / len(kinds), []
            for cell in panel:
                row = names.index(cell.chump) + height * (kinds.index(cell.responder) + 0.5) - 0.4
                place.barh(
                    row,
                    cell.value,
                    height,
                    xerr=2 * cell.error or None,
                    color=colours[cell.responder],
                    error_kw={"linewidth": 0.8},
                )
                if (paper := PUBLISHED.get((game, cell.chump, cell.responder))) is not None:
                    known.append((paper, row))
            for kind in kinds:
                place.barh(0, 0, color=colours[kind], label=kind)
            if known:
                x, y = zip(*known, strict=True)
                place.plot(x, y, color="black", label="published", **plots.HOLLOW)
            place.set_yticks(range(len(names)), names)
            place.invert_yaxis()
            place.set_axisbelow(True)
            place.set(xlabel="won, mb/h (mean over seats)", title=title(game))


def tables(config: Config, cells: Sequence[Cell]) -> Iterator[Table]:
    """A table per game."""
    for game in config.games:
        heading = f"best responses in {title(game)}: mb/h"
        yield holdem_response_tables.table(heading, game, cells)


COMMAND = Experiment(
    name="abr_chumps",
    shown="what responders win",
    presets=PRESETS,
    preset_docs={
        "smoke": "a game with a board of one card",
        "cpu": "an hour and a half",
        "paper": "for an accelerator",
    },
    batches=lambda config: config.learning.shared_sizes(),
    compute=compute,
    rows=holdem_response_tables.rows,
    draw=draw,
    numbers=holdem_response_tables.numbers,
    tables=tables,
    error_bars=results.TWO_STANDARD_ERRORS,
    measure=holdem_response_tables.MEASURE,
    deviations=lambda config: deviations_of(config.learning, holdem_response_tables.DEVIATIONS),
)
