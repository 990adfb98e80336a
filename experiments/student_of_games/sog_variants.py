"""What a trained Student of Games agent gains from searching in other ways than the paper does.

The network stays as it was trained; where the agent searches, regret minimisers, averages, the
gadget's share of the opponent's range and the pace of growing change. Nothing here replaces the
settings that the agent was measured with, which are the first line.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.runs import Run, RunArguments
from experiments.student_of_games import search_laboratory
from experiments.student_of_games.search_laboratory import Laboratory
from solvers.regret import DiscountedRegretMatching, PredictiveRegretMatchingPlus
from solvers.search import continual_resolving, growing_tree_cfr
from solvers.search.agent_exploitability import agents
from solvers.search.growing_tree_cfr import GrowingTreeCfr
from train.agent import TrainedAgent, load_agent

_TRAINED = pathlib.Path(__file__).parents[1] / "results/sog_leduc/cpu"


@dataclasses.dataclass(frozen=True)
class Variant:
    """What is different from how the agent was measured when it was trained."""

    settings: dict[str, Any] = dataclasses.field(default_factory=dict)  # of GrowingTreeCfr
    own_decisions_only: bool | None = None  # False: at the other's too; None: as when measured
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    simulations: tuple[int, ...]
    seeds: int
    variants: tuple[str, ...] = tuple(VARIANTS)
    batch: int = 64  # searches side by side


PRESETS = {
    "smoke": Config(
        simulations=(4,),
        seeds=1,
        variants=("as the paper", "own decisions only", "the other's decisions too", "PCFR+"),
        batch=16,
    ),
    "cpu": Config(simulations=(33, 100, 300), seeds=4),
    "paper": Config(simulations=(33, 100, 300, 1000, 4000), seeds=50, batch=1024),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Measure a trained agent of Student of Games with other settings of its search.

    Writes exploitability against simulations as curve.csv and curve.png, and result.json, into
    --out. Ctrl-C keeps what is finished there, from which --resume continues to exactly the same
    numbers.
    """

    agent: pathlib.Path = _TRAINED
    """Folder of a trained agent, as sog_leduc leaves it."""
    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: a minute; cpu: half an hour on two cores; paper: more seeds, for an accelerator."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One variant with one number of simulations."""

    variant: str
    simulations: int
    exploitability: list[float]  # by seed
    calls: float  # of the network, in a search at the root of the game


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run, or `agent` no agent.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    agent, config = load_agent(arguments.agent), PRESETS[arguments.preset]
    others = [
        name
        for name in config.variants
        if VARIANTS[name].own_decisions_only is not agent.own_decisions_only
    ]
    config = dataclasses.replace(config, variants=tuple(others))
    run = Run(arguments, config, experiment="sog_variants", command=command)
    bench, game = Laboratory(agent.table, batch=config.batch), agent.table.name
    cells = []
    for name, simulations in itertools.product(config.variants, config.simulations):

        def measured(name=name, simulations=simulations):
            yield measure(bench, agent, name, simulations, config)
            jax.clear_caches()  # no other cell runs these programs, and a process can hold so many

        cells += run.kept(f"{name}-{simulations}", Cell, measured)
    results.write_csv(run.out / "curve.csv", [row for cell in cells for row in _rows(cell)])
    draw(run.out / "curve.png", game, config, cells)
    numbers = [number for cell in cells for number in _numbers(game, cell)]
    exploitability = search_laboratory.measure(game, config.seeds)
    what = f"{exploitability}; and calls of the network in a search at the root of the game"
    run.finish(numbers, measure=what, game=game)
    _print(game, config, cells)


def measure(
    bench: Laboratory, agent: TrainedAgent, name: str, simulations: int, config: Config
) -> Cell:
    """Exploitability of one variant, and what it asks of the network."""
    variant = VARIANTS[name]
    settings = dataclasses.replace(agent.settings, simulations=simulations, **variant.settings)
    if variant.smoothing is not None:
        evaluate = dataclasses.replace(settings.evaluate, smoothing=variant.smoothing)
        settings = dataclasses.replace(settings, evaluate=evaluate)
    own = variant.own_decisions_only
    chains = agents(own_decisions_only=agent.own_decisions_only if own is None else own)
    found = bench.exploitability(
        f"{name}, {simulations}",
        agent.params,
        settings,
        seeds=config.seeds,
        chains=chains,
    )
    calls = _calls(agent, settings, config.batch)
    return Cell(variant=name, simulations=simulations, exploitability=found, calls=calls)


def _calls(agent: TrainedAgent, settings: GrowingTreeCfr, count: int) -> float:
    """How often a search at the root asks the network: mean of `count` searches.

    Once for each leaf in every iteration, and once for every simulation's prior.
    """
    problem = continual_resolving.first_problem(agent.table, max_path=settings.max_path)
    game, params = agent.table, agent.params

    @jax.jit
    @jax.vmap
    def calls(key):
        def phase(i, carry):
            state, total = carry
            for _ in range(settings.iterations_per_phase):
                total += state.tree.leaves.count
                state = growing_tree_cfr.iterate(game, params, state, settings=settings)
            for j in range(settings.expansions_per_phase):
                noise = jax.random.fold_in(key, i * settings.expansions_per_phase + j)
                state = growing_tree_cfr.simulate(game, params, noise, state, settings=settings)
            return state, total + settings.expansions_per_phase

        start = growing_tree_cfr.start(game, params, problem=problem, settings=settings)
        phases = settings.simulations // settings.expansions_per_phase
        return jax.lax.fori_loop(0, phases, phase, (start, jnp.int32(1)))[1]

    return float(np.mean(calls(jax.random.split(jax.random.key(1), count))))


def draw(path: pathlib.Path, game: str, config: Config, cells: Sequence[Cell]) -> None:
    """Exploitability against what is asked of the network, a line per variant."""
    with plots.figure(path, rows=1, columns=1, size=(7.2, 4.2)) as axes:
        bands = [
            plots.Band(
                name=name,
                x=[cell.calls for cell in cells if cell.variant == name],
                samples=[cell.exploitability for cell in cells if cell.variant == name],
            )
            for name in config.variants
        ]
        plots.bands(axes[0, 0], bands, published={}, x_label="calls of the network, at the root")
        axes[0, 0].set_ylabel("exploitability (NashConv / 2)")
        axes[0, 0].set_title(f"One trained network, other searches, {game.partition('(')[0]}")


def _numbers(game: str, cell: Cell) -> list[results.Number]:
    """How exploitable a variant is, and what it asks of the network."""
    found = search_laboratory.number(
        f"SoG({cell.simulations}):{cell.variant}", game, cell.exploitability
    )
    calls = results.Number(
        name=f"calls, SoG({cell.simulations}):{cell.variant}", value=cell.calls, unit="calls"
    )
    return [found, calls]


def _rows(cell: Cell) -> list[dict[str, object]]:
    return [
        {
            "variant": cell.variant,
            "simulations": cell.simulations,
            "calls": f"{cell.calls:.0f}",
            "seed": seed,
            "exploitability": f"{value:.6g}",
        }
        for seed, value in enumerate(cell.exploitability)
    ]


def _print(game: str, config: Config, cells: Sequence[Cell]) -> None:
    table = Table(title=f"sog_variants: {search_laboratory.measure(game, config.seeds)}")
    table.add_column("search")
    for simulations in config.simulations:
        table.add_column(f"{simulations}", justify="right")
    for name in config.variants:
        here = [cell for cell in cells if cell.variant == name]
        table.add_row(name, *(search_laboratory.text(game, cell.exploitability) for cell in here))
    Console().print(table)
