"""AlphaZero in board games of pgx (Silver et al. 2018), measured by duels along the training.

The trained networks play as engines. Its counterpart is `sog_board_games`.
"""

from __future__ import annotations

import dataclasses

from experiments.harness.runs import Run
from experiments.perfect_information import board_training
from experiments.perfect_information.alphazero_student import alphazero_student
from experiments.perfect_information.board_training import GAMES, training_experiment
from experiments.perfect_information.student import (
    CHOSEN_RATE,
    NETWORK,
    SEARCHES_ANEW,
    Student,
)
from jaxgames.beliefs.contract import BeliefGame
from train.learner import LearnerSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(board_training.Config):
    """The training and its measurements.

    A step of training makes `moves` moves in each of `episodes` games, which then go on.
    """

    moves: int
    concentration: float  # of Dirichlet noise in training
    sampled_moves: int = 30  # at the start of a game of training, drawn by visits


# Of noise, about 10 by the number of legal moves; of chess and Go as published.
_CONCENTRATION = {
    "gardner_chess": 1.0,
    "chess": 0.3,
    "go_9x9": 0.15,
    "go_19x19": 0.03,
    "hex": 0.1,
    "othello": 1.0,
}
# Guesses of how many a game has in training, so that a step has about as many positions as
# `episodes` games. Games at random have 86, 309, 117, 573, 109 and 60 on average; searches win
# sooner, in Gardner chess after 26 to 47 before any training.
_MOVES = {
    "gardner_chess": 48,
    "chess": 192,
    "go_9x9": 96,
    "go_19x19": 512,
    "hex": 80,
    "othello": 60,
}
_LEARNER = LearnerSettings(
    learning_rate=5e-4,
    decay_rate=0.05,
    batch_size=256,
    capacity=40_000,
    max_uses=20,
    policy_weight=1.0,
    l2=1e-4,
)
_SMOKE = Config(
    measured_at=(0, 2),
    simulations=4,
    games=4,
    batch=4,
    training_simulations=4,
    width=8,
    depth=1,
    episodes=4,
    updates=1,
    learner=dataclasses.replace(_LEARNER, batch_size=16, capacity=512),
    moves=48,
    concentration=1.0,
)
_CPU = Config(
    measured_at=(0, 20, 70, 130, 200),
    games=96,
    batch=96,
    width=32,
    depth=2,
    episodes=64,
    updates=32,
    learner=_LEARNER,
    moves=48,
    concentration=1.0,
)
# Table S3 of Silver et al. 2017 (arXiv:1712.01815): 700,000 updates of 4,096 positions, and 44
# million games of chess or 21 million of Go. Their learning rate drops from 0.2 to 0.0002.
_UPDATES = 700_000
_PUBLISHED = LearnerSettings(
    optimizer="sgd",
    learning_rate=0.2,
    decay_rate=1e-3,
    decay_steps=_UPDATES,
    batch_size=4096,
    capacity=1_000_000,
    max_uses=1_000,
    policy_weight=1.0,
    l2=1e-4,
)
_PAPER = Config(
    measured_at=(0, 25, 80, 160, 250),
    games=1024,
    batch=1024,
    episodes=1024,
    updates=64,
    learner=dataclasses.replace(_LEARNER, batch_size=2048, capacity=1_000_000),
    moves=48,
    concentration=1.0,
)
_LARGE = dataclasses.replace(
    _PAPER,
    games=512,
    batch=256,
    episodes=256,  # few, with many moves in a step: their positions wait for the payoffs in memory
    training_simulations=800,
    simulations=800,
    width=256,
    depth=19,
    learner=_PUBLISHED,
)
# What is other than in Gardner chess, by preset and game.
_CHANGES = {
    "smoke": {},
    "cpu": {
        "chess": dict(measured_at=(0, 20, 60, 120, 200), episodes=16, updates=16),
        "go_9x9": dict(measured_at=(0, 12, 40, 80, 120), updates=48),
        "go_19x19": dict(
            measured_at=(0, 6, 20, 40, 60), episodes=16, updates=32, games=32, batch=32
        ),
        "hex": dict(updates=48),
        "othello": {},
    },
    "paper": {
        # as many positions as the paper's games have if they are of 130 and 256 moves
        "chess": dict(measured_at=(0, 1_000, 4_400, 16_000, 43_750), moves=512, updates=16),
        "go_19x19": dict(measured_at=(0, 500, 2_050, 8_000, 20_500), moves=1024, updates=34),
    },
}


def _config(preset: str, game: str) -> Config:
    """The config of a preset for a game."""
    large = preset == "paper" and game in ("chess", "go_19x19")
    base = {"smoke": _SMOKE, "cpu": _CPU, "paper": _LARGE if large else _PAPER}[preset]
    more = {"game": game, "moves": _MOVES[game], "concentration": _CONCENTRATION[game]}
    config = dataclasses.replace(base, **more | _CHANGES[preset].get(game, {}))
    if large:
        return config
    steps = config.measured_at[-1] * config.updates
    return dataclasses.replace(
        config, learner=dataclasses.replace(config.learner, decay_steps=steps)
    )


PRESETS = {preset: {game: _config(preset, game) for game in GAMES} for preset in _CHANGES}


def new_student(game: BeliefGame, run: Run) -> Student:
    """The agent in training."""
    config = run.config
    return alphazero_student(
        game,
        run,
        learner=config.learner,
        sampled_moves=config.sampled_moves,
        concentration=config.concentration,
        seed=config.seed,
    )


def deviations(config: Config) -> list[str]:
    """What differs from the paper."""
    learner, last = config.learner, config.measured_at[-1]
    published = learner.optimizer == _PUBLISHED.optimizer
    sizes = (
        f"{config.depth} blocks of {config.width} channels, {config.training_simulations}"
        f" simulations in training, {last * config.episodes * config.moves:,} positions of"
        f" self-play, {last * config.updates:,} updates of {learner.batch_size:,} positions by"
        f" {learner.optimizer}; the paper: 19 blocks of 256 channels, 800 simulations, 44 million"
        " games of chess or 21 million of Go, 700,000 updates of 4,096 positions by sgd"
    )
    return [
        sizes,
        f"the latest {learner.capacity:,} positions in replay, where the paper has the latest"
        " million games",
        "the learning rate falls evenly from 0.2 to 0.0002, not in three steps"
        if published
        else CHOSEN_RATE,
        f"after {config.sampled_moves} moves the most visited move is played in training, too",
        SEARCHES_ANEW,
        *([NETWORK] * (config.torso == "alphazero")),
        "no resignation, and the features are pgx's",
    ]


COMMAND = training_experiment(
    "alphazero_board_games",
    new_student,
    presets=PRESETS,
    label=lambda simulations: f"AlphaZero({simulations})",
    shared=lambda config: {
        "episodes": config.episodes,
        "batch_size": config.learner.batch_size,
        "capacity": config.learner.capacity,
    },
    preset_docs={
        "smoke": "minutes",
        "cpu": "an hour on one core in Gardner chess or 9x9 Go",
        "paper": "for accelerators; chess and Go on 19x19 with the paper's settings",
    },
    deviations=deviations,
)
