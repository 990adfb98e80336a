"""Products with factors of bfloat16 are those of the rounded factors, on all devices."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from accelerator_branches import DEVICES, branches_of

from nets import products


@pytest.fixture(params=DEVICES)
def device(request):
    with branches_of(request.param):
        yield request.param


@pytest.fixture
def factors():
    """Such as a rounding to bfloat16 changes by more than float32's errors."""
    left, right = jax.random.split(jax.random.key(0))
    return jax.random.normal(left, (5, 64)), jax.random.normal(right, (64, 7))


def in_bfloat16(numbers):
    """Rounded by NumPy's extension, exactly in float64."""
    return np.asarray(numbers).astype(ml_dtypes.bfloat16).astype(np.float64)


def test_rounding_is_to_the_nearest_and_to_even(factors):
    halves = jnp.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 3.4e38, 0.0])
    for numbers in (*factors, halves):
        np.testing.assert_array_equal(products.rounded(numbers), in_bfloat16(numbers))


@pytest.mark.usefixtures("device")
def test_products_are_those_of_rounded_factors(factors):
    found = jax.jit(lambda x, y: products.dot(x, y, "bfloat16"))(*factors)
    assert found.dtype == jnp.float32
    expected = np.matmul(*map(in_bfloat16, factors))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(expected - np.matmul(*factors)).max() > 1e-2  # the roundings are seen
    vector = products.dot(factors[0][0], factors[1], "bfloat16")
    np.testing.assert_allclose(vector, expected[0], atol=1e-5)


@pytest.mark.usefixtures("device")
def test_gradients_are_those_of_rounded_factors(factors):
    weights = jax.random.normal(jax.random.key(1), (5, 7))

    def loss(left, right):
        return jnp.sum(weights * products.dot(left, right, "bfloat16"))

    left, right = jax.grad(loss, (0, 1))(*factors)
    first, second = map(in_bfloat16, factors)
    np.testing.assert_allclose(left, weights @ second.T, rtol=2**-7, atol=0.02)
    np.testing.assert_allclose(right, first.T @ weights, rtol=2**-7, atol=0.02)


@pytest.mark.usefixtures("device")
def test_a_batch_is_a_loop(factors):
    left, right = factors
    each = jax.vmap(lambda row: products.dot(row, right, "bfloat16"))(left)
    np.testing.assert_allclose(each, products.dot(left, right, "bfloat16"), atol=1e-5)


def test_float32_is_left_as_it_is(factors):
    np.testing.assert_allclose(
        products.dot(*factors, "float32"), np.matmul(*factors), rtol=1e-5, atol=1e-5
    )
