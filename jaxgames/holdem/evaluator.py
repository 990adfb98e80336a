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
    # joined by a reduction, whose result is stored: else all that follows would be computed with
    # the hands' strides, several times slower
    held = jnp.where(upper, 0, bits), jnp.where(upper, bits, 0)
    words = [jnp.bitwise_or.reduce(word, axis=-1) for word in held]
    return tuple(half for word in words for half in (word & 0xFFFF, word >> 16))


def _strength(sets, num_cards):
    if not 1 <= num_cards <= 7:
        raise ValueError(f"a hand has {num_cards} cards; must be 1 to 7")
    spare = max(num_cards - 5, 0)
    found = strength_by_ranks(*counted(sets), spare)
    if num_cards >= 5:
        flush = functools.reduce(jnp.maximum, [_flush(suit, spare) for suit in sets])
        runs = functools.reduce(jnp.maximum, [_straights(suit) for suit in sets])
        found = jnp.maximum(found, _suited(flush, runs))
    return found.astype(jnp.int32)


def counted(
    sets: UInt32[Array, "4 ..."] | tuple[UInt32[Array, "..."], ...],
) -> tuple[UInt32[Array, "..."], ...]:
    """From the ranks held by each of four suits: ranks of which there is a card, or at least two,
    three, four."""
    a, b, c, d = sets
    even_ab, even_cd = a & b, c & d
    twice = even_ab | even_cd | ((a | b) & (c | d))
    thrice = (even_ab & (c | d)) | (even_cd & (a | b))
    return a | b | c | d, twice, thrice, even_ab & even_cd


def strength_by_ranks(
    some: UInt32[Array, "..."],
    twice: UInt32[Array, "..."],
    thrice: UInt32[Array, "..."],
    quads: UInt32[Array, "..."],
    spare: int | Int[Array, ""],
) -> UInt32[Array, "..."]:
    """Strength by ranks alone, which are `counted`; `spare` is how many cards are over five."""
    trips, pairs = thrice & ~quads, twice & ~thrice
    found = _value(HIGH_CARD, 0, _without_lowest(some, spare))
    found = _better(pairs != 0, PAIR, pairs, _without_lowest(some & ~pairs, spare), found)
    upper = _highest_two(pairs)
    two = pairs & (pairs - 1) != 0
    found = _better(two, TWO_PAIR, upper, _highest(some & ~upper), found)
    top = _highest(trips)
    found = _better(trips != 0, TRIPS, top, _without_lowest(some & ~top, spare), found)
    run = _straights(some)
    found = _better(run != 0, STRAIGHT, 0, _highest(run), found)
    below = _highest((trips | pairs) & ~top)
    found = _better((trips != 0) & (below != 0), FULL_HOUSE, top, below, found)
    return _better(quads != 0, QUADS, quads, _highest(some & ~quads), found)


def flush_strength(ranks: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """Strength of up to seven cards of one suit as a flush; 0 if there is none."""
    return _suited(_flush(ranks, 2), _straights(ranks))


def _suited(flush, runs):
    found = _better(flush != 0, FLUSH, 0, flush, jnp.uint32(0))
    return _better(runs != 0, STRAIGHT_FLUSH, 0, _highest(runs), found)


def _value(kind, first, then):
    return jnp.uint32(kind << 26) | (jnp.uint32(first) << 13) | then


def _better(there, kind, first, then, found):
    return jnp.where(there, _value(kind, first, then), found)


def _without_lowest(ranks, count):
    """A set without its lowest members, of which `count` is at most 2."""
    for have in range(count if isinstance(count, int) else 2):
        ranks = jnp.where(count > have, ranks & (ranks - 1), ranks)
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
