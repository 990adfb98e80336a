"""The exact solver: CFR on everything below a public belief state, if that fits into memory.

It is the CFR of the search, on a tree that is expanded to the end before the first iteration.
Predictive regret matching+ with quadratic averages (Farina, Kroer and Sandholm 2021) comes close to
an equilibrium in a few hundred simultaneous iterations. As an evaluator of leaves it is a value
function with an error near 0 in the sense of Theorem 2 of Schmid et al. 2023.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, Policy, PublicState, Reach, Values
from jaxgames.beliefs.listing import Listing
from jaxgames.checks import at_least
from jaxgames.core import TERMINAL
from solvers.regret import PredictiveRegretMatchingPlus, RegretMinimizer
from solvers.search import (
    continual_resolving,
    growing_tree_cfr,
    leaf_evaluators,
    readouts,
    regret_phase,
)
from solvers.search.forest_growth import expand, no_prior
from solvers.search.search_state import GrowingTreeCfr, Search, Searches
from solvers.search.search_tree import uniform


@dataclasses.dataclass(frozen=True)
class Whole:
    """Settings of the exact solver.

    Public states that do not fit into the tree are worth 0; `sizes_below` tells how many nodes are
    needed.
    """

    max_nodes: int  # public states of the tree, without terminals
    num_iterations: int = 1000
    minimizer: RegretMinimizer = dataclasses.field(default_factory=PredictiveRegretMatchingPlus)
    averaging_power: float = 2.0

    def __post_init__(self):
        at_least(1, max_nodes=self.max_nodes, num_iterations=self.num_iterations)
        if not 0 <= self.averaging_power < math.inf:
            raise ValueError(
                f"averaging_power={self.averaging_power} must be at least 0 and finite"
            )

    @property
    def search(self) -> GrowingTreeCfr:
        """Settings of a search that has room for the tree."""
        return GrowingTreeCfr(
            leaf_evaluators.zero,
            simulations=self.max_nodes,
            minimizer=self.minimizer,
            averaging_power=self.averaging_power,
            max_path=0,
            max_nodes=self.max_nodes,
        )


def solve_below(game: BeliefGame, state: PublicState, reach: Reach, *, settings: Whole) -> Search:
    """Solves everything below a public belief state by CFR.

    Args:
      game: any belief-level game.
      state: a public state.
      reach: own reaches of both players there.
      settings: of the solver. Static under `jit`.

    Returns:
      A search whose tree is complete. `readouts.average_values` are both players' values,
      `readouts.average_policy` is the actor's policy at `state`, and `policy_below` the policy of
      all public states below.
    """
    problem = continual_resolving.fixed_problem(state, reach, max_path=0)
    return growing_tree_cfr.batched(_solve_batch, settings)(game, None, jax.random.key(0), problem)


def _solve_batch(game, params, keys, problems, settings):
    how = settings.search
    state = growing_tree_cfr.start(game, params, problems=problems, settings=how, listed=True)
    state = expand_all(game, state, settings=how)
    iterate = functools.partial(regret_phase.iterate, game, params, settings=how)
    state = jax.lax.fori_loop(0, settings.num_iterations, lambda _, state: iterate(state), state)
    return growing_tree_cfr.finish(state)


def expand_all(game: BeliefGame, state: Searches, *, settings: GrowingTreeCfr) -> Searches:
    """Searches with all leaves of their trees expanded, as far as there is room.

    Where nothing is reached, none are: all values are 0.

    Args:
      game: any belief-level game.
      state: searches before their first iteration, started with `listed=True`.
      settings: of the searches.
    """
    layout, dtype = state.layout, state.forest.since.dtype
    first, second = (jnp.any(reach > 0, axis=1) for reach in state.problem.reach)
    reached = first | second

    def left(forest):
        return reached & (forest.leaves.count > 0) & (forest.count < layout.nodes)

    def grown(forest):
        leaf = jnp.maximum(forest.leaves.place[:, 0], layout.inner)
        return expand(
            game,
            None,
            forest,
            layout,
            leaf,
            left(forest),
            prior=no_prior(layout, dtype),
            since=jnp.zeros(layout.batch, dtype),
            evaluate=settings.evaluate,
        )[0]

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
) -> tuple[
    Int[np.ndarray, " E"], tuple[Float[np.ndarray, "E A0 N0"], Float[np.ndarray, "E A1 N1"]]
]:
    """The average policies of a solution.

    Args:
      listing: of the game.
      search: the solution from listed public state number `state` on.
      state: that number.

    Returns:
      The numbers of the nodes `[E]` in the listing, and both players' policies there.
    """
    tree, child = search.tree, np.asarray(listing.child)
    count, parent, number = int(tree.count), np.asarray(tree.parent), np.asarray(tree.child)
    numbers = np.full(count, state)
    for node in range(1, count):  # parents come first
        numbers[node] = child[numbers[parent[node]], number[node]]
    policies = tree.policy_at(jnp.arange(count, dtype=jnp.int32))
    first, second = (np.asarray(policy) for policy in policies)
    return numbers, (first, second)


def equilibrium(
    game: BeliefGame, listing: Listing, *, num_iterations: int = 2000
) -> tuple[Float[Array, "S A0 N0"], Float[Array, "S A1 N1"]]:
    """A policy near an equilibrium of the whole game.

    Args:
      game: any belief-level game.
      listing: all its public states.
      num_iterations: of CFR.

    Returns:
      Both players' policies by public state, 0 where they do not act;
      `belief_exploitability.exploitability` tells how near it is.
    """
    settings = Whole(max_nodes=listing.num_inner, num_iterations=num_iterations)
    root = at(listing.state, 0)
    dtype = jax.eval_shape(lambda: game.compatible(root, 0, jnp.ones(game.num_rows[1]))).dtype
    reach = tuple(rows.astype(dtype) for rows in game.rows(root))
    search = _solve(game, root, reach, settings=settings)
    numbers, policies = policy_below(listing, search, 0)
    listed = [np.zeros((len(listing.parent), *own.shape[1:]), own.dtype) for own in policies]
    for table, own in zip(listed, policies, strict=True):
        table[numbers] = own
    return jnp.asarray(listed[0]), jnp.asarray(listed[1])


_solve = jax.jit(solve_below, static_argnames="settings")


@dataclasses.dataclass(frozen=True)
class Oracle:
    """The exact evaluator: it solves everything below the public belief state it is asked about."""

    settings: Whole

    def __call__(
        self, params: PyTree, game: BeliefGame, state: PublicState, reach: Reach
    ) -> tuple[Values, Policy]:
        """Values of both players, and a uniform prior; `params` are ignored."""
        search = solve_below(game, state, reach, settings=self.settings)
        return readouts.average_values(search), uniform(game, state, reach[0].dtype)


def oracle(listing: Listing, *, num_iterations: int = 100, max_nodes: int = 200) -> Oracle:
    """The exact evaluator for leaves of searches anywhere in a game.

    Args:
      listing: all public states of the game.
      num_iterations: of CFR on everything below a leaf, at each evaluation.
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
    return Oracle(Whole(max_nodes=max(largest, 1), num_iterations=num_iterations))
