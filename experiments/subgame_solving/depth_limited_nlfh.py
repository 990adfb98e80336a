"""How exploitable the answer to an off-tree bet is, by the number of values per leaf (Brown,
Sandholm and Amos 2018, section 6.1 and Figure 2): no-limit flop hold'em.

The first player opens with a bet that the blueprint's abstraction does not have. The second one
solves the rest of the first street anew, up to leaves at which the first one chooses among
strategies for the flop, which were generated for the abstraction; after the flop it solves again,
safely, to the end, in several ways. Beside it stand action translation, and the bet known to the
abstraction. What the second player loses is measured exactly, over all that the first one may do.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import time
from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, published, results
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run, RunArguments
from experiments.subgame_solving.off_tree_bet import (
    CAPPED,
    PRESETS,
    Config,
    OffTreeBet,
    Way,
    deviations,
)
from solvers import evaluation
from solvers.holdem import street_continuations

CONCEDED = "conceded by leaves"  # what the first street allows the bet to win
WITHOUT = "without values"

MAIN = "capped"
WAYS = {
    MAIN: CAPPED,
    "plain": Way(capped=False),
    "with gifts": Way(gifts=True),
    "weakened, with gifts": Way(gifts=True, weaken=True),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Measure answers to an off-tree bet in no-limit flop hold'em by the number of values per leaf.

    Writes exploitability by the number of values as curve.csv and curve.png, and result.json, into
    --out. Ctrl-C keeps what is finished there, from which --resume continues to the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: a minute; cpu: a short deck, less than an hour; paper: the whole deck, on a GPU."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """How much an answer to the bet loses."""

    name: str
    exploitability: float  # chips


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """What it costs, compiled, and how large it is."""

    strategy_seconds: float  # to generate one
    street_seconds: float  # to solve the first street with all values
    whole_sequences: int  # of both players, in all that follows the bet
    street_sequences: int  # in the first street of it, with all values


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="depth_limited_nlfh", command=command)
    bet = OffTreeBet(config, run.checkpoint)
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
    results.write_csv(run.out / "curve.csv", list(map(_row, [*limits, *cells])))
    draw(run.out / "curve.png", config, limits, cells)
    run.finish(
        [*map(_number, [*cells, *limits]), *_cost_numbers(costs)],
        measure=_MEASURE,
        deviations=deviations(config),
    )
    _print([*limits, *cells])


def _limits(bet):
    """What does not depend on the number of values."""
    own = float(jnp.sum(evaluation.best_response_value(bet.tree.sequence_form, bet.blueprint)))
    known = bet.lost_with_bet_known()  # on from there the value of the game is computed
    found = {
        "translation": bet.lost(bet.translation),
        "in-abstraction": known,
        "blueprint in its abstraction": own / bet.tree.total_weight / 2,
        "uncertainty of the game's value": bet.value[1],
    }
    return [Cell(name=f"{WITHOUT}:{name}", exploitability=lost) for name, lost in found.items()]


def _costs(bet):
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
    """All with so many values per leaf."""
    found = []
    for weaken in sorted({way.weaken for way in WAYS.values()}):
        values = street_continuations.first_values(
            bet.weakened if weaken else bet.values, (count, count)
        )
        street = bet.street(values)
        conceded = f"{CONCEDED}, weakened" if weaken else CONCEDED
        found.append(_cell(conceded, count, bet.conceded(values, street)))
        for name, way in WAYS.items():
            if way.weaken == weaken:
                found.append(_cell(name, count, bet.lost(bet.answered(values, street, way))))
    return found


def _cell(row, count, exploitability):
    return Cell(name=_name(row, count), exploitability=exploitability)


def _name(row, count):
    return f"values={count}:{row}"


def _sequences(tree):
    return sum(player.num_sequences for player in tree.treeplexes)


def draw(path: pathlib.Path, config: Config, limits: Sequence[Cell], cells: Sequence[Cell]) -> None:
    """Ours and the paper's, by the number of values."""
    level = {_published_name(cell): _milli(cell) for cell in limits}
    found = {cell.name: _milli(cell) for cell in cells}
    ours = [
        plots.Band(
            name=way,
            x=config.values,
            samples=[[found[_name(way, count)]] for count in config.values],
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
            place.get_legend().remove()
        axes[0, 0].set_ylabel("exploitability (mb/g)")
        axes[0, 0].legend(loc="lower left", bbox_to_anchor=(0, 0.08), frameon=False, fontsize=7)


_MEASURE = (
    "mb/g that the answer to an off-tree bet of three quarters of the pot loses to a best response"
    " with any first bet, against an equilibrium; the value of the game from below"
)


def _deck(config):
    return f"no-limit flop hold'em, {config.ranks * config.suits} cards"


def _published_name(cell):
    return cell.name.removesuffix(f":{MAIN}").removeprefix(f"{WITHOUT}:")


def _milli(cell: Cell) -> float:
    """mb/g"""
    return 1000 * cell.exploitability / 100


def _row(cell: Cell) -> dict[str, object]:
    return {"name": cell.name, "exploitability": f"{_milli(cell):.6g}"}


def _number(cell: Cell) -> results.Number:
    paper = published.depth_limited_nlfh().get(_published_name(cell))
    return results.Number(name=cell.name, value=_milli(cell), unit="mb/g", paper=paper)


def _cost_numbers(costs: Costs) -> list[results.Number]:
    ratio = costs.whole_sequences / costs.street_sequences
    found = (
        ("time:one strategy generated", costs.strategy_seconds, "s"),
        ("time:first street solved with all values", costs.street_seconds, "s"),
        ("sequences:all after the bet, against the first street", ratio, "times"),
    )
    return [results.Number(name=name, value=value, unit=unit) for name, value, unit in found]


def _print(cells: Sequence[Cell]) -> None:
    table = Table("answer to the bet", "mb/g", title="depth_limited_nlfh: exploitability")
    for cell in cells:
        table.add_row(cell.name, results.text(_milli(cell)))
    Console().print(table)
