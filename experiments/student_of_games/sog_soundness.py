"""How exploitable search with almost right leaf values is, and the bound on that.

Student of Games (Schmid et al. 2023), Theorem 2: after T iterations per search, with leaves whose
values are wrong by xi, continual re-solving is exploitable by no more than
(5 D + 2) (F xi + N U sqrt(A / T)). Errors of a known size are added here to leaves that are solved
exactly, or worth what an equilibrium would earn from there.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.progress import status
from experiments.harness.runs import Run, RunArguments
from experiments.student_of_games.search_laboratory import Laboratory
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.beliefs.listing import NO_STATE, Listing
from jaxgames.core import TERMINAL
from solvers.search import exact_solver, leaf_evaluators
from solvers.search.search_state import GrowingTreeCfr


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
class Arguments(RunArguments):
    """Measure the exploitability of search against the error of its leaf values.

    Writes exploitability against iterations as curve.csv and curve.png, and result.json, into
    --out, with the bound of the theorem. Ctrl-C keeps what is finished there, from which --resume
    continues to exactly the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: a minute; cpu: twenty minutes on one core; paper: more seeds, for an accelerator."""


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
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="sog_soundness", command=command)
    cells = list(compute(run))
    results.write_csv(run.out / "curve.csv", [row for cell in cells for row in _rows(config, cell)])
    draw(run.out / "curve.png", config, cells)
    ordered = sorted(cells, key=lambda cell: cell.iterations)
    run.finish([_number(cell) for cell in ordered], measure=_MEASURE, constants=_constants(config))
    _print(config, cells)


def _constants(config):
    """The theorem's, by game, for the record."""
    games = dict.fromkeys(part.game for part in config.parts.values())
    rooms = {game: Laboratory(game, batch=1) for game in games}
    return {
        game: dataclasses.asdict(constants_of(room.table, room.listing))
        for game, room in rooms.items()
    }


def compute(run: Run) -> Iterator[Cell]:
    """All cells, part by part."""
    for name, part in run.config.parts.items():
        bench = _Bench(name, part, run.config.oracle_iterations)
        for iterations, error in itertools.product(part.iterations, part.errors):

            def measured(iterations=iterations, error=error, bench=bench):
                yield bench.measure(iterations, error)

            yield from run.kept(f"{name}-{iterations}-{error}", Cell, measured)


class _Bench:
    """A game with its leaves."""

    def __init__(self, name: str, part: Part, oracle_iterations: int):
        self.name, self.part = name, part
        self.laboratory = Laboratory(part.game, batch=part.batch)
        game = self.laboratory.table, self.laboratory.listing
        self.constants = constants_of(*game)
        self.evaluate, self.params = leaf_evaluators.continuation, None
        if part.leaves == "oracle":
            self.evaluate = exact_solver.oracle(game[1], iterations=oracle_iterations)
        else:
            with status(f"solving {part.game}"):
                self.params = leaf_evaluators.continuation_values(
                    *game, exact_solver.equilibrium(*game)
                )

    def measure(self, iterations: int, error: float) -> Cell:
        """What searches of so many iterations are exploitable by."""
        part, game = self.part, self.laboratory.table
        settings = GrowingTreeCfr(
            leaf_evaluators.Noisy(self.evaluate),
            simulations=iterations if part.grows else 1,
            pace=1.0 if part.grows else 1 / iterations,
            max_path=1,
        )
        shape = (len(game.actors), 2, game.num_rows)
        noise = error * jax.random.uniform(jax.random.key(1), shape, minval=-1.0, maxval=1.0)
        found = self.laboratory.exploitability(
            f"{self.name}, {iterations}, {error:g}",
            (self.params, noise),
            settings,
            seeds=part.seeds,
        )
        return Cell(
            part=self.name,
            iterations=iterations,
            error=error,
            exploitability=found,
            bound=self.constants.bound(iterations, error),
        )


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


def constants_of(game: BeliefGame, listing: Listing) -> Constants:
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
