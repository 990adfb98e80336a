"""Growing-tree CFR against plain CFR, and its laws."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.beliefs import belief_table
from jaxgames.core import TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import cfr
from solvers.search import (
    continual_resolving,
    expansion_phase,
    growing_tree_cfr,
    leaf_evaluators,
    readouts,
    regret_phase,
    search_tree,
)
from solvers.search.search_state import GrowingTreeCfr
from solvers.search.search_tree import expand
from solvers.sequence_form import build_sequence_form


@functools.cache
def compiled(name, dtype="float32"):
    with jax.enable_x64(dtype == "float64"):
        tree = enumerate_game(make(name))
        return tree, belief_table(tree, dtype=dtype)


@pytest.mark.parametrize(
    "name",
    ["kuhn_poker", "leduc_poker", pytest.param("goofspiel(cards=3)", marks=pytest.mark.slow)],
)
def test_a_full_tree_is_plain_cfr(name):
    """With every public state a node, iterations are those of CFR+ with simultaneous updates."""
    with jax.enable_x64(True):
        tree, table = compiled(name, "float64")
        inner = int((np.asarray(table.actors)[int(table.first) :] != TERMINAL).sum())
        settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=inner, max_path=1)
        problem = continual_resolving.first_problem(table, max_path=1, dtype="float64")
        state = jax.jit(
            lambda: growing_tree_cfr.start(table, None, problem=problem, settings=settings)
        )()
        none = jnp.zeros((table.num_actions, table.num_rows))
        grow = jax.jit(lambda t, slot: expand(table, t, slot, none, jnp.zeros(()), jnp.bool_(True)))
        grown, e = state.tree, 0
        while e < int(grown.count):
            for k in np.flatnonzero(table.child_mask(grown.state[e])):
                if int(table.actors[grown.children[e, k]]) != TERMINAL:
                    grown = grow(grown, jnp.int32(e * table.num_children + k))
            e += 1
        state = state.replace(tree=grown)
        step = jax.jit(lambda s: regret_phase.iterate(table, None, s, settings=settings))
        public = build_sequence_form(tree, dtype="float64")
        solver = cfr.cfr_plus(alternating=False)
        plain = cfr.init(public)
        policies = jax.jit(jax.vmap(search_tree.node_policy, (None, 0)))
        where = np.asarray(grown.state[:inner])
        actor = np.asarray(table.actors)[where]
        numbers = np.asarray(table.information_states)[where, np.maximum(actor, 0)]
        for _ in range(5):
            state = step(state)
            plain = cfr.run(public, plain, solver=solver, num_iterations=1)
            average = cfr.average_policy(public, plain)
            average_by_node = np.asarray(policies(state.tree, jnp.arange(inner))).swapaxes(1, 2)
            for player in range(2):
                node, row = np.nonzero((actor == player)[:, None] & (numbers >= 0))
                expected = np.asarray(average[player])[numbers[node, row]]
                np.testing.assert_allclose(average_by_node[node, row], expected, atol=1e-9)


SETTINGS = GrowingTreeCfr(leaf_evaluators.zero, simulations=30, max_path=1)


@functools.cache
def search_of(name, settings):
    """Searches from the root, compiled once for each number of keys."""
    _, table = compiled(name)
    problem = continual_resolving.first_problem(table, max_path=1)
    run = functools.partial(growing_tree_cfr.search, table, None, settings=settings)
    return table, jax.jit(jax.vmap(lambda key: run(key, problem=problem)))


def searched(name, keys, settings=SETTINGS):
    table, search = search_of(name, settings)
    return table, search(keys)


@functools.cache
def leduc_searches():
    return searched("leduc_poker", jax.random.split(jax.random.key(0), 4))


def test_batch_equals_loop():
    _, batch = leduc_searches()
    keys = jax.random.split(jax.random.key(0), 4)
    for i in (0, 3):
        _, single = searched("leduc_poker", keys[i : i + 1])
        jax.tree.map(
            lambda x, y, i=i: np.testing.assert_allclose(x[i], y[0], rtol=1e-5, atol=1e-6),
            batch.tree,
            single.tree,
        )


def test_nodes_form_a_tree():
    table, batch = leduc_searches()
    for i in range(4):
        tree = jax.tree.map(lambda x, i=i: np.asarray(x[i]), batch.tree)
        count = int(tree.count)
        assert 20 < count <= SETTINGS.capacity
        parents = tree.parent[1:count]
        assert (parents // table.num_children < np.arange(1, count)).all()
        np.testing.assert_array_equal(tree.node[parents], np.arange(1, count))
        assert (tree.node >= 0).sum() == count - 1
        states = tree.children.reshape(-1)[parents]
        np.testing.assert_array_equal(states, tree.state[1:count])
        assert len(set(tree.state[:count].tolist())) == count


def test_visits_add_up():
    """Every simulation starts at the searched state, and passes it once."""
    table, batch = leduc_searches()
    assert (np.asarray(batch.iterations) == 30).all()  # a pace of one simulation per iteration
    visits = np.asarray(batch.tree.visits).reshape(4, table.num_actions, -1, table.num_rows)
    np.testing.assert_array_equal(visits[:, :, 0].sum(axis=(1, 2)), 30)


def test_slots_are_leaves_terminals_or_nodes():
    table, batch = leduc_searches()
    for i in range(4):
        tree = jax.tree.map(lambda x, i=i: np.asarray(x[i]), batch.tree)
        count, slots = int(tree.count), len(tree.node)
        mask = np.asarray(jax.vmap(table.child_mask)(tree.state[:count])).reshape(-1)
        used = np.flatnonzero(mask)
        ends = np.asarray(table.actors)[tree.children.reshape(-1)[used]] == TERMINAL
        leaves = tree.leaves.slot[: tree.leaves.count]
        assert set(used[ends]) == set(tree.terminals.slot[: tree.terminals.count])
        assert set(used[~ends & (tree.node[used] < 0)]) == set(leaves)
        np.testing.assert_array_equal(tree.place[leaves], np.arange(len(leaves)))
        assert (tree.leaves.slot[tree.leaves.count :] == slots).all()


def test_nothing_is_learnt_at_nodes_not_in_use():
    table, batch = leduc_searches()
    tree = batch.tree
    for i in range(4):
        rows = int(tree.count[i]) * table.num_rows
        for x in (tree.visits, tree.average, tree.minimizer.regret, tree.reach_total):
            assert not np.asarray(x[i][:, rows:]).any()
        values = np.asarray(tree.slot_total[i])[:, rows * table.num_children : -table.num_rows]
        assert not values.any()


def test_padding_of_the_path_does_not_matter():
    _, table = compiled("leduc_poker")
    trees = []
    for length in (1, 4):  # of one capacity
        settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=27, max_path=length)
        problem = continual_resolving.first_problem(table, max_path=length)
        search = jax.jit(functools.partial(growing_tree_cfr.search, settings=settings))
        trees.append(search(table, None, jax.random.key(3), problem=problem).tree)
    assert int(trees[0].count) == int(trees[1].count)
    chex.assert_trees_all_close(*trees, rtol=1e-5, atol=1e-6)


def test_policies_are_distributions():
    _, batch = leduc_searches()
    policies = jax.vmap(readouts.average_policy)(batch)
    np.testing.assert_allclose(np.asarray(policies).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(("pace", "iterations"), [(0.5, 60), (3.0, 10)])
def test_pace_is_simulations_per_iteration(pace, iterations):
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=30, pace=pace, max_path=1)
    table, batch = searched("leduc_poker", jax.random.split(jax.random.key(0), 1), settings)
    assert int(batch.iterations[0]) == iterations
    rows = np.asarray(batch.tree.visits[0])[:, : table.num_rows]
    assert int(rows.sum()) == 30


def test_walks_end_with_the_last_leaf():
    """They change nothing but visits then: the policy is that of walking on."""
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=60, max_path=1)
    table, batch = searched("kuhn_poker", jax.random.split(jax.random.key(0), 1), settings)
    problem = continual_resolving.first_problem(table, max_path=1)

    @jax.jit
    def walking_on(key):
        def phase(i, state):
            state = regret_phase.iterate(table, None, state, settings=settings)
            noise = jax.random.fold_in(key, i)
            return expansion_phase.simulate(table, None, noise, state, settings=settings)

        start = growing_tree_cfr.start(table, None, problem=problem, settings=settings)
        return jax.lax.fori_loop(0, 60, phase, start)

    other = walking_on(jax.random.split(jax.random.key(0), 1)[0])
    assert int(batch.tree.leaves.count[0]) == 0
    assert int(batch.tree.visits[0][:, : table.num_rows].sum()) < 60
    assert int(other.tree.visits[:, : table.num_rows].sum()) == 60
    policy = readouts.average_policy(jax.tree.map(lambda x: x[0], batch))
    np.testing.assert_allclose(policy, readouts.average_policy(other), rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"simulations": 0}, "simulations=0 must be at least 1"),
        ({"pace": 0.0}, "pace=0.0 must be positive"),
        ({"follow_share": 1.5}, "follow_share=1.5 must be from 0 to 1"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        GrowingTreeCfr(**dict(dict(evaluate=leaf_evaluators.zero, simulations=1), **changes))


def test_a_path_too_long():
    _, table = compiled("kuhn_poker")
    problem = continual_resolving.first_problem(table, max_path=3)
    with pytest.raises(ValueError, match="path has 3 steps, more than max_path=1"):
        growing_tree_cfr.start(table, None, problem=problem, settings=SETTINGS)
