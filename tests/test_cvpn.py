"""Value-and-policy networks as evaluators of a search."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from nets import cvpn
from solvers.search import continual_resolving, growing_tree_cfr, readouts, search_state


@functools.cache
def table():
    return belief_table(make("leduc_poker"))


def evaluator(**options):
    network = cvpn.new_cvpn(table(), seed=0, width=16, depth=2, **options)
    return nnx.split(network)


STATES = jnp.arange(3, 60)


def random_reach(seed=0):
    reach = jax.random.uniform(jax.random.key(seed), (len(STATES), 2, 6))
    return jnp.where(jax.vmap(table().rows)(STATES), reach, 0)


def evaluated(reach, zero_sum=True, smoothing=0.0, **options):
    graph, params = evaluator(**options)
    evaluate = cvpn.CvpnEvaluator(graph, zero_sum=zero_sum, smoothing=smoothing)
    return jax.jit(jax.vmap(functools.partial(evaluate, params, table())))(STATES, reach)


def test_beliefs_expect_opposite_payoffs():
    reach = random_reach()
    values, _ = evaluated(reach)
    expected = np.einsum("spn,spn->sp", reach, values)
    np.testing.assert_allclose(expected.sum(axis=1), 0, atol=1e-6)
    values, _ = evaluated(reach, zero_sum=False)
    expected = np.einsum("spn,spn->sp", reach, values)
    assert np.abs(expected.sum(axis=1)).max() > 1e-3


def test_values_scale_with_the_opponents_reach_only():
    reach = random_reach()
    values, prior = evaluated(reach)
    scaled, same = evaluated(reach.at[:, 0].multiply(0.25))
    np.testing.assert_allclose(scaled[:, 0], values[:, 0], rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(scaled[:, 1], 0.25 * values[:, 1], rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(same, prior, rtol=1e-5)


def test_smoothed_ranges_are_between_the_beliefs_and_uniform_ones():
    """Of the network's answer; what it is scaled with remains the true reach."""
    reach = random_reach() * jnp.array([0.3, 0.7])[None, :, None]
    half, prior = evaluated(reach, smoothing=0.5, zero_sum=False)
    rows = np.asarray(jax.vmap(table().rows)(STATES))
    share = lambda x: np.asarray(x) / np.sum(x, axis=2, keepdims=True)  # noqa: E731
    seen = jnp.asarray(0.5 * share(reach) + 0.5 * share(rows), jnp.float32)
    expected, same = evaluated(seen, zero_sum=False)
    compatible = jax.vmap(table().compatible, (0, None, 0))
    mass = lambda x: np.stack([compatible(STATES, p, x[:, 1 - p]) for p in range(2)], 1)  # noqa: E731
    per_unit = lambda values, x: (values / mass(x))[rows]  # noqa: E731
    np.testing.assert_allclose(per_unit(half, reach), per_unit(expected, seen), rtol=1e-4)
    np.testing.assert_allclose(prior, same, rtol=1e-5)
    blind, _ = evaluated(reach, smoothing=1.0, zero_sum=False)
    other = random_reach(1)
    moved, _ = evaluated(other, smoothing=1.0, zero_sum=False)
    np.testing.assert_allclose(per_unit(blind, reach), per_unit(moved, other), rtol=1e-4)
    with pytest.raises(ValueError, match=r"smoothing=1.5 must be from 0 to 1"):
        cvpn.CvpnEvaluator(evaluator()[0], smoothing=1.5)


def test_absent_rows_have_value_0():
    values, prior = evaluated(random_reach())
    rows = np.asarray(jax.vmap(table().rows)(STATES))
    assert not np.asarray(values)[~rows].any()
    legal = np.asarray(jax.vmap(table().legal)(STATES))
    assert not np.asarray(prior)[~legal].any()
    np.testing.assert_allclose(np.asarray(prior).sum(axis=1)[legal.any(axis=1)], 1, rtol=1e-5)


def test_nothing_reached_is_finite():
    values, prior = evaluated(jnp.zeros((len(STATES), 2, 6)))
    chex.assert_tree_all_finite((values, prior))


@pytest.mark.parametrize("torso", ["mlp", "residual"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_outputs_are_float32(torso, dtype):
    values, prior = evaluated(random_reach(), torso=torso, dtype=dtype)
    assert values.dtype == prior.dtype == jnp.float32


@pytest.mark.parametrize(
    ("options", "atol"),
    [
        ({}, 1e-6),
        ({"torso": "residual"}, 1e-6),
        ({"smoothing": 0.5, "zero_sum": False}, 1e-6),
        ({"dtype": "bfloat16"}, 2e-2),
    ],
)
def test_values_from_what_was_prepared_are_the_values(options, atol):
    reach = random_reach()
    how = {name: options[name] for name in ("smoothing", "zero_sum") if name in options}
    graph, params = evaluator(**{k: x for k, x in options.items() if k not in how})
    evaluate = cvpn.CvpnEvaluator(graph, **how)
    expected, _ = evaluated(reach, **options)
    ahead = jax.vmap(functools.partial(evaluate.prepare, params, table()))(STATES)
    values = functools.partial(evaluate.prepared_values, params, table())
    np.testing.assert_allclose(jax.vmap(values)(STATES, ahead, reach), expected, atol=atol)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"torso": "conv"}, "unknown torso 'conv'; allowed: mlp, residual"),
        ({"width": 0}, "width=0 and depth=3 must be at least 1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        cvpn.new_cvpn(table(), seed=0, **options)


def test_a_search_takes_it():
    graph, params = evaluator()
    settings = search_state.GrowingTreeCfr(cvpn.CvpnEvaluator(graph), simulations=5, max_path=1)
    problem = continual_resolving.first_problem(table(), max_path=1)
    search = jax.jit(growing_tree_cfr.search, static_argnames="settings")
    result = search(table(), params, jax.random.key(0), problem=problem, settings=settings)
    assert int(result.iterations) == 5
    chex.assert_tree_all_finite(readouts.average_policy(result))


def test_networks_come_back_from_files():
    _, params = evaluator()
    back = cvpn.from_bytes(cvpn.to_bytes(params), params)
    chex.assert_trees_all_equal(back, params)
    _, other = nnx.split(cvpn.new_cvpn(table(), seed=0, width=8, depth=2))
    with pytest.raises(ValueError, match=r"has shape \(.*\); it must have shape \("):
        cvpn.from_bytes(cvpn.to_bytes(params), other)
