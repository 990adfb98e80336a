"""Opponents: uniform play, tables over information states, and functions of a game's states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import at, merge_axes
from jaxgames.checks import at_least
from jaxgames.core import State, record
from jaxgames.game_tree import GameTree, check_policies
from jaxgames.play import random_playouts
from solvers.approximate_best_response.response_game import Opponent
from solvers.sampling.decision_tree import DecisionTree, split_by_player
from solvers.sampling.indexed_game import IndexedGame


@record
class UniformOpponent(Opponent):
    """Plays all legal actions with equal probability, in any game."""

    def policy(self, node: Any) -> Float[Array, " A"]:
        """Returns the uniform policy."""
        return node.uniform


@record
class TabularOpponent(Opponent):
    """Plays by a table over the information states of a compiled game."""

    table: Array  # [N + 1, A]

    def policy(self, node: Any) -> Float[Array, " A"]:
        """Returns the row of the node's information state."""
        return self.table[node.state]


@record
class RulesOpponent(Opponent):
    """Plays by a function of the state, in a game that is played by its rules."""

    function: Callable[[PyTree, State], Array] = flax.struct.field(pytree_node=False)
    params: PyTree

    def policy(self, node: Any) -> Float[Array, " A"]:
        """Returns what the function gives for the node's state."""
        return self.function(self.params, node.place)


def tabular_opponent(
    source: GameTree, policies: Sequence[Float[np.ndarray | Array, "_ _"]]
) -> TabularOpponent:
    """Builds an opponent that plays by policies of a game tree.

    Args:
      source: the game tree.
      policies: one policy `[D_p, A]` for every player p.

    Returns:
      The opponent, for all players but the responder.

    Raises:
      ValueError: `policies` are not policies of this game.
    """
    known = [np.asarray(policy) for policy in policies]
    check_policies(source, known)
    nobody = np.zeros((1, source.num_actions))
    return TabularOpponent(table=jnp.asarray(np.concatenate([*known, nobody]), jnp.float32))


def rules_opponent(
    game: IndexedGame, function: Callable[[PyTree, State], Array], params: PyTree = None
) -> RulesOpponent:
    """Builds an opponent that plays by a function of the state.

    Args:
      game: the game.
      function: maps (params, state) to the probabilities `[A]` of the actor's actions.
      params: arrays that the function needs.

    Returns:
      The opponent.

    Raises:
      ValueError: in some state of 64 random games, the function's result is not a policy over the
        legal actions.
    """
    states = random_playouts(game.game, jax.random.key(0), num_playouts=64).states
    states = merge_axes(states)
    shape = jax.eval_shape(function, params, at(states, 0)).shape
    if shape != (game.num_actions,):
        raise ValueError(
            f"the opponent's policy in a state of {game.game} has shape {shape}, not"
            f" ({game.num_actions},)"
        )
    probabilities = np.asarray(jax.jit(jax.vmap(lambda state: function(params, state)))(states))
    decides, legal = np.asarray(states.actor) >= 0, np.asarray(states.legal)
    good = np.isclose(probabilities.sum(axis=1), 1, atol=1e-4) & (probabilities >= 0).all(axis=1)
    good &= (np.where(legal, 0, probabilities) == 0).all(axis=1)
    if not good[decides].all():
        row = int(np.flatnonzero(decides & ~good)[0])
        raise ValueError(
            f"the opponent gives {probabilities[row]} in a state of {game.game} where the legal"
            f" actions are {np.flatnonzero(legal[row])}: this is not a policy over them"
        )
    return RulesOpponent(function=function, params=params)


def sampled_policy(
    tree: DecisionTree,
    act: Callable[[Any, Key[Array, ""]], Int[Array, ""]],
    key: Key[Array, ""],
    *,
    count: int = 100,
) -> tuple[Float[Array, "_ A"], ...]:
    """Estimates the policy of an agent that only acts, by counting its actions.

    Args:
      tree: the compiled game.
      act: maps (node, key) to the agent's action.
      key: consumed.
      count: how often the agent is asked at every information state.

    Returns:
      Frequencies by player `[D_p, A]`.

    Raises:
      ValueError: `count` is below 1, or the agent chooses an illegal action.
    """
    at_least(1, count=count)

    @jax.jit
    def table(key):
        nodes = jax.vmap(tree.at)(tree.worlds.place[tree.worlds.first])
        keys = jax.random.split(key, (tree.num_states, count))
        actions = jax.vmap(lambda node, keys: jax.vmap(lambda k: act(node, k))(keys))(nodes, keys)
        return jnp.mean(jax.nn.one_hot(actions, tree.num_actions), axis=1)

    frequencies = table(key)
    legal = np.asarray(tree.uniform[:-1] > 0)
    wrong = np.flatnonzero(np.where(legal, np.asarray(frequencies), 0).sum(axis=1) < 1 - 1e-4)
    if wrong.size:
        raise ValueError(
            f"{tree.game}: the agent chooses an illegal action in information state {wrong[0]}"
        )
    return split_by_player(tree, frequencies)
