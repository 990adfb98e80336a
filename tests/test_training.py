"""Sound self-play: queries, their solutions, episodes and the training step."""

import functools
from unittest import mock

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from belief_cases import listed_policy
from flax import nnx

from jaxgames.arrays import at
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.core import TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from nets import cvpn
from solvers import cfr
from solvers.evaluation import belief_exploitability
from solvers.search import continual_resolving, growing_tree_cfr, leaf_evaluators
from solvers.search.readouts import logged_queries
from solvers.search.search_state import GrowingTreeCfr
from solvers.sequence_form import build_sequence_form
from train import queries, self_play, student_of_games_training
from train.learner import LearnerSettings, require_finite_losses


@functools.cache
def compiled(name):
    tree = enumerate_game(make(name))
    table = belief_table(tree)
    return tree, table, list_public_states(table)


def query(number):
    reach = jnp.full(3, float(number)), jnp.full(1, -float(number))
    return queries.Query(state=jnp.int32(number), reach=reach)


def batch_of(numbers):
    return jax.tree.map(lambda *x: jnp.stack(x), *map(query, numbers))


class TestQueue:
    def test_first_in_first_out(self):
        queue = queries.new_queue(query(0), 8)
        queue = queries.push(queue, batch_of([1, 2, 3]), jnp.array([True, False, True]))
        queue = queries.push(queue, batch_of([4, 5]), jnp.array([True, True]))
        queue, batch, exists = queries.pop(queue, 3)
        chex.assert_trees_all_equal(batch, batch_of([1, 3, 4]))
        assert exists.all()
        queue, batch, exists = queries.pop(queue, 3)
        assert (int(batch.state[0]), exists.tolist()) == (5, [True, False, False])
        assert int(queue.size) == 0

    def test_a_full_queue_forgets_the_oldest(self):
        queue = queries.new_queue(query(0), 4)
        for begin in (1, 4):
            queue = queries.push(queue, batch_of(range(begin, begin + 3)), jnp.ones(3, bool))
        _, batch, exists = queries.pop(queue, 4)
        chex.assert_trees_all_equal(batch, batch_of([3, 4, 5, 6]))
        assert exists.all()

    def test_bad_sizes(self):
        with pytest.raises(ValueError, match="capacity=0 must be at least 1"):
            queries.new_queue(query(0), 0)
        with pytest.raises(ValueError, match="a batch of 3 queries needs a queue of as many: 2"):
            queries.push(queries.new_queue(query(0), 2), batch_of([1, 2, 3]), jnp.ones(3, bool))


def test_a_queue_that_a_step_would_overflow_is_refused():
    search = GrowingTreeCfr(leaf_evaluators.zero, simulations=1)
    sizes = dict(search=search, learner=LearnerSettings(), updates=1, queries_per_search=1.5)
    make_settings = functools.partial(student_of_games_training.StudentOfGamesSettings, **sizes)
    make_settings(episodes=4, solves=3, queue_capacity=8)
    for name, number in (("episodes", 5), ("solves", 5)):
        message = f"queue_capacity=8 must be at least 10, the queries that {name}={number} can add"
        with pytest.raises(ValueError, match=message):
            make_settings(**(dict(episodes=4, solves=3, queue_capacity=8) | {name: number}))


def test_searches_of_training_have_room_for_a_move():
    search = GrowingTreeCfr(leaf_evaluators.zero, simulations=1, max_path=0)
    with pytest.raises(ValueError, match=r"search\.max_path=0 must be at least 1"):
        student_of_games_training.StudentOfGamesSettings(
            search=search, learner=LearnerSettings(), episodes=1, solves=1, updates=1
        )


def search_of(game, key, query, settings):
    problem = continual_resolving.fixed_problem(
        query.state, query.reach, max_path=settings.max_path
    )
    search = growing_tree_cfr.search(game, None, key, problem=problem, settings=settings)
    return queries.solved_example(game, query, search), search


@pytest.mark.slow
def test_exact_solving_reproduces_exact_values():
    """At the beliefs of an equilibrium, a search of everything below has the game's values."""
    tree, table, states = compiled("kuhn_poker")
    public = build_sequence_form(tree)
    solved = cfr.run(public, cfr.init(public), solver=cfr.cfr_plus(), num_iterations=2000)
    policy = listed_policy(table, states, cfr.average_policy(public, solved))
    reach, _ = belief_exploitability.reach_and_values(table, states, policy)
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=100, pace=0.02, max_path=1)
    root = queries.Query(state=states.state[0], reach=at(reach, 0))
    run = jax.jit(jax.vmap(lambda key: search_of(table, key, root, settings)[0]))
    examples = run(jax.random.split(jax.random.key(0), 16))
    # before all is expanded, leaves count as 0: how long that lasts is a matter of chance
    worth = np.stack([examples.values[p] @ root.reach[p] for p in range(2)], axis=1)
    np.testing.assert_allclose(worth.mean(axis=0), [-1 / 18, 1 / 18], atol=2e-3)
    np.testing.assert_allclose(worth, np.broadcast_to([-1 / 18, 1 / 18], (16, 2)), atol=2e-2)


@pytest.mark.slow
def test_queries_are_public_states_that_a_player_reaches():
    """Every query is a public state below the root where the game goes on.

    A player who does not reach it has all its rows there, as the network sees it.
    """
    _, table, _ = compiled("leduc_poker")
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=10, max_path=2, logged_queries=3)
    first = continual_resolving.first_problem(table, max_path=2)
    root = queries.Query(state=first.state, reach=first.reach)

    @jax.jit
    @jax.vmap
    def sampled(key):
        search = search_of(table, key, root, settings)[1]
        return queries.searched_queries(table, search), logged_queries(search)[1]

    (sample, exists), logged = sampled(jax.random.split(jax.random.key(0), 64))
    assert exists.mean() > 0.5
    sample, logged = jax.tree.map(lambda x: x[exists], (sample, logged))
    for seen, own, rows in zip(
        sample.reach, logged, jax.vmap(table.rows)(sample.state), strict=True
    ):
        unreached = ~np.any(own > 0, axis=1)
        assert 0 < unreached.mean() < 1
        np.testing.assert_array_equal(seen, np.where(unreached[:, None], rows, own))
    assert len(np.unique(sample.state)) > 2
    actor = np.asarray(table.actors)[np.asarray(sample.state)]
    assert (actor != TERMINAL).all()
    assert all((reach <= 1 + 1e-6).all() for reach in sample.reach)


def network(name, settings):
    _, table, _ = compiled(name)
    graph, params = nnx.split(cvpn.new_cvpn(table, seed=0, width=16, depth=1))
    search = GrowingTreeCfr(cvpn.CvpnEvaluator(graph), simulations=4, max_path=2)
    return (
        table,
        graph,
        params,
        student_of_games_training.StudentOfGamesSettings(search=search, **settings),
    )


SMALL = dict(
    learner=LearnerSettings(batch_size=8, capacity=64, learning_rate=1e-2),
    episodes=4,
    solves=3,
    updates=2,
    queue_capacity=8,
)


@functools.cache
def trained(steps):
    table, graph, params, settings = network("kuhn_poker", SMALL)
    state = student_of_games_training.init(table, params, jax.random.key(0), settings=settings)
    metrics, once = None, chex.assert_max_traces(student_of_games_training._search, n=1)
    with mock.patch.object(student_of_games_training, "_search", once):
        for _ in range(steps):
            state, metrics = student_of_games_training.train_step(
                table, graph, state, settings=settings
            )
    return params, state, metrics


def test_a_step_does_all():
    params, state, metrics = trained(12)
    assert int(state.step) == 12
    assert int(state.learner.step) == 24
    assert 0 < int(state.replay.size) <= 64
    chex.assert_tree_all_finite(metrics)
    # four games side by side of two or three moves each
    assert 4 * 12 // 3 <= int(state.games) <= 4 * 12 // 2
    assert 0 <= int(metrics["games"]) <= 4
    moved = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), params, state.learner.params)
    assert max(jax.tree.leaves(moved)) > 0


@pytest.mark.slow
def test_a_step_without_queries_makes_no_further_searches():
    """It learns the same as if it searched in vain."""
    found = []
    for solves in (0, 3):
        changes = dict(solves=solves, queries_per_search=0.0, queries_per_solve=0.0)
        table, graph, params, settings = network("kuhn_poker", SMALL | changes)
        state = student_of_games_training.init(table, params, jax.random.key(0), settings=settings)
        search = mock.Mock(wraps=student_of_games_training._search)
        with mock.patch.object(student_of_games_training, "_search", search):
            for _ in range(3):
                state, metrics = student_of_games_training.train_step(
                    table, graph, state, settings=settings
                )
        _, (_, (keys, _)) = search.call_args.args
        assert len(keys) == solves
        assert int(metrics["solved"]) == 0
        found.append(state)
    chex.assert_trees_all_close(found[0].learner, found[1].learner, rtol=1e-5)
    assert int(found[0].replay.size) == int(found[1].replay.size) == 4 * 3


@pytest.mark.slow
def test_training_is_reproducible():
    _, first, _ = trained(12)
    trained.cache_clear()
    _, second, _ = trained(12)
    chex.assert_trees_all_equal(first.learner, second.learner)


def test_losses_that_are_not_finite_are_shown_and_stop_a_run():
    """Those of the first update that could not be made, though the last had nothing to learn."""
    table, graph, params, settings = network("kuhn_poker", SMALL)
    state = student_of_games_training.init(table, params, jax.random.key(0), settings=settings)
    state, metrics = student_of_games_training.train_step(table, graph, state, settings=settings)
    require_finite_losses(metrics, 0)
    poisoned = jax.tree.map(lambda x: x * jnp.nan, state.learner.params)
    state = state.replace(learner=state.learner.replace(params=poisoned))
    state, metrics = student_of_games_training.train_step(table, graph, state, settings=settings)
    with pytest.raises(FloatingPointError, match=r"step 1: not finite: values, .*gradient"):
        require_finite_losses(metrics, 1)


@pytest.mark.slow
def test_episodes_go_on_to_states_where_somebody_acts():
    _, table, _ = compiled("leduc_poker")
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=3, max_path=2)
    rules = self_play.SelfPlaySettings(exploration=0.5)

    @jax.jit
    @jax.vmap
    def step(key, episode):
        search_key, move_key = jax.random.split(key)
        search = growing_tree_cfr.search(
            table, None, search_key, problem=episode.problem, settings=settings
        )
        after, examples, exists = self_play.go_on(table, move_key, episode, search, settings=rules)
        return after, search, examples, exists

    keys = jax.random.split(jax.random.key(0), 16)
    new = functools.partial(self_play.new_episode, table, max_path=2, settings=rules)
    episodes = jax.vmap(new)(keys)
    seen, ended = set(), 0
    for number in range(12):
        episodes, searches, examples, exists = step(
            jax.random.split(jax.random.key(number + 1), 16), episodes
        )
        target = searches.tree.state[jnp.arange(16), searches.target]
        actor = np.asarray(table.actors)[np.asarray(target)]
        assert (actor >= 0).all()
        assert exists.all()
        example = jax.tree.map(lambda x: x[:, 0], examples)
        for policy, legal in zip(example.policy, example.legal, strict=True):
            np.testing.assert_allclose(policy.sum(axis=1), legal.any(axis=1), rtol=1e-5)
        seen |= set(np.asarray(table.depth)[np.asarray(target)].tolist())
        ended += int((np.asarray(target) == int(table.first)).sum())
    assert max(seen) >= 5
    assert ended > 16
    assert all((played >= 0).all() for played in episodes.played)
    assert all(played.any(axis=1).all() for played in episodes.played)


@pytest.mark.parametrize(
    ("of_search", "of_solve", "room"), [(0.9, 0.1, 1), (1.5, 0.1, 2), (0.3, 2.1, 3), (0, 0, 1)]
)
def test_there_is_room_for_the_queries_of_a_search(of_search, of_solve, room):
    """Their mean number is a whole number of draws times a probability."""
    changes = {"queries_per_search": float(of_search), "queries_per_solve": float(of_solve)}
    changes |= {"queue_capacity": 12}
    *_, settings = network("kuhn_poker", SMALL | changes)
    assert settings.most_queries == room


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"episodes": 0}, "episodes=0 must be at least 1"),
        ({"solves": 0}, "solves=0 must be at least 1"),
        ({"solves": -1, "queries_per_search": 0.0}, "solves=-1 must be at least 0"),
        ({"queries_per_search": -1.0}, "queries_per_search=-1.0 must be at least 0 and finite"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        network("kuhn_poker", SMALL | changes)
