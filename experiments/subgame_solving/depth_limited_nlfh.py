"""The answer to an off-tree bet: its exploitability by the number of values per leaf.

Brown, Sandholm and Amos 2018, section 6.1 and Figure 2, in no-limit flop hold'em. The first player
opens with a bet that the blueprint's abstraction does not have. The second player solves the rest
of the first street anew, up to leaves at which the first player chooses among strategies for the
flop, which were generated for the abstraction; after the flop it solves again, safely, to the end:
as the paper says ("plain"), and in further ways of our own. This is compared with action
translation, and with an abstraction that has the bet. The second player's loss is measured exactly,
against a best response of the first player.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from experiments.harness import plots, published, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from experiments.subgame_solving import off_tree_bet
from experiments.subgame_solving.off_tree_bet import (
    PLAIN,
    PRESETS,
    Config,
    OffTreeBet,
    Way,
)
from solvers import evaluation
from solvers.holdem import street_continuations

CONCEDED = "conceded by leaves"  # the row of what the solution of the first street lets the bet win
WITHOUT = "without values"  # the column of what does not depend on the number of values

PAPER = "plain"  # the way that is compared with the paper
WAYS = {
    PAPER: PLAIN,
    "ours, capped": Way(capped=True),
    "ours, with gifts": Way(capped=True, gifts=True),
    "ours, weakened, with gifts": Way(capped=True, gifts=True, weaken=True),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """The loss of an answer to the bet."""

    name: str
    exploitability: float  # chips


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """The time that the parts take once they are compiled, and their sizes."""

    strategy_seconds: float  # to generate one strategy
    street_seconds: float  # to solve the first street with all values
    whole_sequences: int  # of both players, after the bet to the end of the game
    street_sequences: int  # of both players, after the bet to the end of the street, all values


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What is computed."""

    limits: list[Cell]  # that do not depend on the number of values
    costs: Costs
    cells: list[Cell]


def compute(run: Run) -> Outcome:
    """The limits, the costs, and all answers for each number of values."""
    config = run.config
    bet = OffTreeBet(config, run.checkpoint, mesh=run.mesh, saved=run.meter.keep)
    work = config.blueprint + config.reference + bet.work(len(WAYS) * len(config.values))
    with progress("depth_limited_nlfh", work) as report:
        bet.count = counter(report)
        limits = run.kept("limits", Cell, functools.partial(_limits, bet))
        (costs,) = run.kept("costs", Costs, lambda: [_costs(bet)])
        cells = [
            cell
            for count in config.values
            for cell in run.kept(f"values={count}", Cell, functools.partial(_answers, bet, count))
        ]
    return Outcome(limits, costs, cells)


def _limits(bet):
    """The losses that do not depend on the number of values."""
    own = float(jnp.sum(evaluation.best_response_value(bet.tree.sequence_form, bet.blueprint)))
    known = bet.lost_with_bet_known()  # its solve is continued to compute the value of the game
    losses = {
        "translation": bet.lost(bet.translation),
        "in-abstraction": known,
        "blueprint in its abstraction": own / bet.tree.total_weight / 2,
        "uncertainty of the game's value": bet.value[1],
    }
    return [Cell(name=f"{WITHOUT}:{name}", exploitability=lost) for name, lost in losses.items()]


def _costs(bet):
    """Times and sizes with the largest number of values."""
    bet.street(bet.values)  # compiles
    begin = time.perf_counter()
    jax.block_until_ready(bet.street(bet.values))
    street_seconds = time.perf_counter() - begin
    return Costs(
        strategy_seconds=float(np.diff(bet.generated[1]).min()),
        street_seconds=street_seconds,
        whole_sequences=_sequences(bet.answer.sequence_form),
        street_sequences=_sequences(bet.answer_cut.sequence_form),
    )


def _answers(bet, count):
    """What the first street concedes, and the loss of every way to answer, with `count` values."""
    cells = []
    for weaken in sorted({way.weaken for way in WAYS.values()}):
        values = street_continuations.first_values(
            bet.weakened if weaken else bet.values, (count, count)
        )
        street = bet.street(values)
        conceded = f"{CONCEDED}, weakened" if weaken else CONCEDED
        cells.append(_cell(conceded, count, bet.conceded(values, street)))
        for name, way in WAYS.items():
            if way.weaken == weaken:
                cells.append(_cell(name, count, bet.lost(bet.answered(values, street, way))))
    return cells


def _cell(row, count, exploitability):
    return Cell(name=_name(row, count), exploitability=exploitability)


def _name(row, count):
    return f"values={count}:{row}"


def _sequences(tree):
    return sum(player.num_sequences for player in tree.treeplexes)


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Exploitability by the number of values: ours on the left, the paper's on the right."""
    level = {_published_name(cell): _milli(cell) for cell in outcome.limits}
    heights_of = {cell.name: _milli(cell) for cell in outcome.cells}
    ours = [
        plots.Band(
            name=way,
            x=config.values,
            samples=[[heights_of[_name(way, count)]] for count in config.values],
        )
        for way in WAYS
    ]
    known = published.depth_limited_nlfh()
    with plots.figure(path, rows=1, columns=2, size=(9.0, 3.2)) as axes:
        for place, title in zip(axes[0], (_deck(config), "the paper (another game)"), strict=True):
            if place is axes[0, 0]:
                plots.bands(place, ours, published={}, x_label="values per leaf")
                heights = level
            else:
                points = {count: known[f"values={count}"] for count in PRESETS["paper"].values}
                plots.bands(place, [], published={"Figure 2": points}, x_label="values per leaf")
                heights = known
            for name in ("translation", "in-abstraction"):
                plots.level(place, heights[name], name)
            counts = config.values if place is axes[0, 0] else PRESETS["paper"].values
            place.set_xticks(counts, [str(n) for n in counts])
            place.minorticks_off()
            place.set(title=title)
        axes[0, 0].set_ylabel("exploitability (mb/g)")


def _deck(config):
    return f"no-limit flop hold'em, {config.ranks * config.suits} cards"


def _published_name(cell):
    """The name of the paper's number that a cell is compared with, if the paper has it."""
    return cell.name.removesuffix(f":{PAPER}").removeprefix(f"{WITHOUT}:")


def _milli(cell: Cell) -> float:
    """The loss in thousandths of a big blind per game (mb/g)."""
    return 1000 * cell.exploitability / 100


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every cell."""
    for cell in _all_cells(outcome):
        yield {"name": cell.name, "exploitability": f"{_milli(cell):.6g}"}


def _all_cells(outcome: Outcome) -> list[Cell]:
    return [*outcome.limits, *outcome.cells]


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """The losses beside the paper's, the times and the sizes."""
    known = published.depth_limited_nlfh()
    for cell in [*outcome.cells, *outcome.limits]:
        paper = known.get(_published_name(cell))
        yield results.Number(name=cell.name, value=_milli(cell), unit="mb/g", paper=paper)
    costs = outcome.costs
    ratio = costs.whole_sequences / costs.street_sequences
    for name, value, unit in (
        ("time:one strategy generated", costs.strategy_seconds, "s"),
        ("time:first street solved with all values", costs.street_seconds, "s"),
        ("sequences:all after the bet, against the first street", ratio, "times"),
    ):
        yield results.Number(name=name, value=value, unit=unit)


def deviations(config: Config) -> list[str]:
    """Deviations from the paper's setting, in words."""
    return [
        *off_tree_bet.deviations(config),
        "the flop is solved safely on all boards at once, and the opponent may opt out of it before"
        ' the deal, for the value of the leaf in the solution of the first street ("plain": Burch'
        " et al. 2014); the paper solves it safely when the board has been dealt, and does not say"
        " by which of several safe ways, nor for which values. The ways named as ours are"
        " not in the paper; they were added because the results of the plain one get worse with"
        " more values",
        "published numbers are read off Figure 2, which is of the whole deck",
        f"{config.generating:,} iterations of predictive CFR+ for each generated strategy and"
        f" {config.solving:,} for the first street, {config.resolving:,} of CFR+ for the flop (the"
        " paper does not say)",
    ]


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """A line for every cell."""
    lines = [(cell.name, results.text(_milli(cell))) for cell in _all_cells(outcome)]
    yield text_table("depth_limited_nlfh: exploitability", ("answer to the bet", "mb/g"), lines)


COMMAND = Experiment(
    name="depth_limited_nlfh",
    shown="exploitability by the number of values",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "a short deck, less than an hour",
        "paper": "the whole deck, on a GPU",
    },
    batches=lambda config: {},
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure="mb/g that the answer to an off-tree bet of three quarters of the pot loses to a best"
    " response with any first bet, against an equilibrium; the value of the game from below",
    deviations=deviations,
)
