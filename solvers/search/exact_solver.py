"""Exact solving of all that is below a public belief state, where that can be held in memory.

The search's own CFR, on a tree expanded to the end before the first iteration. Predictive regret
matching+ with quadratic averages (Farina, Kroer, Sandholm 2021) comes close to equilibrium in a few
hundred simultaneous iterations. Student of Games (Schmid et al. 2023) calls what it gives at a leaf
a value function of error near 0.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.beliefs.listing import Listing
from jaxgames.core import TERMINAL
from solvers.batching import widest
from solvers.regret import PredictiveRegretMatchingPlus, RegretMinimizer
from solvers.search import continual_resolving, growing_tree_cfr, leaf_evaluators
from solvers.search.growing_tree_cfr import GrowingTreeCfr, Search
from solvers.search.search_tree import expand


@dataclasses.dataclass(frozen=True)
class Whole:
    """How to solve: all of the rest, which is `max_nodes` public states at most, terminals aside.

    What does not fit is worth nothing: `sizes_below` tells how much there is.
    """

    max_nodes: int
    iterations: int = 1000
    minimizer: RegretMinimizer = dataclasses.field(default_factory=PredictiveRegretMatchingPlus)
    averaging_power: float = 2.0

    def __post_init__(self):
        for name in ("max_nodes", "iterations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    @property
    def search(self) -> GrowingTreeCfr:
        """The search that has room for the tree."""
        return GrowingTreeCfr(
            leaf_evaluators.zero,
            simulations=self.max_nodes,
            minimizer=self.minimizer,
            averaging_power=self.averaging_power,
            max_path=1,
            max_nodes=self.max_nodes,
        )


def solve(
    game: BeliefGame, state: PublicState, reach: Float[Array, "2 N"], *, settings: Whole
) -> Search:
    """CFR on everything below `state`, both players' own reaches there being given.

    `gt_cfr.average_values` of the result are both players' values `[2, N]`, `average_policy` is
    what the actor does here, and `policy_below` what everybody does from here on. One solution,
    pure; `jax.vmap` solves side by side.
    """
    problem = continual_resolving.fixed_problem(state, reach, max_path=1)
    found = growing_tree_cfr.start(game, None, problem=problem, settings=settings.search)
    found = _expanded(game, found, reached=jnp.any(reach > 0))
    return jax.lax.fori_loop(
        0,
        settings.iterations,
        lambda _, found: growing_tree_cfr.iterate(game, None, found, settings=settings.search),
        found,
    )


def _expanded(game, search, reached):
    """The search with all leaves expanded, as far as there is room; none if nothing is `reached`:
    then all values are 0."""
    capacity = len(search.tree.parent)
    prior = jnp.zeros((game.num_actions, game.num_rows), search.tree.average.dtype)
    none = jnp.zeros((), search.tree.average.dtype)

    def left(tree):
        return reached & (tree.leaves.count > 0) & (tree.count < capacity)

    def grown(tree):
        slot = jnp.minimum(tree.leaves.slot[0], len(tree.node) - 1)
        return expand(game, tree, slot, prior, none, left(tree))

    def anywhere(tree):  # one bound for all searches of a batch, which else would be copied
        return widest(left(tree).astype(jnp.int32)) > 0

    return search.replace(tree=jax.lax.while_loop(anywhere, grown, search.tree))


def sizes_below(listing: Listing) -> Int[np.ndarray, " S"]:
    """How many public states a solution from each on has to expand, itself included."""
    parent, size = np.asarray(listing.parent), (np.asarray(listing.actor) != TERMINAL).astype(int)
    for state in range(len(parent) - 1, 0, -1):  # children come after parents
        size[parent[state]] += size[state]
    return size


def policy_below(
    listing: Listing, search: Search, state: int
) -> tuple[Int[np.ndarray, " E"], Float[np.ndarray, "E A N"]]:
    """What a solution from listed public state number `state` on plays, by its nodes.

    Their numbers in the listing, and the average policies there.
    """
    tree, child = search.tree, np.asarray(listing.child)
    count, slots = int(tree.count), child.shape[1]
    parent = np.asarray(tree.parent)
    numbers = np.full(count, state)
    for node in range(1, count):  # parents come first
        numbers[node] = child[numbers[parent[node] // slots], parent[node] % slots]
    return numbers, np.asarray(_policies(tree))[:count]


@jax.jit
def _policies(tree):
    nodes = jnp.arange(len(tree.parent), dtype=jnp.int32)
    return jax.vmap(growing_tree_cfr.node_policy, (None, 0))(tree, nodes)


def equilibrium(
    game: BeliefGame, listing: Listing, *, iterations: int = 2000
) -> Float[Array, "S A N"]:
    """A policy near equilibrium of the whole game, by listed public state, for the actor's rows.

    `listing.exploitability` says how near.
    """
    settings = Whole(max_nodes=listing.num_inner, iterations=iterations)
    root = at(listing.state, 0)
    dtype = jax.eval_shape(lambda: game.compatible(root, 0, jnp.ones(game.num_rows))).dtype
    found = _solve(game, root, game.rows(root).astype(dtype), settings=settings)
    numbers, policies = policy_below(listing, found, 0)
    policy = np.zeros((len(listing.parent), *policies.shape[1:]), policies.dtype)
    policy[numbers] = policies
    return jnp.asarray(policy)


_solve = jax.jit(solve, static_argnames="settings")


@dataclasses.dataclass(frozen=True)
class Oracle:
    """The evaluator that knows: solves the rest at the beliefs it is asked about."""

    settings: Whole

    def __call__(
        self, params: PyTree, game: BeliefGame, state: PublicState, reach: Float[Array, "2 N"]
    ) -> tuple[Float[Array, "2 N"], Float[Array, "A N"]]:
        """Values of both players, and a uniform prior. `params` are ignored."""
        found = solve(game, state, reach, settings=self.settings)
        return growing_tree_cfr.average_values(found), leaf_evaluators.zero(
            None, game, state, reach
        )[1]


def oracle(listing: Listing, *, iterations: int = 100, max_nodes: int = 200) -> Oracle:
    """The oracle for leaves of searches in a listed game, wherever they start.

    A leaf costs as many iterations on all that is below it.

    Raises:
      ValueError: more than `max_nodes` public states are below some leaf.
    """
    largest = int(sizes_below(listing)[1:].max(initial=1))
    if largest > max_nodes:
        raise ValueError(
            f"a leaf has {largest:,} public states below it, more than max_nodes={max_nodes:,}"
        )
    return Oracle(Whole(max_nodes=max(largest, 1), iterations=iterations))
