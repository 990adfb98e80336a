"""All boards of up to five cards, one for each class under permutations of suits, and how each hand
fares on them against a random hand.

Against play that does not depend on cards, the value of a hand depends only on its equity against a
random hand. The values of all 1,326 hands on all boards are then averages of their values with one
more card. There are 13, 169, 1,755, 16,432 and 134,459 canonical boards of one to five cards.
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

MAX_BOARD_CARDS = 5
SHARES_CARD = 2000  # in `net_wins`: the hand shares a card with the board
_SUIT_PERMUTATIONS = np.array(list(itertools.permutations(range(len(SUITS)))))
_BATCH = 64  # boards whose hands are ranked at once


@dataclasses.dataclass(frozen=True)
class CanonicalBoards:
    """B boards of n cards: one of each class of boards that differ only in the names of suits.

    Each of the `M = 52 - n` remaining cards turns a board into one of n + 1 cards, which stands for
    its class as the board `child` under the suit permutation `exchange`: hand h here is hand
    `HAND_IMAGES[exchange, h]` there.
    """

    cards: Int[np.ndarray, "B n"]
    child: Int[np.ndarray, "B M"]
    exchange: Int[np.ndarray, "B M"]


def _permuted(cards, suits):
    """Cards with suit s replaced by `suits[s]`."""
    return cards // 4 * 4 + suits[cards % 4]


HAND_IMAGES: Int[np.ndarray, "24 1326"] = np.stack(
    [hand_numbers(_permuted(HANDS, suits)) for suits in _SUIT_PERMUTATIONS]
)  # the number of each hand after each permutation of suits


@functools.cache
def canonical_boards(num_cards: int) -> tuple[CanonicalBoards, ...]:
    """Enumerates the canonical boards of 0, 1, ..., `num_cards` cards.

    Args:
      num_cards: cards of the last boards, which have no children (M = 0).

    Returns:
      The boards by their number of cards.

    Raises:
      ValueError: `num_cards` is not from 1 to 5.
    """
    if not 1 <= num_cards <= MAX_BOARD_CARDS:
        raise ValueError(f"num_cards={num_cards} of a board must be from 1 to {MAX_BOARD_CARDS}")
    levels, cards = [], np.zeros((1, 0), np.int64)
    for count in range(num_cards):
        remaining = np.ones((len(cards), NUM_CARDS), bool)
        np.put_along_axis(remaining, cards, False, axis=1)
        remaining = np.nonzero(remaining)[1].reshape(len(cards), NUM_CARDS - count)
        extended = np.concatenate(
            [np.repeat(cards[:, None], remaining.shape[1], axis=1), remaining[..., None]], 2
        )
        # a set of cards as bits; the lowest number of a class stands for the class
        keys = [
            np.bitwise_or.reduce(1 << _permuted(extended, suits), axis=2)
            for suits in _SUIT_PERMUTATIONS
        ]
        kept, child = np.unique(np.min(keys, axis=0), return_inverse=True)
        levels.append(
            CanonicalBoards(cards, child.reshape(remaining.shape), np.argmin(keys, axis=0))
        )
        cards = np.nonzero(kept[:, None] >> np.arange(NUM_CARDS) & 1)[1].reshape(-1, count + 1)
    no_children = np.zeros((len(cards), 0), np.int64)
    return (*levels, CanonicalBoards(cards, no_children, no_children))


def num_opponent_hands(num_cards: int) -> int:
    """How many hands the opponent of a given hand may hold on a board of `num_cards` cards."""
    return math.comb(NUM_CARDS - 2 - num_cards, 2)


@functools.cache
def net_wins(num_cards: int) -> Int16[np.ndarray, "B 1326"]:
    """Wins minus losses of each hand against all hands of the opponent, on all canonical boards.

    Takes one to two minutes for five cards.

    Args:
      num_cards: cards of the boards.

    Returns:
      For each board and hand the number of opponent hands (of `num_opponent_hands`) that it beats,
      minus the number that beat it; `SHARES_CARD` if the hand shares a card with the board.

    Raises:
      ValueError: `num_cards` is not from 1 to 5.
    """
    boards = canonical_boards(num_cards)[-1].cards
    result = np.zeros((len(boards), NUM_HANDS), np.int16)
    for rows in index_batches(len(boards), min(_BATCH, len(boards))):
        result[rows] = _net_wins(jnp.asarray(boards[rows], jnp.int32))
    return result


@jax.jit
def _net_wins(boards):
    def on_board(board):
        ranking = rank_hands(board)
        beaten, not_lost = beaten_and_not_lost(ranking, jnp.ones(NUM_HANDS, jnp.float32))
        net = (beaten + not_lost).astype(jnp.int16) - jnp.int16(num_opponent_hands(len(board)))
        return jnp.where(ranking.strength == BLOCKED, jnp.int16(SHARES_CARD), net)

    return jax.vmap(on_board)(boards)


def index_batches(count: int, size: int) -> Iterator[Int[np.ndarray, " size"]]:
    """Yields the numbers 0 to `count - 1` in batches of `size`; the last batch is filled with
    `count - 1`."""
    for begin in range(0, count, size):
        yield np.minimum(np.arange(begin, begin + size), count - 1)
