"""Best responses to CFR+ after a few iterations (Timbers et al. 2020, Table 4, Figure 1).

Two agents of Leduc may be about equally exploitable, and still it may be much harder to learn to
exploit one of them: an agent that always folds, and CFR+ after seven iterations.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib

from experiments.best_response import abr_uniform, response_curves
from experiments.best_response.enumerable_responses import points
from experiments.best_response.response_curves import Curves
from experiments.best_response.response_learning import PAPER_LEARNING, SMOKE_LEARNING, Learning
from experiments.harness import plots
from experiments.harness.experiment import Experiment
from experiments.harness.runs import Run
from experiments.student_of_games.training_run import LOG


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    learning: Learning
    curve: Learning  # for the figure
    games: tuple[str, ...]
    more_simulations: dict[str, int] = dataclasses.field(default_factory=dict)  # by game, measured
    agent: str = "cfr_plus:10"  # of the table
    curve_game: str = "leduc_poker"  # of the figure
    curve_agents: tuple[str, ...]  # of the figure


PRESETS = {
    "smoke": Config(
        games=("kuhn_poker", "scotland_yard(map=district,rounds=3)"),
        learning=SMOKE_LEARNING,
        curve=SMOKE_LEARNING,
        curve_game="leduc_poker(ranks=2,max_raises=1,suit_isomorphism=true)",
        curve_agents=("always_fold", "cfr_plus:4"),
    ),
    "districts": Config(
        games=abr_uniform.DISTRICTS,
        learning=Learning(measured_at=(400,), measured_simulations=20_000),
        curve=Learning(measured_at=(0, 20, 50, 100, 200, 400), measured_simulations=500),
        curve_game=abr_uniform.DISTRICTS[0],
        curve_agents=("cfr_plus:7", "cfr_plus:50"),
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
        curve=Learning(measured_at=(0, 20, 50, 100, 200, 400), measured_simulations=500),
        curve_agents=("always_fold", "cfr_plus:7", "cfr_plus:50"),
    ),
    "paper": Config(
        games=abr_uniform.GAMES,
        learning=PAPER_LEARNING,
        curve=dataclasses.replace(PAPER_LEARNING, measured_at=(0, 10, 100, 1000, 10_000, 100_000)),
        curve_agents=("always_fold", "cfr_plus:7", "cfr_plus:100"),
    ),
}


def compute(run: Run) -> Curves:
    """A learning curve by game of the table, and by agent and game of the figure."""
    config = run.config
    table = {
        game: points(run, game, config.agent, _learning(config, game)) for game in config.games
    }
    figure = {
        _curve_name(config, agent): points(run, config.curve_game, agent, config.curve)
        for agent in config.curve_agents
    }
    return table | figure


def _learning(config: Config, game: str) -> Learning:
    """The settings for a game of the table."""
    usual = config.learning.measured_simulations
    simulations = config.more_simulations.get(game, usual)
    return dataclasses.replace(config.learning, measured_simulations=simulations)


def _curve_name(config: Config, agent: str) -> str:
    return f"{agent} in {config.curve_game}"


def draw(path: pathlib.Path, config: Config, curves: Curves) -> None:
    """Approximate exploitability against training steps, with the exact one dashed."""
    with plots.figure(path, rows=1, columns=1, size=(6.4, 3.6)) as axes:
        place = axes[0, 0]
        for number, agent in enumerate(config.curve_agents):
            curve = curves[_curve_name(config, agent)]
            line = dict(color=plots.colour(number), label=_label(agent))
            steps, won = zip(*((p.step, sum(p.won) / 2) for p in curve), strict=True)
            place.plot(steps, won, marker=plots.marker(number), markersize=3.5, **line)
            exact = sum(curve[0].exact) / 2
            place.axhline(exact, color=plots.colour(number), linewidth=0.8, linestyle=(0, (4, 3)))
        place.set(
            xlabel="training steps",
            ylabel="approximate exploitability (payoff; dashed: exact)",
            title=config.curve_game,
        )
        first, end = curve[1].step, curve[-1].step
        place.set_xscale("symlog", linthresh=first, linscale=0.5)
        place.set_xlim(-first / 10, 1.1 * end)
        place.set_xticks([p.step for p in curve], [str(p.step) for p in curve])
        place.minorticks_off()
        place.legend(frameon=False, fontsize=8)


def _label(agent: str) -> str:
    """An agent's name in the figure."""
    name, colon, count = agent.partition(":")
    if colon:
        return f"{plots.label(name)}, {count} iterations"
    return name.replace("_", " ")


def deviations(config: Config) -> list[str]:
    """Deviations from the paper's setting, in words."""
    texts = [
        *response_curves.DEVIATIONS,
        *abr_uniform.stand_ins(config.games),
        f"{config.curve_agents[-1]} is not in the paper's Figure 1",
    ]
    usual = config.learning.measured_simulations
    texts += [
        f"in {game} the responder searches with {simulations:,} simulations when it is measured,"
        f" elsewhere with {usual:,}"
        for game, simulations in config.more_simulations.items()
    ]
    return texts


def measure(config: Config) -> str:
    """What the numbers measure."""
    return (
        f"{response_curves.MEASURE}; rows without a name of an agent are against the average"
        f" policy of {config.agent.replace(':', ' after ')} iterations"
    )


COMMAND = Experiment(
    name="abr_cfr",
    shown="what responders win by training steps",
    presets=PRESETS,
    preset_docs={
        "smoke": "seconds",
        "districts": "minutes, on stations of London in place of the paper's smaller maps",
        "cpu": "minutes",
        "paper": "larger searches and networks, for an accelerator",
    },
    batches=lambda config: config.learning.shared_sizes(),
    compute=compute,
    more_files=(LOG,),
    rows=response_curves.rows,
    draw=draw,
    numbers=response_curves.numbers,
    tables=functools.partial(response_curves.tables, "abr_cfr"),
    error_bars=response_curves.ERROR_BARS,
    measure=measure,
    deviations=deviations,
)
