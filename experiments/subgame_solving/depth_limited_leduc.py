"""Depth-limited solving: exploitability by the number of values per leaf.

Brown, Sandholm and Amos 2018, as Figure 2, here in Leduc hold'em. The first round is solved to its
end, where the opponent, or both players, choose among strategies for the second round. The second
round is then played by the blueprint, or solved again: *unsafe*, at the ranges of the first round's
solution, or *safe*, where the opponent may opt out for the value that it had at the leaf. Each
player is the depth-limited one in turn; both policies together are measured exactly.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import time
from collections.abc import Iterator
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from jaxgames.game_tree import GameTree, enumerate_game
from jaxgames.registry import make
from solvers import cfr, evaluation
from solvers.sequence_form import Policy, build_sequence_form
from solvers.subgames import continuations, leaf_values, nested_solving
from solvers.subgames.depth_limited_subgame import Subgame, build_subgame, embed, ends_of_rounds

BELOW = ("blueprint", "unsafe", "safe")  # how the second round is played
_BIAS_FACTORS = (10.0, 0.1, 100.0, 0.01, 3.0, 1 / 3, 30.0, 1 / 30, 1000.0, 1e-3, 300.0)


@dataclasses.dataclass(frozen=True)
class Offer:
    """A line of the figure: the strategies offered at the leaves, and to whom."""

    method: Literal["self-generative", "bias"]
    both: bool = False  # both players choose (as in Pluribus), not the opponent only
    weaken: bool = False  # values of strategies that beat the blueprint are lowered to its value


OFFERS = {
    "self-generative": Offer("self-generative"),
    "self-generative, weakened": Offer("self-generative", weaken=True),
    "bias": Offer("bias"),
    "self-generative, both choose": Offer("self-generative", both=True),
    "bias, both choose": Offer("bias", both=True),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    blueprints: dict[str, int]  # iterations of CFR+, by name
    game: str = "leduc_poker(suit_isomorphism=true)"
    offers: tuple[str, ...] = tuple(OFFERS)
    values: tuple[int, ...] = (1, 2, 4, 8, 16, 32)  # numbers of values at every leaf
    solver: str = "pcfr_plus"
    generating: int = 500  # iterations for each strategy that is generated
    iterations: int = 2000  # for each subgame that is played


PRESETS = {
    "smoke": Config(
        game="leduc_poker(ranks=2,max_raises=1,suit_isomorphism=true)",
        blueprints={"equilibrium": 200},
        offers=("self-generative", "bias"),
        values=(1, 4),
        generating=100,
        iterations=200,
    ),
    "cpu": Config(blueprints={"equilibrium": 1000, "coarse blueprint": 50}),
    "paper": Config(
        game="leduc_poker",
        blueprints={"equilibrium": 10_000, "coarse blueprint": 50},
        generating=2000,
        iterations=10_000,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of the figure."""

    blueprint: str
    offer: str
    below: str
    values: int
    exploitability: float  # NashConv / 2, in chips


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """The time that a depth-limited solution takes, and the share of the game that it solves."""

    blueprints: dict[str, float]  # exploitability of the blueprints, in chips
    generation_seconds: float  # of ten strategies, compiled
    solution_seconds: float  # of the first round with ten values, compiled
    game_histories: int
    trunk_histories: int  # of the first round


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What is computed."""

    cells: list[Cell]
    sizes: Sizes


def compute(run: Run) -> Outcome:
    """A line of cells for every blueprint and offer, and the sizes."""
    config = run.config
    laboratory, cells = _Laboratory(config), []
    names = [(blueprint, offer) for blueprint in config.blueprints for offer in config.offers]
    with progress("depth_limited_leduc", len(names) * len(BELOW)) as report:
        count = counter(report)
        for blueprint, offer in names:
            measure = functools.partial(laboratory.measure, blueprint, offer)
            cells += run.kept(f"{blueprint}-{offer}", Cell, measure)
            count(len(BELOW))
    (sizes,) = run.kept("sizes", Sizes, lambda: [laboratory.sizes()])
    return Outcome(cells, sizes)


class _Laboratory:
    """A game, its blueprints and its subgames."""

    def __init__(self, config: Config):
        self.config, self.solver = config, cfr.make_solver(config.solver)
        self.tree: GameTree = enumerate_game(make(config.game))
        self.game = build_sequence_form(self.tree)
        self.leaves = ends_of_rounds(self.tree)

    @functools.cache  # noqa: B019
    def blueprint(self, name: str) -> Policy:
        """The average policies of CFR+ after the blueprint's number of iterations."""
        iterations = self.config.blueprints[name]
        start = cfr.init(self.game)
        state = cfr.run(self.game, start, solver=cfr.cfr_plus(), num_iterations=iterations)
        return cfr.average_policy(self.game, state)

    def measure(self, blueprint: str, offer: str) -> Iterator[Cell]:
        """One line in each panel of this blueprint."""
        policies = [self._policies(self.blueprint(blueprint), OFFERS[offer], p) for p in range(2)]
        for below in BELOW:
            policy = policies[0][below][0], policies[1][below][1]
            measured = jax.vmap(evaluation.exploitability, (None, 0))(self.game, policy)
            for count, value in zip(self.config.values, measured.tolist(), strict=True):
                yield Cell(
                    blueprint=blueprint,
                    offer=offer,
                    below=below,
                    values=count,
                    exploitability=value,
                )

    def _policies(
        self, blueprint: Policy, offer: Offer, player: int
    ) -> dict[str, tuple[Array, ...]]:
        """Policies of the game, with `player` the depth-limited one.

        Returns:
          By how the second round is played: both players' policies `[n, D, A]`, for each of the n
          numbers of values.
        """
        most = max(self.config.values)
        subgame, paths = self._first_round(_choices(most, player, offer.both))
        offered = self._offered(blueprint, offer, subgame, paths)
        place = np.arange(most)[None, :]
        # For each number of values, that many first strategies; the others repeat the blueprint.
        rows = jnp.asarray(np.where(place < np.array(self.config.values)[:, None], place, 0))

        def solve_trunk(rows):
            chosen = tuple(each if len(each) == 1 else each[rows] for each in offered)
            values = continuations.values_of(subgame, paths, blueprint, chosen, weaken=offer.weaken)
            solution = continuations.solve(
                subgame, values, solver=self.solver, num_iterations=self.config.iterations
            )
            return values, solution, embed(subgame, solution, blueprint)

        values, solution, policy = jax.jit(jax.vmap(solve_trunk))(rows)
        trunk = subgame, paths[0], values, solution, policy
        return {
            "blueprint": policy,
            "unsafe": self._with_second_rounds(trunk, player, "unsafe"),
            "safe": self._with_second_rounds(trunk, player, "resolve"),
        }

    def _with_second_rounds(self, trunk, player, constraint) -> tuple[Array, ...]:
        """The policies of the trunk with all second rounds solved again by `player`."""
        subgame, to_leaves, values, solution, policy = trunk
        composed = policy
        for root in map(int, self.leaves):
            inner, to_root = self._second_round(root)
            promises = None
            if constraint != "unsafe":
                other = 1 - player
                promised = functools.partial(
                    nested_solving.opt_out_values_at_leaves,
                    player=other,
                    states=inner.root_states[other],
                )
                promises = jax.vmap(promised, (None, None, 0, 0, 0))(
                    subgame, to_leaves, values, solution, policy
                )
            composed = _solve_second_round(
                inner,
                to_root,
                policy,
                composed,
                promises,
                resolver=player,
                constraint=constraint,
                solver=self.solver,
                num_iterations=self.config.iterations,
            )
        return composed

    def _offered(self, blueprint, offer, subgame, paths):
        """The strategies that each player may choose among at the leaves, the blueprint first."""
        if offer.method == "bias":
            classes = np.eye(self.game.num_actions, dtype=bool)
            many = (
                continuations.bias_set(rows, classes, factors=_BIAS_FACTORS) for rows in blueprint
            )
            return tuple(rows[:n] for rows, n in zip(many, subgame.choices, strict=True))
        return continuations.self_generated(
            self.game,
            subgame,
            paths,
            blueprint,
            solver=self.solver,
            num_iterations=self.config.generating,
            weaken=offer.weaken,
        )

    @functools.cache  # noqa: B019
    def _first_round(self, choices):
        """The first round as a subgame with `choices` at its leaves, and the paths there."""
        subgame = build_subgame(self.tree, self.leaves, choices=choices)
        return subgame, (
            leaf_values.paths_to_leaves(self.tree, subgame),
            leaf_values.paths_from_leaves(self.tree, subgame),
        )

    @functools.cache  # noqa: B019
    def _second_round(self, root):
        """The subgame at a public state that begins the second round, and the paths there."""
        subgame = build_subgame(self.tree, [], root=root)
        return subgame, nested_solving.paths_to_root(self.tree, subgame)

    def sizes(self) -> Sizes:
        """The time of the first player's solution with ten values, and the sizes of the trees."""
        blueprint = self.blueprint(next(iter(self.config.blueprints)))
        subgame, paths = self._first_round(_choices(10, 0, False))
        generate = functools.partial(
            self._offered, blueprint, OFFERS["self-generative"], subgame, paths
        )
        offered = generate()
        values = continuations.values_of(subgame, paths, blueprint, offered)
        solve = jax.jit(continuations.solve, static_argnames="solver")
        return Sizes(
            blueprints={
                name: float(evaluation.exploitability(self.game, self.blueprint(name)))
                for name in self.config.blueprints
            },
            generation_seconds=_seconds(generate),
            solution_seconds=_seconds(
                lambda: solve(
                    subgame, values, solver=self.solver, num_iterations=self.config.iterations
                )
            ),
            game_histories=self.tree.num_histories,
            trunk_histories=_num_above(self.tree, np.asarray(subgame.leaf_history)),
        )


def _choices(count: int, player: int, both: bool) -> tuple[int, int]:
    return tuple(count if both or p != player else 1 for p in range(2))


@functools.partial(jax.jit, static_argnames=("resolver", "constraint", "solver", "num_iterations"))
def _solve_second_round(inner: Subgame, to_root, policies, composed, promises, **how):
    """Policies of the game with the subgame of one root solved again.

    Args:
      inner: the subgame.
      to_root: the paths from the game's root to the subgame's.
      policies: of the game, `[n, D, A]`, at whose ranges the subgame is solved.
      composed: policies of the game, `[n, D, A]`, in which the solution is put.
      promises: the opponent's values at the leaves of the first round; None to solve unsafely.
      **how: `resolver`, `constraint`, `solver` and `num_iterations`.
    """

    def solve_subgame(policy, before, promised):
        solution = nested_solving.resolve(
            inner,
            jnp.zeros((0, 1, 1), inner.form.dtype),
            nested_solving.ranges(to_root, policy),
            promised,
            **how,
        )
        return embed(inner, solution, before)

    axes = (0, 0, None if promises is None else 0)
    return jax.vmap(solve_subgame, in_axes=axes)(policies, composed, promises)


def _num_above(tree: GameTree, leaves: np.ndarray) -> int:
    """The number of histories that are not below leaves."""
    below = np.zeros(tree.num_histories, bool)
    is_leaf = np.isin(np.arange(tree.num_histories), leaves)
    for row in range(1, tree.num_histories):  # parents come first
        below[row] = below[tree.parent[row]] | is_leaf[tree.parent[row]]
    return int((~below).sum())


def _seconds(function) -> float:
    """The least of three times, after one for compilation."""
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """A row of panels per blueprint, a column per way to play the second round."""
    cells, sizes = outcome.cells, outcome.sizes
    rows = len(config.blueprints)
    with plots.figure(path, rows=rows, columns=3, size=(9.6, 2.9 * rows)) as axes:
        for row, blueprint in zip(axes, config.blueprints, strict=True):
            heights = [cell.exploitability for cell in cells if cell.blueprint == blueprint]
            for place, below in zip(row, BELOW, strict=True):
                lines = [_band(cells, blueprint, offer, below) for offer in config.offers]
                plots.bands(place, lines, published={}, x_label="values per leaf")
                level = 1000 * sizes.blueprints[blueprint]
                plots.level(place, level, "the blueprint")
                place.set_xticks(config.values, [str(n) for n in config.values])
                place.minorticks_off()
                place.set_ylim(500 * min(*heights, level / 1000), 2000 * max(heights))
                played = "by the blueprint" if below == "blueprint" else f"re-solved, {below}"
                place.set_title(f"round two {played}")
            row[0].set_ylabel(f"{blueprint}: exploitability (mbb/h)")


def _band(cells, blueprint, offer, below) -> plots.Band:
    key = (blueprint, offer, below)
    line = [cell for cell in cells if (cell.blueprint, cell.offer, cell.below) == key]
    return plots.Band(
        name=offer,
        x=[cell.values for cell in line],
        samples=[[1000 * cell.exploitability] for cell in line],
    )


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every cell."""
    for cell in outcome.cells:
        yield dataclasses.asdict(cell) | {"exploitability": f"{cell.exploitability:.6g}"}


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """A number for every cell, then the blueprints', the times and the sizes."""
    for cell in outcome.cells:
        row = f"{cell.blueprint}, {cell.offer}, then {cell.below}"
        yield results.Number(
            name=f"values={cell.values}:{row}", value=1000 * cell.exploitability, unit="mbb/h"
        )
    sizes = outcome.sizes
    for name, value in sizes.blueprints.items():
        yield results.Number(name=f"no solving:{name}", value=1000 * value, unit="mbb/h")
    for name, value in (
        ("ten strategies generated", sizes.generation_seconds),
        ("round one solved with ten values", sizes.solution_seconds),
    ):
        yield results.Number(name=f"time:{name}", value=value, unit="s")
    for name, value in (
        ("the game", sizes.game_histories),
        ("round one", sizes.trunk_histories),
    ):
        yield results.Number(name=f"histories:{name}", value=float(value), unit="histories")


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """A line for every blueprint, offer and way to play the second round."""
    lines: dict[str, list[str]] = {}
    for cell in outcome.cells:
        name = f"{cell.blueprint}, {cell.offer}, {cell.below}"
        lines.setdefault(name, [name]).append(results.text(1000 * cell.exploitability))
    title = "depth_limited_leduc: exploitability (NashConv / 2), mbb/h"
    yield text_table(title, ("blueprint, offer, then", *map(str, config.values)), lines.values())


COMMAND = Experiment(
    name="depth_limited_leduc",
    shown="exploitability by the number of values",
    presets=PRESETS,
    preset_docs={
        "smoke": "seconds",
        "cpu": "minutes",
        "paper": "with all suits and more iterations",
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure="exploitability (NashConv / 2) in mbb/h: round one solved with so many values per leaf,"
    " from a blueprint, round two played by it or solved again",
    deviations=(
        "the paper's Figure 2 is of flop hold'em and an off-tree bet (see depth_limited_nlfh);"
        " Leduc hold'em, the coarse blueprint and unsafe solving of round two are ours",
        "beyond the paper's four biased strategies, the probabilities are multiplied by other"
        " factors than 10, which are ours",
        "the rows in which both players choose are Pluribus's version, those with weakened values a"
        " remedy that this paper only mentions",
    ),
)
