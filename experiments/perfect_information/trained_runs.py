"""Finished runs of training in Connect Four: what they measured, and what it cost."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Sequence

import numpy as np

from experiments.harness import results
from experiments.perfect_information.trained_players import ALPHAZERO, STUDENT
from experiments.perfect_information.trained_seeds import Cell, device_of, read_cells

COSTS = {"seconds": "s", "evaluations": "evaluations"}  # fields of `Cell`, and their units
_AGENTS = {"alphazero_connect_four": ALPHAZERO, "sog_connect_four": STUDENT}  # by experiment


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A finished run of training, with its measurements."""

    folder: str
    agent: str  # ALPHAZERO or STUDENT
    name: str
    device: str  # that it ran on, which its seconds are of
    cells: Sequence[Cell]  # whose seconds are by one pace, the mean of all seeds

    @functools.cached_property
    def seeds(self) -> int:
        """How many networks were trained."""
        return 1 + max(cell.seed for cell in self.cells)

    @functools.cached_property
    def simulations(self) -> tuple[int, ...]:
        """Of the searches that were measured."""
        return tuple(dict.fromkeys(cell.simulations for cell in self.cells))

    def line(self, seed: int, simulations: int) -> list[Cell]:
        """The measurements of one agent along its training."""
        both = (seed, simulations)
        own = (cell for cell in self.cells if (cell.seed, cell.simulations) == both)
        return sorted(own, key=lambda cell: cell.step)

    def reached(self, cost: str) -> float:
        """What the training has cost in the end, as much with each seed."""
        return float(max(getattr(cell, cost) for cell in self.cells))

    def nearest(self, cost: str, budget: float) -> Cell:
        """The measured step whose cost is nearest to a budget, the same of all seeds."""
        steps = self.line(0, self.simulations[0])
        return min(steps, key=lambda cell: abs(getattr(cell, cost) - budget))

    def share(self, seed: int, simulations: int, cost: str, budget: float, field: str) -> float:
        """A share of good moves at a budget, linear between measured steps."""
        line = self.line(seed, simulations)
        points = [(getattr(cell, cost), getattr(cell, field)) for cell in line]
        return float(np.interp(budget, *zip(*points, strict=True)))


def read_run(folder: pathlib.Path) -> TrainedRun:
    """Reads a finished run of training.

    Raises:
      ValueError: the folder holds none of today's code whose seeds begin with 0.
    """
    path = folder / results.RESULT_FILE
    result = results.read_result(path) if path.is_file() else None
    if result is None or result.experiment not in _AGENTS:
        raise ValueError(
            f"runs: {folder} must be the folder of a finished run; allowed: {', '.join(_AGENTS)}"
        )
    if result.superseded:
        raise ValueError(f"runs: {folder} is of earlier code: {result.superseded}")
    agent, values = _AGENTS[result.experiment], result.config.get("values")
    if result.config.get("td_steps"):
        values = "TD"
    cells = read_cells(folder)
    if first := min(cell.seed for cell in cells):
        raise ValueError(
            f"runs: the seeds of {folder} begin with {first}, and must begin with 0: put runs of"
            f" several seeds together with {result.experiment} --earlier"
        )
    cells = _with_one_pace(cells)
    name = f"{agent} by {values}" if values else agent
    return TrainedRun(
        folder=str(folder), agent=agent, name=name, device=device_of(result), cells=cells
    )


def _with_one_pace(cells: Sequence[Cell]) -> list[Cell]:
    """The cells with the seconds that a step takes in the mean of the seeds.

    All seeds do the same work, so what tells their paces apart is the machine. At equal seconds it
    would give them different numbers of steps.
    """
    trained = [cell for cell in cells if cell.step]
    pace = float(np.mean([cell.seconds / cell.step for cell in trained]))
    return [dataclasses.replace(cell, seconds=cell.step * pace) for cell in cells]
