"""Showdowns and equities of all hands against a range, with card removal.

    >>> from jaxgames.holdem import parse_cards, parse_range, range_equity
    >>> hand, random = parse_range("AhKh"), parse_range("random")
    >>> print(f"{range_equity(parse_cards('Td9d6hQc2s'), hand, random):.3f}")
    0.348

All hands of a board are sorted once. Whatever the range, the weight that a hand beats is then a
difference of running sums: over all hands, less those over the 51 hands that hold its first card
and the 51 that hold its second (Johanson, Waugh, Bowling, Zinkevich 2011, "Accelerating best
response calculation in large extensive games", section 3.3).
"""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import on_device
from jaxgames.core import record
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.hand_evaluator import strength_of_sets, suit_sets
from jaxgames.holdem.ranges import HANDS, NUM_HANDS

BLOCKED = -1  # strength of a hand that holds a card of the board
_WITH_CARD = np.stack([np.flatnonzero((card == HANDS).any(axis=1)) for card in range(NUM_CARDS)])


@record
class Ranking:
    """All 1,326 hands on a board, from the weakest to the strongest; blocked ones come first."""

    strength: Array  # [1326] int32, or BLOCKED
    order: Array  # [1326] int32 the hand at each place from the weakest on
    weaker: Array  # [1326] int32 how many hands are weaker
    weaker_or_equal: Array  # [1326]
    order_by_card: Array  # [52, 51] int32 `order` among the hands with each card
    weaker_by_card: Array  # [1326, 2] `weaker` among the hands with either card of a hand
    weaker_or_equal_by_card: Array  # [1326, 2]


def hand_strengths(board: Int[Array, " n"]) -> Int[Array, "1326"]:
    """Strengths of all hands on a board of at most five cards; BLOCKED if they share a card."""
    hands = jnp.asarray(HANDS)
    sets = suit_sets(hands) | suit_sets(board)[:, None]
    blocked = jnp.any(hands[:, :, None] == board[None, None, :], axis=(1, 2))
    strength = strength_of_sets(sets, num_cards=2 + len(board))
    return jnp.where(blocked, BLOCKED, strength)


def rank_hands(board: Int[Array, " n"]) -> Ranking:
    """Sorts all hands on a board by their strength; pure, batched by `vmap`.

    Args:
      board: at most five cards.

    Returns:
      All 1,326 hands from the weakest to the strongest.
    """
    strength = hand_strengths(board)
    find = functools.partial(jnp.searchsorted, jnp.sort(strength), strength, method="scan_unrolled")
    weaker = find(side="left").astype(jnp.int32)
    with_card = jnp.asarray(_WITH_CARD)
    order, _, _ = _sorted(weaker)
    places, first, behind = _sorted(weaker[with_card])
    by_card = jnp.take_along_axis(with_card, places, axis=1)
    which = (jnp.asarray(HANDS)[by_card, 1] == _card_column()).astype(jnp.int32)
    runs = jnp.stack([first, behind], axis=-1)
    runs = jnp.zeros((NUM_HANDS, 2, 2), jnp.int32).at[by_card, which].set(runs)
    return Ranking(
        strength=strength,
        order=order,
        weaker=weaker,
        weaker_or_equal=find(side="right").astype(jnp.int32),
        order_by_card=by_card,
        weaker_by_card=runs[:, :, 0],
        weaker_or_equal_by_card=runs[:, :, 1],
    )


def _card_column():
    """The 52 cards as a column `[52, 1]`."""
    return jnp.arange(NUM_CARDS, dtype=jnp.int32)[:, None]


def _sorted(ranks: Int[Array, "... n"]) -> tuple[Array, Array, Array]:
    """Sorts whole numbers below 2048: `[..., n]` the position of each in the input; and for each,
    where its run of equal numbers begins in the sorted order, and where the next run begins."""
    number = jnp.arange(ranks.shape[-1], dtype=jnp.int32)
    # sorted with their positions in one word: many times faster on CPU than with `argsort`
    number = jnp.broadcast_to(number, ranks.shape)
    words = jnp.sort(ranks * 2048 + number, axis=-1)
    values, place = words >> 11, number
    new = values[..., 1:] != values[..., :-1]
    edge = jnp.ones_like(new[..., :1])
    first = jnp.where(jnp.concatenate([edge, new], axis=-1), place, 0)
    last = jnp.where(jnp.concatenate([new, edge], axis=-1), place + 1, ranks.shape[-1])
    first = jax.lax.associative_scan(jnp.maximum, first, axis=ranks.ndim - 1)
    behind = jax.lax.associative_scan(jnp.minimum, last, axis=ranks.ndim - 1, reverse=True)
    return words & 2047, first, behind


def beaten_and_not_lost(
    ranking: Ranking, weights: Float[Array, "1326"]
) -> tuple[Float[Array, "1326"], Float[Array, "1326"]]:
    """For every hand the weight of the hands that it beats, and of those that it beats or ties.

    Args:
      ranking: the hands of a board.
      weights: the opponent's range. Hands that share a card with the player's hand or with the
        board do not count.

    Returns:
      Weights beaten `[1326]`, and beaten or tied `[1326]`; 0 for blocked hands.
    """
    weights = jnp.where(ranking.strength == BLOCKED, 0, weights)
    hands = jnp.asarray(HANDS)
    sums = running_sums(weights[ranking.order])
    sums_by_card = running_sums(weights[ranking.order_by_card].T)

    def total(count, count_by_card):
        shared = sums_by_card[count_by_card, hands]
        return sums[count] - shared[:, 0] - shared[:, 1]

    beaten = total(ranking.weaker, ranking.weaker_by_card)
    not_lost = total(ranking.weaker_or_equal, ranking.weaker_or_equal_by_card)
    # the hand itself, which has both cards, was subtracted twice
    not_lost = not_lost + weights
    valid = ranking.strength != BLOCKED
    return jnp.where(valid, beaten, 0), jnp.where(valid, not_lost, 0)


def compatible_weight(weights: Float[Array, "1326"]) -> Float[Array, "1326"]:
    """For every hand the weight of all hands that share no card with it; exactly 0 if there are
    none."""

    def apart(values):
        by_card = jnp.sum(values[jnp.asarray(_WITH_CARD)], axis=1)
        shared = by_card[jnp.asarray(HANDS)]
        return jnp.sum(values) - shared[:, 0] - shared[:, 1] + values

    met = apart((weights > 0).astype(jnp.float32))  # counts, which rounding leaves as they are
    return jnp.where(met > 0, apart(weights), 0)


def showdown_equity(ranking: Ranking, weights: Float[Array, "1326"]) -> Float[Array, "1326"]:
    """For every hand its share of the pot at showdown against a range; ties split the pot.

    Args:
      ranking: the hands of a board.
      weights: the opponent's range.

    Returns:
      Shares from 0 to 1; 0 for hands that share a card with the board, or with every hand of the
      range.
    """
    beaten, not_lost = beaten_and_not_lost(ranking, weights)
    against = compatible_weight(jnp.where(ranking.strength == BLOCKED, 0, weights))
    valid = (ranking.strength != BLOCKED) & (against > 0)
    share = (beaten + not_lost) / 2 / jnp.where(valid, against, 1)
    return jnp.where(valid, jnp.clip(share, 0, 1), 0)  # beyond these by rounding only


def running_sums(rows: Float[Array, "n ..."]) -> Float[Array, "m ..."]:
    """Sums of the first 0, 1, 2, ..., n rows (m = n + 1).

    Rows are summed within pieces, then over pieces. Both loops are unrolled: about sqrt(n) steps.
    """
    count, piece = len(rows), 1 << (max(len(rows).bit_length(), 2) // 2)
    more = -count % piece
    parts = jnp.concatenate([rows, jnp.zeros((more, *rows.shape[1:]), rows.dtype)])
    parts = parts.reshape(-1, piece, *rows.shape[1:])
    within = list(itertools.accumulate(parts[:, i] for i in range(piece)))
    before = list(itertools.accumulate(within[-1][i] for i in range(len(parts))))
    before = jnp.stack([jnp.zeros_like(before[0]), *before[:-1]])
    sums = jnp.stack([part + before for part in within], axis=1)
    sums = sums.reshape(-1, *rows.shape[1:])[:count]
    return jnp.concatenate([jnp.zeros_like(rows[:1]), sums])


def equity(
    board: tuple[int, ...], weights: Float[np.ndarray, "1326"], *, batch: int = 64
) -> Float[np.ndarray, "1326"]:
    """For every hand its share of the pot against a range if both check to the showdown.

    Exact: all ways to complete the board are enumerated, 1,176 from a flop and 48 from a turn.

    Args:
      board: three to five cards.
      weights: the opponent's range.
      batch: boards that are evaluated at once.

    Returns:
      Shares from 0 to 1; 0 for hands that are impossible or meet no hand of the range.

    Raises:
      ValueError: the board does not have three to five different cards.
    """
    won, against = _won_over_runouts(board, weights, batch)
    return np.clip(np.where(against > 0, won / np.where(against > 0, against, 1), 0), 0, 1)


def range_equity(
    board: tuple[int, ...],
    weights: Float[np.ndarray, "1326"],
    against: Float[np.ndarray, "1326"],
    *,
    batch: int = 64,
) -> float:
    """The share of the pot that one range wins against another if both check to the showdown.

    Args:
      board: three to five cards.
      weights: the range whose share is asked for.
      against: the opponent's range.
      batch: boards that are evaluated at once.

    Returns:
      A number from 0 to 1.

    Raises:
      ValueError: the board does not have three to five different cards, or every hand of one range
        shares a card with every hand of the other.
    """
    won, met = _won_over_runouts(board, against, batch)
    total = weights @ met
    if not total > 0:
        raise ValueError(
            "weights, against: no hand of one range goes with a hand of the other on"
            f" board={board}; allowed: ranges with two hands that share no card"
        )
    return float(weights @ won / total)


def _won_over_runouts(board, weights, batch):
    """For every hand the opponent's weight that it beats, ties counting half, and the weight that
    it meets, `[1326]` each, summed over all boards that complete this one."""
    if not 3 <= len(board) <= 5 or len(set(board)) < len(board):
        raise ValueError(f"board={board} must have 3 to 5 different cards")
    deck = [card for card in range(NUM_CARDS) if card not in board]
    boards = np.array([(*board, *more) for more in itertools.combinations(deck, 5 - len(board))])
    won, against = np.zeros((2, NUM_HANDS))
    for _, (won_on, against_on) in _in_batches(_won, boards, batch, on_device(weights, np.float32)):
        won += won_on.sum(axis=0)
        against += against_on.sum(axis=0)
    return won, against


@jax.jit
def _won(boards, weights):
    """Weights won and met `[B, 1326]` on each of B complete boards."""

    def on_board(board):
        ranking = rank_hands(board)
        beaten, not_lost = beaten_and_not_lost(ranking, weights)
        valid = ranking.strength != BLOCKED
        against = jnp.where(valid, compatible_weight(jnp.where(valid, weights, 0)), 0)
        return jnp.where(against > 0, (beaten + not_lost) / 2, 0), against

    return jax.vmap(on_board)(boards)


def _in_batches(function, boards, batch, weights):
    """Yields the rows of each batch of boards and the function's results for them.

    The last batch is filled with its last board, so that the function is compiled once.
    """
    for begin in range(0, len(boards), batch):
        rows = np.arange(begin, min(begin + batch, len(boards)))
        filled = np.minimum(np.arange(begin, begin + batch), len(boards) - 1)
        results = function(on_device(boards[filled], np.int32), weights)
        yield rows, tuple(np.asarray(part)[: len(rows)] for part in results)
