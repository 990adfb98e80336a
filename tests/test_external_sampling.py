"""External sampling: unbiased, and towards equilibrium."""

import functools

import jax
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
from solvers.regret import RegretMatchingPlus
from solvers.sampling import external_sampling
from solvers.sampling.external_sampling import ExternalSampling


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("kuhn_poker", 50_000),
        pytest.param("kuhn_poker(players=3)", 50_000, marks=pytest.mark.slow),
        ("goofspiel(cards=3)", 20_000),  # actions that the other does not see
        pytest.param("leduc_poker(suit_isomorphism=true)", 1_000_000, marks=pytest.mark.slow),
    ],
)
def test_sampled_regrets_are_the_exact_ones_on_average(name, count):
    _, public, tree = compiled(name)
    table = random_table(tree, seed=3)
    learner = external_sampling.init(tree).replace(regret=table)
    exact, ends = exact_regrets(public, tree, table), np.cumsum((0, *tree.num_decisions))
    for player in range(tree.num_players):
        mine = np.zeros_like(exact)
        mine[ends[player] : ends[player + 1]] = exact[ends[player] : ends[player + 1]]

        def sampled(key, player=player):
            after = external_sampling._run_traversals(
                tree, learner, key, player, player + 1, ExternalSampling()
            )
            return after.regret - table

        assert_unbiased(sampled, mine, jax.random.key(player), count=count)


@pytest.mark.parametrize(
    "settings",
    [ExternalSampling(), ExternalSampling(minimizer=RegretMatchingPlus(), averaging_power=1.0)],
)
def test_averages_come_near_equilibrium(settings):
    _, public, tree = compiled("kuhn_poker")

    @jax.vmap
    def exploitability(key):
        learner = external_sampling.run(
            tree, external_sampling.init(tree), key, settings=settings, num_iterations=5000
        )
        return evaluation.exploitability(public, external_sampling.average_policy(tree, learner))

    exploitabilities = jax.jit(exploitability)(jax.random.split(jax.random.key(1), 4))
    assert exploitabilities.mean() < 0.02  # uniform play: 0.458


def test_learners_side_by_side_are_learners_one_by_one():
    _, _, tree = compiled("kuhn_poker")
    start, settings = external_sampling.init(tree), ExternalSampling()
    run = functools.partial(
        external_sampling.run, tree, start, settings=settings, num_iterations=20
    )
    assert_side_by_side_is_one_by_one(run)


def test_bad_settings():
    with pytest.raises(ValueError, match=r"averaging_power=-1.0 must be at least 0"):
        ExternalSampling(averaging_power=-1.0)
