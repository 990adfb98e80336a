"""UCT and Smooth UCT in Kuhn poker (Heinrich and Silver 2015, Figure 1).

Plots the mean squared error of the average policies to the closest of Kuhn poker's equilibria
against episodes of self-play; and, from a calibration before that, against the constant of UCB,
which the paper chose for each method.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from rich.table import Table

from experiments.harness import plots, results, seed_statistics
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run
from experiments.tabular import learning_curves
from experiments.tabular.learning_curves import Method, learn, log_spaced, of_seeds, reported
from jaxgames.game_tree import enumerate_game, moves_to
from jaxgames.kuhn import BET
from jaxgames.registry import make
from solvers.sampling import uct
from solvers.sampling.decision_tree import DecisionTree, build_decision_tree
from solvers.sampling.uct import Uct
from solvers.sequence_form import Policy

METHODS: dict[str, Callable[[float], Uct]] = {"UCT": uct.uct, "Smooth UCT": uct.smooth_uct}
PAPER = {"UCT": 2.0, "Smooth UCT": 1.75}  # the paper's best constants of the same grid


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The learners, and when they are measured."""

    episodes: int
    calibration_episodes: int
    constants: tuple[float, ...] = tuple(0.25 * k for k in range(1, 11))  # of the calibration
    first: int = 100  # episodes before the first measurement; then ten times per decade
    seeds: int = 50


PRESETS = {
    "smoke": Config(
        episodes=3000, calibration_episodes=1000, constants=(0.25, 2.0), first=500, seeds=2
    ),
    "cpu": Config(episodes=20_000_000, calibration_episodes=1_000_000),
    "paper": Config(episodes=20_000_000, calibration_episodes=20_000_000),
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Errors to the closest equilibrium, by the label of a method with its constant."""

    calibration: Mapping[str, Float[np.ndarray, " seeds"]]  # after the calibration's episodes
    curves: Mapping[str, Float[np.ndarray, "points seeds"]]


def compute(run: Run) -> Outcome:
    """The calibration, and the learning curves with the paper's constants."""
    config = run.config
    tree, family = build_decision_tree(make("kuhn_poker")), equilibria()
    settings = [(name, constant) for name in METHODS for constant in config.constants]
    calibration = learn(
        run.checkpoint / "calibration",
        {label(*pair): _method(tree, family, config.seeds, *pair) for pair in settings},
        at=(config.calibration_episodes,),
        saved=run.meter.keep,
    )
    methods = {label(*pair): _method(tree, family, config.seeds, *pair) for pair in PAPER.items()}
    curves = learn(run.checkpoint / "self-play", methods, at=points(config), saved=run.meter.keep)
    return Outcome({name: curve[0] for name, curve in calibration.items()}, curves)


def points(config: Config) -> tuple[int, ...]:
    """The numbers of episodes after which the learners are measured."""
    return log_spaced(config.first, config.episodes)


def label(name: str, constant: float) -> str:
    """The name of a method with its constant, for people and checkpoints."""
    return f"{name}, c = {constant:g}"


@dataclasses.dataclass(frozen=True)
class Family:
    """The equilibria of Kuhn poker: they bet with probability `base + alpha slope`, where alpha is
    from 0 to 1/3."""

    base: Float[np.ndarray, " 12"]  # by information state, player 0's first
    slope: Float[np.ndarray, " 12"]

    def error(self, policy: Policy) -> Float[Array, ""]:
        """Mean squared error of a policy's betting probabilities to the closest equilibrium's."""
        difference = jnp.concatenate([table[:, BET] for table in policy]) - self.base
        alpha = jnp.clip(difference @ self.slope / (self.slope @ self.slope), 0, 1 / 3)
        return jnp.mean((difference - alpha * self.slope) ** 2)


# by the actions so far (0: pass, 1: bet): the probabilities to bet with the jack, the queen and the
# king, and by how much they change with alpha (Kuhn 1950)
_BETS = {
    (): ((0, 0, 0), (1, 0, 3)),
    (0,): ((1 / 3, 0, 1), (0, 0, 0)),
    (1,): ((0, 1 / 3, 1), (0, 0, 0)),
    (0, 1): ((0, 1 / 3, 1), (0, 1, 0)),
}


def equilibria() -> Family:
    """The equilibria, in the order of the information states."""
    tree = enumerate_game(make("kuhn_poker"))
    rows = []
    for player in range(2):
        histories = tree.representative(player)[: tree.num_decisions[player]]
        for path in moves_to(tree, histories).T.tolist():
            card, actions = path[player], tuple(a for a in path[2:] if a >= 0)  # cards come first
            rows.append([_BETS[actions][part][card] for part in range(2)])
    return Family(*np.array(rows, np.float32).T)


def _method(tree: DecisionTree, family: Family, seeds: int, name: str, constant: float) -> Method:
    settings = METHODS[name](constant)
    return Method(
        **of_seeds(uct.init(tree), seeds),
        run=lambda learner, key, count: uct.run(
            tree, learner, key, settings=settings, num_episodes=count
        ),
        measure=lambda learner: family.error(uct.average_policy(tree, learner)),
    )


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """The error against episodes, and against the constant after the calibration."""
    with plots.figure(path, rows=1, columns=2, size=(8.4, 3.4)) as axes:
        left, right = axes[0]
        lines = [
            plots.Band(name=name, x=points(config), samples=errors.tolist(), confidence=True)
            for name, errors in zip(PAPER, outcome.curves.values(), strict=True)
        ]
        plots.bands(left, lines, published={}, x_label="episodes")
        left.set_ylabel("mean squared error to equilibrium")
        left.set_title(", ".join(f"{name} c = {c:g}" for name, c in PAPER.items()))
        lines = [
            plots.Band(
                name=name,
                x=config.constants,
                samples=[outcome.calibration[label(name, c)].tolist() for c in config.constants],
                confidence=True,
            )
            for name in METHODS
        ]
        plots.bands(right, lines, published={}, x_label="c", log_x=False)
        right.set_title(f"after {config.calibration_episodes:,} episodes")


def best(config: Config, outcome: Outcome, name: str) -> float:
    """The constant with the least mean error after the calibration."""
    return min(config.constants, key=lambda c: outcome.calibration[label(name, c)].mean())


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every seed of the calibration, and at every point of every curve."""
    measurements = [
        (name, config.calibration_episodes, errors) for name, errors in outcome.calibration.items()
    ]
    for name, curve in outcome.curves.items():
        at = points(config)
        measurements += [(name, point, errors) for point, errors in zip(at, curve, strict=True)]
    for name, point, errors in measurements:
        columns = {"method": name, "episodes": point}
        yield from seed_statistics.rows(columns, errors, name="mean_squared_error")


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """The curves, and the best constants."""
    yield from learning_curves.numbers(points(config), outcome.curves, unit="squared error")
    for name in METHODS:
        yield results.Number(
            name=f"best c after {config.calibration_episodes:,} episodes:{name}",
            value=best(config, outcome, name),
            unit="chips",
            paper=PAPER[name],
            seeds=config.seeds,
        )


def deviations(config: Config) -> list[str]:
    """What differs from the paper, or is not said there, in words."""
    texts = [
        "the error is that of the chances to bet at all twelve information states, each counted"
        " once (the paper does not say how it weighs them)",
        "the constants are the paper's, not those that are best in our calibration, which is shown"
        " beside",
        "in the paper Smooth UCT is better from some 600 episodes on, here from some 16,000",
    ]
    if config.calibration_episodes < config.episodes:
        texts.append(
            f"the calibration has {config.calibration_episodes:,} episodes instead of"
            f" {config.episodes:,}"
        )
    return texts


def measure(config: Config) -> str:
    """What the numbers are."""
    return (
        "mean squared error of the chances to bet, of the average policies of both players against"
        f" the closest equilibrium of Kuhn's family: mean of {config.seeds} learners"
    )


def tables(config: Config, outcome: Outcome) -> Iterator[Table | str]:
    """Mean errors by episodes and method, and the best constants."""
    at, curves = points(config), outcome.curves
    texts = [
        (f"{at[point]:,}", *(f"{curve[point].mean():.3g}" for curve in curves.values()))
        for point in reported(at)
    ]
    title = "smooth_uct_kuhn: mean squared error to the closest equilibrium"
    yield text_table(title, ("episodes", *curves), texts, labels=0)
    for name in METHODS:
        chosen = f"best c of {name} after {config.calibration_episodes:,} episodes"
        yield f"{chosen}: {best(config, outcome, name):g}"


COMMAND = Experiment(
    name="smooth_uct_kuhn",
    shown="the error by episodes, and by the constant of UCB,",
    presets=PRESETS,
    preset_docs={
        "smoke": "seconds",
        "cpu": "half an hour on two cores",
        "paper": "a longer calibration",
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=results.TWO_STANDARD_ERRORS,
    measure=measure,
    deviations=deviations,
)
