"""How exploitable search with almost right leaf values is, and the bound on that.

Student of Games (Schmid et al. 2023), Theorem 2: after T iterations per search, with leaves whose
values are wrong by xi, continual re-solving is exploitable by no more than
(5 D + 2) (F xi + N U sqrt(A / T)). Errors of a known size are added here to leaves that are solved
exactly, or worth what an equilibrium would earn from there.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from experiments import plots, results
from experiments.folders import CHECKPOINT, check_same_config, prepare
from experiments.progress import counter, progress, status
from jaxgames.core import TERMINAL
from jaxgames.public_game import PublicGame
from jaxgames.public_states import NO_STATE, Listing, list_public_states
from jaxgames.tabulate import belief_table
from solvers.search import evaluators, whole
from solvers.search.exploitability import agents, searched_exploitability
from solvers.search.gt_cfr import GrowingTreeCfr

_FILES = (results.RESULT_FILE, "curve.csv", "curve.png")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """One panel of the figure."""

    game: str
    leaves: Literal["oracle", "equilibrium"]
    iterations: tuple[int, ...]  # T, of every search
    errors: tuple[float, ...]  # of a row's value, per unit of compatible opponent reach
    seeds: int
    grows: bool  # with every iteration; or the tree stays at its first node and that one's children
    batch: int  # searches side by side


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed, by the name of its part."""

    parts: dict[str, Part]
    oracle_iterations: int = 100


_ERRORS = (0.0, 0.01, 0.1, 1.0)
PRESETS = {
    "smoke": Config(
        parts={
            "kuhn": Part(
                game="kuhn_poker",
                leaves="oracle",
                iterations=(4, 16),
                errors=(0.0, 1.0),
                seeds=2,
                grows=True,
                batch=4,
            )
        }
    ),
    "cpu": Config(
        parts={
            "kuhn, first tree": Part(
                game="kuhn_poker",
                leaves="oracle",
                iterations=(10, 30, 100, 300),
                errors=_ERRORS,
                seeds=1,
                grows=False,
                batch=2,
            ),
            "kuhn": Part(
                game="kuhn_poker",
                leaves="oracle",
                iterations=(3, 10, 100, 1000),
                errors=_ERRORS,
                seeds=4,
                grows=True,
                batch=8,
            ),
            "leduc": Part(
                game="leduc_poker",
                leaves="equilibrium",
                iterations=(33, 100, 300, 1000),
                errors=_ERRORS,
                seeds=2,
                grows=True,
                batch=64,
            ),
        }
    ),
    "paper": Config(
        parts={
            f"{name}{', first tree' * (not grows)}": Part(
                game=game,
                leaves=leaves,
                iterations=(10, 33, 100, 300, 1000, 4000),
                errors=(0.0, 0.01, 0.03, 0.1, 0.3, 1.0),
                seeds=50 if grows else 1,
                grows=grows,
                batch=256 if grows else 2,
            )
            for name, game, leaves, grows in (
                ("kuhn", "kuhn_poker", "oracle", False),
                ("kuhn", "kuhn_poker", "oracle", True),
                ("leduc", "leduc_poker", "equilibrium", True),
                ("glasses", "scotland_yard(map=glasses)", "equilibrium", True),
            )
        },
        oracle_iterations=500,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Measure the exploitability of search against the error of its leaf values.

    Writes exploitability against iterations as curve.csv and curve.png, and result.json, into
    --out, with the bound of the theorem. Ctrl-C keeps what is finished there, from which --resume
    continues to exactly the same numbers.
    """

    out: pathlib.Path
    """Folder for the results; made if need be."""
    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: a minute; cpu: twenty minutes on one core; paper: more seeds, for an accelerator."""
    resume: bool = False
    """Continue what --out holds, if there is something."""
    overwrite: bool = False
    """Start again although --out holds an earlier run, which is deleted."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of iterations with one size of errors; `bound` is the theorem's."""

    part: str
    iterations: int
    error: float
    exploitability: list[float]  # by seed
    bound: float


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
    games = dict.fromkeys(part.game for part in config.parts.values())
    constants = {game: dataclasses.asdict(constants_of(*_listed(game))) for game in games}
    result = results.make_result(
        experiment="sog_soundness",
        preset=arguments.preset,
        config=dataclasses.asdict(config) | {"constants": constants, "measure": _MEASURE},
        command=command,
        wall_seconds=time.perf_counter() - begin,
        numbers=[_number(cell) for cell in cells],
    )
    results.write_result(out, result)
    shutil.rmtree(out / CHECKPOINT)
    _print(config, cells)


def compute(config: Config, folder: pathlib.Path) -> Iterator[Cell]:
    """All cells; those finished in `folder` are read from there."""
    for name, part in config.parts.items():
        with status(f"solving {part.game}"):
            laboratory = _Laboratory(name, part, config.oracle_iterations)
        for iterations in part.iterations:
            for error in part.errors:
                file = re.sub(r"[^\w.]+", "_", f"{name}-{iterations}-{error}")
                path = folder / f"{file}.json"
                if not path.exists():
                    cell = laboratory.measure(iterations, error)
                    results.write_file(path, json.dumps(dataclasses.asdict(cell)))
                yield Cell(**json.loads(path.read_text(encoding="utf-8")))


class _Laboratory:
    """A game with its leaves."""

    def __init__(self, name: str, part: Part, oracle_iterations: int):
        self.name, self.part = name, part
        self.game, self.listing = _listed(part.game)
        self.constants = constants_of(self.game, self.listing)
        self.evaluate, self.params = evaluators.continuation, None
        if part.leaves == "oracle":
            self.evaluate = whole.oracle(self.listing, iterations=oracle_iterations)
        else:
            policy = whole.equilibrium(self.game, self.listing)
            self.params = evaluators.continuation_values(self.game, self.listing, policy)

    def measure(self, iterations: int, error: float) -> Cell:
        """What searches of so many iterations are exploitable by."""
        part, game = self.part, self.game
        settings = GrowingTreeCfr(
            evaluators.Noisy(self.evaluate),
            simulations=iterations if part.grows else 1,
            pace=1.0 if part.grows else 1 / iterations,
            max_path=1,
            max_nodes=max(self.listing.num_inner, 2),
        )
        shape = (len(game.actors), 2, game.num_rows)
        noise = error * jax.random.uniform(jax.random.key(1), shape, minval=-1.0, maxval=1.0)
        searches = 2 * part.seeds * int((np.asarray(self.listing.actor) >= 0).sum())
        with progress(f"{self.name}, {iterations}, {error:g}", searches) as report:
            found = searched_exploitability(
                game,
                self.listing,
                (self.params, noise),
                jax.random.split(jax.random.key(0), part.seeds),
                settings=settings,
                chains=agents(),
                batch=part.batch,
                report=counter(report),
            )
        return Cell(
            part=self.name,
            iterations=iterations,
            error=error,
            exploitability=found.tolist(),
            bound=self.constants.bound(iterations, error),
        )


def _listed(game: str):
    table = belief_table(game)
    return table, list_public_states(table)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constants:
    """The theorem's, for any search in a game: as if every tree were all of the game's."""

    resolves: int  # D: searches after the first on a path
    frontier: int  # F: leaves at most
    states: int  # N: information states of one player at public states inside the tree
    actions: int  # A
    spread: float  # U: between any two strategies' values
    mass: float  # sum of a player's rows' compatible opponent reaches, at most

    def bound(self, iterations: int, error: float) -> float:
        """(5 D + 2) (F xi + N U sqrt(A / T)); xi, the sum of errors at a leaf, is `mass` times the
        error of a row. The leaves' values are taken as exact otherwise."""
        regret = self.states * self.spread * math.sqrt(self.actions / iterations)
        return (5 * self.resolves + 2) * (self.frontier * self.mass * error + regret)


def constants_of(game: PublicGame, listing: Listing) -> Constants:
    """The theorem's constants for a listed game of tables."""
    actor, parent = np.asarray(listing.actor), np.asarray(listing.parent)
    decisions = (actor >= 0).astype(int)
    for state in range(1, len(parent)):  # parents come first
        decisions[state] += decisions[parent[state]]
    rows = np.asarray(jax.vmap(game.rows)(listing.state)).sum(axis=2)  # [S, 2]
    ones = jnp.ones(game.num_rows, jnp.float32)
    masses = jax.vmap(lambda s: game.compatible(s, 0, ones))(listing.state).sum(axis=1)
    legal = np.asarray(jax.vmap(game.legal)(listing.state))
    weights, payoffs = np.asarray(game.weights), np.asarray(game.payoffs)
    there = payoffs[weights > 0] / weights[weights > 0]
    return Constants(
        resolves=int(decisions.max()) - 1,
        frontier=int((actor[parent != NO_STATE] != TERMINAL).sum()),
        states=int(rows[actor != TERMINAL].sum(axis=0).max()),
        actions=int(legal.sum(axis=2).max()),
        spread=float(there.max() - there.min()),
        mass=float(masses.max()),
    )


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """Exploitability against iterations, a line per size of errors, and the bound of each."""
    rows = len(config.parts)
    with plots.figure(path, rows=rows, columns=1, size=(6.4, 3.6 * rows)) as axes:
        for place, (name, part) in zip(axes[:, 0], config.parts.items(), strict=True):
            lines = [_band(name, error, cells) for error in part.errors]
            bounds = {
                f"bound, error {error:g}": {
                    cell.iterations: cell.bound
                    for cell in cells
                    if (cell.part, cell.error) == (name, error)
                }
                for error in (part.errors[0], part.errors[-1])
            }
            plots.bands(place, lines, published=bounds, x_label="iterations of every search, T")
            place.set_ylabel("exploitability (NashConv / 2)")
            place.set_title(f"{name}: {part.leaves} leaves with errors")


def _band(name: str, error: float, cells: Sequence[Cell]) -> plots.Band:
    here = [cell for cell in cells if (cell.part, cell.error) == (name, error)]
    return plots.Band(
        name=f"error {error:g}",
        x=[cell.iterations for cell in here],
        samples=[cell.exploitability for cell in here],
    )


def _rows(config: Config, cell: Cell) -> list[dict[str, object]]:
    part = config.parts[cell.part]
    return [
        {
            "part": cell.part,
            "game": part.game,
            "leaves": part.leaves,
            "iterations": cell.iterations,
            "error": f"{cell.error:g}",
            "seed": seed,
            "exploitability": f"{value:.6g}",
            "bound": f"{cell.bound:.6g}",
        }
        for seed, value in enumerate(cell.exploitability)
    ]


_MEASURE = (
    "exploitability (NashConv / 2), in the games' payoffs, of searches of T iterations with errors"
    " of a given size added to the leaves' values: mean over seeds; low and high are the least and"
    " the most exploitable"
)


def _number(cell: Cell) -> results.Number:
    return results.Number(
        name=f"T={cell.iterations}:{cell.part}, error {cell.error:g}",
        value=float(np.mean(cell.exploitability)),
        unit="payoff",
        low=min(cell.exploitability),
        high=max(cell.exploitability),
        seeds=len(cell.exploitability),
    )


def _print(config: Config, cells: Sequence[Cell]) -> None:
    for name, part in config.parts.items():
        table = Table(title=f"sog_soundness, {name}, {part.leaves} leaves: exploitability")
        table.add_column("error")
        for iterations in part.iterations:
            table.add_column(f"T={iterations}", justify="right")
        for error in part.errors:
            here = [cell for cell in cells if (cell.part, cell.error) == (name, error)]
            means = (f"{np.mean(cell.exploitability):.3g}" for cell in here)
            table.add_row(f"{error:g}", *means)
        Console().print(table)
