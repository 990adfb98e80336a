"""Public-chance sampling: CFR where chance shows nothing, else unbiased; towards equilibrium."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling_cases import assert_side_by_side_is_one_by_one, assert_unbiased, compiled

from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.core import CHANCE
from solvers import cfr, evaluation
from solvers.evaluation.belief_exploitability import reach_and_values
from solvers.regret import RegretMatchingPlus
from solvers.sampling import public_chance_sampling
from solvers.sampling.public_chance_sampling import PublicChanceSampling, build_chance_tree


@functools.cache
def chance_tree(name):
    return build_chance_tree(belief_table(compiled(name)[0]))


def learned(tree, key, *, settings, num_iterations):
    start = public_chance_sampling.init(tree)
    return public_chance_sampling.run(
        tree, start, key, settings=settings, num_iterations=num_iterations
    )


@pytest.mark.parametrize(
    ("name", "settings", "solver"),
    [
        pytest.param(
            "kuhn_poker",
            PublicChanceSampling(),
            cfr.cfr(alternating=False),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "liars_dice(dice=1,sides=3)",
            PublicChanceSampling(minimizer=RegretMatchingPlus(), averaging_power=1.0),
            cfr.cfr_plus(alternating=False),
            marks=pytest.mark.slow,
        ),
        # two moves of one player, one of the other
        ("scotland_yard(map=glasses,rounds=1)", PublicChanceSampling(), cfr.cfr(alternating=False)),
        # actions that the other does not see, and rows that change their numbers
        pytest.param(
            "goofspiel(cards=3,points=descending)",
            PublicChanceSampling(),
            cfr.cfr(alternating=False),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_where_chance_shows_nothing_it_is_cfr(name, settings, solver):
    _, public, _ = compiled(name)
    tree = chance_tree(name)
    mine = learned(tree, jax.random.key(0), settings=settings, num_iterations=25)
    state = cfr.run(public, cfr.init(public), solver=solver, num_iterations=25)
    expected = cfr.average_policy(public, state)
    for rows, others in zip(
        public_chance_sampling.average_policy(tree, mine), expected, strict=True
    ):
        np.testing.assert_allclose(rows, others, atol=1e-5)


@pytest.mark.slow
def test_sampled_regrets_are_the_exact_ones_where_walks_come():
    tree = chance_tree("goofspiel(cards=3)")
    weights = jax.random.uniform(jax.random.key(3), tree.uniform.shape, minval=0.1)
    policy = jnp.where(tree.uniform > 0, weights, 0)
    learner = public_chance_sampling.init(tree).replace(regret=policy)

    def sampled(key):
        levels = public_chance_sampling.walk(tree, learner, key)
        regrets = public_chance_sampling.instant_regrets(tree, levels)
        total = jnp.zeros((len(policy) + 1, *policy.shape[1:]))
        for level, here in zip(levels, regrets, strict=True):
            total = total.at[level.state].add(here)
        return total

    exact = _exact_regrets(tree, policy / jnp.maximum(policy.sum(axis=1, keepdims=True), 1e-9))
    assert_unbiased(sampled, exact, jax.random.key(0), count=10_000)


def _exact_regrets(tree, policy):
    """Exact regrets by public state, times the probability that walks come there."""
    game = tree.game
    listing = list_public_states(game)
    states, above, slots, actor, child = map(
        np.asarray, (listing.state, listing.parent, listing.slot, listing.actor, listing.child)
    )
    both = tuple(jnp.where((actor == p)[:, None, None], policy[states], 0) for p in range(2))
    values = reach_and_values(game, listing, both)[1]
    below = tuple(jnp.where((child >= 0)[:, :, None], own[child], 0) for own in values)
    actions = jax.vmap(game.up)(listing.state, below)[0]
    regrets = np.zeros(policy[states].shape)
    for p in range(2):
        regrets[actor == p] = (actions[p] - values[p][:, None])[actor == p]
    regrets = np.where(tree.uniform[states] > 0, regrets, 0)
    often = np.ones(len(states))
    for s in range(1, len(states)):
        share = np.asarray(tree.chance)[states[above[s]], slots[s]]
        often[s] = often[above[s]] * (share if actor[above[s]] == CHANCE else 1)
    result = np.zeros(policy.shape)
    result[states] = often[:, None, None] * regrets
    return result


@pytest.mark.slow
def test_averages_come_near_equilibrium():
    """As one over the root of the iterations, or faster, on average over learners."""
    name = "leduc_poker(suit_isomorphism=true)"
    _, public, _ = compiled(name)
    tree = chance_tree(name)

    def exploitabilities(num_iterations):
        def of_one(key):
            learner = learned(
                tree, key, settings=PublicChanceSampling(), num_iterations=num_iterations
            )
            policy = public_chance_sampling.average_policy(tree, learner)
            return evaluation.exploitability(public, policy)

        return jax.jit(jax.vmap(of_one))(jax.random.split(jax.random.key(1), 16))

    few, more, many = (exploitabilities(count) for count in (500, 2000, 8000))
    assert more.mean() < min(0.1, 0.5 * few.mean())
    assert many.mean() < 0.5 * more.mean()
    assert many.max() < 0.1  # uniform play: 2.37


@pytest.mark.slow
def test_learners_side_by_side_are_learners_one_by_one():
    tree = chance_tree("goofspiel(cards=3)")
    run = functools.partial(learned, tree, settings=PublicChanceSampling(), num_iterations=5)
    assert_side_by_side_is_one_by_one(run)


def test_bad_settings():
    with pytest.raises(ValueError, match=r"averaging_power=-1.0 must be at least 0"):
        PublicChanceSampling(averaging_power=-1.0)
    with pytest.raises(ValueError, match="has 3 players; a belief table needs 2"):
        chance_tree("kuhn_poker(players=3)")
