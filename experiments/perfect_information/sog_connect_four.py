"""Student of Games in Connect Four, beside a perfect player.

Schmid et al. 2023 let it learn chess and Go. Its counterpart is `alphazero_connect_four`.
"""

from __future__ import annotations

from experiments.harness.runs import Run
from experiments.perfect_information import sog_student
from experiments.perfect_information.connect_four_training import (
    KEEPS,
    SMOKE,
    Config,
    training_experiment,
)
from experiments.perfect_information.student import ALONE, Student
from experiments.student_of_games.training_run import shared_sizes
from jaxgames.beliefs.contract import BeliefGame
from solvers.search.search_state import GrowingTreeCfr
from train.agent import training_settings
from train.self_play import SelfPlaySettings
from train.student_of_games_training import StudentOfGamesSettings

TARGETS = {f"SoG(800,10): {KEEPS}": 0.97}
_GREEDY_AFTER = 10  # moves of a game of training
PRESETS = {
    "smoke": SMOKE,
    "cpu": Config(
        measured_at=(0, 250, 500, 1_000, 2_000, 4_000),
        simulations=(ALONE, 32, 100, 800),
        solves=64,
        updates=4,
    ),
    "paper": Config(
        measured_at=(0, 5_000, 20_000, 100_000),
        simulations=(ALONE, 32, 100, 800),
        episodes=1024,
        solves=1024,
        updates=16,
        batch_size=2048,
        capacity=2_000_000,
        batch=256,
    ),
}


def new_student(game: BeliefGame, run: Run, seed: int) -> Student:
    """The agent in training."""
    config = run.config

    def settings_of(search: GrowingTreeCfr) -> StudentOfGamesSettings:
        return training_settings(
            config,
            search,
            steps=config.measured_at[-1],
            policy_weight=1.0,
            self_play=SelfPlaySettings(exploration=0.0, greedy_after=_GREEDY_AFTER),
            queries_per_search=1.0,
            queries_per_solve=0.2,
        )

    return sog_student.sog_student(game, run, settings_of=settings_of, seed=seed, name=str(seed))


def evaluations(game: BeliefGame, config: Config) -> int:
    """Of the network in a step of training, at most."""
    return (config.episodes + config.solves) * (1 + config.training_simulations)


COMMAND = training_experiment(
    "sog_connect_four",
    new_student,
    evaluations=evaluations,
    label=lambda simulations: sog_student.label(simulations) if simulations else "network alone",
    shared=shared_sizes,
    targets=TARGETS,
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "two hours on two cores",
        "paper": "larger batches and more training, for an accelerator",
    },
    deviations=(
        "settings of training are those of chess in Table S2 but for greedy moves after 10 instead"
        " of 30, no resignation, and the learner's sizes, which are ours",
    ),
)
