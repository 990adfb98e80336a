"""Networks of leaf values: their inputs, and that they learn."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.core import CHANCE
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_rules import betting_of_rules
from jaxgames.holdem.rules import Poker
from nets.leaf_value_network import leaf_features
from train.leaf_value_regression import huber_loss, init, train_steps

GAME = Poker(
    limit=False,
    ranks=3,
    suits=4,
    blinds=(100, 50),
    stack=2000,
    first=(1, 0),
    max_raises=(3, 1),
    board=(0, 3),
)
HANDS = np.array([[0, 1], [0, 4], [0, 5]])  # a pair, suited, of two suits


def test_every_leaf_and_pair_of_hands_has_its_own_description():
    betting = betting_of_rules(GAME, sizes=BetSizes.parse("50%,100%", "100%"))
    leaves = np.flatnonzero((betting.actor == CHANCE) & (betting.street == 0))
    described = leaf_features(betting, leaves, (HANDS, HANDS), ranks=3)
    assert described.shape[:3] == (len(leaves), 3, 3)
    rows = np.asarray(described).reshape(-1, described.shape[-1])
    assert len(np.unique(rows.round(5), axis=0)) == len(rows)
    first_call = rows[0]
    assert first_call[1:7].tolist() == [0] * 6  # no raise, by nobody


def test_a_network_learns():
    drawn, start, steps = jax.random.split(jax.random.key(0), 3)
    features = jax.random.normal(drawn, (512, 5))
    targets = jnp.stack([features[:, 0] * features[:, 1], jnp.abs(features[:, 2])], axis=1)
    graph, state = init(5, 2, jax.random.clone(start), widths=(32, 32))
    before = float(huber_loss(graph, state.params, features, targets))
    learn = functools.partial(train_steps, graph, num_steps=600, batch=64)
    state = learn(state, features, targets, jax.random.clone(steps))
    after = float(huber_loss(graph, state.params, features, targets))
    assert after < 0.1 * before
    _, again = init(5, 2, jax.random.clone(start), widths=(32, 32))
    same = learn(again, features, targets, jax.random.clone(steps))
    chex.assert_trees_all_equal(same.params, state.params)
    for name, value in (("learning_rate", 0.0), ("batch", 0)):
        with pytest.raises(ValueError, match=f"{name}={value} must be positive"):
            learn(again, features, targets, jax.random.clone(steps), **{name: value})
