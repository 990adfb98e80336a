"""The percentile of a hand on a board: the share of all other hands that it beats ("hand strength"
of Billings et al. 2002, "The challenge of poker"), without ranking all of them.

    >>> import jax.numpy as jnp
    >>> from jaxgames.holdem import parse_cards
    >>> from jaxgames.holdem.hand_percentile import hand_percentile
    >>> hole, board = parse_cards("AsKs"), parse_cards("Td9d6hQc2s")
    >>> print(f"{hand_percentile(jnp.array(hole), jnp.array(board)):.3f}")
    0.348

Suits matter for flushes alone, and on any board at most one suit can make a flush. So hands are
counted by the ranks of their cards and by how many of them are of the suit that the board has most
of: three tables of 13 x 13 entries instead of 1,326 hands.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgames.holdem.hand_evaluator import (
    dealt_suit_sets,
    flush_strength,
    rank_counts,
    strength_by_ranks,
)

_RANKS = 13


def hand_percentile(
    hole: Int[Array, " h"],
    board: Int[Array, " n"],
    *,
    ranks: int = _RANKS,
    suits: int = 4,
) -> Float[Array, ""]:
    """The share of the hands of unseen cards that are weaker, ties counting half.

    Hands are compared on the board as it is, by the best five of their cards.

    Args:
      hole: the h = 1 or 2 cards of the hand.
      board: the cards of the board, -1 for those that are not dealt yet.
      ranks: ranks of the deck. A card is numbered as its rank times `suits`, plus its suit.
      suits: suits of the deck.

    Returns:
      A share from 0 to 1.

    Raises:
      ValueError: the hand does not have 1 or 2 cards, or there are more than 13 ranks or 4 suits.
    """
    size = len(hole)
    if size not in (1, 2) or not 1 <= ranks <= _RANKS or not 1 <= suits <= 4:
        raise ValueError(
            f"hands of {size} cards from {ranks} ranks in {suits} suits: must be 1 or 2, of at most"
            f" {_RANKS} ranks and 4 suits"
        )
    dealt = board >= 0
    mine, table = dealt_suit_sets(hole, suits), dealt_suit_sets(board, suits)
    spare = jnp.maximum(size + jnp.sum(dealt, dtype=jnp.int32) - 5, 0)
    own = strength_by_ranks(*rank_counts(mine | table), spare)
    own = jnp.maximum(own, jnp.max(flush_strength(mine | table)))

    bits = jnp.uint32(1) << jnp.arange(ranks, dtype=jnp.uint32)
    unseen = ((mine | table)[:suits, None] & bits[None, :]) == 0  # [S, R]
    left = jnp.sum(unseen, axis=0, dtype=jnp.float32)  # cards of each rank
    by_rank, kinds = _opponent_hands(table, unseen, left, bits, size)
    # stored, or it would be computed again for every kind
    by_rank = jax.lax.optimization_barrier(strength_by_ranks(*by_rank, spare))
    beaten = jnp.float32(0)
    for number, flush in kinds:
        theirs = jnp.maximum(by_rank, flush)
        points = jnp.where(own > theirs, 1.0, jnp.where(own == theirs, 0.5, 0.0))
        beaten = beaten + jnp.sum(number * points)
    cards = jnp.sum(left)
    total = cards if size == 1 else cards * (cards - 1) / 2
    return beaten / jnp.maximum(total, 1)


def _opponent_hands(table, unseen, left, bits, size):
    """The opponent's hands by the ranks of their cards, `[R]` or `[R, R]`.

    Returns:
      The rank counts with the board, as in `rank_counts`; and for 0, 1, ... `size` cards of the
      suit that can make a flush, how many hands there are and the strength of their flush.
    """
    flush_suit = jnp.argmax(jax.lax.population_count(table))
    shown = table[flush_suit]
    suited = unseen[flush_suit].astype(jnp.float32)
    others, none = left - suited, flush_strength(shown)
    if size == 1:
        by_rank = _with_card(rank_counts(table), bits)
        return by_rank, [(others, none), (suited, flush_strength(shown | bits))]
    first, second = bits[:, None], bits[None, :]
    by_rank = _with_card(_with_card(rank_counts(table), first), second)
    return by_rank, [
        (_pairs(others), none),
        (suited[:, None] * others[None, :], flush_strength(shown | first)),
        (_pairs(suited), flush_strength(shown | first | second)),
    ]


def _with_card(counts, card):
    """Rank counts with one card more."""
    some, twice, thrice, quads = counts
    return some | card, twice | (some & card), thrice | (twice & card), quads | (thrice & card)


def _pairs(number):
    """Numbers of pairs of cards of two ranks, `[R, R]`, from the numbers of cards of each rank; a
    pair of different ranks counts half in either order."""
    products = number[:, None] * number[None, :]
    return (products - jnp.diag(number)) / 2
