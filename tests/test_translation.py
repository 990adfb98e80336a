"""What unknown bets are taken for: the laws that the mappings' authors state."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.holdem.translation import MAPPINGS, translate

KNOWN = np.array([0.5, 1.0, 3.0])


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_known_bets_stay_and_others_go_between_their_neighbours(mapping):
    np.testing.assert_allclose(translate(KNOWN, KNOWN, mapping=mapping), np.eye(3), atol=1e-6)
    bets = jnp.linspace(1.0, 3.0, 50)
    found = np.asarray(translate(KNOWN, bets, mapping=mapping))
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    assert (found[:, 0] == 0).all()
    assert (np.diff(found[:, 1]) <= 1e-6).all()  # the larger the bet, the less likely
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


def test_bad_input():
    with pytest.raises(ValueError, match="unknown mapping 'harmonic'"):
        translate(KNOWN, 1.0, mapping="harmonic")
    with pytest.raises(ValueError, match="must be bets of at least 0 that rise"):
        translate(np.array([1.0, 0.5]), 1.0)
