"""Where Mr X may be for all that the detectives know, as sets of stations in bits of words.

The set spreads along all lines of the ticket that Mr X shows, without stations of detectives. It
shrinks to his station where he shows himself, and loses a station that a detective enters. These
are the rows of the game at the level of beliefs (`jaxgames.scotland_yard.beliefs`), except that the
latter also leaves out stations at which Mr X could not have moved on.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt

from solvers.scotland_yard.tables import CHUNK, WORD, YardTables

_CHUNKS = WORD // CHUNK  # of a word


def pack(mask: Bool[Array, "N ..."]) -> UInt[Array, "W ..."]:
    """The set of the stations where the mask holds."""
    words = -(-len(mask) // WORD)
    mask = jnp.pad(mask, [(0, words * WORD - len(mask))] + [(0, 0)] * (mask.ndim - 1))
    bits = mask.reshape(words, WORD, *mask.shape[1:]).astype(jnp.uint32)
    shift = jnp.arange(WORD, dtype=jnp.uint32).reshape(1, WORD, *[1] * (mask.ndim - 1))
    return jnp.sum(bits << shift, axis=1, dtype=jnp.uint32)


def unpack(stations: UInt[Array, "W ..."], num_stations: int) -> Bool[Array, "N ..."]:
    """The mask of a set of stations."""
    shift = jnp.arange(WORD, dtype=jnp.uint32).reshape(1, WORD, *[1] * (stations.ndim - 1))
    bits = (stations[:, None] >> shift) & jnp.uint32(1)
    return bits.reshape(-1, *stations.shape[1:])[:num_stations] > 0


def single(station: Int[Array, "..."], num_words: int) -> UInt[Array, "W ..."]:
    """The set of one station."""
    word = jnp.arange(num_words, dtype=jnp.int32).reshape(-1, *[1] * station.ndim)
    bit = jnp.uint32(1) << (station % WORD).astype(jnp.uint32)
    return jnp.where(word == (station // WORD)[None], bit[None], jnp.uint32(0))


def spread(
    tables: YardTables, stations: UInt[Array, "W ..."], kind: Int[Array, "..."]
) -> UInt[Array, "W ..."]:
    """All stations one line of a kind of ticket away from a set."""
    chunks = [
        (stations[word] >> jnp.uint32(CHUNK * part)) & jnp.uint32(2**CHUNK - 1)
        for word in range(len(stations))
        for part in range(_CHUNKS)
    ]
    first = kind * len(chunks)
    rows = [
        tables.spread[((first + number) << CHUNK) + chunk.astype(jnp.int32)]
        for number, chunk in enumerate(chunks)
    ]
    return jnp.moveaxis(functools.reduce(operator.or_, rows), -1, 0)


def after_mr_x(
    tables: YardTables, possible: UInt[Array, "W ..."], after: Any, kind: Int[Array, "..."]
) -> UInt[Array, "W ..."]:
    """The set after a move of Mr X, which he may have to show.

    Args:
      tables: of the game.
      possible: the set before.
      after: the `Position` after the move.
      kind: of the ticket.
    """
    spreads = spread(tables, possible, kind)
    for detective in after.detectives:
        spreads = without(spreads, detective)
    shown = single(after.mr_x, len(possible))
    return jnp.where(tables.reveals[after.moves][None], shown, spreads)


def without(stations: UInt[Array, "W ..."], station: Int[Array, "..."]) -> UInt[Array, "W ..."]:
    """The set without a station."""
    return stations & ~single(station, len(stations))
