"""Networks of the players: from features of an information state to a number per action."""

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
    """Parameters of a network per player: leaves `[P, ...]`. `key` is consumed.

    `settings` are of an algorithm, with the `width` and the `depth` of its networks.
    """
    return _networks(environment, key, settings, num_outputs)[1]


def graph(environment: Environment, settings: Any, *, num_outputs: int) -> nnx.GraphDef:
    """What all these networks have in common."""
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
    """From every player's table over all N information states its own rows: `[D_p, A]`."""
    each = enumerate(tables)
    return tuple(split_by_player(environment.game, table)[player] for player, table in each)


def descend(params: PyTree, gradient: PyTree, rate: Float[Array, ""]) -> PyTree:
    """Parameters after one step of stochastic gradient descent."""
    rule = optax.sgd(rate)
    change, _ = rule.update(gradient, rule.init(params))
    return optax.apply_updates(params, change)
