"""How much luck AIVAT takes out of Leduc hold'em (Burch et al. 2018).

An equilibrium plays itself, and a player that calls or raises at random, in both seats. Values are
those of the equilibrium's self-play. The deviations of the estimates are exact, over all hands; a
sample of hands is played besides.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.runs import Run, RunArguments
from jaxgames.core import TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.holdem.rules import FOLD
from jaxgames.registry import make
from solvers import aivat, cfr
from solvers.sequence_form import build_sequence_form

OPPONENTS = ("itself", "call or raise")
# whose policies are known, of the equilibrium and of its opponent; None: the payoff as it is
ESTIMATES = {
    "payoff": None,
    "chance alone": (False, False),
    "AIVAT, own policy": (True, False),
    "AIVAT, the opponent's": (False, True),
    "AIVAT, both": (True, True),
}
# of 100,000 hands, in chips
PUBLISHED = {
    ("payoff", "itself"): 3.513,
    ("AIVAT, own policy", "itself"): 0.00643,
    ("AIVAT, both", "itself"): 0.00377,
    ("payoff", "call or raise"): 5.761,
}

_LEAST = 1e-4  # that is drawn: 0 has no place on the axis


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    iterations: int  # of CFR+
    hands: int  # played in either seat
    game: str = "leduc_poker"
    seed: int = 0


PRESETS = {
    "smoke": Config(game="leduc_poker(ranks=2,max_raises=1)", iterations=50, hands=1000),
    "cpu": Config(iterations=2000, hands=50_000),
    "paper": Config(iterations=10_000, hands=500_000),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Measure the standard deviation of AIVAT's estimates in Leduc hold'em.

    Writes deviations by opponent and by what is known as curve.csv and curve.png, and result.json,
    into --out. Ctrl-C keeps what is finished there, from which --resume continues.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke and cpu: seconds; paper: more iterations and hands."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One estimate, in chips: means over both seats, of which the one taken is no luck."""

    opponent: str
    estimate: str
    value: float  # exact mean
    deviation: float  # exact, within a seat
    mean: float  # of the hands that were played
    error: float  # standard error of that


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="aivat_leduc", command=command)
    cells = run.kept("cells", Cell, lambda: compute(config))
    results.write_csv(run.out / "curve.csv", [dataclasses.asdict(cell) for cell in cells])
    draw(run.out / "curve.png", cells)
    run.finish(
        [number for cell in cells for number in _numbers(config, cell)],
        measure="what an equilibrium wins per hand in Leduc, both seats in turn: the exact standard"
        " deviation of estimates within a seat, and their mean over the same hands (low and high:"
        " two standard errors)",
    )
    _print(cells)


def compute(config: Config) -> Iterator[Cell]:
    """All cells."""
    tree = enumerate_game(make(config.game))
    public = build_sequence_form(tree)
    state = cfr.init(public)
    state = cfr.run(public, state, solver=cfr.cfr_plus(), num_iterations=config.iterations)
    equilibrium = [_rows(policy) for policy in cfr.average_policy(public, state)]
    values = aivat.history_values(tree, equilibrium)
    random = [
        _rows(tree.legal_actions(p) * (np.arange(tree.num_actions) != FOLD)) for p in range(2)
    ]
    for opponent, theirs in zip(OPPONENTS, (equilibrium, random), strict=True):
        matches = [_Match(tree, equilibrium, theirs, seat) for seat in range(2)]
        ends = [match.ends(config.hands, config.seed + match.seat) for match in matches]
        for name, known in ESTIMATES.items():
            found = [match.estimate(values, known) for match in matches]
            exact = [match.moments(one) for match, one in zip(matches, found, strict=True)]
            played = [one[rows] for one, rows in zip(found, ends, strict=True)]
            errors = [hands.std(ddof=1) / len(hands) ** 0.5 for hands in played]
            yield Cell(
                opponent=opponent,
                estimate=name,
                value=float(np.mean([mean for mean, _ in exact])),
                deviation=float(np.sqrt(np.mean([deviation**2 for _, deviation in exact]))),
                mean=float(np.mean([hands.mean() for hands in played])),
                error=float(np.linalg.norm(errors) / 2),
            )


def _rows(policy) -> np.ndarray:
    """Probabilities of actions that sum to 1 in float64."""
    rows = np.asarray(policy, np.float64)
    return rows / rows.sum(axis=1, keepdims=True)


class _Match:
    """The equilibrium in one seat."""

    def __init__(self, tree, mine, theirs, seat):
        self.tree, self.seat = tree, seat
        self.policies = [mine[p] if p == seat else theirs[p] for p in range(2)]

    def estimate(self, values, known) -> np.ndarray:
        """Of what the equilibrium won, by the end of a hand `[H]`."""
        if known is None:
            return self.tree.returns[:, self.seat]
        mine, theirs = known
        keep = [mine if p == self.seat else theirs for p in range(2)]
        given = [policy if k else None for policy, k in zip(self.policies, keep, strict=True)]
        return aivat.estimates(self.tree, values, given)[:, self.seat]

    def moments(self, estimate) -> tuple[float, float]:
        """Exact mean and deviation."""
        return aivat.moments(self.tree, self.policies, estimate)

    @functools.cached_property
    def chances(self) -> np.ndarray:
        """Of all histories; 0 where no hand ends."""
        reach = aivat.reach(self.tree, self.policies)
        return np.where(self.tree.actor == TERMINAL, reach, 0)

    def ends(self, hands: int, seed: int) -> np.ndarray:
        """Histories that so many hands end with."""
        chances = self.chances / self.chances.sum()
        return np.random.default_rng(seed).choice(len(chances), hands, p=chances)


def draw(path: pathlib.Path, cells: Sequence[Cell]) -> None:
    """Deviations by what is known, a panel per opponent."""
    with plots.figure(path, rows=1, columns=len(OPPONENTS), size=(9.0, 2.6)) as axes:
        for place, opponent in zip(axes[0], OPPONENTS, strict=True):
            here = [cell for cell in cells if cell.opponent == opponent]
            rows = np.arange(len(here))
            shown = [max(cell.deviation, _LEAST) for cell in here]
            place.barh(rows, shown, height=0.55, color=list(plots.COLOURS.values()))
            for row, cell in zip(rows, here, strict=True):
                text = f"{cell.deviation:.3g}" if cell.deviation > _LEAST else "0"
                end = (max(cell.deviation, _LEAST), row)
                place.annotate(text, end, (10, -3), fontsize=8, textcoords="offset points")
            known = [
                (PUBLISHED[cell.estimate, opponent], row)
                for row, cell in zip(rows, here, strict=True)
                if (cell.estimate, opponent) in PUBLISHED
            ]
            place.plot(*zip(*known, strict=True), color="black", label="published", **plots.HOLLOW)
            place.set(xscale="log", xlim=(_LEAST, 60), title=f"against {opponent}")
            place.set_xlabel("standard deviation (chips)")
            place.set_yticks(rows, [cell.estimate for cell in here] if place is axes[0, 0] else [])
            place.invert_yaxis()
            place.set_axisbelow(True)
        axes[0, 0].legend(frameon=False, fontsize=8, loc="lower right")


def _numbers(config: Config, cell: Cell) -> Iterator[results.Number]:
    paper = PUBLISHED.get((cell.estimate, cell.opponent))
    paper = paper if config.game == "leduc_poker" else None
    yield results.Number(
        name=f"deviation against {cell.opponent}:{cell.estimate}",
        value=cell.deviation,
        unit="standard deviation, chips",
        paper=paper,
    )
    yield results.Number(
        name=f"won from {cell.opponent}:{cell.estimate}",
        value=cell.mean,
        low=cell.mean - 2 * cell.error,
        high=cell.mean + 2 * cell.error,
        unit="chips per hand",
    )


def _print(cells: Sequence[Cell]) -> None:
    table = Table(title="aivat_leduc: what an equilibrium wins, chips per hand")
    for heading in ("against", "estimate", "value", "deviation", "played", "two errors"):
        table.add_column(heading)
    for cell in cells:
        numbers = (cell.value, cell.deviation, cell.mean, 2 * cell.error)
        table.add_row(cell.opponent, cell.estimate, *(f"{number:.5f}" for number in numbers))
    Console().print(table)
