"""The exact solver: CFR on everything below a public belief state, if that fits into memory.

It is the CFR of the search, on a tree that is expanded to the end before the first iteration.
Predictive regret matching+ with quadratic averages (Farina, Kroer and Sandholm 2021) comes close to
an equilibrium in a few hundred simultaneous iterations. As an evaluator of leaves it is a value
function with an error near 0 in the sense of Theorem 2 of Schmid et al. 2023.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.beliefs.listing import Listing
from jaxgames.core import TERMINAL
from solvers.regret import PredictiveRegretMatchingPlus, RegretMinimizer
from solvers.search import (
    continual_resolving,
    growing_tree_cfr,
    leaf_evaluators,
    readouts,
    regret_phase,
)
from solvers.search.forest_growth import add_all_children, expand
from solvers.search.search_state import GrowingTreeCfr, Search, Searches
from solvers.search.search_tree import uniform


@dataclasses.dataclass(frozen=True)
class Whole:
    """Settings of the exact solver.

    Public states that do not fit into the tree are worth 0; `sizes_below` tells how many nodes are
    needed.
    """

    max_nodes: int  # public states of the tree, without terminals
    iterations: int = 1000
    minimizer: RegretMinimizer = dataclasses.field(default_factory=PredictiveRegretMatchingPlus)
    averaging_power: float = 2.0

    def __post_init__(self):
        for name in ("max_nodes", "iterations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    @property
    def search(self) -> GrowingTreeCfr:
        """Settings of a search that has room for the tree."""
        return GrowingTreeCfr(
            leaf_evaluators.zero,
            simulations=self.max_nodes,
            minimizer=self.minimizer,
            averaging_power=self.averaging_power,
            max_path=1,
            max_nodes=self.max_nodes,
        )


def solve_below(
    game: BeliefGame, state: PublicState, reach: Float[Array, "2 N"], *, settings: Whole
) -> Search:
    """Solves everything below a public belief state by CFR.

    Args:
      game: any belief-level game.
      state: a public state.
      reach: own reaches `[2, N]` of both players there.
      settings: of the solver. Static under `jit`.

    Returns:
      A search whose tree is complete. `readouts.average_values` are both players' values `[2, N]`,
      `readouts.average_policy` is the actor's policy at `state`, and `policy_below` the policy of
      all public states below.
    """
    problem = continual_resolving.fixed_problem(state, reach, max_path=1)
    return growing_tree_cfr.batched(_solve_batch, settings)(game, None, jax.random.key(0), problem)


def _solve_batch(game, params, keys, problems, settings):
    how = settings.search
    state = growing_tree_cfr.start(game, params, problems=problems, settings=how, listed=True)
    state = expand_all(game, state, settings=how)
    iterate = functools.partial(regret_phase.iterate, game, params, settings=how)
    state = jax.lax.fori_loop(0, settings.iterations, lambda _, state: iterate(state), state)
    return growing_tree_cfr.finish(game, state)


def expand_all(game: BeliefGame, state: Searches, *, settings: GrowingTreeCfr) -> Searches:
    """Searches with all leaves of their trees expanded, as far as there is room.

    Where nothing is reached, none are: all values are 0.

    Args:
      game: any belief-level game.
      state: searches before their first iteration, started with `listed=True`.
      settings: of the searches.
    """
    layout, dtype = state.layout, state.forest.since.dtype
    reached = jnp.any(state.problem.reach > 0, axis=(1, 2))
    prior = tuple(
        jnp.zeros((layout.batch, layout.actions[p], layout.rows[p]), dtype) for p in range(2)
    )
    none = jnp.zeros(layout.batch, dtype)

    def left(forest):
        return reached & (forest.leaves.count > 0) & (forest.count < layout.nodes)

    def grown(forest):
        leaf = jnp.maximum(forest.leaves.place[:, 0], layout.inner)
        grown, new = expand(game, forest, layout, leaf, prior, none, left(forest))
        return add_all_children(game, None, grown, layout, new, evaluate=settings.evaluate)

    forest = jax.lax.while_loop(lambda forest: jnp.any(left(forest)), grown, state.forest)
    return state.replace(forest=forest)


def sizes_below(listing: Listing) -> Int[np.ndarray, " S"]:
    """How many nodes `[S]` a tree below each public state needs, itself included."""
    parent, size = np.asarray(listing.parent), (np.asarray(listing.actor) != TERMINAL).astype(int)
    for state in range(len(parent) - 1, 0, -1):  # children come after parents
        size[parent[state]] += size[state]
    return size


def policy_below(
    listing: Listing, search: Search, state: int
) -> tuple[Int[np.ndarray, " E"], Float[np.ndarray, "E A N"]]:
    """The average policies of a solution.

    Args:
      listing: of the game.
      search: the solution from listed public state number `state` on.
      state: that number.

    Returns:
      The numbers of the nodes `[E]` in the listing, and the policies `[E, A, N]` there.
    """
    tree, child = search.tree, np.asarray(listing.child)
    count, parent, number = int(tree.count), np.asarray(tree.parent), np.asarray(tree.child)
    numbers = np.full(count, state)
    for node in range(1, count):  # parents come first
        numbers[node] = child[numbers[parent[node]], number[node]]
    return numbers, np.asarray(tree.policy)[:count]


def equilibrium(
    game: BeliefGame, listing: Listing, *, iterations: int = 2000
) -> Float[Array, "S A N"]:
    """A policy near an equilibrium of the whole game.

    Args:
      game: any belief-level game.
      listing: all its public states.
      iterations: of CFR.

    Returns:
      The policy `[S, A, N]` by public state, for the rows of the actor;
      `belief_exploitability.exploitability` tells how near it is.
    """
    settings = Whole(max_nodes=listing.num_inner, iterations=iterations)
    root = at(listing.state, 0)
    dtype = jax.eval_shape(lambda: game.compatible(root, 0, jnp.ones(game.num_rows))).dtype
    search = _solve(game, root, game.rows(root).astype(dtype), settings=settings)
    numbers, policies = policy_below(listing, search, 0)
    policy = np.zeros((len(listing.parent), *policies.shape[1:]), policies.dtype)
    policy[numbers] = policies
    return jnp.asarray(policy)


_solve = jax.jit(solve_below, static_argnames="settings")


@dataclasses.dataclass(frozen=True)
class Oracle:
    """The exact evaluator: it solves everything below the public belief state it is asked about."""

    settings: Whole

    def __call__(
        self, params: PyTree, game: BeliefGame, state: PublicState, reach: Float[Array, "2 N"]
    ) -> tuple[Float[Array, "2 N"], Float[Array, "A N"]]:
        """Values of both players `[2, N]`, and a uniform prior `[A, N]`; `params` are ignored."""
        search = solve_below(game, state, reach, settings=self.settings)
        return readouts.average_values(search), uniform(game, state, reach.dtype)


def oracle(listing: Listing, *, iterations: int = 100, max_nodes: int = 200) -> Oracle:
    """The exact evaluator for leaves of searches anywhere in a game.

    Args:
      listing: all public states of the game.
      iterations: of CFR on everything below a leaf, at each evaluation.
      max_nodes: the most nodes that may be below a leaf.

    Returns:
      The evaluator.

    Raises:
      ValueError: more than `max_nodes` public states are below some leaf.
    """
    largest = int(sizes_below(listing)[1:].max(initial=1))
    if largest > max_nodes:
        raise ValueError(
            f"a leaf has {largest:,} public states below it, more than max_nodes={max_nodes:,}"
        )
    return Oracle(Whole(max_nodes=max(largest, 1), iterations=iterations))
