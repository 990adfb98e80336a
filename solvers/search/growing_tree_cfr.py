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

import functools
import math
from collections.abc import Callable, Hashable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.debug import checked
from solvers.search import expansion_phase, lazy_search, regret_phase
from solvers.search.expansion_phase import reach_of
from solvers.search.forest import (
    CHILD,
    NUMBER,
    PARENT,
    Layout,
    average_policies,
    decision_rows,
    new_forest,
)
from solvers.search.forest_growth import add_roots, expand, no_prior
from solvers.search.lazy_trees import LazyTrees
from solvers.search.query_log import start_log
from solvers.search.search_state import NO_STEP, Gadget, GrowingTreeCfr, Problem, Search, Searches
from solvers.search.search_tree import LEAF, SearchTree
from solvers.value_checks import check_search

_LARGEST_PAGE = 64  # places on a CPU, whose nearest cache larger pages leave
_LARGEST_CHUNK = 256  # leaves on a CPU


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
        state = start_log(game, state, others, num_queries=settings.logged_queries)
    lazy, together = settings.expand is not None, settings.expansions_per_phase
    # All random numbers are drawn at once, since on a CPU a draw costs as much as several steps;
    # but where trees may be deep, those of a phase.
    drawn = None if lazy else _forest_noise(keys, state, settings)
    phases = settings.simulations // together

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

    return finish(jax.lax.fori_loop(0, phases, phase, state))


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
    return finish(start(game, params, problems=problems, settings=settings))


def layout_of(
    game: BeliefGame, settings: GrowingTreeCfr, batch: int, *, listed: bool = False
) -> Layout:
    """The sizes of the forest of a batch of searches.

    Args:
      game: any belief-level game.
      settings: of the searches.
      batch: B, how many there are.
      listed: whether to list the leaves of each search; they are for logs of queries anyway.
    """
    nodes, most = settings.capacity, game.most_children or game.num_children
    slots, path = nodes * most, (1 + settings.max_path) * most
    if settings.children is not None:
        slots = min(slots, path + math.ceil(settings.children * nodes) + most)
    inner, ends = (slots if most is None else min(slots, most) for most in game.most_states)
    if jax.default_backend() == "cpu":
        page = _power_of_two(batch * nodes // 64, 4, _LARGEST_PAGE)
        chunk = _power_of_two(batch * inner // 4, page, _LARGEST_CHUNK)
    else:  # steps cost more than room: a level is one page, or a few
        page = chunk = _power_of_two(batch * nodes // 4, 64, 2**14)
    return Layout(
        batch=batch,
        nodes=nodes,
        decisions=tuple(_most_decisions(share, settings) for share in settings.decision_shares),
        slots=slots,
        rows=game.num_rows,
        actions=game.num_actions,
        children=game.num_children,
        most_children=most,
        straight=game.straight,
        action_of_child=game.action_of_child,
        levels=min(game.max_depth + 1, nodes),
        page=page,
        block=page,
        chunk=chunk,
        terminal_kinds=game.terminal_kinds,
        most_terminals=ends,
        most_leaves=inner,
        listed=listed or settings.logged_queries > 0,
        keeps=settings.belief_tolerance > 0,
    )


def _most_decisions(share, settings):
    """Nodes of a tree at which a player may act: all of a path, and a share of the others."""
    start = 1 + settings.max_path
    return min(settings.capacity, start + math.ceil(share * (settings.capacity - start)))


def _power_of_two(number, least, most):
    size = least
    while size < min(number, most):
        size *= 2
    return size


def start(
    game: BeliefGame,
    params: PyTree,
    *,
    problems: Problem,
    settings: GrowingTreeCfr,
    listed: bool = False,
) -> Searches:
    """Searches before their first iteration.

    Their trees have the nodes of the problems' paths, from the roots to the states that the
    searches act at, and all their children as leaves; with `settings.expand` they are as
    `lazy_search.start` says.

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
    batch, length = problems.path.shape
    if length > settings.max_path:
        raise ValueError(f"path has {length} steps, more than max_path={settings.max_path}")
    if settings.belief_tolerance and game.num_rows == (1, 1):
        raise ValueError(
            f"belief_tolerance={settings.belief_tolerance} is for games with several rows; in"
            f" {game.name} leaves are valued once anyway; allowed: 0"
        )
    if settings.expand is not None:
        return lazy_search.start(game, params, problems=problems, settings=settings)
    layout, dtype = layout_of(game, settings, batch, listed=listed), problems.reach[0].dtype
    forest = new_forest(game, params, layout, dtype, evaluate=settings.evaluate)
    forest, place = add_roots(
        game, params, forest, layout, problems.state, evaluate=settings.evaluate
    )
    grow = functools.partial(
        expand,
        game,
        params,
        prior=no_prior(layout, dtype),
        since=jnp.zeros(batch, dtype),
        evaluate=settings.evaluate,
    )
    for step in range(length):
        number = jnp.maximum(problems.path[:, step], 0)
        on_path = problems.path[:, step] != NO_STEP
        leaf = forest.pointers[place, number]
        forest, new = grow(forest, layout, leaf, on_path)
        place = jnp.where(new < layout.inner, new, place)
    if layout.single_row:  # with perfect information reach would only scale all values
        problems = problems.replace(reach=jax.tree.map(jnp.ones_like, problems.reach))
    state = at(forest.state, place)
    evaluate = jax.vmap(lambda s, r: settings.evaluate(params, game, s, r))
    _, prior = evaluate(state, problems.reach)
    return Searches(
        layout=layout,
        problem=problems,
        forest=_with_prior(forest, layout, place, prior),
        gadget=Gadget(
            regret=tuple(jnp.zeros((batch, 2, rows), dtype) for rows in layout.rows),
            follow=tuple(jnp.full((batch, rows), 0.5, dtype) for rows in layout.rows),
        ),
        target=place,
        iterations=jnp.int32(0),
        total=jnp.zeros((), dtype),
    )


def _with_prior(forest, layout, place, prior):
    """The forest with the priors `[B, A, N]` of both players at some nodes where they act."""
    number = forest.links[place, NUMBER]
    decisions = []
    for tables, own in zip(forest.decisions, prior, strict=True):
        column = jnp.where(tables.place[number] == place, number, layout.no_decision)
        new = tables.prior.at[:, column].set(own.swapaxes(0, 1), mode="drop")
        decisions.append(tables.replace(prior=new))
    return forest.replace(decisions=tuple(decisions))


def finish(state: Searches) -> Search:
    """The searches as they are, each with a tree of its own.

    Args:
      state: B searches in progress.

    Returns:
      Finished searches `[B, ...]`.
    """
    if isinstance(state.forest, LazyTrees):
        return lazy_search.finish(state)
    forest, layout = state.forest, state.layout
    place = jnp.minimum(forest.nodes, layout.inner - 1)
    links, pointers = forest.links[place], forest.pointers[place]
    used = jnp.arange(layout.nodes, dtype=jnp.int32)[None] < forest.count[:, None]
    is_node = used[..., None] & (pointers < layout.inner)
    above = jnp.maximum(links[..., PARENT], 0)
    decisions = [_decisions(forest, layout, p, place, links, used) for p in range(2)]
    decision, policy, visits = (tuple(pair) for pair in zip(*decisions, strict=True))
    slot, children = _enumerated(used[..., None] & (pointers < layout.nowhere), layout.slots)
    below = jnp.append(
        pointers.reshape(layout.batch, -1),
        jnp.full((layout.batch, 1), layout.nowhere, jnp.int32),
        axis=1,
    )
    below = jnp.take_along_axis(below, children, axis=1)
    tree = SearchTree(
        count=forest.count,
        state=at(forest.state, place),
        parent=jnp.where(used & (links[..., PARENT] >= 0), forest.index[above], LEAF),
        child=links[..., CHILD],
        node=jnp.where(is_node, forest.index[jnp.where(is_node, pointers, 0)], LEAF),
        since=forest.since[place],
        decision=decision,
        policy=policy,
        visits=visits,
        reach_total=at(forest.reach_total, place),
        values_total=at(forest.values_total, place),
        slot=slot,
        child_values_total=at(forest.values_total, below),
    )
    every = lambda x: jnp.broadcast_to(x, layout.batch)  # noqa: E731
    return Search(
        problem=state.problem,
        tree=tree,
        gadget=state.gadget,
        target=forest.index[state.target],
        reach=reach_of(forest, state.target),
        iterations=every(state.iterations),
        total=every(state.total),
        log=None if state.log is None else state.log.replace(key=None),
    )


def _decisions(forest, layout, player, place, links, used):
    """Where the nodes `[B, E]` are among a player's decisions, and the average policies and visits
    `[B, D, A, N]` of these."""
    tables, most = forest.decisions[player], layout.decisions[player]
    number = jnp.minimum(links[..., NUMBER], layout.room[player] - 1)
    acts = used & (tables.place[number] == place)
    decision, nodes = _enumerated(acts, most)
    last = jnp.full((layout.batch, 1), layout.room[player] - 1, jnp.int32)
    number = jnp.take_along_axis(jnp.append(number, last, axis=1), nodes[:, :most], axis=1)
    shape = layout.batch, most, layout.actions[player], layout.rows[player]
    flat = number.reshape(-1)
    given = (nodes[:, :most] < layout.nodes)[..., None, None]
    policy = average_policies(tables, flat).reshape(shape)
    visits = decision_rows(tables.visits, flat).reshape(shape)
    return decision, jnp.where(given, policy, 0), jnp.where(given, visits, 0)


def _enumerated(mask, most):
    """Numbers of the entries `[B, ...]` of a mask, `most` for others; and the entries by number
    `[B, most + 1]`, flat, the number of all entries where there are fewer."""
    flat = mask.reshape(len(mask), -1)
    number = jnp.where(flat, jnp.cumsum(flat, axis=1, dtype=jnp.int32) - 1, most)
    size = flat.shape[1]
    entries = jnp.full((len(mask), most + 1), size, jnp.int32)
    searches = jnp.arange(len(mask), dtype=jnp.int32)[:, None]
    every = jnp.arange(size, dtype=jnp.int32)[None]
    entries = entries.at[searches, jnp.where(flat, number, most + 1)].set(every, mode="drop")
    return number.reshape(mask.shape), entries
