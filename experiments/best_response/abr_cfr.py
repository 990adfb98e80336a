"""Best responses to what CFR+ finds in a few iterations (Timbers et al. 2020, Table 4, Figure 1).

Two agents of Leduc that are about as exploitable may be unlike in how hard it is to find that out:
always to fold, and CFR+ after seven iterations.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Literal

from experiments.best_response import abr_uniform
from experiments.best_response.learned_responses import Learning, Point, points, row
from experiments.harness import plots, results
from experiments.harness.runs import Run, RunArguments


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    learning: Learning
    curve: Learning  # of the figure
    games: tuple[str, ...]
    more_simulations: dict[str, int] = dataclasses.field(default_factory=dict)  # when measured
    agent: str = "cfr_plus:10"
    curve_game: str = "leduc_poker"
    curve_agents: tuple[str, ...]


_CURVE = Learning(measured_at=(0, 20, 50, 100, 200, 400), measured_simulations=500)
_LARGE = Learning(
    measured_at=(0, 1000, 10_000, 100_000),
    simulations=800,
    measured_simulations=800,
    episodes=2048,
    width=512,
    depth=4,
    learning_rate=2e-4,
    batch_size=2048,
    capacity=1_000_000,
)
_SMALL = Learning(
    measured_at=(0, 20),
    simulations=16,
    measured_simulations=100,
    episodes=32,
    width=32,
    depth=1,
    games=2000,
)
PRESETS = {
    "smoke": Config(
        games=("kuhn_poker",),
        learning=_SMALL,
        curve=_SMALL,
        curve_game="leduc_poker(ranks=2,max_raises=1,suit_isomorphism=true)",
        curve_agents=("always_fold", "cfr_plus:4"),
    ),
    "cpu": Config(
        games=(
            "kuhn_poker",
            "leduc_poker",
            "liars_dice(dice=1,sides=4)",
            "goofspiel(cards=4,points=descending)",
            "goofspiel(cards=5,points=descending)",
            "scotland_yard(map=glasses)",
        ),
        learning=Learning(measured_at=(400,), measured_simulations=20_000),
        more_simulations={"kuhn_poker": 200_000},
        curve=_CURVE,
        curve_agents=("always_fold", "cfr_plus:7", "cfr_plus:50"),
    ),
    "paper": Config(
        games=abr_uniform.GAMES,
        learning=_LARGE,
        curve=dataclasses.replace(_LARGE, measured_at=(0, 10, 100, 1000, 10_000, 100_000)),
        curve_agents=("always_fold", "cfr_plus:7", "cfr_plus:100"),
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Learn best responses to the average policies of CFR+ after a few iterations.

    Writes what responders win by training steps as curve.csv and curve.png, and result.json, into
    --out. Ctrl-C keeps what is finished there, from which --resume continues to the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: seconds; cpu: minutes; paper: larger searches and networks, for an accelerator."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="abr_cfr", command=command)
    table = {
        game: points(run, game, config.agent, _learning(config, game)) for game in config.games
    }
    curves = {
        agent: points(run, config.curve_game, agent, config.curve) for agent in config.curve_agents
    }
    found = table | {f"{agent} in {config.curve_game}": curves[agent] for agent in curves}
    results.write_csv(run.out / "curve.csv", [row(p) for curve in found.values() for p in curve])
    draw(run.out / "curve.png", config, curves)
    run.finish(
        [
            number
            for name, curve in found.items()
            for number in abr_uniform.numbers(name.replace(":", " "), curve)
        ],
        measure=f"{abr_uniform.MEASURE}; rows without a name of an agent are against the average"
        f" policy of {config.agent.replace(':', ' after ')} iterations",
        deviations=abr_uniform.DEVIATIONS,
    )
    abr_uniform.print_table("abr_cfr", found)


def _learning(config: Config, game: str) -> Learning:
    usual = config.learning.measured_simulations
    simulations = config.more_simulations.get(game, usual)
    return dataclasses.replace(config.learning, measured_simulations=simulations)


def draw(path: pathlib.Path, config: Config, curves: dict[str, Sequence[Point]]) -> None:
    """Approximate exploitability against training steps, the exact one dashed."""
    with plots.figure(path, rows=1, columns=1, size=(6.4, 3.6)) as axes:
        place = axes[0, 0]
        for number, (agent, curve) in enumerate(curves.items()):
            line = dict(color=plots.colour(number), label=_label(agent))
            steps, found = zip(*((p.step, sum(p.won) / 2) for p in curve), strict=True)
            place.plot(steps, found, marker=plots.marker(number), markersize=3.5, **line)
            exact = sum(curve[0].exact) / 2
            place.axhline(exact, color=plots.colour(number), linewidth=0.8, linestyle=(0, (4, 3)))
        place.set(
            xlabel="training steps",
            ylabel="approximate exploitability (chips; dashed: exact)",
            title=config.curve_game,
        )
        first, end = curve[1].step, curve[-1].step
        place.set_xscale("symlog", linthresh=first, linscale=0.5)
        place.set_xlim(-first / 10, 1.1 * end)
        place.set_xticks([p.step for p in curve], [str(p.step) for p in curve])
        place.minorticks_off()
        place.legend(frameon=False, fontsize=8)


def _label(agent: str) -> str:
    name, colon, count = agent.partition(":")
    if colon:
        return f"{plots.label(name)}, {count} iterations"
    return name.replace("_", " ")
