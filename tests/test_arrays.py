"""Functions of arrays: axes, sums over actions, safe divisions, entries of pytrees, softmax."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.arrays import (
    append_axes,
    at,
    masked_log_softmax,
    masked_softmax,
    max_actions,
    prepend_axes,
    safe_divide,
    sum_actions,
)


def test_axes_are_added_on_either_side():
    values, like = jnp.ones((2, 3)), jnp.ones((2, 3, 4, 5))
    assert append_axes(values, like).shape == (2, 3, 1, 1)
    assert prepend_axes(values, like).shape == (1, 1, 2, 3)
    assert append_axes(like, like).shape == prepend_axes(like, like).shape == like.shape


def test_sums_and_maxima_over_actions():
    values = np.random.default_rng(0).normal(size=(5, 3, 2)).astype(np.float32)
    np.testing.assert_allclose(sum_actions(jnp.asarray(values)), values.sum(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(max_actions(jnp.asarray(values)), values.max(axis=0))


def test_division_by_nothing_is_finite_as_is_its_derivative():
    def quotient(weights):
        return safe_divide(weights, jnp.sum(weights))

    np.testing.assert_allclose(quotient(jnp.array([1.0, 3.0])), [0.25, 0.75])
    np.testing.assert_array_equal(quotient(jnp.zeros(2)), 0)
    assert np.isfinite(jax.jacobian(quotient)(jnp.zeros(2))).all()


def test_entries_of_pytrees():
    tree = {"a": jnp.arange(6).reshape(3, 2), "b": (jnp.arange(3),)}
    found = at(tree, 1)
    np.testing.assert_array_equal(found["a"], [2, 3])
    assert int(found["b"][0]) == 1


def test_softmax_over_legal_actions_along_either_axis():
    logits = 50 * np.random.default_rng(0).normal(size=(4, 3))
    legal = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]], bool)  # none in the last column
    given = jnp.asarray(logits, jnp.float32), jnp.asarray(legal)
    policy, logarithm = masked_softmax(*given), masked_log_softmax(*given)
    with np.errstate(divide="ignore"):
        expected = np.where(legal, logits - np.log(np.where(legal, np.exp(logits), 0).sum(0)), 0)
    np.testing.assert_allclose(logarithm[:, :2], expected[:, :2], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(logarithm[:, 2], 0)
    np.testing.assert_allclose(policy, np.where(legal, np.exp(expected), 0), rtol=1e-4, atol=1e-30)
    flipped = [x.T for x in given]
    np.testing.assert_array_equal(masked_softmax(*flipped, axis=1).T, policy)
    np.testing.assert_array_equal(masked_log_softmax(*flipped, axis=1).T, logarithm)
