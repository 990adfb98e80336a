"""How exploitable search is before anything is learned: growing-tree CFR with fixed leaf values.

Searches at every public state, composed into one policy and measured exactly, as in Fig. 3 of
Student of Games (Schmid et al. 2023), but with leaves worth nothing, or what fixed policies would
earn. Beside the sound agents stand the two that are not: a single chain in which whoever acts
re-solves against values of the other's search, and re-solving without a gadget.
"""

from __future__ import annotations

import dataclasses
import functools
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
from jaxgames.public_states import Listing, list_public_states
from jaxgames.tabulate import belief_table
from solvers.search import evaluators
from solvers.search.exploitability import Chain, agents, searched_exploitability
from solvers.search.gt_cfr import GrowingTreeCfr
from solvers.search.whole import equilibrium

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
    "zero, alpha 1": Agent(agents(), "zero", follow_share=1.0),
    "zero, own decisions only": Agent(agents(own_decisions_only=True), "zero"),
    "uniform": Agent(agents(), "uniform"),
    "equilibrium": Agent(agents(), "equilibrium"),
    "equilibrium, alpha 1": Agent(agents(), "equilibrium", follow_share=1.0),
    "equilibrium, uniform averaging": Agent(agents(), "equilibrium", averaging_power=0.0),
    "zero, single chain (unsound)": Agent((Chain(None), Chain(None)), "zero"),
    "zero, no gadget (unsound)": Agent((Chain(None, safe=False),) * 2, "zero"),
}
_IN_LEDUC = tuple(name for name in AGENTS if name != "zero, alpha 1")
_IN_GLASSES = (
    "zero, alpha 1",
    "equilibrium",
    "equilibrium, alpha 1",
    "zero, no gadget (unsound)",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """What is measured in one game."""

    game: str
    agents: tuple[str, ...]
    simulations: tuple[int, ...]
    seeds: int
    max_path: int  # public states from one of an agent's decisions to its next


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed, by the name of its part."""

    parts: dict[str, Part]
    batch: int = 64  # searches side by side


def _leduc(simulations: tuple[int, ...], seeds: int) -> Part:
    return Part(
        game="leduc_poker", agents=_IN_LEDUC, simulations=simulations, seeds=seeds, max_path=4
    )


def _glasses(simulations: tuple[int, ...], seeds: int) -> Part:
    return Part(
        game="scotland_yard(map=glasses)",
        agents=_IN_GLASSES,
        simulations=simulations,
        seeds=seeds,
        max_path=1,
    )


_SIMULATIONS = (33, 100, 300, 1000)
PRESETS = {
    "smoke": Config(
        parts={
            "kuhn": Part(
                game="kuhn_poker",
                agents=("zero", "zero, own decisions only", "zero, no gadget (unsound)"),
                simulations=(4, 16),
                seeds=2,
                max_path=4,
            )
        },
        batch=16,
    ),
    "cpu": Config(parts={"leduc": _leduc((33, 100, 300), 4), "glasses": _glasses((33,), 2)}),
    "paper": Config(
        parts={
            "leduc": _leduc((*_SIMULATIONS, 4000), 50),
            "glasses": _glasses(_SIMULATIONS, 50),
        },
        batch=1024,
    ),
}

# Means of a few seeds, measured with a separate implementation of the same searches (a compiled
# scalar loop), not by the paper; by game and agent, in the game's payoffs.
REFERENCE: dict[str, dict[str, dict[int, float]]] = {
    "leduc_poker": {
        "zero": {33: 0.640, 100: 0.561, 300: 0.221, 1000: 0.085, 4000: 0.026},
        "zero, own decisions only": {33: 0.722, 100: 0.688, 300: 0.302, 1000: 0.112, 4000: 0.014},
        "uniform": {33: 0.375, 100: 0.251, 300: 0.167, 1000: 0.081},
        "equilibrium": {33: 0.262, 100: 0.094, 300: 0.041, 1000: 0.024},
        "equilibrium, alpha 1": {33: 0.313, 100: 0.109, 300: 0.035, 1000: 0.0125},
        "equilibrium, uniform averaging": {33: 0.417, 100: 0.170, 300: 0.073, 1000: 0.037},
        "zero, single chain (unsound)": {
            33: 0.887,
            100: 0.749,
            300: 0.342,
            1000: 0.311,
            4000: 0.270,
        },
        "zero, no gadget (unsound)": {33: 0.954, 100: 0.733, 300: 0.589, 1000: 0.515, 4000: 0.619},
    },
    "scotland_yard(map=glasses)": {
        "zero, alpha 1": {33: 0.230, 100: 0.150, 300: 0.097, 1000: 0.027},
        "equilibrium": {33: 0.114, 100: 0.065, 300: 0.021, 1000: 0.011},
        "zero, no gadget (unsound)": {33: 0.44, 100: 0.37, 300: 0.36, 1000: 0.41},
    },
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
    """smoke: a minute; cpu: half an hour on two cores; paper: more seeds, for an accelerator."""
    resume: bool = False
    """Continue what --out holds, if there is something."""
    overwrite: bool = False
    """Start again although --out holds an earlier run, which is deleted."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One agent with one number of simulations."""

    part: str
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
    results.write_csv(out / "curve.csv", [row for cell in cells for row in _rows(config, cell)])
    draw(out / "curve.png", config, cells)
    result = results.make_result(
        experiment="sog_search",
        preset=arguments.preset,
        config=dataclasses.asdict(config) | {"measure": _MEASURE},
        command=command,
        wall_seconds=time.perf_counter() - begin,
        numbers=[number for cell in cells for number in _numbers(config, cell)],
    )
    results.write_result(out, result)
    shutil.rmtree(out / CHECKPOINT)
    _print(config, cells)


def compute(config: Config, folder: pathlib.Path) -> Iterator[Cell]:
    """All cells; those finished in `folder` are read from there."""
    for name, part in config.parts.items():
        with status(f"listing the public states of {part.game}"):
            laboratory = _Laboratory(part, config.batch)
        for agent in part.agents:
            for simulations in part.simulations:
                file = re.sub(r"\W+", "_", f"{name}-{agent}-{simulations}")
                path = folder / f"{file}.json"
                if not path.exists():
                    found = laboratory.measure(agent, simulations)
                    cell = Cell(
                        part=name, agent=agent, simulations=simulations, exploitability=found
                    )
                    results.write_file(path, json.dumps(dataclasses.asdict(cell)))
                yield Cell(**json.loads(path.read_text(encoding="utf-8")))


class _Laboratory:
    """A game, with all that agents are measured by."""

    def __init__(self, part: Part, batch: int):
        self.part, self.batch = part, batch
        self.table = belief_table(part.game)
        self.listing = list_public_states(self.table)
        self.max_nodes = max(self.listing.num_inner, part.max_path + 1)
        self.equilibrium = functools.cache(lambda: equilibrium(self.table, self.listing))

    def measure(self, name: str, simulations: int) -> list[float]:
        """Exploitability of an agent, by seed."""
        agent, part = AGENTS[name], self.part
        evaluate, params = self._leaves(agent.leaves)
        settings = GrowingTreeCfr(
            evaluate,
            simulations=simulations,
            follow_share=agent.follow_share,
            averaging_power=agent.averaging_power,
            max_path=part.max_path,
            max_nodes=self.max_nodes,
        )
        total = part.seeds * _num_searches(self.listing, agent.chains)
        with progress(f"{name}, {simulations}", total) as report:
            found = searched_exploitability(
                self.table,
                self.listing,
                params,
                jax.random.split(jax.random.key(0), part.seeds),
                settings=settings,
                chains=agent.chains,
                batch=self.batch,
                report=counter(report),
            )
        return found.tolist()

    def _leaves(self, leaves: str) -> tuple[Any, Any]:
        """Evaluator and its parameters."""
        if leaves == "zero":
            return evaluators.zero, None
        uniform = evaluators.uniform_policy(self.table, self.listing)
        policy = uniform if leaves == "uniform" else self.equilibrium()
        values = evaluators.continuation_values(self.table, self.listing, policy)
        return evaluators.continuation, values


def _num_searches(listing: Listing, chains: Sequence[Chain]) -> int:
    actor = np.asarray(listing.actor)
    return sum(
        int((actor == chain.player).sum() if chain.own_decisions_only else (actor >= 0).sum())
        for chain in dict.fromkeys(chains)
    )


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """Exploitability against simulations: means over seeds in their range, published points."""
    size = (6.4, 3.8 * len(config.parts))
    with plots.figure(path, rows=len(config.parts), columns=1, size=size) as axes:
        for place, (name, part) in zip(axes[:, 0], config.parts.items(), strict=True):
            _draw_part(place, part, [cell for cell in cells if cell.part == name])


def _draw_part(axes: Any, part: Part, cells: Sequence[Cell]) -> None:
    bands = [
        plots.Band(
            name=name,
            x=[cell.simulations for cell in cells if cell.agent == name],
            samples=[cell.exploitability for cell in cells if cell.agent == name],
        )
        for name in part.agents
    ]
    known = published.searched_exploitability(part.game)
    plots.bands(axes, bands, published=known, x_label="simulations")
    axes.set_ylabel("exploitability (NashConv / 2)")
    axes.set_title(f"Search with fixed leaf values, {part.game}")


def _rows(config: Config, cell: Cell) -> list[dict[str, object]]:
    return [
        {
            "game": config.parts[cell.part].game,
            "agent": cell.agent,
            "simulations": cell.simulations,
            "seed": seed,
            "exploitability": f"{value:.6g}",
        }
        for seed, value in enumerate(cell.exploitability)
    ]


_MEASURE = (
    "exploitability (NashConv / 2) of search with fixed leaf values, per game: mean over seeds; low"
    " and high are the least and the most exploitable. reference: the same searches by a separate"
    " implementation, a few seeds"
)


def _unit(game: str) -> tuple[str, float]:
    """What exploitability counts, and how many of it make one of the game's payoffs."""
    return ("mbb/h", 1000.0) if published.unit(game) == "chips" else ("utility", 1.0)


def _numbers(config: Config, cell: Cell) -> list[results.Number]:
    """What was measured, and beside it the reference where there is one."""
    game = config.parts[cell.part].game
    unit, scale = _unit(game)
    values = scale * np.asarray(cell.exploitability)
    search, row = f"SoG({cell.simulations},1)", f"{cell.part}, {cell.agent}"
    found = results.Number(
        name=f"{search}:{row}",
        value=float(values.mean()),
        unit=unit,
        low=float(values.min()),
        high=float(values.max()),
        seeds=len(values),
    )
    known = REFERENCE.get(game, {}).get(cell.agent, {})
    if cell.simulations not in known:
        return [found]
    value = scale * known[cell.simulations]
    return [found, results.Number(name=f"reference {search}:{row}", value=value, unit=unit)]


def _print(config: Config, cells: Sequence[Cell]) -> None:
    for name, part in config.parts.items():
        unit, scale = _unit(part.game)
        table = Table(title=f"sog_search, {part.game}: exploitability (NashConv / 2), {unit}")
        table.add_column("leaves")
        for simulations in part.simulations:
            table.add_column(f"{simulations}", justify="right")
        for agent in part.agents:
            here = [cell for cell in cells if (cell.part, cell.agent) == (name, agent)]
            means = (f"{scale * np.mean(cell.exploitability):.3g}" for cell in here)
            table.add_row(agent, *means)
        Console().print(table)
