"""How AlphaZero agents and responses to them are trained and measured: the presets of
`abr_alphazero`, and its options.

The agent of returns may be that of another run, `alphazero_connect_four`.
"""

from __future__ import annotations

import dataclasses
import pathlib

from experiments.harness import results
from experiments.harness.network_files import network_file
from experiments.harness.runs import RunArguments
from experiments.perfect_information.perfect_player import GAME as CONNECT_FOUR
from experiments.perfect_information.student import NETWORK_FIELDS
from jaxgames.checks import at_least


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is trained and measured; a step makes `updates` updates after moves in `games` games."""

    measured_at: tuple[int, ...]  # steps of the agents' training, the last of which ends it
    responses_at: tuple[int, ...]  # steps of the responses' training
    curriculum: tuple[int, ...]  # simulations of the agent, which plays with the last number
    duels: int  # games per measurement
    game: str = "pgx:connect_four"
    td_steps: int = 25
    training_simulations: int = 32
    response_simulations: int = 64  # of a response when it is measured
    torso: str = "mlp"
    width: int = 128
    depth: int = 2
    dtype: str = "float32"  # of the factors in the networks
    games: int = 64
    # in each game in a step of the agents' training, which go on in the next; None: whole games,
    # as those of responses are
    moves: int | None = None
    updates: int = 16
    learning_rate: float = 2e-3
    decay: float = 0.05  # of the learning rate, from the first update to the last
    l2: float = 1e-4
    batch_size: int = 256
    capacity: int = 40_000  # of the replay buffer
    concentration: float = 1.0  # of Dirichlet noise in training
    explored_moves: int = 10  # at the start of a game of training, drawn by visits
    sampled_moves: int = 4  # likewise in games that are measured, so that the games differ
    agent: str = ""  # folder of the run that trained the agent of returns; empty: trained here
    rated: tuple[int, ...] = ()  # simulations of players of the ladder; empty: of the curriculum
    response_games: int = 0  # of a step of a response's training; 0: as many as of the agents'
    perfect_duels: int = 0  # games of a perfect player against each agent, in Connect Four


def shared_sizes(config: Config) -> dict[str, int]:
    """The sizes that devices share in training and in duels, by name."""
    names = ("games", "batch_size", "capacity", "duels", "response_games", "perfect_duels")
    return {name: size for name in names if (size := getattr(config, name))}


# The agents of `alphazero_connect_four` and their training, with 800 simulations in play. 25 moves
# are a sixth of a game of Go, and 6 are of a game of Connect Four (150 and 36 moves: Allis 1994).
_CONNECT_FOUR = Config(
    measured_at=(0, 400),
    responses_at=(0, 35, 70),
    curriculum=(1, 10, 50, 100, 200, 400, 800),
    rated=(1, 50, 800),
    duels=96,
    perfect_duels=128,
    td_steps=6,
    response_games=16,
    response_simulations=100,
    torso="alphazero",
    width=64,
    depth=5,
    dtype="bfloat16",
    learning_rate=5e-4,
    moves=24,
    capacity=100_000,
)
PRESETS = {
    "smoke": Config(
        perfect_duels=4,
        measured_at=(0, 2),
        responses_at=(0, 2),
        curriculum=(1, 2),
        duels=4,
        training_simulations=2,
        response_simulations=2,
        td_steps=3,
        width=8,
        depth=1,
        games=4,
        moves=24,
        updates=1,
        batch_size=8,
        capacity=100,
    ),
    "cpu": Config(
        measured_at=(0, 60, 180),
        responses_at=(0, 20, 40, 60),
        curriculum=(1, 10, 50),
        duels=96,
        perfect_duels=128,
        td_steps=6,
        response_simulations=50,
        width=64,
        capacity=20_000,
    ),
    "connect_four": _CONNECT_FOUR,
    "connect_four_large": dataclasses.replace(
        _CONNECT_FOUR,
        responses_at=(0, 70, 175, 350, 700),
        rated=(),
        duels=256,
        perfect_duels=1024,
        games=256,
        response_games=256,
        updates=64,
        response_simulations=800,
    ),
    "paper": Config(
        game="pgx:go_9x9",
        measured_at=(0, 1000, 3000, 10_000),
        responses_at=(0, 350, 700, 1400, 2100, 2800, 3500),
        curriculum=(1, 10, 50, 100, 200, 400, 800),
        duels=1024,
        training_simulations=200,
        response_simulations=800,
        torso="alphazero",
        width=128,
        depth=10,
        dtype="bfloat16",
        games=512,
        moves=96,
        updates=100,
        learning_rate=5e-4,
        batch_size=2048,
        concentration=0.15,
        capacity=2_000_000,
        explored_moves=30,
        sampled_moves=30,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    agent: pathlib.Path | None = None
    """Folder of a finished run of alphazero_connect_four: its first network is the agent of
    returns, and the agent of TD is trained as long and in the same way. None: both are trained
    here."""
    td_steps: int | None = None
    """How many moves later the searches are from whose values the agent of TD learns; None: as many
    as in the preset."""


def configure(config: Config, options: Options) -> Config:
    """The preset with the options; refuses bad ones."""
    if options.td_steps is not None:
        at_least(1, td_steps=options.td_steps)
        config = dataclasses.replace(config, td_steps=options.td_steps)
    return config if options.agent is None else with_agent(config, options.agent)


def with_agent(config: Config, folder: pathlib.Path) -> Config:
    """The config whose agent of returns is that of a run, and whose training is the run's.

    Args:
      config: of Connect Four.
      folder: of a finished run of `alphazero_connect_four`.

    Raises:
      ValueError: it is not such a folder, or the config is of another game.
    """
    if config.game != CONNECT_FOUR:
        raise ValueError(f"agent={folder} is for presets of {CONNECT_FOUR}, not of {config.game}")
    path = folder / results.RESULT_FILE
    if not path.is_file() or not network_of(folder).is_file():
        raise ValueError(f"agent={folder} must be the folder of a finished training")
    run = results.read_result(path)
    if run.experiment != _TRAINING:
        raise ValueError(f"agent={folder} must be a run of {_TRAINING}, not of {run.experiment}")
    return dataclasses.replace(
        config,
        agent=str(folder),
        measured_at=(run.config["measured_at"][-1],),
        games=run.config["episodes"],
        **{name: run.config[name] for name in _AS_IN_THE_RUN},
    )


def network_of(folder: str | pathlib.Path) -> pathlib.Path:
    """The file of the network that is taken from a run: the one of its first seed."""
    return network_file(pathlib.Path(folder), 0)


_TRAINING = "alphazero_connect_four"
_AS_IN_THE_RUN = (
    *NETWORK_FIELDS,
    *("training_simulations", "moves", "updates"),
    *("learning_rate", "decay", "l2", "batch_size", "capacity"),
)
