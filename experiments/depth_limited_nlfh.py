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
from collections.abc import Callable, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from rich.console import Console
from rich.table import Table

from experiments import plots, published, results
from experiments.large_solves import large_solve
from experiments.progress import counter, progress
from experiments.runs import Run, RunArguments
from jaxgames.holdem.betting import betting_of_rules, with_bet
from jaxgames.holdem.rules import Poker
from jaxgames.holdem.sizes import Sizes
from jaxgames.holdem.translation import translate_bet
from solvers import cfr, evaluation
from solvers.holdem import leaf_values, nested
from solvers.holdem.depth_limited import PartPolicy, cut_street, part_of, transferred
from solvers.holdem.game import game_tree
from solvers.holdem.translated import translated
from solvers.holdem.tree import HoldemTree
from solvers.public_tree import Policy

_BLUEPRINT = cfr.cfr_plus()
_STREET = cfr.pcfr_plus()  # the cut street is small: what converges best

CONCEDED = "conceded by leaves"  # what the first street allows the bet to win
WITHOUT = "without values"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """To answer the bet. The opponent may opt out of the flop for what a leaf was worth before."""

    capped: bool = True  # but for less where the bet would be better than other first actions
    gifts: bool = False  # and for more where it would be worse (see `nested.promised`)
    weaken: bool = False  # strategies to choose from do not beat the blueprint


MAIN = "capped"  # the bet is no better than what is in the abstraction: the paper's section 5
WAYS = {
    MAIN: Way(),
    "plain": Way(capped=False),
    "with gifts": Way(gifts=True),
    "weakened, with gifts": Way(gifts=True, weaken=True),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    ranks: int = 13
    suits: int = 4
    stack: int = 20_000
    max_raises: tuple[int, int] = (3, 2)  # bets included, before and after the flop
    sizes: str = "50%,100%"  # of the abstraction, for bets and raises
    off_tree: float = 0.75  # of the pot
    values: tuple[int, ...] = (1, 2, 4, 8, 16, 32)  # at every leaf
    blueprint: int = 1000  # iterations of CFR+
    reference: int = 3000  # for the value of the game
    generating: int = 1000  # for each strategy that is generated
    solving: int = 2000  # for the first street
    resolving: int = 1000  # for the flop
    storage: str = "full"  # of the large solves (see `cfr.init`)
    form: str | None = None  # of showdowns (see `holdem_tree`)
    save_seconds: float = 300.0  # between two checkpoints of a solve

    @property
    def game(self) -> Poker:
        """Its rules."""
        return Poker(
            limit=False,
            ranks=self.ranks,
            suits=self.suits,
            blinds=(100, 50),
            stack=self.stack,
            first=(1, 0),
            max_raises=self.max_raises,
            board=(0, 3),
        )


PRESETS = {
    "smoke": Config(
        ranks=2,
        max_raises=(1, 1),
        values=(1, 2),
        blueprint=50,
        reference=100,
        generating=50,
        solving=100,
        resolving=50,
    ),
    "cpu": Config(ranks=6, max_raises=(2, 1), reference=2000, generating=500, solving=1000),
    "paper": Config(max_raises=(3, 1), storage="int16", form="ranks"),
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
    bench = Bench(config, run.checkpoint)
    work = config.blueprint + config.reference + bench.work(len(WAYS) * len(config.values))
    with progress("depth_limited_nlfh", work) as report:
        bench.count = counter(report)
        limits = run.kept("limits", Cell, bench.limits)
        (costs,) = run.kept("costs", Costs, lambda: [bench.costs()])
        cells = [
            cell
            for count in config.values
            for cell in run.kept(f"values={count}", Cell, functools.partial(bench.solved, count))
        ]
    results.write_csv(run.out / "curve.csv", list(map(_row, [*limits, *cells])))
    draw(run.out / "curve.png", config, limits, cells)
    run.finish(
        [*map(_number, [*cells, *limits]), *_cost_numbers(costs)],
        measure=_MEASURE,
        deviations=deviations(config),
    )
    _print([*limits, *cells])


class Bench:
    """The trees, and what is solved of them. The opponent bets, the other one answers."""

    def __init__(self, config: Config, folder: pathlib.Path):
        self.config, self.folder = config, folder
        self.count: Callable[[int], None] = lambda more: None  # moves the bar
        sizes = Sizes.parse(config.sizes, config.sizes)
        abstract = betting_of_rules(config.game, sizes=sizes)
        self.opponent = int(abstract.actor[0])
        self.resolver = 1 - self.opponent
        stakes = int(abstract.paid[0].max())
        bet = stakes + int(2 * stakes * config.off_tree)
        betting = with_bet(abstract, 0, bet)
        self.tree = game_tree(config.game, betting=abstract, form=config.form)
        self.whole = game_tree(config.game, betting=betting, form=config.form)
        children = betting.child[0]
        (made,) = children[betting.paid[children, self.opponent] == bet]
        self.made = int(made)
        self.answer = part_of(self.whole, self.made).tree
        self.taken_for = {
            int(abstract.child[0, action]): float(share)
            for action, share in enumerate(translate_bet(abstract, 0, bet))
            if share > 0
        }
        most = max(config.values)
        choices = (most, 1) if self.opponent == 0 else (1, most)
        self.cut = cut_street(self.tree, choices=choices)
        self.answer_cut = cut_street(self.answer, choices=choices)

    def work(self, answers: int) -> int:
        """Iterations of so many answers."""
        return len(self.answer_cut.leaves) * answers * self.config.resolving

    def limits(self) -> list[Cell]:
        """What does not depend on the number of values."""
        own = float(jnp.sum(evaluation.best_response_value(self.tree.public, self.blueprint)))
        had = self._solution("in-abstraction", self.whole, self.config.blueprint)
        lost = evaluation.best_response_value(self.whole.public, had)[self.opponent]
        value, gap = self.value
        total = self.tree.total
        found = {
            "translation": self._lost(self.translation),
            "in-abstraction": float(lost) / total - value,
            "blueprint in its abstraction": own / total / 2,
            "uncertainty of the game's value": gap,
        }
        return [
            Cell(name=f"{WITHOUT}:{name}", exploitability=number) for name, number in found.items()
        ]

    @functools.cached_property
    def value(self) -> tuple[float, float]:
        """What the opponent can be sure of in the whole game, in chips, and how much more it may
        be."""
        policy = self._solution(
            "in-abstraction", self.whole, self.config.reference, since=self.config.blueprint
        )
        best = evaluation.best_response_value(self.whole.public, policy) / self.whole.total
        return -float(best[self.resolver]), float(jnp.sum(best))

    @functools.cached_property
    def blueprint(self) -> Policy:
        """Of the abstraction."""
        return self._solution("blueprint", self.tree, self.config.blueprint)

    @functools.cached_property
    def translation(self) -> Policy:
        """Answers as to the bets that the blueprint knows."""
        return translated(self.answer, self.tree, self.blueprint, self.taken_for)

    @functools.cached_property
    def elsewhere(self) -> Array:
        """Best values of the opponent's hands with other first actions, against the blueprint."""
        found = evaluation.root_best_response_values(self.tree.public, self.blueprint)
        return found[self.opponent]

    @functools.cached_property
    def values(self) -> Float[Array, "L n0 n1 C0 C1"]:
        """At the leaves after the bet: the mean of those after the bets it is taken for."""
        return self.transferred(self._generated[0])

    @functools.cached_property
    def weakened(self) -> Float[Array, "L n0 n1 C0 C1"]:
        """The same of strategies that do not beat the blueprint."""
        values = nested.weakened(self.cut, self._generated[0], self.blueprint)
        return self.transferred(values)

    def transferred(self, values: Float[Array, "L n0 n1 C0 C1"]) -> Float[Array, "_ n0 n1 C0 C1"]:
        """Values at the leaves after the bet, from those at the leaves of the abstraction."""
        even = dict.fromkeys(self.taken_for, 1 / len(self.taken_for))
        return transferred(self.answer_cut, self.cut, values, even)

    @functools.cached_property
    def _generated(self):
        """Values at the leaves of the abstraction; and the times when each strategy was found."""
        from solvers import checkpoint  # imports Orbax

        folder, identity = self.folder / "leaf_values", {"config": repr(self.config)}
        shape = len(self.cut.leaves), *self.cut.choices, *self.cut.num_classes
        template = (
            jax.ShapeDtypeStruct(shape, self.tree.public.dtype),
            jax.ShapeDtypeStruct((max(self.cut.choices),), np.float64),
        )
        if folder.exists():
            return checkpoint.read(folder, template, identity=identity)
        times: list[float] = []
        values = nested.generated(
            self.cut,
            leaf_values.below_leaves(self.cut),
            self.blueprint,
            solver=_STREET,
            num_iterations=self.config.generating,
            report=lambda _: times.append(time.perf_counter()),
        )
        found = values, np.array(times)
        checkpoint.write(folder, found, identity=identity)
        return found

    def costs(self) -> Costs:
        """Seconds and sizes."""
        self.street(self.values)  # compiles
        begin = time.perf_counter()
        jax.block_until_ready(self.street(self.values))
        street_seconds = time.perf_counter() - begin
        return Costs(
            strategy_seconds=float(np.diff(self._generated[1]).min()),
            street_seconds=street_seconds,
            whole_sequences=_sequences(self.answer.public),
            street_sequences=_sequences(self.answer_cut.public),
        )

    def solved(self, count: int) -> list[Cell]:
        """The answers with so many values per leaf."""
        found = []
        for weaken in sorted({way.weaken for way in WAYS.values()}):
            values = self.weakened if weaken else self.values
            values = nested.first_values(values, (count, count))
            street = self.street(values)
            game = self.answer_cut.with_values(values)
            after = evaluation.root_best_response_values(game, street)[self.opponent]
            gain = self._gain(self.answer_cut.of_hands(after, self.opponent))
            conceded = f"{CONCEDED}, weakened" if weaken else CONCEDED
            found.append(Cell(name=_name(conceded, count), exploitability=gain))
            for name, way in WAYS.items():
                if way.weaken == weaken:
                    lost = self._lost(self.answered(values, street, way))
                    found.append(Cell(name=_name(name, count), exploitability=lost))
        return found

    def answered(
        self, values: Float[Array, "L n0 n1 C0 C1"], street: PartPolicy, way: Way = WAYS[MAIN]
    ) -> Policy:
        """The answer with these values at its leaves: `street` until there, then the flop solved
        after each leaf."""
        policy = self.answer_cut.embed(street, self.translation)
        promises = nested.promised(
            self.answer_cut,
            values,
            street,
            resolver=self.resolver,
            opt_out=self.elsewhere if way.capped else None,
            gifts=way.gifts,
        )
        for leaf, opt_out, reach in zip(self.answer_cut.leaves.tolist(), *promises, strict=True):
            part = part_of(self.answer, leaf)
            below = nested.solve_below(
                part,
                opt_out,
                reach,
                resolver=self.resolver,
                solver=_resolving(self.config.resolving),
                num_iterations=self.config.resolving,
            )
            policy = part.embed(below, policy)
            self.count(self.config.resolving)
        return policy

    def street(self, values: Float[Array, "L n0 n1 C0 C1"]) -> PartPolicy:
        """The first street, up to leaves with these values."""
        return nested.solve_street(
            self.answer_cut,
            values,
            self.elsewhere,
            resolver=self.resolver,
            solver=_STREET,
            num_iterations=self.config.solving,
        )

    def _lost(self, policy) -> float:
        """By an answer, in chips: what the opponent gets with its best first action of all, more
        than the game is worth."""
        before = float(jnp.sum(self.elsewhere)) / self.tree.total
        return before + self.won_by_bet(policy) - self.value[0]

    def won_by_bet(self, answer: Policy) -> float:
        """What the opponent gets with the bet, in chips, more than with its best other action."""
        found = evaluation.root_best_response_values(self.answer.public, answer)[self.opponent]
        return self._gain(found)

    def _gain(self, after):
        return float(jnp.sum(jnp.maximum(after - self.elsewhere, 0))) / self.tree.total

    def _solution(
        self, name: str, tree: HoldemTree, num_iterations: int, *, since: int | None = None
    ) -> Policy:
        """By CFR+, from the last checkpoint on, or that after `since` iterations."""
        return large_solve(
            tree,
            self.folder / f"{name}_{num_iterations}",
            solver=_BLUEPRINT,
            num_iterations=num_iterations,
            identity=repr(self.config),
            since=None if since is None else self.folder / f"{name}_{since}",
            storage=self.config.storage,
            save_seconds=self.config.save_seconds,
            report=self.count,
        )


def _name(row, count):
    return f"values={count}:{row}"


def _resolving(num_iterations):
    """CFR+ of the paper's appendix."""
    return cfr.cfr_plus(delay=num_iterations // 2, discounted=min(30, num_iterations // 2))


def _sequences(tree):
    return sum(player.num_sequences for player in tree.players)


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


def deviations(config: Config) -> list[str]:
    """From the published setting, in words."""
    found = [
        f"at most {config.max_raises[0]} raises before the flop and {config.max_raises[1]} after it"
    ]
    if config.ranks != 13:
        found.insert(0, f"a deck of {config.ranks} ranks and {config.suits} suits")
    if config.blueprint != 1000:
        found.append(f"a blueprint of {config.blueprint:,} iterations instead of 1,000")
    return found


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
