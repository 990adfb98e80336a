"""The tree of one finished search, and small functions of public states and trees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from jaxgames.arrays import sum_actions
from jaxgames.beliefs.contract import BeliefGame, Policy, PublicState
from jaxgames.core import record

LEAF = -1  # a child without a node; the parent of the root


@record
class SearchTree:
    """E nodes in the order of expansion, of which the first `count` are in use; node 0 is the root.

    Parents come before their children. Totals are sums over iterations, each times its weight.
    """

    count: Array  # [] int32
    state: PublicState  # [E, ...]
    parent: Array  # [E] int32, or LEAF
    child: Array  # [E] int32 which child of its parent a node is
    node: Array  # [E, K] int32 the nodes that the children were expanded into, or LEAF
    exists: Array  # [E, K] bool children that are in the tree
    since: Array  # [E] sum of the iterations' weights when the node was added
    # of both players:
    policy: tuple[Array, Array]  # [E, A, N] average policies where it acts, else 0
    visits: tuple[Array, Array]  # [E, A, N] simulations that took an action
    reach_total: tuple[Array, Array]  # [E, N] own reaches at nodes since they were added
    values_total: tuple[Array, Array]  # [E, N] counterfactual values of nodes
    child_values_total: tuple[Array, Array]  # [E, K, N] those of their children


def uniform(game: BeliefGame, state: PublicState, dtype: jnp.dtype) -> Policy:
    """The policy that is uniform over the actor's legal actions; 0 in rows without any."""
    first, second = (actions.astype(dtype) for actions in game.legal(state))
    return tuple(x / jnp.maximum(sum_actions(x), 1)[None] for x in (first, second))


def choose(condition: Bool[Array, ""], these: PyTree, those: PyTree) -> PyTree:
    """`these` where the condition holds, else `those`."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), these, those)
