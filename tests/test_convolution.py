"""Convolutions and their gradients are those of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator_branches import DEVICES, branches_of

from nets import convolution, products

AXES = ("NHWC", "HWIO", "NHWC")
TOLERANCES = {"float32": 1e-4, "bfloat16": 3e-2}


@pytest.fixture(params=DEVICES)
def device(request):
    with branches_of(request.param):
        yield request.param


def by_jax(inputs, kernel):
    return jax.lax.conv_general_dilated(inputs, kernel, (1, 1), "SAME", dimension_numbers=AXES)


@pytest.mark.parametrize(
    ("dtype", "device"),
    [("float32", "cpu"), ("float32", "accelerator"), *(("bfloat16", each) for each in DEVICES)],
    indirect=["device"],
)
@pytest.mark.parametrize(
    "size",
    [
        (1, 1),
        (3, 3),
        *(pytest.param(size, marks=pytest.mark.slow) for size in ((5, 3), (3, 7))),
        (15, 1),
    ],
)
@pytest.mark.usefixtures("device")
def test_values_and_gradients_are_those_of_jax(size, dtype):
    random = np.random.default_rng(0)
    sizes = (7, 6, 5, 4), (*size, 4, 3), (7, 6, 5, 3)
    inputs, kernel, weights = (random.normal(size=size).astype(np.float32) for size in sizes)
    kernel = 0.2 * kernel

    def found(convolve):
        def loss(inputs, kernel):
            return jnp.sum(weights * jnp.sin(convolve(inputs, kernel)))

        @jax.jit
        def both(inputs, kernel):
            return convolve(inputs, kernel), *jax.grad(loss, (0, 1))(inputs, kernel)

        return both(inputs, kernel)

    def convolve(inputs, kernel):
        return convolution.convolve(inputs, kernel, dtype)

    for ours, expected in zip(found(convolve), found(by_jax), strict=True):
        assert ours.dtype == expected.dtype
        off, scale = np.abs(ours - expected).max(), np.abs(expected).max()
        assert off < TOLERANCES[dtype] * scale


@pytest.mark.parametrize("device", DEVICES[:2], indirect=True)
@pytest.mark.usefixtures("device")
def test_factors_are_rounded_and_sums_are_not():
    inputs = jax.random.normal(jax.random.key(0), (7, 6, 5, 4))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 4, 3))
    expected = by_jax(products.rounded(inputs), products.rounded(kernel))
    found = convolution.convolve(inputs, kernel, "bfloat16")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_boards_one_by_one_are_the_batch(dtype):
    inputs = jax.random.normal(jax.random.key(0), (4, 3, 3, 2))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 2, 2))

    def gradient(board):
        return jax.grad(lambda kernel: jnp.sum(convolution.convolve(board, kernel, dtype) ** 2))(
            kernel
        )

    alone = jax.jit(jax.vmap(lambda board: gradient(board[None])))(inputs)
    whole = jax.jit(gradient)(inputs)
    np.testing.assert_allclose(np.sum(alone, axis=0), whole, rtol=1e-4, atol=1e-4)


def test_products_have_factors_of_bfloat16(monkeypatch):
    """XLA:CPU multiplies them several times as fast as float32, where the processor can."""
    monkeypatch.setattr(products, "cpu_has_units", lambda: True)
    inputs, kernel = jnp.ones((4, 6, 7, 16)), jnp.ones((3, 3, 16, 16))

    def loss(inputs, kernel):
        return jnp.sum(convolution.convolve(inputs, kernel, "bfloat16") ** 2)

    text = jax.jit(jax.grad(loss, (0, 1))).lower(inputs, kernel).as_text()
    lines = [line for line in text.splitlines() if "stablehlo.dot_general" in line]
    assert len(lines) == 3
    for line in lines:
        assert line.count("bf16>") == 2
        assert "contracting_dims = [1] x [0]" in line  # of no transposed factor


def axes_of_convolutions(text):
    """The orders of axes in a lowered program, as StableHLO writes them."""
    lines = [line for line in text.splitlines() if "stablehlo.convolution" in line]
    return [line.partition("dim_numbers = ")[2].partition(", window")[0] for line in lines]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_have_the_axes_that_eigen_takes(dtype, monkeypatch):
    """XLA:CPU computes others in a loop, many times as slowly."""
    monkeypatch.setattr(products, "cpu_has_units", lambda: False)
    inputs, kernel = jnp.ones((4, 3, 3, 2)), jnp.ones((3, 3, 2, 5))

    def lowered(convolve):
        def loss(inputs, kernel):
            return jnp.sum(convolve(inputs, kernel) ** 2)

        return jax.jit(jax.grad(loss, (0, 1))).lower(inputs, kernel).as_text()

    found = axes_of_convolutions(lowered(lambda x, k: convolution.convolve(x, k, dtype)))
    assert len(found) == 3
    assert set(found) == set(axes_of_convolutions(jax.jit(by_jax).lower(inputs, kernel).as_text()))
    assert len(set(axes_of_convolutions(lowered(by_jax)))) == 3
