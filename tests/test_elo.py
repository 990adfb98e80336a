"""Elo ratings against closed forms."""

import chex
import numpy as np
import pytest

from experiments.harness import elo


def test_two_players_by_the_formula():
    """75 of 100 points: 400 log10(3)."""
    points = np.array([[0.0, 25.0], [75.0, 0.0]])
    strengths, errors = elo.ratings(points, drawn=0.0)
    np.testing.assert_allclose(strengths, [0, 400 * np.log10(3)], atol=1e-6)
    # the logistic model's information is n p (1 - p)
    np.testing.assert_allclose(errors, [0, 400 / np.log(10) / np.sqrt(100 * 0.75 * 0.25)])
    assert elo.difference(0.75) == pytest.approx(400 * np.log10(3))


def test_strengths_are_recovered_from_the_expected_points():
    true = np.array([0.0, 120.0, -300.0, 900.0, 650.0])
    games = np.random.default_rng(0).integers(0, 50, (5, 5)).astype(float)
    games[0, 1:] = games[1:, 0] = 10
    games = np.triu(games, 1) + np.triu(games, 1).T
    points = games / (1 + 10 ** ((true[None, :] - true[:, None]) / 400))
    np.testing.assert_allclose(elo.ratings(points, drawn=0.0)[0], true, atol=1e-6)


def test_players_who_always_win_have_finite_ratings():
    points = np.zeros((3, 3))
    points[1, 0] = points[2, 1] = 100
    strengths, errors = elo.ratings(points)
    assert strengths[0] == 0 < strengths[1] < strengths[2]
    chex.assert_tree_all_finite((strengths, errors))


def test_players_must_be_connected_by_games():
    points = np.zeros((4, 4))
    points[0, 1] = points[2, 3] = 5
    with pytest.raises(ValueError, match=r"no games connect players \[2, 3\] to player 0"):
        elo.ratings(points)
