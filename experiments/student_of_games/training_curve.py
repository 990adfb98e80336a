"""Training a Student of Games agent, and its exact exploitability as training goes on.

This is what `sog_leduc` and `sog_glasses` share (Schmid et al. 2023, Fig. 3). The agent searches at
every public state, or wherever it is to act, with several numbers of simulations. The paper gives
neither the networks nor the settings for these games; ours are in the experiments' presets.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

from flax import nnx
from jaxtyping import PyTree
from rich.table import Table

from experiments.harness import plots, published, results, seed_statistics
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run, RunArguments
from experiments.student_of_games.measured_search import SearchLaboratory
from experiments.student_of_games.training_run import (
    LOG,
    READINGS,
    lost_queries,
    shared_sizes,
    student,
)
from nets import cvpn, parameters
from solvers.search.agent_exploitability import agents
from solvers.search.search_state import GrowingTreeCfr
from train.agent import training_settings

_LONGEST_TITLE = 50  # letters that fit over a plot


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The training and its measurements.

    A step of training plays `episodes` moves of self-play and solves `solves` queries.
    """

    game: str
    simulations: tuple[int, ...]  # of the searches that are measured
    seeds: int  # of the measurements
    measured_at: tuple[int, ...]  # steps of training, which ends at the last
    training_simulations: int = 100
    width: int = 128
    depth: int = 3
    episodes: int = 16
    solves: int = 16
    updates: int = 4
    queries_per_search: float = 0.9
    queries_per_solve: float = 0.3
    learning_rate: float = 3e-3
    decay: float = 0.02  # of the learning rate, from the first update to the last
    batch_size: int = 256
    capacity: int = 100_000  # of the replay buffer
    exploration: float = 1.0  # of PUCT
    smoothing: float = 0.0  # share of uniform in the ranges that the network sees, when measured
    own_decisions_only: bool = False  # when measured; else it searches at the opponent's, too
    variants: tuple[str, ...] = ()  # other searches that the trained network is measured with, too
    batch: int = 16  # searches side by side when measured
    max_path: int = 2  # the most public states from one decision to the next
    seed: int = 0  # of the network and of training


_PAPER = ""  # the variant that searches as the paper says
# What differs from the config in searches that are not the paper's.
VARIANTS = {
    "half-uniform ranges": dict(smoothing=0.5),
    "half-uniform ranges, exploration 3, own decisions only": dict(
        smoothing=0.5, exploration=3.0, own_decisions_only=True
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """An agent after some training."""

    step: int
    simulations: int
    variant: str  # of the search; empty: the paper's
    exploitability: list[float]  # by seed


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The trained network, and how exploitable agents with it are."""

    cells: list[Cell]
    params: PyTree


def training_experiment(name: str, **fields: Any) -> Experiment:
    """The experiment that trains an agent in a game and measures it.

    Args:
      name: of the experiment.
      fields: those fields of the record in which such experiments differ, above all the presets.
    """
    return Experiment(
        name=name,
        shown="exploitability against training steps",
        options=Options,
        configure=lambda config, options: dataclasses.replace(config, seed=options.seed),
        batches=lambda config: shared_sizes(config) | {"batch": config.batch},
        compute=compute,
        rows=rows,
        draw=draw,
        numbers=numbers,
        tables=functools.partial(tables, name),
        error_bars=results.LEAST_AND_MOST,
        measure=measure,
        deviations=deviations,
        more_files=("network.npz", LOG),
        write_more=write_network,
        **fields,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    seed: int = 0
    """Seed of the initial network and of training; measurements have seeds of their own."""


def compute(run: Run) -> Outcome:
    """Trains and measures."""
    config, student = run.config, _Student(run)
    cells = [cell for step in config.measured_at for cell in student.measure_at(step)]
    for variant in config.variants:
        cells += student.measure_at(config.measured_at[-1], variant)
    return Outcome(cells, student.trainee.params)


def write_network(run: Run, outcome: Outcome) -> None:
    """Writes the trained network."""
    results.write_file(run.out / "network.npz", parameters.to_bytes(outcome.params))


class _Student:
    """An agent in training, whose exploitability is measured on the way."""

    def __init__(self, run: Run):
        self.run, self.config = run, run.config
        config = self.config
        self.laboratory = SearchLaboratory(config.game, batch=config.batch, mesh=run.mesh)
        table = self.laboratory.table
        network = cvpn.new_cvpn(table, seed=config.seed, width=config.width, depth=config.depth)
        self.evaluate = cvpn.CvpnEvaluator(nnx.graphdef(network))
        settings = training_settings(
            config,
            self._search(config.training_simulations),
            steps=config.measured_at[-1],
            queries_per_search=config.queries_per_search,
            queries_per_solve=config.queries_per_solve,
        )
        self.trainee = student(table, network, settings, run, seed=config.seed)

    def measure_at(self, step: int, variant: str = _PAPER) -> list[Cell]:
        """Trains up to `step` and measures, piece by piece, unless an interrupted run has done so.

        Args:
          step: of training.
          variant: of the search.
        """
        if step == self.config.measured_at[-1]:
            self.trainee.train(step)
        return [self._cell(step, simulations, variant) for simulations in self.config.simulations]

    def _cell(self, step, simulations, variant):
        """All seeds; an interruption loses one piece of them."""
        how = dataclasses.replace(self.config, **VARIANTS.get(variant, {}))
        chains = agents(own_decisions_only=how.own_decisions_only)

        def measure(which: range) -> Iterator[Cell]:
            self.trainee.train(step)
            samples = self.laboratory.exploitability(
                f"step {step}, {_agent(simulations, variant)}, {_seeds(which)}",
                self.trainee.params,
                dataclasses.replace(
                    self._search(simulations),
                    evaluate=dataclasses.replace(self.evaluate, smoothing=how.smoothing),
                    exploration=how.exploration,
                ),
                seeds=how.seeds,
                which=which,
                key=1,
                chains=chains,
            )
            yield Cell(step=step, simulations=simulations, variant=variant, exploitability=samples)

        parts = []
        for which in self.laboratory.pieces(how.seeds, chains):
            name = f"{step}-{simulations}-{variant}-{_seeds(which)}"
            parts += self.run.kept(name, Cell, functools.partial(measure, which))
        samples = [sample for part in parts for sample in part.exploitability]
        return dataclasses.replace(parts[0], exploitability=samples)

    def _search(self, simulations):
        return GrowingTreeCfr(
            self.evaluate,
            simulations=simulations,
            exploration=self.config.exploration,
            max_path=self.config.max_path,
            max_nodes=self.laboratory.listing.num_inner,
        )


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Exploitability against training steps, a line per number of simulations, as in Fig. 3."""
    cells = [cell for cell in outcome.cells if cell.variant == _PAPER]
    known = published.searched_exploitability(config.game)
    unit, scale = published.measured_in(config.game)
    with plots.figure(path, rows=1, columns=1, size=(5.6, 3.6)) as axes:
        lines = [
            plots.Band(
                name=f"SoG({simulations},1)",
                x=[cell.step for cell in cells if cell.simulations == simulations],
                samples=[
                    [scale * value for value in cell.exploitability]
                    for cell in cells
                    if cell.simulations == simulations
                ],
            )
            for simulations in config.simulations
        ]
        plots.bands(axes[0, 0], lines, published={}, x_label="training steps", log_x=False)
        trained = next(iter(known.values()), {})
        for simulations in config.simulations:
            if simulations in trained:
                name = f"SoG({simulations},1) of the paper, trained"
                plots.level(axes[0, 0], scale * trained[simulations], name)
        axes[0, 0].set_ylabel(f"exploitability ({unit})")
        title, size = f"Student of Games, {config.game}", None
        if len(title) > _LONGEST_TITLE:
            title, size = f"Student of Games,\n{config.game}", "small"
        axes[0, 0].set_title(title, fontsize=size)


def _agent(simulations: int, variant: str) -> str:
    return f"ours: SoG({simulations},1), {variant}" if variant else f"SoG({simulations},1)"


def _seeds(which: range) -> str:
    return f"seeds {which[0]} to {which[-1]}" if len(which) > 1 else f"seed {which[0]}"


def measure(config: Config) -> str:
    """What the numbers are."""
    where = "; the agent searches at every public state, unless a number says otherwise"
    return seed_statistics.measure(config.game, config.seeds) + where


def deviations(config: Config) -> list[str]:
    """What is not as in the paper, or not said there."""
    said = [
        f"{config.measured_at[-1]:,} steps of training of our own scale: the paper gives neither"
        " the network of this game nor the settings of its training",
        f"{config.queries_per_search:g} queries per search and {config.queries_per_solve:g} per"
        " solved query (the paper: 0.9 and 0.1 in poker, 0.3 and 0.1 in Scotland Yard)",
        "an example serves at most 20 gradient updates (the paper: 10 in poker, 5 in Scotland"
        " Yard)",
        f"PUCT's constant is not published; here it is {config.exploration:g}, beside values in"
        " payoffs of the game",
        READINGS,
        *lost_queries(config, config.queries_per_search, config.queries_per_solve),
    ]
    if published.searched_exploitability(config.game):
        said.append("published numbers are read off Figure 3, to about 4 %")
    else:
        said.append(f"the paper does not play {config.game}: no published numbers stand beside")
    ours = (
        "numbers that begin with `ours:` are of the same network with searches that are not the"
        " paper's, chosen with results in sight: the network sees ranges of which half is uniform,"
        " PUCT's constant is 3, the agent searches at its own decisions only"
    )
    return said + [ours] * bool(config.variants)


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every seed of every cell."""
    for cell in outcome.cells:
        columns = {
            "step": cell.step,
            "simulations": cell.simulations,
            "variant": cell.variant or "the paper's",
        }
        yield from seed_statistics.rows(columns, cell.exploitability)


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """Exploitability before and after training."""
    ends = [cell for cell in outcome.cells if cell.step in (0, config.measured_at[-1])]
    for cell in ends:
        kinds = list(published.searched_exploitability(config.game).values())
        known = kinds[0 if cell.step else 1] if kinds else {}
        agent = _agent(cell.simulations, cell.variant)
        yield seed_statistics.number(
            f"{'' if cell.step else 'untrained '}{agent}",
            config.game,
            cell.exploitability,
            paper=known.get(cell.simulations),
        )


def tables(name: str, config: Config, outcome: Outcome) -> Iterator[Table]:
    """Exploitability by training steps and simulations."""
    lines: dict[tuple[int, str], list[str]] = {}
    for cell in outcome.cells:
        text = seed_statistics.text(config.game, cell.exploitability)
        lines.setdefault((cell.step, cell.variant), []).append(text)
    texts = [
        (f"{step:,}{f', ours: {variant}' if variant else ''}", *means)
        for (step, variant), means in lines.items()
    ]
    headings = ("step", *(f"SoG({simulations},1)" for simulations in config.simulations))
    yield text_table(f"{name}: {measure(config)}", headings, texts, labels=0)
