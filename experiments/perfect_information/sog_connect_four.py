"""Student of Games in Connect Four, beside a perfect player.

Schmid et al. 2023 let it learn chess and Go, in two ways: in chess, values are learned from queries
alone, and in Go from the outcomes of games (Algorithm 2, Table S2). Its counterpart is
`alphazero_connect_four`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

from experiments.harness.runs import Run
from experiments.perfect_information import connect_four_training, sog_student
from experiments.perfect_information.connect_four_training import KEEPS, training_experiment
from experiments.perfect_information.student import (
    ALONE,
    CHOSEN_RATE,
    FIRST_NETWORK,
    NETWORK,
    Student,
)
from experiments.perfect_information.student_search import agent_name
from experiments.perfect_information.trained_seeds import SeedOptions
from experiments.student_of_games.training_run import lost_queries, shared_sizes
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs.contract import BeliefGame
from solvers.search.search_state import GrowingTreeCfr
from train.paper_settings import (
    PAPER_QUERIES,
    PAPER_SELF_PLAY,
    PAPER_TEMPERATURE,
    learner_deviations,
    paper_settings,
)
from train.student_of_games_training import StudentOfGamesSettings

Values = Literal["queries", "outcomes"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(connect_four_training.Config):
    """The training and its measurements."""

    values: Values = "queries"  # what they are learned from
    network: str = FIRST_NETWORK  # a key of SOG_NETWORKS
    temperature: float = PAPER_TEMPERATURE["chess"]  # of the prior, in training and in play


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SeedOptions):
    """The options beside the preset."""

    values: Values = "queries"
    """What values are learned from: queries alone, as in chess in Table S2, or the outcomes of a
    fifth of the positions (TD(1)), as in Go."""


TARGETS = {f"SoG(800,10): {KEEPS}": 0.97}
_TABLE: dict[str, str] = {"queries": "chess", "outcomes": "go"}  # columns of Table S2
_GREEDY_AFTER = 10  # moves of a game of training
_PAPER = Config(
    network="position",
    measured_at=(0, 5_000, 20_000, 85_000),
    simulations=(ALONE, 32, 100, 800),
    episodes=1024,
    solves=1024,
    updates=16,
    batch_size=2048,
    capacity=2_000_000,
    batch=256,
)
PRESETS = {
    "smoke": Config(network="position", **dataclasses.asdict(connect_four_training.SMOKE)),
    "cpu": Config(
        network="position",
        measured_at=(0, 250, 500, 1_000, 2_000, 3_400),
        simulations=(ALONE, 32, 100, 800),
        solves=64,
        updates=4,
    ),
    "gpu": dataclasses.replace(
        _PAPER, measured_at=(0, 1_000, 2_000, 4_000), seeds=1, capacity=500_000, batch=1024
    ),
    "paper": _PAPER,
}


def configure(config: Config, options: Options) -> Config:
    """The preset with the options: without queries, steps of half the size, and twice as many."""
    if options.values == "queries":
        return config
    return dataclasses.replace(
        config,
        values=options.values,
        measured_at=tuple(2 * step for step in config.measured_at),
        solves=0,
        updates=max(config.updates // 2, 1),
    )


def new_student(game: BeliefGame, run: Run, seed: int) -> Student:
    """The agent in training."""
    config = run.config

    def settings_of(search: GrowingTreeCfr) -> StudentOfGamesSettings:
        return settings_for(config, search)

    return sog_student.sog_student(game, run, settings_of=settings_of, seed=seed, name=str(seed))


def settings_for(config: Config, search: GrowingTreeCfr) -> StudentOfGamesSettings:
    """The settings of training with such searches, whose prior gets the config's temperature."""
    settings = paper_settings(
        _TABLE[config.values],
        search,
        episodes=config.episodes,
        solves=config.solves,
        updates=config.updates,
        learner=connect_four_training.learner_settings(config),
        temperature=config.temperature,
    )
    ours = dict(greedy_after=_GREEDY_AFTER, resign_below=None, max_moves=None)
    return dataclasses.replace(settings, self_play=dataclasses.replace(settings.self_play, **ours))


def evaluations(config: Config) -> int:
    """Of the network in a step of training, at most."""
    searches = config.episodes + config.solves
    game = pgx_beliefs(connect_four_training.GAME)
    return searches * sog_student.evaluations(game, config.training_simulations)


def deviations(config: Config) -> Iterator[str]:
    """From the published setting, in words."""
    column = _TABLE[config.values]
    yield (
        f"Connect Four with the settings of {column} in Table S2, but: greedy moves after"
        f" {_GREEDY_AFTER} moves (the paper: {PAPER_SELF_PLAY[column].greedy_after}), no"
        f" resignation (the paper: below {PAPER_SELF_PLAY[column].resign_below:g})"
    )
    learner = connect_four_training.learner_settings(config)
    yield f"our learner: {'; '.join(learner_deviations(column, learner))}"
    yield (
        f"SoG({config.training_simulations},1) in training (the paper in chess and Go: SoG(400,1))"
    )
    yield from lost_queries(config, *PAPER_QUERIES[column])
    yield "the length of the training and the network are ours"
    if config.torso == "alphazero":
        yield NETWORK
    yield CHOSEN_RATE


COMMAND = training_experiment(
    "sog_connect_four",
    new_student,
    evaluations=evaluations,
    label=lambda simulations: agent_name(simulations) if simulations else "network alone",
    shared=shared_sizes,
    targets=TARGETS,
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": (
            "80 minutes of one core with units for bfloat16 for each network, several times as"
            " long without (an estimate)"
        ),
        "gpu": "seven minutes on an H200: one network, with larger batches",
        "paper": "larger batches and more training, for an accelerator",
    },
    options=Options,
    configure=configure,
    deviations=deviations,
)
