"""Growing-tree CFR (GT-CFR; Schmid et al. 2023, "Student of Games").

A search alternates between a regret phase, CFR on the public tree that it has, with leaves valued
by an evaluator at the beliefs of the current policies, and an expansion phase, simulations that
walk down from the state it acts at and add a leaf's children to the tree.

`search` is a pure function of one search. Under `jax.vmap` all searches of the batch become one
forest (`solvers.search.forest`), whose levels are swept together; with `GrowingTreeCfr.expand`,
they have the trees of `solvers.search.lazy_trees`. `start`, `iterate`, `simulate` and `finish` are
the steps of both, for a batch.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, Key, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.debug import checked
from solvers.search import (
    expansion_phase,
    forest_search,
    lazy_search,
    leaf_evaluators,
    regret_phase,
)
from solvers.search.lazy_trees import LazyTrees
from solvers.search.query_log import start_log
from solvers.search.search_state import GrowingTreeCfr, Problem, Search, Searches
from solvers.value_checks import check_search


@checked(check_search)
def search(
    game: BeliefGame,
    params: PyTree,
    key: Key[Array, ""],
    *,
    problem: Problem,
    settings: GrowingTreeCfr,
) -> Search:
    """Searches one problem from beginning to end.

    Args:
      game: any belief-level game.
      params: of the evaluator, such as a network's.
      key: consumed.
      problem: what to search, see `continual_resolving`.
      settings: how to search. Static under `jit`.

    Returns:
      The finished search; `solvers.search.readouts` reads it.

    Raises:
      ValueError: `problem.path` is longer than `settings.max_path`, or `settings.expand` or
        `settings.belief_tolerance` is not for this game.
    """
    own = jax.random.fold_in(key, 0)  # a batch uses its keys up
    return batched(_search_batch, settings)(game, params, own, problem)


def begin(game: BeliefGame, *, problem: Problem, settings: GrowingTreeCfr) -> Search:
    """A search that ends before its first iteration: its tree is the problem's path, and the
    children of all states there.

    Args:
      game: any belief-level game.
      problem: what to search.
      settings: how to search; its evaluator is not asked.

    Returns:
      The search.
    """
    return batched(_begin_batch, settings)(game, None, jax.random.key(0), problem)


@functools.lru_cache(maxsize=256)
def batched(function: Callable, settings: Hashable) -> Callable:
    """A function of one search from one of a batch of searches, which `jax.vmap` runs at once.

    Args:
      function: `function(game, params, keys, problems, settings)` of a batch `[B, ...]`.
      settings: its last argument.

    Returns:
      A function of `(game, params, key, problem)`. Under `vmap`, searches that share the game and
      the parameters are one batch; others run one after the other.
    """

    @jax.custom_batching.custom_vmap
    def run(game, params, keys, problems):
        return function(game, params, keys, problems, settings)

    @run.def_vmap
    def rule(size, batched, game, params, keys, problems):
        own = any(jax.tree.leaves(batched[:2]))  # games or parameters of their own
        spread = lambda x, given: x if given else jnp.broadcast_to(x, (size, *x.shape))  # noqa: E731
        keys, problems = jax.tree.map(spread, (keys, problems), tuple(batched[2:]))
        if own:
            shared = jax.tree.map(spread, (game, params), tuple(batched[:2]))
            result = jax.lax.map(lambda given: run(*given), (*shared, keys, problems))
        else:
            # not -1: a path may have no steps
            merge = lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])  # noqa: E731
            flat = jax.tree.map(merge, (keys, problems))
            result = run(game, params, *flat)
            part = lambda x: x.reshape(size, x.shape[0] // size, *x.shape[1:])  # noqa: E731
            result = jax.tree.map(part, result)
        return result, jax.tree.map(lambda _: True, result)

    def run_one(game, params, key, problem):
        batch = jax.tree.map(lambda x: jnp.asarray(x)[None], (key, problem))
        return at(run(game, params, *batch), 0)

    return run_one


def _search_batch(game, params, keys, problems, settings):
    state = start(game, params, problems=problems, settings=settings)
    if settings.logged_queries:
        others = jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys)
        state = start_log(state, others, num_queries=settings.logged_queries)
    phases = settings.simulations // settings.expansions_per_phase
    return finish(run_phases(game, params, keys, state, settings=settings, begin=0, end=phases))


def run_phases(
    game: BeliefGame,
    params: PyTree,
    keys: Key[Array, " B"],
    state: Searches,
    *,
    settings: GrowingTreeCfr,
    begin: Int[ArrayLike, ""],
    end: Int[ArrayLike, ""],
) -> Searches:
    """Continues searches by some of their phases; the pieces do not change the searches.

    Args:
      game: of the searches.
      params: of the evaluator.
      keys: of the searches, the same for all their phases.
      state: of `start`, or of this function.
      settings: of the searches, which have `simulations // expansions_per_phase` phases. Static
        under `jit`.
      begin: the number of phases so far.
      end: the number of phases afterwards.
    """
    lazy, together = settings.expand is not None, settings.expansions_per_phase
    # All random numbers are drawn at once, since on a CPU a draw costs as much as several steps;
    # but where trees may be deep, those of a phase.
    drawn = None if lazy else _forest_noise(keys, state, settings)

    def phase(i, state):
        # Regret phase: iterations of CFR on the trees as they are.
        state = jax.lax.fori_loop(
            0,
            settings.iterations_per_phase,
            lambda _, state: iterate(game, params, state, settings=settings),
            state,
        )
        # Expansion phase: simulations, each of which may add a node to every tree.
        return expansion(i, state)

    def expansion(i, state):
        count, settled = together, visits_so_far(state) if together > 1 else None
        if lazy:
            noise, first = _lazy_noise(keys, i, state, settings), 0
        else:
            noise, first = drawn, i * together
            # trees without leaves are complete: no simulation is needed
            count *= jnp.minimum(state.forest.num_leaves - state.forest.num_free, 1)

        def simulation(j, state):
            now = noise[:, first + j]
            return simulate(game, params, now, state, settings=settings, settled=settled)

        return jax.lax.fori_loop(0, count, simulation, state)

    return jax.lax.fori_loop(begin, end, phase, state)


def noise_of_walks(
    keys: Key[Array, " B"], state: Searches, settings: GrowingTreeCfr
) -> Float[Array, "B S ..."]:
    """The random numbers of all simulations of a batch of searches.

    Args:
      keys: of the searches, as `search` takes them.
      state: the searches.
      settings: of the searches.
    """
    keys = jax.vmap(lambda key: jax.random.fold_in(key, 0))(keys)
    if settings.expand is None:
        return _forest_noise(keys, state, settings)
    phases = jnp.arange(settings.simulations // settings.expansions_per_phase)
    noise = jax.vmap(lambda i: _lazy_noise(keys, i, state, settings), out_axes=1)(phases)
    return noise.reshape(len(keys), -1, noise.shape[-1])  # [B, phases, c, D]


def _forest_noise(keys, state, settings):
    """Of all simulations."""
    count, dtype = settings.simulations, state.forest.since.dtype

    def draw(key):
        return expansion_phase.walk_noise(jax.random.fold_in(key, 0), state.layout, count, dtype)

    return jax.vmap(draw)(keys)


def _lazy_noise(keys, phase, state, settings):
    """Of the simulations of one phase."""
    count, dtype = settings.expansions_per_phase, state.forest.since.dtype

    def draw(key):
        own = jax.random.fold_in(jax.random.fold_in(key, 0), phase)
        return lazy_search.walk_noise(own, state.layout, count, dtype)

    return jax.vmap(draw)(keys)


def iterate(
    game: BeliefGame, params: PyTree, state: Searches, *, settings: GrowingTreeCfr
) -> Searches:
    """One iteration of CFR of all searches; see `regret_phase.iterate`."""
    step = regret_phase.iterate if settings.expand is None else lazy_search.iterate
    return step(game, params, state, settings=settings)


def simulate(
    game: BeliefGame,
    params: PyTree,
    noise: Float[Array, "B ..."],
    state: Searches,
    *,
    settings: GrowingTreeCfr,
    settled: PyTree = None,
) -> Searches:
    """One simulation of every search; see `expansion_phase.simulate`.

    Args:
      game: of the searches.
      params: of the evaluator.
      noise: of `noise_of_walks`, of one simulation.
      state: of the searches.
      settings: of the searches. Static under `jit`.
      settled: `visits_so_far` at the last iteration, if there were simulations since then.
    """
    step = expansion_phase.simulate if settings.expand is None else lazy_search.simulate
    return step(game, params, noise, state, settings=settings, settled=settled)


def visits_so_far(state: Searches) -> PyTree:
    """The visits of all actions."""
    if isinstance(state.forest, LazyTrees):
        return state.forest.visits
    return tuple(tables.visits for tables in state.forest.decisions)


def _begin_batch(game, params, keys, problems, settings):
    unasked = dataclasses.replace(settings, evaluate=leaf_evaluators.zero)
    return finish(start(game, params, problems=problems, settings=unasked))


def start(
    game: BeliefGame,
    params: PyTree,
    *,
    problems: Problem,
    settings: GrowingTreeCfr,
    listed: bool = False,
) -> Searches:
    """Searches before their first iteration.

    See `forest_search.start`; with `settings.expand`, `lazy_search.start`.

    Args:
      game: any belief-level game.
      params: of the evaluator.
      problems: what to search, `[B, ...]`.
      settings: how to search. Static under `jit`.
      listed: whether the leaves of each search are listed, in `forest.leaves`.

    Returns:
      The searches, which `iterate` and `simulate` continue.

    Raises:
      ValueError: as `search`.
    """
    length = problems.path.shape[1]
    if length > settings.max_path:
        raise ValueError(f"path has {length} steps, more than max_path={settings.max_path}")
    if settings.belief_tolerance and game.num_rows == (1, 1):
        raise ValueError(
            f"belief_tolerance={settings.belief_tolerance} is for games with several rows; in"
            f" {game.name} leaves are valued once anyway; allowed: 0"
        )
    if settings.expand is not None:
        return lazy_search.start(game, params, problems=problems, settings=settings)
    return forest_search.start(game, params, problems=problems, settings=settings, listed=listed)


def finish(state: Searches) -> Search:
    """The searches as they are, each with a tree of its own.

    Args:
      state: B searches in progress.

    Returns:
      Finished searches `[B, ...]`.
    """
    own = lazy_search if isinstance(state.forest, LazyTrees) else forest_search
    return own.finish(state)
