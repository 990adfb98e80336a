"""An agent in training in a game of perfect information, as experiments measure it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from flax import nnx
from jaxtyping import Array, Int, PyTree

from experiments.student_of_games.training_run import Trainee
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.registry import unknown
from nets.cvpn import new_cvpn
from nets.position_network import new_position_network
from solvers.perfect_information.matches import Agent

ALONE = 0  # simulations of the network alone
NETWORK_FIELDS = ("torso", "width", "depth", "dtype")  # of a config, for `nets.new_...`
# Networks of Student of Games by their name in configs. "cvpn" has a value and a policy for each of
# two players, as where something is hidden; runs that do not name theirs are from before there was
# "position".
SOG_NETWORKS = {"position": new_position_network, "cvpn": new_cvpn}
FIRST_NETWORK = "cvpn"
# Deviations of experiments that train AlphaZero's network, and residual networks with this rate.
NETWORK = (
    "the network normalises channels, in front of its convolutions, and the value's hidden layer is"
    " as wide as the tower (the papers: batches, behind them, and 256 units)"
)
CHOSEN_RATE = (
    "the learning rate, 5e-4, was chosen in Connect Four with results in sight: with 2e-3"
    " AlphaZero's network came to a constant in self-play, and of 2e-3, 1e-3, 5e-4 and 2e-4 the"
    " last two fitted the results of the scored positions well in 150 updates"
)

SEARCHES_ANEW = (
    "each search of AlphaZero begins anew (the paper: with the values and visits of the search"
    " before)"
)

# moves(params, states [B, ...]) -> actions [B]
NetworkMoves = Callable[[PyTree, PublicState], Int[Array, " B"]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Student:
    """An agent in training."""

    trainee: Trainee
    agent: Callable[
        [PyTree, int], Agent
    ]  # with some parameters, by the simulations of its searches
    alone: NetworkMoves  # the moves of the network without a search

    @property
    def games(self) -> int:
        """How many games of training have ended."""
        return int(self.trainee.state.games)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speed:
    """How long a step of training takes."""

    seconds: float


def network_sizes(config: Any) -> dict[str, Any]:
    """What the config of an experiment says of its network, for `nets.new_...`."""
    return {name: getattr(config, name) for name in NETWORK_FIELDS}


def new_sog_network(game: BeliefGame, kind: str, **options: Any) -> nnx.Module:
    """A network of Student of Games.

    Args:
      game: of perfect information.
      kind: a key of `SOG_NETWORKS`.
      options: seed and sizes, as of `nets.new_...`.

    Raises:
      ValueError: unknown kind, or as of `nets.new_...`.
    """
    if kind not in SOG_NETWORKS:
        raise ValueError(unknown("network", kind, SOG_NETWORKS))
    return SOG_NETWORKS[kind](game, **options)


def speed(trainee: Trainee, steps: int) -> Iterator[Speed]:
    """The median time of some steps, after one that may compile. They change nothing."""
    yield Speed(seconds=float(np.median(trainee.timed_steps(steps))))
