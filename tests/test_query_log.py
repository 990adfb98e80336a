"""The log of a search's queries: each is a call that was made, and all calls are equally likely."""

import collections
import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from uneven_game import uneven_game

from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.arrays import at
from jaxgames.beliefs import belief_table
from jaxgames.core import TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers.search import growing_tree_cfr, leaf_evaluators, readouts
from solvers.search.continual_resolving import first_problem
from solvers.search.expansion_phase import simulate
from solvers.search.forest import NUMBER
from solvers.search.growing_tree_cfr import noise_of_walks
from solvers.search.query_log import start_log
from solvers.search.regret_phase import iterate
from solvers.search.search_state import GrowingTreeCfr

SETTINGS = GrowingTreeCfr(leaf_evaluators.zero, simulations=6, max_path=1, logged_queries=2)
SEED = 3


@functools.cache
def dice():
    return belief_table(enumerate_game(make("liars_dice(dice=1,sides=3)")))


GAMES = {
    "dice": dice,
    "tic_tac_toe": lambda: pgx_beliefs("tic_tac_toe"),
    "uneven": lambda: belief_table(uneven_game().tree),
}


def problem_of(game):
    return first_problem(game, max_path=1)


def batch_of(game, size):
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *jnp.shape(x))), problem_of(game))


@functools.cache
def stepped(num_keys=4000):
    """A search by hand, and its calls: (leaf, both reaches) of every leaf in every iteration.

    The reaches are computed from policies and children, node by node, with NumPy's help only. The
    same search is made for many keys of the log; the first one is looked at.
    """
    game, calls = dice(), []
    step = jax.jit(lambda s: iterate(game, None, s, settings=SETTINGS))
    grow = jax.jit(lambda noise, s: simulate(game, None, noise, s, settings=SETTINGS))
    down, finish = jax.jit(game.down), jax.jit(growing_tree_cfr.finish)

    @jax.jit
    def start(log_keys):
        problems = batch_of(game, num_keys)
        state = growing_tree_cfr.start(game, None, problems=problems, settings=SETTINGS)
        keys = jnp.broadcast_to(jax.random.key(SEED), num_keys)
        noise = noise_of_walks(keys, state, SETTINGS)
        return start_log(state, log_keys, num_queries=2), noise

    state, noise = start(jax.random.split(jax.random.key(1), num_keys))
    for number in range(SETTINGS.simulations):
        tree = jax.tree.map(lambda x: np.asarray(x[0]), finish(state).tree)
        reach = {0: at(state.problem.reach, 0)}
        for node in range(int(tree.count)):
            actor = int(game.actor(tree.state[node]))
            place = state.forest.nodes[0, node]
            row = state.forest.links[place, NUMBER]
            policy = tuple(
                jnp.where(actor == player, tables.policy[:, row], 0)
                for player, tables in enumerate(state.forest.decisions)
            )
            for child in np.flatnonzero(game.child_mask(tree.state[node])):
                below = down(tree.state[node], child, reach[node], policy)
                after = int(game.child(tree.state[node], int(child)))
                if tree.node[node, child] >= 0:
                    reach[int(tree.node[node, child])] = below
                elif int(game.actor(after)) != TERMINAL:
                    calls.append((after, np.concatenate(below)))
        state = grow(noise[:, number], step(state))
    return state, calls


def logged():
    """The log of that search, for many keys of the log."""
    return stepped()[0].log


def which_calls(log):
    """The numbers of the calls `[K, C]` that the log's queries are, or -1."""
    _, calls = stepped()
    state = np.array([state for state, _ in calls])
    reach = np.array([reach for _, reach in calls])
    logged_reach = np.concatenate(log.reach, axis=-1)[:, :, None]
    same = (np.asarray(log.state)[..., None] == state) & (
        np.abs(logged_reach - reach).max(axis=-1) < 1e-6
    )
    return np.where(same.any(axis=-1), same.argmax(axis=-1), -1)


@pytest.mark.slow
def test_every_query_is_a_call_with_the_beliefs_of_its_time():
    _, calls = stepped()
    log = logged()
    assert len(calls) == int(log.calls[0]) > 10
    numbers = which_calls(log)
    assert (numbers >= 0).all()
    distinct = {call.tobytes() for state, call in calls}
    assert len(distinct) > 5  # a leaf's reaches change while the search runs


def test_all_calls_are_equally_likely():
    """Calls that cannot be told apart are counted together."""
    _, calls = stepped()
    kinds = [next(j for j, b in enumerate(calls) if equal(a, b)) for a in calls]
    numbers = which_calls(logged())
    for place in range(2):
        seen = np.bincount(numbers[:, place], minlength=len(calls))
        expected = np.bincount(kinds, minlength=len(calls)) / len(calls)
        exists = expected > 0
        assert not seen[~exists].any()
        law = expected[exists] * len(numbers)
        assert stats.chisquare(seen[exists], law).pvalue > 1e-3


def equal(a, b):
    return a[0] == b[0] and np.abs(a[1] - b[1]).max() < 1e-6


def test_places_are_independent():
    """Both places hold the same call as often as two draws with replacement do."""
    numbers = which_calls(logged())
    share = np.bincount(numbers.reshape(-1)) / numbers.size
    together = np.mean(numbers[:, 0] == numbers[:, 1])
    expected = np.sum(share**2)
    assert abs(together - expected) < 4 * np.sqrt(expected / len(numbers))


def new_keys():
    return jax.random.split(jax.random.key(SEED), 3)


@functools.cache
def searched(name, num_queries, **changes):
    game = GAMES[name]()
    how = dataclasses.replace(SETTINGS, logged_queries=num_queries, **changes)
    run = functools.partial(
        growing_tree_cfr.search, game, None, problem=problem_of(game), settings=how
    )
    return run, jax.jit(jax.vmap(lambda key: run(key)))(new_keys())


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_the_log_changes_nothing_else(name):
    _, without = searched(name, 0)
    assert without.log is None
    chex.assert_trees_all_close(searched(name, 2)[1].replace(log=None), without, atol=1e-6)
    with pytest.raises(ValueError, match="its settings must have logged_queries > 0"):
        readouts.logged_queries(without)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_a_batch_logs_what_single_searches_log(name):
    run, batch = searched(name, 2)
    single = jax.jit(run)(new_keys()[1]).log
    of_batch = jax.tree.map(lambda x: x[1], batch.log)
    chex.assert_trees_all_close(single.replace(key=0), of_batch.replace(key=0), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("expand", [None, 1])
def test_with_perfect_information_a_leaf_is_logged_once_at_reach_1(expand):
    """Every child that was added to a node was a leaf once, and all of them are equally likely."""
    _, batch = searched("tic_tac_toe", 3000, expand=expand, simulations=3)
    game, search = pgx_beliefs("tic_tac_toe"), jax.jit(lambda batch: at(batch, 0))(batch)
    tree, log = search.tree, search.log
    assert all((reach == 1).all() for reach in log.reach)
    if expand is None:
        was_leaf = np.asarray(tree.exists)
        possible = np.asarray(jax.vmap(game.child_mask)(tree.state))[: tree.count]
        np.testing.assert_array_equal(was_leaf[: tree.count], possible)
        children = jax.tree.map(lambda x: x[was_leaf], jax.vmap(game.children)(tree.state))
    else:
        children = jax.tree.map(lambda x: x[1 : int(tree.count)], tree.state)
    called = collections.Counter(texts(children))  # positions may be reached in several ways
    assert int(log.calls) == called.total() > 3
    seen = collections.Counter(texts(log.state))
    assert seen.keys() == called.keys()
    expected = [count * seen.total() / called.total() for count in called.values()]
    assert stats.chisquare([seen[text] for text in called], expected).pvalue > 1e-3


def texts(states):
    """The positions as bytes."""
    return [board.tobytes() for board in np.asarray(states.pgx._x.board)]


def test_a_negative_number_of_queries_is_refused():
    with pytest.raises(ValueError, match="logged_queries=-1 must be at least 0"):
        dataclasses.replace(SETTINGS, logged_queries=-1)
