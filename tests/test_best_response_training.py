"""Training of best responses: what is learned, from what, and on any number of devices."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import other_devices
import pytest
from response_cases import best_values, solved, value
from sampling_cases import compiled

from jaxgames.registry import make
from solvers.approximate_best_response import response_matches
from solvers.approximate_best_response.ismcts_br import IsmctsBr
from solvers.approximate_best_response.posterior import build_response_game
from train import best_response_training, data_sharding, replay
from train.best_response_training import ResponseEvaluator, ResponseExample, ResponseSettings
from train.learner import LearnerSettings, require_finite_losses
from train.rl.environment import build_environment

KUHN = "kuhn_poker"


@functools.cache
def case():
    """Kuhn against CFR+ after two iterations: environment, network, settings, response games."""
    environment = build_environment(make(KUHN))
    graph, params = best_response_training.new_network(
        environment, jax.random.key(0), width=32, depth=1
    )
    settings = ResponseSettings(
        search=IsmctsBr(evaluate=ResponseEvaluator(graph), simulations=16, scale=2.0, noise=0.25),
        learner=LearnerSettings(
            learning_rate=1e-2,
            decay_rate=0.1,
            decay_steps=120,
            batch_size=64,
            capacity=1024,
            policy_weight=1.0,
            l2=1e-5,
        ),
        episodes=32,
        updates=2,
    )
    source, _, _ = compiled(KUHN)
    policies = solved(KUHN, 2)
    responses = [
        build_response_game(source, environment.game, policies, responder=p) for p in range(2)
    ]
    return environment, graph, params, settings, responses, policies


def trained(player, steps, mesh=None, acts_by="visits"):
    environment, graph, params, settings, responses, _ = case()
    settings = dataclasses.replace(settings, acts_by=acts_by)
    state = best_response_training.init(
        environment, responses[player], params, jax.random.key(1), settings=settings, mesh=mesh
    )
    for number in range(steps):
        state, metrics = best_response_training.train_step(
            environment, responses[player], graph, state, settings=settings, mesh=mesh
        )
        require_finite_losses(metrics, number)
    return state, metrics


@pytest.mark.slow
@pytest.mark.parametrize("acts_by", ["visits", "prior"])
def test_what_is_learned_is_a_best_response(acts_by):
    environment, graph, _, _, responses, policies = case()
    settings = IsmctsBr(evaluate=ResponseEvaluator(graph), simulations=100, scale=2.0)
    won = []
    for player, response in enumerate(responses):
        state, _ = trained(player, 60, acts_by=acts_by)
        params = environment, state.learner.params
        policy = response_matches.response_policy(
            response, params, jax.random.key(0), compiled(KUHN)[0], settings=settings, batch=8
        )
        won.append(value(KUHN, policies, player, policy))
    np.testing.assert_allclose(won, best_values(KUHN, policies), rtol=0.01)


def test_what_is_learned_from():
    environment, _, _, settings, _, _ = case()
    state, metrics = trained(1, 8)
    count = int(state.replay.size)
    examples = jax.tree.map(np.asarray, replay.examples_at(state.replay, jnp.arange(count)))
    assert int(metrics["games"]) > 0
    assert count > 100
    assert set((examples.value * settings.search.scale).round(5)) <= {-2.0, -1.0, 1.0, 2.0}
    np.testing.assert_allclose(examples.policy.sum(axis=1), 1, rtol=1e-5)
    assert (examples.policy[~examples.legal] == 0).all()
    np.testing.assert_allclose(examples.policy * 16, np.round(examples.policy * 16), atol=1e-4)
    own = np.asarray(environment.features)[6:12]  # of player 1, who responds
    assert all((own == row).all(axis=1).any() for row in examples.features)


@pytest.mark.slow
def test_games_that_end_before_the_responders_turn_count():
    """In coin toss player 0 may sell at once: here it always does, for half a chip on average."""
    environment = build_environment(make("coin_toss"))
    graph, params = best_response_training.new_network(
        environment, jax.random.key(0), width=8, depth=1
    )
    _, _, _, settings, _, _ = case()
    search = dataclasses.replace(settings.search, evaluate=ResponseEvaluator(graph), simulations=2)
    settings = dataclasses.replace(settings, search=search)
    source, _, _ = compiled("coin_toss")
    sells = tuple(np.eye(2)[np.zeros(count, int)] for count in source.num_decisions)
    response = build_response_game(source, environment.game, sells, responder=1)
    key = jax.random.key(1)
    state = best_response_training.init(environment, response, params, key, settings=settings)
    _, metrics = best_response_training.train_step(
        environment, response, graph, state, settings=settings
    )
    assert int(metrics["games"]) == settings.episodes
    assert abs(float(metrics["won"])) <= 0.5


def test_the_loss_by_hand():
    def network(features):
        return jnp.array([0.5, -1.0]), jnp.array([[0.0, jnp.log(3.0)], [7.0, 0.0]])

    batch = ResponseExample(
        features=jnp.zeros((2, 3)),
        legal=jnp.array([[True, True], [True, False]]),
        policy=jnp.array([[0.25, 0.75], [1.0, 0.0]]),
        value=jnp.array([1.0, 1.0]),
        value_weight=jnp.array([1.0, 1.0]),
        policy_weight=jnp.array([1.0, 0.0]),
    )
    total, parts = best_response_training.response_loss(network, batch, 1.0, 2.0)
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert float(parts["values"]) == pytest.approx((0.5**2 + 2**2) / 2)
    assert float(parts["policy"]) == pytest.approx(entropy, abs=1e-6)
    assert float(total) == pytest.approx(2.125 + 2 * entropy, abs=1e-5)


def test_bad_settings():
    settings = case()[3]
    for name in ("episodes", "updates"):
        with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
            ResponseSettings(**{**vars(settings), name: 0})
    with pytest.raises(ValueError, match="acts_by='luck' must be 'visits' or 'prior'"):
        dataclasses.replace(settings, acts_by="luck")
    with pytest.raises(ValueError, match="unknown torso 'none'"):
        best_response_training.new_network(case()[0], jax.random.key(0), torso="none")


def numbers():
    """Metrics of two steps on all devices, for the test below."""
    state, _ = trained(0, 2, mesh=data_sharding.data_mesh())
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(state.learner.params)])


@pytest.mark.slow
def test_two_devices_learn_what_one_does(tmp_path):
    on_two = other_devices.numbers(__name__, tmp_path, devices=2)
    np.testing.assert_allclose(on_two, numbers(), rtol=1e-3, atol=1e-5)
