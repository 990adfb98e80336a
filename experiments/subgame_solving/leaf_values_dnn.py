"""Learned leaf values (Brown, Sandholm and Amos 2018, appendix), in no-limit flop hold'em.

At the end of the first street the first player chooses among four strategies: the blueprint, and
the blueprint biased towards folding, calling and raising. A network learns the value of a leaf
under each of them, from examples: triples of a leaf and a hand of each player. It is tested on
triples that were held out, whose leaves it knows from other hands; and, trained again, on whole
leaves that were held out. The second player then answers an off-tree bet with the network's values
of the leaves, with exact values, and with values on a few boards (see `depth_limited_nlfh`).
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

_PAPER_LOSS = 0.02
_PAPER_EXAMPLES = 180 * 10**6
_STRATEGIES = 4
_HELD_OUT = 10  # one of ten triples is held out for the test


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    nlfh: off_tree_bet.Config
    examples: tuple[int, ...] = tuple(10**power for power in range(3, 8))  # before each test
    folds: int = 5  # parts of the leaves, each of which is held out once
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
        examples=(10**4, 10**5, 10**6, 10**7, _PAPER_EXAMPLES),
        batch=4096,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """The Huber loss after a number of examples, of values as fractions of the pot."""

    examples: int
    triples: float  # of held-out triples
    leaves: list[float]  # of the held-out leaves of every fold, by a network of its own


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
    bet = OffTreeBet(config.nlfh, run.checkpoint, mesh=run.mesh, saved=run.meter.keep)
    lesson = _Lesson(config, bet)
    work = config.nlfh.blueprint + bet.work(2 + len(config.boards))
    with progress("leaf_values_dnn", work) as report:
        bet.count = counter(report)
        points = run.kept("loss", Point, lesson.points)
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
        graph, params = self._learned[1]
        features = self._features(bet.whole.betting, leaves)
        fractions = nnx.merge(graph, params)(features)  # of the pot
        pots = bet.whole.betting.pot + bet.whole.betting.paid[leaves].sum(axis=1)
        values = np.moveaxis(np.asarray(fractions), -1, 1) * pots[:, None, None, None] * self._pairs
        values = values.reshape(len(leaves), *cut.choices, *cut.num_classes)
        return [self._answered("network", jnp.asarray(values, jnp.float32))]

    def points(self) -> list[Point]:
        """Losses by the number of examples."""
        config, leaf = self.config, self._rows // self._pairs.size
        leaves = np.random.default_rng(config.seed).permutation(len(self.bet.cut.leaves))
        folds = []
        for part in np.array_split(leaves, config.folds):
            held_out = np.isin(leaf, part)
            folds.append(self._train(self._rows[~held_out], self._rows[held_out])[0])
        by_examples = zip(config.examples, self._learned[0], zip(*folds, strict=True), strict=True)
        return [
            Point(examples=count, triples=triples, leaves=[*of_folds])
            for count, triples, of_folds in by_examples
        ]

    @functools.cached_property
    def _learned(self):
        """The losses of held-out triples, and the network's graph and parameters."""
        order = np.random.default_rng(self.config.seed).permutation(self._rows)
        count = len(order) // _HELD_OUT
        return self._train(order[count:], order[:count])

    def _train(self, seen, test):
        """Trains on some examples: the losses of others after every number of examples, and the
        network's graph and parameters in the end."""
        config, (features, targets) = self.config, self._examples
        start, key = jax.random.split(jax.random.key(config.seed))
        graph, state = leaf_value_regression.init(features.shape[1], _STRATEGIES, start)
        losses, done = [], 0
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
            losses.append(float(loss))
        return losses, (graph, state.params)

    @functools.cached_property
    def _examples(self):
        """Features and targets by row: leaf, class of the one player's hand, of the other's."""
        features = self._features(self.bet.tree.betting, self.bet.cut.leaves)
        targets = np.moveaxis(self._targets, 1, -1).reshape(-1, _STRATEGIES)
        return features.reshape(-1, features.shape[-1]), jnp.asarray(targets, jnp.float32)

    @functools.cached_property
    def _rows(self):
        """The rows of `_examples` with hands that are possible together."""
        return np.flatnonzero(np.broadcast_to(self._pairs, self._targets[:, 0].shape))

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
    x = [point.examples for point in outcome.points]
    lines = [
        plots.Band(
            name="held-out triples of a leaf and two hands",
            x=x,
            samples=[[point.triples] for point in outcome.points],
        ),
        plots.Band(name="held-out leaves", x=x, samples=[point.leaves for point in outcome.points]),
    ]
    with plots.figure(path, rows=1, columns=1, size=(4.6, 3.2)) as axes:
        plots.bands(axes[0, 0], lines, published={}, x_label="examples")
        plots.level(axes[0, 0], _PAPER_LOSS, "the paper, after 180 million (another game)")
        axes[0, 0].set(title="leaf values, learned", ylabel="Huber loss (fractions of the pot)")
        axes[0, 0].legend(frameon=False, fontsize=7)


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every point."""
    for point in outcome.points:
        folds = {f"leaves of fold {fold}": loss for fold, loss in enumerate(point.leaves)}
        yield {"examples": point.examples, "triples": point.triples, **folds}


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """The losses, and what the bet wins against each answer."""
    for point in outcome.points:
        name, unit = f"{point.examples:,} examples", "Huber loss"
        yield results.Number(name=f"held-out triples, {name}", value=point.triples, unit=unit)
        yield results.Number(
            name=f"held-out leaves, {name}",
            value=float(np.mean(point.leaves)),
            low=min(point.leaves),
            high=max(point.leaves),
            unit=unit,
        )
    for cell in outcome.cells:
        yield results.Number(name=cell.name, value=10 * cell.won, unit="mb/g")


def deviations(config: Config) -> list[str]:
    """Deviations from the paper's setting, in words."""
    texts = [
        *off_tree_bet.deviations(config.nlfh),
        "features of our own: the paper's 34 are not published",
        "leaves at the end of the first street of flop hold'em; the paper's are at the end of the"
        " second one of no-limit hold'em",
        "the network values the leaves after the off-tree bet itself; exact values and those on a"
        " few boards are means over the two bets of the abstraction",
        f"batches of {config.batch:,} and a learning rate of {config.learning_rate:g}, which the"
        " paper does not say",
    ]
    most = max(config.examples)
    if most < _PAPER_EXAMPLES:
        texts.append(f"{most:,} examples instead of {_PAPER_EXAMPLES:,}")
    return texts


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """The losses, and what the bet wins against each answer."""
    lines = [(number.name, results.text(number.value)) for number in numbers(config, outcome)]
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
    batches=lambda config: {},
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars="the least and the most of all parts of the leaves, each held out once",
    measure="Huber loss of values as fractions of the pot, by examples: of a tenth of all triples"
    " of a leaf and two hands, which was held out, and of whole leaves that were held out (the mean"
    " over parts of the leaves, each held out once); and mb/g that an off-tree bet wins, beyond the"
    " best other first action, against the answer with these values at its leaves (the network's is"
    " the one that knows all leaves of the abstraction)",
    deviations=deviations,
)
