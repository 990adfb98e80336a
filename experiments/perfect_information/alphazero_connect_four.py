"""AlphaZero in Connect Four (Silver et al. 2018), beside a perfect player.

Its counterpart is `sog_connect_four`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from experiments.harness.runs import Run
from experiments.perfect_information import connect_four_training
from experiments.perfect_information.alphazero_student import alphazero_student
from experiments.perfect_information.connect_four_training import OPENS, training_experiment
from experiments.perfect_information.student import (
    ALONE,
    CHOSEN_RATE,
    NETWORK,
    SEARCHES_ANEW,
    Student,
)
from experiments.perfect_information.trained_seeds import SeedOptions
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.checks import at_least


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(connect_four_training.Config):
    """The training and its measurements."""

    # in each game in a step, which so has about as many positions as `episodes` games
    moves: int = 24
    td_steps: int | None = None  # values learn from searches so many moves later; None: from games


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SeedOptions):
    """The options beside the preset."""

    td_steps: int | None = None
    """Values learn from those of searches this many moves later, as one of the agents of Timbers et
    al. 2020 does. None: from the results of games."""


TARGETS = {f"AlphaZero(800): {OPENS}": 1.0}
_EXPLORED_MOVES = 10  # at the start of a game of training, drawn by visits
_PAPER = Config(
    measured_at=(0, 500, 2_000, 8_586, 10_000),
    simulations=(ALONE, 32, 100, 800),
    episodes=1024,
    updates=64,
    batch_size=2048,
    capacity=2_000_000,
    batch=256,
)
# The last step but one has cost as many evaluations of the network as the whole training of
# `sog_connect_four`, for `equal_budgets`.
PRESETS = {
    "smoke": Config(**dataclasses.asdict(connect_four_training.SMOKE)),
    "cpu": Config(
        measured_at=(0, 25, 50, 100, 200, 343, 400),
        simulations=(ALONE, 32, 100, 800),
    ),
    "gpu": dataclasses.replace(
        _PAPER, measured_at=(0, 100, 200, 404, 450), seeds=1, capacity=500_000, batch=1024
    ),
    "paper": _PAPER,
}


def configure(config: Config, options: Options) -> Config:
    """The preset with the options; refuses bad ones."""
    if options.td_steps is not None:
        at_least(1, td_steps=options.td_steps)
    return dataclasses.replace(config, td_steps=options.td_steps)


def new_student(game: BeliefGame, run: Run, seed: int) -> Student:
    """The agent in training."""
    return alphazero_student(
        game,
        run,
        learner=connect_four_training.learner_settings(run.config),
        sampled_moves=_EXPLORED_MOVES,
        td_steps=run.config.td_steps,
        seed=seed,
        name=str(seed),
    )


def evaluations(config: Config) -> int:
    """Of the network in a step of training."""
    return config.episodes * config.moves * (1 + config.training_simulations)


def deviations(config: Config) -> Iterator[str]:
    """From the published setting, in words."""
    yield (
        f"Connect Four, with {config.training_simulations} simulations in training (the paper: 800"
        f" in chess and Go), {config.depth} blocks of {config.width} channels (19 of 256), and a"
        " length of training and a learner of our own"
    )
    yield (
        f"after {_EXPLORED_MOVES} moves the most visited move is played in training, too, and no"
        " game is resigned"
    )
    if config.td_steps is not None:
        yield (
            f"values learn from those of searches {config.td_steps} moves later (the paper: from"
            " the results of games)"
        )
    yield SEARCHES_ANEW
    if config.torso == "alphazero":
        yield NETWORK
    yield CHOSEN_RATE


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
    options=Options,
    configure=configure,
    deviations=deviations,
    preset_docs={
        "smoke": "a minute",
        "cpu": (
            "70 minutes of one core with units for bfloat16 for each network, several times as"
            " long without (an estimate)"
        ),
        "gpu": "ten minutes on one GPU (an estimate): one network, with larger batches",
        "paper": "larger batches and more games, for an accelerator",
    },
)
