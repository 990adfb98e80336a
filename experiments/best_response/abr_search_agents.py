"""Best responses to search agents whose exact exploitability is known: is what is learned near?

A trained agent of Student of Games searches wherever it may have to act; that is a policy, to which
the exact and the learned best response are compared. (Timbers et al. 2020 exploit agents too large
for an exact one.)
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Annotated, Literal

import tyro

from experiments.best_response import abr_uniform
from experiments.best_response.learned_responses import Learning, points, row
from experiments.harness import results
from experiments.harness.runs import Run, RunArguments
from train.agent import agent_game


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    learning: Learning
    simulations: tuple[int, ...]  # of the agents
    agents: tuple[str, ...] = tuple(  # the folders of their training
        f"experiments/results/{name}/cpu" for name in ("sog_leduc", "sog_glasses")
    )


PRESETS = {
    "smoke": Config(
        learning=Learning(
            measured_at=(0, 4), simulations=8, measured_simulations=20, episodes=8, games=50
        ),
        simulations=(1,),
    ),
    "cpu": Config(
        learning=Learning(measured_at=(0, 400), measured_simulations=3000),
        simulations=(10, 100),
    ),
    "paper": Config(
        learning=Learning(
            measured_at=(0, 1000, 10_000, 100_000),
            simulations=800,
            measured_simulations=800,
            episodes=2048,
            width=512,
            depth=4,
            learning_rate=2e-4,
            batch_size=2048,
            capacity=1_000_000,
        ),
        simulations=(10, 100, 1000),
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Learn best responses to trained search agents, and compare them with exact ones.

    Writes what responders win by training steps as curve.csv and curve.png, and result.json, into
    --out. Ctrl-C keeps what is finished there, from which --resume continues to the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: a minute; cpu: minutes; paper: larger searches and networks, for an accelerator."""
    agents: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FOLDER ...")] = Config.agents
    """Folders that trainings left, of enumerable games."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run, or there is no such agent.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = dataclasses.replace(PRESETS[arguments.preset], agents=arguments.agents)
    games = {agent: agent_game(pathlib.Path(agent)) for agent in config.agents}
    run = Run(arguments, config, experiment="abr_search_agents", command=command)
    found = {
        f"SoG({count},1) in {game}": points(run, game, f"{agent}:{count}", config.learning)
        for agent, game in games.items()
        for count in config.simulations
    }
    results.write_csv(run.out / "curve.csv", [row(p) for curve in found.values() for p in curve])
    abr_uniform.draw(run.out / "curve.png", found)
    run.finish(
        [number for name, curve in found.items() for number in abr_uniform.numbers(name, curve)],
        measure=abr_uniform.MEASURE,
        deviations=("the paper's agents are of Go",),
    )
    abr_uniform.print_table("abr_search_agents", found)
