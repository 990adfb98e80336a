"""Convolutions and their gradients are those of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nets import convolution

AXES = ("NHWC", "HWIO", "NHWC")


def by_jax(inputs, kernel):
    return jax.lax.conv_general_dilated(inputs, kernel, (1, 1), "SAME", dimension_numbers=AXES)


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (5, 3)])
def test_values_and_gradients_are_those_of_jax(size):
    keys = jax.random.split(jax.random.key(0), 3)
    inputs = jax.random.normal(keys[0], (7, 6, 5, 4))
    kernel = jax.random.normal(keys[1], (*size, 4, 3))
    weights = jax.random.normal(keys[2], (7, 6, 5, 3))

    def found(convolve):
        def loss(inputs, kernel):
            return jnp.sum(weights * jnp.sin(convolve(inputs, kernel)))

        return convolve(inputs, kernel), *jax.grad(loss, (0, 1))(inputs, kernel)

    for ours, expected in zip(found(convolution.convolve), found(by_jax), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


def test_boards_one_by_one_are_the_batch():
    inputs = jax.random.normal(jax.random.key(0), (4, 3, 3, 2))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 2, 2))

    def gradient(board):
        return jax.grad(lambda kernel: jnp.sum(convolution.convolve(board, kernel) ** 2))(kernel)

    alone = jax.vmap(lambda board: gradient(board[None]))(inputs)
    np.testing.assert_allclose(jnp.sum(alone, axis=0), gradient(inputs), rtol=1e-4, atol=1e-4)


def axes_of_convolutions(text):
    """The orders of axes in a lowered program, as StableHLO writes them."""
    lines = [line for line in text.splitlines() if "stablehlo.convolution" in line]
    return [line.partition("dim_numbers = ")[2].partition(", window")[0] for line in lines]


def test_gradients_have_the_axes_that_eigen_takes():
    """XLA:CPU computes others in a loop, many times as slowly."""
    inputs, kernel = jnp.ones((4, 3, 3, 2)), jnp.ones((3, 3, 2, 5))

    def lowered(convolve):
        def loss(inputs, kernel):
            return jnp.sum(convolve(inputs, kernel) ** 2)

        return jax.jit(jax.grad(loss, (0, 1))).lower(inputs, kernel).as_text()

    found = axes_of_convolutions(lowered(convolution.convolve))
    assert len(found) == 3
    assert set(found) == set(axes_of_convolutions(jax.jit(by_jax).lower(inputs, kernel).as_text()))
    assert len(set(axes_of_convolutions(lowered(by_jax)))) == 3
