"""Showdowns: against brute force over pairs of hands, published equities, and another solver's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.holdem import equity
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.ranges import (
    HANDS,
    blocked,
    hand_number,
    parse_range,
    without_cards,
)

# The ranges of a reference solution by another solver, on the board Td9d6h and Qc.
FIRST = "66+,A8s+,A5s-A4s,AJo+,K9s+,KQo,QTs+,JTs,96s+,85s+,75s+,65s,54s"
SECOND = "QQ-22,AQs-A2s,ATo+,K5s+,KJo+,Q8s+,J8s+,T7s+,96s+,86s+,75s+,64s+,53s+"


@pytest.mark.parametrize("board", ["Td9d6hQc2s", "2c3c4c5c6c", "AcAdAhAsKc", "7h7d2s2cKd"])
def test_showdowns_are_those_of_all_pairs_of_hands(board):
    cards = parse_cards(board)
    weights = np.random.default_rng(0).random(1326)
    ranking = jax.jit(equity.rank_hands)(jnp.array(cards))
    strength = np.asarray(ranking.strength)
    np.testing.assert_array_equal(strength == equity.BLOCKED, blocked(cards))
    apart = (HANDS[:, None, :, None] != HANDS[None, :, None, :]).all(axis=(2, 3))
    pairs = apart & ~blocked(cards)[:, None] & ~blocked(cards)[None]
    beaten = (pairs & (strength[:, None] > strength[None])) @ weights
    not_lost = (pairs & (strength[:, None] >= strength[None])) @ weights
    weight = jax.jit(equity.beaten_and_not_lost)(ranking, jnp.array(weights))
    np.testing.assert_allclose(weight[0], beaten, atol=2e-3)
    np.testing.assert_allclose(weight[1], not_lost, atol=2e-3)
    met = pairs @ weights
    expected = np.where(met > 0, (beaten + not_lost) / 2 / np.maximum(met, 1e-9), 0)
    shares = jax.jit(equity.showdown_equity)(ranking, jnp.array(weights))
    np.testing.assert_allclose(shares, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("board", "expected", "digits"),
    [
        ("Td9d6hQc", 0.5306, 4),
        pytest.param("Td9d6h", 0.53647, 5, marks=pytest.mark.slow),
    ],
)
def test_equities_of_another_solver(board, expected, digits):
    cards = parse_cards(board)
    first, second = (without_cards(parse_range(text), cards) for text in (FIRST, SECOND))
    share = equity.range_equity(cards, first, second)
    assert share == pytest.approx(expected, abs=0.51 * 10**-digits)
    assert equity.range_equity(cards, second, first) == pytest.approx(1 - share, abs=1e-6)


def test_equity_by_hand():
    """A set of sixes on the turn against a straight, and against a draw to a straight."""
    cards = parse_cards("6d9cTh2s")
    shares = equity.equity(cards, parse_range("6c6h"))
    # the set becomes a full house or better with the last six and three each of nine, ten and two
    straight = hand_number(*parse_cards("7s8s"))
    assert shares[straight] == pytest.approx(34 / 44, abs=1e-6)
    # the draw is made by four eights and four kings
    draw = hand_number(*parse_cards("JsQs"))
    assert shares[draw] == pytest.approx(8 / 44, abs=1e-6)


def test_hands_that_meet_nobody_have_no_share():
    """All hands of the range have one of the cards, with weights whose sums are rounded."""
    cards, hand = parse_cards("Td9d6hQc2s"), hand_number(*parse_cards("AhKh"))
    ranking = jax.jit(equity.rank_hands)(jnp.array(cards, jnp.int32))
    draw = np.random.default_rng(0)
    showdown_equity = jax.jit(equity.showdown_equity)
    for _ in range(20):
        weights = np.zeros(1326)
        for blocker in parse_cards("AhKh"):
            others = draw.choice([c for c in range(40) if c not in cards], 6, replace=False)
            for other in others.tolist():
                weights[hand_number(*sorted((blocker, other)))] = draw.integers(1, 20) / 20
        shares = np.asarray(showdown_equity(ranking, jnp.asarray(weights, jnp.float32)))
        assert shares[hand] == 0
        assert (shares >= 0).all()
        assert (shares <= 1).all()
        with pytest.raises(ValueError, match="no hand of one range goes with a hand of the other"):
            equity.range_equity(cards, parse_range("AhKh"), weights)


def test_bad_boards():
    with pytest.raises(ValueError, match=r"board=\(1, 2\) must have 3 to 5 different cards"):
        equity.equity((1, 2), np.ones(1326))
    with pytest.raises(ValueError, match="no hand of one range goes with a hand of the other"):
        equity.range_equity(parse_cards("2c3c4c5c"), parse_range("AhAd"), parse_range("AhKh"))
