"""Elo ratings against closed forms."""

import chex
import numpy as np
import pytest
import scipy.stats

from experiments.engines import match
from experiments.harness import elo
from experiments.harness.ladder_ratings import Ladder, Match


def test_two_players_by_the_formula():
    """75 of 100 points: 400 log10(3)."""
    points = np.array([[0.0, 25.0], [75.0, 0.0]])
    strengths, errors = elo.ratings(points, drawn=0.0)
    np.testing.assert_allclose(strengths, [0, 400 * np.log10(3)], atol=1e-6)
    # the logistic model's information is n p (1 - p)
    np.testing.assert_allclose(errors, [0, 400 / np.log(10) / np.sqrt(100 * 0.75 * 0.25)])
    assert elo.difference(0.75) == pytest.approx(400 * np.log10(3))
    assert elo.expected_share(elo.difference(0.75)) == pytest.approx(0.75)


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


def matches_of(pairs):
    """Matches from the shares of their pairs of games, by the two players."""
    return [Match(first=i, second=j, shares=[*shares]) for (i, j), shares in pairs.items()]


@pytest.mark.parametrize("count", [1, 10, 50])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_pairs_that_all_ended_alike_leave_room_for_others(count, share):
    """For others to be none of n is refused at 5 % from the part on that is the exact bound."""
    mean, low, high = match.share_interval(np.full(count, share))
    part = scipy.stats.binomtest(0, count, alternative="less").proportion_ci(0.95).high
    assert mean == share
    assert (low, high) == pytest.approx((share * (1 - part), share * (1 - part) + part))
    assert 0 <= low <= share <= high <= 1


def test_an_interval_of_a_share_is_never_narrower_than_what_unseen_pairs_leave():
    """One pair that was won among 49 draws tells nothing of pairs that are lost."""
    shares = np.array([0.5] * 49 + [1.0])
    part = scipy.stats.binomtest(0, 50, alternative="less").proportion_ci(0.95).high
    assert match.share_interval(shares)[1] == pytest.approx(0.51 * (1 - part))
    # where shares differ much, the bootstrap's interval is the wider one
    shares = np.array([0.0, 1.0] * 50)
    mean, *ends = match.share_interval(shares)
    assert ends == pytest.approx(scipy.stats.norm.interval(0.95, mean, 0.05), abs=0.005)


def test_a_match_whose_pairs_all_ended_alike_is_not_known():
    """The interval is that of the share: of two players, and in a chain of three."""
    shares = [0.5] * 50
    _, *ends = match.share_interval(np.array(shares))
    low, high = (elo.difference(end) for end in ends)
    ladder = Ladder(matches_of({(1, 0): shares}), 2, resamples=4000)
    rating = ladder.ratings(0)[1]
    assert rating.value == pytest.approx(0)
    assert (rating.low, rating.high) == pytest.approx((low, high), rel=0.1)
    chain = Ladder(matches_of({(1, 0): shares, (2, 1): [0.25] * 50}), 3, resamples=1000)
    first, second = chain.ratings(0)[1:]
    assert (first.low, first.high) == pytest.approx((low, high), rel=0.2)
    assert second.value == pytest.approx(elo.difference(0.25))
    assert second.high - second.low > first.high - first.low
    # a sweep within a circle of players: all ratings are finite, and none of them is known
    circle = {(0, 1): [1.0] * 20, (1, 2): [1.0] * 20, (2, 0): [1.0] * 20}
    for rating in Ladder(matches_of(circle), 3, resamples=200).ratings(0)[1:]:
        assert rating.value == pytest.approx(0)
        assert rating.low < -10
        assert rating.high > 10


def test_two_players_have_the_bootstrap_interval_of_their_match():
    """The match's own code is another one, for the share of the points."""
    shares = np.random.default_rng(0).choice([0.0, 0.25, 0.5, 0.75, 1.0], 100)
    ladder = Ladder(matches_of({(1, 0): shares}), 2, resamples=1500)
    rating = ladder.ratings(0)[1]
    expected = [elo.difference(share) for share in match.share_interval(shares)]
    assert rating.value == pytest.approx(expected[0], abs=1e-6)
    assert (rating.low, rating.high) == pytest.approx(expected[1:], abs=4)
    assert str(ladder.ratings(0)[0]) == "+0 (+0 to +0)"
    turned = ladder.difference(0, 1)
    assert (turned.value, turned.low) == pytest.approx((-rating.value, -rating.high))


def test_a_clean_sweep_has_the_bound_of_its_match():
    """Also above and below others, and for two players together."""
    even, lost = [0.5] * 10, [0.0] * 10
    bound = elo.difference(match.share_interval(np.ones(10))[1])
    ladder = Ladder(matches_of({(0, 1): lost}), 2, resamples=20)
    assert ladder.ratings(0)[1].value == pytest.approx(bound)
    assert [str(rating) for rating in ladder.ratings(1)] == ["<= -183", "+0 (+0 to +0)"]
    chain = Ladder(matches_of({(0, 1): lost, (1, 2): lost}), 3, resamples=20)
    assert [str(rating) for rating in chain.ratings(0)] == ["+0 (+0 to +0)", ">= 183", ">= 365"]
    assert str(chain.ratings(1)[0]) == "<= -183"
    # two equals, each of whom won ten pairs: a share p with p^20 = 5 %
    both = Ladder(matches_of({(0, 1): lost, (0, 2): lost, (1, 2): even}), 3, resamples=20)
    again = elo.difference(match.share_interval(np.ones(20))[1])
    assert [rating.value for rating in both.ratings(0)[1:]] == pytest.approx([again] * 2)
    between = both.difference(1, 2)
    assert (between.value, between.bound) == (pytest.approx(0), "")
    number = both.ratings(0)[1].number("B")
    assert (number.name, number.low) == ("B, at least", None)
    # 2 and 1 have both won everything from 0: nothing is known of which is stronger
    apart = Ladder(matches_of({(0, 1): lost, (0, 2): lost}), 3, resamples=20)
    assert (str(apart.difference(1, 2)), apart.difference(1, 2).number("B")) == ("?", None)


def test_ratings_of_a_ladder_are_recovered_and_grow():
    """Games of players whose true ratings are known."""
    true, generator = np.array([0.0, 100.0, 250.0, 300.0]), np.random.default_rng(1)
    pairs = {}
    for i in range(4):
        for j in range(i):
            share = 1 / (1 + 10 ** ((true[j] - true[i]) / 400))
            pairs[i, j] = generator.binomial(2, share, 400) / 2
    ladder = Ladder(matches_of(pairs), 4, resamples=200)
    found = ladder.ratings(0)
    assert all(r.low <= t <= r.high for r, t in zip(found, true, strict=True))
    assert all(r.high - r.low < 60 for r in found)
    steps, surely = ladder.growth([0, 1, 2, 3])
    assert (steps, surely > 0.9) == (1.0, True)
    assert ladder.growth([3, 1, 2])[0] == 0.5
    assert ladder.growth([3, 1, 2])[1] == 0


def test_800_even_games_are_known_to_24():
    """And 200 to 48, two standard errors of the share of games without draws."""
    generator = np.random.default_rng(2)
    for games, error in ((800, 24), (200, 48)):
        shares = generator.binomial(2, 0.5, games // 2) / 2
        rating = Ladder(matches_of({(1, 0): shares}), 2, resamples=400).ratings(0)[1]
        assert (rating.high - rating.low) / 2 == pytest.approx(error, rel=0.12)


def test_samples_of_clean_sweeps_are_not_rounded_to_points_of_the_other_side():
    """Of 24 pairs that all ended alike and more of that kind: else ratings of maximum likelihood
    would be taken for finite, thousands of points apart or none at all."""
    won, even = [1.0] * 24, [0.25, 0.75] * 12
    pairs = {(0, 1): even, (0, 2): won, (1, 3): won, (2, 3): even}
    ladder = Ladder(matches_of(pairs), 4)
    assert np.abs(ladder.samples).max() < 4000
