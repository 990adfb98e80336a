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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int16

from jaxgames.arrays import index_batches, on_device
from jaxgames.core import record
from jaxgames.holdem.cards import NUM_CARDS, SUITS
from jaxgames.holdem.equity import BLOCKED, beaten_and_not_lost, rank_hands
from jaxgames.holdem.ranges import HANDS, NUM_HANDS, hand_numbers

MAX_BOARD_CARDS = 5
NUM_BOARDS = 1, 13, 169, 1_755, 16_432, 134_459  # canonical ones, by number of cards
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


@record
class BoardFinder:
    """What it takes to find the canonical boards of any cards, one card after the other."""

    child: tuple[Array, ...]  # by number of cards n: [B, 52] int32 the board with this card, too
    exchange: tuple[Array, ...]  # [B, 52] int32 the permutation of suits from this board to that
    composed: Array  # [24, 24] int32 the permutation that does the first, then the second


@functools.cache
def board_finder(num_cards: int) -> BoardFinder:
    """The finder of boards of up to `num_cards` cards.

    Raises:
      ValueError: `num_cards` is not from 1 to 5.
    """
    child, exchange = [], []
    for boards in canonical_boards(num_cards)[:-1]:
        remaining = np.ones((len(boards.cards), NUM_CARDS), bool)
        np.put_along_axis(remaining, boards.cards, False, axis=1)
        for table, given in ((child, boards.child), (exchange, boards.exchange)):
            whole = np.zeros(remaining.shape, np.int32)
            whole[remaining] = given.reshape(-1)
            table.append(on_device(whole))
    both = _SUIT_PERMUTATIONS[:, _SUIT_PERMUTATIONS].swapaxes(0, 1)  # [first, second, suit]
    composed = (both[:, :, None] == _SUIT_PERMUTATIONS).all(axis=-1).argmax(axis=-1)
    return BoardFinder(
        child=tuple(child), exchange=tuple(exchange), composed=on_device(composed, np.int32)
    )


def find_boards(
    finder: BoardFinder, cards: Int[Array, " n"]
) -> tuple[Int[Array, " n+1"], Int[Array, " n+1"]]:
    """The canonical boards of the first 0, 1, ..., n cards of a deal; pure JAX.

    Args:
      finder: of at least n cards.
      cards: different ones, in the order of the deal.

    Returns:
      Numbers of the boards, and permutations: hand h beside the cards of the deal is hand
      `HAND_IMAGES[permutation, h]` beside the canonical board.
    """
    suits = jnp.asarray(_SUIT_PERMUTATIONS, jnp.int32)
    number, permutation = [jnp.int32(0)], [jnp.int32(0)]
    for count, card in enumerate(cards):
        image = card // 4 * 4 + suits[permutation[-1], card % 4]
        turned = finder.exchange[count][number[-1], image]
        number.append(finder.child[count][number[-1], image])
        permutation.append(finder.composed[permutation[-1], turned])
    return jnp.stack(number), jnp.stack(permutation)


def num_deals(num_cards: int) -> Int[np.ndarray, " B"]:
    """How many boards each canonical board of `num_cards` cards stands for.

    Raises:
      ValueError: `num_cards` is not from 0 to 5.
    """
    return len(_SUIT_PERMUTATIONS) // _fixes(num_cards).sum(axis=1)


def possible_hands(num_cards: int) -> Bool[np.ndarray, "B 1326"]:
    """Which hands share no card with each canonical board of `num_cards` cards.

    Raises:
      ValueError: `num_cards` is not from 0 to 5.
    """
    _check_num_cards(num_cards)
    boards = canonical_boards(max(num_cards, 1))[num_cards].cards
    holds = np.zeros((len(boards), NUM_CARDS), bool)
    np.put_along_axis(holds, boards, True, axis=1)
    return ~(holds[:, HANDS[:, 0]] | holds[:, HANDS[:, 1]])


def board_symmetries(num_cards: int) -> Iterator[tuple[int, Int[np.ndarray, " s"]]]:
    """The canonical boards of `num_cards` cards that some permutations of suits do not change.

    Yields:
      The number of the board, and those permutations, the identity among them, as in `HAND_IMAGES`.

    Raises:
      ValueError: `num_cards` is not from 0 to 5.
    """
    fixes = _fixes(num_cards)
    for board in np.flatnonzero(fixes.sum(axis=1) > 1):
        yield int(board), np.flatnonzero(fixes[board])


class NextCards(NamedTuple):
    """The cards that may be dealt next, one of each class of those that differ in the names of
    suits only."""

    cards: Int[np.ndarray, " n"]
    times: Int[np.ndarray, " n"]  # how many cards each of them stands for
    # permutations of suits that change nothing so far, the identity first, as in `HAND_IMAGES`
    symmetries: Int[np.ndarray, " s"]


def next_cards(*dealt: Int[np.ndarray, " _"]) -> NextCards:
    """The cards that may come after those that have been dealt.

    A sum `[1326]` over all next cards of what does not depend on the names of suits is that over
    these cards, each as often as it says, averaged over the `HAND_IMAGES` of the symmetries.

    Args:
      dealt: what came together, in whatever order, is one of them: the flop, the turn.
    """
    fixes = [
        all(set(_permuted(cards, suits)) == set(cards) for cards in dealt)
        for suits in _SUIT_PERMUTATIONS
    ]
    symmetries = np.flatnonzero(fixes)
    left = np.setdiff1d(np.arange(NUM_CARDS), np.concatenate(dealt))
    least = np.min([_permuted(left, _SUIT_PERMUTATIONS[s]) for s in symmetries], axis=0)
    cards, times = np.unique(least, return_counts=True)
    return NextCards(cards=cards, times=times, symmetries=symmetries)


def _check_num_cards(num_cards):
    if not 0 <= num_cards <= MAX_BOARD_CARDS:
        raise ValueError(f"num_cards={num_cards} must be from 0 to {MAX_BOARD_CARDS}")


@functools.cache
def _fixes(num_cards):
    """Which permutations do not change each board, `[B, 24]`."""
    _check_num_cards(num_cards)
    boards = canonical_boards(max(num_cards, 1))[num_cards].cards
    images = [np.sort(_permuted(boards, suits), axis=1) for suits in _SUIT_PERMUTATIONS]
    return np.stack([(image == np.sort(boards, axis=1)).all(axis=1) for image in images], axis=1)


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
