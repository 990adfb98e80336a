"""AIVAT in Leduc hold'em: the standard deviation of its estimates (Burch et al. 2018).

An equilibrium plays itself, and a player that calls or raises at random, in both seats. AIVAT's
values are those of the equilibrium's self-play. The deviations of the estimates are exact, over all
hands; in addition a sample of hands is played.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run
from jaxgames.core import TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.holdem.rules import FOLD
from jaxgames.registry import make
from solvers import cfr
from solvers.evaluation import aivat
from solvers.evaluation.history_values import history_values, reach
from solvers.sequence_form import build_sequence_form

OPPONENTS = ("itself", "call or raise")
# Whether the policies of the equilibrium and of its opponent are known; None: the payoff itself.
ESTIMATES = {
    "payoff": None,
    "chance alone": (False, False),
    "AIVAT, own policy": (True, False),
    "AIVAT, the opponent's": (False, True),
    "AIVAT, both": (True, True),
}
# Standard deviations over 100,000 hands, in chips.
PUBLISHED = {
    ("payoff", "itself"): 3.513,
    ("AIVAT, own policy", "itself"): 0.00643,
    ("AIVAT, both", "itself"): 0.00377,
    ("payoff", "call or raise"): 5.761,
}

_LEAST = 1e-4  # deviation that is drawn, as the axis is logarithmic


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    iterations: int  # of CFR+
    hands: int  # that are played in each seat
    game: str = "leduc_poker"
    seed: int = 0


PRESETS = {
    "smoke": Config(game="leduc_poker(ranks=2,max_raises=1)", iterations=50, hands=1000),
    "cpu": Config(iterations=2000, hands=50_000),
    "paper": Config(iterations=10_000, hands=500_000),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One estimate, in chips: means over both seats; which seat is taken is no luck."""

    opponent: str
    estimate: str
    value: float  # exact mean
    deviation: float  # exact standard deviation within a seat
    mean: float  # of the hands that were played
    error: float  # standard error of that mean


def compute(run: Run) -> list[Cell]:
    """All cells."""
    return run.kept("cells", Cell, lambda: _cells(run.config))


def _cells(config: Config) -> Iterator[Cell]:
    """Every estimate against every opponent."""
    tree = enumerate_game(make(config.game))
    game = build_sequence_form(tree)
    state = cfr.init(game)
    state = cfr.run(game, state, solver=cfr.cfr_plus(), num_iterations=config.iterations)
    equilibrium = [_normalised(policy) for policy in cfr.average_policy(game, state)]
    values = history_values(tree, equilibrium)
    random = [
        _normalised(tree.legal_actions(p) * (np.arange(tree.num_actions) != FOLD)) for p in range(2)
    ]
    for opponent, theirs in zip(OPPONENTS, (equilibrium, random), strict=True):
        matches = [_Match(tree, equilibrium, theirs, seat) for seat in range(2)]
        ends = [match.ends(config.hands, config.seed + match.seat) for match in matches]
        for name, known in ESTIMATES.items():
            estimates = [match.estimate(values, known) for match in matches]
            exact = [match.moments(each) for match, each in zip(matches, estimates, strict=True)]
            played = [each[rows] for each, rows in zip(estimates, ends, strict=True)]
            errors = [hands.std(ddof=1) / len(hands) ** 0.5 for hands in played]
            yield Cell(
                opponent=opponent,
                estimate=name,
                value=float(np.mean([mean for mean, _ in exact])),
                deviation=float(np.sqrt(np.mean([deviation**2 for _, deviation in exact]))),
                mean=float(np.mean([hands.mean() for hands in played])),
                error=float(np.linalg.norm(errors) / 2),
            )


def _normalised(policy) -> np.ndarray:
    """Probabilities of actions that sum to 1 in float64, `[D, A]`."""
    rows = np.asarray(policy, np.float64)
    return rows / rows.sum(axis=1, keepdims=True)


class _Match:
    """A match of the equilibrium, in one seat, against an opponent."""

    def __init__(self, tree, own, theirs, seat):
        self.tree, self.seat = tree, seat
        self.policies = [own[p] if p == seat else theirs[p] for p in range(2)]

    def estimate(self, values, known) -> np.ndarray:
        """The estimate of what the equilibrium won, by the history that ends a hand: `[H]`."""
        if known is None:
            return self.tree.returns[:, self.seat]
        own, theirs = known
        keep = [own if p == self.seat else theirs for p in range(2)]
        given = [policy if k else None for policy, k in zip(self.policies, keep, strict=True)]
        return aivat.estimates(self.tree, values, given)[:, self.seat]

    def moments(self, estimate) -> tuple[float, float]:
        """The exact mean and standard deviation of an estimate."""
        return aivat.moments(self.tree, self.policies, estimate)

    @functools.cached_property
    def chances(self) -> np.ndarray:
        """The probabilities of the histories that end a hand; 0 for all others."""
        return np.where(self.tree.actor == TERMINAL, reach(self.tree, self.policies), 0)

    def ends(self, hands: int, seed: int) -> np.ndarray:
        """The histories that `hands` random hands end with."""
        chances = self.chances / self.chances.sum()
        return np.random.default_rng(seed).choice(len(chances), hands, p=chances)


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """Standard deviations by estimate, a panel per opponent."""
    with plots.figure(path, rows=1, columns=len(OPPONENTS), size=(9.0, 2.6)) as axes:
        for place, opponent in zip(axes[0], OPPONENTS, strict=True):
            panel = [cell for cell in cells if cell.opponent == opponent]
            lines = np.arange(len(panel))
            shown = [max(cell.deviation, _LEAST) for cell in panel]
            place.barh(lines, shown, height=0.55, color=list(plots.COLOURS.values()))
            for line, cell in zip(lines, panel, strict=True):
                text = f"{cell.deviation:.3g}" if cell.deviation > _LEAST else "0"
                end = (max(cell.deviation, _LEAST), line)
                place.annotate(text, end, (10, -3), fontsize=8, textcoords="offset points")
            known = [
                (PUBLISHED[cell.estimate, opponent], line)
                for line, cell in zip(lines, panel, strict=True)
                if (cell.estimate, opponent) in PUBLISHED
            ]
            place.plot(*zip(*known, strict=True), color="black", label="published", **plots.HOLLOW)
            place.set(xscale="log", xlim=(_LEAST, 60), title=f"against {opponent}")
            place.set_xlabel("standard deviation (chips)")
            names = [cell.estimate for cell in panel] if place is axes[0, 0] else []
            place.set_yticks(lines, names)
            place.invert_yaxis()
            place.set_axisbelow(True)


def rows(config: Config, cells: Sequence[Cell]) -> Iterator[dict[str, object]]:
    """A row for every cell."""
    return map(dataclasses.asdict, cells)


def numbers(config: Config, cells: Sequence[Cell]) -> Iterator[results.Number]:
    """The deviation and the winnings of every cell."""
    for cell in cells:
        yield from _numbers(config, cell)


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


def tables(config: Config, cells: Sequence[Cell]) -> Iterator[Table]:
    """A line for every cell."""
    lines = []
    for cell in cells:
        values = (cell.value, cell.deviation, cell.mean, 2 * cell.error)
        lines.append((cell.opponent, cell.estimate, *(f"{value:.5f}" for value in values)))
    headings = ("against", "estimate", "value", "deviation", "played", "two errors")
    title = "aivat_leduc: what an equilibrium wins, chips per hand"
    yield text_table(title, headings, lines, labels=2)


COMMAND = Experiment(
    name="aivat_leduc",
    shown="deviations by opponent and by what is known",
    presets=PRESETS,
    preset_docs={"smoke": "seconds", "cpu": "seconds", "paper": "more iterations and hands"},
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=results.TWO_STANDARD_ERRORS,
    measure="what an equilibrium wins per hand in Leduc, both seats in turn: the exact standard"
    " deviation of estimates within a seat, and their mean over the same hands",
    deviations=(
        "the published deviations are of 100,000 hands that were played, with values that were"
        " nearly exact; ours are exact sums over all hands, with the true values",
    ),
)
