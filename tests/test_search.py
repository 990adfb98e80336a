"""Growing-tree CFR against plain CFR, and its laws."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from uneven_game import NUM_ACTIONS, NUM_ROWS, uneven_game

from jaxgames.beliefs import belief_table
from jaxgames.core import TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import cfr
from solvers.regret import RegretMatchingPlus
from solvers.search import (
    continual_resolving,
    expansion_phase,
    forest,
    growing_tree_cfr,
    leaf_evaluators,
    outer_values,
    readouts,
    regret_phase,
    sweeps,
)
from solvers.search.exact_below_belief import Whole, solve_below
from solvers.search.forest import CHANCE_KIND, DEPTH, KINDS, PARENT
from solvers.search.search_state import GrowingTreeCfr
from solvers.sequence_form import build_sequence_form


@functools.cache
def compiled(name, dtype="float32"):
    with jax.enable_x64(dtype == "float64"):
        tree = uneven_game().tree if name == "uneven" else enumerate_game(make(name))
        return tree, belief_table(tree, dtype=dtype)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("kuhn_poker", marks=pytest.mark.slow),
        pytest.param("leduc_poker", marks=pytest.mark.slow),
        "uneven",  # one player has more rows and actions
        # rows change their numbers
        pytest.param("goofspiel(cards=3,points=descending)", marks=pytest.mark.slow),
        pytest.param("scotland_yard(map=glasses,rounds=2)", marks=pytest.mark.slow),
        pytest.param("goofspiel(cards=3)", marks=pytest.mark.slow),
    ],
)
def test_a_full_tree_is_plain_cfr(name):
    """With every public state a node, iterations are those of CFR+ with simultaneous updates."""
    with jax.enable_x64(True):
        tree, table = compiled(name, "float64")
        inner = int((np.asarray(table.actors)[int(table.first) :] != TERMINAL).sum())
        how = Whole(
            max_nodes=inner, num_iterations=5, minimizer=RegretMatchingPlus(), averaging_power=1.0
        )
        root = table.root()
        reach = tuple(rows.astype("float64") for rows in table.rows(root))
        public = build_sequence_form(tree, dtype="float64")
        search = jax.jit(functools.partial(solve_below, settings=how))(table, root, reach)
        assert int(search.tree.count) == inner
        solver = cfr.cfr_plus(alternating=False)
        plain = cfr.run(public, cfr.init(public), solver=solver, num_iterations=how.num_iterations)
        average = cfr.average_policy(public, plain)
        where = np.asarray(search.tree.state[:inner])
        actor = np.asarray(table.actors)[where]
        nodes = search.tree.policy_at(jnp.arange(inner))
        for player in range(2):
            numbers = np.asarray(table.information_states[player])[where]
            policies = np.asarray(nodes[player]).swapaxes(1, 2)
            acts = (actor == player)[:, None] & (numbers >= 0)
            expected = np.asarray(average[player])[numbers[acts], : policies.shape[2]]
            np.testing.assert_allclose(policies[acts], expected, atol=1e-9)
            assert not policies[~acts].any()


@pytest.mark.slow
def test_tables_of_a_tree_are_as_large_as_each_player_needs():
    table, search = search_of("uneven", SETTINGS)
    batch = jax.eval_shape(search, jax.random.split(jax.random.key(0), 2))
    assert (table.num_rows, table.num_actions) == (NUM_ROWS, NUM_ACTIONS)
    size = 2, SETTINGS.capacity
    slots = SETTINGS.capacity * table.num_children + 1
    for player, (rows, actions) in enumerate(zip(NUM_ROWS, NUM_ACTIONS, strict=True)):
        tree = jax.tree.map(lambda x: x.shape, batch.tree.replace(state=None))
        assert tree.policy[player] == tree.visits[player] == (*size, actions, rows)
        assert tree.reach_total[player] == tree.values_total[player] == (*size, rows)
        assert tree.child_values_total[player] == (2, slots, rows)


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
    """Finished searches from the root: those of `leduc_forest`."""
    table, state = leduc_forest()
    return table, jax.tree.map(np.asarray, jax.jit(growing_tree_cfr.finish)(state))


def test_batch_equals_loop():
    """And searches step by step are searches."""
    _, batch = leduc_searches()
    keys = jax.random.split(jax.random.key(0), 4)
    for i in (0, 3):
        _, single = searched("leduc_poker", keys[i : i + 1])
        jax.tree.map(
            lambda x, y, i=i: np.testing.assert_allclose(x[i], y[0], rtol=1e-5, atol=1e-6),
            batch.tree,
            single.tree,
        )
        assert single.iterations.tolist() == [30]  # a pace of one simulation per iteration


def test_nodes_form_a_tree():
    table, batch = leduc_searches()
    for i in range(4):
        tree = jax.tree.map(lambda x, i=i: np.asarray(x[i]), batch.tree)
        count = int(tree.count)
        assert 20 < count <= SETTINGS.capacity
        parent, child = tree.parent[1:count], tree.child[1:count]
        assert (parent < np.arange(1, count)).all()
        np.testing.assert_array_equal(tree.node[parent, child], np.arange(1, count))
        assert (tree.node >= 0).sum() == count - 1
        below = np.asarray(table.successors)[tree.state[parent], child]
        np.testing.assert_array_equal(below, tree.state[1:count])
        assert len(set(tree.state[:count].tolist())) == count
        exists = np.asarray(table.successors)[tree.state[:count]] >= 0
        np.testing.assert_array_equal(tree.exists[:count], exists)
        assert not tree.exists[count:].any()


def test_visits_add_up():
    """Every simulation starts at the searched state, and passes it once."""
    _, batch = leduc_searches()
    first, second = target_visits(batch)
    np.testing.assert_array_equal(first.sum(axis=(1, 2)), 30)
    assert not second.any()  # who does not act there


def target_visits(searches):
    """Both players' visits `[B, A, N]` at the nodes that searches act at."""
    visits = jax.vmap(lambda tree, target: tree.visits_at(target))
    return visits(searches.tree, searches.target)


@functools.cache
def leduc_forest():
    return stepped_forest("leduc_poker", batch=4, steps=30)


def stepped_forest(name, *, batch, steps):
    """The searches of a batch, step by step."""
    _, table = compiled(name)
    how = dataclasses.replace(SETTINGS, simulations=steps, logged_queries=1)
    problem = continual_resolving.first_problem(table, max_path=1)
    problems = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), problem)
    keys = jax.random.split(jax.random.key(0), batch)

    @jax.jit
    def run():
        state = growing_tree_cfr.start(table, None, problems=problems, settings=how)
        noise = growing_tree_cfr.noise_of_walks(keys, state, how)

        def phase(i, state):
            state = regret_phase.iterate(table, None, state, settings=how)
            return expansion_phase.simulate(table, None, noise[:, i], state, settings=how)

        return jax.lax.fori_loop(0, steps, phase, state)

    return table, run()


@pytest.mark.slow
def test_children_are_leaves_terminals_or_nodes():
    """Each at a place of its own, where its state and its parent are."""
    table, state = leduc_forest()
    trees, layout = jax.tree.map(np.asarray, state.forest), state.layout
    nodes = np.concatenate([trees.nodes[b, : trees.count[b]] for b in range(layout.batch)])
    assert len(set(nodes.tolist())) == len(nodes)
    pointers = trees.pointers[nodes]
    successors = np.asarray(table.successors)[trees.state[nodes]]
    exists = successors >= 0
    np.testing.assert_array_equal(pointers < layout.nowhere, exists)
    places = pointers[exists]
    assert len(set(places.tolist())) == len(places)
    np.testing.assert_array_equal(trees.state[places], successors[exists])
    above = np.repeat(nodes, exists.sum(axis=1))
    np.testing.assert_array_equal(trees.links[places, PARENT], above)
    ends = np.asarray(table.actors)[successors[exists]] == TERMINAL
    first_terminal = layout.terminal_page(int(trees.terminals.used) - 1)
    after_leaves = layout.inner + int(trees.num_leaves)
    assert after_leaves + layout.chunk <= first_terminal
    region = np.digitize(places, [layout.inner, after_leaves, first_terminal])
    assert (region[ends] == 3).all()
    assert (region[~ends] < 2).all()
    listed = [trees.leaves.place[b, : trees.leaves.count[b]] for b in range(layout.batch)]
    assert sorted(np.concatenate(listed)) == sorted(places[region == 1])
    open_leaves = int(trees.num_leaves - trees.num_free)
    assert open_leaves == (region == 1).sum() > 0


def test_pages_hold_one_depth_and_one_actor():
    table, state = leduc_forest()
    trees, layout = jax.tree.map(np.asarray, state.forest), state.layout
    seen = []
    for number, first in enumerate(trees.pages.first):
        page, left = int(first), int(trees.pages.count[number])
        while page >= 0:
            places = page * layout.page + np.arange(min(left, layout.page))
            assert (trees.links[places, DEPTH] == number // KINDS).all()
            actor = np.asarray(table.actors)[trees.state[places]]
            assert (np.where(actor < 0, CHANCE_KIND, actor) == number % KINDS).all()
            seen += places.tolist()
            left -= layout.page
            page = int(trees.pages.following[page])
        assert left <= 0
    assert len(seen) == trees.count.sum() == len(set(seen))


def test_nothing_is_learnt_at_decisions_not_in_use():
    _, state = leduc_forest()
    for tables in state.forest.decisions:
        for table in (tables.visits, tables.average, tables.regret):
            assert not np.asarray(table)[:, int(tables.count) :].any()


@pytest.mark.slow
def test_trees_do_not_grow_beyond_a_share_of_decisions():
    """Of 32 nodes, player 1 acts at the two that the path has room for and at three others."""
    shares = (1.0, 0.1)
    settings = dataclasses.replace(SETTINGS, decision_shares=shares)
    keys = jax.random.split(jax.random.key(0), 4)
    (_, whole), (_, some) = searched("leduc_poker", keys), searched("leduc_poker", keys, settings)
    counts = [
        [(np.asarray(own) < table.shape[1]).sum(axis=1) for own, table in zip(*pair, strict=True)]
        for pair in ((x.tree.decision, x.tree.policy) for x in (whole, some))
    ]
    assert (counts[0][1] > 5).all()
    assert (counts[1][1] == 5).all()
    assert (counts[1][0] > 5).all()
    assert some.tree.policy[1].shape[1] == 5
    assert some.tree.is_full.all()
    assert not whole.tree.is_full.any()
    first, _ = jax.vmap(readouts.average_policy)(some)
    np.testing.assert_allclose(first.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.slow
def test_padding_of_the_path_does_not_matter():
    _, table = compiled("leduc_poker")
    trees = []
    for length in (1, 4):
        settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=27, max_path=length)
        problem = continual_resolving.first_problem(table, max_path=length)
        search = jax.jit(functools.partial(growing_tree_cfr.search, settings=settings))
        tree = search(table, None, jax.random.key(3), problem=problem).tree
        nodes = jnp.arange(20)
        policy = tree.policy_at(nodes), tree.visits_at(nodes)
        below = tuple(table[tree.slot[:20]] for table in tree.child_values_total)
        rest = tree.replace(
            decision=None, policy=None, visits=None, slot=None, child_values_total=None
        )
        trees.append((policy, below, jax.tree.map(lambda x: x[:20] if x.ndim else x, rest)))
    chex.assert_trees_all_close(*trees, rtol=1e-5, atol=1e-6)


def test_policies_are_distributions():
    _, batch = leduc_searches()
    first, second = jax.vmap(readouts.average_policy)(batch)
    np.testing.assert_allclose(first.sum(axis=1), 1, rtol=1e-5)
    assert not second.any()


@pytest.mark.slow
@pytest.mark.parametrize(("pace", "iterations"), [(0.5, 60), (3.0, 10)])
def test_pace_is_simulations_per_iteration(pace, iterations):
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=30, pace=pace, max_path=1)
    _, batch = searched("leduc_poker", jax.random.split(jax.random.key(0), 1), settings)
    assert int(batch.iterations[0]) == iterations
    assert int(target_visits(batch)[0].sum()) == 30


@pytest.mark.slow
def test_walks_end_with_the_last_leaf():
    """They change nothing but visits then: the policy is that of walking on."""
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=60, max_path=1)
    _, batch = searched("kuhn_poker", jax.random.split(jax.random.key(0), 1), settings)
    _, other = stepped_forest("kuhn_poker", batch=1, steps=60)
    other = growing_tree_cfr.finish(other)
    assert not np.asarray(batch.tree.exists & (batch.tree.node < 0)).sum() > 5  # of terminals
    assert int(target_visits(batch)[0].sum()) < 60
    assert int(target_visits(other)[0].sum()) == 60
    policies = [jax.vmap(readouts.average_policy)(searches) for searches in (batch, other)]
    chex.assert_trees_all_close(*policies, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"simulations": 0}, "simulations=0 must be at least 1"),
        ({"simulations": 5.0}, "simulations=5.0 must be an integer"),
        ({"pace": 0.0}, "pace=0.0 must be positive"),
        ({"belief_tolerance": -0.1}, "belief_tolerance=-0.1 must be at least 0"),
        ({"pace": 2.0}, "pace=2.0 must be at most simulations=1, or a search has no iteration"),
        ({"follow_share": 1.5}, "follow_share=1.5 must be from 0 to 1"),
        ({"exploration": float("nan")}, "exploration=nan must be at least 0 and finite"),
        ({"averaging_power": float("nan")}, "averaging_power=nan must be at least 0 and finite"),
        ({"max_path": -1}, "max_path=-1 must be at least 0"),
        ({"max_nodes": 4}, "max_nodes=4 must be at least 5, the nodes of a path of max_path=4"),
        ({"children": 0.9}, "children=0.9 must be at least 1 and finite, or None: every node"),
        ({"decision_shares": (0.5, 2.0)}, "decision_shares=.* must be a tuple of two numbers from"),
        ({"decision_shares": 0.5}, "decision_shares=0.5 must be a tuple of two numbers from 0 to"),
        ({"decision_shares": (0.0, 0.0)}, r"decision_shares=\(0.0, 0.0\) must not both be 0"),
        ({"expand": 0}, "expand=0 must be at least 1"),
        ({"logged_queries": -1}, "logged_queries=-1 must be at least 0"),
    ],
)
def test_bad_settings(changes, message):
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=1)
    for name, value in changes.items():  # as the tests' own checks of types would come first
        object.__setattr__(settings, name, value)
    with pytest.raises(ValueError, match=message) as error:
        settings.__post_init__()
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "least",
    [
        {"max_nodes": 2},
        {"children": 1.0},
        {"decision_shares": (0.0, 0.1)},
    ],
)
def test_the_least_room_is_enough_for_a_search(least):
    """Its tree stops growing, but it has a policy where it acts."""
    settings = dataclasses.replace(SETTINGS, **least)
    keys = jax.random.split(jax.random.key(0), 2)
    _, batch = searched("leduc_poker", keys, settings)
    assert (np.asarray(batch.tree.count) < SETTINGS.capacity).all()
    assert (np.asarray(batch.tree.is_full) == ("max_nodes" not in least)).all()
    first, _ = jax.vmap(readouts.average_policy)(batch)
    np.testing.assert_allclose(first.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.slow
def test_searches_without_room_for_a_path():
    _, table = compiled("kuhn_poker")
    policies = []
    for length in (0, 1):
        problem = continual_resolving.first_problem(table, max_path=length)
        settings = dataclasses.replace(SETTINGS, simulations=8, max_path=length)
        search = functools.partial(growing_tree_cfr.search, problem=problem, settings=settings)
        run = jax.jit(jax.vmap(functools.partial(search, table, None)))
        policies.append(
            jax.vmap(readouts.average_policy)(run(jax.random.split(jax.random.key(0), 2)))
        )
    chex.assert_trees_all_close(*policies, rtol=1e-5)


def test_a_path_too_long():
    _, table = compiled("kuhn_poker")
    problem = continual_resolving.first_problem(table, max_path=3)
    with pytest.raises(ValueError, match="path has 3 steps, more than max_path=1"):
        growing_tree_cfr.search(table, None, jax.random.key(0), problem=problem, settings=SETTINGS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "leduc_poker",
        "uneven",  # one player has more rows and actions
        "goofspiel(cards=3)",  # rows change their numbers
        "scotland_yard(map=glasses,rounds=2)",
    ],
)
def test_accelerators_build_the_same_trees(name, monkeypatch):
    """Steps for pages of all kinds at once give what steps for each page give."""
    searches = []
    with jax.enable_x64(True):
        _, table = compiled(name, "float64")
        problem = continual_resolving.first_problem(table, max_path=1, dtype="float64")
        settings = dataclasses.replace(SETTINGS, simulations=24)
        keys = jax.random.split(jax.random.key(0), 3)
        for backend in ("cpu", "gpu"):
            monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
            search = functools.partial(
                growing_tree_cfr.search, table, None, problem=problem, settings=settings
            )
            searches.append(jax.jit(jax.vmap(search))(keys))
    chex.assert_trees_all_close(searches[0].tree, searches[1].tree, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scotland_yard(map=glasses,rounds=2)", "leduc_poker"])
def test_many_children_are_valued_as_few_are(name, monkeypatch):
    """Where their numbers are not those of actions, as in Scotland Yard, and where they are."""
    searches, game = [], make(name).belief_game() or compiled(name)[1]
    problem = continual_resolving.first_problem(game, max_path=1)
    settings = dataclasses.replace(SETTINGS, simulations=24)
    for longest in (32, 1):  # children, whose loops are unrolled
        for module in (sweeps, forest, expansion_phase):
            monkeypatch.setattr(module, "LONG", longest)
        jax.clear_caches()
        search = functools.partial(
            growing_tree_cfr.search, game, None, problem=problem, settings=settings
        )
        searches.append(jax.jit(search)(jax.random.key(0)))
    chex.assert_trees_all_close(searches[0].tree, searches[1].tree, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_steps_of_an_iteration_are_levels_not_nodes(monkeypatch):
    """With pages as large as levels, a level of all searches is one step of a compiled loop on the
    way down and on the way up, and all terminals are one more."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    steps, written_at = [], sweeps.written_at

    def counted(*arguments):
        jax.debug.callback(lambda: steps.append(1))
        return written_at(*arguments)

    for module in (sweeps, outer_values):
        monkeypatch.setattr(module, "written_at", counted)
    table, state = stepped_forest("leduc_poker", batch=8, steps=40)
    jax.effects_barrier()
    steps.clear()
    iterate = jax.jit(functools.partial(regret_phase.iterate, table, None, settings=SETTINGS))
    jax.block_until_ready(iterate(state))
    jax.effects_barrier()
    levels = int(state.forest.deepest) + 1
    assert len(steps) == 2 * levels + 1
    assert levels < 10 < int(state.forest.count.sum()) / 8
