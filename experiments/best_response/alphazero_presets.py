"""How AlphaZero agents and responses to them are trained and measured: the presets of
`abr_alphazero`, and its options.

Both agents may be those of other runs, of `alphazero_connect_four`.
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
    td_agent: str = ""  # likewise the agent of TD
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
    td_agent: pathlib.Path | None = None
    """Folder of a finished run of alphazero_connect_four --td_steps, trained otherwise as that of
    --agent: its first network is the agent of TD. None: it is trained here."""
    td_steps: int | None = None
    """How many moves later the searches are from whose values the agent of TD learns. None: as many
    as in the preset, or as with --td_agent."""


def configure(config: Config, options: Options) -> Config:
    """The preset with the options; refuses bad ones."""
    if options.td_steps is not None:
        at_least(1, td_steps=options.td_steps)
        config = dataclasses.replace(config, td_steps=options.td_steps)
    if options.td_agent is None:
        return config if options.agent is None else with_agent(config, options.agent)
    if options.td_steps is not None:
        raise ValueError(
            f"td_steps={options.td_steps} is for an agent of TD that is trained here; that of"
            f" td_agent={options.td_agent} is trained"
        )
    if options.agent is None:
        raise ValueError(f"td_agent={options.td_agent} needs an agent of returns, --agent")
    return with_td_agent(with_agent(config, options.agent), options.td_agent)


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
    run = _training("agent", folder)
    if run.get("td_steps"):
        raise ValueError(f"agent={folder} must learn from returns, and is a run with --td_steps")
    return dataclasses.replace(config, agent=str(folder), **_as_in(run))


def with_td_agent(config: Config, folder: pathlib.Path) -> Config:
    """The config whose agent of TD is that of a run.

    Args:
      config: whose agent of returns is that of another run.
      folder: of a finished run of `alphazero_connect_four` with `--td_steps`.

    Raises:
      ValueError: it is not such a folder, or its training differs from that of the other agent.
    """
    run = _training("td_agent", folder)
    if not run.get("td_steps"):
        raise ValueError(f"td_agent={folder} must be a run with --td_steps")
    differ = [name for name, value in _as_in(run).items() if value != getattr(config, name)]
    if differ:
        raise ValueError(
            f"td_agent={folder} must be trained as agent={config.agent}, which has another"
            f" {', '.join(differ)}"
        )
    return dataclasses.replace(config, td_agent=str(folder), td_steps=run["td_steps"])


def _training(option, folder):
    """The config of the finished training whose folder an option names."""
    path = folder / results.RESULT_FILE
    if not path.is_file() or not network_of(folder).is_file():
        raise ValueError(f"{option}={folder} must be the folder of a finished training")
    run = results.read_result(path)
    if run.experiment != _EXPERIMENT:
        raise ValueError(
            f"{option}={folder} must be a run of {_EXPERIMENT}, not of {run.experiment}"
        )
    if run.superseded:
        raise ValueError(f"{option}={folder} is of earlier code: {run.superseded}")
    return run.config


def _as_in(run):
    """What the config takes over from that of a training."""
    own = dict(measured_at=(run["measured_at"][-1],), games=run["episodes"])
    return own | {name: run[name] for name in _AS_IN_THE_RUN}


def network_of(folder: str | pathlib.Path) -> pathlib.Path:
    """The file of the network that is taken from a run: the one of its first seed."""
    return network_file(pathlib.Path(folder), 0)


_EXPERIMENT = "alphazero_connect_four"
_AS_IN_THE_RUN = (
    *NETWORK_FIELDS,
    *("training_simulations", "moves", "updates"),
    *("learning_rate", "decay", "l2", "batch_size", "capacity"),
)
