"""Growing-tree CFR (Student of Games, "Growing-tree CFR"; Schmid et al. 2023).

A search alternates between CFR on the public tree it has, with leaves valued by an evaluator at
the beliefs of the current policies, and simulations that walk down from the state it searches at
and add a leaf's children to the tree. Everything here is one search, pure and unbatched; searches
run side by side under `jax.vmap`, which leaves the loops over nodes as they are.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.debug import checked
from solvers.batching import widest
from solvers.search.expansion_phase import asked, sample, sample_pair, simulate
from solvers.search.regret_phase import iterate
from solvers.search.search_state import (
    NO_RESOLVER,
    NO_STEP,
    Evaluator,
    Gadget,
    GrowingTreeCfr,
    Problem,
    Search,
)
from solvers.search.search_tree import columns, expand, new_tree, node_policy, with_columns
from solvers.value_checks import check_search

__all__ = [
    "NO_RESOLVER",
    "NO_STEP",
    "Evaluator",
    "Gadget",
    "GrowingTreeCfr",
    "Problem",
    "Search",
    "average_policy",
    "average_values",
    "iterate",
    "node_policy",
    "sample",
    "sample_pair",
    "search",
    "simulate",
    "start",
]


@checked(check_search)
def search(
    game: BeliefGame,
    params: PyTree,
    key: Key[Array, ""],
    *,
    problem: Problem,
    settings: GrowingTreeCfr,
) -> Search:
    """Searches with `settings`; `key` is consumed.

    Raises:
      ValueError: `problem.path` is longer than `settings.max_path`, or `settings.expand` is not
        for this game.
    """
    state = start(game, params, problem=problem, settings=settings)
    phases = settings.simulations // settings.expansions_per_phase

    def phase(i, state):
        state = jax.lax.fori_loop(
            0,
            settings.iterations_per_phase,
            lambda _, state: iterate(game, params, state, settings=settings),
            state,
        )
        return expansion(i, state)

    def expansion(i, state):
        count = settings.expansions_per_phase
        settled = state.tree.visits if count > 1 else None
        if settings.expand is None:  # a tree without leaves is the whole game: nothing to walk for
            count *= widest(jnp.minimum(state.tree.leaves.count, 1))

        def one(j, state):
            noise = jax.random.fold_in(key, i * settings.expansions_per_phase + j)
            return simulate(game, params, noise, state, settings=settings, settled=settled)

        return jax.lax.fori_loop(0, count, one, state)

    return jax.lax.fori_loop(0, phases, phase, state)


def start(
    game: BeliefGame, params: PyTree, *, problem: Problem, settings: GrowingTreeCfr
) -> Search:
    """The search before its first iteration: the path to where it acts, and leaves beside it."""
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
        there = problem.path[step] != NO_STEP
        prior = jnp.zeros((game.num_actions, game.num_rows), dtype)
        tree = expand(game, tree, slot, prior, none, there)
    if game.num_rows == 1:  # nothing is hidden: reach would only scale all values
        problem = problem.replace(reach=jnp.ones_like(problem.reach))
        slots = jnp.arange((length + 1) * game.num_children, dtype=jnp.int32)
        tree = asked(game, params, tree, slots, settings.evaluate)
    target = tree.count - 1
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


def average_policy(state: Search) -> Float[Array, "A N"]:
    """What the search found for the actor at the state it acts at."""
    return node_policy(state.tree, state.target)


def average_values(state: Search) -> Float[Array, "2 N"]:
    """Both players' average counterfactual values at the root of the tree."""
    rows = state.problem.opt_out.shape[0]
    total = columns(state.tree.slot_total, state.tree.parent[0], 1, rows)
    return total / jnp.where(state.total > 0, state.total, 1)
