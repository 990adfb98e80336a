"""Hands that are the same but for suits: the published counts, and numbers that go both ways."""

import itertools

import jax
import numpy as np
import pytest

from jaxgames.holdem.hand_isomorphism import HandIsomorphism


@pytest.mark.parametrize(
    ("rounds", "size"),
    [
        ((2,), 169),
        ((3,), 1_755),
        ((2, 3), 1_286_792),
        ((2, 4), 13_960_050),
        ((2, 3, 1), 55_190_538),
        ((2, 5), 123_156_254),
        ((2, 3, 1, 1), 2_428_287_420),
    ],
)
def test_published_counts(rounds, size):
    assert HandIsomorphism(rounds).size == size


@pytest.mark.parametrize(
    "rounds", [(2,), (3,), pytest.param((2, 3), marks=pytest.mark.slow), (3, 1)]
)
def test_all_numbers_go_there_and_back(rounds):
    hands = HandIsomorphism(rounds)
    numbers = np.arange(hands.size)
    cards = hands.cards(numbers)
    assert (np.diff(np.sort(cards, axis=1), axis=1) > 0).all()
    np.testing.assert_array_equal(jax.jit(hands.index)(cards), numbers)


@pytest.mark.parametrize("rounds", [(2, 3), (2, 3, 1), (2, 5), (2, 3, 1, 1), (1, 1, 1, 1)])
def test_some_numbers_go_there_and_back(rounds):
    hands = HandIsomorphism(rounds)
    numbers = np.random.default_rng(0).integers(0, hands.size, 20_000)
    numbers[:2] = 0, hands.size - 1
    np.testing.assert_array_equal(jax.jit(hands.index)(hands.cards(numbers)), numbers)


@pytest.mark.parametrize("rounds", [(2, 3), (2, 3, 1, 1)])
def test_suits_and_order_within_a_round_do_not_matter(rounds):
    hands = HandIsomorphism(rounds)
    rng = np.random.default_rng(1)
    cards = np.argsort(rng.random((500, 52)), axis=1)[:, : hands.num_cards]
    index = jax.jit(hands.index)
    expected = index(cards)
    for suits in itertools.permutations(range(4)):
        np.testing.assert_array_equal(index(cards // 4 * 4 + np.array(suits)[cards % 4]), expected)
    parts = np.split(cards, np.cumsum(rounds)[:-1], axis=1)
    mixed = np.concatenate([rng.permuted(part, axis=1) for part in parts], axis=1)
    np.testing.assert_array_equal(index(mixed), expected)


def test_hands_that_differ_have_different_numbers():
    """All flops, by brute force over suits."""
    flops = np.array(list(itertools.combinations(range(52), 3)))
    renamed = [
        np.sort(flops // 4 * 4 + np.array(suits)[flops % 4], axis=1)
        for suits in itertools.permutations(range(4))
    ]
    least = np.min([x @ [52 * 52, 52, 1] for x in renamed], axis=0)
    numbers = np.asarray(jax.jit(HandIsomorphism((3,)).index)(flops))
    pairs = np.unique(np.stack([least, numbers]), axis=1)
    assert pairs.shape[1] == len(np.unique(least)) == len(np.unique(numbers)) == 1755


def test_bad_input():
    with pytest.raises(
        ValueError, match=r"rounds=\(2, 6\) must have at least one card each and at most 7"
    ):
        HandIsomorphism((2, 6))
    with pytest.raises(ValueError, match="are more than 2"):
        HandIsomorphism((1, 1, 1, 1, 1, 1, 1))
    with pytest.raises(ValueError, match=r"number 169 of a hand must be from 0 to 168"):
        HandIsomorphism((2,)).cards(np.array([169]))
    with pytest.raises(ValueError, match="must have 2 on the last axis"):
        HandIsomorphism((2,)).index(np.zeros((4, 3), np.int32))
