"""Expansion of only the best children, evaluations that are kept, and virtual losses."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames import arrays
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.tabulate import tabulate
from jaxgames.core import TERMINAL
from jaxgames.registry import make
from solvers.perfect_information import minimax
from solvers.search import (
    continual_resolving,
    expansion_phase,
    forest,
    growing_tree_cfr,
    leaf_evaluators,
    readouts,
    sweeps,
)
from solvers.search.forest import CHILD, NUMBER, PARENT
from solvers.search.search_state import GrowingTreeCfr

CELLS = 9


@functools.cache
def endgame():
    """Tic-tac-toe with six empty cells, as a table, and its positions."""
    game = pgx_beliefs("tic_tac_toe")
    after = jax.jit(game.child)
    game = game.replace(start=functools.reduce(after, jnp.array([4, 1, 0]), game.root()))
    table = tabulate(game)
    return table, minimax.enumerate_positions(table)


def by_index(params, game, state, reach):
    """Player 0 wins by the number of moves; the first cells are best."""
    dtype = reach[0].dtype
    weights = jax.tree.map(
        lambda legal: jnp.where(legal, jnp.arange(CELLS, 0, -1.0)[:, None], 0), game.legal(state)
    )
    worth = 0.1 * game.depth[state].astype(dtype)
    prior = tuple((x / jnp.maximum(jnp.sum(x), 1)).astype(dtype) for x in weights)
    return (worth * reach[1], -worth * reach[0]), prior


def settings(**changes):
    return GrowingTreeCfr(**(dict(evaluate=by_index, simulations=60, max_path=1) | changes))


@functools.cache
def search(**changes):
    """Searches at the start and at positions with three empty cells; and what these are."""
    table, positions = endgame()
    late = np.flatnonzero((positions.depth == 3) & (positions.actor >= 0))
    here = np.concatenate([[0], late[:40]])
    problem = continual_resolving.first_problem(table, max_path=1)
    run = functools.partial(growing_tree_cfr.search, table, None, settings=settings(**changes))

    @jax.jit
    def one_by_one(states):  # compiles faster than a batch
        return jax.lax.map(
            lambda state: run(jax.random.key(0), problem=problem.replace(state=state)), states
        )

    return here, jax.tree.map(np.asarray, one_by_one(jnp.asarray(positions.state[here])))


def first_tree(**changes):
    return jax.tree.map(lambda x: x[0], search(**changes)[1].tree)


def successor(tree):
    """The states that places were reached in, by their parents' states and their actions."""
    above = tree.state[np.maximum(tree.parent, 0)]
    return np.asarray(endgame()[0].successors)[above, tree.child]


@pytest.mark.slow
@pytest.mark.parametrize("expand", [1, 2])
def test_nodes_start_with_their_best_children_and_get_others_one_by_one(expand):
    """The root has all from the start (Schmid et al. 2023: the initial tree)."""
    tree, count = first_tree(expand=expand), int(first_tree(expand=expand).count)
    possible = np.asarray(jax.vmap(endgame()[0].child_mask)(tree.state))
    assert 10 < count <= 1 + possible[0].sum() + 60 * expand
    np.testing.assert_array_equal(tree.state[1:count], successor(tree)[1:count])
    others = 0
    for node in np.flatnonzero(tree.children[:count]):
        added = tree.child[1:count][tree.parent[1:count] == node]
        assert len(added) == len(set(added)) == tree.children[node] <= possible[node].sum()
        # the first cells are best
        at_first = np.flatnonzero(possible[node])[: expand if node else None]
        np.testing.assert_array_equal(added[: len(at_first)], at_first)
        assert (np.diff(np.flatnonzero(tree.parent[:count] == node)) > 0).all()
        others += len(added) - len(at_first)
    # simulations end the game, give a leaf its first children, or add one child
    assert 5 < others <= 60 - (np.count_nonzero(tree.children) - 1)
    assert int(tree.visits_at(jnp.int32(0))[1].sum()) == 60
    assert not tree.visits_at(jnp.int32(0))[0].any()


@pytest.mark.slow
def test_nodes_are_children_that_were_added():
    table, _ = endgame()
    tree = first_tree(expand=None)
    state, exists, node = (x[: tree.count] for x in (tree.state, tree.exists, tree.node))
    np.testing.assert_array_equal(exists, np.asarray(jax.vmap(table.child_mask)(state)))
    successors = np.asarray(table.successors)[state]
    ends = np.asarray(table.actors)[np.maximum(successors, 0)] == TERMINAL
    assert not ((node >= 0) & (ends | ~exists)).any()
    np.testing.assert_array_equal(state[node[node >= 0]], successors[node >= 0])


def test_actions_do_not_exist_for_cfr_before_they_were_added():
    tree = first_tree(expand=1)
    nodes = np.flatnonzero(tree.children)
    policies = jax.tree.map(jnp.asarray, tree).policy_at(jnp.asarray(nodes))
    actor = np.asarray(endgame()[0].actors)[tree.state[nodes]]
    for player, policy in enumerate(policies):
        assert ((policy > 0).sum(axis=(1, 2)) <= tree.children[nodes]).all()
        np.testing.assert_allclose(policy.sum(axis=(1, 2)), actor == player, rtol=1e-5)


@pytest.mark.parametrize("expand", [1, pytest.param(2, marks=pytest.mark.slow), None])
def test_search_of_the_whole_rest_is_minimax(expand):
    _, positions = endgame()
    here, searches = search(expand=expand)
    here = here[1:]
    worth = [np.asarray(x)[1:, 0] for x in jax.vmap(readouts.average_values)(searches)]
    policy = [np.asarray(x)[1:, :, 0] for x in jax.vmap(readouts.average_policy)(searches)]
    np.testing.assert_allclose(worth[0], minimax.perfect_values(positions)[here], atol=0.1)
    np.testing.assert_allclose(worth[1], -worth[0], atol=1e-6)
    for player in range(2):
        acts = positions.actor[here] == player
        likeliest = policy[player].argmax(axis=1)
        assert minimax.perfect_actions(positions)[here, likeliest][acts].all()
        assert not policy[player][~acts].any()


@pytest.mark.slow
def test_long_axes_are_the_same_as_unrolled_ones(monkeypatch):
    """Games with many actions, such as chess, take other operations for the same sums."""
    table, _ = endgame()
    problem = continual_resolving.first_problem(table, max_path=1)

    def found():
        run = lambda key: growing_tree_cfr.search(  # noqa: E731
            table, None, key, problem=problem, settings=settings(simulations=40)
        )
        return jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(1), 3))

    unrolled = found()
    for module in (arrays, expansion_phase, forest, sweeps):
        monkeypatch.setattr(module, "LONG", 4)
    chex.assert_trees_all_close(found(), unrolled, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_as_many_as_there_are_is_all():
    """A node that starts with all of its children is one that has all of them; but for PUCT, for
    which it was visited once before."""
    table, positions = endgame()
    late = np.flatnonzero((positions.depth == 3) & (positions.actor >= 0))[:40]
    problem = continual_resolving.first_problem(table, max_path=1)
    problems = jax.tree.map(lambda x: jnp.broadcast_to(x, (40, *jnp.shape(x))), problem)
    problems = problems.replace(state=jnp.asarray(positions.state[late]))
    noise = jax.random.uniform(jax.random.key(0), (40, 60, CELLS + 1, 2))

    def found(expand, noise):
        how = settings(expand=expand, cfr_share=1.0)
        steps = [
            functools.partial(step, table, None, settings=how)
            for step in (
                growing_tree_cfr.start,
                growing_tree_cfr.iterate,
                growing_tree_cfr.simulate,
            )
        ]

        @jax.jit
        def run(noise):
            start, iterate, simulate = steps
            phase = lambda i, state: simulate(noise[:, i], iterate(state))  # noqa: E731
            return growing_tree_cfr.finish(
                jax.lax.fori_loop(0, 60, phase, start(problems=problems))
            )

        return run(noise)

    # of a forest's random numbers the first are for world states, and the second ones for children
    some, every = found(CELLS, noise[:, :, 1:, 0]), found(None, noise)
    for read in (readouts.average_policy, readouts.average_values, readouts.average_reach):
        chex.assert_trees_all_close(
            *(jax.vmap(read)(searches) for searches in (some, every)), rtol=1e-4, atol=1e-5
        )
    visits = [jax.vmap(lambda tree, n: tree.visits_at(n))(x.tree, x.target) for x in (some, every)]
    chex.assert_trees_all_close(*visits)


@pytest.mark.slow
@pytest.mark.parametrize(("expand", "asks"), [(1, 1), (2, 2), (None, CELLS)])
def test_the_evaluator_is_asked_where_a_tree_grows_only(expand, asks):
    """It says the same there as if it were asked again, and nothing is removed."""
    table, _ = endgame()
    asked = []

    def counting(params, game, state, reach):
        jax.debug.callback(asked.append, state)
        return by_index(params, game, state, reach)

    how = settings(evaluate=counting, expand=expand)
    start, iterate, simulate = (
        jax.jit(functools.partial(step, table, None, settings=how))
        for step in (growing_tree_cfr.start, growing_tree_cfr.iterate, growing_tree_cfr.simulate)
    )
    finish = jax.jit(growing_tree_cfr.finish)
    calls = lambda: (jax.effects_barrier(), len(asked), asked.clear())[1]  # noqa: E731
    problem = continual_resolving.first_problem(table, max_path=1)
    state = start(problems=jax.tree.map(lambda x: jnp.asarray(x)[None], problem))
    # of two states, since there may be a path; or the root's, five cells at a time
    assert calls() == (1 + 2 * CELLS if expand is None else 1 + 2 * 5)
    noise = growing_tree_cfr.noise_of_walks(jax.random.split(jax.random.key(0), 1), state, how)
    for number in range(12):
        policies, state = state, iterate(state)
        assert calls() == 0
        before, state = state, simulate(noise[:, number], state)
        assert calls() == asks
        earlier, later = (jax.tree.map(lambda x: x[0], finish(x).tree) for x in (before, state))
        assert int(later.visits_at(jnp.int32(0))[1].sum()) == number + 1
        if expand is None:
            assert ((np.asarray(earlier.node) >= 0) <= (np.asarray(later.node) >= 0)).all()
            assert (np.asarray(earlier.exists) <= np.asarray(later.exists)).all()
        else:
            count = int(earlier.count)
            assert 0 <= int(later.count) - count <= expand
            for name in ("state", "parent", "child"):
                np.testing.assert_array_equal(
                    getattr(earlier, name)[:count], getattr(later, name)[:count]
                )
    if expand is None:
        check_leaves(table, policies.forest, before)
    else:
        check_lazy_leaves(table, before.forest)


def check_lazy_leaves(table, trees):
    """Values of leaves after an iteration are those at reach 1."""
    leaves = np.flatnonzero((trees.children == 0) & (trees.actor >= 0) & (trees.parent >= 0))
    leaves = [place for place in leaves if trees.reach_total[0][place] > 0]
    assert len(leaves) > 1
    ones = (jnp.ones(1), jnp.ones(1))
    for place in leaves:
        expected, _ = by_index(None, table, trees.state[place], ones)
        np.testing.assert_allclose([x[place] for x in trees.values], np.ravel(expected), rtol=1e-6)


def check_leaves(table, policies, after):
    """Values of leaves after an iteration are those at its policies' beliefs."""
    forest, layout = after.forest, after.layout
    first = layout.inner
    places = np.setdiff1d(
        first + np.arange(int(forest.num_leaves)), forest.free[: int(forest.num_free)]
    )
    assert len(places) > 3
    for place in places:
        parent, child = forest.links[place, PARENT], forest.links[place, CHILD]
        number = forest.links[parent, NUMBER]
        actor = int(table.actor(forest.state[parent]))
        policy = tuple(
            jnp.where(actor == player, tables.policy[:, number], 0)
            for player, tables in enumerate(policies.decisions)
        )
        reach = tuple(x[parent] for x in forest.reach)
        below = table.down(forest.state[parent], child, reach, policy)
        expected, _ = by_index(None, table, forest.state[place], below)
        seen = tuple(x[place] for x in forest.values)
        chex.assert_trees_all_close(seen, expected, rtol=1e-5)


@pytest.mark.slow
def test_virtual_losses_spread_the_simulations_between_two_iterations():
    """All cells promise the same, and nothing else counts: without, all would take the first."""
    _, searches = search(
        evaluate=leaf_evaluators.zero, simulations=6, pace=6.0, exploration=0.0, cfr_share=0.0
    )
    visits = jax.tree.map(lambda x: x[0], searches.tree).visits_at(0)
    assert visits[1][:, 0].tolist() == [0, 0, 1, 1, 0, 1, 1, 1, 1]
    assert int(searches.iterations[0]) == 1


def expected_choices(value, prior, visits, average, under_way, exploration, share):
    """What simulations play by Schmid et al. 2023, in NumPy: actions `[..., A]`.

    Visits `under_way` since the last iteration are virtual losses of 1.
    """
    before = 1 + visits - under_way
    value = (before * value - under_way) / (before + under_way)
    total = visits.sum(axis=-1, keepdims=True)
    score = value + exploration * prior * np.sqrt(total) / (1 + visits)
    puct = score == score.max(axis=-1, keepdims=True)
    return share * average / average.sum(axis=-1, keepdims=True) + (1 - share) * puct


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "losses"), [({}, 0), ({"exploration": 3.0}, 2)])
def test_half_of_the_simulations_follow_puct_and_half_the_average_policy(changes, losses):
    """In Kuhn poker, at an information state with random statistics, by the paper's formula."""
    cases, keys, share = 60, 400, 0.5
    table = belief_table(make("kuhn_poker"))
    how = GrowingTreeCfr(leaf_evaluators.zero, simulations=1, max_path=1, **changes)
    problem = continual_resolving.first_problem(table, max_path=1)
    problems = jax.tree.map(lambda x: jnp.broadcast_to(x, (keys, *jnp.shape(x))), problem)
    start = jax.jit(functools.partial(growing_tree_cfr.start, settings=how))
    state = start(table, None, problems=problems)
    random = np.random.default_rng(0)
    shape = (cases, 3, 2)  # cards, actions
    value, visits = random.uniform(-1, 1, shape), random.integers(0, 7, shape)
    prior, average = random.dirichlet(np.ones(2), shape[:2]), random.uniform(0, 9, shape)
    under_way = np.minimum(visits, random.integers(0, losses + 1, shape))
    reach = random.uniform(0.2, 1, (cases, 2, 3))
    possible = np.asarray(table.weights[table.first]) > 0  # other cards
    mass = reach[:, 1] @ possible.T / 6  # of six deals
    roots, children = state.target, state.forest.pointers[state.target]  # [keys], [keys, actions]

    def chosen(statistics, settled, reach, noise):
        """Actions `[A, card]` of simulations at their first information state."""
        forest = state.forest
        everywhere = lambda table, new: table.at[:, : len(roots)].set(new[:, None])  # noqa: E731
        tables = forest.decisions[0]
        new = {
            name: everywhere(getattr(tables, name), statistics[name])
            for name in ("prior", "visits", "average")
        }
        # the first action's child is worth its value, and so on
        values = forest.values[0].at[children].set(statistics["values"][None])
        reaches = tuple(
            table.at[roots].set(r[None]) for table, r in zip(forest.reach, reach, strict=True)
        )
        forest = forest.replace(
            decisions=(tables.replace(**new), forest.decisions[1]),
            values=(values, forest.values[1]),
            reach=reaches,
        )
        settled = everywhere(tables.visits, settled), forest.decisions[1].visits
        after = expansion_phase.simulate(
            table,
            None,
            noise,
            state.replace(forest=forest),
            settings=how,
            settled=settled if losses else None,
        )
        before = forest.decisions[0].visits
        return jnp.sum((after.forest.decisions[0].visits - before)[:, : len(roots)], axis=1)

    by_action = lambda x: jnp.asarray(x.swapaxes(1, 2), jnp.float32)  # noqa: E731
    statistics = {
        "values": by_action(value * mass[..., None]),
        "prior": by_action(prior),
        "visits": by_action(visits),
        "average": by_action(average),
    }
    noise = jax.random.uniform(jax.random.key(0), (cases, keys, state.layout.levels + 1, 2))
    seen = jax.jit(lambda *given: jax.lax.map(lambda case: chosen(*case), given))(
        statistics,
        by_action(visits - under_way),
        jnp.asarray(reach, jnp.float32),
        noise,
    )
    seen = np.asarray(seen).swapaxes(1, 2)  # case, card, action
    times = seen.sum(axis=2, keepdims=True)
    expected = expected_choices(value, prior, visits, average, under_way, how.exploration, share)
    assert (times.sum(axis=1) == keys).all()
    np.testing.assert_allclose(seen / times, expected, atol=0.25)  # another best action: 0.5 away
    likelier, draws = expected > 0.5, cases * keys
    predicted = (expected * times)[likelier].sum() / draws
    np.testing.assert_allclose(seen[likelier].sum() / draws, predicted, atol=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expand": 0}, "expand=0 must be at least 1, or None"),
        ({"virtual_loss": -1.0}, "virtual_loss=-1.0 must be at least 0"),
        ({"expand": 1, "children": 4.0}, "children=4.0 has no use with expand=1"),
        ({"expand": 2, "max_nodes": 9}, "max_nodes=9 has no use with expand=2"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        settings(**changes)


def test_games_in_which_children_are_not_actions_are_refused():
    table = belief_table(make("kuhn_poker"))
    problem = continual_resolving.first_problem(table, max_path=1)
    how = settings(evaluate=leaf_evaluators.zero, expand=1)
    with pytest.raises(ValueError, match=r"expand=1 is for games .* kuhn_.* num_rows=\(3, 3\)"):
        growing_tree_cfr.search(table, None, jax.random.key(0), problem=problem, settings=how)


def test_all_children_of_thousands_of_actions_are_refused():
    chess = pgx_beliefs("chess")
    problem = continual_resolving.first_problem(chess, max_path=1)
    how = settings(evaluate=leaf_evaluators.zero)
    with pytest.raises(ValueError, match=r"all 4672 .* of pgx:chess, .*1024; allowed: expand"):
        growing_tree_cfr.search(chess, None, jax.random.key(0), problem=problem, settings=how)
