"""Tables of belief-level games against the games themselves."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.arrays import safe_divide
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.beliefs.tabulate import tabulate
from jaxgames.registry import make
from jaxgames.scotland_yard import scotland_yard_beliefs
from solvers.evaluation.belief_exploitability import exploitability, reach_and_values


def random_policy(game, listing):
    keys, policy = jax.random.split(jax.random.key(0)), []
    for key, legal in zip(keys, jax.vmap(game.legal)(listing.state), strict=True):
        weights = jnp.where(legal, jax.random.uniform(key, legal.shape), 0)
        policy.append(safe_divide(weights, jnp.sum(weights, axis=1, keepdims=True)))
    return tuple(policy)


GLASSES = "scotland_yard(map=glasses,rounds=2)"
BLACK = "scotland_yard(map=glasses,rounds=2,black=1)"


@pytest.mark.parametrize(
    "name",
    [
        "goofspiel(cards=3)",
        pytest.param(GLASSES, marks=pytest.mark.slow),
        pytest.param(BLACK, marks=pytest.mark.slow),
    ],
)
def test_tables_say_what_the_game_says(name):
    """Goofspiel: rows split. Scotland Yard: rows merge, with black cards for Mr X alone."""
    rules = make(name)
    game = scotland_yard_beliefs(rules) if "scotland" in name else belief_table(rules)
    table = tabulate(game)
    assert (table.num_rows, table.num_actions) == (game.num_rows, game.num_actions)
    listing, states = list_public_states(game), list_public_states(table)
    np.testing.assert_array_equal(listing.child, states.child)
    np.testing.assert_array_equal(listing.actor, states.actor)
    for method in ("rows", "legal", "encode"):
        expected = jax.vmap(getattr(game, method))(listing.state)
        chex.assert_trees_all_equal(expected, jax.vmap(getattr(table, method))(states.state))
    policy = random_policy(game, listing)
    chex.assert_trees_all_close(
        reach_and_values(game, listing, policy),
        reach_and_values(table, states, policy),
        rtol=1e-7,
        atol=1e-6,
    )
    assert float(exploitability(game, listing, policy)) == pytest.approx(
        float(exploitability(table, states, policy)), abs=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [GLASSES, BLACK])
def test_pairs_follow_as_in_the_game(name):
    game = scotland_yard_beliefs(make(name))
    table = tabulate(game)
    states = list_public_states(game).state
    actor = np.asarray(jax.vmap(game.actor)(states))
    legal = jax.tree.map(np.asarray, jax.vmap(game.legal)(states))
    rows = np.asarray(jax.vmap(game.rows)(states)[0])
    jobs = [
        (state, n, a)
        for state in np.flatnonzero(actor >= 0)
        for n in np.flatnonzero(rows[state])
        for a in np.flatnonzero(legal[actor[state]][state, :, n if actor[state] == 0 else 0])
    ]
    state, row, action = np.array(jobs, np.int32).T
    pair = np.stack([row, np.zeros_like(row)], axis=1)
    chosen = jax.tree.map(lambda x: x[state], states)
    followed = [
        np.asarray(jax.jit(jax.vmap(follow))(at, pair, action))
        for follow, at in ((game.follow, chosen), (table.follow, state))
    ]
    first, second = (
        np.where((pairs < 0).any(axis=2, keepdims=True), -1, pairs) for pairs in followed
    )
    np.testing.assert_array_equal(first, second)


def test_too_large_to_tabulate():
    with pytest.raises(ValueError, match=r"goofspiel.*public states need .* max_entries=10"):
        tabulate(belief_table(make("goofspiel(cards=3)")), max_entries=10)


def test_by_name():
    assert belief_table(make("kuhn_poker")).name == "kuhn_poker(players=2)"
