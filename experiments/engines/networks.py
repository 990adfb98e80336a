"""Networks of trained agents of perfect-information games, as the experiments leave them."""

from __future__ import annotations

import pathlib
from typing import Any

from flax import nnx
from jaxtyping import PyTree

from experiments.harness import runs
from experiments.perfect_information.student import (
    FIRST_NETWORK,
    NETWORK_FIELDS,
    new_sog_network,
)
from jaxgames.beliefs.contract import BeliefGame
from nets import cvpn, parameters, value_prior


def load_value_prior(
    path: pathlib.Path, game: BeliefGame
) -> tuple[value_prior.ValuePriorEvaluator, PyTree]:
    """The evaluator and the parameters of AlphaZero's network; see `load_cvpn`."""
    graph, params = nnx.split(value_prior.new_value_prior(game, seed=0, **_sizes(path)))
    evaluate = value_prior.ValuePriorEvaluator(graph)
    return evaluate, parameters.read_params(path, params, game=game.name)


def load_cvpn(path: pathlib.Path, game: BeliefGame) -> tuple[cvpn.CvpnEvaluator, PyTree]:
    """The evaluator and the parameters of the network of Student of Games.

    Args:
      path: a file of the folder `networks` of a run, finished or not, whose config has the sizes.
      game: the game that it was trained in.

    Returns:
      The evaluator and its parameters.

    Raises:
      ValueError: the network is of another kind, or of another game.
      OSError: a file cannot be read.
    """
    config = _config(path)
    kind = config.get("network", FIRST_NETWORK)
    graph, params = nnx.split(new_sog_network(game, kind, seed=0, **_sizes(path)))
    temperature = config.get("temperature", 1.0)  # of the prior in training
    evaluate = cvpn.CvpnEvaluator(graph, temperature=temperature)
    return evaluate, parameters.read_params(path, params, game=game.name)


def _config(path: pathlib.Path) -> dict[str, Any]:
    """Of the run that has left a network, or has kept it so far."""
    return runs.read_config(path.parent.parent)


def _sizes(path: pathlib.Path) -> dict[str, Any]:
    config, names = _config(path), NETWORK_FIELDS
    if missing := [name for name in names if name not in config]:
        raise ValueError(
            f"the run in {path.parent.parent} says nothing of {missing} of its network"
        )
    return {name: config[name] for name in names}
