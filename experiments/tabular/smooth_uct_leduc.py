"""UCT, Smooth UCT and outcome sampling in Leduc (Heinrich and Silver 2015, Figure 2).

NashConv, the sum of what both players could gain, of average policies against episodes of
self-play. As in the paper, UCT first improves and then turns away from equilibrium, while Smooth
UCT and both kinds of outcome-sampling MCCFR go on towards it.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.runs import Run, RunArguments
from experiments.tabular import learning_curves
from experiments.tabular.learning_curves import Method, learned, log_spaced, of_seeds, told
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import evaluation
from solvers.sampling import outcome_sampling, uct
from solvers.sampling.decision_tree import DecisionTree, build_decision_tree
from solvers.sampling.outcome_sampling import OutcomeSampling
from solvers.sequence_form import SequenceForm, build_sequence_form

Curves = Mapping[str, Float[np.ndarray, "points seeds"]]  # NashConv by method
METHODS = ("UCT", "Smooth UCT", "parallel OS", "alternating OS")
# where outcome sampling passes Smooth UCT in the paper: episodes, NashConv
CROSSINGS = {"alternating OS": (85_000_000, 0.036), "parallel OS": (170_000_000, 0.028)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed. The constants are those that the paper found best."""

    episodes: int
    game: str = "leduc_poker"
    first: int = 1000  # measured first; then ten times per decade
    seeds: int = 5
    uct_exploration: float = 20.0  # c
    smooth_exploration: float = 18.0
    smooth_decay: float = 0.002  # d
    sampling_exploration: float = 0.5  # epsilon


PRESETS = {
    "smoke": Config(
        episodes=3000,
        game="kuhn_poker",
        seeds=2,
        first=500,
        uct_exploration=2.0,
        smooth_exploration=1.75,
        smooth_decay=0.001,
    ),
    "cpu": Config(episodes=50_000_000),
    "paper": Config(episodes=500_000_000),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Compare UCT, Smooth UCT and outcome sampling by self-play in Leduc.

    Writes NashConv by episodes and method as curve.csv and curve.png, and result.json, into --out.
    Ctrl-C keeps what is learned there, from which --resume continues to exactly the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: Kuhn, seconds; cpu: an hour on two cores; paper: ten times as many episodes."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="smooth_uct_leduc", command=command)
    source = enumerate_game(make(config.game))
    tree, public = build_decision_tree(source), build_sequence_form(source)
    at = log_spaced(config.first, config.episodes)
    found = learned(run.checkpoint / "self-play", methods(config, tree, public), at=at)
    results.write_csv(run.out / "curve.csv", _rows(at, found))
    draw(run.out / "curve.png", config, at, found)
    run.finish(
        _numbers(config, at, found),
        measure=f"NashConv (the sum of both players' gains) in {config.game}, in chips, of the"
        f" average policies of {config.seeds} learners: their mean; low and high are two standard"
        " errors about it",
    )
    _print(config, at, found)


def methods(config: Config, tree: DecisionTree, public: SequenceForm) -> dict[str, Method]:
    """The four learners."""

    def searching(settings):
        return Method(
            **of_seeds(uct.init(tree), config.seeds),
            run=lambda learner, key, count: uct.run(
                tree, learner, key, settings=settings, num_episodes=count
            ),
            measure=lambda learner: evaluation.nash_conv(public, uct.average_policy(tree, learner)),
        )

    def sampling(settings):
        return Method(
            **of_seeds(outcome_sampling.init(tree, settings), config.seeds),
            run=lambda learner, key, count: outcome_sampling.run(
                tree, learner, key, settings=settings, num_episodes=count
            ),
            measure=lambda learner: evaluation.nash_conv(
                public, outcome_sampling.average_policy(tree, learner)
            ),
        )

    outcome = functools.partial(OutcomeSampling, exploration=config.sampling_exploration)
    smooth = uct.smooth_uct(config.smooth_exploration, decay=config.smooth_decay)
    found = (
        searching(uct.uct(config.uct_exploration)),
        searching(smooth),
        sampling(outcome()),
        sampling(outcome(alternating=True)),
    )
    return dict(zip(METHODS, found, strict=True))


def passed(at: Sequence[int], found: Curves, name: str) -> int | None:
    """From how many episodes on a method is better than Smooth UCT, in the mean; None: not so."""
    behind = found[name].mean(axis=1) >= found["Smooth UCT"].mean(axis=1)
    if behind[-1]:
        return None
    return at[int(np.flatnonzero(behind)[-1]) + 1] if behind.any() else at[0]


def draw(path: pathlib.Path, config: Config, at: Sequence[int], found: Curves) -> None:
    """NashConv against episodes, and where the paper's curves cross."""
    lines = [
        plots.Band(name=name, x=at, samples=curve.tolist(), confidence=True)
        for name, curve in found.items()
    ]
    known = {f"paper: {name} passes Smooth UCT": dict([point]) for name, point in CROSSINGS.items()}
    with plots.figure(path, rows=1, columns=1, size=(7.6, 3.8)) as axes:
        known = known if config.game == "leduc_poker" else {}
        plots.bands(axes[0, 0], lines, published=known, x_label="episodes")
        axes[0, 0].set_ylabel("NashConv (chips)")
        axes[0, 0].set_title(f"Self-play in {config.game}")


def _rows(at: Sequence[int], found: Curves) -> list[dict[str, object]]:
    return [
        {"method": name, "episodes": point, "seed": seed, "nash_conv": f"{value:.6g}"}
        for name, curve in found.items()
        for point, values in zip(at, curve, strict=True)
        for seed, value in enumerate(values)
    ]


def _numbers(config: Config, at: Sequence[int], found: Curves) -> list[results.Number]:
    numbers = learning_curves.numbers(at, found, unit="chips")
    for name, (paper, _) in CROSSINGS.items():
        if (point := passed(at, found, name)) is not None:
            known = float(paper) if config.game == "leduc_poker" else None
            numbers.append(
                results.Number(
                    name=f"better than Smooth UCT from:{name}",
                    value=float(point),
                    unit="episodes",
                    paper=known,
                    seeds=config.seeds,
                )
            )
    return numbers


def _print(config: Config, at: Sequence[int], found: Curves) -> None:
    table = Table(title=f"smooth_uct_leduc: NashConv in {config.game}, chips")
    table.add_column("episodes", justify="right")
    for name in METHODS:
        table.add_column(name, justify="right")
    for number in told(at):
        means = (f"{found[name][number].mean():.4g}" for name in METHODS)
        table.add_row(f"{at[number]:,}", *means)
    Console().print(table)
