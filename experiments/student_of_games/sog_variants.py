"""What a trained Student of Games agent gains from searching in other ways than the paper does.

The network stays as it was trained. What varies is where the agent searches, the regret minimiser,
the averaging, the gadget's share of the opponent's range, how fast the tree grows and how often its
leaves are valued. The first variant is the settings that the agent was measured with when it was
trained.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from rich.table import Table

from experiments.harness import plots, published, results, seed_statistics
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run, RunArguments, agent_checksum
from experiments.student_of_games.measured_search import SearchLaboratory
from solvers.regret import DiscountedRegretMatching, PredictiveRegretMatchingPlus
from solvers.search import continual_resolving, growing_tree_cfr
from solvers.search.agent_exploitability import agents
from solvers.search.search_state import GrowingTreeCfr
from train.agent import TrainedAgent, load_agent

_TRAINED = pathlib.Path(__file__).parents[1] / "results/sog_leduc/cpu"


@dataclasses.dataclass(frozen=True)
class Variant:
    """What differs from how the agent was measured when it was trained."""

    settings: dict[str, Any] = dataclasses.field(default_factory=dict)  # of GrowingTreeCfr
    own_decisions_only: bool | None = None  # False: also at the opponent's; None: as when measured
    smoothing: float | None = None  # share of uniform in the ranges that the network sees


_PREDICTIVE = dict(minimizer=PredictiveRegretMatchingPlus(), averaging_power=2.0)
VARIANTS = {
    "as the paper": Variant(),
    "own decisions only": Variant(own_decisions_only=True),
    "the other's decisions too": Variant(own_decisions_only=False),
    "alpha 1": Variant(dict(follow_share=1.0)),
    "quadratic averages": Variant(dict(averaging_power=2.0)),
    "alpha 1, quadratic averages": Variant(dict(follow_share=1.0, averaging_power=2.0)),
    "DCFR": Variant(dict(minimizer=DiscountedRegretMatching(), averaging_power=2.0)),
    "PCFR+": Variant(_PREDICTIVE),
    "PCFR+, alpha 1": Variant(dict(**_PREDICTIVE, follow_share=1.0)),
    "PUCT alone": Variant(dict(cfr_share=0.0)),
    "ranges a quarter uniform": Variant(smoothing=0.25),
    "two iterations a simulation": Variant(dict(pace=0.5)),
    "two simulations an iteration": Variant(dict(pace=2.0)),
}
# What asks the network less often; the preset `calls` compares these.
FEWER_CALLS = {
    "as the paper": Variant(),
    "ten simulations an iteration": Variant(dict(pace=10.0)),
    "leaves valued again beyond 0.05": Variant(dict(belief_tolerance=0.05)),
    "leaves valued again beyond 0.2": Variant(dict(belief_tolerance=0.2)),
}
_ALL = VARIANTS | FEWER_CALLS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The variants, and how they are measured."""

    simulations: tuple[int, ...]
    seeds: int
    variants: tuple[str, ...] = tuple(VARIANTS)
    batch: int = 64  # searches side by side
    agent: str = ""  # folder of the agent; empty: that of the repository
    content: str = ""  # the checksum of its files


PRESETS = {
    "smoke": Config(
        simulations=(4,),
        seeds=1,
        variants=(
            "as the paper",
            "own decisions only",
            "the other's decisions too",
            "PCFR+",
            "leaves valued again beyond 0.2",
        ),
        batch=16,
    ),
    "cpu": Config(simulations=(33, 100, 300), seeds=4),
    "calls": Config(simulations=(33, 100, 300), seeds=4, variants=tuple(FEWER_CALLS)),
    "paper": Config(
        simulations=(33, 100, 300, 1000, 4000), seeds=50, batch=1024, variants=tuple(_ALL)
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    agent: pathlib.Path = _TRAINED
    """Folder of a trained agent, as sog_leduc leaves it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """A variant with one number of simulations."""

    variant: str
    simulations: int
    exploitability: list[float]  # by seed
    calls: float  # of the network, in a search at the root of the game, on average


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What was measured of the agent of a game."""

    game: str
    cells: list[Cell]


def configure(config: Config, options: Options) -> Config:
    """The preset without the variant that is how the agent was measured anyway.

    Raises:
      ValueError: the folder holds no agent.
    """
    agent = load_agent(options.agent)
    variants = [
        name
        for name in config.variants
        if _ALL[name].own_decisions_only is not agent.own_decisions_only
    ]
    return dataclasses.replace(
        config,
        variants=tuple(variants),
        agent="" if options.agent == _TRAINED else str(options.agent),
        content=agent_checksum(options.agent),
    )


def compute(run: Run) -> Outcome:
    """All cells, variant by variant."""
    config, agent = run.config, load_agent(run.arguments.agent)
    laboratory, cells = SearchLaboratory(agent.table, batch=config.batch, mesh=run.mesh), []
    for name, simulations in itertools.product(config.variants, config.simulations):
        compute_cell = functools.partial(
            measure_variant, laboratory, agent, name, simulations, config
        )
        cells += run.kept(f"{name}-{simulations}", Cell, compute_cell)
    return Outcome(agent.table.name, cells)


def measure_variant(
    laboratory: SearchLaboratory, agent: TrainedAgent, name: str, simulations: int, config: Config
) -> Iterator[Cell]:
    """The exploitability of a variant, and how often it calls the network."""
    variant = _ALL[name]
    settings = dataclasses.replace(agent.settings, simulations=simulations, **variant.settings)
    if variant.smoothing is not None:
        evaluate = dataclasses.replace(settings.evaluate, smoothing=variant.smoothing)
        settings = dataclasses.replace(settings, evaluate=evaluate)
    own = variant.own_decisions_only
    chains = agents(own_decisions_only=agent.own_decisions_only if own is None else own)
    samples = laboratory.exploitability(
        f"{name}, {simulations}",
        agent.params,
        settings,
        seeds=config.seeds,
        chains=chains,
    )
    calls = _calls(agent, settings, config.batch)
    yield Cell(variant=name, simulations=simulations, exploitability=samples, calls=calls)
    jax.clear_caches()  # no other cell runs these programs, and a process can hold only so many


def _calls(agent: TrainedAgent, settings: GrowingTreeCfr, count: int) -> float:
    """How often a search at the root calls the network: mean of `count` searches.

    It is called for each leaf in every iteration, where leaves do not keep their values, and for
    the prior of each new node: one for every simulation, and the first.
    """
    settings = dataclasses.replace(settings, logged_queries=1)
    problem = continual_resolving.first_problem(agent.table, max_path=settings.max_path)

    @jax.jit
    @jax.vmap
    def calls_of_leaves(key):
        return growing_tree_cfr.search(
            agent.table, agent.params, key, problem=problem, settings=settings
        ).log.calls

    calls = calls_of_leaves(jax.random.split(jax.random.key(1), count))
    made = settings.simulations - settings.simulations % settings.expansions_per_phase
    return 1 + made + float(np.mean(calls))


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Exploitability against calls of the network, a line per variant."""
    game, cells = outcome.game, outcome.cells
    unit, scale = published.measured_in(game)
    with plots.figure(path, rows=1, columns=1, size=(5.6, 3.8)) as axes:
        bands = [
            plots.Band(
                name=name,
                x=[cell.calls for cell in cells if cell.variant == name],
                samples=[
                    [scale * value for value in cell.exploitability]
                    for cell in cells
                    if cell.variant == name
                ],
            )
            for name in config.variants
        ]
        plots.bands(axes[0, 0], bands, published={}, x_label="calls of the network, at the root")
        axes[0, 0].set_ylabel(f"exploitability ({unit})")
        axes[0, 0].set_title(f"One trained network, other searches, {game.partition('(')[0]}")


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every seed of every cell."""
    for cell in outcome.cells:
        columns = {
            "variant": cell.variant,
            "simulations": cell.simulations,
            "calls": f"{cell.calls:.0f}",
        }
        yield from seed_statistics.rows(columns, cell.exploitability)


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """The exploitability of every variant, and how often it calls the network."""
    for cell in outcome.cells:
        name = f"SoG({cell.simulations}):{cell.variant}"
        yield seed_statistics.number(name, outcome.game, cell.exploitability)
        yield results.Number(name=f"calls, {name}", value=cell.calls, unit="calls")


def measure(config: Config) -> str:
    """What the numbers are."""
    return (
        f"exploitability (NashConv / 2) in the agent's game: mean of {config.seeds} seeds of"
        " search; and calls of the network in"
        " a search at the root of the game"
    )


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """Mean exploitability by variant and simulations."""
    lines: dict[str, list[str]] = {name: [name] for name in config.variants}
    for cell in outcome.cells:
        text = seed_statistics.text(outcome.game, cell.exploitability)
        lines[cell.variant].append(text)
    title = f"sog_variants: {seed_statistics.measure(outcome.game, config.seeds)}"
    yield text_table(title, ("search", *map(str, config.simulations)), lines.values())


COMMAND = Experiment(
    name="sog_variants",
    shown="exploitability against simulations",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "twenty minutes on one core",
        "calls": "what asks the network less often: ten minutes",
        "paper": "more seeds, for an accelerator",
    },
    options=Options,
    configure=configure,
    batches=lambda config: {"batch": config.batch},
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=results.LEAST_AND_MOST,
    measure=measure,
    deviations=(
        "only `as the paper` and `own decisions only` are readings of the paper; the other searches"
        " are ours, and some were chosen with results in sight",
        "one network, trained with the paper's search: no variant was trained with its own",
    ),
    extras={"game": lambda config, outcome: outcome.game},
)
