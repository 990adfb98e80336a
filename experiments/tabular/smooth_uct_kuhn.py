"""UCT and Smooth UCT in Kuhn poker (Heinrich and Silver 2015, Figure 1).

Mean squared error of average policies against the closest equilibrium of Kuhn's family, by episodes
of self-play; before that, by the constant of UCB, which the paper chose for each method.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.runs import Run, RunArguments
from experiments.tabular import learning_curves
from experiments.tabular.learning_curves import Method, learned, log_spaced, of_seeds, told
from jaxgames.game_tree import enumerate_game, moves_to
from jaxgames.kuhn import BET
from jaxgames.registry import make
from solvers.sampling import uct
from solvers.sampling.decision_tree import DecisionTree, build_decision_tree
from solvers.sampling.uct import Uct
from solvers.sequence_form import Policy

METHODS: dict[str, Callable[[float], Uct]] = {"UCT": uct.uct, "Smooth UCT": uct.smooth_uct}
PAPER = {"UCT": 2.0, "Smooth UCT": 1.75}  # the best constants, found there in the same grid


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    episodes: int
    calibration_episodes: int
    constants: tuple[float, ...] = tuple(0.25 * k for k in range(1, 11))  # tried in calibration
    first: int = 100  # episodes, measured first; then ten times per decade
    seeds: int = 50


PRESETS = {
    "smoke": Config(
        episodes=3000, calibration_episodes=1000, constants=(0.25, 2.0), first=500, seeds=2
    ),
    "cpu": Config(episodes=20_000_000, calibration_episodes=1_000_000),
    "paper": Config(episodes=20_000_000, calibration_episodes=20_000_000),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Compare UCT and Smooth UCT by self-play in Kuhn poker.

    Writes the error by episodes, and by the constant of UCB, as curve.csv and curve.png, and
    result.json, into --out. Ctrl-C keeps what is learned there, from which --resume continues to
    exactly the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: seconds; cpu: half an hour on two cores; paper: a longer calibration."""


Curves = Mapping[str, Float[np.ndarray, "points seeds"]]  # errors by method
Tried = Mapping[str, Float[np.ndarray, " seeds"]]  # errors after calibration by method


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="smooth_uct_kuhn", command=command)
    tree, family = build_decision_tree(make("kuhn_poker")), equilibria()
    settings = [(name, constant) for name in METHODS for constant in config.constants]
    curves = learned(
        run.checkpoint / "calibration",
        {label(*each): _method(tree, family, config.seeds, *each) for each in settings},
        at=(config.calibration_episodes,),
    )
    tried = {name: curve[0] for name, curve in curves.items()}
    at = log_spaced(config.first, config.episodes)
    methods = {label(*each): _method(tree, family, config.seeds, *each) for each in PAPER.items()}
    found = learned(run.checkpoint / "self-play", methods, at=at)
    results.write_csv(run.out / "curve.csv", _rows(config, tried, at, found))
    draw(run.out / "curve.png", config, tried, at, found)
    run.finish(
        _numbers(config, tried, at, found),
        measure="mean squared error of the chances to bet, of the average policies of both players"
        f" against the closest equilibrium of Kuhn's family: mean of {config.seeds} learners; low"
        " and high are two standard errors about it",
    )
    _print(config, tried, at, found)


def label(name: str, constant: float) -> str:
    """A method with its constant."""
    return f"{name}, c = {constant:g}"


@dataclasses.dataclass(frozen=True)
class Family:
    """The equilibria of Kuhn poker: chances to bet `base + alpha slope`, alpha from 0 to 1/3."""

    base: Float[np.ndarray, " 12"]  # by information state, player 0's first
    slope: Float[np.ndarray, " 12"]

    def error(self, policy: Policy) -> Float[Array, ""]:
        """Mean squared error of a policy's chances to bet against the closest equilibrium's."""
        off = jnp.concatenate([table[:, BET] for table in policy]) - self.base
        alpha = jnp.clip(off @ self.slope / (self.slope @ self.slope), 0, 1 / 3)
        return jnp.mean((off - alpha * self.slope) ** 2)


# chances to bet with the jack, the queen and the king after these actions (0: pass, 1: bet), and by
# how much they change with alpha (Kuhn 1950)
_BETS = {
    (): ((0, 0, 0), (1, 0, 3)),
    (0,): ((1 / 3, 0, 1), (0, 0, 0)),
    (1,): ((0, 1 / 3, 1), (0, 0, 0)),
    (0, 1): ((0, 1 / 3, 1), (0, 1, 0)),
}


def equilibria() -> Family:
    """The family in the order of the information states."""
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


def draw(
    path: pathlib.Path, config: Config, tried: Tried, at: Sequence[int], found: Curves
) -> None:
    """The error against episodes, and against the constant after calibration."""
    with plots.figure(path, rows=1, columns=2, size=(9.6, 3.6)) as axes:
        left, right = axes[0]
        lines = [
            plots.Band(name=name, x=at, samples=errors.tolist(), confidence=True)
            for name, errors in found.items()
        ]
        plots.bands(left, lines, published={}, x_label="episodes")
        left.get_legend().remove()
        left.set_ylabel("mean squared error to equilibrium")
        left.set_title(", ".join(f"{name} c = {c:g}" for name, c in PAPER.items()))
        lines = [
            plots.Band(
                name=name,
                x=config.constants,
                samples=[tried[label(name, c)].tolist() for c in config.constants],
                confidence=True,
            )
            for name in METHODS
        ]
        plots.bands(right, lines, published={}, x_label="c", log_x=False)
        right.set_title(f"after {config.calibration_episodes:,} episodes")


def best(config: Config, tried: Tried, name: str) -> float:
    """The constant with the least error after calibration."""
    return min(config.constants, key=lambda c: tried[label(name, c)].mean())


def _rows(
    config: Config, tried: Tried, at: Sequence[int], found: Curves
) -> list[dict[str, object]]:
    measured = [(name, config.calibration_episodes, errors) for name, errors in tried.items()]
    for name, curve in found.items():
        measured += [(name, point, errors) for point, errors in zip(at, curve, strict=True)]
    return [
        {"method": name, "episodes": point, "seed": seed, "mean_squared_error": f"{error:.6g}"}
        for name, point, errors in measured
        for seed, error in enumerate(errors)
    ]


def _numbers(
    config: Config, tried: Tried, at: Sequence[int], found: Curves
) -> list[results.Number]:
    numbers = learning_curves.numbers(at, found, unit="squared error")
    for name in METHODS:
        numbers.append(
            results.Number(
                name=f"best c after {config.calibration_episodes:,} episodes:{name}",
                value=best(config, tried, name),
                unit="chips",
                paper=PAPER[name],
                seeds=config.seeds,
            )
        )
    return numbers


def _print(config: Config, tried: Tried, at: Sequence[int], found: Curves) -> None:
    table = Table(title="smooth_uct_kuhn: mean squared error to the closest equilibrium")
    table.add_column("episodes", justify="right")
    for name in found:
        table.add_column(name, justify="right")
    for number in told(at):
        means = (f"{curve[number].mean():.3g}" for curve in found.values())
        table.add_row(f"{at[number]:,}", *means)
    Console().print(table)
    for name in METHODS:
        chosen = f"best c of {name} after {config.calibration_episodes:,} episodes"
        print(f"{chosen}: {best(config, tried, name):g}")
