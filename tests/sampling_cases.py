"""Games that the tests of sampling share, and exact numbers to compare averages with."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import evaluation
from solvers.sampling.decision_tree import build_decision_tree, split_by_player
from solvers.sequence_form import build_sequence_form


@functools.cache
def compiled(name):
    """A game's tree, for exact solving, for sampling."""
    tree = enumerate_game(make(name))
    return tree, build_sequence_form(tree), build_decision_tree(tree)


KUHN_STATES = 4 * 27  # rows of `kuhn_index`


def kuhn_index(state, player):
    """Own card and actions so far."""
    taken = jnp.sum((state.history + 1) * jnp.array([9, 3, 1]))
    return state.cards[player] * 27 + taken


def random_table(tree, seed):
    """Random policies `[N + 1, A]`, which regret matching takes for what they are as regrets."""
    weights = jax.random.uniform(jax.random.key(seed), tree.uniform.shape, minval=0.1)
    weights = jnp.where(tree.uniform > 0, weights, 0)
    return weights / jnp.maximum(jnp.sum(weights, axis=1, keepdims=True), 1e-9)


def assert_unbiased(sampled, exact, key, *, count):
    """`sampled(key)` `[N + 1, A]`, drawn `count` times, is on average `exact` `[N, A]`."""

    def moments(key):
        sample = sampled(key)
        return sample, sample**2

    @jax.jit
    def sums(key):
        def add(total, key):
            batch = jax.vmap(moments)(jax.random.split(key, 1000))
            return jax.tree.map(lambda x, y: x + y.sum(axis=0), total, batch), None

        zero = jax.tree.map(jnp.zeros_like, jax.eval_shape(moments, key))
        return jax.lax.scan(add, zero, jax.random.split(key, count // 1000))[0]

    mean, square = (np.asarray(x, np.float64)[:-1] / count for x in sums(key))
    spread = np.sqrt(np.maximum(square - mean**2, 0) / count)
    off = np.abs(mean - exact) / np.maximum(spread, 2e-4)  # float32 sums
    assert off.max() < 4.5  # of up to 900 numbers


def assert_side_by_side_is_one_by_one(run):
    """`run(key)`, with several keys at once and with each alone."""
    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.vmap(run)(keys)
    for number, key in enumerate(keys):
        here = jax.tree.map(lambda x, number=number: x[number], together)
        chex.assert_trees_all_close(here, run(key), rtol=1e-5)


def exact_regrets(public, tree, table):
    """Counterfactual regrets of all actions under these policies, `[N, A]`."""
    actions, states = evaluation.counterfactual_values(public, split_by_player(tree, table))
    regrets = [q - v[:, None] for q, v in zip(actions, states, strict=True)]
    return np.where(tree.uniform[:-1] > 0, np.concatenate(regrets), 0)
