"""Growing-tree CFR (GT-CFR; Schmid et al. 2023, "Student of Games").

A search alternates between a regret phase, CFR on the public tree that it has, with leaves valued
by an evaluator at the beliefs of the current policies, and an expansion phase, simulations that
walk down from the state it acts at and add a leaf's children to the tree. All functions here are
pure and handle one search; `jax.vmap` runs searches side by side and keeps the loops over nodes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.debug import checked
from solvers.batching import widest
from solvers.search.expansion_phase import evaluated_slots, simulate
from solvers.search.query_log import start_log
from solvers.search.regret_phase import iterate
from solvers.search.search_state import NO_STEP, Gadget, GrowingTreeCfr, Problem, Search
from solvers.search.search_tree import expand, new_tree, with_columns
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
      ValueError: `problem.path` is longer than `settings.max_path`, or `settings.expand` is not
        for this game.
    """
    state = start(game, params, problem=problem, settings=settings)
    if settings.logged_queries:
        noise = jax.random.fold_in(key, settings.simulations)  # simulations have lower numbers
        state = start_log(game, state, noise, num_queries=settings.logged_queries)
    phases = settings.simulations // settings.expansions_per_phase

    def phase(i, state):
        # Regret phase: iterations of CFR on the tree as it is.
        state = jax.lax.fori_loop(
            0,
            settings.iterations_per_phase,
            lambda _, state: iterate(game, params, state, settings=settings),
            state,
        )
        # Expansion phase: simulations, each of which adds a node to the tree.
        return expansion(i, state)

    def expansion(i, state):
        count = settings.expansions_per_phase
        settled = state.tree.visits if count > 1 else None
        if settings.expand is None:  # a tree without leaves is complete: no simulation is needed
            count *= widest(jnp.minimum(state.tree.leaves.count, 1))

        def simulation(j, state):
            noise = jax.random.fold_in(key, i * settings.expansions_per_phase + j)
            return simulate(game, params, noise, state, settings=settings, settled=settled)

        return jax.lax.fori_loop(0, count, simulation, state)

    return jax.lax.fori_loop(0, phases, phase, state)


def start(
    game: BeliefGame, params: PyTree, *, problem: Problem, settings: GrowingTreeCfr
) -> Search:
    """A search before its first iteration.

    Its tree has the nodes of the problem's path, from the root to the state that the search acts
    at, and all their children as leaves.

    Args:
      game: any belief-level game.
      params: of the evaluator.
      problem: what to search.
      settings: how to search. Static under `jit`.

    Returns:
      The search, which `iterate` and `simulate` continue.

    Raises:
      ValueError: as `search`.
    """
    length = problem.path.shape[0]
    if length > settings.max_path:
        raise ValueError(f"path has {length} steps, more than max_path={settings.max_path}")
    if settings.expand is not None:
        _check_expandable(game, settings.expand)
    dtype, partial = problem.reach.dtype, settings.expand is not None
    tree = new_tree(game, problem.state, capacity=settings.capacity, dtype=dtype, partial=partial)
    none = jnp.zeros((), dtype)
    for step in range(length):
        slot = step * game.num_children + jnp.maximum(problem.path[step], 0)
        on_path = problem.path[step] != NO_STEP
        prior = jnp.zeros((game.num_actions, game.num_rows), dtype)
        tree = expand(game, tree, slot, prior, none, on_path)
    if game.num_rows == 1:  # with perfect information reach would only scale all values
        problem = problem.replace(reach=jnp.ones_like(problem.reach))
        slots = jnp.arange((length + 1) * game.num_children, dtype=jnp.int32)
        tree = evaluated_slots(game, params, tree, slots, settings.evaluate)
    target = tree.count - 1  # the last node of the path
    _, prior = settings.evaluate(params, game, at(tree.state, target), problem.reach)
    return Search(
        problem=problem,
        tree=tree.replace(prior=with_columns(tree.prior, prior, target, game.num_rows)),
        gadget=Gadget(
            regret=jnp.zeros((2, game.num_rows), dtype),
            follow=jnp.full(game.num_rows, 0.5, dtype),
        ),
        target=target,
        iterations=jnp.int32(0),
        total=none,
    )


def _check_expandable(game, count):
    if game.num_rows != 1 or game.num_children != game.num_actions:
        raise ValueError(
            f"expand={count} is for games of perfect information in which child k is where action k"
            f" leads; {game.name} has num_rows={game.num_rows}, num_actions={game.num_actions},"
            f" num_children={game.num_children}; allowed: None"
        )
