"""Functions of arrays: axes, sums over actions, safe divisions, entries of pytrees, softmax."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.arrays import (
    append_axes,
    at,
    choose,
    choose_rows,
    index_batches,
    masked_log_softmax,
    masked_softmax,
    max_actions,
    merge_axes,
    prepend_axes,
    safe_divide,
    select_entry,
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


@pytest.mark.parametrize("longest", [3, 4])
def test_sums_are_unrolled_up_to_the_length_asked_for(longest):
    values = jnp.arange(12.0).reshape(4, 3)
    total = functools.partial(sum_actions, longest=longest)
    assert ("reduce_sum" in str(jax.make_jaxpr(total)(values))) == (longest < 4)
    np.testing.assert_array_equal(total(values), values.sum(axis=0))


def test_entries_are_selected_as_by_an_index():
    values = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)), jnp.float32)
    number = jnp.array([2, 0, 1, 2])
    expected = np.asarray(values)[number, np.arange(4)]
    np.testing.assert_array_equal(select_entry(values, number), expected)
    np.testing.assert_array_equal(select_entry([*values], number), expected)
    np.testing.assert_array_equal(select_entry(values[:, 0], number), values[number, 0])


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
    for index in (slice(1, 3), np.array([0, 2]), jnp.array([True, False, True]), (2,)):
        np.testing.assert_array_equal(at(tree, index)["a"], tree["a"][index])
    np.testing.assert_array_equal(at(tree["a"], (1, 0)), 2)


def test_first_two_axes_become_one():
    tree = {"a": jnp.arange(24).reshape(2, 3, 4), "b": (jnp.arange(6).reshape(2, 3), None)}
    merged = merge_axes(tree)
    np.testing.assert_array_equal(merged["a"], np.arange(24).reshape(6, 4))
    np.testing.assert_array_equal(merged["b"][0], np.arange(6))


def test_one_of_two_pytrees_is_chosen_as_a_whole_or_by_rows():
    these = {"a": jnp.ones((3, 2)), "b": jnp.ones(3, jnp.int32)}
    those = jax.tree.map(jnp.zeros_like, these)
    for condition in (True, False):
        chosen = choose(jnp.bool_(condition), these, those)
        chex.assert_trees_all_equal(chosen, these if condition else those)
    rows = choose_rows(jnp.array([True, False, True]), these, those)
    np.testing.assert_array_equal(rows["a"], [[1, 1], [0, 0], [1, 1]])
    np.testing.assert_array_equal(rows["b"], [1, 0, 1])


@pytest.mark.parametrize(
    ("count", "small", "expected"),
    [
        (0, 0, []),
        (7, 0, [[0, 1, 2, 3], [4, 5, 6, 6]]),
        (8, 2, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (7, 2, [[0, 1, 2, 3], [4, 5, 6, 6]]),
        (5, 2, [[0, 1, 2, 3], [4, 4]]),
        (2, 2, [[0, 1]]),
    ],
)
def test_batches_of_numbers_have_one_size_or_a_small_one(count, small, expected):
    assert [x.tolist() for x in index_batches(count, 4, small)] == expected


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
