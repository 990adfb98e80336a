"""Networks of leaf values: what they are told, and that they learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.core import CHANCE
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_rules import betting_of_rules
from jaxgames.holdem.rules import Poker
from nets.leaf_value_network import leaf_features
from train.leaf_value_regression import huber, new_leaf_value_training, train

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


def test_leaves_are_told_apart():
    betting = betting_of_rules(GAME, sizes=BetSizes.parse("50%,100%", "100%"))
    leaves = np.flatnonzero((betting.actor == CHANCE) & (betting.street == 0))
    told = leaf_features(betting, leaves, (HANDS, HANDS), ranks=3)
    assert told.shape[:3] == (len(leaves), 3, 3)
    rows = np.asarray(told).reshape(-1, told.shape[-1])
    assert len(np.unique(rows.round(5), axis=0)) == len(rows)
    first_call = rows[0]
    assert first_call[1:7].tolist() == [0] * 6  # no raise, by nobody


def test_a_network_learns():
    drawn, start, steps = jax.random.split(jax.random.key(0), 3)
    features = jax.random.normal(drawn, (512, 5))
    targets = jnp.stack([features[:, 0] * features[:, 1], jnp.abs(features[:, 2])], axis=1)
    graph, state = new_leaf_value_training(5, 2, jax.random.clone(start), widths=(32, 32))
    before = float(huber(graph, state.params, features, targets))
    state = train(graph, state, features, targets, jax.random.clone(steps), num_steps=600, batch=64)
    after = float(huber(graph, state.params, features, targets))
    assert after < 0.1 * before
    same = train(
        graph,
        new_leaf_value_training(5, 2, jax.random.clone(start), widths=(32, 32))[1],
        features,
        targets,
        jax.random.clone(steps),
        num_steps=600,
        batch=64,
    )
    jax.tree.map(np.testing.assert_array_equal, same.params, state.params)
    with pytest.raises(ValueError, match=r"learning_rate=0\.0 must be positive"):
        new_leaf_value_training(5, 2, jax.random.clone(start), learning_rate=0.0)
