"""AIVAT: exactly unbiased for any values, and the published standard deviations in Leduc."""

import functools

import numpy as np
import pytest

from jaxgames import enumerate_game, make
from jaxgames.core import TERMINAL
from solvers import cfr
from solvers.evaluation import aivat
from solvers.evaluation.history_values import history_values
from solvers.sequence_form import build_sequence_form

GAMES = (
    "kuhn_poker",
    "kuhn_poker(players=3)",
    "leduc_poker(ranks=2,max_raises=1)",
    "goofspiel(cards=3,points=descending)",
)


@functools.cache
def explicit(name):
    return enumerate_game(make(name))


def random_policies(tree, seed):
    """Random policies of all players; some actions are never taken."""
    generator = np.random.default_rng(seed)
    policies = []
    for player in range(tree.num_players):
        weight = tree.legal_actions(player) * generator.exponential(
            size=(tree.num_decisions[player], tree.num_actions)
        )
        weight *= (generator.random(weight.shape) < 0.8) | (
            weight == weight.max(axis=1, keepdims=True)
        )
        policies.append(weight / weight.sum(axis=1, keepdims=True))
    return policies


@pytest.mark.parametrize("name", GAMES)
def test_unbiased_whatever_the_values_and_whoever_is_known(name):
    tree = explicit(name)
    policies = random_policies(tree, 0)
    values = np.random.default_rng(1).normal(size=tree.returns.shape)
    expected = history_values(tree, policies)[0]
    for known in np.ndindex(*(2,) * tree.num_players):
        given = [policy if k else None for policy, k in zip(policies, known, strict=True)]
        estimate = aivat.estimates(tree, values, given)
        assert np.isnan(estimate[tree.actor != TERMINAL]).all()
        for player in range(tree.num_players):
            mean, _ = aivat.moments(tree, policies, estimate[:, player])
            assert mean == pytest.approx(expected[player], abs=1e-10)
        # others may play anything
        others = [
            mine if k else theirs
            for mine, theirs, k in zip(policies, random_policies(tree, 2), known, strict=True)
        ]
        mean, _ = aivat.moments(tree, others, estimate[:, 0])
        assert mean == pytest.approx(history_values(tree, others)[0, 0], abs=1e-10)


def test_nothing_known_and_no_values_is_the_payoff():
    tree = explicit("leduc_poker(ranks=2,max_raises=1)")
    estimate = aivat.estimates(tree, np.zeros_like(tree.returns), (None, None))
    ends = tree.actor == TERMINAL
    np.testing.assert_allclose(estimate[ends], tree.returns[ends], atol=1e-12)


def test_all_known_and_true_values_leave_no_luck():
    tree = explicit("leduc_poker(ranks=2,max_raises=1)")
    policies = random_policies(tree, 0)
    estimate = aivat.estimates(tree, history_values(tree, policies), policies)
    mean, deviation = aivat.moments(tree, policies, estimate[:, 0])
    assert deviation < 1e-9
    raw_mean, raw = aivat.moments(tree, policies, tree.returns[:, 0])
    assert raw > 1
    assert mean == pytest.approx(raw_mean, abs=1e-12)


def test_deviations_in_leduc_are_as_published():
    """Self-play of an equilibrium: 3.513 chips (of 100,000 hands), 0.006 with one player known."""
    tree = explicit("leduc_poker")
    public = build_sequence_form(tree)
    state = cfr.run(public, cfr.init(public), solver=cfr.cfr_plus(), num_iterations=500)
    policies = [np.asarray(p, np.float64) for p in cfr.average_policy(public, state)]
    policies = [p / p.sum(axis=1, keepdims=True) for p in policies]
    _, raw = aivat.moments(tree, policies, tree.returns[:, 0])
    assert raw == pytest.approx(3.513, abs=0.05)
    values = history_values(tree, policies)
    estimate = aivat.estimates(tree, values, (policies[0], None))[:, 0]
    assert aivat.moments(tree, policies, estimate)[1] < 0.05
    chance = aivat.estimates(tree, values, (None, None))[:, 0]
    assert 1 < aivat.moments(tree, policies, chance)[1] < 2.4


def test_bad_input():
    tree = explicit("kuhn_poker")
    policies = random_policies(tree, 0)
    with pytest.raises(ValueError, match=r"values \(3, 2\) must be"):
        aivat.estimates(tree, np.zeros((3, 2)), policies)
    for given in (policies[:1], (*policies, None)):
        with pytest.raises(ValueError, match=f"{len(given)} policies given; kuhn_poker.* has 2"):
            aivat.estimates(tree, tree.returns, given)
    with pytest.raises(ValueError, match="policy of player 1"):
        aivat.estimates(tree, tree.returns, (None, policies[1][:2]))
    never = np.zeros_like(policies[0])
    never[:, 0] = 1
    estimate = aivat.estimates(tree, tree.returns, (never, None))
    with pytest.raises(ValueError, match="which has no estimate: a known player gives"):
        aivat.moments(tree, policies, estimate[:, 0])
