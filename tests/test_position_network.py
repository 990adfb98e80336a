"""Networks of Student of Games where nothing is hidden: AlphaZero's, as both players see them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from nets.cvpn import CvpnEvaluator
from nets.position_network import new_position_network
from nets.value_prior import ValuePriorEvaluator
from solvers.perfect_information.evaluators import BeliefEvaluator, PositionEvaluator

GAME = pgx_beliefs("tic_tac_toe")
GRAPH, PARAMS = nnx.split(new_position_network(GAME, seed=0, width=8, depth=1))
ALPHAZERO = ValuePriorEvaluator(nnx.graphdef(nnx.merge(GRAPH, PARAMS).mover))
REACH = jnp.array([0.5]), jnp.array([0.25])


def after(*actions):
    state = GAME.root()
    for action in actions:
        state = GAME.child(state, action)
    return state


@pytest.mark.parametrize("actions", [pytest.param((4,), marks=pytest.mark.slow), (4, 0), (4, 0, 8)])
def test_it_says_what_alphazeros_network_says(actions):
    """Of the first player's positions and of the second's, at any reach."""
    state = after(*actions)
    found = CvpnEvaluator(GRAPH)(PARAMS, GAME, state, REACH)
    expected = BeliefEvaluator(ALPHAZERO)(PARAMS["mover"], GAME, state, REACH)
    for own, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-7)
    assert np.abs(found[0][0]) > 1e-3


def test_both_ways_and_back_are_the_network():
    value, logits = PositionEvaluator(CvpnEvaluator(GRAPH))(PARAMS, GAME, after(4))
    expected, prior = ALPHAZERO(PARAMS["mover"], GAME, after(4))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    legal = np.arange(9) != 4
    np.testing.assert_allclose(
        jax.nn.softmax(logits[legal]), jax.nn.softmax(prior[legal]), rtol=1e-5
    )


def test_a_temperature_flattens_the_prior():
    policies = [
        CvpnEvaluator(GRAPH, temperature=t)(PARAMS, GAME, GAME.root(), REACH)[1][0][:, 0]
        for t in (1.0, 2.0)
    ]
    expected = np.sqrt(policies[0])
    np.testing.assert_allclose(policies[1], expected / expected.sum(), rtol=1e-5)


def test_games_whose_features_the_player_to_move_does_not_see_are_refused():
    with pytest.raises(ValueError, match="has no features that are seen by the player to move"):
        new_position_network(belief_table(make("kuhn_poker")), seed=0)


def test_networks_of_another_game_are_refused():
    other = pgx_beliefs("connect_four")
    with pytest.raises(ValueError, match=r"the network has num_actions=9, and does not fit"):
        CvpnEvaluator(GRAPH)(PARAMS, other, other.root(), REACH)
    wider = nnx.state(new_position_network(other, seed=0, width=8, depth=1))
    with pytest.raises(ValueError, match="params are of a network with 7 actions, and do not fit"):
        CvpnEvaluator(GRAPH)(wider, GAME, GAME.root(), REACH)
