"""Student of Games in board games of pgx (Schmid et al. 2023), measured by duels.

Self-play, queries, the weights of the losses and the temperature of the prior are those of chess or
Go in the paper's Table S2. The trained networks play as engines. Its counterpart is
`alphazero_board_games`.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from experiments.harness.runs import Run
from experiments.perfect_information import board_training
from experiments.perfect_information.board_training import GAMES, training_experiment
from experiments.perfect_information.sog_student import sog_student
from experiments.perfect_information.student import (
    CHOSEN_RATE,
    FIRST_NETWORK,
    NETWORK,
    Student,
)
from experiments.perfect_information.student_search import agent_name
from experiments.student_of_games.training_run import lost_queries
from jaxgames.beliefs.contract import BeliefGame
from solvers.search.search_state import GrowingTreeCfr
from train.paper_settings import (
    PAPER_LEARNER,
    PAPER_QUERIES,
    PAPER_SELF_PLAY,
    PAPER_TEMPERATURE,
    learner_deviations,
    paper_settings,
)
from train.student_of_games_training import StudentOfGamesSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(board_training.Config):
    """The training and its measurements.

    A step of training plays `episodes` moves of self-play and solves `solves` queries at most.
    """

    table: str  # the column of Table S2: "chess" or "go", whose values come from outcomes
    solves: int
    network: str = FIRST_NETWORK  # a key of SOG_NETWORKS
    # share of the positions of self-play whose values are learned from outcomes; None: the table's
    outcome_share: float | None = None
    resignation: bool = True  # as in the table: who expects to lose may end a game of self-play
    # moves of self-play after which the most probable one is played; None: the table's
    greedy_after: int | None = None
    temperature: float = PAPER_TEMPERATURE["chess"]  # of the prior, in training and in play


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(board_training.Options):
    """The options beside the preset."""

    values: Literal["queries", "outcomes"] | None = None
    """What values are learned from: queries alone, as in chess in Table S2, or the outcomes of a
    fifth of the positions (TD(1)), as in Go. None: as the game is more like chess or Go."""
    outcome_share: float | None = None
    """Share of the positions of self-play whose values are learned from outcomes, from 0 to 1, in
    place of that of Table S2. Ours: AlphaZero takes all."""


# Whose column of Table S2 is taken; queries teach values in that of chess, outcomes in that of Go.
_TABLE = {
    "gardner_chess": "chess",
    "chess": "chess",
    "go_9x9": "go",
    "go_19x19": "go",
    "hex": "go",
    "othello": "go",
}
# Our learner: what differs from the paper's, by preset.
_LEARNERS = {
    "smoke": dict(batch_size=16, capacity=512),
    "cpu": dict(batch_size=256, capacity=12_800),
    "paper": dict(batch_size=2048, capacity=1_000_000),
}
_ADAM = dict(optimizer="adam", learning_rate=5e-4, decay_rate=0.05, max_uses=20)
# a deviation of the preset cpu
_CHOSEN_CAPACITY = (
    "the buffer has a sixteenth of all examples of Gardner chess, about as AlphaZero's; that was"
    " chosen after trainings with 40,000, in which it learned little: in Gardner chess it came to"
    " 388 Elo over random moves, then with resignation and with one layer for value and prior"
)
_CHOSEN_GAMES = (
    "no game of self-play is resigned (the paper: four fifths may be, below -0.9). Resigned games"
    " teach no outcomes, and values of a short training are far off: this was chosen after a"
    " training that had learned little in 9x9 Go"
)
_PAPER_SIMULATIONS = 400  # in training of chess and Go
_SMOKE = Config(
    measured_at=(0, 4),
    simulations=4,
    games=4,
    batch=4,
    training_simulations=4,
    width=8,
    depth=1,
    episodes=4,
    updates=1,
    learner=PAPER_LEARNER["chess"],
    table="chess",
    solves=4,
)
_CPU = Config(
    measured_at=(0, 160, 500, 1_000, 1_600),
    games=96,
    batch=96,
    width=32,
    depth=2,
    episodes=64,
    updates=4,
    learner=PAPER_LEARNER["chess"],
    table="chess",
    solves=64,
    resignation=False,
)
_PAPER = Config(
    measured_at=(0, 2_000, 6_000, 12_000, 20_000),
    games=1024,
    batch=1024,
    episodes=1024,
    updates=8,
    learner=PAPER_LEARNER["chess"],
    table="chess",
    solves=1280,
)
_LARGE = dataclasses.replace(
    _PAPER,
    measured_at=(0, 20_000, 80_000, 200_000),
    games=512,
    batch=256,
    training_simulations=_PAPER_SIMULATIONS,
    simulations=400,
    width=256,
    depth=19,
    updates=1,
)
_LONGER = dict(measured_at=(0, 800, 2_500, 5_000, 8_000))  # where there are fewer actions
# What is other than in Gardner chess, by preset and game.
_CHANGES = {
    "smoke": {},
    "cpu": {
        "chess": dict(
            measured_at=(0, 100, 300, 600, 1_000), episodes=32, solves=32, games=32, batch=32
        ),
        # games are a quarter as long as on 19x19, and so is what is drawn
        "go_9x9": dict(measured_at=(0, 200, 600, 1_200, 2_000), greedy_after=7),
        "hex": _LONGER,
        "othello": _LONGER,
        "go_19x19": dict(
            measured_at=(0, 500, 1_500, 3_000, 5_000), episodes=16, games=32, batch=32
        ),
    },
    "paper": {"go_19x19": dict(episodes=512)},
}


def _config(preset: str, game: str, table: str) -> Config:
    """The config of a preset for a game. With the other column than the game's own there are half
    as many searches in a step, and twice as many steps, or the other way round."""
    large = preset == "paper" and game in ("chess", "go_19x19")
    base = {"smoke": _SMOKE, "cpu": _CPU, "paper": _LARGE if large else _PAPER}[preset]
    more = {"game": game, "table": table, "network": "position"}
    if table == "go":  # there are no queries, and fewer examples
        more |= {"solves": 0, "updates": max(base.updates // 2, 1)}
    config = dataclasses.replace(base, **_CHANGES[preset].get(game, {}) | more)
    if table != _TABLE[game]:
        steps = (2 * step if table == "go" else step // 2 for step in config.measured_at)
        config = dataclasses.replace(config, measured_at=tuple(steps))
    own = _LEARNERS[preset]
    if not large:
        own = own | _ADAM | {"decay_steps": config.measured_at[-1] * config.updates, "l2": 1e-4}
    elif table == "go":  # else batches would not be full
        own = own | {"max_uses": 4}
    learner = dataclasses.replace(PAPER_LEARNER[table], **own)
    return dataclasses.replace(config, learner=learner)


PRESETS = {
    preset: {game: _config(preset, game, _TABLE[game]) for game in GAMES} for preset in _CHANGES
}


def change(config: Config, options: Options) -> Config:
    """The config where values are learned from something else than in the game's own column."""
    if options.values is not None:
        table = {"queries": "chess", "outcomes": "go"}[options.values]
        config = _config(options.preset, config.game, table)
    if options.outcome_share is not None and not 0 <= options.outcome_share <= 1:
        raise ValueError(f"outcome_share={options.outcome_share} must be from 0 to 1")
    if options.outcome_share == 0 and config.table == "go":
        raise ValueError(
            "outcome_share=0 must be above 0 where no query is asked, or no value would be learned"
        )
    return dataclasses.replace(config, outcome_share=options.outcome_share)


def training_settings(config: Config, search: GrowingTreeCfr) -> StudentOfGamesSettings:
    """The paper's settings (Table S2), with the config's sizes and learner."""
    names = "episodes", "solves", "updates", "learner", "temperature"
    sizes = {name: getattr(config, name) for name in names}
    settings, own = paper_settings(config.table, search, **sizes), {}
    if config.outcome_share is not None:
        own["outcome_targets"] = config.outcome_share
    if not config.resignation:
        own["resign_below"] = None
    if config.greedy_after is not None:
        own["greedy_after"] = config.greedy_after
    self_play = dataclasses.replace(settings.self_play, **own)
    return dataclasses.replace(settings, self_play=self_play)


def new_student(game: BeliefGame, run: Run) -> Student:
    """The agent in training."""
    config = run.config
    return sog_student(
        game,
        run,
        settings_of=lambda search: training_settings(config, search),
        seed=config.seed,
    )


def _self_play_in_words(config):
    paper = PAPER_SELF_PLAY[config.table]
    if config.outcome_share not in (None, paper.outcome_targets):
        yield (
            f"values are learned from the outcomes of {config.outcome_share:.0%} of the positions"
            f" of self-play (the paper: {paper.outcome_targets:.0%})"
        )
    if not config.resignation:
        yield _CHOSEN_GAMES
    if config.greedy_after not in (None, paper.greedy_after):
        yield (
            f"the most probable move is played after {config.greedy_after} moves of self-play (the"
            f" paper: {paper.greedy_after}, on larger boards); chosen after the same training"
        )


def deviations(config: Config) -> list[str]:
    """What differs from the paper."""
    own = "; ".join(learner_deviations(config.table, config.learner))
    named = {"chess": "chess", "go_19x19": "go"}
    return [
        f"{config.measured_at[-1]:,} steps of {config.episodes} moves and {config.solves} queries"
        f" at most, and {config.updates} updates: a length of our own",
        *lost_queries(config, *PAPER_QUERIES[config.table]),
        f"{config.depth} blocks of {config.width} channels",
        *([NETWORK] * (config.torso == "alphazero")),
        *(
            [f"SoG({config.training_simulations},1) in training (the paper: SoG(400,1))"]
            * (config.training_simulations != _PAPER_SIMULATIONS)
        ),
        *([f"our learner: {own}"] * bool(own)),
        *([_CHOSEN_CAPACITY] * (config.learner.capacity == _LEARNERS["cpu"]["capacity"])),
        *_self_play_in_words(config),
        *([CHOSEN_RATE] * (config.learner.optimizer == _ADAM["optimizer"])),
        *(
            [f"settings of {config.table} in Table S2 in another game, {config.game}"]
            * (named.get(config.game) != config.table)
        ),
        "the features are pgx's",
    ]


COMMAND = training_experiment(
    "sog_board_games",
    new_student,
    presets=PRESETS,
    label=agent_name,
    options=Options,
    change=change,
    shared=lambda config: {
        "episodes": config.episodes,
        "solves": config.solves,
        "batch_size": config.learner.batch_size,
        "capacity": config.learner.capacity,
        "queue_capacity": StudentOfGamesSettings.queue_capacity,
    },
    preset_docs={
        "smoke": "minutes",
        "cpu": "an hour on one core in Gardner chess or 9x9 Go",
        "paper": "for accelerators; chess and Go on 19x19 with large networks",
    },
    deviations=deviations,
)
