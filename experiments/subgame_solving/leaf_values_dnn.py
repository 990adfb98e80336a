"""Learned leaf values (Brown, Sandholm and Amos 2018, appendix), in no-limit flop hold'em.

At the end of the first street the first player chooses among four strategies: the blueprint, and
the blueprint biased towards folding, calling and raising. A network learns the value of a leaf
under each of them, from examples of a leaf and a hand of each player. The second player then
answers an off-tree bet with the network's values of the leaves, with exact values, and with values
on a few boards (see `depth_limited_nlfh`).
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from experiments.subgame_solving import off_tree_bet
from experiments.subgame_solving.off_tree_bet import OffTreeBet
from jaxgames.holdem.betting_tree import descendants
from nets.leaf_value_network import leaf_features
from solvers.holdem import street_continuations, street_leaf_values
from solvers.holdem.hand_classes import pair_sums
from solvers.holdem.street_boards import disjoint_hands
from train import leaf_value_regression

_STRATEGIES = 4
_HELD_OUT = 10  # one of ten examples is held out for the test


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    nlfh: off_tree_bet.Config
    examples: tuple[int, ...] = tuple(10**power for power in range(3, 8))  # before each test
    batch: int = 256
    learning_rate: float = 1e-3
    boards: tuple[int, ...] = (1, 3, 10)  # numbers of boards that values are sampled on
    seed: int = 0


def _nlfh(preset):
    return dataclasses.replace(off_tree_bet.PRESETS[preset], values=(_STRATEGIES,))


PRESETS = {
    "smoke": Config(nlfh=_nlfh("smoke"), examples=(1000, 10_000), boards=(1,)),
    "cpu": Config(nlfh=_nlfh("cpu"), examples=(1000, 10_000, 100_000, 1_000_000)),
    "paper": Config(
        nlfh=_nlfh("paper"),
        examples=(10**4, 10**5, 10**6, 10**7, 180 * 10**6),  # the last is the paper's
        batch=4096,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """The loss of the network after a number of examples."""

    examples: int
    loss: float  # Huber loss of the held-out examples, of values as fractions of the pot


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """What the bet wins against an answer, beyond the best other first action."""

    name: str
    won: float  # chips


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What is computed."""

    points: list[Point]
    cells: list[Cell]


def compute(run: Run) -> Outcome:
    """Trains the network, and answers the bet with all kinds of values."""
    config = run.config
    bet = OffTreeBet(config.nlfh, run.checkpoint, saved=run.meter.keep)
    lesson = _Lesson(config, bet)
    work = config.nlfh.blueprint + bet.work(2 + len(config.boards))
    with progress("leaf_values_dnn", work) as report:
        bet.count = counter(report)
        points = run.kept("loss", Point, lambda: lesson.points)
        cells = run.kept("exact", Cell, lesson.exact)
        cells += run.kept("network", Cell, lesson.network)
        for count in config.boards:
            cells += run.kept(f"boards={count}", Cell, functools.partial(lesson.sampled, count))
    return Outcome(points, cells)


class _Lesson:
    """The examples, the network that learns from them, and answers to the bet."""

    def __init__(self, config: Config, bet: OffTreeBet):
        self.config, self.bet = config, bet
        self.below = street_leaf_values.below_leaves(bet.cut)

    @functools.cached_property
    def values(self) -> Float[Array, "L n0 n1 C0 C1"]:
        """Exact values of the leaves of the abstraction."""
        return self._under(self.below)

    def exact(self) -> list[Cell]:
        """The answer with exact values."""
        return [self._answered("exact values", self.bet.transferred(self.values))]

    def sampled(self, count: int) -> list[Cell]:
        """The answer with values on `count` random boards."""
        key = jax.random.fold_in(jax.random.key(self.config.seed), count)
        values = self._under(street_leaf_values.sampled_boards(self.below, key, count))
        return [self._answered(f"values on {count} boards", self.bet.transferred(values))]

    def network(self) -> list[Cell]:
        """The answer with the network's values of the leaves after the bet."""
        bet, cut = self.bet, self.bet.answer_cut
        leaves = descendants(bet.whole.betting, bet.made)[cut.leaves]
        graph, state = self._learned[1]
        features = self._features(bet.whole.betting, leaves)
        fractions = nnx.merge(graph, state.params)(features)  # of the pot
        pots = bet.whole.betting.pot + bet.whole.betting.paid[leaves].sum(axis=1)
        values = np.moveaxis(np.asarray(fractions), -1, 1) * pots[:, None, None, None] * self._pairs
        values = values.reshape(len(leaves), *cut.choices, *cut.num_classes)
        return [self._answered("network", jnp.asarray(values, jnp.float32))]

    @property
    def points(self) -> list[Point]:
        """Loss by the number of examples."""
        return self._learned[0]

    @functools.cached_property
    def _learned(self):
        """The loss by the number of examples, and the network and the state after training."""
        config, bet = self.config, self.bet
        features = self._features(bet.tree.betting, bet.cut.leaves)
        features = features.reshape(-1, features.shape[-1])
        targets = np.moveaxis(self._targets, 1, -1).reshape(-1, _STRATEGIES)
        known = np.flatnonzero(np.broadcast_to(self._pairs, self._targets[:, 0].shape))
        order = np.random.default_rng(config.seed).permutation(known)
        test, seen = order[: len(order) // _HELD_OUT], order[len(order) // _HELD_OUT :]
        features, targets = jnp.asarray(features), jnp.asarray(targets, jnp.float32)
        start, key = jax.random.split(jax.random.key(config.seed))
        graph, state = leaf_value_regression.init(
            features.shape[1], _STRATEGIES, start, learning_rate=config.learning_rate
        )
        points, done = [], 0
        for count in config.examples:
            steps = count // config.batch - done
            state = leaf_value_regression.train_steps(
                graph,
                state,
                features[seen],
                targets[seen],
                jax.random.fold_in(key, count),
                num_steps=steps,
                batch=config.batch,
                learning_rate=config.learning_rate,
            )
            done += steps
            loss = leaf_value_regression.huber_loss(
                graph, state.params, features[test], targets[test]
            )
            points.append(Point(examples=count, loss=float(loss)))
        return points, (graph, state)

    @functools.cached_property
    def _pairs(self):
        """The number of pairs of hands in each pair of classes, `[C_0, C_1]`."""
        cut = self.bet.cut
        return pair_sums(disjoint_hands(*self.bet.tree.hands).astype(float), cut.classes)

    @property
    def _targets(self):
        """The mean values of the leaves as fractions of the pot, `[L, 4, C_0, C_1]`."""
        betting = self.bet.tree.betting
        pots = betting.pot + betting.paid[self.bet.cut.leaves].sum(axis=1)
        values = np.asarray(self.values).reshape(len(pots), _STRATEGIES, *self._pairs.shape)
        return values / np.maximum(self._pairs, 1) / pots[:, None, None, None]

    def _features(self, betting, leaves):
        """The network's inputs for leaves and pairs of classes of hands."""
        hands = tuple(
            held[np.unique(of_hand, return_index=True)[1]]
            for held, of_hand in zip(self.bet.tree.hands, self.bet.cut.classes, strict=True)
        )
        return leaf_features(betting, leaves, hands, ranks=self.config.nlfh.ranks)

    def _under(self, boards):
        """The values of the leaves under the four strategies, on these boards."""
        bet = self.bet
        strategies = [rows[None] for rows in bet.blueprint]
        strategies[bet.opponent] = street_continuations.biased_policies(
            bet.tree, bet.blueprint, player=bet.opponent
        )
        return street_continuations.pairwise_leaf_values(bet.cut, boards, tuple(strategies))

    def _answered(self, name, values):
        """The cell of the answer with these values."""
        answer = self.bet.answered(values, self.bet.street(values))
        return Cell(name=name, won=self.bet.won_by_bet(answer))


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Loss by the number of examples."""
    line = plots.Band(
        name="held-out leaves",
        x=[point.examples for point in outcome.points],
        samples=[[point.loss] for point in outcome.points],
    )
    with plots.figure(path, rows=1, columns=1, size=(4.6, 3.2)) as axes:
        plots.bands(axes[0, 0], [line], published={}, x_label="examples")
        plots.level(axes[0, 0], _PAPER_LOSS, "the paper, after 180 million (another game)")
        axes[0, 0].set(title="leaf values, learned", ylabel="Huber loss (fractions of the pot)")
        axes[0, 0].get_legend().remove()


_PAPER_LOSS = 0.02


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every point."""
    return map(dataclasses.asdict, outcome.points)


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """The losses, and what the bet wins against each answer."""
    for point in outcome.points:
        name = f"loss:{point.examples:,} examples"
        yield results.Number(name=name, value=point.loss, unit="Huber loss")
    for cell in outcome.cells:
        yield results.Number(name=cell.name, value=10 * cell.won, unit="mb/g")


def deviations(config: Config) -> list[str]:
    """Deviations from the paper's setting, in words."""
    return [
        *off_tree_bet.deviations(config.nlfh),
        "features of our own: the paper's 34 are not published",
    ]


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """The losses, and what the bet wins against each answer."""
    lines = [
        *((f"{point.examples:,} examples", results.text(point.loss)) for point in outcome.points),
        *((cell.name, results.text(10 * cell.won)) for cell in outcome.cells),
    ]
    yield text_table("loss by examples; mb/g by values", ("leaf_values_dnn", ""), lines)


COMMAND = Experiment(
    name="leaf_values_dnn",
    shown="the loss by the number of examples",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "a short deck, less than an hour",
        "paper": "the whole deck, on a GPU",
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure="Huber loss of values at leaves that were not seen, as fractions of the pot, by"
    " examples; and mb/g that an off-tree bet wins, beyond the best other first action, against the"
    " answer with these values at its leaves",
    deviations=deviations,
)
