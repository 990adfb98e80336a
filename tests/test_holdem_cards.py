"""Cards and hands of hold'em: names, strength by published counts and another package, ranges."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import phevaluator
import pytest

from jaxgames.holdem import cards, hand_evaluator, ranges

# By category, from high card to straight flush: well-known counts.
FIVE = [1302540, 1098240, 123552, 54912, 10200, 5108, 3744, 624, 40]
SIX = [6612900, 9730740, 2532816, 732160, 361620, 205792, 165984, 14664, 1844]
SEVEN = [23294460, 58627800, 31433400, 6461620, 6180020, 4047644, 3473184, 224848, 41584]


def five_card_hands():
    """All, in the order of their highest cards."""
    every = itertools.chain.from_iterable(itertools.combinations(range(52), 5))
    hands = np.fromiter(every, np.int8, 5 * math.comb(52, 5)).reshape(-1, 5)
    return hands[np.argsort(hands[:, 4], kind="stable")]


def counts(strengths):
    return [int((hand_evaluator.category(strengths) == kind).sum()) for kind in range(9)]


def test_all_five_card_hands():
    strengths = np.asarray(jax.jit(hand_evaluator.strength)(five_card_hands()))
    assert counts(strengths) == FIVE
    assert len(np.unique(strengths)) == 7462


@pytest.mark.slow
@pytest.mark.parametrize(("further", "expected"), [(1, SIX), (2, SEVEN)])
def test_all_hands_of_more_cards(further, expected):
    """Every hand once: its five lowest cards, then higher ones."""
    sets = jnp.asarray(jax.jit(hand_evaluator.suit_sets)(five_card_hands()))
    size = 2**17 // further**3
    sets = jnp.pad(sets, ((0, 0), (0, size)))

    @jax.jit
    def count(begin, end, more):
        block = jax.lax.dynamic_slice_in_dim(sets, begin, size, axis=1)
        held = block | hand_evaluator.suit_sets(more)[:, None]
        kinds = hand_evaluator.category(
            hand_evaluator.strength_of_sets(held, num_cards=5 + further)
        )
        real = begin + jnp.arange(size) < end
        return jnp.stack([jnp.sum((kinds == kind) & real) for kind in range(9)])

    count_each = jax.jit(jax.vmap(count, (None, None, 0)))
    counts = np.zeros(9, np.int64)
    for lowest in range(5, 52):
        rest = itertools.combinations(range(lowest + 1, 52), further - 1)
        more = np.array([(lowest, *others) for others in rest], np.int32).reshape(-1, further)
        end = math.comb(lowest, 5)
        for begin in range(0, end if len(more) else 0, size):
            counts += np.asarray(count_each(begin, end, more)).sum(axis=0)
    assert counts.tolist() == expected


@pytest.mark.parametrize("num_cards", [5, 6, 7])
def test_random_hands_compare_as_in_another_package(num_cards):
    rng = np.random.default_rng(num_cards)
    hands = np.argsort(rng.random((20_000, 52)), axis=1)[:, :num_cards]
    mine = np.asarray(jax.jit(hand_evaluator.strength)(hands))
    others = np.array([phevaluator.evaluate_cards(*map(int, hand)) for hand in hands])
    order = np.argsort(others, kind="stable")  # theirs: the best hand is 1
    rise, fall = np.sign(np.diff(others[order])), np.sign(np.diff(mine[order]))
    np.testing.assert_array_equal(rise, -fall)


def test_hands_of_few_cards_are_pairs_and_high_cards():
    def strength(text):
        return int(hand_evaluator.strength(jnp.array(cards.parse_cards(text))))

    assert strength("2c2d") > strength("AcKc") > strength("AcQd") == strength("AhQs")
    assert strength("3c3d2h") > strength("2c2dAh") > strength("AcKcQc")
    assert strength("2c2d2h") > strength("AcAdKh")


def test_suits_do_not_matter():
    rng = np.random.default_rng(0)
    hands = np.argsort(rng.random((1000, 52)), axis=1)[:, :7]
    shifted = hands // 4 * 4 + np.array([2, 0, 3, 1])[hands % 4]
    np.testing.assert_array_equal(
        hand_evaluator.strength(jnp.array(hands)),
        hand_evaluator.strength(jnp.array(shifted[:, ::-1])),
    )


def test_names():
    assert cards.parse_cards("Td9d6h Qc") == (33, 29, 18, 40)
    assert cards.cards_name(cards.parse_cards("2c, as td")) == "2cAsTd"
    assert [cards.parse_cards(cards.card_name(card))[0] for card in range(52)] == list(range(52))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Td9x", "'9x' in 'Td9x' is not a card: suit 'x' is none of cdhs"),
        ("1d", "rank '1' is none of 23456789TJQKA"),
        ("Td9", "'Td9' in 'Td9' must be cards of two letters each"),
        ("TdTd", "Td occurs twice in 'TdTd'"),
    ],
)
def test_bad_cards(text, message):
    with pytest.raises(ValueError, match=message):
        cards.parse_cards(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("random", 1326),
        ("AA", 6),
        ("AKs", 4),
        ("AKo", 12),
        ("ak", 16),
        ("66+", 9 * 6),
        ("A8s+", 6 * 4),
        ("AJo+", 3 * 12),
        ("A5s-A2s", 4 * 4),
        ("99-66", 4 * 6),
        ("66-99", 4 * 6),
        ("T9s-54s", 6 * 4),
        ("AhKh, KhAh", 1),
        ("22+, A2+, K2+, Q2+, J2+, T2+, 92+, 82+, 72+, 62+, 52+, 42+, 32", 1326),
    ],
)
def test_ranges(text, count):
    weights = ranges.parse_range(text)
    assert weights.sum() == count
    assert set(np.unique(weights)) <= {0, 1}


def test_weights_and_what_is_said_later():
    weights = ranges.parse_range("66+, AJo+:0.5, QQ:0.25, AsKd:0")
    assert weights.sum() == 8 * 6 + 6 * 0.25 + 35 * 0.5
    assert weights[ranges.hand_number(*cards.parse_cards("QcQd"))] == 0.25
    assert weights[ranges.hand_number(*cards.parse_cards("AsKd"))] == 0
    board = cards.parse_cards("QcKd2h")
    # three hands of KK and of QQ, nine of AQo and of AKo are left
    left = ranges.without_cards(weights, board)
    assert left.sum() == 7 * 6 + 3 + 3 * 0.25 + (12 + 9 + 9) * 0.5


def test_hands_are_numbered_and_classed():
    for number, (low, high) in enumerate(ranges.HANDS):
        assert ranges.hand_number(int(high), int(low)) == number
    numbers = ranges.class_numbers()
    assert len(ranges.CLASSES) == len(set(ranges.CLASSES)) == 169
    for number, name in enumerate(ranges.CLASSES):
        np.testing.assert_array_equal(numbers == number, ranges.parse_range(name) == 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("66+, A8x+", r"at 'A8x\+': 'A8x' is no class of hands.*\n  66\+, A8x\+\n       \^\^\^\^"),
        ("AAs", "a pair is neither suited nor offsuit"),
        ("AKs-QJo", "both ends must be suited, offsuit, or neither"),
        ("AKs-QTs", "both ends must share the higher rank"),
        ("99-A8", "a pair and two different ranks"),
        ("AA:2", "weight 2 must be from 0 to 1"),
        ("AA:x", "weight 'x' is not a number"),
        ("AA,,KK", "a class of hands is missing"),
        ("AhAh", "Ah occurs twice in 'AhAh'"),
        ("", "range '' has no hands"),
        ("AA:0", "range 'AA:0' has no hands"),
    ],
)
def test_bad_ranges(text, message):
    with pytest.raises(ValueError, match=message):
        ranges.parse_range(text)
