"""How exploitable an agent is, by exact and by learned best responses, in one table."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from experiments import abr_uniform, results
from experiments.best_responses import (
    Learning,
    Point,
    arena,
    by_games,
    last,
    points,
    row,
    search_alone,
)
from experiments.runs import Run, RunArguments

_DEFAULT = Learning(measured_at=(0,))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    game: str
    agent: str
    learning: Learning


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Learn best responses to an agent of an enumerable two-player zero-sum game.

    Prints what an exact best response and ISMCTS-BR win against it, and writes the learning curve
    as curve.csv and curve.png, and result.json, into --out. Ctrl-C leaves a checkpoint there, from
    which --resume continues to the same numbers.
    """

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """A name of `list`, such as leduc_poker. Hold'em: see `abr_chumps`."""
    agent: str = "uniform"
    """uniform, SOLVER:ITERATIONS (such as cfr_plus:10), a file policy.npz of `solve`; in Leduc also
    always_fold, always_call, always_raise."""
    steps: int = 400
    """Of training."""
    simulations: int = _DEFAULT.simulations
    """Of each search in training."""
    measured_simulations: int = _DEFAULT.measured_simulations
    """Of each search when the responder is measured."""
    seed: int = 0
    """Of everything that is drawn at random."""

    @property
    def preset(self) -> str:
        """What the result is filed under."""
        return "custom"


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command.

    Raises:
      ValueError: bad input.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = _config(arguments)
    arena(config.game)  # bad names are refused before anything is written
    run = Run(arguments, config, experiment="approximate_best_response", command=command)
    alone = search_alone(config.game, config.agent, config.learning)
    curve = points(run, config.game, config.agent, config.learning)
    results.write_csv(run.out / "curve.csv", list(map(row, curve)))
    abr_uniform.draw(run.out / "curve.png", {f"{config.agent} in {config.game}": curve})
    name = f"{config.agent.replace(':', ' ')} in {config.game}"
    found = list(abr_uniform.numbers(name, curve))
    found.append(results.Number(name=f"search alone:{name}", value=sum(alone.won), unit="NashConv"))
    run.finish(found, measure=abr_uniform.MEASURE)
    _print(config, alone, last(curve))


def _config(arguments: Arguments) -> Config:
    steps = arguments.steps
    if steps < 1:
        raise ValueError(f"steps={steps} must be at least 1")
    learning = dataclasses.replace(
        _DEFAULT,
        measured_at=tuple(sorted({0, steps // 4, steps // 2, steps})),
        simulations=arguments.simulations,
        measured_simulations=arguments.measured_simulations,
        seed=arguments.seed,
    )
    return Config(game=arguments.game, agent=arguments.agent, learning=learning)


def _print(config: Config, alone: Point, end: Point) -> None:
    table = Table(title=f"best responses to {config.agent} in {config.game}")
    table.add_column("")
    for heading in ("player 0", "player 1", "sum (NashConv)", "% of exact"):
        table.add_column(heading, justify="right")

    def add(name, seats):
        total = sum(seats)
        share = 100 * total / sum(end.exact)
        table.add_row(name, *map(results.text, (*seats, total, share)))

    add("exact best response", end.exact)
    add(f"search alone ({config.learning.measured_simulations} simulations)", alone.won)
    add(f"ISMCTS-BR after {end.step} steps", end.won)
    add(f"ISMCTS-BR, {config.learning.games} games in each seat", end.mean)
    console = Console()
    console.print(table)
    _, low, high = by_games(end)
    console.print(f"NashConv by games, 95 % confidence: {low:.4g} to {high:.4g}")
