"""Hand percentiles: against the ranking of all hands, on random boards."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.holdem import hand_evaluator
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.hand_percentile import hand_percentile

strength = jax.jit(hand_evaluator.strength)


def by_all_hands(hole, board, deck):
    """Cards as numbers of the whole deck; `deck` are those that the game has."""
    left = sorted(set(deck) - set(hole) - set(board))
    theirs = np.array(list(itertools.combinations(left, len(hole))))
    rest = np.broadcast_to(board, (len(theirs), len(board))).astype(int)
    others = np.asarray(strength(jnp.asarray(np.hstack([theirs, rest]), jnp.int32)))
    own = int(strength(jnp.asarray([*hole, *board], jnp.int32)))
    return ((own > others).mean() + (own >= others).mean()) / 2


# boards of one suit have flushes of all kinds
@pytest.mark.parametrize("suits", [1, pytest.param(2, marks=pytest.mark.slow), 4])
@pytest.mark.parametrize("num_dealt", [0, 3, 4, 5])
def test_it_is_the_share_of_all_hands(num_dealt, suits):
    shares = jax.jit(jax.vmap(hand_percentile))
    rng = np.random.default_rng(num_dealt)
    near = [card for card in range(52) if card % 4 < suits]
    cases = []
    for _ in range(12):
        board = rng.permutation(near)[:num_dealt]
        hole = rng.permutation(sorted(set(range(52)) - set(board.tolist())))[:2]
        cases.append((hole, board))
    boards = np.full((len(cases), 5), -1, np.int32)
    for row, (_, board) in zip(boards, cases, strict=True):
        row[:num_dealt] = board
    percentiles = shares(jnp.asarray([hole for hole, _ in cases], jnp.int32), jnp.asarray(boards))
    expected = [by_all_hands(hole, board, range(52)) for hole, board in cases]
    np.testing.assert_allclose(percentiles, expected, atol=1e-6)


@pytest.mark.parametrize("size", [1, 2])
def test_small_decks(size):
    """Five ranks of three suits, on boards of three cards."""
    deck = [4 * rank + suit for rank in range(5) for suit in range(3)]
    shares = jax.jit(functools.partial(hand_percentile, ranks=5, suits=3))
    rng = np.random.default_rng(0)
    for _ in range(20):
        cards = rng.permutation(15)[: size + 3].astype(np.int32)
        whole = cards // 3 * 4 + cards % 3
        expected = by_all_hands(whole[:size], whole[size:], deck)
        percentiles = shares(jnp.asarray(cards[:size]), jnp.asarray(cards[size:]))
        assert float(percentiles) == pytest.approx(expected, abs=1e-6)


def test_the_nuts_beat_all():
    board = jnp.array(parse_cards("Td9d6hQc2s"))
    assert float(hand_percentile(jnp.array(parse_cards("KhJh")), board)) > 0.99
    royal = jnp.array(parse_cards("TsJsQs"))
    assert float(hand_percentile(jnp.array(parse_cards("AsKs")), royal)) == 1


def test_bad_input():
    with pytest.raises(ValueError, match="hands of 3 cards"):
        hand_percentile(jnp.arange(3, dtype=jnp.int32), jnp.arange(3, 8, dtype=jnp.int32))
    with pytest.raises(ValueError, match="14 ranks"):
        hand_percentile(jnp.arange(2, dtype=jnp.int32), jnp.arange(3, 8, dtype=jnp.int32), ranks=14)
