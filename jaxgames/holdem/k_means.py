"""k-means clustering (Lloyd 1982) of weighted points, started as k-means++ (Arthur and
Vassilvitskii 2007)."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

_STEPS = 25  # of Lloyd's algorithm


@functools.partial(jax.jit, static_argnames="count")
def k_means(
    key: Key[Array, ""],
    points: Float[Array, "n d"],
    weights: Float[Array, " n"],
    *,
    count: int,
) -> Float[Array, "k d"]:
    """Centres that the points are close to.

    Args:
      key: consumed.
      points: n points.
      weights: how much each counts, not negative.
      count: k, how many centres there are; some coincide if fewer points differ.

    Returns:
      The centres, in the order of their first coordinates.
    """
    chances = jax.random.uniform(key, count, points.dtype)
    centres = jnp.zeros((count, points.shape[1]), points.dtype)
    centres = centres.at[0].set(points[_drawn(chances[0], weights)])

    # k-means++: the next centre is drawn by its squared distance from the nearest so far.
    def add_centre(i, carry):
        centres, nearest = carry
        far = jnp.sum((points - centres[i][None]) ** 2, axis=1)
        nearest = jnp.minimum(nearest, far)
        return centres.at[i + 1].set(points[_drawn(chances[i + 1], weights * nearest)]), nearest

    nothing_near = jnp.full(len(points), jnp.inf, points.dtype)
    centres, _ = jax.lax.fori_loop(0, count - 1, add_centre, (centres, nothing_near))

    # Lloyd: centres move to the means of the points that are closest to them.
    def move(_, centres):
        closest = closest_centres(points, centres)
        mass = jnp.zeros(count, points.dtype).at[closest].add(weights)
        total = jnp.zeros_like(centres).at[closest].add(weights[:, None] * points)
        return jnp.where(mass[:, None] > 0, total / jnp.where(mass > 0, mass, 1)[:, None], centres)

    centres = jax.lax.fori_loop(0, _STEPS, move, centres)
    return centres[jnp.argsort(centres[:, 0])]


def closest_centres(points: Float[Array, "n d"], centres: Float[Array, "k d"]) -> Int[Array, " n"]:
    """The number of the centre that is closest to each point."""
    # |x - c|^2 without |x|^2, which is the same for all centres
    apart = jnp.sum(centres**2, axis=1)[None] - 2 * points @ centres.T
    return jnp.argmin(apart, axis=1).astype(jnp.int32)


def _drawn(chance, weights):
    """The number of a point, drawn by its weight with a number from 0 to 1."""
    below = jnp.cumsum(weights)
    found = jnp.searchsorted(below, chance * below[-1], side="right")
    return jnp.minimum(found, len(weights) - 1)
