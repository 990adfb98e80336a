"""The tree of one finished search, and small functions of public states and trees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from jaxgames.arrays import sum_actions
from jaxgames.beliefs.contract import BeliefGame, Policy, PublicState
from jaxgames.core import record

LEAF = -1  # a child without a node; the parent of the root


@record
class SearchTree:
    """E nodes in the order of expansion, of which the first `count` are in use; node 0 is the root.

    Parents come before their children. Totals are sums over iterations, each times its weight. Of
    decisions and of children there are tables of their own, since no tree has all that it might.
    """

    count: Array  # [] int32
    state: PublicState  # [E, ...]
    parent: Array  # [E] int32, or LEAF
    child: Array  # [E] int32 which child of its parent a node is
    node: Array  # [E, K] int32 the nodes that the children were expanded into, or LEAF
    since: Array  # [E] sum of the iterations' weights when the node was added
    # of both players:
    decision: tuple[Array, Array]  # [E] int32 rows of nodes where it acts in the next two, else D
    policy: tuple[Array, Array]  # [D, A, N] average policies
    visits: tuple[Array, Array]  # [D, A, N] simulations that took an action
    reach_total: tuple[Array, Array]  # [E, N] own reaches at nodes since they were added
    values_total: tuple[Array, Array]  # [E, N] counterfactual values of nodes
    slot: Array  # [E, K] int32 rows of children in the next, or S if they are not in the tree
    child_values_total: tuple[Array, Array]  # [S + 1, N] those of children; the last are 0

    @property
    def exists(self) -> Bool[Array | np.ndarray, "*B E K"]:
        """Which children are in the tree."""
        return self.slot < self.child_values_total[0].shape[-2] - 1


def at_nodes(
    tree: SearchTree, tables: tuple[Array, Array], node: Int[Array, "..."]
) -> tuple[Array, Array]:
    """Both players' rows `[..., A, N]` at some nodes of a tree; 0 where they do not act.

    Args:
      tree: not batched.
      tables: its `policy` or `visits`.
      node: numbers of nodes.
    """
    rows = []
    for decision, table in zip(tree.decision, tables, strict=True):
        row = decision[node]
        acts = (row < len(table))[..., None, None]
        rows.append(jnp.where(acts, table[jnp.minimum(row, len(table) - 1)], 0))
    return rows[0], rows[1]


def uniform(game: BeliefGame, state: PublicState, dtype: jnp.dtype) -> Policy:
    """The policy that is uniform over the actor's legal actions; 0 in rows without any."""
    first, second = (actions.astype(dtype) for actions in game.legal(state))
    return tuple(x / jnp.maximum(sum_actions(x), 1)[None] for x in (first, second))


def choose(condition: Bool[Array, ""], these: PyTree, those: PyTree) -> PyTree:
    """`these` where the condition holds, else `those`."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), these, those)
