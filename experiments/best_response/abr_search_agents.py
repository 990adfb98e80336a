"""Best responses to search agents, learned and exact.

A trained agent of Student of Games searches wherever it may have to act. Its searches make a
policy, and the learned best response to it is compared with the exact one. (Timbers et al. 2020
exploit agents of games that are too large for an exact best response.)
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import Annotated

import tyro

from experiments.best_response import response_curves
from experiments.best_response.enumerable_responses import points
from experiments.best_response.response_learning import PAPER_LEARNING, Learning
from experiments.harness.experiment import Experiment
from experiments.harness.runs import Run, RunArguments, agent_checksum
from experiments.student_of_games.training_run import LOG
from train.agent import agent_game


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    learning: Learning
    simulations: tuple[int, ...]  # of the agents
    agents: tuple[str, ...] = tuple(  # the folders of their training
        f"experiments/results/{name}/cpu" for name in ("sog_leduc", "sog_glasses")
    )
    contents: tuple[str, ...] = ()  # the checksums of their files


PRESETS = {
    "smoke": Config(
        learning=Learning(
            measured_at=(0, 4), simulations=8, measured_simulations=20, episodes=8, games=50
        ),
        simulations=(1,),
    ),
    "district": Config(
        learning=Learning(measured_at=(0, 400), measured_simulations=3000),
        simulations=(10, 100),
        agents=("experiments/results/sog_district/district",),
    ),
    "cpu": Config(
        learning=Learning(measured_at=(0, 400), measured_simulations=3000),
        simulations=(10, 100),
    ),
    "paper": Config(learning=PAPER_LEARNING, simulations=(10, 100, 1000)),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """What can be chosen beside the preset."""

    agents: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FOLDER ...")] = ()
    """Folders that trainings wrote, of agents of enumerable games; those of the preset if none are
    named."""


def configure(config: Config, options: Options) -> Config:
    """The preset with the agents that were asked for; refuses folders without an agent."""
    agents = options.agents or config.agents
    folders = [pathlib.Path(agent) for agent in agents]
    for folder in folders:
        agent_game(folder)
    contents = tuple(agent_checksum(folder) for folder in folders)
    return dataclasses.replace(config, agents=agents, contents=contents)


def compute(run: Run) -> response_curves.Curves:
    """A learning curve by the agent's number of simulations and game."""
    config = run.config
    games = {agent: agent_game(pathlib.Path(agent)) for agent in config.agents}
    several = len(set(games.values())) < len(games)  # agents of one game
    return {
        f"SoG({count},1) in {game}{f' of {agent}' * several}": points(
            run, game, f"{agent}:{count}", config.learning
        )
        for agent, game in games.items()
        for count in config.simulations
    }


COMMAND = Experiment(
    name="abr_search_agents",
    shown="what responders win by training steps",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "district": "minutes, after `sog_district --preset district`",
        "cpu": "minutes",
        "paper": "larger searches and networks, for an accelerator",
    },
    options=Options,
    configure=configure,
    batches=lambda config: config.learning.shared_sizes(),
    compute=compute,
    more_files=(LOG,),
    rows=response_curves.rows,
    draw=response_curves.draw,
    numbers=response_curves.numbers,
    tables=functools.partial(response_curves.tables, "abr_search_agents"),
    error_bars=response_curves.ERROR_BARS,
    measure=response_curves.MEASURE,
    deviations=(
        "the paper's agents are AlphaZero's, of Go; ours are Student of Games', of games in which"
        " the exact best response is known, and no published numbers stand beside",
    ),
)
