"""UCT and Smooth UCT: counts by hand, and what the paper says of both."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling_cases import assert_side_by_side_is_one_by_one, compiled

from jaxgames.core import TERMINAL
from solvers import evaluation
from solvers.sampling import uct
from solvers.sampling.episodes import Trajectory
from solvers.sampling.uct import Reading, Uct


def by_hand(payoffs, choices, count):
    """Visits and means of two players that take these actions at once, again and again."""
    visits, values = np.zeros((2, 2), int), np.zeros((2, 2))
    for row, column in choices[:count]:
        for player, action in enumerate((row, column)):
            visits[player, action] += 1
            won = payoffs[row][column] * (1 - 2 * player)
            values[player, action] += (won - values[player, action]) / visits[player, action]
    return visits, values


def test_visits_and_means_by_hand():
    """Matching pennies: the first player wins 1 where both choose the same."""
    _, _, tree = compiled("matrix_mp")
    learner, choices = uct.init(tree), [(0, 1), (1, 1), (0, 0), (0, 1), (1, 0)]
    for count, (row, column) in enumerate(choices, start=1):
        won = 1.0 if row == column else -1.0
        line = Trajectory(
            actor=jnp.array([0, 1, TERMINAL]),
            state=jnp.array([0, 1, tree.num_states]),
            action=jnp.array([row, column, 0]),
            recorded=jnp.array([True, True, False]),
            payoffs=jnp.array([won, -won]),
        )
        learner = uct.back_up(learner, line)
        visits, values = by_hand([[1, -1], [-1, 1]], choices, count)
        np.testing.assert_array_equal(learner.visits[:-1], visits)
        np.testing.assert_allclose(learner.values[:-1], values, atol=1e-6)
    assert not learner.visits[-1].any()


def test_means_keep_what_float32_drops():
    """A payoff of 1, after so many of 0 that one alone is less than the last digit of a mean."""
    _, _, tree = compiled("matrix_mp")
    many, before = 2**26, uct.init(tree)
    learner = before.replace(
        visits=jnp.full_like(before.visits, many), values=jnp.full_like(before.values, 0.5)
    )
    line = Trajectory(
        actor=jnp.array([0, 1, TERMINAL]),
        state=jnp.array([0, 1, tree.num_states]),
        action=jnp.array([0, 0, 0]),
        recorded=jnp.array([True, True, False]),
        payoffs=jnp.array([1.0, -1.0]),
    )

    after = jax.jit(
        lambda learner: jax.lax.fori_loop(0, 1000, lambda _, x: uct.back_up(x, line), learner)
    )(learner)
    moved = np.asarray(after.values, np.float64) + np.asarray(after.lost) - 0.5
    np.testing.assert_allclose(moved[:2, 0], [500 / many, -1500 / many], rtol=1e-3)


def test_upper_confidence_bounds_by_hand():
    """c = 2, 10 visits: 0.5 + 2 sqrt(ln 10 / 4) = 2.02 and 0.1 + 2 sqrt(ln 10 / 6) = 1.34."""
    bounds = functools.partial(uct.upper_bounds, exploration=2.0)
    visits, values = jnp.array([4, 6, 0]), jnp.array([0.5, 0.1, 9.0])
    legal = jnp.array([True, True, False])
    np.testing.assert_array_equal(bounds(visits, values, legal), [1, 0, 0])
    np.testing.assert_array_equal(bounds(visits, values, jnp.ones(3, bool)), [0, 0, 1])  # untried
    same = jnp.array([4, 4, 0])
    np.testing.assert_array_equal(bounds(same, jnp.zeros(3), legal), [1, 1, 0])  # a tie


def test_a_tree_grows_by_a_state_per_player_and_episode():
    _, _, tree = compiled("leduc_poker(suit_isomorphism=true)")
    step = jax.jit(functools.partial(uct.episode, tree, settings=uct.smooth_uct(18.0)))
    learner, before = uct.init(tree), np.zeros(tree.num_states, int)
    ends = np.cumsum((0, *tree.num_decisions))
    for number in range(30):
        learner = step(learner, jax.random.key(number))
        visits = np.asarray(learner.visits[:-1]).sum(axis=1)
        new, more = (before == 0) & (visits > 0), visits - before
        for player in range(2):
            mine = slice(ends[player], ends[player + 1])
            assert new[mine].sum() <= 1
            assert more[mine].sum() >= 1
            assert not (more[mine] > 1).any()  # perfect recall: no state twice
        before = visits
    assert (np.asarray(learner.visits)[np.asarray(tree.uniform) == 0] == 0).all()
    assert int(learner.step) == 30


def learned(name, settings, episodes, *, learners=4):
    _, public, tree = compiled(name)

    @jax.vmap
    def measured(key):
        learner = uct.run(tree, uct.init(tree), key, settings=settings, num_episodes=episodes)
        policy = uct.average_policy(tree, learner)
        return evaluation.nash_conv(public, policy), evaluation.expected_value(public, policy)[0]

    keys = jax.random.split(jax.random.key(1), learners)
    return map(np.asarray, jax.jit(measured)(keys))


@pytest.mark.slow
def test_smooth_uct_comes_nearer_to_equilibrium_than_uct():
    """In Kuhn, with the constants of the paper's Figure 1."""
    smooth, value = learned("kuhn_poker", uct.smooth_uct(1.75), 100_000)
    plain, _ = learned("kuhn_poker", uct.uct(2.0), 100_000)
    assert smooth.mean() < 0.1
    assert smooth.mean() < 0.8 * plain.mean()
    assert value.mean() == pytest.approx(-1 / 18, abs=0.02)


def test_the_constant_is_in_the_unit_of_payoffs():
    """With payoffs and constant twice as large, all visits are the same: c = 9 is half the unit."""
    _, _, tree = compiled("kuhn_poker")
    doubled = tree.replace(payoffs=2 * tree.payoffs)
    here, there = (
        uct.run(
            each,
            uct.init(each),
            jax.random.key(3),
            settings=uct.smooth_uct(constant, decay=0.01),
            num_episodes=500,
        )
        for each, constant in ((tree, 1.5), (doubled, 3.0))
    )
    np.testing.assert_array_equal(here.visits, there.visits)
    np.testing.assert_allclose(2 * here.values, there.values, rtol=1e-6)


def after(name, settings, *, episodes=300, count_ucb=True, seed=1):
    _, _, tree = compiled(name)
    start = uct.init(tree, count_ucb=count_ucb)
    run = functools.partial(uct.run, tree, start, settings=settings, num_episodes=episodes)
    return tree, run(jax.random.key(seed))


def read(**reading):
    return dataclasses.replace(uct.smooth_uct(1.75, decay=0.1), reading=Reading(**reading))


def test_choices_of_ucb_are_counted():
    """All of UCT's; without UCB only those by which states were added; never more than visits."""
    _, learner = after("kuhn_poker", uct.uct(2.0))
    np.testing.assert_array_equal(learner.by_ucb, learner.visits)
    _, learner = after("kuhn_poker", Uct(exploration=2.0, start=0.0))
    np.testing.assert_array_equal(learner.by_ucb.sum(axis=1), learner.visits.sum(axis=1) > 0)
    _, learner = after("kuhn_poker", read())
    assert (learner.by_ucb <= learner.visits).all()
    share = int(learner.by_ucb.sum()) / int(learner.visits.sum())
    assert 0.3 < share < 0.9
    _, without = after("kuhn_poker", read(), count_ucb=False)
    np.testing.assert_array_equal(without.visits, learner.visits)


def test_policies_of_ucb_are_in_proportion_to_its_choices():
    tree, learner = after("kuhn_poker", read(average="ucb"))
    counts = np.asarray(learner.by_ucb[:-1], float)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(np.concatenate(uct.ucb_policy(tree, learner)), shares, rtol=1e-6)


def test_whole_trees_count_every_decision():
    """Kuhn has two or three decisions in an episode; growing trees count two at first."""
    _, whole = after("kuhn_poker", read(whole_trees=True), episodes=1, seed=0)
    _, growing = after("kuhn_poker", read(), episodes=1, seed=0)
    many = [
        int(after("kuhn_poker", read(whole_trees=True), episodes=1, seed=n)[1].visits.sum())
        for n in range(12)
    ]
    assert {*many} == {2, 3}
    assert int(growing.visits.sum()) == 2
    assert (whole.visits[:-1] >= growing.visits[:-1]).all()


def test_alternating_learners_learn_in_turn():
    tree, first = after("kuhn_poker", read(alternating=True), episodes=1)
    _, both = after("kuhn_poker", read(alternating=True), episodes=2)
    split = tree.num_decisions[0]
    assert first.visits[:split].sum() > 0
    assert first.visits[split:-1].sum() == 0
    np.testing.assert_array_equal(both.visits[:split], first.visits[:split])
    assert both.visits[split:-1].sum() > 0


def test_the_first_of_untried_actions_is_tried_second_at_the_latest():
    """The roll-out that adds the state tries one of three actions, UCB another one."""
    for ties, left_out in (("first", False), ("random", True)):
        settings = dataclasses.replace(uct.uct(1.0), reading=Reading(ties=ties))
        tables = [after("matrix_rps", settings, episodes=2, seed=n)[1] for n in range(20)]
        assert any(int(table.visits[0, 0]) == 0 for table in tables) == left_out


def test_eta_falls_by_visits_or_by_episodes():
    """A learner that has seen many episodes, but no state: by episodes, eta is almost 0."""
    _, _, tree = compiled("kuhn_poker")
    start = uct.init(tree, count_ucb=True).replace(step=jnp.int32(10**9))
    shares = {}
    for schedule in uct.SCHEDULES:
        reading = Reading(schedule=schedule)
        settings = dataclasses.replace(uct.smooth_uct(1.75, least=0.0, decay=1.0), reading=reading)
        learner = uct.run(tree, start, jax.random.key(0), settings=settings, num_episodes=300)
        added = int((learner.visits.sum(axis=1) > 0).sum())  # states, whose first visit is uniform
        visits, by_ucb = (int(table.sum()) - added for table in (learner.visits, learner.by_ucb))
        shares[schedule] = by_ucb / visits
    assert shares["state"] > 0.05
    assert shares["episodes"] < 0.005


@pytest.mark.parametrize("reading", [{"average": "all"}, {"schedule": "episode"}, {"ties": "last"}])
def test_bad_readings(reading):
    ((name, value),) = reading.items()
    with pytest.raises(ValueError, match=rf"unknown {name} '{value}'.* \(known: "):
        Reading(**reading)


def test_ucbs_choices_must_be_counted_to_be_read():
    tree, learner = after("kuhn_poker", read(), episodes=1, count_ucb=False)
    with pytest.raises(ValueError, match="does not count UCB's choices"):
        uct.ucb_policy(tree, learner)
    with pytest.raises(ValueError, match="does not count UCB's choices"):
        after("kuhn_poker", read(average="ucb"), episodes=1, count_ucb=False)


@pytest.mark.slow
def test_three_players():
    nash_conv, _ = learned("kuhn_poker(players=3)", uct.smooth_uct(2.0), 20_000, learners=2)
    assert (nash_conv < 0.6).all()  # uniform play: 2.04


def test_greedy_policies_take_the_best_of_what_was_tried():
    _, _, tree = compiled("matrix_rps")
    learner = uct.init(tree).replace(
        visits=jnp.array([[3, 2, 0], [0, 0, 0], [0, 0, 0]]),
        values=jnp.array([[-0.5, -0.1, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    )
    first, second = uct.greedy_policy(tree, learner)
    np.testing.assert_array_equal(first, [[0, 1, 0]])
    np.testing.assert_allclose(second, np.full((1, 3), 1 / 3))
    first, _ = uct.average_policy(tree, learner)
    np.testing.assert_allclose(first, [[0.6, 0.4, 0]])


def test_learners_side_by_side_are_learners_one_by_one():
    _, _, tree = compiled("kuhn_poker")
    settings = uct.smooth_uct(2.0)
    run = functools.partial(uct.run, tree, uct.init(tree), settings=settings, num_episodes=50)
    assert_side_by_side_is_one_by_one(run)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exploration": -1.0}, r"exploration=-1.0 must be at least 0 and finite"),
        ({"exploration": 1.0, "least": 1.5}, r"least=1.5 must be from 0 to 1"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        uct.Uct(**options)
