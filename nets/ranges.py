"""From reaches to a network's input ranges, and from its outputs to counterfactual values."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.arrays import safe_divide
from jaxgames.beliefs.contract import BeliefGame, PublicState, Reach, Rows, Values

Ranges = tuple[Float[Array, "*B N0"], Float[Array, "*B N1"]]
Logits = tuple[Float[Array, "*B A0 N0"], Float[Array, "*B A1 N1"]]


def reached(rows: Rows, reach: Reach) -> Reach:
    """The reaches, with 1 in all rows that exist where a player reaches none of them.

    A search also values leaves below actions that are not played so far. Such a player has no range
    there; networks answer as if all its rows were equally likely, in training and in search.

    Args:
      rows: of both players that exist.
      reach: own reaches of both players.
    """
    first, second = (
        jnp.where(jnp.any(own > 0), own, exists.astype(own.dtype))
        for own, exists in zip(reach, rows, strict=True)
    )
    return first, second


def normalised(reach: Reach) -> Reach:
    """Ranges: reaches that sum to 1, or to 0 where nothing is reached."""
    first, second = (safe_divide(own, jnp.sum(own)) for own in reach)
    return first, second


def smoothed(game: BeliefGame, state: PublicState, reach: Reach, share: float) -> Reach:
    """Mixes ranges with the uniform range over the rows that are present.

    The network's inputs, and so its values, then change less from one iteration of a search to the
    next. The experiment `sog_glasses` measures the effect.

    Args:
      game: the game.
      state: one of its public states.
      reach: both players' own reaches there.
      share: of the uniform range; at 0 the reaches are returned as they are.

    Returns:
      Normalised ranges, unless `share` is 0.
    """
    if share == 0:
        return reach
    present = tuple(rows.astype(reach[0].dtype) for rows in game.rows(state))
    first, second = (
        (1 - share) * own + share * even
        for own, even in zip(normalised(reach), normalised(present), strict=True)
    )
    return first, second


def counterfactual(
    game: BeliefGame,
    state: PublicState,
    reach: Reach,
    values: Values,
    *,
    zero_sum: bool,
) -> Values:
    """Turns values per unit of compatible opponent reach into counterfactual values.

    Args:
      game: the game.
      state: one of its public states.
      reach: both players' own reaches there.
      values: of both players, per unit of compatible opponent reach.
      zero_sum: whether to shift each player's values per unit by one number, so that the payoffs
        which both players expect sum to 0. A player who reaches nothing counts as in `reached`.

    Returns:
      Counterfactual values, 0 in absent rows, and where the opponent reaches nothing.
    """
    rows = game.rows(state)
    seen = reached(rows, reach)
    mass = [jnp.where(rows[p], game.compatible(state, p, seen[1 - p]), 0) for p in range(2)]
    first, second = (values[p] * mass[p] for p in range(2))
    if zero_sum:
        excess = jnp.sum(seen[0] * first) + jnp.sum(seen[1] * second)
        shift = safe_divide(excess, 2 * jnp.sum(seen[0] * mass[0]))
        first, second = first - mass[0] * shift, second - mass[1] * shift
    is_reached = [jnp.any(own > 0) for own in reach]
    return jnp.where(is_reached[1], first, 0), jnp.where(is_reached[0], second, 0)
