"""Deals of two hands: the bucket of each hand on each street, and who wins at the showdown.

This is all that two players with buckets need of the cards, some forty bytes a hand of poker.
Millions of deals are drawn in a second on one core, so that learners need no deal twice.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from jaxgames.arrays import written
from jaxgames.core import record
from jaxgames.holdem.card_abstraction import BucketTables, buckets_of_hands
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.hand_evaluator import strength
from solvers.sampling.episodes import uniform_numbers


@record
class TwoHands:
    """D deals of two hands on S streets."""

    bucket: Array  # [S, 2, D] int32 of either player
    winner: Array  # [D] int32 1 where player 0 has the stronger hand, -1 the weaker one, 0 ties


def deal_two_hands(tables: BucketTables, key: Key[Array, ""], num_deals: int) -> TwoHands:
    """Draws deals of two hands and a whole board.

    Args:
      tables: the buckets of all hands.
      key: consumed.
      num_deals: D. Static under `jit`.
    """
    num_cards = tables.num_cards[-1] + 4
    cards = written(draw_cards(uniform_numbers(key, (num_cards, num_deals))))
    hole, board = cards[:4].reshape(2, 2, num_deals), cards[4:]
    low, high = jnp.min(hole, axis=1), jnp.max(hole, axis=1)
    hands = written(high * (high - 1) // 2 + low)
    bucket = jax.vmap(buckets_of_hands, (None, 1, 1), 2)(tables, board, hands)
    first, second = (strength(jnp.concatenate([hole[player], board]).T) for player in range(2))
    return written(TwoHands(bucket=bucket, winner=jnp.sign(first - second)))


def draw_cards(noise: Float[Array, "n D"]) -> Int[Array, "n D"]:
    """The n different cards of each of D deals, drawn uniformly one after the other.

    Args:
      noise: numbers uniform in [0, 1).
    """
    drawn, ordered = [], []
    for number in range(len(noise)):
        card = (noise[number] * (NUM_CARDS - number)).astype(jnp.int32)
        for other in ordered:  # counts past the cards that are gone
            card = card + (card >= other).astype(jnp.int32)
        drawn.append(card)
        inserted, last = [], card
        for other in ordered:
            inserted.append(jnp.minimum(other, last))
            last = jnp.maximum(other, last)
        ordered = [*inserted, last]
    return jnp.stack(drawn)
