"""Action translation: the properties of mappings that their authors state."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.holdem.action_translation import MAPPINGS, translate, translate_bet
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_rules import betting_of_rules
from jaxgames.holdem.betting_from_sizes import build_betting_tree, with_bet
from jaxgames.holdem.named_games import hunl

KNOWN = np.array([0.5, 1.0, 3.0])


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_known_bets_stay_and_others_go_between_their_neighbours(mapping):
    np.testing.assert_allclose(translate(KNOWN, KNOWN, mapping=mapping), np.eye(3), atol=1e-6)
    bets = jnp.linspace(1.0, 3.0, 50)
    probabilities = np.asarray(translate(KNOWN, bets, mapping=mapping))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert (probabilities[:, 0] == 0).all()
    assert (np.diff(probabilities[:, 1]) <= 1e-6).all()  # the larger the bet, the less likely
    checks = translate(np.array([0.0, 1.0]), np.array([0.0, 1.0]), mapping=mapping)
    np.testing.assert_allclose(checks, np.eye(2), atol=1e-6)
    beyond = translate(KNOWN, np.array([0.1, 7.0]), mapping=mapping)
    np.testing.assert_allclose(beyond, [[1, 0, 0], [0, 0, 1]], atol=1e-6)


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ("pseudo_harmonic", (3 - 1.5) * (1 + 1) / ((3 - 1) * (1 + 1.5))),
        ("deterministic_pseudo_harmonic", 1.0),
        ("arithmetic", 0.75),
        ("deterministic_arithmetic", 1.0),
        ("geometric_1", 1.5 / (1.5 + 1.5 * 0.5)),
        ("geometric_2", 4.5 * 1.5 / (2 * (1.5**2 + 3))),
        ("deterministic_geometric", 1.0),
    ],
)
def test_one_and_a_half_pots_between_one_and_three(mapping, expected):
    assert float(translate(KNOWN, 1.5, mapping=mapping)[1]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("randomised", "deterministic"),
    [
        ("pseudo_harmonic", "deterministic_pseudo_harmonic"),
        ("arithmetic", "deterministic_arithmetic"),
    ],
)
def test_deterministic_mappings_take_the_likelier(randomised, deterministic):
    bets = jnp.linspace(0.501, 2.999, 101)  # none in the middle
    likelier = np.asarray(translate(KNOWN, bets, mapping=randomised)).round()
    np.testing.assert_array_equal(translate(KNOWN, bets, mapping=deterministic), likelier)


def test_pseudo_harmonic_leaves_a_caller_indifferent():
    """Who calls A with 1 / (1 + A) and B with 1 / (1 + B) calls x with 1 / (1 + x): a bluff of any
    size earns nothing."""
    bets = jnp.linspace(0.5, 3.0, 21)
    calls = translate(KNOWN, bets) @ (1 / (1 + KNOWN))
    np.testing.assert_allclose(calls, 1 / (1 + bets), rtol=1e-5)


def test_bets_are_taken_for_those_of_a_tree():
    """A pot of 200 and bets of half and all of it: 150 is three quarters of the pot."""
    tree = build_betting_tree(
        pot=200, stack=900, streets=1, sizes=BetSizes.parse("50%, 100%", "3x")
    )
    half = (1 - 0.75) * (1 + 0.5) / ((1 - 0.5) * (1 + 0.75))
    np.testing.assert_allclose(translate_bet(tree, 0, 150), [0, half, 1 - half], rtol=1e-6)
    np.testing.assert_allclose(translate_bet(tree, 0, 900), [0, 0, 1], atol=1e-7)
    small = (0.5 - 0.2) / (0.5 * (1 + 0.2))  # between a check and half of the pot
    np.testing.assert_allclose(translate_bet(tree, 0, 40), [small, 1 - small, 0], rtol=1e-6)
    known = with_bet(tree, 0, 150)
    np.testing.assert_allclose(translate_bet(known, 0, 150), [0, 0, 1, 0], atol=1e-7)
    # facing 100, a raise to 250 is 150 more, of a pot of 400; nothing is taken for a fold
    facing = int(tree.child[0, 1])
    share = (0.5 - 150 / 400) / (0.5 * (1 + 150 / 400))
    np.testing.assert_allclose(translate_bet(tree, facing, 250), [0, share, 1 - share], rtol=1e-6)
    opening = betting_of_rules(hunl(), sizes=BetSizes.parse("", "50%, 100%"))
    assert opening.actions[0] == ("fold", "call", "raise 200", "raise 300")
    # 250, three quarters of the pot after calling: this is 200
    np.testing.assert_allclose(translate_bet(opening, 0, 250), [0, 0, half, 1 - half], rtol=1e-6)


def test_bad_input():
    tree = build_betting_tree(pot=200, stack=900, streets=1, sizes=BetSizes.parse("50%", ""))
    with pytest.raises(ValueError, match="node=2 is no decision of the betting tree"):
        translate_bet(tree, int(tree.child[tree.child[0, 0], 0]), 100)
    with pytest.raises(ValueError, match="unknown mapping 'harmonic'"):
        translate(KNOWN, 1.0, mapping="harmonic")
    with pytest.raises(ValueError, match="must be bets of at least 0 that rise"):
        translate(np.array([1.0, 0.5]), 1.0)
