"""Leaves that are valued again only where beliefs have moved."""

import collections
import dataclasses
import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy import stats

from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs import belief_table
from jaxgames.core import TERMINAL
from jaxgames.registry import make
from nets import cvpn
from solvers.search import (
    expansion_phase,
    forest_growth,
    growing_tree_cfr,
    leaf_evaluators,
    readouts,
    regret_phase,
)
from solvers.search.continual_resolving import first_problem
from solvers.search.forest import reach_at
from solvers.search.kept_leaves import _distance, revalued
from solvers.search.search_state import GrowingTreeCfr

GLASSES = "scotland_yard(map=glasses,rounds=2)"  # rows change their numbers
BEYOND = 3.0  # no belief moves so far
SEARCHES = 4


@functools.cache
def game_of(name, dtype):
    with jax.enable_x64(dtype == "float64"):
        return belief_table(make(name), dtype=dtype)


def cast(tree, dtype):
    return jax.tree.map(lambda x: x.astype(dtype) if x.dtype == jnp.float32 else x, tree)


@functools.cache
def searched(name, tolerance, searches=SEARCHES):
    """Searches with a network; large ones in float64, since rounding soon makes other trees."""
    dtype = "float64" if name == "leduc_poker" else "float32"
    game = game_of(name, dtype)
    with jax.enable_x64(dtype == "float64"):
        network = cvpn.new_cvpn(game, seed=0, width=16, depth=1)
        graph, params = nnx.split(network)
        settings = GrowingTreeCfr(
            cvpn.CvpnEvaluator(graph),
            simulations=30,
            max_path=1,
            logged_queries=1,
            belief_tolerance=tolerance,
        )
        search = functools.partial(
            growing_tree_cfr.search,
            game,
            cast(params, dtype),
            problem=cast(first_problem(game, max_path=1), dtype),
            settings=settings,
        )
        keys = jax.random.split(jax.random.key(0), SEARCHES)[:searches]
        found = jax.jit(jax.vmap(lambda key: search(key)))(keys)
        return found, jax.vmap(readouts.average_policy)(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["leduc_poker", GLASSES])
def test_a_tiny_tolerance_changes_nothing(name):
    exact, kept = (searched(name, tolerance) for tolerance in (0.0, 1e-9))
    chex.assert_trees_all_close(kept[1], exact[1], atol=1e-5)
    assert (kept[0].log.calls <= exact[0].log.calls).all()


@pytest.mark.slow
@pytest.mark.parametrize("tolerances", [(0.0, 0.3), (0.0, 1e-9, 0.3, BEYOND)])
def test_calls_fall_with_the_tolerance(tolerances):
    calls = [int(searched("leduc_poker", tolerance)[0].log.calls.sum()) for tolerance in tolerances]
    assert calls == sorted(calls, reverse=True)
    assert len(set(calls)) == len(calls)


@pytest.mark.slow
def test_a_batch_makes_the_calls_of_single_searches():
    batch, single = (searched("leduc_poker", 0.3, searches=n) for n in (SEARCHES, 1))
    assert batch[0].log.calls[0] == single[0].log.calls[0]
    chex.assert_trees_all_close(
        jax.tree.map(lambda x: x[0], batch[1]), jax.tree.map(lambda x: x[0], single[1]), atol=1e-9
    )


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The zero evaluator, which writes down what it is asked in regret phases."""

    calls: list = dataclasses.field(default_factory=list, compare=False)

    def __call__(self, params, game, state, reach):
        return leaf_evaluators.zero(params, game, state, reach)

    def prepare(self, params, game, state):
        return state

    def prepared_values(self, params, game, state, prepared, reach):
        jax.debug.callback(lambda *call: self.calls.append(call), prepared, state, *reach)
        return jax.tree.map(jnp.zeros_like, reach)


class SameEvaluator(cvpn.CvpnEvaluator):
    """Another type, so that a search with it is compiled anew."""


@pytest.mark.slow
def test_new_leaves_are_prepared_some_at_a_time(monkeypatch):
    """How many at a time does not matter."""
    game = game_of("leduc_poker", "float32")
    graph, params = nnx.split(cvpn.new_cvpn(game, seed=0, width=8, depth=2))
    problem, found = first_problem(game, max_path=1), []
    for each, evaluator in ((64, cvpn.CvpnEvaluator), (1, SameEvaluator)):
        monkeypatch.setattr(forest_growth, "_PREPARED_AT_ONCE", each)
        settings = GrowingTreeCfr(evaluator(graph), simulations=8, max_path=1)
        search = jax.jit(functools.partial(growing_tree_cfr.search, settings=settings))
        searched = search(game, params, jax.random.key(0), problem=problem)
        found.append(readouts.average_policy(searched))
    chex.assert_trees_all_close(*found, atol=1e-5)


@functools.cache
def recorded(tolerance):
    """A search in Leduc, its game, and the evaluator's calls: states and beliefs."""
    game, evaluate = game_of("leduc_poker", "float32"), Recorded()
    settings = GrowingTreeCfr(
        evaluate, simulations=8, max_path=1, logged_queries=4000, belief_tolerance=tolerance
    )
    problem = first_problem(game, max_path=1)
    search = functools.partial(growing_tree_cfr.search, game, None, settings=settings)
    found = jax.jit(lambda key: search(key, problem=problem))(jax.random.key(2))
    jax.effects_barrier()
    assert all(prepared == state for prepared, state, *_ in evaluate.calls)
    calls = [(int(s), np.concatenate(r)) for _, s, *r in evaluate.calls]
    return game, found, [call for call in calls if call[0] >= int(game.root())]  # no padding


@pytest.mark.slow
def test_beyond_the_largest_distance_a_leaf_is_valued_when_players_begin_or_cease_to_come():
    """And as soon as it is there: all but those of the last simulation, also where other leaves
    were before."""
    game, found, calls = recorded(BEYOND)
    states = np.asarray(found.tree.state[: int(found.tree.count) - 1])
    children = np.asarray(game.successors)[states]
    children = children[children >= 0]
    leaves = children[np.asarray(game.actors)[children] != TERMINAL]
    come = collections.defaultdict(list)  # by leaf, who comes there at its valuations
    rows = game.num_rows[0]
    for state, belief in calls:
        come[state].append((belief[:rows].any(), belief[rows:].any()))
    assert sorted(come) == sorted(leaves.tolist())
    for each in come.values():
        assert all(before != after for before, after in itertools.pairwise(each))
    assert int(found.log.calls) == len(calls) > len(come) > 20


@pytest.mark.slow
def test_every_query_is_a_call_that_was_made_and_all_are_equally_likely():
    """Calls that cannot be told apart are counted together."""
    _, found, calls = recorded(0.3)
    made = collections.Counter(name_of(state, belief) for state, belief in calls)
    assert int(found.log.calls) == len(calls) == made.total()
    reach = np.concatenate(
        [x / np.maximum(x.sum(axis=1, keepdims=True), 1e-30) for x in found.log.reach], axis=1
    )
    logged = collections.Counter(map(name_of, np.asarray(found.log.state), reach))
    assert logged.keys() == made.keys()
    expected = [count * logged.total() / made.total() for count in made.values()]
    assert stats.chisquare([logged[name] for name in made], expected).pvalue > 1e-3


def name_of(state, belief):
    return int(state), tuple(np.round(belief, 3) + 0.0)


def test_leaves_are_valued_where_beliefs_moved_since_they_were_valued_last():
    game, tolerance = game_of("leduc_poker", "float32"), 0.1
    settings = GrowingTreeCfr(
        leaf_evaluators.zero,
        simulations=12,
        max_path=1,
        logged_queries=1,
        belief_tolerance=tolerance,
    )
    problem = first_problem(game, max_path=1)
    problems = jax.tree.map(lambda x: jnp.broadcast_to(x, (2, *x.shape)), problem)

    @jax.jit
    def run(keys):
        state = growing_tree_cfr.start(game, None, problems=problems, settings=settings)
        noise = growing_tree_cfr.noise_of_walks(keys, state, settings)

        def phase(i, state):
            state = regret_phase.iterate(game, None, state, settings=settings)
            return expansion_phase.simulate(game, None, noise[:, i], state, settings=settings)

        return jax.lax.fori_loop(0, 12, phase, state)

    state = run(jax.random.split(jax.random.key(0), 2))
    before, layout = state.forest, state.layout
    moves = [jax.random.uniform(jax.random.key(p), before.reach[p].shape) for p in range(2)]
    reach = tuple(x * (y + 0.5) for x, y in zip(before.reach, moves, strict=True))
    lists = zip(np.asarray(before.leaves.place), before.leaves.count, strict=True)
    place = np.concatenate([places[:count] for places, count in lists])
    leaf = place - layout.inner
    valued = jnp.zeros_like(before.kept.valued).at[leaf].set(before.kept.valued[leaf])
    before = before.replace(reach=reach, kept=before.kept.replace(valued=valued))

    def evaluate(states, prepared, reach):
        assert prepared is None
        return tuple(x + states[:, None].astype(x.dtype) for x in reach)

    after, called = jax.jit(lambda forest: revalued(forest, layout, evaluate, tolerance=tolerance))(
        before
    )
    reach = map(np.asarray, reach_at(before, jnp.asarray(place), before.reach))
    now = [x / np.maximum(x.sum(1, keepdims=True), 1e-30) for x in reach]
    old = [x[leaf] for x in before.kept.beliefs]
    distance = np.max([np.abs(x - y).sum(1) for x, y in zip(now, old, strict=True)], axis=0)
    moved = ~np.asarray(before.kept.valued)[leaf] | (distance > tolerance)
    np.testing.assert_array_equal(np.asarray(called)[leaf], moved)
    assert int(called.sum()) == moved.sum()  # no others
    assert 5 < moved.sum() < len(moved) - 5
    worth = [x + np.asarray(before.state)[place][:, None] for x in now]
    for new, kept, expected in (
        *zip(after.kept.beliefs, before.kept.beliefs, now, strict=True),
        *zip(after.kept.values, before.kept.values, worth, strict=True),
    ):
        expected = np.where(moved[:, None], expected, kept[leaf])
        np.testing.assert_allclose(new[leaf], expected, rtol=1e-6, atol=1e-6)
    assert after.kept.valued[leaf].all()


def test_whoever_did_not_come_before_is_far_from_all_beliefs():
    """Values that were kept where a player never comes are 0, and do not scale."""
    nobody, first, second = np.zeros((1, 3)), np.eye(3)[:1], np.eye(3)[1:2]
    for belief, before, distance in (
        (first, nobody, np.inf),
        (nobody, first, np.inf),
        (nobody, nobody, 0),
        (first, first, 0),
        (first, second, 2),
    ):
        assert _distance(jnp.asarray(belief), jnp.asarray(before)) == distance


def test_with_perfect_information_leaves_are_valued_once_anyway():
    game = pgx_beliefs("tic_tac_toe")
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=4, belief_tolerance=0.1)
    problem = first_problem(game, max_path=settings.max_path)
    with pytest.raises(ValueError, match=r"belief_tolerance=0.1 is for games with several rows"):
        growing_tree_cfr.search(game, None, jax.random.key(0), problem=problem, settings=settings)
