"""Expansion of only the best children, evaluations that are kept, and virtual losses."""

import functools
import types

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
    forest_growth,
    growing_tree_cfr,
    leaf_evaluators,
    readouts,
    regret_phase,
)
from solvers.search.forest import CHILD, NUMBER, PARENT
from solvers.search.search_state import GrowingTreeCfr
from solvers.search.search_tree import at_nodes

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
    return by_node(jax.tree.map(lambda x: x[0], search(**changes)[1].tree))


def by_node(tree):
    """A finished tree, what decisions and children have included, by its nodes."""
    tree = jax.tree.map(jnp.asarray, tree)
    count, nodes = int(tree.count), jnp.arange(int(tree.count))
    own = {name: getattr(tree, name)[:count] for name in ("state", "parent", "node", "exists")}
    visits, policy = (at_nodes(tree, tables, nodes) for tables in (tree.visits, tree.policy))
    below = tuple(table[tree.slot[:count]] for table in tree.child_values_total)
    arrays = own | dict(visits=visits, policy=policy, child_values_total=below)
    return types.SimpleNamespace(count=count, **jax.tree.map(np.asarray, arrays))


def visits_of_root(tree):
    """Simulations that took an action of either player there."""
    return tuple(int(visits[0].sum()) for visits in tree.visits)


def existing_children(tree):
    """Which children the public states of nodes have, `[E, K]`."""
    return np.asarray(jax.vmap(endgame()[0].child_mask)(tree.state))


@pytest.mark.parametrize("expand", [1, 2])
def test_nodes_start_with_their_best_children_and_get_others_one_by_one(expand):
    tree = first_tree(expand=expand)
    added, possible = tree.exists, existing_children(tree)
    assert 10 < tree.count <= 61
    assert (added[0] == possible[0]).all()  # a tree begins with all children of its root
    assert not (added & ~possible).any()
    at_first = [np.isin(np.arange(CELLS), np.flatnonzero(x)[:expand]) for x in possible]
    at_first = np.array(at_first) & possible
    assert (added | ~at_first).all()
    # simulations end the game, add a node with k children, or add one child
    later = (added & ~at_first)[1:].sum()
    assert 5 < later <= 60 - (tree.count - 1)


@pytest.mark.parametrize("expand", [1, 2, None])
def test_nodes_are_children_that_were_added(expand):
    table, _ = endgame()
    tree = first_tree(expand=expand)
    if expand is None:
        np.testing.assert_array_equal(tree.exists, existing_children(tree))
    successors = np.asarray(table.successors)[tree.state]
    ends = np.asarray(table.actors)[np.maximum(successors, 0)] == TERMINAL
    nodes = tree.node >= 0
    assert not (nodes & (ends | ~tree.exists)).any()
    np.testing.assert_array_equal(tree.state[tree.node[nodes]], successors[nodes])
    assert visits_of_root(tree) == (0, 60)


def test_actions_do_not_exist_for_cfr_before_they_were_added():
    tree = first_tree(expand=1)
    absent = ~tree.exists
    actor = np.asarray(endgame()[0].actors)[tree.state]
    for player in range(2):
        policy = tree.policy[player]
        assert not policy[absent].any()
        assert not tree.child_values_total[player][absent].any()
        np.testing.assert_allclose(policy.sum(axis=(1, 2)), actor == player, rtol=1e-5)


def test_full_trees_get_no_further_children():
    """Of 120 simulations, each of which would add a child or a node with two."""
    table, _ = endgame()
    how = settings(expand=2, children=1.0)
    problem = continual_resolving.first_problem(table, max_path=1)

    @jax.jit
    def run():
        problems = jax.tree.map(lambda x: jnp.asarray(x)[None], problem)
        state = growing_tree_cfr.start(table, None, problems=problems, settings=how)
        noise = growing_tree_cfr.noise_of_walks(jax.random.split(jax.random.key(0), 1), state, how)

        def phase(i, state):
            state = regret_phase.iterate(table, None, state, settings=how)
            return expansion_phase.simulate(
                table, None, noise[:, i % how.simulations], state, settings=how
            )

        return jax.lax.fori_loop(0, 2 * how.simulations, phase, state)

    state = run()
    assert int(state.forest.slots[0]) == state.layout.slots < 100


@pytest.mark.parametrize("expand", [1, 2, None])
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


@pytest.mark.parametrize("expand", [2, None])
def test_long_axes_are_the_same_as_unrolled_ones(expand, monkeypatch):
    """Games with many actions, such as chess, take other operations for the same sums."""
    table, _ = endgame()
    problem = continual_resolving.first_problem(table, max_path=1)

    def found():
        run = lambda key: growing_tree_cfr.search(  # noqa: E731
            table, None, key, problem=problem, settings=settings(expand=expand, simulations=40)
        )
        return jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(1), 3))

    unrolled = found()
    for module in (arrays, expansion_phase, forest, forest_growth, regret_phase):
        monkeypatch.setattr(module, "LONG", 4)
    chex.assert_trees_all_close(found(), unrolled, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_as_many_as_there_are_is_all():
    """Without PUCT, for which a node that starts with some children has been visited once."""
    some, every = (first_tree(expand=k, cfr_share=1.0) for k in (CELLS, None))
    for name in ("count", "parent", "node", "visits", "policy", "child_values_total"):
        chex.assert_trees_all_close(getattr(some, name), getattr(every, name), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("expand", "asks"), [(1, 1), (None, CELLS)])
def test_steps_of_a_search(expand, asks):
    """The evaluator is asked where the tree grows, in no iteration, and says the same there as if
    it were asked again; nothing is removed."""
    table, _ = endgame()
    asked = []

    def counting(params, game, state, reach):
        jax.debug.callback(asked.append, state)
        return by_index(params, game, state, reach)

    how = settings(evaluate=counting, expand=expand)
    start, iterate, simulate = (
        jax.jit(functools.partial(step, table, None, settings=how))
        for step in (growing_tree_cfr.start, regret_phase.iterate, expansion_phase.simulate)
    )
    finish = jax.jit(growing_tree_cfr.finish)
    calls = lambda: (jax.effects_barrier(), len(asked), asked.clear())[1]  # noqa: E731
    problem = continual_resolving.first_problem(table, max_path=1)
    state = start(problems=jax.tree.map(lambda x: jnp.asarray(x)[None], problem))
    assert calls() == 1 + 2 * CELLS
    noise = growing_tree_cfr.noise_of_walks(jax.random.split(jax.random.key(0), 1), state, how)
    for number in range(12):
        policies, state = state, iterate(state)
        assert calls() == 0
        before, state = state, simulate(noise[:, number], state)
        assert calls() == asks
        earlier, later = (jax.tree.map(lambda x: x[0], finish(x).tree) for x in (before, state))
        assert visits_of_root(by_node(later)) == (0, number + 1)
        earlier_exists, later_exists = (np.asarray(x.exists) for x in (earlier, later))
        assert ((np.asarray(earlier.node) >= 0) <= (np.asarray(later.node) >= 0)).all()
        assert (earlier_exists <= later_exists).all()
        if expand is not None:
            new = int((later_exists & ~earlier_exists).sum()) + int(later.count - earlier.count)
            assert new in (0, 1, 2)  # an end, a child, or a node with a child
    check_leaves(table, policies.forest, before)


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


def test_virtual_losses_spread_the_simulations_between_two_iterations():
    """All cells promise the same, and nothing else counts: without, all would take the first."""
    _, searches = search(
        evaluate=leaf_evaluators.zero, simulations=6, pace=6.0, exploration=0.0, cfr_share=0.0
    )
    visits = by_node(jax.tree.map(lambda x: x[0], searches.tree)).visits
    assert visits[1][0, :, 0].tolist() == [0, 0, 1, 1, 0, 1, 1, 1, 1]
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


@pytest.mark.parametrize(("changes", "losses"), [({}, 0), ({"exploration": 3.0}, 2)])
def test_half_of_the_simulations_follow_puct_and_half_the_average_policy(changes, losses):
    """In Kuhn poker, at an information state with random statistics, by the paper's formula."""
    cases, keys, share = 60, 400, 0.5
    table = belief_table(make("kuhn_poker"))
    how = GrowingTreeCfr(leaf_evaluators.zero, simulations=1, max_path=1, **changes)
    problem = continual_resolving.first_problem(table, max_path=1)
    problems = jax.tree.map(lambda x: jnp.broadcast_to(x, (keys, *jnp.shape(x))), problem)
    state = growing_tree_cfr.start(table, None, problems=problems, settings=how)
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
