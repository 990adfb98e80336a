"""Best responses to uniform random play, learned and exact (Timbers et al. 2020, Table 1)."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table

from experiments.best_response.learned_responses import Learning, Point, by_games, last, points, row
from experiments.harness import plots, results
from experiments.harness.runs import Run, RunArguments

GAMES = (
    "kuhn_poker",
    "leduc_poker",
    "liars_dice(dice=1,sides=6)",
    "goofspiel(cards=4,points=descending)",
    "goofspiel(cards=5,points=descending)",
    "goofspiel(cards=6,points=descending)",
    "scotland_yard(map=glasses)",
    "tic_tac_toe",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    learning: Learning
    games: tuple[str, ...] = GAMES
    agents: tuple[str, ...] = ("uniform",)


PRESETS = {
    "smoke": Config(
        games=("kuhn_poker", "goofspiel(cards=3,points=descending)"),
        learning=Learning(
            measured_at=(0, 20),
            simulations=16,
            measured_simulations=100,
            episodes=32,
            width=32,
            depth=1,
            games=2000,
        ),
    ),
    "cpu": Config(learning=Learning(measured_at=(0, 100, 400))),
    "paper": Config(
        learning=Learning(
            measured_at=(0, 1000, 10_000, 100_000),
            simulations=800,
            measured_simulations=800,
            episodes=2048,
            width=512,
            depth=4,
            learning_rate=2e-4,
            batch_size=2048,
            capacity=1_000_000,
        )
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Learn best responses to uniform random play in all games whose exact value can be computed.

    Writes what responders win by training steps as curve.csv and curve.png, and result.json, into
    --out. Ctrl-C keeps what is finished there, from which --resume continues to the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: seconds; cpu: minutes; paper: larger searches and networks, for an accelerator."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="abr_uniform", command=command)
    found = {game: points(run, game, "uniform", config.learning) for game in config.games}
    results.write_csv(run.out / "curve.csv", [row(p) for curve in found.values() for p in curve])
    draw(run.out / "curve.png", found)
    run.finish(
        [number for curve in found.values() for number in numbers(curve[0].game, curve)],
        measure=MEASURE,
        deviations=DEVIATIONS,
    )
    print_table("abr_uniform", found)


MEASURE = (
    "NashConv, the sum of what both players' best responses win, in units of the game's payoffs:"
    " exact, by ISMCTS-BR (the exact value of what it plays), by its games (low and high: 95 %"
    " confidence), and what a search without training wins"
)
DEVIATIONS = (
    "the paper trains a larger network for 100,000 steps; published percentages were not available",
    "Connect Four, chess and Go are left out: their exact NashConv against uniform play cannot be"
    " computed here",
)


def numbers(name: str, curve: Sequence[Point]) -> Iterator[results.Number]:
    """A line of the tables, of the curve of one agent in one game."""
    end = last(curve)
    unit = "NashConv"
    yield results.Number(name=f"exact:{name}", value=sum(end.exact), unit=unit)
    yield results.Number(name=f"ISMCTS-BR:{name}", value=sum(end.won), unit=unit)
    mean, low, high = by_games(end)
    yield results.Number(name=f"by games:{name}", value=mean, low=low, high=high, unit=unit)
    share = "% of exact"
    yield results.Number(name=f"ISMCTS-BR:{name}", value=end.percent, unit=share)
    scale = 100 / sum(end.exact)
    games = results.Number(
        name=f"by games:{name}", value=scale * mean, low=scale * low, high=scale * high, unit=share
    )
    yield games
    if curve[0].step == 0:
        yield results.Number(name=f"untrained:{name}", value=curve[0].percent, unit=share)


def draw(path: pathlib.Path, found: dict[str, Sequence[Point]]) -> None:
    """Percent of the exact NashConv against training steps, a line for each."""
    with plots.figure(path, rows=1, columns=1, size=(7.2, 3.6)) as axes:
        place = axes[0, 0]
        lines = [
            plots.Band(
                name=name,
                x=[point.step for point in curve],
                samples=[[point.percent] for point in curve],
            )
            for name, curve in found.items()
        ]
        plots.bands(place, lines, published={}, x_label="training steps", log_x=False)
        place.set(yscale="linear", ylabel="% of the exact NashConv")
        plots.level(place, 100.0, "exact best response")


def print_table(title: str, found: dict[str, Sequence[Point]]) -> None:
    """What was found, on the terminal."""
    table = Table(title=f"{title}: NashConv")
    table.add_column("", overflow="fold")
    for heading in ("exact", "ISMCTS-BR", "% of exact", "by games", "95 % confidence"):
        table.add_column(heading, justify="right")
    for name, curve in found.items():
        end = last(curve)
        mean, low, high = by_games(end)
        texts = map(results.text, (sum(end.exact), sum(end.won), end.percent, mean))
        table.add_row(name, *texts, f"{results.text(low)} to {results.text(high)}")
    Console().print(table)
