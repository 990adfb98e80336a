"""The growing public tree of a search, with static shapes.

E nodes in order of expansion, each with K slots for its public children. A slot is a leaf until it
is expanded into a node of its own. Parents come before children, so one loop over the nodes goes
down and one goes up; both stop at the nodes in use, so that their cost grows with the tree. Tables
of a node are `[A, N]` as in `solvers.regret`: N rows (information states) and A actions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgames.core import record
from jaxgames.public_game import PublicGame, PublicState
from solvers.regret import RegretState

LEAF = -1  # a slot without a node


@record
class SearchTree:
    """E nodes of which the first `count` are in use; node 0 is the root."""

    count: Array  # [] int32
    state: PublicState  # [E, ...]
    children: PublicState  # [E, K, ...]
    node: Array  # [E, K] int32 the node that a slot was expanded into, or LEAF
    parent: Array  # [E] int32 slot (node * K + child) that was expanded into this node
    prior: Array  # [E, A, N] of the actor
    minimizer: RegretState  # [E, A, N] of the actor
    average: Array  # [E, A, N] sum of weight times own reach times policy
    visits: Array  # [E, A, N] how often simulations took an action
    action_values: Array  # [E, A, N] the actor's counterfactual values in the last iteration
    reach: Array  # [E, 2, N] own reaches in the last iteration
    slot_values: Array  # [E, K, 2, N] weighted sum of the values of slots
    slot_reach: Array  # [E, K, 2, N] weighted sum of the reaches of slots
    slot_weight: Array  # [E] sum of the weights of the iterations the node was there for


def new_tree(
    game: PublicGame, state: PublicState, *, capacity: int, dtype: jnp.dtype
) -> SearchTree:
    """A tree of nothing but the root, expanded: all its children are leaves."""
    nodes, actions, rows = capacity, game.num_actions, game.num_rows
    slots = (nodes, game.num_children)
    table = jnp.zeros((nodes, actions, rows), dtype)
    tree = SearchTree(
        count=jnp.int32(0),
        state=jax.tree.map(lambda x: jnp.broadcast_to(x, (nodes, *x.shape)), state),
        children=jax.tree.map(
            lambda x: jnp.broadcast_to(x, (nodes, *x.shape)), game.children(state)
        ),
        node=jnp.full(slots, LEAF, jnp.int32),
        parent=jnp.zeros(nodes, jnp.int32),
        prior=table,
        minimizer=RegretState(regret=table, policy=table),
        average=table,
        visits=table,
        action_values=table,
        reach=jnp.zeros((nodes, 2, rows), dtype),
        slot_values=jnp.zeros((*slots, 2, rows), dtype),
        slot_reach=jnp.zeros((*slots, 2, rows), dtype),
        slot_weight=jnp.zeros(nodes, dtype),
    )
    return _append(game, tree, state, jnp.int32(0), uniform(game, state, dtype), jnp.bool_(True))


def expand(
    game: PublicGame,
    tree: SearchTree,
    slot: Int[Array, ""],
    prior: Float[Array, "A N"],
    allowed: Bool[Array, ""],
) -> SearchTree:
    """The tree with a leaf made a node, where `allowed` and there is room."""
    state = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[slot], tree.children)
    allowed = allowed & (tree.count < len(tree.parent))
    node = tree.node.reshape(-1)
    node = node.at[slot].set(jnp.where(allowed, tree.count, node[slot]))
    tree = tree.replace(node=node.reshape(tree.node.shape))
    return _append(game, tree, state, slot, prior, allowed)


def uniform(game: PublicGame, state: PublicState, dtype: jnp.dtype) -> Float[Array, "A N"]:
    """Uniform over the actor's legal actions; 0 in rows without any."""
    legal = game.legal(state).T
    count = jnp.sum(legal, axis=0, dtype=jnp.int32)
    return legal.astype(dtype) / jnp.maximum(count, 1).astype(dtype)[None]


def _append(game, tree, state, slot, prior, allowed):
    """The tree with `state` as its next node."""
    place = jnp.minimum(tree.count, len(tree.parent) - 1)

    def put(table, value):
        return jax.tree.map(
            lambda x, new: x.at[place].set(jnp.where(allowed, new, x[place])), table, value
        )

    start = uniform(game, state, tree.average.dtype)
    return tree.replace(
        count=tree.count + allowed.astype(jnp.int32),
        state=put(tree.state, state),
        children=put(tree.children, game.children(state)),
        parent=put(tree.parent, slot),
        prior=put(tree.prior, prior),
        minimizer=put(tree.minimizer, RegretState(regret=jnp.zeros_like(start), policy=start)),
    )
