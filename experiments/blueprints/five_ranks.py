"""Hold'em with five ranks and one-card flops, a whole game that CFR+ solves without abstraction.

Twenty cards, of which each player has two, and one each for the flop, the turn and the river.
Blinds of 1 and 2; one bet or raise of the pot on each street, and four are all-in: 2 * 3**4 = 162.
It has the streets of hold'em, and abstractions and re-solving can be held against its solution.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence

from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import progress, status
from experiments.harness.runs import Run
from experiments.tabular import measured_solve
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.rules import Poker
from solvers import cfr, evaluation
from solvers.holdem.subgame_tree import HoldemTree
from solvers.holdem.whole_games import whole_game_tree
from solvers.registry import prepare_cfr

BUTTON = 1  # the player with the small blind
SOLVER = "cfr_plus"
# by another program: exploitability after iterations of its CFR+, and bounds of the game's value to
# the button, in thousandths of a big blind per hand
EXPLOITABILITY = {200: 32.2, 400: 10.7, 1000: 2.76}
VALUE = (294.8, 295.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The game, and how long it is solved."""

    ranks: int = 5
    streets: int = 4
    iterations: int = 1000

    @property
    def game(self) -> Poker:
        """The rules, but for the size of bets."""
        later = self.streets - 1
        return Poker(
            limit=False,
            ranks=self.ranks,
            blinds=(2, 1),
            stack=2 * 3**self.streets,
            first=(BUTTON,) + (0,) * later,
            board=(0,) + (1,) * later,
            raise_sizes=(),
            max_raises=(1,) * self.streets,
        )

    @property
    def is_published(self) -> bool:
        """Whether this is the game that the published numbers are of."""
        return self.game == Config().game


PRESETS = {
    "smoke": Config(ranks=3, streets=2, iterations=20),
    "cpu": Config(),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Solve:
    """The curve, in thousandths of a big blind per hand, and the value in the end."""

    iterations: list[int]
    seconds: list[float]  # in the compiled loop
    exploitability: list[float]
    value: float  # to the button, of both average policies
    least: float  # what the button wins at least with its own, and
    most: float  # what it wins at most against the other one: between them is the game's value


def game_tree(config: Config) -> HoldemTree:
    """The whole game with bets of the pot."""
    pot = BetSizes.parse("100%", "100%")
    return whole_game_tree(config.game, sizes=pot)


def compute(run: Run) -> list[Solve]:
    """The one solve, from its checkpoint on."""
    return run.kept("solve", Solve, functools.partial(_solve, run))


def _solve(run: Run) -> list[Solve]:
    with status("building the tree"):
        tree = game_tree(run.config)
    prepared = prepare_cfr(cfr.make_solver(SOLVER), tree.sequence_form, root_reach=tree.root_reach)
    weight = tree.total_weight * max(run.config.game.blinds) / 1000
    with progress("five ranks", run.config.iterations) as report:
        solve = measured_solve.run(
            prepared,
            measured_solve.Schedule(iterations=run.config.iterations),
            folder=run.checkpoint / "cfr_plus",
            resume=True,
            report=report,
            weight=weight,
            saved=run.meter.keep,
        )
    policy = prepared.average_policy(solve.state)
    best = evaluation.best_response_value(tree.sequence_form, policy, tree.root_reach) / weight
    return [
        Solve(
            iterations=[point.iteration for point in solve.points],
            seconds=[point.seconds for point in solve.points],
            exploitability=[point.exploitability for point in solve.points],
            value=solve.values[BUTTON],
            least=-float(best[1 - BUTTON]),
            most=float(best[BUTTON]),
        )
    ]


def rows(config: Config, solves: Sequence[Solve]) -> Iterator[dict[str, object]]:
    """A row for every point of the curve."""
    (solve,) = solves
    columns = solve.iterations, solve.seconds, solve.exploitability
    for iteration, seconds, exploitability in zip(*columns, strict=True):
        yield {
            "iteration": iteration,
            "seconds": f"{seconds:.6g}",
            "exploitability": f"{exploitability:.6g}",
        }


def numbers(config: Config, solves: Sequence[Solve]) -> Iterator[results.Number]:
    """The exploitability where it is published, and in the end; the value to the button."""
    (solve,) = solves
    published = EXPLOITABILITY if config.is_published else {}
    found = dict(zip(solve.iterations, solve.exploitability, strict=True))
    for count in sorted({*published, config.iterations} & found.keys()):
        yield results.Number(
            name=f"exploitability after {count:,} iterations",
            value=found[count],
            unit="mb/h",
            paper=published.get(count),
        )
    yield results.Number(
        name="value to the button",
        value=solve.value,
        low=solve.least,
        high=solve.most,
        unit="mb/h",
        paper=sum(VALUE) / 2 if config.is_published else None,
    )


def draw(path: pathlib.Path, config: Config, solves: Sequence[Solve]) -> None:
    """Exploitability against iterations."""
    (solve,) = solves
    samples = [[exploitability] for exploitability in solve.exploitability]
    ours = plots.Band(name="CFR+", x=solve.iterations, samples=samples)
    theirs = {"another program's CFR+": EXPLOITABILITY} if config.is_published else {}
    with plots.figure(path, rows=1, columns=1, size=(4.6, 3.2)) as axes:
        plots.bands(axes[0, 0], [ours], published=theirs, x_label="iterations")
        axes[0, 0].set_ylabel("exploitability, mb/h")


def tables(config: Config, solves: Sequence[Solve]) -> Iterator[Table]:
    """The numbers beside the published ones."""
    texts = [
        (
            number.name,
            results.text(number.value),
            "" if number.paper is None else results.text(number.paper),
        )
        for number in numbers(config, solves)
    ]
    headings = ("number", "mb/h", "another program")
    yield text_table("five_ranks: CFR+ without an abstraction", headings, texts)


def deviations(config: Config) -> Sequence[str]:
    """What differs from the published setting, in words."""
    texts = [
        "the numbers beside ours (`paper`) are another program's; its value to the button is given"
        " as 294.8 to 295.0, of which the middle stands here",
        "its CFR+ is not described; ours has alternating updates and linear averages",
    ]
    if not config.is_published:
        texts.append(f"{config.ranks} ranks and {config.streets} streets")
    return texts


COMMAND = Experiment(
    name="five_ranks",
    shown="exploitability by iterations",
    presets=PRESETS,
    preset_docs={
        "smoke": "seconds, of a smaller game",
        "cpu": "the published setting, ten minutes on one core",
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=(
        "exploitability (NashConv / 2) of the average policies of CFR+, and their value to the"
        " button, in thousandths of a big blind per hand"
    ),
    deviations=deviations,
    error_bars="what best responses leave the button, and what its own win: bounds of the value",
)
