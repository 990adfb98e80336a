"""The strength that hands can expect at showdown, on all boards: E[HS], E[HS^2] and the
distribution of HS.

HS is a hand's share of the pot on the last board against a random hand. The means over all ways to
complete a board are exact: sums of whole numbers, from the canonical boards of the last street up
to those of the flop and to hands before it. So hands that differ only in the names of suits have
the same sums.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Int16, Integer

from jaxgames.arrays import index_batches
from jaxgames.holdem.canonical_boards import (
    HAND_IMAGES,
    MAX_BOARD_CARDS,
    SHARES_CARD,
    canonical_boards,
    net_wins,
    num_opponent_hands,
)
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.ranges import NUM_HANDS

_BOARDS_AT_ONCE = 64


def most_points(last: int) -> int:
    """The points for HS of 1 on boards of `last` cards: two for each hand that is beaten."""
    return 2 * num_opponent_hands(last)


def last_points(last: int) -> Int16[np.ndarray, "B 1326"]:
    """HS of all hands on all canonical boards of the last street, in points: times
    `most_points(last)`; 0 for hands that share a card with the board.

    For boards of five cards the first call takes about a minute, and what is kept 360 MB.

    Args:
      last: cards of the boards, 1 to 5.
    """
    net = net_wins(last)
    return np.where(net == SHARES_CARD, 0, net + num_opponent_hands(last)).astype(np.int16)


def num_completions(num_cards: int, last: int = MAX_BOARD_CARDS) -> int:
    """How many ways there are to deal the other cards, one by one, to a board of `num_cards` cards
    that one hand is known beside.

    Args:
      num_cards: cards that were dealt.
      last: cards of the last street's board.
    """
    return math.perm(NUM_CARDS - 2 - num_cards, last - num_cards)


def strength_sums(
    power: int, num_cards: int, last: int = MAX_BOARD_CARDS
) -> Int[np.ndarray, "B 1326"]:
    """Sums of HS or HS^2 over all ways to complete each canonical board, one card after the other.

    Args:
      power: 1 for HS, 2 for HS^2.
      num_cards: cards of the boards, fewer than `last`.
      last: cards of the last street's board.

    Returns:
      E[HS^power] of each hand times `most_points(last)**power * num_completions(num_cards, last)`;
      0 for hands that share a card with the board.

    Raises:
      ValueError: `power` is not 1 or 2, or `num_cards` is not from 0 to `last - 1`.
    """
    if power not in (1, 2):
        raise ValueError(f"power={power} must be 1 or 2")
    _check_before(num_cards, last)
    return _strength_sums(power, num_cards, last)


@functools.cache
def _strength_sums(power, num_cards, last):
    if num_cards == last - 1:
        half = num_opponent_hands(last)

        def powers(net):
            return np.where(net == SHARES_CARD, 0, net.astype(np.int32) + half) ** power

        return _over_next_card(net_wins(last), num_cards, np.int32, powers)
    return _over_next_card(_strength_sums(power, num_cards + 1, last), num_cards, np.int64)


def _check_before(num_cards, last):
    if not 0 <= num_cards < last <= MAX_BOARD_CARDS:
        raise ValueError(
            f"num_cards={num_cards} must be from 0 to {last - 1}, and last={last} at most"
            f" {MAX_BOARD_CARDS}"
        )


def expected_strength(
    power: int, num_cards: int, last: int = MAX_BOARD_CARDS
) -> Float[np.ndarray, "B 1326"]:
    """E[HS] or E[HS^2] of all hands on all canonical boards.

    Args:
      power: 1 for HS, 2 for HS^2.
      num_cards: cards of the boards, fewer than `last`.
      last: cards of the last street's board.

    Raises:
      ValueError: as `strength_sums`.
    """
    unit = float(most_points(last)) ** power * num_completions(num_cards, last)
    return strength_sums(power, num_cards, last) / unit


def strength_histograms(
    num_cards: int, thresholds: Int[np.ndarray, " H"], last: int = MAX_BOARD_CARDS
) -> Integer[np.ndarray, "B 1326 H"]:
    """How many ways to complete each canonical board leave a hand with less than some strengths.

    With thirty thresholds the counts of four cards take 650 MB.

    Args:
      num_cards: cards of the boards, fewer than `last`.
      thresholds: HS in points.
      last: cards of the last street's board.

    Returns:
      Counts of up to `num_completions(num_cards, last)`; 0 for hands that share a card with the
      board.

    Raises:
      ValueError: `num_cards` is not from 0 to `last - 1`.
    """
    _check_before(num_cards, last)
    if num_cards < last - 1:
        below = strength_histograms(num_cards + 1, thresholds, last)
        most = num_completions(num_cards, last)
        return _over_next_card(below, num_cards, np.uint16 if most < 2**16 else np.int64)
    boards, net = canonical_boards(last)[num_cards], jnp.asarray(net_wins(last))
    result = np.zeros((len(boards.cards), NUM_HANDS, len(thresholds)), np.uint8)
    bounds = jnp.asarray(thresholds - num_opponent_hands(last), jnp.int16)
    for rows in index_batches(len(result), min(_BOARDS_AT_ONCE, len(result))):
        child, exchange = (jnp.asarray(x[rows], jnp.int32) for x in (boards.child, boards.exchange))
        result[rows] = _counts_below(net, child, exchange, bounds)
    return result


@jax.jit
def _counts_below(net, child, exchange, bounds):
    """For boards with M next cards `[n, M]`, how many of these leave each hand with less than each
    bound, `[n, 1326, H]`; hands that share a card with the board never have less."""
    images = jnp.asarray(HAND_IMAGES, jnp.int32)

    def of_board(given):
        child, exchange = given
        below = net[child[:, None], images[exchange]]  # [M, 1326]
        count = lambda bound: jnp.sum(below < bound, axis=0, dtype=jnp.uint8)  # noqa: E731
        return jnp.stack([count(bound) for bound in bounds], axis=-1)

    return jax.lax.map(of_board, (child, exchange))


def _over_next_card(below, num_cards, dtype, read=lambda x: x) -> Integer[np.ndarray, "B 1326 ..."]:
    """Sums over the next card of what is read in a table of the boards with that card."""
    boards = canonical_boards(num_cards + 1)[num_cards]
    result = np.zeros((len(boards.cards), *below.shape[1:]), dtype)
    for number, (child, exchange) in enumerate(zip(boards.child, boards.exchange, strict=True)):
        after = read(below[child[:, None], HAND_IMAGES[exchange]])
        result[number] = after.sum(axis=0, dtype=dtype)
    return result
