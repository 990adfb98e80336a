"""The exploitability of search whose leaf values have errors, and the theorem's bound on it.

Student of Games (Schmid et al. 2023), Theorem 2: after T iterations per search, with leaf values
that are wrong by xi, the exploitability of continual re-solving is at most
(5 D + 2) (F xi + N U sqrt(A / T)). Here errors of a known size are added to leaf values that are
otherwise exact: of leaves that are solved, or what an equilibrium earns from the leaf on.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from experiments.harness import plots, results, seed_statistics
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import status
from experiments.harness.runs import Run
from experiments.student_of_games.measured_search import SearchLaboratory
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.beliefs.listing import NO_STATE, Listing
from jaxgames.core import TERMINAL
from solvers.search import exact_below_belief, leaf_evaluators
from solvers.search.search_state import GrowingTreeCfr


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A game with its leaves: a panel of the figure."""

    game: str
    leaves: Literal["oracle", "equilibrium"]
    iterations: tuple[int, ...]  # T, of every search
    errors: tuple[float, ...]  # of a row's value, per unit of compatible opponent reach
    seeds: int
    grows: bool  # whether trees grow with every iteration, or stay as small as they begin
    batch: int  # searches side by side


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The parts of the experiment, by name."""

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
class Cell:
    """The searches with one number of iterations and one size of errors."""

    part: str
    iterations: int
    error: float
    exploitability: list[float]  # by seed
    bound: float  # the theorem's


def compute(run: Run) -> list[Cell]:
    """All cells, part by part."""
    cells = []
    for name, part in run.config.parts.items():
        laboratory = _PartLaboratory(name, part, run)
        for iterations, error in itertools.product(part.iterations, part.errors):
            compute_cell = functools.partial(laboratory.measure, iterations, error)
            cells += run.kept(f"{name}-{iterations}-{error}", Cell, compute_cell)
    return cells


class _PartLaboratory:
    """A game, and the evaluator of its leaves."""

    def __init__(self, name: str, part: Part, run: Run):
        self.name, self.part = name, part
        self.laboratory = SearchLaboratory(part.game, batch=part.batch, mesh=run.mesh)
        game = self.laboratory.table, self.laboratory.listing
        self.constants = constants_of(*game)
        self.evaluate, self.params = leaf_evaluators.continuation, None
        if part.leaves == "oracle":
            self.evaluate = exact_below_belief.oracle(
                game[1], num_iterations=run.config.oracle_iterations
            )
        else:
            with status(f"solving {part.game}"):
                self.params = leaf_evaluators.continuation_values(
                    *game, exact_below_belief.equilibrium(*game)
                )

    def measure(self, iterations: int, error: float) -> Iterator[Cell]:
        """The exploitability of searches with this many iterations and errors of this size."""
        part, game = self.part, self.laboratory.table
        settings = GrowingTreeCfr(
            leaf_evaluators.Noisy(self.evaluate),
            simulations=iterations if part.grows else 1,
            pace=1.0 if part.grows else 1 / iterations,
            max_path=1,
        )
        shape = (len(game.actors), 2, max(game.num_rows))
        noise = error * jax.random.uniform(jax.random.key(1), shape, minval=-1.0, maxval=1.0)
        noise = tuple(noise[:, player, :rows] for player, rows in enumerate(game.num_rows))
        samples = self.laboratory.exploitability(
            f"{self.name}, {iterations}, {error:g}",
            (self.params, noise),
            settings,
            seeds=part.seeds,
        )
        yield Cell(
            part=self.name,
            iterations=iterations,
            error=error,
            exploitability=samples,
            bound=self.constants.bound(iterations, error),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constants:
    """The theorem's constants for any search in a game, as if every tree held the whole game."""

    resolves: int  # D: the most searches on a path, not counting the first
    frontier: int  # F: the most leaves
    states: int  # N: the most information states of one player at public states inside the tree
    actions: int  # A: the most actions
    spread: float  # U: the difference between the largest and the least payoff
    mass: float  # the most that a player's rows sum up to of compatible opponent reach

    def bound(self, iterations: int, error: float) -> float:
        """The bound (5 D + 2) (F xi + N U sqrt(A / T)) on exploitability.

        Args:
          iterations: T.
          error: of a row's value; xi, the sum of errors at a leaf, is `mass` times this. The leaf
            values are taken to be exact otherwise.
        """
        regret = self.states * self.spread * math.sqrt(self.actions / iterations)
        return (5 * self.resolves + 2) * (self.frontier * self.mass * error + regret)


def constants_of(game: BeliefGame, listing: Listing) -> Constants:
    """The theorem's constants for a listed game of tables."""
    actor, parent = np.asarray(listing.actor), np.asarray(listing.parent)
    decisions = (actor >= 0).astype(int)
    for state in range(1, len(parent)):  # parents come first
        decisions[state] += decisions[parent[state]]
    rows = [np.asarray(own).sum(axis=1) for own in jax.vmap(game.rows)(listing.state)]  # [S]
    ones = jnp.ones(game.num_rows[1], jnp.float32)
    masses = jax.vmap(lambda s: game.compatible(s, 0, ones))(listing.state).sum(axis=1)
    legal = jax.vmap(game.legal)(listing.state)  # [S, A, N]
    weights, payoffs = np.asarray(game.weights), np.asarray(game.payoffs)
    utilities = payoffs[weights > 0] / weights[weights > 0]
    return Constants(
        resolves=int(decisions.max()) - 1,
        frontier=int((actor[parent != NO_STATE] != TERMINAL).sum()),
        states=int(max(own[actor != TERMINAL].sum() for own in rows)),
        actions=int(max(np.asarray(own).sum(axis=1).max() for own in legal)),
        spread=float(utilities.max() - utilities.min()),
        mass=float(masses.max()),
    )


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """Exploitability against iterations, a line per size of errors, and the bounds of the first and
    the last size."""
    rows = len(config.parts)
    with plots.figure(path, rows=rows, columns=1, size=(6.4, 3.6 * rows)) as axes:
        for panel, (name, part) in zip(axes[:, 0], config.parts.items(), strict=True):
            lines = [_band(name, error, cells) for error in part.errors]
            bounds = {
                f"bound, error {error:g}": {
                    cell.iterations: cell.bound
                    for cell in cells
                    if (cell.part, cell.error) == (name, error)
                }
                for error in (part.errors[0], part.errors[-1])
            }
            plots.bands(panel, lines, published=bounds, x_label="iterations of every search, T")
            panel.set_ylabel("exploitability (NashConv / 2)")
            panel.set_title(f"{name}: {part.leaves} leaves with errors")


def _band(name: str, error: float, cells: Sequence[Cell]) -> plots.Band:
    line = [cell for cell in cells if (cell.part, cell.error) == (name, error)]
    return plots.Band(
        name=f"error {error:g}",
        x=[cell.iterations for cell in line],
        samples=[cell.exploitability for cell in line],
    )


def rows(config: Config, cells: Sequence[Cell]) -> Iterator[dict[str, object]]:
    """A row for every seed of every cell."""
    for cell in cells:
        part = config.parts[cell.part]
        columns = {
            "part": cell.part,
            "game": part.game,
            "leaves": part.leaves,
            "iterations": cell.iterations,
            "error": f"{cell.error:g}",
        }
        yield from seed_statistics.rows(
            columns, cell.exploitability, more={"bound": f"{cell.bound:.6g}"}
        )


def numbers(config: Config, cells: Sequence[Cell]) -> Iterator[results.Number]:
    """Exploitability by iterations and size of errors."""
    for cell in sorted(cells, key=lambda cell: cell.iterations):
        yield results.Number(
            name=f"T={cell.iterations}:{cell.part}, error {cell.error:g}",
            value=float(np.mean(cell.exploitability)),
            unit="payoff",
            low=min(cell.exploitability),
            high=max(cell.exploitability),
            seeds=len(cell.exploitability),
        )


def tables(config: Config, cells: Sequence[Cell]) -> Iterator[Table]:
    """A table per part: mean exploitability by size of errors and iterations."""
    for name, part in config.parts.items():
        lines: dict[float, list[str]] = {error: [f"{error:g}"] for error in part.errors}
        for cell in cells:
            if cell.part == name:
                lines[cell.error].append(f"{np.mean(cell.exploitability):.3g}")
        title = f"sog_soundness, {name}, {part.leaves} leaves: exploitability"
        headings = ("error", *(f"T={iterations}" for iterations in part.iterations))
        yield text_table(title, headings, lines.values())


def _constants(config: Config, cells: Sequence[Cell]) -> dict[str, dict[str, int | float]]:
    """The theorem's constants by game, for the record."""
    games = dict.fromkeys(part.game for part in config.parts.values())
    laboratories = {game: SearchLaboratory(game, batch=1) for game in games}
    return {
        game: dataclasses.asdict(constants_of(laboratory.table, laboratory.listing))
        for game, laboratory in laboratories.items()
    }


COMMAND = Experiment(
    name="sog_soundness",
    shown="exploitability against iterations, with the bound of the theorem,",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "twenty minutes on one core",
        "paper": "more seeds, for an accelerator",
    },
    batches=lambda config: {f"batch of {name}": part.batch for name, part in config.parts.items()},
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=results.LEAST_AND_MOST,
    measure=(
        "exploitability (NashConv / 2), in the games' payoffs, of searches of T iterations with"
        " errors of a given size added to the leaves' values: mean over seeds"
    ),
    deviations=(
        "the paper proves the theorem and has no such experiment: games, errors and iterations are"
        " ours, and nothing published stands beside",
    ),
    extras={"constants": _constants},
)
