"""Who wins at folds and showdowns of a deal: sums over all pairs of hands that share no card.

`x[g]` is what one hand of group g counts, such as the opponent's reach; results are summed over the
hands of a group.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.holdem.cards import NUM_CARDS
from solvers.blueprint.deals import Deal


def folds(deal: Deal, x: Float[Array, "G T"]) -> Float[Array, "G T"]:
    """For each hand, the sum of `x` over the hands that share no card with it.

    These are all hands, less those with either of its cards, plus itself, which that subtracts
    twice.
    """
    size = deal.size[:, None]
    all_but = jnp.concatenate([size, -deal.with_card], axis=1)
    # "highest": accelerators would otherwise round what is multiplied to ten bits
    product = functools.partial(jnp.matmul, precision="highest")
    sums = product(jnp.concatenate([size, deal.with_card], axis=1).T, x)
    return product(all_but, sums) + size * x


def showdowns(deal: Deal, x: Float[Array, "G T"]) -> Float[Array, "G T"]:
    """For each hand, the sum of `x` over the hands that it beats, less the sum over those that beat
    it.

    On accelerators this is a product with a matrix of pairs of groups. On CPUs all hands are
    visited from the weakest to the strongest, and once more from the strongest to the weakest.
    """

    def product(deal, x):
        return jnp.matmul(pairs_of_groups(deal).astype(x.dtype), x, precision="highest")

    def sweeps(deal, x):
        ascending = jnp.arange(len(deal.group), dtype=jnp.int32)
        # hands of the same strength come in the same order both times, so that they cancel
        descending = jnp.argsort(-deal.strength, stable=True).astype(jnp.int32)
        up = _swept(deal, ascending, x, jnp.zeros_like(x), 1)
        return _swept(deal, descending, x, up, -1)

    return jax.lax.platform_dependent(deal, x, cpu=sweeps, default=product)


def pairs_of_groups(deal: Deal) -> Float[Array, "G G"]:
    """How many pairs of hands of two groups the first group's hand wins, less those that it loses;
    pairs that share a card do not count."""
    first, second = deal.cards[:, None, :, None], deal.cards[None, :, None, :]
    apart = ~jnp.any(first == second, axis=(2, 3))
    sign = jnp.sign(deal.strength[:, None] - deal.strength[None])
    wins = jnp.where(apart, sign, 0).astype(jnp.bfloat16)  # whose products are exact here
    groups = jnp.arange(len(deal.size), dtype=jnp.int32)
    inside = groups[:, None] == deal.group[None]
    of_hands = jnp.matmul(inside.astype(wins.dtype), wins, preferred_element_type=jnp.float32)
    return jnp.matmul(of_hands, inside.T.astype(of_hands.dtype), precision="highest")


def _swept(deal, order, x, result, sign):
    """The result plus `sign` times each hand's sum over the hands before it in an order."""
    width, zero = x.shape[1], jnp.int32(0)
    visits = jnp.concatenate([deal.group[order, None], deal.cards[order]], axis=1)
    row = lambda table, i: jax.lax.dynamic_slice(table, (i, zero), (1, width))  # noqa: E731
    put = lambda table, new, i: jax.lax.dynamic_update_slice(table, new, (i, zero))  # noqa: E731

    def visit(i, carry):
        total, by_card, result = carry
        group, low, high = visits[i, 0], visits[i, 1], visits[i, 2]
        own = row(x, group)
        rows = jnp.concatenate([row(by_card, low), row(by_card, high)])
        # without this barrier XLA copies the whole table for each hand
        rows, by_card = jax.lax.optimization_barrier((rows, by_card))
        met = total - rows[:1] - rows[1:]
        result = put(result, row(result, group) + sign * met, group)
        by_card = put(put(by_card, rows[:1] + own, low), rows[1:] + own, high)
        return total + own, by_card, result

    nothing = jnp.zeros((1, width), x.dtype), jnp.zeros((NUM_CARDS, width), x.dtype)
    return jax.lax.fori_loop(
        np.int32(0), np.int32(len(order)), visit, (*nothing, result), unroll=4
    )[2]
