"""Torsos: features in, features out."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class Mlp(nnx.Module):
    """`depth` hidden layers of one `width`, ReLU after each; float32 or bfloat16 by `dtype`."""

    def __init__(
        self, num_inputs: int, *, width: int, depth: int, rngs: nnx.Rngs, dtype: str = "float32"
    ):
        if width < 1 or depth < 1:
            raise ValueError(f"width={width} and depth={depth} must be at least 1")
        sizes = [num_inputs] + [width] * depth
        self.layers = nnx.List(
            nnx.Linear(before, after, rngs=rngs, dtype=dtype)
            for before, after in itertools.pairwise(sizes)
        )
        self.width = width

    def __call__(self, inputs: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        for layer in self.layers:
            inputs = jax.nn.relu(layer(inputs))
        return inputs


class ResidualMlp(nnx.Module):
    """A linear layer, then `depth` blocks `x + W relu(norm(x))` of one `width`."""

    def __init__(
        self, num_inputs: int, *, width: int, depth: int, rngs: nnx.Rngs, dtype: str = "float32"
    ):
        if width < 1 or depth < 1:
            raise ValueError(f"width={width} and depth={depth} must be at least 1")
        self.first = nnx.Linear(num_inputs, width, rngs=rngs, dtype=dtype)
        self.norms = nnx.List(nnx.LayerNorm(width, rngs=rngs) for _ in range(depth))
        self.layers = nnx.List(
            nnx.Linear(width, width, rngs=rngs, dtype=dtype) for _ in range(depth)
        )
        self.width = width

    def __call__(self, inputs: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        hidden = self.first(inputs)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            normal = norm(hidden.astype(jnp.float32))  # statistics in full precision
            hidden = hidden + layer(jax.nn.relu(normal))
        return hidden
