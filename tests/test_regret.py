"""Regret minimisers by hand, by their definitions, and by their regret bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solver_reference import RULES
from solver_reference import match as plain_match

from solvers.cfr import cfr, cfr_plus, dcfr, linear_cfr, pcfr_plus
from solvers.regret import (
    DiscountedRegretMatching,
    PredictiveRegretMatchingPlus,
    RegretMatching,
    RegretMatchingPlus,
    RegretState,
    match,
)

SOLVERS = {s.__name__: s() for s in (cfr, cfr_plus, linear_cfr, dcfr, pcfr_plus)}


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def table(rows):
    """[A, n] from n rows by action."""
    return jnp.asarray(rows, jnp.float64).T


def start(uniform):
    return RegretState(regret=jnp.zeros_like(uniform), policy=uniform)


def observe(minimizer, instants):
    """The states after each of the instantaneous regrets `[T, A]` of one decision."""
    num_actions = len(instants[0])
    uniform = table([[1 / num_actions] * num_actions])
    states = [start(uniform)]
    for t, instant in enumerate(instants, start=1):
        states.append(minimizer.update(states[-1], table([instant]), uniform, jnp.float64(t)))
    return states[1:]


def regrets(states):
    return [state.regret[:, 0].tolist() for state in states]


def policies(states):
    return [state.policy[:, 0].tolist() for state in states]


def test_matching_normalises_positive_parts():
    policy = match(table([[1, 3, 0], [2, -5, 2], [7, -1, -1]]), table([[1 / 3] * 3] * 3))
    np.testing.assert_allclose(policy.T, [[0.25, 0.75, 0], [0.5, 0, 0.5], [1, 0, 0]])


@pytest.mark.parametrize("regret", [[0, 0, 0], [-1, -2, 0], [-1, -1, 99]])
def test_matching_is_uniform_over_legal_actions_where_none_is_regretted(regret):
    """The third action is illegal, whatever its regret."""
    uniform = table([[0.5, 0.5, 0]])
    np.testing.assert_array_equal(match(table([regret]), uniform), uniform)


@pytest.mark.parametrize("size", [1e-40, 1e-30, 1e30])
def test_matching_is_finite_for_tiny_and_huge_regrets(size):
    policy = match(jnp.float32([[size], [0]]), jnp.float32([[0.5], [0.5]]))
    assert policy.dtype == jnp.float32
    np.testing.assert_allclose(policy.sum(axis=0), 1, rtol=1e-6)


def test_regret_matching_by_hand():
    states = observe(RegretMatching(), [[1, -1], [-3, 0], [4, 2]])
    assert regrets(states) == [[1, -1], [-2, -1], [2, 1]]
    np.testing.assert_allclose(policies(states), [[1, 0], [0.5, 0.5], [2 / 3, 1 / 3]])


def test_linear_regrets_by_hand():
    states = observe(RegretMatching(power=1.0), [[1, -1], [-3, 0], [4, 2]])
    # GPUs round powers
    np.testing.assert_allclose(regrets(states), [[1, -1], [-5, -1], [7, 5]], rtol=1e-14)
    np.testing.assert_allclose(policies(states), [[1, 0], [0.5, 0.5], [7 / 12, 5 / 12]])


def test_regret_matching_plus_by_hand():
    states = observe(RegretMatchingPlus(), [[1, -1], [-3, 0], [4, 2]])
    assert regrets(states) == [[1, 0], [0, 0], [4, 2]]
    np.testing.assert_allclose(policies(states), [[1, 0], [0.5, 0.5], [2 / 3, 1 / 3]])


def test_early_regrets_of_regret_matching_plus_may_be_discounted():
    """After iteration t by sqrt(t) / (sqrt(t) + 1): 1/2, then 0.586; not in the third."""
    states = observe(RegretMatchingPlus(discounted=2), [[4, -1], [2, 1], [1, 0]])
    share = 2**0.5 / (2**0.5 + 1)
    expected = [[2, 0], [4 * share, share], [4 * share + 1, share]]
    np.testing.assert_allclose(regrets(states), expected, atol=1e-12)
    with pytest.raises(ValueError, match="cfr_plus: discounted=-1 must be at least 0"):
        cfr_plus(discounted=-1)


def test_discounts_by_hand():
    """With alpha 1 positive regrets are multiplied by t / (t + 1) after iteration t, with beta 0
    negative ones by 1/2."""
    states = observe(DiscountedRegretMatching(1.0, 0.0), [[1, -1], [0, 1], [1, 1]])
    first = [1 * 1 / 2, -1 / 2]
    second = [first[0] * 2 / 3, (first[1] + 1) * 2 / 3]
    third = [(second[0] + 1) * 3 / 4, (second[1] + 1) * 3 / 4]
    np.testing.assert_allclose(regrets(states), [first, second, third])


def test_default_discounts_are_the_authors():
    (state,) = observe(SOLVERS["dcfr"].minimizer, [[1, -1]])
    np.testing.assert_allclose(regrets([state]), [[0.5, -0.5]])
    *_, state = observe(SOLVERS["dcfr"].minimizer, [[0, 0]] * 3 + [[1, -1]])
    np.testing.assert_allclose(regrets([state]), [[8 / 9, -0.5]])  # 4**1.5 = 8


def test_infinite_discounts():
    """alpha = infinity keeps positive regrets, beta = -infinity forgets negative ones."""
    minimizer = DiscountedRegretMatching(np.inf, -np.inf)
    states = observe(minimizer, [[0, 0], [1, -1], [1, 3]])
    np.testing.assert_allclose(regrets(states)[1:], [[1, 0], [2, 3]])


def test_equal_discounts_are_linear_regrets():
    """DCFR(1, 1) is linear CFR up to scale, so plays the same (Brown and Sandholm 2019)."""
    instants = np.random.default_rng(0).normal(size=(20, 4))
    played = policies(observe(DiscountedRegretMatching(1.0, 1.0), instants))
    np.testing.assert_allclose(played, policies(observe(RegretMatching(power=1.0), instants)))


def test_predictions_by_hand():
    """The policy is of the regrets plus the last instantaneous ones, which are not added twice."""
    states = observe(PredictiveRegretMatchingPlus(), [[1, -1], [-3, 2], [0, 1]])
    assert regrets(states) == [[1, 0], [0, 2], [0, 3]]
    np.testing.assert_allclose(policies(states), [[1, 0], [0, 1], [0, 1]])
    states = observe(PredictiveRegretMatchingPlus(), [[3, 3], [-1, 1]])
    np.testing.assert_allclose(policies(states)[1], [1 / 6, 5 / 6])  # from [2 - 1, 4 + 1]


@pytest.mark.parametrize("name", RULES)
def test_many_decisions_with_illegal_actions_agree_with_plain_code(name):
    generator = np.random.default_rng(0)
    legal = generator.random((30, 4)) < 0.6
    legal[:, 0] |= ~legal.any(axis=1)
    uniform = legal / legal.sum(axis=1, keepdims=True)
    state, regret = start(table(uniform)), np.zeros((30, 4))
    for t in range(1, 11):
        instant = generator.normal(size=(30, 4)) * legal
        # what solvers see at padding is not zero
        seen = table(instant + 7 * ~legal)
        minimizer = SOLVERS[name].minimizer
        state = minimizer.update(state, seen, table(uniform), jnp.float64(t))
        regret, plays = RULES[name][0](regret, instant, t)
        np.testing.assert_allclose(state.policy.T, plain_match(plays, legal), atol=1e-12)
        np.testing.assert_array_equal(np.asarray(state.policy.T)[~legal], 0)


@pytest.mark.parametrize("name", RULES)
def test_regret_is_scale_free(name):
    instants = np.random.default_rng(0).normal(size=(10, 3))
    played = policies(observe(SOLVERS[name].minimizer, 1000 * instants))
    np.testing.assert_allclose(played, policies(observe(SOLVERS[name].minimizer, instants)))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("adversary", ["random", "greedy"])
def test_average_regret_vanishes(name, adversary):
    """Against losses in [-1, 1], chosen at random or to hurt the policy about to be played, the
    weighted average regret is at most 2 sqrt(A / T) (twice regret matching's bound; for the
    weights t**power, T is the effective number of iterations)."""
    minimizer, power = SOLVERS[name].minimizer, SOLVERS[name].averaging_power
    num_actions, horizon = 4, 300
    uniform = table([[1 / num_actions] * num_actions])
    utilities = jax.random.uniform(jax.random.key(0), (horizon, num_actions), minval=-1, maxval=1)

    def step(carry, now):
        state, total, weights = carry
        t, utility = now
        if adversary == "greedy":
            utility = 1 - 2 * (state.policy[:, 0] >= state.policy.max()).astype(float)
        instant = utility - jnp.vdot(utility, state.policy[:, 0])
        state = minimizer.update(state, instant[:, None], uniform, t)
        return (state, total + t**power * instant, weights + t**power), None

    times = jnp.arange(1, horizon + 1, dtype=float)
    carry = (start(uniform), jnp.zeros(num_actions), jnp.float64(0))
    (_, total, weights), _ = jax.lax.scan(step, carry, (times, utilities))
    assert float(total.max() / weights) <= 2 * np.sqrt(num_actions * (power + 1) / horizon)
