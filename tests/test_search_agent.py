"""Search agents as state machines: the same searches as the measured agents make."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from uneven_game import uneven_game

from jaxgames.arrays import at
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import NO_STATE, list_public_states
from jaxgames.beliefs.places import table_places
from jaxgames.beliefs.table import NOWHERE
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.leduc import RAISE
from jaxgames.registry import make
from solvers.scotland_yard.matches import MR_X
from solvers.search import leaf_evaluators, readouts, search_agent
from solvers.search.agent_exploitability import Chain, composed_policy
from solvers.search.search_state import NO_STEP, GrowingTreeCfr

LEDUC = pytest.param("leduc_poker", marks=pytest.mark.slow)  # at large what Kuhn is too
SETTINGS = GrowingTreeCfr(leaf_evaluators.zero, simulations=6, max_path=4)


@functools.cache
def compiled(name):
    tree = uneven_game().tree if name == "uneven" else enumerate_game(make(name))
    table = belief_table(tree)
    return tree, table, list_public_states(table)


def seeds():
    return jax.random.split(jax.random.key(5), 2)


@functools.cache
def started(name, player):
    _, table, _ = compiled(name)
    return search_agent.init(table, player, settings=SETTINGS)


def twice(state):
    return jax.tree.map(lambda x: jnp.stack([x, x]), state)


def thinking(name, keys, number, states):
    """Agents side by side, with the keys of `composed_policy`."""
    keys = jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)
    return compiled_mind(name)[0](keys, states)


@functools.cache
def compiled_mind(name):
    """How agents think and act, compiled."""
    _, table, _ = compiled(name)
    think, act = (
        functools.partial(step, table, None, settings=SETTINGS)
        for step in (search_agent.think, search_agent.act)
    )
    return jax.jit(jax.vmap(think)), jax.jit(jax.vmap(act))


def first(states):
    return jax.jit(lambda states: at(states, 0))(states)


def after_acting(name, states):
    """Agents side by side that have thought."""
    return compiled_mind(name)[1](seeds(), states, jnp.zeros(2, jnp.int32))[0]


@functools.cache
def at_root(name, player):
    """An agent that has thought there."""
    return first(after_acting(name, twice(started(name, player))))


@functools.cache
def hearing(name):
    _, table, _ = compiled(name)
    return jax.jit(
        jax.vmap(lambda state, child: search_agent.observe(table, state, child), (0, None))
    )


def line(listing, goal):
    """The public states from the root down to `goal`."""
    states = [goal]
    while (above := int(listing.parent[states[0]])) != NO_STATE:
        states.insert(0, above)
    return states


def goals(listing, player, count):
    """Decisions of `player`, the last of the listing and others spread over it."""
    mine = np.flatnonzero(np.asarray(listing.actor) == player)
    return mine[np.unique(np.linspace(0, len(mine) - 1, count).astype(int))]


@pytest.mark.slow
def test_agents_keep_no_log_of_queries():
    _, table, _ = compiled("kuhn_poker")
    logging = dataclasses.replace(SETTINGS, logged_queries=3)
    start = search_agent.init(table, 0, settings=logging)
    after, _ = search_agent.think(table, None, jax.random.key(0), start, settings=logging)
    assert after.search.log is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kuhn_poker", "uneven", LEDUC])
@pytest.mark.parametrize(
    ("player", "own_decisions_only"), [(0, False), (1, True), (0, True), (1, False)]
)
def test_agents_play_the_policy_that_is_measured(name, player, own_decisions_only):
    """At every public state on the way to several decisions, for several seeds."""
    _, table, listing = compiled(name)
    chain = Chain(player, own_decisions_only=own_decisions_only)
    expected = composed_policy(
        table, listing, None, seeds(), settings=SETTINGS, chain=chain, batch=16
    )
    searched, compared = chain.searched(listing), 0
    for goal in goals(listing, player, 5):
        states = twice(started(name, player))
        for number in line(listing, goal):
            if listing.parent[number] != NO_STATE:
                states = hearing(name)(states, listing.slot[number])
            if searched[number]:
                states, policy = thinking(name, seeds(), number, states)
                here = tuple(own[:, number] for own in expected)
                chex.assert_trees_all_close(policy, here, rtol=0, atol=1e-5)
                compared += 1
        np.testing.assert_array_equal(states.public, listing.state[goal])
    assert compared >= 3


@pytest.mark.slow
def test_thinking_again_finds_the_same():
    keys = jax.random.split(jax.random.key(5), 8)  # of which two may grow the same tree
    starts = jax.tree.map(lambda x: jnp.stack([x] * len(keys)), started("leduc_poker", 0))
    once, policy = thinking("leduc_poker", keys, 0, starts)
    again, same = thinking("leduc_poker", keys[::-1], 1, once)
    chex.assert_trees_all_equal(policy, same)
    assert np.ptp(policy[0], axis=0).max() > 1e-3  # the seeds matter
    chex.assert_trees_all_equal(once, again)


@pytest.mark.slow
def test_acts_are_drawn_from_what_was_thought():
    start, rows = twice(started("leduc_poker", 0)), jnp.array([0, 5], jnp.int32)
    _, act = compiled_mind("leduc_poker")
    raised, shares = [], []
    for key in jax.random.split(jax.random.key(3), 40):
        after, action, policy = act(jax.random.split(key), start, rows)
        thought = jax.vmap(readouts.average_policy)(after.search)
        np.testing.assert_array_equal(policy, thought[0][np.arange(2), :, rows])
        assert not thought[1].any()
        raised.append(action == RAISE)
        shares.append(policy[:, RAISE])
    share = np.asarray(shares, np.float64)
    assert 0.05 < share.mean() < 0.95
    error = np.sqrt((share * (1 - share)).sum()) / share.size
    assert np.mean(raised) == pytest.approx(share.mean(), abs=4 * error)


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (0.0, [0.5, 0.3, 0.15, 0.05]),
        (0.1, [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]),
        (0.3, [0.625, 0.375, 0, 0]),
        (0.9, [1, 0, 0, 0]),
    ],
)
def test_rare_actions_are_not_drawn(threshold, expected):
    """But for the most probable one, and the others in proportion."""
    policy = jnp.array([[0.5, 0.3, 0.15, 0.05]]).T, jnp.zeros((2, 1))
    keys = jax.random.split(jax.random.key(0), 400)

    def draw(key):
        return search_agent._draw(key, policy, jnp.int32(0), jnp.int32(0), threshold)

    actions, drawn_from = jax.vmap(draw)(keys)
    np.testing.assert_allclose(drawn_from, np.broadcast_to(expected, (400, 4)), atol=1e-6)
    shares = np.bincount(actions, minlength=4) / 400
    np.testing.assert_allclose(shares, expected, atol=0.1)
    assert not shares[np.equal(expected, 0)].any()


@pytest.mark.parametrize(
    ("own", "threshold", "expected"),
    [
        ([0.25, 0.25, 0.25, 0.25], 0.9, [0.25, 0.25, 0.25, 0.25]),
        ([0.4, 0.4, 0.2, 0.0], 0.5, [0.5, 0.5, 0.0, 0.0]),
        ([0.3, 0.7, 0.0, 0.0], 1.0, [0.0, 1.0, 0.0, 0.0]),
        ([0.0, 0.0, 0.0, 0.0], 0.15, [0.0, 0.0, 0.0, 0.0]),  # where it does not act
    ],
)
def test_the_most_probable_actions_stay(own, threshold, expected):
    found = readouts.without_rare(jnp.array([own]).T, threshold)
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("threshold", [-0.1, 1.5, float("nan")])
def test_thresholds_that_are_no_probabilities_are_refused(threshold):
    _, table, _ = compiled("kuhn_poker")
    one = jax.random.key(0), started("kuhn_poker", 0), jnp.int32(0)
    with pytest.raises(ValueError, match=f"threshold={threshold} must be from 0 to 1"):
        search_agent.act(table, None, *one, settings=SETTINGS, threshold=threshold)


@pytest.mark.slow
def test_a_threshold_changes_what_is_drawn_and_not_what_is_remembered():
    _, table, _ = compiled("kuhn_poker")
    act = functools.partial(search_agent.act, table, None, settings=SETTINGS)
    start, differs = started("kuhn_poker", 0), False
    for row in jnp.arange(3, dtype=jnp.int32):
        after, _, policy = act(jax.random.key(0), start, row)
        same, action, found = act(jax.random.key(0), start, row, threshold=1.0)
        chex.assert_trees_all_equal(after, same)
        np.testing.assert_array_equal(found > 0, policy == policy.max())
        assert found[action] > 0
        differs |= bool(found.max() > policy.max())
    assert differs


@pytest.mark.parametrize(("player", "expected"), [(0, [0.2, 0.3, 0.5]), (1, [0.6, 0.4, 0.0])])
def test_a_policy_in_a_row_has_as_many_actions_as_who_has_more(player, expected):
    both = jnp.array([[1.0, 0.2], [0.0, 0.3], [0.0, 0.5]]), jnp.array([[1.0, 0.6], [0.0, 0.4]])
    np.testing.assert_array_equal(
        readouts.policy_in_row(both, player, 1), np.array(expected, np.float32)
    )


@pytest.mark.slow  # at large what `policy_in_row` does by itself
def test_policies_of_who_has_fewer_actions_end_in_zeros():
    _, table, _ = compiled("uneven")
    state = search_agent.observe(table, at_root("uneven", 1), jnp.int32(2))  # the highest bid
    keys = jax.random.split(jax.random.key(0), 2)
    after, action, policy = compiled_mind("uneven")[1](keys, twice(state), jnp.zeros(2, jnp.int32))
    _, second = jax.vmap(readouts.average_policy)(after.search)
    np.testing.assert_array_equal(policy[:, :2], second[:, :, 0])
    np.testing.assert_array_equal(policy[:, 2], 0)
    np.testing.assert_allclose(policy.sum(axis=1), 1, rtol=1e-6)
    assert (action < 2).all()


def test_impossible_observations_are_refused():
    _, table, listing = compiled("leduc_poker")
    state = started("leduc_poker", 1)
    with pytest.raises(ValueError, match="must think at the root of the game first"):
        search_agent.checked_observe(table, state, 0)
    state = at_root("leduc_poker", 1)
    allowed = np.flatnonzero(table.child_mask(state.public))
    for child in (-1, *set(range(table.num_children + 1)) - set(allowed)):
        message = rf"child={child} does not exist here; allowed: {allowed[0]}, {allowed[1]}"
        with pytest.raises(ValueError, match=message):
            search_agent.checked_observe(table, state, child)
        same = search_agent.observe(table, state, jnp.int32(child))
        chex.assert_trees_all_equal(state, same)
    over = np.flatnonzero(np.asarray(listing.actor) == TERMINAL)[0]  # a raise, then a fold
    for number in line(listing, over)[1:]:
        state = search_agent.checked_observe(table, state, int(listing.slot[number]))
    with pytest.raises(ValueError, match="the game is over"):
        search_agent.checked_observe(table, state, 0)


def test_agents_must_think_before_they_lose_the_thread():
    _, table, _ = compiled("leduc_poker")
    state = at_root("leduc_poker", 1)
    for _ in range(SETTINGS.max_path):  # the last possible child never ends a hand of Leduc so soon
        child = int(np.flatnonzero(table.child_mask(state.public))[-1])
        state = search_agent.checked_observe(table, state, child)
    child = int(np.flatnonzero(table.child_mask(state.public))[-1])
    with pytest.raises(ValueError, match="max_path=4 public states were entered"):
        search_agent.checked_observe(table, state, child)
    state = first(after_acting("leduc_poker", twice(state)))
    state = search_agent.checked_observe(table, state, child)
    assert state.path.tolist() == [child, *[NO_STEP] * 3]


@pytest.mark.parametrize("name", ["leduc_poker", "goofspiel(cards=3)"])
def test_places_lead_from_history_to_history(name):
    """By children and rows of the table alone, from the root to every history below."""
    tree, table, _ = compiled(name)
    places = table_places(tree, table)
    inner = np.flatnonzero(tree.actor != TERMINAL)
    moves = np.where(tree.actor[inner] == CHANCE, -1, tree.legal[inner].sum(axis=1))
    counts = (places.child[inner] != NOWHERE).sum(axis=1)
    np.testing.assert_array_equal(counts[moves >= 0], moves[moves >= 0])
    entered = np.flatnonzero(places.slot != NOWHERE)
    above = tree.parent[entered]
    np.testing.assert_array_equal(places.child[above, tree.parent_action[entered]], entered)
    state, slot = places.state[above], places.slot[entered]
    np.testing.assert_array_equal(
        jax.vmap(table.children)(state)[np.arange(len(slot)), slot], places.state[entered]
    )
    action = np.maximum(tree.parent_action[entered], 0)
    action = jnp.asarray(np.where(tree.actor[above] >= 0, action, 0), jnp.int32)
    pairs = jax.jit(jax.vmap(table.follow))(
        jnp.asarray(state), jnp.asarray(places.row[above]), action
    )
    np.testing.assert_array_equal(pairs[np.arange(len(slot)), slot], places.row[entered])
    assert (places.slot == NOWHERE).sum() == np.flatnonzero(
        places.state == int(table.root())
    ).max() + 1


@pytest.mark.slow
def test_searching_at_decisions_of_an_opponent_with_one_row_changes_nothing():
    """Mr X, whose opponents hide nothing: he need not search where they move."""
    game = make("scotland_yard(map=glasses,rounds=4)").belief_game()
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=12, max_path=8)
    step_of = functools.partial(jax.random.fold_in, jax.random.key(3))
    think = functools.partial(search_agent.think, game, None, settings=settings)
    always = own = search_agent.init(game, MR_X, settings=settings)
    compared, uneven = 0, False
    for step in range(game.max_depth):
        public = always.public
        if int(game.actor(public)) == MR_X:
            always, policy = think(step_of(step), always)
            own, same = think(step_of(step), own)
            chex.assert_trees_all_close(policy[MR_X], same[MR_X], atol=1e-6)
            assert own.search.reach[1 - MR_X] == 1  # the detectives' way there is no question
            reach = own.search.problem.reach[MR_X]  # his range by the policies that were played
            chex.assert_trees_all_equal(reach, own.played[MR_X])
            uneven |= bool(np.ptp(reach[reach > 0]) > 0.1)
            compared += 1
        elif int(game.actor(public)) != TERMINAL:
            always, _ = think(step_of(step), always)
        children = np.flatnonzero(game.child_mask(public))
        if not len(children):
            break
        child = int(jax.random.choice(step_of(100 + step), children))
        always, own = (search_agent.observe(game, mind, child) for mind in (always, own))
    assert compared >= 3
    assert uneven
