"""Parameters of networks in files."""

import functools

import chex
import jax
import pytest
from flax import nnx

from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from nets import cvpn, parameters


@functools.cache
def new_params(*, width=16, depth=2):
    network = cvpn.new_cvpn(belief_table(make("leduc_poker")), seed=0, width=width, depth=depth)
    return nnx.split(network)[1]


def test_networks_come_back_from_files():
    params = new_params()
    back = parameters.from_bytes(parameters.to_bytes(params), params)
    chex.assert_trees_all_equal(back, params)
    other = new_params(width=8)
    with pytest.raises(ValueError, match=r"has shape \(.*\); it must have shape \("):
        parameters.from_bytes(parameters.to_bytes(params), other)
    shallow, deep = new_params(depth=2), new_params(depth=3)
    with pytest.raises(ValueError, match=r"parameter .* is not one of the network's"):
        parameters.from_bytes(parameters.to_bytes(deep), shallow)


def test_half_the_bytes_keep_three_digits():
    params = new_params()
    whole, half = parameters.to_bytes(params), parameters.to_bytes(params, dtype="float16")
    assert len(half) < 0.65 * len(whole)  # of a network so small that names count
    back = parameters.from_bytes(half, params)
    chex.assert_trees_all_close(back, params, rtol=2**-11, atol=1e-7)
    chex.assert_trees_all_equal_dtypes(back, params)
    large = jax.tree.map(lambda x: x + 1e5, params)
    with pytest.raises(ValueError, match="too large for float16"):
        parameters.to_bytes(large, dtype="float16")


@pytest.mark.parametrize("damage", [lambda x: b"", lambda x: b"no network", lambda x: x[:400]])
def test_damaged_files_are_refused(damage):
    params = new_params()
    with pytest.raises(ValueError, match=r"this is no .npz file, or a damaged one:"):
        parameters.from_bytes(damage(parameters.to_bytes(params)), params)


@pytest.mark.parametrize("place", ["in an array", "how an array is compressed"])
def test_a_byte_that_changed_is_noticed(place):
    params = new_params()
    content = bytearray(parameters.to_bytes(params))
    directory = content.rindex(b"PK\1\2")  # of the last array, in the zip file's directory
    content[len(content) // 2 if place == "in an array" else directory + 10] ^= 255
    with pytest.raises(ValueError, match=r"this is no .npz file, or a damaged one:"):
        parameters.from_bytes(bytes(content), params)


class Normalised(nnx.Module):
    def __init__(self, layer, rngs):
        self.linear, self.layer = nnx.Linear(3, 4, rngs=rngs), layer


def test_statistics_and_keys_are_no_parameters():
    """They would be differentiated, and what a network does to them would be lost."""
    rngs = nnx.Rngs(0)
    parameters.require_parameters(new_params())
    fine = nnx.split(Normalised(nnx.LayerNorm(4, rngs=rngs), rngs))[1]
    parameters.require_parameters(fine)
    for layer, kind in (
        (nnx.BatchNorm(4, rngs=rngs), "BatchStat at .*layer.*mean"),
        (nnx.Dropout(0.5, rngs=rngs), "RngKey|RngCount"),
    ):
        with pytest.raises(ValueError, match=f"params hold a ({kind}).* without batch normal"):
            parameters.require_parameters(nnx.split(Normalised(layer, rngs))[1])
