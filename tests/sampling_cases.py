"""Games that the tests of sampling share, and exact numbers to compare averages with."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import evaluation
from solvers.public_tree import build_public_tree
from solvers.sampling.decision_tree import build_decision_tree, policies


@functools.cache
def compiled(name):
    """A game's tree, for exact solving, for sampling."""
    tree = enumerate_game(make(name))
    return tree, build_public_tree(tree), build_decision_tree(tree)


def random_table(tree, seed):
    """Random policies `[N + 1, A]`, which regret matching takes for what they are as regrets."""
    weights = jax.random.uniform(jax.random.key(seed), tree.uniform.shape, minval=0.1)
    weights = jnp.where(tree.uniform > 0, weights, 0)
    return weights / jnp.maximum(jnp.sum(weights, axis=1, keepdims=True), 1e-9)


def exact_regrets(public, tree, table):
    """Counterfactual regrets of all actions under these policies, `[N, A]`."""
    actions, states = evaluation.counterfactual_values(public, policies(tree, table))
    regrets = [q - v[:, None] for q, v in zip(actions, states, strict=True)]
    return np.where(tree.uniform[:-1] > 0, np.concatenate(regrets), 0)
