"""How strong poker hands are, for the best five of up to seven cards.

A hand is the four sets of ranks that it holds by suit, as bits. Its strength is made of them by a
hundred or so operations on whole numbers, without tables and without branches, so that any number
of hands is compared at the speed of the device's arithmetic. A stronger hand is a larger number,
hands that tie are the same number:

    category * 2**26 + ranks that decide first * 2**13 + ranks that decide then

Sets of equally many ranks compare like the numbers that their bits are.
"""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt32

CATEGORIES = (
    "high card",
    "one pair",
    "two pair",
    "three of a kind",
    "straight",
    "flush",
    "full house",
    "four of a kind",
    "straight flush",
)
(HIGH_CARD, PAIR, TWO_PAIR, TRIPS, STRAIGHT, FLUSH, FULL_HOUSE, QUADS, STRAIGHT_FLUSH) = range(9)


def strength(cards: Int[Array, "... n"]) -> Int[Array, "..."]:
    """Strength of hands of n different cards; of the best five if there are more.

    Hands of fewer than five cards have no straights and no flushes.

    Raises:
      ValueError: n is not from 1 to 7.
    """
    return _strength(_sets(cards), cards.shape[-1])


def category(strength: Int[Array | np.ndarray, "..."]) -> Int[Array | np.ndarray, "..."]:
    """What kind of hand a strength belongs to, as an index of `CATEGORIES`."""
    return strength >> 26


def suit_sets(cards: Int[Array, "... n"]) -> UInt32[Array, "4 ..."]:
    """The ranks that cards hold by suit, as bits: sets of several cards are joined by `|`."""
    return jnp.stack(_sets(cards))


def strength_of_sets(sets: UInt32[Array, "4 ..."], *, num_cards: int) -> Int[Array, "..."]:
    """The same as `strength` from the ranks held by suit, of `num_cards` cards in all.

    Raises:
      ValueError: `num_cards` is not from 1 to 7.
    """
    return _strength(tuple(sets[suit] for suit in range(4)), num_cards)


def _sets(cards):
    # two suits in each word, a card in one of the words: fewer operations than suit by suit
    place = (cards >> 2) + 16 * (cards & 1)
    bits = jnp.uint32(1) << place.astype(jnp.uint32)
    upper = (cards & 2) != 0
    words = []
    for held in (jnp.where(upper, 0, bits), jnp.where(upper, bits, 0)):
        words.append(functools.reduce(operator.or_, [held[..., i] for i in range(cards.shape[-1])]))
    return tuple(half for word in words for half in (word & 0xFFFF, word >> 16))


def _strength(sets, num_cards):
    if not 1 <= num_cards <= 7:
        raise ValueError(f"a hand has {num_cards} cards; must be 1 to 7")
    a, b, c, d = sets
    some, even_ab, even_cd = a | b | c | d, a & b, c & d
    twice = even_ab | even_cd | ((a | b) & (c | d))
    thrice = (even_ab & (c | d)) | (even_cd & (a | b))
    quads = even_ab & even_cd
    trips, pairs = thrice & ~quads, twice & ~thrice
    spare = max(num_cards - 5, 0)

    found = _value(HIGH_CARD, 0, _without_lowest(some, spare))
    found = _better(pairs != 0, PAIR, pairs, _without_lowest(some & ~pairs, spare), found)
    upper = _highest_two(pairs)
    two = pairs & (pairs - 1) != 0
    found = _better(two, TWO_PAIR, upper, _highest(some & ~upper), found)
    top = _highest(trips)
    found = _better(trips != 0, TRIPS, top, _without_lowest(some & ~top, spare), found)
    if num_cards >= 5:
        run = _straights(some)
        found = _better(run != 0, STRAIGHT, 0, _highest(run), found)
        flush = functools.reduce(jnp.maximum, [_flush(suit, spare) for suit in (a, b, c, d)])
        found = _better(flush != 0, FLUSH, 0, flush, found)
        below = _highest((trips | pairs) & ~top)
        found = _better((trips != 0) & (below != 0), FULL_HOUSE, top, below, found)
    found = _better(quads != 0, QUADS, quads, _highest(some & ~quads), found)
    if num_cards >= 5:
        runs = functools.reduce(jnp.maximum, [_straights(suit) for suit in (a, b, c, d)])
        found = _better(runs != 0, STRAIGHT_FLUSH, 0, _highest(runs), found)
    return found.astype(jnp.int32)


def _value(kind, first, then):
    return jnp.uint32(kind << 26) | (jnp.uint32(first) << 13) | then


def _better(there, kind, first, then, found):
    return jnp.where(there, _value(kind, first, then), found)


def _without_lowest(ranks, count):
    """A set without its lowest members."""
    for _ in range(count):
        ranks = ranks & (ranks - 1)
    return ranks


def _highest(ranks):
    """The highest of a set alone."""
    for shift in (1, 2, 4, 8):
        ranks = ranks | (ranks >> shift)
    return ranks ^ (ranks >> 1)


def _highest_two(ranks):
    """The highest two of a set of up to three; others stay as they are."""
    return jnp.where(jax.lax.population_count(ranks) > 2, ranks & (ranks - 1), ranks)


def _straights(ranks):
    """The highest ranks of all straights in a set; the ace is also below the two."""
    low = (ranks << 1) | (ranks >> 12)
    return (low & (low << 1) & (low << 2) & (low << 3) & (low << 4)) >> 1


def _flush(ranks, spare):
    """The highest five of a set of five or more, else nothing."""
    count = jax.lax.population_count(ranks)
    for have in range(spare):
        ranks = jnp.where(count > 5 + have, ranks & (ranks - 1), ranks)
    return jnp.where(count >= 5, ranks, 0)
