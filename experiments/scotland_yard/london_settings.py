"""The settings of `sog_london`: what is trained and measured, its presets, and its options.

They say which game is played and with which network training begins; both are made here, so that
bad options are refused before anything runs.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Literal

import jax
from flax import nnx

from experiments.harness.network_files import network_file
from experiments.harness.runs import RunArguments
from experiments.scotland_yard.trained_students import new_network, read_student
from jaxgames.registry import make
from jaxgames.scotland_yard.beliefs import ScotlandYardBeliefs, scotland_yard_beliefs
from jaxgames.scotland_yard.rules import ScotlandYard
from nets import cvpn, parameters
from nets.station_network import StationNetwork
from solvers.scotland_yard.pimbot import PimBot
from train.learner import LearnerSettings
from train.paper_settings import PAPER_LEARNER

PAPER_NETWORK = {"width": 512, "depth": 6}  # Table S2
_STATIONS = {"width": 16, "depth": 3}  # the sizes of ours, in all presets


NetworkKind = Literal["mlp", "stations"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The training and its measurements.

    A step of training plays `episodes` moves of self-play and solves `solves` queries at most.
    """

    game: str = "scotland_yard"
    start: str = ""  # folder of a run, with whose last network training begins; empty: random
    start_steps: int = 0  # of training that this network has had
    start_games: tuple[str, ...] = ()  # others that it was trained in before
    measured_at: tuple[int, ...]  # steps of training, which ends at the last
    simulations: int = 32  # of searches in training and when measured
    network: NetworkKind = "mlp"
    late_starts: float = 0.0  # share of the games of training that begin after Mr X showed himself
    width: int = PAPER_NETWORK["width"]
    depth: int = PAPER_NETWORK["depth"]
    dtype: str = "bfloat16"  # of the factors in the network
    # room of the searches' trees: children of a node on average, and shares of nodes at which Mr X
    # and detectives act
    children: float = 16.0
    decision_shares: tuple[float, float] = (0.4, 1.0)
    episodes: int
    solves: int
    updates: int  # gradient updates in a step
    learner: LearnerSettings
    opponents: tuple[int, ...] = (10, 100)  # simulations of PimBot when measured
    games: int  # of each role against each opponent when measured
    batch: int  # games side by side when measured
    exploration: float = PimBot.exploration  # C of PimBot
    reduction: float = PimBot.reduction  # r of PimBot
    seed: int = 0


_LEARNER = dataclasses.replace(
    PAPER_LEARNER["scotland_yard"],
    optimizer="adam",
    learning_rate=1e-3,
    decay_rate=0.05,
    decay_steps=4_800,
    batch_size=256,
    capacity=50_000,
    max_uses=60,
)
# A step makes up to 32 searches, in about a second on two cores. A measurement has at most 64 games
# with 24 searches as Mr X and 64 with 120 as detectives.
_CPU = Config(
    measured_at=(0, 60, 240, 720, 1_440, 2_400),
    width=256,
    depth=3,
    episodes=24,
    solves=8,
    updates=2,
    learner=_LEARNER,
    games=32,
    batch=32,
)
_STATIONS_CPU = dataclasses.replace(_CPU, network="stations", late_starts=0.5, **_STATIONS)
PRESETS = {
    "smoke": Config(
        game="scotland_yard(map=glasses,rounds=3)",
        measured_at=(0, 6),
        simulations=4,
        width=16,
        depth=1,
        children=4.0,
        episodes=4,
        solves=4,
        updates=1,
        learner=dataclasses.replace(_LEARNER, batch_size=8, capacity=256, decay_steps=6),
        opponents=(10,),
        games=4,
        batch=2,
    ),
    "cpu": _CPU,
    "stations": _STATIONS_CPU,
    "curriculum": dataclasses.replace(
        _STATIONS_CPU,
        measured_at=(0, 120, 480),
        learner=dataclasses.replace(_LEARNER, decay_steps=960),
        opponents=(100,),
        games=50,
        batch=50,
    ),
    "gpu": Config(
        measured_at=(0, 50, 150, 500),
        episodes=768,
        solves=256,
        updates=16,
        learner=dataclasses.replace(
            _LEARNER, batch_size=1024, capacity=100_000, max_uses=20, decay_steps=8_000
        ),
        games=32,
        batch=32,
    ),
    # 17 million steps of 1,024 searches, of which an H200 makes 1,383 a second (`benchmark
    # accelerator`), are 146 days; the first 10,000 steps are two hours.
    "paper": Config(
        measured_at=(
            *(0, 10_000, 30_000, 100_000, 300_000),
            *(1_000_000, 1_700_000, 3_000_000, 8_000_000, 17_000_000),
        ),
        episodes=768,
        solves=256,
        updates=4,
        learner=PAPER_LEARNER["scotland_yard"],
        games=1_000,
        batch=200,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    game: str | None = None
    """A game of Scotland Yard; by default the preset's. A run on a smaller map is the first part of
    a curriculum: --start takes its network to London, if it is one of stations and the game has as
    many detectives and rounds."""
    network: NetworkKind | None = None
    """The paper's multilayer perceptron, or ours, in which all stations of the map share their
    weights; by default the preset's."""
    late_starts: float | None = None
    """Share of the games of training that begin in the middle, at random stations, right after Mr X
    has shown himself; by default the preset's. The paper has none."""
    steps: int = 0
    """Steps of training; 0: as many as the preset has. Measurements come after the same shares of
    the training as in the preset, and the learning rate falls as far."""
    games_last: bool = False
    """Play the games of all measurements after the training: for machines that are lent for a
    while. The networks are kept on the way, and the games are the same."""
    start: pathlib.Path | None = None
    """Folder of another run, with whose last network training begins in place of a random one; it
    must be of the same kind and sizes, and of a game with as many detectives and rounds."""
    seed: int = 0
    """Seed of the initial network, of training and of the games."""


def configure(config: Config, options: Options) -> Config:
    """The preset with the options.

    Raises:
      ValueError: an unknown game or one of another kind, deals of different weights, a negative
        number of steps, late starts that the game does not have, or another network to start with.
      OSError: the network to start with cannot be read.
    """
    if options.steps < 0:
        raise ValueError(f"steps={options.steps} must be at least 1, or 0 for the preset's")
    longer = (options.steps or config.measured_at[-1]) / config.measured_at[-1]
    steps = dict.fromkeys(round(step * longer) for step in config.measured_at)
    decay_steps = math.ceil(config.learner.decay_steps * longer)
    if options.game is not None:
        if not isinstance(game := make(options.game), ScotlandYard):
            raise ValueError(f"game={game} must be a game of Scotland Yard")
        if game != make(config.game):
            config = dataclasses.replace(config, game=str(game))
    if options.network not in (None, config.network):
        sizes = _STATIONS if options.network == "stations" else PAPER_NETWORK
        config = dataclasses.replace(config, network=options.network, **sizes)
    if options.late_starts is not None:
        config = dataclasses.replace(config, late_starts=options.late_starts)
    config = dataclasses.replace(
        config,
        learner=dataclasses.replace(config.learner, decay_steps=decay_steps),
        measured_at=(*steps,),
        seed=options.seed,
    )
    beliefs = beliefs_of(config)  # refuses late starts
    jax.eval_shape(beliefs.random_root, jax.random.key(0))  # refuses deals
    if options.start is None:
        return config
    try:
        start = read_student(options.start)
    except ValueError as error:
        raise ValueError(f"start: {error}") from error
    steps = start.steps[-1] + start.config.get("start_steps", 0)
    others = [] if start.rules == make(config.game) else [start.config["game"]]
    config = dataclasses.replace(
        config,
        start=str(options.start),
        start_steps=steps,
        start_games=(*start.start_games, *others),
    )
    first_network(beliefs, config)  # refuses others
    return config


def first_network(beliefs: ScotlandYardBeliefs, config: Config) -> cvpn.Cvpn | StationNetwork:
    """The network with which training begins: random, or the last one of the run `start`.

    Raises:
      ValueError: the network of that run has other sizes, or is of another kind.
      OSError: it cannot be read.
    """
    network = new_network(beliefs, dataclasses.asdict(config), seed=config.seed)
    if not config.start:
        return network
    folder = pathlib.Path(config.start)
    graph, params = nnx.split(network)
    path = network_file(folder, read_student(folder).steps[-1])
    return nnx.merge(graph, parameters.read_params(path, params))


def beliefs_of(config: Config) -> ScotlandYardBeliefs:
    """The game, in which detectives are dealt anew for each game of self-play."""
    rules = make(config.game)
    starts = rules.detective_starts[: rules.detectives]
    return scotland_yard_beliefs(rules, detective_starts=starts, late_starts=config.late_starts)
