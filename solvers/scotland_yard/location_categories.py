"""Where Mr X is assumed to be, by location categories (Nijssen and Winands 2012).

A category is a distance to the nearest detective: 1, 2, 3, 4, or 5 and more moves. One of those
that hold possible stations is drawn by roulette, with weights from how often Mr X was in a category
when he could have been; then one of its possible stations uniformly.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgames.arrays import safe_divide
from solvers.scotland_yard.tables import YardTables

# Weights by distance, 1 to 5 and more: times that Mr X was there over times that he could be.
WEIGHTS = (2454 / 12523, 9735 / 14502, 4047 / 7491, 1109 / 2890, 344 / 1756)


def categories(tables: YardTables, detectives: Int[Array, "D ..."]) -> Int[Array, "N ..."]:
    """The category of every station, from 0."""
    distances = [tables.distance[:, detective] for detective in detectives]
    nearest = functools.reduce(jnp.minimum, distances).astype(jnp.int32)
    return jnp.clip(nearest, 1, len(WEIGHTS)) - 1


def location_probabilities(
    tables: YardTables,
    possible: Bool[Array, "N ..."],
    detectives: Int[Array, "D ..."],
    weights: Float[Array, " c"],
) -> Float[Array, "N ..."]:
    """How likely each station is drawn; 0 everywhere if none is possible.

    Args:
      tables: of the game.
      possible: stations at which Mr X may be.
      detectives: their stations.
      weights: of the categories, not all 0.
    """
    category, weights = categories(tables, detectives), weights.astype(jnp.float32)
    share = jnp.zeros(possible.shape, jnp.float32)
    total = jnp.zeros(possible.shape[1:], jnp.float32)
    for number in range(len(WEIGHTS)):
        members = possible & (category == number)
        count = jnp.sum(members, axis=0, dtype=jnp.float32)
        share += jnp.where(members, weights[number] / jnp.maximum(count, 1.0)[None], 0.0)
        total += jnp.where(count > 0, weights[number], 0.0)
    return safe_divide(share, total[None])


def draw(cumulative: Float[Array, "N ..."], number: Float[Array, "*b"]) -> Int[Array, "*b"]:
    """The station at which cumulative probabilities pass a number in [0, 1)."""
    below = number * cumulative[-1]
    return jnp.sum(cumulative <= below[None], axis=0, dtype=jnp.int32).clip(max=len(cumulative) - 1)
