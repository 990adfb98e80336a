"""Exact solving below public belief states, and leaves worth what policies earn from there."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from belief_cases import listed_policy
from uneven_game import uneven_game

from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.coin_toss import HEADS
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import cfr
from solvers.evaluation import belief_exploitability
from solvers.search import continual_resolving, exact_below_belief, leaf_evaluators, readouts
from solvers.search.exact_below_belief import Whole
from solvers.sequence_form import build_sequence_form

GLASSES = "scotland_yard(map=glasses,rounds=2)"


def game_named(name):
    return uneven_game() if name == "uneven" else make(name)


@functools.cache
def listed(name):
    table = belief_table(game_named(name))
    return table, list_public_states(table)


@functools.cache
def equilibrium(name):
    return exact_below_belief.equilibrium(*listed(name), num_iterations=1000)


def assert_value(name, value, *, exploitability=1e-3):
    policy = equilibrium(name)
    assert float(belief_exploitability.expected_value(*listed(name), policy)) == pytest.approx(
        value, abs=1e-3
    )
    assert float(belief_exploitability.exploitability(*listed(name), policy)) < exploitability


def test_kuhn():
    assert_value("kuhn_poker", -1 / 18)


@pytest.mark.slow
def test_coin_toss():
    """A quarter of the guesses is heads, in equilibrium."""
    _, states = listed("coin_toss")
    assert_value("coin_toss", 0)
    guess = int(np.flatnonzero(np.asarray(states.actor) == 1)[0])
    assert float(equilibrium("coin_toss")[1][guess, HEADS, 0]) == pytest.approx(0.25, abs=0.01)


@pytest.mark.slow
def test_uneven():
    """By hand: 3 is bid with the high card and five low ones in six, and half of that is called."""
    _, states = listed("uneven")
    assert_value("uneven", 4 / 5)
    bids, answers = equilibrium("uneven")
    highest = int(states.child[0, 2])
    np.testing.assert_allclose(bids[0][2], [1, 5 / 6], atol=0.02)
    np.testing.assert_allclose(answers[highest][:, 0], 0.5, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("leduc_poker", -0.085606424078),
        ("liars_dice(sides=4)", 1 / 16),
        ("scotland_yard(map=glasses)", -7 / 9),
    ],
)
def test_known_values(name, value):
    """Leduc's by linear program; of the map glasses, -0.7783 to -0.7775 was found elsewhere."""
    assert_value(name, value, exploitability=5e-3)


def values_at_equilibrium(name, *, num_iterations):
    """What either player's beliefs are worth at every public state with a decision: by solving the
    rest `[M, 2]`, and by an equilibrium from tabular CFR+, whose own beliefs they are `[M, 2]`."""
    tree, (table, states) = enumerate_game(game_named(name)), listed(name)
    public = build_sequence_form(tree)
    solved = cfr.run(public, cfr.init(public), solver=cfr.cfr_plus(), num_iterations=2000)
    policy = listed_policy(table, states, cfr.average_policy(public, solved))
    reach, values = belief_exploitability.reach_and_values(table, states, policy)
    inner = np.asarray(states.actor) >= 0
    settings = Whole(max_nodes=states.num_inner, num_iterations=num_iterations)

    @jax.jit
    @jax.vmap
    def solve(state, reach):
        search = exact_below_belief.solve_below(table, state, reach, settings=settings)
        return readouts.average_values(search)

    reach, values = jax.tree.map(lambda x: x[inner], (reach, values))
    values_below = solve(states.state[inner], reach)
    worth = lambda values: np.stack([np.sum(reach[p] * values[p], axis=1) for p in (0, 1)], axis=1)  # noqa: E731
    return worth(values_below), worth(values)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rounding"), [("kuhn_poker", 1e-6), ("uneven", 3e-6)])
def test_the_rest_of_an_equilibrium_is_worth_what_the_equilibrium_earns(name, rounding):
    solved, truth = values_at_equilibrium(name, num_iterations=1000)
    np.testing.assert_allclose(solved, truth, atol=1e-3)
    np.testing.assert_allclose(solved[:, 0], -solved[:, 1], atol=rounding)
    assert np.ptp(truth[:, 0]) > 0.05


@pytest.mark.slow
def test_the_rest_of_an_equilibrium_in_leduc():
    solved, truth = values_at_equilibrium("leduc_poker", num_iterations=1000)
    np.testing.assert_allclose(solved, truth, atol=5e-3)


@pytest.mark.slow
def test_nothing_that_is_not_reached_is_solved():
    table, states = listed("kuhn_poker")
    settings = Whole(max_nodes=states.num_inner, num_iterations=2)
    solve = jax.jit(functools.partial(exact_below_belief.solve_below, settings=settings))
    ones = continual_resolving.first_problem(table, max_path=1).reach
    search = solve(table, table.root(), jax.tree.map(jnp.zeros_like, ones))
    assert int(search.tree.count) == 1
    assert not any(values.any() for values in readouts.average_values(search))
    search = solve(table, table.root(), ones)
    assert int(search.tree.count) == states.num_inner
    numbers, policies = exact_below_belief.policy_below(states, search, 0)
    np.testing.assert_array_equal(np.sort(numbers), np.flatnonzero(np.asarray(states.actor) >= 0))
    for player, policy in enumerate(policies):
        acts = np.asarray(states.actor)[numbers] == player
        np.testing.assert_allclose(policy[acts].sum(axis=1), 1, rtol=1e-5)
        assert not policy[~acts].any()


def test_sizes():
    _, states = listed("leduc_poker")
    sizes = exact_below_belief.sizes_below(states)
    assert sizes[0] == states.num_inner
    below = np.bincount(np.asarray(states.parent)[1:], sizes[1:], minlength=len(sizes))
    np.testing.assert_array_equal(sizes, below + (np.asarray(states.child) >= 0).any(axis=1))


def test_bounds_are_checked():
    _, states = listed("leduc_poker")
    with pytest.raises(ValueError, match="114 public states below it, more than max_nodes=50"):
        exact_below_belief.oracle(states, max_nodes=50)
    with pytest.raises(ValueError, match="num_iterations=0 must be at least 1"):
        Whole(max_nodes=3, num_iterations=0)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("leduc_poker", marks=pytest.mark.slow),
        pytest.param("goofspiel(cards=3)", marks=pytest.mark.slow),
        "uneven",
        pytest.param(GLASSES, marks=pytest.mark.slow),
    ],
)
def test_continuation_values_are_those_of_the_policy(name):
    """At its own beliefs, from every public state, for every row; rows of Mr X are merged."""
    table, states = listed(name)
    random = np.random.default_rng(0)
    weights = [
        even * random.uniform(0.1, 1, even.shape).astype(np.float32)
        for even in leaf_evaluators.uniform_policy(table, states)
    ]
    policy = tuple(x / jnp.maximum(x.sum(axis=1, keepdims=True), 1e-9) for x in weights)
    values = leaf_evaluators.continuation_values(table, states, policy)
    reach, truth = belief_exploitability.reach_and_values(table, states, policy)
    worth = jax.vmap(lambda s, r: leaf_evaluators.continuation(values, table, s, r)[0])(
        states.state, reach
    )
    chex.assert_trees_all_close(worth, truth, rtol=1e-7, atol=1e-6)
    assert all(np.abs(own).max() > 0.1 for own in truth)


def test_errors_are_the_same_whenever_a_row_is_asked_about():
    table = belief_table(make("kuhn_poker"))
    random = jax.random.uniform(jax.random.key(0), (2, len(table.actors), 3))
    noise, evaluate = (random[0], random[1]), leaf_evaluators.Noisy(leaf_evaluators.zero)
    reach = continual_resolving.first_problem(table, max_path=1).reach
    values, _ = evaluate((None, noise), table, table.root(), reach)
    half, _ = evaluate((None, noise), table, table.root(), (reach[0], 0.5 * reach[1]))
    np.testing.assert_allclose(values, random[:, table.first] / 3, rtol=1e-5)
    np.testing.assert_allclose(half[0], 0.5 * values[0], rtol=1e-6)
    np.testing.assert_allclose(half[1], values[1], rtol=1e-6)
