"""One network under both searches of games of perfect information: it says the same to both."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from nets import CvpnEvaluator, ValuePriorEvaluator, new_cvpn, new_value_prior
from solvers.perfect_information import alphazero_search, growing_tree_agent
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.evaluators import BeliefEvaluator, PositionEvaluator
from solvers.perfect_information.growing_tree_agent import GrowingTreeAgent
from solvers.perfect_information.positions import legal_actions, position_after
from solvers.search import leaf_evaluators
from solvers.search.search_state import GrowingTreeCfr

GAME = pgx_beliefs("tic_tac_toe")
SIZES = {"seed": 3, "width": 16, "depth": 1}


@pytest.fixture(scope="module")
def states():
    """Positions after 0 and after 3 moves: either player acts in some of them."""
    openings = jnp.array([[4, 0, 8], [0, 4, 2], [1, 3, 5], [8, 7, 0], [2, 6, 4], [3, 2, 1]])
    follow = lambda state, action: (position_after(GAME, state, action), state)  # noqa: E731
    last, before = jax.vmap(lambda moves: jax.lax.scan(follow, GAME.root(), moves))(openings)
    return jax.tree.map(lambda x, y: jnp.concatenate([x[:1, 0], x[:, 1], y]), before, last)


def of(evaluate, params, *batch):
    one = functools.partial(evaluate, params, GAME)
    return jax.jit(jax.vmap(one))(*batch)


def test_both_forms_of_a_network_of_positions(states):
    graph, params = nnx.split(new_value_prior(GAME, **SIZES))
    own = ValuePriorEvaluator(graph)
    value, logits = of(own, params, states)
    reach = (jnp.full((len(value), 1), 0.5), jnp.full((len(value), 1), 0.25))
    (first, second), policy = of(BeliefEvaluator(own), params, states, reach)
    actor, legal = jax.vmap(GAME.actor)(states), jax.vmap(functools.partial(legal_actions, GAME))
    won = np.where(actor == 0, value, -value)
    assert {*np.asarray(actor).tolist()} == {0, 1}
    np.testing.assert_allclose(first[:, 0], 0.25 * won, rtol=1e-6)  # by the other one's reach
    np.testing.assert_allclose(second[:, 0], -0.5 * won, rtol=1e-6)
    weights = np.where(legal(states), np.exp(logits), 0)
    prior = weights / weights.sum(axis=1, keepdims=True)
    for player in range(2):
        acts = np.asarray(actor == player)[:, None]
        np.testing.assert_allclose(policy[player][:, :, 0], acts * prior, atol=1e-6)
    again, shifted = of(PositionEvaluator(BeliefEvaluator(own)), params, states)
    np.testing.assert_allclose(again, value, rtol=1e-6)
    np.testing.assert_allclose(jax.nn.softmax(shifted), prior, atol=1e-6)


def test_both_forms_of_a_network_of_beliefs(states):
    graph, params = nnx.split(new_cvpn(GAME, **SIZES))
    own = CvpnEvaluator(graph, temperature=1.5)
    reach = (jnp.full((len(states.score), 1), 0.5), jnp.full((len(states.score), 1), 0.25))
    values, policy = of(own, params, states, reach)
    again, same = of(BeliefEvaluator(PositionEvaluator(own)), params, states, reach)
    for player in range(2):
        np.testing.assert_allclose(again[player], values[player], atol=1e-6)
        np.testing.assert_allclose(same[player], policy[player], atol=1e-6)


@pytest.mark.slow
def test_searches_are_the_same_by_either_form(states):
    """Without knowledge: zeros and uniform priors are the same numbers in both forms."""
    keys = jax.random.split(jax.random.key(0), 4)
    some = jax.tree.map(lambda x: x[-4:], states)

    def visits(evaluate):
        agent = AlphaZeroAgent(settings=AlphaZero(evaluate, simulations=20))
        search = functools.partial(alphazero_search.search, GAME, agent)
        return jax.jit(jax.vmap(search))(jax.random.clone(keys), some).visits

    def actions(evaluate):
        settings = GrowingTreeCfr(evaluate, simulations=20, max_path=1, expand=1)
        act = functools.partial(growing_tree_agent.act, GAME, GrowingTreeAgent(settings=settings))
        return jax.jit(jax.vmap(act))(jax.random.clone(keys), some)

    own, other = alphazero_search.zero, leaf_evaluators.zero
    np.testing.assert_array_equal(visits(PositionEvaluator(other)), visits(own))
    np.testing.assert_array_equal(actions(BeliefEvaluator(own)), actions(other))


def test_games_with_secrets_are_refused():
    game = belief_table(make("kuhn_poker"))
    with pytest.raises(ValueError, match="perfect information"):
        PositionEvaluator(leaf_evaluators.zero)(None, game, game.root())
    ones = tuple(jnp.ones(rows) for rows in game.num_rows)
    with pytest.raises(ValueError, match="perfect information"):
        BeliefEvaluator(alphazero_search.zero)(None, game, game.root(), ones)
