"""What share of all hands a hand beats on a board, without ranking all of them.

    >>> import jax.numpy as jnp
    >>> from jaxgames.holdem.cards import parse_cards
    >>> from jaxgames.holdem.share_beaten import share_beaten
    >>> hole, board = (jnp.array(parse_cards(cards)) for cards in ("AsAh", "Td9d6hQc2s"))
    >>> bool(0.8 < share_beaten(hole, board) < 1)
    True

Of all that players hold, suits matter for flushes alone, and a board lets one suit have them at
most. So hands are counted by the ranks of their cards and by how many are of the suit of which
the board has most: three tables of 13 x 13 instead of 1,326 hands.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgames.holdem.evaluator import counted, flush_strength, strength_by_ranks, suit_sets

_RANKS = 13


def share_beaten(
    hole: Int[Array, " h"],
    board: Int[Array, " n"],
    *,
    ranks: int = _RANKS,
    suits: int = 4,
) -> Float[Array, ""]:
    """Of all hands of the unseen cards, those that are weaker, and half of those that are equal.

    h is 1 or 2. Cards of the board that are not dealt yet are -1; hands are compared as they are,
    by the best five of their cards. A deck of other ranks and suits numbers its cards alike: the
    rank times `suits`, plus the suit.

    Raises:
      ValueError: hands of another size; more than 13 ranks or 4 suits.
    """
    size = len(hole)
    if size not in (1, 2) or not 1 <= ranks <= _RANKS or not 1 <= suits <= 4:
        raise ValueError(
            f"hands of {size} cards from {ranks} ranks in {suits} suits: must be 1 or 2, of at most"
            f" {_RANKS} ranks and 4 suits"
        )
    dealt = board >= 0
    mine, table = _sets(hole, hole >= 0, suits), _sets(board, dealt, suits)
    spare = jnp.maximum(size + jnp.sum(dealt, dtype=jnp.int32) - 5, 0)
    own = strength_by_ranks(*counted(mine | table), spare)
    own = jnp.maximum(own, jnp.max(flush_strength(mine | table)))

    star = jnp.argmax(jax.lax.population_count(table))  # the suit that may have flushes
    shown, bits = table[star], jnp.uint32(1) << jnp.arange(ranks, dtype=jnp.uint32)
    free = ((mine | table)[:suits, None] & bits[None, :]) == 0  # [S, R]
    left = jnp.sum(free, axis=0, dtype=jnp.float32)
    suited = free[star].astype(jnp.float32)
    others, none = left - suited, flush_strength(shown)
    if size == 1:
        ranked = _with_card(counted(table), bits)
        kinds = [(others, none), (suited, flush_strength(shown | bits))]
    else:
        first, second = bits[:, None], bits[None, :]
        ranked = _with_card(_with_card(counted(table), first), second)
        kinds = [
            (_pairs(others), none),
            (suited[:, None] * others[None, :], flush_strength(shown | first)),
            (_pairs(suited), flush_strength(shown | first | second)),
        ]
    # stored, or it would be computed again for every kind
    ranked = jax.lax.optimization_barrier(strength_by_ranks(*ranked, spare))
    beaten = jnp.float32(0)
    for number, flush in kinds:
        theirs = jnp.maximum(ranked, flush)
        points = jnp.where(own > theirs, 1.0, jnp.where(own == theirs, 0.5, 0.0))
        beaten = beaten + jnp.sum(number * points)
    unseen = jnp.sum(left)
    met = unseen if size == 1 else unseen * (unseen - 1) / 2
    return beaten / jnp.maximum(met, 1)


def _sets(cards, there, suits):
    """The ranks of those cards that are there, by suit: `[4]`."""
    each = [suit_sets((card // suits * 4 + card % suits)[None]) for card in cards]
    each = [jnp.where(t, sets, jnp.uint32(0)) for t, sets in zip(there, each, strict=True)]
    return functools.reduce(jnp.bitwise_or, each, jnp.zeros(4, jnp.uint32))


def _with_card(counts, card):
    """Counted ranks with one card more."""
    some, twice, thrice, quads = counts
    return some | card, twice | (some & card), thrice | (twice & card), quads | (thrice & card)


def _pairs(number):
    """How many pairs there are of cards of two ranks, `[R, R]`: half of them in either order."""
    products = number[:, None] * number[None, :]
    return (products - jnp.diag(number)) / 2
