"""Growing-tree CFR in games of perfect information, on trees whose children are made lazily.

The same algorithm as in `regret_phase` and `expansion_phase` (Schmid et al. 2023), for searches
with `GrowingTreeCfr.expand`: the root has all its children from the start, like the paper's initial
tree. Other nodes start with their k best children by prior, and get others when simulations take
them. An iteration costs as much as there are places, however many actions the game has.

With one row for each player, what happened on the way to a state says nothing about it, and the
gadget of a re-solved subgame would only scale a player's values. So a tree begins at the state that
the search acts at, and there is no gadget. PUCT's bonus counts the simulation that added a node as
one of the walks through it, so that priors matter to the first walk; in other trees they do not.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import choose, safe_divide
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL
from solvers.regret import RegretState
from solvers.search import lazy_at_once, lazy_steps
from solvers.search.lazy_layout import LazyLayout, lazy_layout
from solvers.search.lazy_trees import add_children, best_actions, plant
from solvers.search.query_log import with_new_calls
from solvers.search.search_state import NO_STEP, GrowingTreeCfr, Problem, Search, Searches
from solvers.search.search_tree import LEAF, LazyTree

_ROOT_CHUNK = 8  # children of a root that are valued at a time, at most


def check_expandable(game: BeliefGame, expand: int) -> None:
    """Refuses games whose children are not where actions lead.

    Raises:
      ValueError: the game has several rows, or other children than actions.
    """
    if not game.has_perfect_information:
        raise ValueError(
            f"expand={expand} is for games of perfect information without chance in which child k"
            f" is where action k leads; {game.name} has num_rows={game.num_rows},"
            f" num_actions={game.num_actions}, num_children={game.num_children}; allowed: None"
        )


def start(
    game: BeliefGame, params: PyTree, *, problems: Problem, settings: GrowingTreeCfr
) -> Searches:
    """Searches before their first iteration: trees of the states that they act at, which are where
    the problems' paths end, and of all children there.

    Args:
      game: of perfect information.
      params: of the evaluator.
      problems: what to search, `[B, ...]`.
      settings: how to search. Static under `jit`.

    Returns:
      The searches.

    Raises:
      ValueError: `settings.expand` is not for this game.
    """
    check_expandable(game, settings.expand)
    batch, dtype = len(problems.path), problems.reach[0].dtype
    # With perfect information reach would only scale all values.
    problems = problems.replace(reach=jax.tree.map(jnp.ones_like, problems.reach))
    layout = lazy_layout(game, settings, batch)
    state = jax.vmap(functools.partial(end_of_path, game))(problems.state, problems.path)
    trees = plant(game, params, layout, state, dtype, evaluate=settings.evaluate)
    trees = _with_children_of_roots(game, params, trees, layout, evaluate=settings.evaluate)
    return Searches(
        layout=layout,
        problem=problems,
        forest=trees,
        gadget=None,
        target=layout.roots,
        iterations=jnp.int32(0),
        total=jnp.zeros((), dtype),
    )


def _with_children_of_roots(game, params, trees, layout, *, evaluate):
    """The trees with all children of their roots, some at a time, as many as a position has."""
    batch, dtype, prior = layout.batch, trees.since.dtype, trees.prior[layout.roots]
    number = jnp.sum(prior >= 0, axis=1, dtype=jnp.int32)
    chunk = root_chunk(layout.actions)

    def add(carry):
        trees, step = carry
        best, there = best_actions(trees.prior[layout.roots], count=chunk)
        trees, _, _ = add_children(
            game,
            params,
            trees,
            layout,
            layout.roots,
            best,
            there,
            since=jnp.zeros((), dtype),
            visits=jnp.zeros(batch, dtype),
            policy=1 / jnp.maximum(number, 1).astype(dtype),
            evaluate=evaluate,
        )
        return trees, step + 1

    def more(carry):
        return carry[1] * chunk < jnp.max(number)

    trees, _ = jax.lax.while_loop(more, add, (trees, jnp.int32(0)))
    return trees


def root_chunk(actions: int) -> int:
    """How many children of a root are valued at a time, in a game with so many actions."""
    steps = math.ceil(actions / _ROOT_CHUNK)  # in which all actions would be valued
    return math.ceil(actions / steps)


def end_of_path(game: BeliefGame, state: PublicState, path: Int[Array, " L"]) -> PublicState:
    """The public state where a path from another one ends.

    Args:
      game: any belief-level game.
      state: where the path begins.
      path: numbers of children, then NO_STEP.
    """

    def step(i, state):
        child = path[i]
        below = game.child(state, jnp.maximum(child, 0))
        return choose(child != NO_STEP, below, state)

    return jax.lax.fori_loop(0, len(path), step, state)


# The regret phase


def iterate(
    game: BeliefGame, params: PyTree, state: Searches, *, settings: GrowingTreeCfr
) -> Searches:
    """One iteration of CFR with simultaneous updates, for both players.

    Args:
      game: of perfect information.
      params: of the evaluator, which is not asked.
      state: of the searches.
      settings: of the searches. Static under `jit`.

    Returns:
      The searches after the iteration.
    """
    trees, layout, step = state.forest, state.layout, state.iterations + 1
    dtype = trees.since.dtype
    weight = step.astype(dtype) ** settings.averaging_power
    way = _way(layout)
    # 1. Own reaches pi_i, from the roots down, and values v_i per unit of the opponent's reach:
    # those of leaves, and from the children up.
    reach, values = way.reaches_and_values(trees, layout)
    # 2. Regrets pi_-i (v_i(s, a) - v_i(s)), the next policies by regret matching, and averages.
    parent = jnp.maximum(trees.parent, 0)
    exists = trees.parent >= 0
    first = trees.mover == 0
    own = jnp.where(first, values[0], values[1])
    above = jnp.where(first, values[0][parent], values[1][parent])
    opposing = jnp.where(first, reach[1][parent], reach[0][parent])
    instant = jnp.where(exists, opposing * (own - above), 0)
    uniform = jnp.where(exists, 1 / jnp.maximum(trees.children[parent], 1).astype(dtype), 0)

    before = RegretState(regret=trees.regret[None], policy=trees.policy[None])
    after = settings.minimizer.update(
        before,
        instant[None],
        uniform[None],
        step.astype(dtype),
        total=lambda positive: way.sibling_sums(trees, layout, positive[0]),
    )
    played = weight * jnp.where(first, reach[0], reach[1])  # the policy is in the own reach
    acting = jnp.where(trees.actor == 0, reach[0], reach[1])
    trees = trees.replace(
        reach=reach,
        values=values,
        regret=after.regret[0],
        policy=jnp.where(exists, after.policy[0], 1),
        average=trees.average + jnp.where(exists, played, 0),
        mass=trees.mass + jnp.where(trees.children > 0, weight * acting, 0),
        reach_total=tuple(
            old + weight * new for old, new in zip(trees.reach_total, reach, strict=True)
        ),
        values_total=tuple(
            trees.values_total[p] + weight * reach[1 - p] * values[p] for p in range(2)
        ),
    )
    return state.replace(forest=trees, iterations=step, total=state.total + weight)


def _way(layout):
    """The module that makes sweeps and walks."""
    return lazy_steps if layout.sweep == "levels" else lazy_at_once


# The expansion phase


def walk_noise(
    key: Key[Array, ""], layout: LazyLayout, count: int, dtype: jnp.dtype
) -> Float[Array, "count D"]:
    """Random numbers of some simulations of one search, one for each step.

    Args:
      key: consumed.
      layout: of the trees.
      count: simulations.
      dtype: of the numbers.
    """
    return jax.random.uniform(key, (count, layout.levels), dtype)


def simulate(
    game: BeliefGame,
    params: PyTree,
    noise: Float[Array, "B D"],
    state: Searches,
    *,
    settings: GrowingTreeCfr,
    settled: Float[Array, " P"] | None = None,
) -> Searches:
    """One simulation of every search: a walk from the searched state on, until it comes to a leaf,
    which gets its k best children, or takes an action whose child is not there, which is added.

    Args:
      game: of perfect information.
      params: of the evaluator.
      noise: of `walk_noise`.
      state: of the searches.
      settings: of the searches. Static under `jit`.
      settled: the visits at the last iteration, if there were simulations since then.

    Returns:
      The searches after the simulations.
    """
    trees, layout = state.forest, state.layout
    # 1. The walk.
    walk = _way(layout).walk(noise, trees, layout, settings=settings, settled=settled)
    trees = trees.replace(visits=walk.visits, walks=walk.walks)
    # 2. New places: the child that is missing, or the best children of a leaf.
    if layout.expand == 1:
        best, actions = trees.best[walk.place], trees.best_action[walk.place][:, None]
        there = best[:, None] >= 0
    else:
        actions, there = best_actions(trees.prior[walk.place], count=layout.expand)
    first = (jnp.arange(layout.expand) == 0)[None]
    missing = walk.missing[:, None]
    actions = jnp.where(missing & first, walk.action[:, None], actions)
    wanted = jnp.where(missing, first, there & (trees.actor[walk.place] != TERMINAL)[:, None])
    shares = 1 / jnp.maximum(jnp.sum(wanted, axis=1), 1).astype(trees.since.dtype)
    trees, states, valued = add_children(
        game,
        params,
        trees,
        layout,
        walk.place,
        actions,
        wanted,
        since=state.total,
        visits=walk.missing.astype(trees.since.dtype),
        policy=jnp.where(walk.missing, 0, shares),
        evaluate=settings.evaluate,
    )
    log = state.log
    if log is not None:
        log = with_new_calls(log, states, valued)
    return state.replace(forest=trees, log=log)


# Reading


def finish(state: Searches) -> Search:
    """The searches as they are, each with a tree of its own.

    Args:
      state: B searches in progress.

    Returns:
      Finished searches `[B, ...]`.
    """
    trees, layout = state.forest, state.layout
    own = layout.by_tree
    column = lambda pair: tuple(own(x[:, None]) for x in pair)  # noqa: E731
    parent = jnp.maximum(trees.parent, 0)
    mass = trees.mass[parent]
    average = jnp.where(mass > 0, safe_divide(trees.average, mass), trees.policy)
    tree = LazyTree(
        count=trees.count,
        state=jax.tree.map(own, trees.state),
        parent=jnp.where(own(trees.parent) >= 0, own(trees.parent) - layout.roots[:, None], LEAF),
        child=own(trees.action),
        actor=own(trees.actor),
        children=own(trees.children),
        since=own(trees.since),
        policy=own(jnp.where(trees.parent >= 0, average, 0)),
        visits=own(trees.visits),
        reach_total=column(trees.reach_total),
        values_total=column(trees.values_total),
        num_actions=layout.actions,
    )
    every = lambda x: jnp.broadcast_to(x, layout.batch)  # noqa: E731
    return Search(
        problem=state.problem,
        tree=tree,
        target=jnp.zeros(layout.batch, jnp.int32),
        reach=tuple(x[state.target][:, None] for x in trees.reach),
        iterations=every(state.iterations),
        total=every(state.total),
        log=None if state.log is None else state.log.replace(key=None),
    )
