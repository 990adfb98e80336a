"""The trees of finished searches, and small functions of public states and trees."""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

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

    @property
    def is_full(self) -> Bool[Array | np.ndarray, "*B"]:
        """Whether a further node may have had no room: for all its children, or for a decision of
        one of the players. A tree with all E nodes is not full: it needs no further room."""
        slots = self.child_values_total[0].shape[-2] - 1
        full = jnp.sum(self.exists, axis=(-2, -1)) + self.slot.shape[-1] > slots
        for decision, policy in zip(self.decision, self.policy, strict=True):
            room = policy.shape[-3]
            full |= jnp.sum(decision < room, axis=-1) >= room
        return full & (self.count < self.slot.shape[-2])

    # Of a tree that is not batched:

    def policy_at(self, node: Int[Array, "..."]) -> tuple[Array, Array]:
        """Both players' average policies `[..., A, N]` at some nodes; 0 where they do not act."""
        return self._at_nodes(self.policy, node)

    def visits_at(self, node: Int[Array, "..."]) -> tuple[Array, Array]:
        """Simulations `[..., A, N]` that took the actions at some nodes; 0 where a player does not
        act."""
        return self._at_nodes(self.visits, node)

    def node_below(self, node: Int[Array, ""], child: Int[Array, ""]) -> Int[Array, ""]:
        """The node that a child of a node was expanded into, or LEAF."""
        return self.node[node, child]

    def values_below(self, node: Int[Array, ""], child: Int[Array, ""]) -> tuple[Array, Array]:
        """Sums of both players' counterfactual values `[N]` in a child; 0 if it is not there."""
        slot = self.slot[node, child]
        return self.child_values_total[0][slot], self.child_values_total[1][slot]

    def _at_nodes(self, tables, node):
        rows = []
        for decision, table in zip(self.decision, tables, strict=True):
            row = decision[node]
            acts = (row < len(table))[..., None, None]
            rows.append(jnp.where(acts, table[jnp.minimum(row, len(table) - 1)], 0))
        return rows[0], rows[1]


@record
class LazyTree:
    """T places in the order in which they were added, of which the first `count` are in use: a tree
    of a game of perfect information, whose children were made when simulations took them.

    Place 0 is the root. Parents come before their children. Totals are as in `SearchTree`.
    """

    count: Array  # [] int32
    state: PublicState  # [T, ...]
    parent: Array  # [T] int32, or LEAF
    child: Array  # [T] int32 which child of its parent a place is
    actor: Array  # [T] int32 who acts there, or TERMINAL
    children: Array  # [T] int32 how many are in the tree
    since: Array  # [T] sum of the iterations' weights when the place was added
    policy: Array  # [T] average probability of the action that leads there
    visits: Array  # [T] simulations that took it
    reach_total: tuple[Array, Array]  # [T, 1]
    values_total: tuple[Array, Array]  # [T, 1]
    num_actions: int = flax.struct.field(pytree_node=False)

    @property
    def is_full(self) -> Bool[Array | np.ndarray, "*B"]:
        """False: these trees have room for all that simulations add."""
        return jnp.zeros(self.count.shape, bool)

    # Of a tree that is not batched, as of `SearchTree`:

    def policy_at(self, node: Int[Array, "..."]) -> tuple[Array, Array]:
        """Both players' average policies `[..., A, 1]` at some nodes; 0 where they do not act."""
        return self._at_nodes(self.policy, node)

    def visits_at(self, node: Int[Array, "..."]) -> tuple[Array, Array]:
        """Simulations `[..., A, 1]` that took the actions at some nodes; 0 where a player does not
        act."""
        return self._at_nodes(self.visits, node)

    def _at_nodes(self, table, node):
        def of(node):
            action = jnp.where(self.parent == node, self.child, self.num_actions)
            row = jnp.zeros(self.num_actions, table.dtype).at[action].set(table, mode="drop")
            return [jnp.where(self.actor[node] == p, row, 0)[:, None] for p in range(2)]

        for _ in range(jnp.ndim(node)):
            of = jax.vmap(of)
        first, second = of(node)
        return first, second


def uniform(game: BeliefGame, state: PublicState, dtype: jnp.dtype) -> Policy:
    """The policy that is uniform over the actor's legal actions; 0 in rows without any."""
    first, second = (actions.astype(dtype) for actions in game.legal(state))
    return tuple(x / jnp.maximum(sum_actions(x), 1)[None] for x in (first, second))
