"""The hand evaluator: strengths of poker hands, by the best five of up to seven cards.

A hand is represented by four sets of ranks, one for each suit, as bits. Its strength is computed
from them by about a hundred integer operations without tables or branches, so batches of hands are
evaluated at the speed of the device's arithmetic. A stronger hand has a larger strength, and hands
that tie have the same one:

    category * 2**26 + ranks that decide first * 2**13 + ranks that decide next

Sets of the same number of ranks compare like the integers that their bits encode.
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
    """Strengths of hands of n different cards, by the best five if n is larger.

    Hands of fewer than five cards have no straights and no flushes.

    Args:
      cards: the hands' cards `[..., n]`, numbered as in `cards.py`.

    Returns:
      Strengths `[...]` that compare like the hands; `category` reads the kind of hand off them.

    Raises:
      ValueError: n is not from 1 to 7.
    """
    return _strength(_sets(cards), cards.shape[-1])


def category(strength: Int[Array | np.ndarray, "..."]) -> Int[Array | np.ndarray, "..."]:
    """The category of hands: high card, one pair, ..., straight flush.

    Args:
      strength: strengths of hands, as of `strength`.

    Returns:
      Indices of `CATEGORIES`.
    """
    return strength >> 26


def in_full_deck(cards: Int[Array, "..."], suits: int) -> Int[Array, "..."]:
    """The numbers of these cards in a deck of four suits.

    Args:
      cards: each numbered as its rank times `suits`, plus its suit.
      suits: suits of their deck, at most 4.
    """
    return cards // suits * 4 + cards % suits


def suit_sets(cards: Int[Array, "... n"]) -> UInt32[Array, "4 ..."]:
    """The set of ranks that cards hold in each suit, as bits; sets are united by `|`."""
    return jnp.stack(_sets(cards))


def dealt_suit_sets(cards: Int[Array, " n"], suits: int) -> UInt32[Array, "4"]:
    """The set of ranks in each suit, as in `suit_sets`, of the cards that are dealt.

    Args:
      cards: numbered as in `in_full_deck`; -1 for those that are not dealt yet.
      suits: suits of their deck, at most 4.
    """
    each = [suit_sets(in_full_deck(card, suits)[None]) for card in cards]
    each = [jnp.where(d, sets, jnp.uint32(0)) for d, sets in zip(cards >= 0, each, strict=True)]
    return functools.reduce(jnp.bitwise_or, each, jnp.zeros(4, jnp.uint32))


def strength_of_sets(sets: UInt32[Array, "4 ..."], *, num_cards: int) -> Int[Array, "..."]:
    """Strengths of hands that are given by their sets of ranks.

    Args:
      sets: the ranks held in each suit, as in `suit_sets`.
      num_cards: how many cards a hand has.

    Returns:
      Strengths as in `strength`.

    Raises:
      ValueError: `num_cards` is not from 1 to 7.
    """
    return _strength(tuple(sets[suit] for suit in range(4)), num_cards)


def _sets(cards):
    """The sets of ranks by suit, a tuple of four arrays `[...]`."""
    # two suits in each word, a card in one of the words: fewer operations than suit by suit
    place = (cards >> 2) + 16 * (cards & 1)
    bits = jnp.uint32(1) << place.astype(jnp.uint32)
    upper = (cards & 2) != 0
    # united by a reduction, whose result is stored: otherwise all that follows would be computed
    # with the strides of the hands, several times slower
    by_word = jnp.where(upper, 0, bits), jnp.where(upper, bits, 0)
    words = [jnp.bitwise_or.reduce(word, axis=-1) for word in by_word]
    return tuple(half for word in words for half in (word & 0xFFFF, word >> 16))


def _strength(sets, num_cards):
    if not 1 <= num_cards <= 7:
        raise ValueError(f"a hand has {num_cards} cards; must be 1 to 7")
    spare = max(num_cards - 5, 0)
    best = strength_by_ranks(*rank_counts(sets), spare)
    if num_cards >= 5:
        flush = functools.reduce(jnp.maximum, [_flush(suit, spare) for suit in sets])
        runs = functools.reduce(jnp.maximum, [_straights(suit) for suit in sets])
        best = jnp.maximum(best, _suited(flush, runs))
    return best.astype(jnp.int32)


def rank_counts(
    sets: UInt32[Array, "4 ..."] | tuple[UInt32[Array, "..."], ...],
) -> tuple[UInt32[Array, "..."], ...]:
    """The ranks of which a hand holds at least one, two, three and four cards.

    Args:
      sets: the ranks held in each suit, as in `suit_sets`.

    Returns:
      Four sets of ranks `[...]`.
    """
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
    """Strengths of hands by their ranks alone: all categories except flushes.

    Args:
      some: the ranks of which a hand holds at least one card, as in `rank_counts`.
      twice: at least two cards.
      thrice: at least three cards.
      quads: four cards.
      spare: how many cards a hand has beyond five, 0 to 2.

    Returns:
      Strengths `[...]` as in `strength`.
    """
    trips, pairs = thrice & ~quads, twice & ~thrice
    # from the weakest category to the strongest: each replaces the ones before where it applies
    best = _value(HIGH_CARD, 0, _without_lowest(some, spare))
    best = _better(pairs != 0, PAIR, pairs, _without_lowest(some & ~pairs, spare), best)
    upper = _highest_two(pairs)
    two = pairs & (pairs - 1) != 0
    best = _better(two, TWO_PAIR, upper, _highest(some & ~upper), best)
    top = _highest(trips)
    best = _better(trips != 0, TRIPS, top, _without_lowest(some & ~top, spare), best)
    run = _straights(some)
    best = _better(run != 0, STRAIGHT, 0, _highest(run), best)
    below = _highest((trips | pairs) & ~top)
    best = _better((trips != 0) & (below != 0), FULL_HOUSE, top, below, best)
    return _better(quads != 0, QUADS, quads, _highest(some & ~quads), best)


def flush_strength(ranks: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """Strengths of up to seven cards of one suit as a flush or straight flush; else 0."""
    return _suited(_flush(ranks, 2), _straights(ranks))


def _suited(flush, runs):
    """The strength of a flush with these ranks, or of the highest of these straight flushes."""
    best = _better(flush != 0, FLUSH, 0, flush, jnp.uint32(0))
    return _better(runs != 0, STRAIGHT_FLUSH, 0, _highest(runs), best)


def _value(kind, first, then):
    """A strength from its category and the two sets of ranks that decide."""
    return jnp.uint32(kind << 26) | (jnp.uint32(first) << 13) | then


def _better(applies, kind, first, then, best):
    """The strength of a category where it applies, else the best strength so far."""
    return jnp.where(applies, _value(kind, first, then), best)


def _without_lowest(ranks, count):
    """A set without its `count` lowest members; `count` is at most 2."""
    for have in range(count if isinstance(count, int) else 2):
        ranks = jnp.where(count > have, ranks & (ranks - 1), ranks)
    return ranks


def _highest(ranks):
    """The highest member of a set, as a set."""
    for shift in (1, 2, 4, 8):
        ranks = ranks | (ranks >> shift)
    return ranks ^ (ranks >> 1)


def _highest_two(ranks):
    """The highest two of a set of up to three members."""
    return jnp.where(jax.lax.population_count(ranks) > 2, ranks & (ranks - 1), ranks)


def _straights(ranks):
    """The highest rank of each straight in a set; the ace also counts below the two."""
    low = (ranks << 1) | (ranks >> 12)
    return (low & (low << 1) & (low << 2) & (low << 3) & (low << 4)) >> 1


def _flush(ranks, spare):
    """The highest five of a set of five or more, else the empty set."""
    count = jax.lax.population_count(ranks)
    for have in range(spare):
        ranks = jnp.where(count > 5 + have, ranks & (ranks - 1), ranks)
    return jnp.where(count >= 5, ranks, 0)
