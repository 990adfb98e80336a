"""Information-set MCTS in Leduc (Table S5 of Student of Games; Schmid et al. 2023).

A search of its own at every information state, for several numbers of simulations and constants of
UCB; the policy that the searches make together is read out in three ways, and its exploitability is
exact.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, published, results
from experiments.harness.progress import progress
from experiments.harness.runs import Run, RunArguments
from experiments.student_of_games import search_laboratory
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import evaluation
from solvers.sampling import information_set_mcts as mcts
from solvers.sampling.decision_tree import DecisionTree, build_decision_tree
from solvers.sampling.information_set_mcts import InformationSetMcts
from solvers.sequence_form import SequenceForm, build_sequence_form

READ_OUTS = {
    "visit_distribution": mcts.visit_distribution,
    "max_visits": mcts.max_visits,
    "max_value": mcts.max_value,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    game: str = "leduc_poker"
    simulations: tuple[int, ...] = (10, 100, 1000, 10_000)
    constants: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 13.0, 20.0, 26.0)
    seeds: int = 5  # as in the paper
    batch: int = 1024  # searches side by side


PRESETS = {
    "smoke": Config(game="kuhn_poker", simulations=(10, 50), constants=(1.0, 2.0), seeds=2),
    "cpu": Config(seeds=10),
    "paper": Config(seeds=50, batch=65_536),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Measure policies made of information-set Monte Carlo tree searches in Leduc.

    Writes exploitability by simulations, constant and read-out as curve.csv and curve.png, and
    result.json, into --out. Ctrl-C keeps what is finished there, from which --resume continues to
    exactly the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: Kuhn, seconds; cpu: half an hour; paper: more seeds, for an accelerator."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting."""

    simulations: int
    constant: float
    exploitability: dict[str, list[float]]  # by read-out, by seed


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="ismcts_leduc", command=command)
    source = enumerate_game(make(config.game))
    tree, public = build_decision_tree(source), build_sequence_form(source)
    settings = [(count, c) for count in config.simulations for c in config.constants]
    cells = []
    with progress("information-set MCTS", len(settings) * config.seeds) as report:
        for number, (count, constant) in enumerate(settings):
            search = InformationSetMcts(exploration=constant, simulations=count)
            cells += run.kept(
                f"{count}-{constant}",
                Cell,
                lambda search=search: [measure(tree, public, search, config)],
            )
            report((number + 1) * config.seeds, None, 0.0)
    results.write_csv(run.out / "curve.csv", [row for cell in cells for row in _rows(cell)])
    draw(run.out / "curve.png", config, cells)
    unit, _ = published.measured_in(config.game)
    run.finish(
        [number for cell in cells for number in _numbers(config, cell)],
        measure=f"exploitability (NashConv / 2) in {config.game}, in {unit}: mean of"
        f" {config.seeds} policies, each of independent searches at every information state; low"
        " and high are the least and the most exploitable",
    )
    _print(config, cells)


def measure(
    tree: DecisionTree, public: SequenceForm, search: InformationSetMcts, config: Config
) -> Cell:
    """Exploitability of what searches with these settings make, seed by seed."""

    @jax.jit
    def one(key):
        found = mcts.search_everywhere(tree, key, settings=search, batch=config.batch)
        policies = (read_out(tree, found) for read_out in READ_OUTS.values())
        return jnp.stack([evaluation.exploitability(public, policy) for policy in policies])

    keys = jax.random.split(jax.random.key(0), config.seeds)
    found = np.stack([one(key) for key in keys]).T.tolist()
    return Cell(
        simulations=search.simulations,
        constant=search.exploration,
        exploitability=dict(zip(READ_OUTS, found, strict=True)),
    )


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """Exploitability against simulations, a line per constant, a panel per read-out; the paper's
    numbers as points."""
    with plots.figure(path, rows=1, columns=len(READ_OUTS), size=(10.5, 3.4)) as axes:
        for column, read_out in enumerate(READ_OUTS):
            bands = [
                plots.Band(
                    name=f"C = {constant:g}",
                    x=config.simulations,
                    samples=[
                        cell.exploitability[read_out] for cell in cells if cell.constant == constant
                    ],
                )
                for constant in config.constants
            ]
            place = axes[0, column]
            plots.bands(place, bands, published={}, x_label="simulations")
            for number, constant in enumerate(config.constants):
                known = {
                    count: value
                    for count in config.simulations
                    if (value := _published(config.game, count, constant, read_out)) is not None
                }
                plots.points(place, known, number)
            if column < len(READ_OUTS) - 1:
                place.get_legend().remove()
            place.set_title(read_out.replace("_", " "))
        if published.information_set_mcts(config.game):
            axes[0, -1].plot([], [], label="published", **plots.HOLLOW)
            axes[0, -1].legend(**plots.BESIDE)
        axes[0, 0].set_ylabel("exploitability (NashConv / 2)")


def _published(game, simulations, constant, read_out) -> float | None:
    known = published.information_set_mcts(game)
    return known.get((simulations, constant), {}).get(read_out)


def _numbers(config: Config, cell: Cell) -> list[results.Number]:
    return [
        search_laboratory.number(
            f"sims={cell.simulations},C={cell.constant:g},{read_out}",
            config.game,
            found,
            paper=_published(config.game, cell.simulations, cell.constant, read_out),
        )
        for read_out, found in cell.exploitability.items()
    ]


def _rows(cell: Cell) -> list[dict[str, object]]:
    return [
        {
            "simulations": cell.simulations,
            "constant": cell.constant,
            "read_out": read_out,
            "seed": seed,
            "exploitability": f"{value:.6g}",
        }
        for read_out, found in cell.exploitability.items()
        for seed, value in enumerate(found)
    ]


def _print(config: Config, cells: Sequence[Cell]) -> None:
    unit, scale = published.measured_in(config.game)
    table = Table(title=f"ismcts_leduc: exploitability in {config.game}, {unit}")
    for name in ("simulations", "C", *READ_OUTS):
        table.add_column(name, justify="right")
    for cell in cells:
        means = (f"{scale * np.mean(found):.4g}" for found in cell.exploitability.values())
        table.add_row(f"{cell.simulations:,}", f"{cell.constant:g}", *means)
    Console().print(table)
