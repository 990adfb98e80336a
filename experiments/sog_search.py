"""How exploitable search is before anything is learned: growing-tree CFR with fixed leaf values.

Searches at every public state, composed into one policy and measured exactly, as in Fig. 3 of
Student of Games (Schmid et al. 2023), but with leaves worth nothing, or what fixed policies would
earn. Beside the sound agents stand the two that are not: a single chain in which whoever acts
re-solves against values of the other's search, and re-solving without a gadget.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from experiments import plots, published, results
from experiments.folders import CHECKPOINT, check_same_config, prepare
from experiments.progress import counter, progress, status
from jaxgames.game_tree import enumerate_game
from jaxgames.public_states import Listing, list_public_states
from jaxgames.public_table import public_table
from jaxgames.registry import make
from solvers import cfr
from solvers.public_tree import build_public_tree
from solvers.search import evaluators
from solvers.search.exploitability import Chain, agents, searched_exploitability
from solvers.search.gt_cfr import GrowingTreeCfr

_FILES = (results.RESULT_FILE, "curve.csv", "curve.png")


@dataclasses.dataclass(frozen=True)
class Agent:
    """One line of the figure."""

    chains: tuple[Chain, Chain]
    leaves: Literal["zero", "uniform", "equilibrium"]
    follow_share: float = 0.5
    averaging_power: float = 1.0


AGENTS = {
    "zero": Agent(agents(), "zero"),
    "zero, own decisions only": Agent(agents(own_decisions_only=True), "zero"),
    "uniform": Agent(agents(), "uniform"),
    "equilibrium": Agent(agents(), "equilibrium"),
    "equilibrium, alpha 1": Agent(agents(), "equilibrium", follow_share=1.0),
    "equilibrium, uniform averaging": Agent(agents(), "equilibrium", averaging_power=0.0),
    "zero, single chain (unsound)": Agent((Chain(None), Chain(None)), "zero"),
    "zero, no gadget (unsound)": Agent((Chain(None, safe=False),) * 2, "zero"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    game: str
    simulations: tuple[int, ...]
    seeds: int
    agents: tuple[str, ...] = tuple(AGENTS)
    batch: int = 16  # searches side by side
    max_path: int = 4  # public states from one of an agent's decisions to its next


PRESETS = {
    "smoke": Config(
        game="kuhn_poker",
        simulations=(4, 16),
        seeds=2,
        agents=("zero", "zero, own decisions only", "zero, no gadget (unsound)"),
    ),
    "cpu": Config(game="leduc_poker", simulations=(33, 100), seeds=4),
    "paper": Config(
        game="leduc_poker", simulations=(33, 100, 300, 1000, 4000), seeds=50, batch=1024
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Measure the exploitability of search with fixed leaf values, before anything is learned.

    Writes exploitability against simulations as curve.csv and curve.png, and result.json, into
    --out. Ctrl-C keeps what is finished there, from which --resume continues to exactly the same
    numbers.
    """

    out: pathlib.Path
    """Folder for the results; made if need be."""
    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: a minute; cpu: ten minutes on two cores; paper: more seeds, for an accelerator."""
    resume: bool = False
    """Continue what --out holds, if there is something."""
    overwrite: bool = False
    """Start again although --out holds an earlier run, which is deleted."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One agent with one number of simulations."""

    agent: str
    simulations: int
    exploitability: list[float]  # by seed


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    begin = time.perf_counter()
    config, out = PRESETS[arguments.preset], arguments.out
    prepare(out, files=_FILES, resume=arguments.resume, overwrite=arguments.overwrite)
    check_same_config(out / CHECKPOINT, config)
    cells = list(compute(config, out / CHECKPOINT))
    results.write_csv(out / "curve.csv", [row for cell in cells for row in _rows(cell)])
    draw(out / "curve.png", config, cells)
    result = results.make_result(
        experiment="sog_search",
        preset=arguments.preset,
        config=dataclasses.asdict(config) | {"measure": _measure(config)},
        command=command,
        wall_seconds=time.perf_counter() - begin,
        numbers=[_number(cell) for cell in cells],
    )
    results.write_result(out, result)
    shutil.rmtree(out / CHECKPOINT)
    _print(result, config, cells)


def compute(config: Config, folder: pathlib.Path) -> Iterator[Cell]:
    """All cells; those finished in `folder` are read from there."""
    with status(f"listing the public states of {config.game}"):
        laboratory = _Laboratory(config)
    for name in config.agents:
        for simulations in config.simulations:
            path = folder / (re.sub(r"\W+", "_", f"{name}-{simulations}") + ".json")
            if not path.exists():
                cell = laboratory.measure(name, simulations)
                results.write_file(path, json.dumps(dataclasses.asdict(cell)))
            yield Cell(**json.loads(path.read_text(encoding="utf-8")))


class _Laboratory:
    """The game, with all that agents are measured by."""

    def __init__(self, config: Config):
        self.config = config
        self.tree = enumerate_game(make(config.game))
        self.table = public_table(self.tree)
        self.listing = list_public_states(self.table)
        self.max_nodes = max(self.listing.num_inner, config.max_path + 1)

    def measure(self, name: str, simulations: int) -> Cell:
        agent, config = AGENTS[name], self.config
        evaluate, params = self._leaves(agent.leaves)
        settings = GrowingTreeCfr(
            evaluate,
            simulations=simulations,
            follow_share=agent.follow_share,
            averaging_power=agent.averaging_power,
            max_path=config.max_path,
            max_nodes=self.max_nodes,
        )
        total = config.seeds * _num_searches(self.listing, agent.chains)
        with progress(f"{name}, {simulations}", total) as report:
            found = searched_exploitability(
                self.table,
                self.listing,
                params,
                jax.random.split(jax.random.key(0), config.seeds),
                settings=settings,
                chains=agent.chains,
                batch=config.batch,
                report=counter(report),
            )
        return Cell(agent=name, simulations=simulations, exploitability=found.tolist())

    def _leaves(self, leaves: str) -> tuple[Any, Any]:
        """Evaluator and its parameters."""
        if leaves == "zero":
            return evaluators.zero, None
        public = build_public_tree(self.tree)
        iterations = 5000 if leaves == "equilibrium" else 0
        solved = cfr.run(public, cfr.init(public), solver=cfr.cfr_plus(), num_iterations=iterations)
        policy = cfr.average_policy(public, solved)
        return evaluators.continuation, evaluators.continuation_values(
            self.tree, self.table, policy
        )


def _num_searches(listing: Listing, chains: Sequence[Chain]) -> int:
    actor = np.asarray(listing.actor)
    return sum(
        int((actor == chain.player).sum() if chain.own_decisions_only else (actor >= 0).sum())
        for chain in dict.fromkeys(chains)
    )


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """Exploitability against simulations: means over seeds in their range, published points."""
    names = list(dict.fromkeys(cell.agent for cell in cells))
    with plots.figure(path, rows=1, columns=1, size=(6.4, 3.8)) as axes:
        bands = [
            plots.Band(
                name=name,
                x=[cell.simulations for cell in cells if cell.agent == name],
                samples=[cell.exploitability for cell in cells if cell.agent == name],
            )
            for name in names
        ]
        plots.bands(
            axes[0, 0],
            bands,
            published=published.searched_exploitability(config.game),
            x_label="simulations",
        )
        axes[0, 0].set_ylabel("exploitability (NashConv / 2)")
        axes[0, 0].set_title(f"Search with fixed leaf values, {config.game}")


def _rows(cell: Cell) -> list[dict[str, object]]:
    return [
        {
            "agent": cell.agent,
            "simulations": cell.simulations,
            "seed": seed,
            "exploitability": f"{value:.6g}",
        }
        for seed, value in enumerate(cell.exploitability)
    ]


def _measure(config: Config) -> str:
    return (
        f"exploitability (NashConv / 2) in {config.game}, in mbb/h: mean of {config.seeds} seeds;"
        " low and high are the least and the most exploitable"
    )


def _number(cell: Cell) -> results.Number:
    values = 1000 * np.asarray(cell.exploitability)
    return results.Number(
        name=f"SoG({cell.simulations},1):{cell.agent}",
        value=float(values.mean()),
        unit="mbb/h",
        low=float(values.min()),
        high=float(values.max()),
        seeds=len(values),
    )


def _print(result: results.Result, config: Config, cells: Sequence[Cell]) -> None:
    table = Table(title=f"{result.experiment}: {result.config['measure']}")
    table.add_column("leaves")
    for simulations in config.simulations:
        table.add_column(f"{simulations}", justify="right")
    for name in config.agents:
        here = [cell for cell in cells if cell.agent == name]
        table.add_row(name, *(f"{1000 * np.mean(cell.exploitability):.0f}" for cell in here))
    Console().print(table)
