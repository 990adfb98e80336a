"""Cheap random numbers for playouts: the finaliser of MurmurHash3 (Appleby 2011) of a counter.

Playouts draw a number for every move of every game, and a cipher as in `jax.random` would take as
long as the move. Seeds come from `jax.random`, one for each simulation and game.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Integer, UInt

from solvers.sampling.episodes import mix_bits

_STEP = 0x9E3779B9  # 2^32 divided by the golden ratio


def bits(seed: UInt[Array, "..."], number: Integer[Array, "..."] | int) -> UInt[Array, "..."]:
    """32 random bits, another draw for each number; `seed` and `number` are broadcast."""
    return mix_bits(seed + jnp.asarray(number).astype(jnp.uint32) * jnp.uint32(_STEP))


def uniform(word: UInt[Array, "..."]) -> Float[Array, "..."]:
    """Numbers in [0, 1) from bits."""
    return (word >> 8).astype(jnp.float32) * jnp.float32(2**-24)
