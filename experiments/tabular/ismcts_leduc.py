"""Information-set MCTS in Leduc (Table S5 of Student of Games; Schmid et al. 2023).

A search is run at every information state by itself, for several numbers of simulations and
constants of UCB. The policy that the searches make together is read out in three ways, and its
exploitability is computed exactly.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from experiments.harness import plots, published, results, seed_statistics
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
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
    """The game, the settings of the searches, and how often each is repeated."""

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
class Cell:
    """The searches with one number of simulations and one constant."""

    simulations: int
    constant: float
    exploitability: dict[str, list[float]]  # by read-out, by seed


def compute(run: Run) -> list[Cell]:
    """All settings, each with all seeds."""
    config, cells = run.config, []
    source = enumerate_game(make(config.game))
    tree, public = build_decision_tree(source), build_sequence_form(source)
    settings = list(itertools.product(config.simulations, config.constants))
    with progress("information-set MCTS", len(settings) * config.seeds) as report:
        count = counter(report)
        for simulations, constant in settings:
            search = InformationSetMcts(exploration=constant, simulations=simulations)
            cells += run.kept(
                f"{simulations}-{constant}",
                Cell,
                lambda search=search: [measure_search(tree, public, search, config)],
            )
            count(config.seeds)
    return cells


def measure_search(
    tree: DecisionTree, public: SequenceForm, search: InformationSetMcts, config: Config
) -> Cell:
    """Exploitability of the policies that searches with these settings make, by seed."""

    @jax.jit
    def exploitability(key):
        searches = mcts.search_everywhere(tree, key, settings=search, batch=config.batch)
        policies = (read_out(tree, searches) for read_out in READ_OUTS.values())
        return jnp.stack([evaluation.exploitability(public, policy) for policy in policies])

    keys = jax.random.split(jax.random.key(0), config.seeds)
    values = np.stack([exploitability(key) for key in keys]).T.tolist()
    return Cell(
        simulations=search.simulations,
        constant=search.exploration,
        exploitability=dict(zip(READ_OUTS, values, strict=True)),
    )


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """Exploitability against simulations, a panel per read-out and a line per constant, with the
    paper's numbers as points."""
    unit, scale = published.measured_in(config.game)
    with plots.figure(path, rows=1, columns=len(READ_OUTS), size=(10.5, 3.4)) as axes:
        for column, read_out in enumerate(READ_OUTS):
            bands = [
                plots.Band(
                    name=f"C = {constant:g}",
                    x=config.simulations,
                    samples=[
                        [scale * value for value in cell.exploitability[read_out]]
                        for cell in cells
                        if cell.constant == constant
                    ],
                )
                for constant in config.constants
            ]
            panel = axes[0, column]
            plots.bands(panel, bands, published={}, x_label="simulations")
            for number, constant in enumerate(config.constants):
                known = {
                    count: scale * value
                    for count in config.simulations
                    if (value := _published(config.game, count, constant, read_out)) is not None
                }
                plots.points(panel, known, number)
            panel.set_title(read_out.replace("_", " "))
        if published.information_set_mcts(config.game):
            axes[0, -1].plot([], [], markeredgecolor="black", label="published", **plots.HOLLOW)
        axes[0, 0].set_ylabel(f"exploitability ({unit})")


def _published(game, simulations, constant, read_out) -> float | None:
    known = published.information_set_mcts(game)
    return known.get((simulations, constant), {}).get(read_out)


def rows(config: Config, cells: Sequence[Cell]) -> Iterator[dict[str, object]]:
    """A row for every seed of every read-out."""
    for cell in cells:
        for read_out, values in cell.exploitability.items():
            columns = {
                "simulations": cell.simulations,
                "constant": cell.constant,
                "read_out": read_out,
            }
            yield from seed_statistics.rows(columns, values)


def numbers(config: Config, cells: Sequence[Cell]) -> Iterator[results.Number]:
    """Exploitability by setting and read-out, beside the paper's."""
    for cell in cells:
        for read_out, values in cell.exploitability.items():
            yield seed_statistics.number(
                f"sims={cell.simulations},C={cell.constant:g},{read_out}",
                config.game,
                values,
                paper=_published(config.game, cell.simulations, cell.constant, read_out),
            )


def measure(config: Config) -> str:
    """What the numbers are."""
    unit, _ = published.measured_in(config.game)
    return (
        f"exploitability (NashConv / 2) in {config.game}, in {unit}: mean of {config.seeds}"
        " policies, each of independent searches at every information state"
    )


def tables(config: Config, cells: Sequence[Cell]) -> Iterator[Table]:
    """Mean exploitability by setting and read-out."""
    unit, scale = published.measured_in(config.game)
    texts = []
    for cell in cells:
        means = (f"{scale * np.mean(values):.4g}" for values in cell.exploitability.values())
        texts.append((f"{cell.simulations:,}", f"{cell.constant:g}", *means))
    title = f"ismcts_leduc: exploitability in {config.game}, {unit}"
    yield text_table(title, ("simulations", "C", *READ_OUTS), texts, labels=0)


COMMAND = Experiment(
    name="ismcts_leduc",
    shown="exploitability by simulations, constant and read-out",
    presets=PRESETS,
    preset_docs={
        "smoke": "Kuhn poker, seconds",
        "cpu": "half an hour",
        "paper": "more seeds, for an accelerator",
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars="the least and the most of all policies",
    measure=measure,
    deviations=lambda config: [f"{config.seeds} policies for every setting (the paper: 5)"],
)
