"""AlphaZero in Connect Four (Silver et al. 2018), beside a perfect player.

Its counterpart is `sog_connect_four`.
"""

from __future__ import annotations

import dataclasses

from experiments.harness.runs import Run
from experiments.perfect_information import connect_four_training
from experiments.perfect_information.alphazero_student import alphazero_student
from experiments.perfect_information.connect_four_training import OPENS, training_experiment
from experiments.perfect_information.student import ALONE, Student
from jaxgames.beliefs.contract import BeliefGame
from train.learner import LearnerSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(connect_four_training.Config):
    """The training and its measurements."""

    # in each game in a step, which so has about as many positions as `episodes` games
    moves: int = 24


TARGETS = {f"AlphaZero(800): {OPENS}": 1.0}
_EXPLORED_MOVES = 10  # at the start of a game of training, drawn by visits
# The last step but one has cost as many evaluations of the network as the whole training of
# `sog_connect_four`, for `equal_budgets`.
PRESETS = {
    "smoke": Config(**dataclasses.asdict(connect_four_training.SMOKE)),
    "cpu": Config(
        measured_at=(0, 25, 50, 100, 200, 343, 400),
        simulations=(ALONE, 32, 100, 800),
    ),
    "paper": Config(
        measured_at=(0, 500, 2_000, 8_586, 10_000),
        simulations=(ALONE, 32, 100, 800),
        episodes=1024,
        updates=64,
        batch_size=2048,
        capacity=2_000_000,
        batch=256,
    ),
}


def new_student(game: BeliefGame, run: Run, seed: int) -> Student:
    """The agent in training."""
    config = run.config
    learner = LearnerSettings(
        learning_rate=config.learning_rate,
        decay_rate=config.decay,
        decay_steps=config.measured_at[-1] * config.updates,
        batch_size=config.batch_size,
        capacity=config.capacity,
        max_uses=20,
        policy_weight=1.0,
        l2=config.l2,
    )
    return alphazero_student(
        game, run, learner=learner, sampled_moves=_EXPLORED_MOVES, seed=seed, name=str(seed)
    )


def evaluations(config: Config) -> int:
    """Of the network in a step of training."""
    return config.episodes * config.moves * (1 + config.training_simulations)


COMMAND = training_experiment(
    "alphazero_connect_four",
    new_student,
    evaluations=evaluations,
    label=lambda simulations: f"AlphaZero({simulations})" if simulations else "network alone",
    shared=lambda config: {
        name: getattr(config, name) for name in ("episodes", "batch_size", "capacity")
    },
    targets=TARGETS,
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "eight to eleven hours on two cores (an estimate from single steps)",
        "paper": "larger batches and more games, for an accelerator",
    },
)
