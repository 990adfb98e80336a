"""CFR+ of any package behind one interface, the games that are compared, and how one is measured.

All programs update alternately (player 0, then player 1 against player 0's new policy) and weight
the policies of iteration t by t in the average; one iteration updates both players. Where a
package leaves the loop to its user, the loop here keeps to that order, so that the average policies
of all programs are equal but for rounding. Libraries are imported only when asked for, so that the
memory of one program does not count what another one needs.
"""

from __future__ import annotations

import abc
import dataclasses
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from experiments.benchmarks.measurements import Clock, long_enough, peak_memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedGame:
    """OpenSpiel's form of one of our games, and how closely NashConv must agree on it.

    Where all regrets of a decision are 0, regret matching plays uniformly; where rounding makes one
    of them 1e-17, it plays that action with certainty. Programs that add in different order
    therefore part at such ties. In Kuhn and Leduc poker none comes up early; in liar's dice and
    Goofspiel they do at the first update, at decisions that matter only later. No tie has an effect
    on NashConv in the first `exact_iterations`; after them it may differ by the fraction
    `tie_tolerance`.
    """

    title: str
    openspiel: str
    exact_iterations: int
    tie_tolerance: float

    def tolerance(self, iterations: int, precisions: set[str]) -> float:
        """Allowed relative difference of two NashConvs after this many iterations."""
        if iterations > self.exact_iterations:
            return self.tie_tolerance
        return 1e-9 if precisions == {"float64"} else 1e-5


GAMES = {
    "kuhn_poker": ComparedGame(
        title="Kuhn poker", openspiel="kuhn_poker", exact_iterations=10, tie_tolerance=0.01
    ),
    "leduc_poker": ComparedGame(
        title="Leduc hold'em", openspiel="leduc_poker", exact_iterations=10, tie_tolerance=0.2
    ),
    "liars_dice(dice=1,sides=6)": ComparedGame(
        title="Liar's dice, 6 sides",
        openspiel="liars_dice(numdice=1,dice_sides=6)",
        exact_iterations=4,
        tie_tolerance=0.05,
    ),
    "goofspiel(cards=5,points=descending)": ComparedGame(
        title="Goofspiel, 5 cards",
        openspiel="turn_based_simultaneous_game(game=goofspiel(imp_info=true,num_cards=5,players=2"
        ",points_order=descending))",
        exact_iterations=2,
        tie_tolerance=0.5,
    ),
}


class CfrProgram(abc.ABC):
    """CFR+ of one package on one game; constructing it builds all that is needed to iterate."""

    distribution: ClassVar[str]  # the package whose version goes on record
    modules: ClassVar[tuple[str, ...]]  # imported before the clock starts
    precision: ClassVar[str] = "float64"
    note: ClassVar[str] = ""  # what readers of the table should know

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the package can be found; imports nothing."""
        return all(importlib.util.find_spec(name.partition(".")[0]) for name in cls.modules)

    @classmethod
    def prepare_process(cls) -> None:
        """Makes imports and settings, apart from what is timed."""
        for name in cls.modules:
            importlib.import_module(name)

    @abc.abstractmethod
    def __init__(self, game: str, spiel: Any):
        """`game` is the name of a game of ours, `spiel` the same game as a `pyspiel.Game`."""

    def compile(self) -> None:
        """Compiles what `step` runs, where there is something to compile."""
        self.step(0)

    @abc.abstractmethod
    def step(self, num_iterations: int) -> None:
        """Makes iterations and waits for their end."""

    @abc.abstractmethod
    def average_policy(self) -> Any:
        """The average policies of both players, as `pyspiel.nash_conv` takes them."""

    def details(self) -> dict[str, float]:
        """Further numbers, measured last."""
        return {}


def openspiel_policy(tabular: Any) -> Any:
    """A `pyspiel.Policy` from a tabular policy of OpenSpiel's Python."""
    from open_spiel.python.policy import python_policy_to_pyspiel_policy

    return python_policy_to_pyspiel_policy(tabular)


def measure_program(
    program_class: type[CfrProgram], job: dict[str, Any], report: Callable[..., None]
) -> None:
    """Builds, compiles, checks and times one program on one game, and reports each step's numbers.

    NashConv is that of the average policy after exactly this many iterations. Peak memory is taken
    before it is computed, because OpenSpiel builds a tree of its own to compute it.

    Args:
      program_class: what to measure.
      job: `game`, `check` (whether to compute NashConv), `checkpoints` (iterations at which to do
        so), `climb_seconds`, `seconds` and `repeats`, as in `cfr.Config`.
      report: takes the numbers as keywords.
    """
    import pyspiel

    program_class.prepare_process()
    spiel = pyspiel.load_game(GAMES[job["game"]].openspiel)
    report(memory_of_imports=peak_memory())
    clock = Clock()
    program = program_class(job["game"], spiel)
    report(build_seconds=round(clock.seconds(), 4))
    clock = Clock()
    program.compile()
    report(compile_seconds=round(clock.seconds(), 4))
    nash_conv = []
    for iterations in _reached_checkpoints(program, job):
        report(timed_from=iterations, **({} if nash_conv else {"peak_memory": peak_memory()}))
        if job["check"]:
            nash_conv.append((iterations, pyspiel.nash_conv(spiel, program.average_policy())))
            report(nash_conv=nash_conv)
    samples: list[dict[str, float]] = []
    count = _warm_up(program, job["seconds"])
    for _ in range(job["repeats"]):
        clock = Clock()
        program.step(count)
        samples.append(clock.sample(count))
        report(samples=samples)
    report(**program.details())


def _reached_checkpoints(program, job) -> Iterator[int]:
    """Iterates to each checkpoint and yields it: the first in any case, a later one if the time to
    it, at the rate so far, is at most `climb_seconds`."""
    done, spent = 0, 0.0
    for target in job["checkpoints"]:
        if done and spent / done * (target - done) > job["climb_seconds"]:
            return
        clock = Clock()
        program.step(target - done)
        done, spent = target, spent + clock.seconds()
        yield done


def _warm_up(program, seconds) -> int:
    """Iterates more and more at once, until it takes half of `seconds`; returns that number."""

    def measured(count):
        clock = Clock()
        program.step(count)
        return clock.seconds()

    count, _ = long_enough(measured, seconds / 2)
    return count
