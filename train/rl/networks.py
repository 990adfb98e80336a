"""The players' networks: from features of an information state to one number per action."""

from __future__ import annotations

from typing import Any

import jax
import optax
from flax import nnx
from jaxtyping import Array, Float, Key, PyTree

from nets.player_networks import new_player_networks
from solvers.sampling.decision_tree import split_by_player
from solvers.sequence_form import Policy
from train.rl.environment import Environment


def new_networks(
    environment: Environment, key: Key[Array, ""], settings: Any, *, num_outputs: int
) -> PyTree:
    """Creates a network per player.

    Args:
      environment: the game.
      key: consumed.
      settings: settings of an algorithm, with the `width` and the `depth` of its networks.
      num_outputs: numbers that a network gives.

    Returns:
      Parameters, with leaves `[P, ...]`.
    """
    return _networks(environment, key, settings, num_outputs)[1]


def graph(environment: Environment, settings: Any, *, num_outputs: int) -> nnx.GraphDef:
    """Returns the structure that all these networks share."""
    return _networks(environment, jax.random.key(0), settings, num_outputs)[0]


def _networks(environment, key, settings, num_outputs):
    return new_player_networks(
        key,
        players=environment.game.num_players,
        num_inputs=environment.num_features,
        num_outputs=num_outputs,
        width=settings.width,
        depth=settings.depth,
    )


def own_policies(environment: Environment, tables: Float[Array, "P n A"]) -> Policy:
    """Takes every player's own rows from its table over all N information states: `[D_p, A]`
    each.
    """
    each = enumerate(tables)
    return tuple(split_by_player(environment.game, table)[player] for player, table in each)


def descend(params: PyTree, gradient: PyTree, rate: Float[Array, ""]) -> PyTree:
    """Returns the parameters after one step of stochastic gradient descent."""
    rule = optax.sgd(rate)
    change, _ = rule.update(gradient, rule.init(params))
    return optax.apply_updates(params, change)
