"""All boards up to the names of suits, card by card, and who wins there against a random hand.

Against play that does not depend on cards, all that a hand is worth follows from its chances
against a random one. Values of all 1,326 hands at all boards are then averages of those with one
card more: there are 13, 169, 1,755, 16,432 and 134,459 boards of one to five cards.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, Int16

from jaxgames.holdem.cards import NUM_CARDS, SUITS
from jaxgames.holdem.equity import BLOCKED, beaten_and_not_lost, rank_hands
from jaxgames.holdem.ranges import HANDS, NUM_HANDS, hand_numbers

MOST_CARDS = 5  # of a board
NOT_THERE = 2000  # in `wins`: the hand shares a card with the board
_EXCHANGES = np.array(list(itertools.permutations(range(len(SUITS)))))  # what each suit becomes
_BATCH = 64  # boards whose hands are ranked at once


@dataclasses.dataclass(frozen=True)
class Boards:
    """B boards of n cards, one of those that are the same but for the names of suits.

    With one of its `M = 52 - n` other cards a board is the board `child` of one card more, with
    suits exchanged: hand h here is hand `HAND_IMAGES[exchange, h]` there.
    """

    cards: Int[np.ndarray, "B n"]
    child: Int[np.ndarray, "B M"]
    exchange: Int[np.ndarray, "B M"]


def _exchanged(cards, suits):
    return cards // 4 * 4 + suits[cards % 4]


HAND_IMAGES: Int[np.ndarray, "24 1326"] = np.stack(
    [hand_numbers(_exchanged(HANDS, suits)) for suits in _EXCHANGES]
)


@functools.cache
def all_boards(num_cards: int) -> tuple[Boards, ...]:
    """The boards of 0, 1, ..., `num_cards` cards; the last ones without children.

    Raises:
      ValueError: `num_cards` is not from 1 to 5.
    """
    if not 1 <= num_cards <= MOST_CARDS:
        raise ValueError(f"num_cards={num_cards} of a board must be from 1 to {MOST_CARDS}")
    found, cards = [], np.zeros((1, 0), np.int64)
    for count in range(num_cards):
        left = np.ones((len(cards), NUM_CARDS), bool)
        np.put_along_axis(left, cards, False, axis=1)
        left = np.nonzero(left)[1].reshape(len(cards), NUM_CARDS - count)
        more = np.concatenate(
            [np.repeat(cards[:, None], left.shape[1], axis=1), left[..., None]], 2
        )
        # of the sets of cards that a board may become, as bits, the lowest stands for all
        keys = [np.bitwise_or.reduce(1 << _exchanged(more, suits), axis=2) for suits in _EXCHANGES]
        kept, child = np.unique(np.min(keys, axis=0), return_inverse=True)
        found.append(Boards(cards, child.reshape(left.shape), np.argmin(keys, axis=0)))
        cards = np.nonzero(kept[:, None] >> np.arange(NUM_CARDS) & 1)[1].reshape(-1, count + 1)
    nothing = np.zeros((len(cards), 0), np.int64)
    return (*found, Boards(cards, nothing, nothing))


def meetings(num_cards: int) -> int:
    """How many hands the opponent may hold on a board of so many cards."""
    return math.comb(NUM_CARDS - 2 - num_cards, 2)


@functools.cache
def wins(num_cards: int) -> Int16[np.ndarray, "B 1326"]:
    """On all boards of so many cards: how many hands each beats less how many beat it, of all
    `meetings`; `NOT_THERE` if it shares a card with the board. Five cards take a minute or two.

    Raises:
      ValueError: `num_cards` is not from 1 to 5.
    """
    boards = all_boards(num_cards)[-1].cards
    found = np.zeros((len(boards), NUM_HANDS), np.int16)
    for rows in batches(len(boards), min(_BATCH, len(boards))):
        found[rows] = _wins(jnp.asarray(boards[rows], jnp.int32))
    return found


@jax.jit
def _wins(boards):
    def one(board):
        ranking = rank_hands(board)
        beaten, not_lost = beaten_and_not_lost(ranking, jnp.ones(NUM_HANDS, jnp.float32))
        less = (beaten + not_lost).astype(jnp.int16) - jnp.int16(meetings(len(board)))
        return jnp.where(ranking.strength == BLOCKED, jnp.int16(NOT_THERE), less)

    return jax.vmap(one)(boards)


def batches(count: int, size: int) -> Iterator[Int[np.ndarray, " size"]]:
    """Numbers below `count`, so many at a time; the last one again where it does not come out."""
    for begin in range(0, count, size):
        yield np.minimum(np.arange(begin, begin + size), count - 1)
