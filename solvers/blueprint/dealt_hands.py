"""Deals of hands: the bucket of each player's hand on each street, and its strength in the end.

This is all that players with buckets need of the cards, some forty bytes for two of them. Millions
of deals are drawn in a second on one core, so that learners need no deal twice.
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
from jaxgames.holdem.ranges import ordered_hand_number
from solvers.sampling.episodes import uniform_numbers


@record
class DealtHands:
    """D deals of hands to P players, on S streets."""

    bucket: Array  # [S, P, D] int32
    strength: Array  # [P, D] int32, from 0; the strongest hand shown wins, equal ones share


def deal_hands(
    tables: BucketTables, key: Key[Array, ""], num_deals: int, *, num_players: int
) -> DealtHands:
    """Draws deals of a hand to each player and a whole board.

    Args:
      tables: the buckets of all hands.
      key: consumed.
      num_deals: D. Static under `jit`.
      num_players: P. Static under `jit`.
    """
    num_hole = 2 * num_players
    num_cards = tables.num_cards[-1] + num_hole
    cards = written(draw_cards(uniform_numbers(key, (num_cards, num_deals))))
    hole, board = cards[:num_hole].reshape(num_players, 2, num_deals), cards[num_hole:]
    hands = written(ordered_hand_number(jnp.min(hole, axis=1), jnp.max(hole, axis=1)))
    bucket = jax.vmap(buckets_of_hands, (None, 1, 1), 2)(tables, board, hands)
    strengths = [strength(jnp.concatenate([own, board]).T) for own in hole]
    return written(DealtHands(bucket=bucket, strength=jnp.stack(strengths)))


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
