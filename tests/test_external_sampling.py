"""External sampling: unbiased, and towards equilibrium."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling_cases import compiled, exact_regrets, random_table

from solvers import evaluation
from solvers.regret import RegretMatchingPlus
from solvers.sampling import external_sampling
from solvers.sampling.external_sampling import ExternalSampling


@functools.partial(jax.jit, static_argnames=("player", "count"))
def sampled_regrets(tree, learner, key, *, player, count):
    """Sums of the sampled regrets of many traversals and of their squares, `[N, A]` each."""

    def one(key):
        traversal = external_sampling.traverse(tree, learner, key, player=player)
        instant = external_sampling.instant_regrets(traversal, player=player)
        found = jnp.zeros_like(tree.uniform).at[traversal.state].add(instant)
        return found, found**2

    def add(total, key):
        found = jax.vmap(one)(jax.random.split(key, 1000))
        return jax.tree.map(lambda x, y: x + y.sum(axis=0), total, found), None

    zero = jnp.zeros_like(tree.uniform)
    return jax.lax.scan(add, (zero, zero), jax.random.split(key, count // 1000))[0]


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
        total, squares = sampled_regrets(
            tree, learner, jax.random.key(player), player=player, count=count
        )
        mean = np.asarray(total, np.float64)[:-1] / count
        spread = np.asarray(squares, np.float64)[:-1] / count - mean**2
        spread = np.sqrt(np.maximum(spread, 0) / count)
        mine = slice(ends[player], ends[player + 1])
        off = np.abs(mean - exact)[mine] / np.maximum(spread[mine], 2e-4)  # float32 sums
        assert off.max() < 4.5  # of up to 500 numbers
        assert not mean[: ends[player]].any()
        assert not mean[ends[player + 1] :].any()


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

    found = jax.jit(exploitability)(jax.random.split(jax.random.key(1), 4))
    assert found.mean() < 0.02  # uniform play: 0.458


def test_learners_side_by_side_are_learners_one_by_one():
    _, _, tree = compiled("kuhn_poker")
    start, settings = external_sampling.init(tree), ExternalSampling()
    run = functools.partial(external_sampling.run, tree, settings=settings, num_iterations=20)
    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.vmap(lambda key: run(start, key))(keys)
    for number, key in enumerate(keys):
        alone = run(start, key)
        jax.tree.map(
            lambda x, y, number=number: np.testing.assert_allclose(x[number], y, rtol=1e-5),
            together,
            alone,
        )


def test_bad_settings():
    with pytest.raises(ValueError, match=r"averaging_power=-1.0 must be at least 0"):
        ExternalSampling(averaging_power=-1.0)
