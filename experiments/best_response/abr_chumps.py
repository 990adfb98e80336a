"""Best responses to simple players of hold'em, exact, local and learned (Timbers et al. 2020,
Tables 2 and 3): always fold, always call, always raise, calls or raises at random, all at random.

Chumps do not look at their cards, so exact values can be computed, and that of local best response
too (`solvers.approximate_best_response.holdem_chumps`); what it wins in hands that are played, each
deal in both seats, is measured besides. ISMCTS-BR learns in both seats.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Literal

from experiments.best_response.holdem_responses import (
    DEVIATIONS,
    LEARNING,
    LIMIT,
    MEASURE,
    NO_LIMIT,
    PUBLISHED,
    Cell,
    HoldemLearning,
    computed,
    last,
    learned,
    numbers,
    played,
    print_table,
    row,
    title,
)
from experiments.harness import plots, results
from experiments.harness.runs import Run, RunArguments
from jaxgames.registry import make
from solvers.approximate_best_response.holdem_chumps import chumps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    games: tuple[str, ...] = (LIMIT, NO_LIMIT)
    played: tuple[str, ...] = ("call or raise",)  # by local best response, in the first game
    deals: int
    # By ISMCTS-BR, by game: steps of training against one chump after another.
    learned: dict[str, dict[str, int]]
    learning: HoldemLearning


# Those who never fold come first: what is folded teaches nothing of later rounds.
_LIMIT = ("always call", "call or raise", "always raise", "uniform", "always fold")
_NO_LIMIT = (
    "always call",
    "always pot",
    "call or raise",
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Compute and learn best responses to simple players of hold'em.

    Writes what responders win as curve.csv and curve.png, and result.json, into --out. Ctrl-C keeps
    what is finished there, from which --resume continues to the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: a game with a board of one card; cpu: most of an hour; paper: for an accelerator."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
      FloatingPointError: a number in training is not finite.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="abr_chumps", command=command)
    cells: list[Cell] = []
    for game in config.games:
        for name in chumps(make(game)):
            compute = functools.partial(computed, game, name)
            cells += run.kept(f"computed-{game}-{name}", Cell, compute)
    for name in config.played:
        compute = functools.partial(
            played, config.games[0], name, deals=config.deals, seed=config.learning.seed
        )
        cells += run.kept(f"played-{name}", Cell, compute)
    for game, steps in config.learned.items():
        lessons = {name: (count,) for name, count in steps.items()}
        learn = functools.partial(learned, run, game, lessons, config.learning)
        cells += run.kept(f"learned-{game}", Cell, learn)
    results.write_csv(run.out / "curve.csv", list(map(row, cells)))
    draw(run.out / "curve.png", config, cells)
    run.finish(
        [number for cell in cells for number in numbers(cells, cell)],
        measure=MEASURE,
        deviations=DEVIATIONS,
    )
    for game in config.games:
        print_table(f"best responses in {title(game)}: mb/h", game, cells)


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """A panel per game, a row per chump, a bar per responder."""
    columns = len(config.games)
    with plots.figure(path, rows=1, columns=columns, size=(5.2 * columns, 4.2)) as axes:
        for place, game in zip(axes[0], config.games, strict=True):
            here = [cell for cell in last(cells) if cell.game == game]
            names = list(dict.fromkeys(cell.chump for cell in here))
            kinds = list(dict.fromkeys(cell.responder for cell in here))
            colours = dict(zip(kinds, plots.COLOURS.values(), strict=False))
            height, known = 0.8 / len(kinds), []
            for cell in here:
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
            below = dict(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3)
            place.legend(frameon=False, fontsize=7, columnspacing=1, **below)
