"""What a searching responder wins: by games with confidence, or exactly, composed into a table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

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
    """The responder's payoffs in so many games, in which it takes the most visited actions.

    `batch` games go side by side. `key` is consumed.

    Raises:
      ValueError: `num_games` or `batch` is below 1.
    """
    for name, value in (("num_games", num_games), ("batch", batch)):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    keys = jax.random.split(key, num_games)
    batch = min(batch, num_games)
    found = []
    for first in range(0, num_games, batch):
        rows = np.minimum(np.arange(first, first + batch), num_games - 1)  # the last again
        found.append(_played(response, params, keys[rows], settings))
    return np.concatenate(found)[:num_games].astype(np.float64)


@functools.partial(jax.jit, static_argnames="settings")
def _played(response, params, keys, settings):
    game = response.game

    def one(key):
        start_key, key = jax.random.split(key)

        def going(carry):
            standing, _ = carry
            return game.at(standing.place).actor != TERMINAL

        def act(carry):
            standing, count = carry
            search_key, move_key = jax.random.split(jax.random.fold_in(key, count))
            found = search(response, params, search_key, standing, settings=settings)
            action = jnp.argmax(found.visits).astype(jnp.int32)
            return advance(response, standing, action, move_key), count + 1

        start = begin(response, start_key), jnp.int32(0)
        standing, _ = jax.lax.while_loop(going, act, start)
        return game.payoffs_at(standing.place)[response.responder]

    return jax.vmap(one)(keys)


def sampled_payoffs(
    tree: DecisionTree,
    policies: Sequence[Float[np.ndarray | Array, "_ _"]],
    key: Key[Array, ""],
    *,
    num_games: int,
) -> Float[np.ndarray, "G P"]:
    """All payoffs of so many games of a compiled game in which the players follow `policies`,
    `[D_p, A]` each. `key` is consumed.

    Raises:
      ValueError: `num_games` is below 1.
    """
    if num_games < 1:
        raise ValueError(f"num_games={num_games} must be at least 1")
    table = jnp.concatenate([jnp.asarray(rows, jnp.float32) for rows in policies])
    table = jnp.concatenate([table, jnp.zeros_like(table[:1])])
    return np.asarray(_sampled(tree, table, jax.random.split(key, num_games)), np.float64)


@jax.jit
def _sampled(tree, table, keys):
    def choose(carry, node, luck):
        return carry, episodes.pick_action(table[node.state], luck[0]), None

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
    """All that a searching responder would do in a compiled game: a pure policy.

    It searches once at every information state of its own that it can come to, `batch` of them side
    by side, and takes the most visited action; elsewhere the policy is uniform. `report` hears how
    many searches were made. `key` is consumed.

    Raises:
      ValueError: the game is not compiled, or from another tree than `source`.
    """
    tree, player = response.game, int(response.responder)
    if not isinstance(tree, DecisionTree) or tree.num_decisions != source.num_decisions:
        raise ValueError(f"only a game compiled from {source.game} can be composed")
    first = sum(tree.num_decisions[:player])
    count = tree.num_decisions[player]
    policy = np.array(tree.uniform[first : first + count], np.float64)
    before = own_sequence(source, player)[source.representative(player)[:count]]
    place = np.asarray(response.belief.worlds.place)[np.asarray(response.belief.worlds.first)]
    waiting, came = np.ones(count, bool), before < 0
    while (here := np.flatnonzero(waiting & came)).size:
        waiting[here] = False
        for rows in _parts(here, batch):
            actions = _actions(response, params, key, first + rows, place[first + rows], settings)
            policy[rows] = np.eye(policy.shape[1])[np.asarray(actions)]
            report(len(np.unique(rows)))
        state, action = np.divmod(before, source.num_actions)
        came = (before >= 0) & ~waiting[state] & (policy[state, action] > 0)
    return policy


def _parts(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Batches of one size, the last filled up by repetition; of an eighth where that is enough."""
    begin = 0
    while begin < len(rows):
        small = max(size // 8, 1)
        length = small if len(rows) - begin <= small else size
        yield rows[np.minimum(np.arange(begin, begin + length), len(rows) - 1)]
        begin += length


@functools.partial(jax.jit, static_argnames="settings")
def _actions(response, params, key, states, places, settings):
    def one(state, place):
        noise = jax.random.fold_in(key, state)
        standing = ResponseState(place=place, memory=response.belief.start())
        found = search(response, params, noise, standing, settings=settings)
        return jnp.argmax(found.visits)

    return jax.vmap(one)(states.astype(jnp.int32), places)
