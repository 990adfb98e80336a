"""What a searching responder wins: by games, or exactly, by composing its actions into a table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from jaxgames.arrays import index_batches
from jaxgames.checks import at_least
from jaxgames.core import TERMINAL
from jaxgames.game_tree import GameTree, own_sequence
from solvers.approximate_best_response.ismcts_br import IsmctsBr, search
from solvers.approximate_best_response.response_game import (
    ResponseGame,
    ResponseState,
    advance,
    begin,
)
from solvers.sampling import episodes
from solvers.sampling.decision_tree import DecisionTree


def play(
    response: ResponseGame,
    params: PyTree,
    key: Key[Array, ""],
    *,
    settings: IsmctsBr,
    num_games: int,
    batch: int = 256,
) -> Float[np.ndarray, " G"]:
    """Plays games in which the responder searches and takes the most visited action.

    Args:
      response: the game.
      params: arrays for the evaluator of the search.
      key: consumed.
      settings: how the responder searches.
      num_games: G.
      batch: how many games run side by side.

    Returns:
      The responder's payoff in each game.

    Raises:
      ValueError: `num_games` or `batch` is below 1.
    """
    at_least(1, num_games=num_games, batch=batch)
    keys = jax.random.split(key, num_games)
    batch = min(batch, num_games)
    payoffs = []
    for rows in index_batches(num_games, batch):
        payoffs.append(_play_batch(response, params, keys[rows], settings))
    return np.concatenate(payoffs)[:num_games].astype(np.float64)


@functools.partial(jax.jit, static_argnames="settings")
def _play_batch(response, params, keys, settings):
    """Plays one game per key."""
    game = response.game

    def play_game(key):
        start_key, key = jax.random.split(key)

        def unfinished(carry):
            state, _ = carry
            return game.at(state.place).actor != TERMINAL

        def act(carry):
            state, count = carry
            search_key, move_key = jax.random.split(jax.random.fold_in(key, count))
            result = search(response, params, search_key, state, settings=settings)
            action = jnp.argmax(result.visits).astype(jnp.int32)
            return advance(response, state, action, move_key), count + 1

        start = begin(response, start_key), jnp.int32(0)
        state, _ = jax.lax.while_loop(unfinished, act, start)
        return game.payoffs_at(state.place)[response.responder]

    return jax.vmap(play_game)(keys)


def sampled_payoffs(
    tree: DecisionTree,
    policies: Sequence[Float[np.ndarray | Array, "_ _"]],
    key: Key[Array, ""],
    *,
    num_games: int,
) -> Float[np.ndarray, "G P"]:
    """Plays games of a compiled game in which all players follow given policies.

    Args:
      tree: the compiled game.
      policies: one policy `[D_p, A]` for every player p.
      key: consumed.
      num_games: G.

    Returns:
      All players' payoffs in each game.

    Raises:
      ValueError: `num_games` is below 1.
    """
    at_least(1, num_games=num_games)
    table = jnp.concatenate([jnp.asarray(rows, jnp.float32) for rows in policies])
    table = jnp.concatenate([table, jnp.zeros_like(table[:1])])
    return np.asarray(_sampled(tree, table, jax.random.split(key, num_games)), np.float64)


@jax.jit
def _sampled(tree, table, keys):
    def choose(carry, node, noise):
        return carry, episodes.pick_action(table[node.state], noise[0]), None

    return jax.vmap(lambda key: episodes.play(tree, key, choose, None).payoffs)(keys)


def response_policy(
    response: ResponseGame,
    params: PyTree,
    key: Key[Array, ""],
    source: GameTree,
    *,
    settings: IsmctsBr,
    batch: int = 256,
    report: Callable[[int], None] = lambda done: None,
) -> Float[np.ndarray, "D A"]:
    """Composes what a searching responder would do in a compiled game into a pure policy.

    The responder searches once at every information state of its own that it can reach by its
    earlier choices, and takes the most visited action; elsewhere the policy is uniform. Its exact
    value cannot exceed that of the best response.

    Args:
      response: the game.
      params: arrays for the evaluator of the search.
      key: consumed.
      source: the game tree from which `response.game` was compiled.
      settings: how the responder searches.
      batch: how many searches run side by side.
      report: called with the number of searches after each batch.

    Returns:
      The responder's policy.

    Raises:
      ValueError: the game is not compiled, or not from `source`.
    """
    tree, player = response.game, int(response.responder)
    if not isinstance(tree, DecisionTree) or tree.num_decisions != source.num_decisions:
        raise ValueError(f"response must be a game compiled from {source.game}")
    first = sum(tree.num_decisions[:player])
    count = tree.num_decisions[player]
    policy = np.array(tree.uniform[first : first + count], np.float64)
    before = own_sequence(source, player)[source.representative(player)[:count]]
    place = np.asarray(response.belief.worlds.place)[np.asarray(response.belief.worlds.first)]
    # Search where the responder can come by its choices so far, until there is nothing new.
    waiting, reached = np.ones(count, bool), before < 0
    while (here := np.flatnonzero(waiting & reached)).size:
        waiting[here] = False
        for numbers in index_batches(len(here), batch, small=max(batch // 8, 1)):
            rows = here[numbers]
            actions = _actions(response, params, key, first + rows, place[first + rows], settings)
            policy[rows] = np.eye(policy.shape[1])[np.asarray(actions)]
            report(len(np.unique(rows)))
        state, action = np.divmod(before, source.num_actions)
        reached = (before >= 0) & ~waiting[state] & (policy[state, action] > 0)
    return policy


@functools.partial(jax.jit, static_argnames="settings")
def _actions(response, params, key, states, places, settings):
    """The most visited actions of separate searches at several information states."""

    def search_state(state, place):
        search_key = jax.random.fold_in(key, state)
        response_state = ResponseState(place=place, memory=response.belief.start())
        result = search(response, params, search_key, response_state, settings=settings)
        return jnp.argmax(result.visits)

    return jax.vmap(search_state)(states.astype(jnp.int32), places)
