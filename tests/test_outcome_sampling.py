"""Outcome sampling: unbiased, and towards equilibrium."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling_cases import (
    assert_side_by_side_is_one_by_one,
    assert_unbiased,
    compiled,
    exact_regrets,
    random_table,
)

from solvers import evaluation
from solvers.regret import PredictiveRegretMatchingPlus, RegretMatching, RegretMatchingPlus
from solvers.sampling import outcome_sampling
from solvers.sampling.outcome_sampling import OutcomeSampling

SLOW = pytest.mark.slow


@pytest.mark.parametrize("baseline", [False, True])
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("kuhn_poker", 100_000),
        ("kuhn_poker(players=3)", 100_000),
        pytest.param("goofspiel(cards=3)", 20_000, marks=SLOW),
        pytest.param("leduc_poker(suit_isomorphism=true)", 1_000_000, marks=SLOW),
    ],
)
def test_sampled_regrets_are_the_exact_ones_on_average(name, count, baseline):
    """With baselines that are anything: they change the spread, not the mean."""
    _, public, tree = compiled(name)
    settings = OutcomeSampling(exploration=0.4, baseline_rate=0.5 if baseline else None)
    table = random_table(tree, seed=3)
    learner = outcome_sampling.init(tree, settings).replace(regret=table)
    if baseline:
        noise = jax.random.normal(jax.random.key(9), learner.baseline.shape)
        learner = learner.replace(baseline=noise)
    exact = exact_regrets(public, tree, table)

    def sampled(key):
        line = outcome_sampling.play_trajectory(tree, learner, key, settings=settings)
        chances = outcome_sampling.trajectory_probabilities(tree, learner, line, settings=settings)
        instant, _ = outcome_sampling.instant_regrets(
            tree, learner, line, chances, settings=settings
        )
        return jnp.zeros_like(tree.uniform).at[line.state].add(instant)

    assert_unbiased(sampled, exact, jax.random.key(0), count=count)
    assert np.abs(exact).max() > 0.05


def learned(name, settings, episodes, *, learners=4):
    _, public, tree = compiled(name)
    keys = jax.random.split(jax.random.key(1), learners)
    start = outcome_sampling.init(tree, settings)

    @jax.vmap
    def exploitability(key):
        learner = outcome_sampling.run(tree, start, key, settings=settings, num_episodes=episodes)
        return evaluation.exploitability(public, outcome_sampling.average_policy(tree, learner))

    return np.asarray(jax.jit(exploitability)(keys))


@pytest.mark.parametrize(
    "settings",
    [
        OutcomeSampling(),
        OutcomeSampling(alternating=True),
        pytest.param(OutcomeSampling(averaging="optimistic"), marks=SLOW),
        OutcomeSampling(averaging="optimistic", alternating=True),
        OutcomeSampling(alternating=True, minimizer=RegretMatchingPlus(), baseline_rate=0.5),
        OutcomeSampling(minimizer=RegretMatching(power=1.0), averaging_power=1.0),
    ],
)
def test_averages_come_near_equilibrium(settings):
    exploitabilities = learned("kuhn_poker", settings, 20_000)
    assert exploitabilities.mean() < 0.05  # uniform play: 0.458


def test_optimistic_averages_count_every_episode_once():
    """At a player's first decisions its own reach is 1, so that the weights add up to the number of
    the last episode in which the state was averaged."""
    _, _, tree = compiled("kuhn_poker")
    settings = OutcomeSampling(averaging="optimistic")
    start = outcome_sampling.init(tree, settings)
    after = outcome_sampling.run(
        tree, start, jax.random.key(4), settings=settings, num_episodes=200
    )
    first = np.unique(np.asarray(tree.state[: tree.num_starts]))
    totals = np.asarray(after.average).sum(axis=1)[first]
    np.testing.assert_allclose(totals, after.averaged[first], rtol=1e-6)
    assert (totals > 150).all()
    assert int(after.averaged.max()) == 200


def test_learners_side_by_side_are_learners_one_by_one():
    _, _, tree = compiled("kuhn_poker")
    settings = OutcomeSampling()
    start = outcome_sampling.init(tree, settings)
    run = functools.partial(outcome_sampling.run, tree, start, settings=settings, num_episodes=50)
    assert_side_by_side_is_one_by_one(run)


def test_sums_of_policies_keep_what_float32_drops():
    """After as many visits as float32 can count, the policies of more still join the average."""
    _, _, tree = compiled("matrix_mp")
    settings = OutcomeSampling()
    start = outcome_sampling.init(tree, settings)
    many = 2.0**25
    start = start.replace(average=jnp.full_like(start.average, many))
    after = outcome_sampling.run(
        tree, start, jax.random.key(0), settings=settings, num_episodes=1001
    )
    total = np.asarray(after.average, np.float64) + np.asarray(after.lost) - many
    np.testing.assert_allclose(total[0].sum(), 1001, atol=0.1)


def test_a_run_in_pieces_is_a_run():
    _, _, tree = compiled("kuhn_poker")
    settings, key = OutcomeSampling(alternating=True), jax.random.key(2)
    run = functools.partial(outcome_sampling.run, tree, key=key, settings=settings)
    start = outcome_sampling.init(tree, settings)
    whole = run(start, num_episodes=30)
    parts = run(run(start, num_episodes=11), num_episodes=19)
    chex.assert_trees_all_equal(whole, parts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exploration": 0.0}, r"exploration=0.0 must be above 0 and at most 1"),
        ({"averaging_power": -1.0}, r"averaging_power=-1.0 must be at least 0"),
        ({"minimizer": PredictiveRegretMatchingPlus()}, r"minimizer=Pred.* must be RegretMatching"),
        ({"baseline_rate": 2.0}, r"baseline_rate=2.0 must be above 0 and at most 1"),
        ({"averaging": "lazy"}, r"unknown averaging 'lazy' \(known: optimistic, weighted\)"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        OutcomeSampling(**options)
