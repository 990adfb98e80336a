"""The growing public tree of a search, with static shapes.

The tree has E nodes in order of expansion. Each has K slots for its public children: slot
`node * K + child`. A slot is a leaf until it is expanded into a node of its own; terminals never
are. Parents come before their children, so that one loop over the nodes goes down the tree and
another goes up. All loops end with the nodes in use, so that their cost grows with the tree and not
with its capacity.

With `partial` trees (in games of perfect information, where child k is where action k leads) a node
starts with its best children only. Actions to the others do not exist for CFR until a simulation
takes them.

Tables of nodes are `[A, E * N]`: the N rows (information states) of each node are N columns side by
side, so that an operation on all rows is one pass over long vectors.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from jaxgames.arrays import at, safe_divide, sum_actions
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL, record
from solvers.regret import RegretState

LEAF = -1  # a slot without a node
CHUNK = 16  # nodes, or slots, that are looked at together; capacities are multiples of it


@record
class Slots:
    """A list of slots in any order."""

    slot: Array  # [X + K] int32, the first `count` in use; the others are X, which is no slot
    count: Array  # [] int32


@record
class SearchTree:
    """E nodes, of which the first `count` are in use, and X = E * K slots; node 0 is the root.

    The parent of the root and of nodes not in use is X, which is no slot of a node.
    """

    count: Array  # [] int32
    state: PublicState  # [E, ...]
    children: PublicState  # [E, K, ...]
    parent: Array  # [E] int32 slot that was expanded into this node, or X
    node: Array  # [X] int32 the node that a slot was expanded into, or LEAF
    leaves: Slots  # slots that can be expanded
    place: Array  # [X] int32 place of a slot in `leaves`
    terminals: Slots
    uniform: Array  # [A, E * N] over the actor's legal actions
    first: Array  # [E * N] bool whether the actor is player 0
    prior: Array  # [A, E * N] of the actor
    minimizer: RegretState  # [A, E * N] of the actor
    average: Array  # [A, E * N] sum of weight times own reach times policy
    visits: Array  # [A, E * N] number of simulations that took an action
    action_values: Array  # [A, E * N] the actor's counterfactual values in the last iteration
    reach: Array  # [2, E * N] own reaches in the last iteration
    reach_total: Array  # [2, E * N] their weighted sum
    since: Array  # [E] sum of the iterations' weights when the node was added
    slot_values: Array  # [2, (X + 1) * N] values of slots in the last iteration
    slot_total: Array  # [2, (X + 1) * N] their weighted sum
    added: Array | None  # [X] bool slots that were added, in partial trees; None: all children are
    # the evaluator's values and priors of slots, where they never change (N = 1):
    known_values: Array | None  # [2, X] at reach 1
    known_prior: Array | None  # [A, X]


def new_tree(
    game: BeliefGame,
    state: PublicState,
    *,
    capacity: int,
    dtype: jnp.dtype,
    partial: bool = False,
) -> SearchTree:
    """A tree of the root alone, whose children are leaves or terminals.

    Args:
      game: any belief-level game.
      state: the root.
      capacity: E, a multiple of CHUNK.
      dtype: of reaches and values.
      partial: later nodes need not have all their children.
    """
    nodes, actions, rows = capacity, game.num_actions, game.num_rows
    slots = nodes * game.num_children
    table = jnp.zeros((actions, nodes * rows), dtype)
    reach = jnp.zeros((2, nodes * rows), dtype)
    values = jnp.zeros((2, (slots + 1) * rows), dtype)
    none = Slots(slot=jnp.full(slots + game.num_children, slots, jnp.int32), count=jnp.int32(0))
    known = [jnp.zeros((n, slots), dtype) if rows == 1 else None for n in (2, actions)]
    tree = SearchTree(
        count=jnp.int32(0),
        state=jax.tree.map(lambda x: jnp.broadcast_to(x, (nodes, *x.shape)), state),
        children=jax.tree.map(
            lambda x: jnp.broadcast_to(x, (nodes, *x.shape)), game.children(state)
        ),
        parent=jnp.full(nodes, slots, jnp.int32),
        node=jnp.full(slots, LEAF, jnp.int32),
        leaves=none,
        place=jnp.zeros(slots, jnp.int32),
        terminals=none,
        uniform=table,
        first=jnp.zeros(reach.shape[1], bool),
        prior=table,
        minimizer=RegretState(regret=table, policy=table),
        average=table,
        visits=table,
        action_values=table,
        reach=reach,
        reach_total=reach,
        since=jnp.zeros(nodes, dtype),
        slot_values=values,
        slot_total=values,
        added=jnp.zeros(slots, bool) if partial else None,
        known_values=known[0],
        known_prior=known[1],
    )
    prior, since = uniform(game, state, dtype), jnp.zeros((), dtype)
    return _append(game, tree, state, jnp.int32(slots), prior, since, jnp.bool_(True))


def expand(
    game: BeliefGame,
    tree: SearchTree,
    slot: Int[Array, ""],
    prior: Float[Array, "A N"],
    since: Float[Array, ""],
    allowed: Bool[Array, ""],
    among: Bool[Array, " K"] | None = None,
) -> SearchTree:
    """The tree with a leaf turned into a node.

    Args:
      game: any belief-level game.
      tree: of the search.
      slot: the leaf.
      prior: of the new node's actor `[A, N]`.
      since: the sum of the weights of the iterations so far.
      allowed: whether to do it at all; nothing happens either if the tree is full.
      among: the children to add `[K]`; None: all.
    """
    allowed = allowed & (tree.count < len(tree.parent))
    state = child_at(tree, slot)
    place = jnp.where(allowed, slot, len(tree.node))
    tree = tree.replace(node=tree.node.at[place].set(tree.count, mode="drop"))
    tree = _without_leaf(tree, slot, allowed)
    return _append(game, tree, state, slot, prior, since, allowed, among)


def add_child(
    game: BeliefGame, tree: SearchTree, slot: Int[Array, ""], allowed: Bool[Array, ""]
) -> SearchTree:
    """The tree with one more child of a node, if `allowed`.

    The child becomes a leaf or a terminal, and the action to it an action for CFR.
    """
    node, none = slot // game.num_children, len(tree.node)
    state = child_at(tree, slot)
    ends = game.actor(state) == TERMINAL
    terminals, _ = _extended(tree.terminals, slot[None], (allowed & ends)[None], none)
    leaves, place = _extended(tree.leaves, slot[None], (allowed & ~ends)[None], none)
    where = jnp.where(allowed, slot, none)
    added = tree.added.at[where].set(True, mode="drop")
    actions = columns(added[None], node, 1, game.num_children).T
    spread = _spread(actions, tree.uniform.dtype)
    return tree.replace(
        terminals=terminals,
        leaves=leaves,
        place=tree.place.at[where].set(place[0], mode="drop"),
        added=added,
        uniform=with_columns(tree.uniform, spread, node, 1),
    )


def uniform(game: BeliefGame, state: PublicState, dtype: jnp.dtype) -> Float[Array, "A N"]:
    """The policy that is uniform over the actor's legal actions; 0 in rows without any."""
    return _spread(game.legal(state), dtype)


def _spread(actions, dtype):
    count = sum_actions(actions.astype(dtype))
    return actions.astype(dtype) / jnp.maximum(count, 1)[None]


def columns(
    table: Array, begin: Int[Array, ""] | int, count: int, num_rows: int
) -> Shaped[Array, "a n"]:
    """The columns `[a, count * N]` of `count` nodes or slots from number `begin` on."""
    return jax.lax.dynamic_slice_in_dim(table, begin * num_rows, count * num_rows, axis=1)


def with_columns(table: Array, new: Array, begin: Int[Array, ""] | int, num_rows: int) -> Array:
    """The table with the columns of the nodes or slots from number `begin` on replaced."""
    return _with_slice(table, new, jnp.asarray(begin * num_rows, jnp.int32))


def node_row_count(tree: SearchTree) -> int:
    """N, the number of rows of a node."""
    return tree.first.shape[0] // tree.parent.shape[0]


def node_policy(tree: SearchTree, node: Int[Array, ""]) -> Float[Array, "A N"]:
    """The average policy at a node; the present one in rows that were never reached."""
    rows = node_row_count(tree)
    total = columns(tree.average, node, 1, rows)
    return average_policy_of(total, columns(tree.minimizer.policy, node, 1, rows))


def slot_reach(game: BeliefGame, tree: SearchTree, slot: Int[Array, ""]) -> Float[Array, "2 N"]:
    """Both players' own reaches in a slot: their weighted sum since its node was added."""
    return reach_below(game, tree, slot, tree.reach_total)


def present_reach(game: BeliefGame, tree: SearchTree, slot: Int[Array, ""]) -> Float[Array, "2 N"]:
    """Both players' own reaches in a slot, from those of all nodes and the present policies."""
    node, child = slot // game.num_children, slot % game.num_children
    policy = columns(tree.minimizer.policy, node, 1, game.num_rows)
    here = columns(tree.reach, node, 1, game.num_rows)
    return game.down(at(tree.state, node), child, here, policy)


def reach_below(
    game: BeliefGame, tree: SearchTree, slot: Int[Array, ""], reach: Float[Array, "2 EN"]
) -> Float[Array, "2 N"]:
    """Both players' own reaches in a slot, from those of all nodes and average policies."""
    node = jnp.minimum(slot // game.num_children, len(tree.parent) - 1)
    here, policy = columns(reach, node, 1, game.num_rows), node_policy(tree, node)
    return game.down(at(tree.state, node), slot % game.num_children, here, policy)


def average_policy_of(
    total: Float[Array, "A n"], present: Float[Array, "A n"]
) -> Float[Array, "A n"]:
    """Average policies from weighted sums; the `present` one where the sums are 0."""
    mass = sum_actions(total)[None]
    return jnp.where(mass > 0, safe_divide(total, mass), present)


def choose(condition: Bool[Array, ""], these: PyTree, those: PyTree) -> PyTree:
    """`these` where the condition holds, else `those`."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), these, those)


def child_at(tree: SearchTree, slot: Int[Array, ""]) -> PublicState:
    """The public state in a slot."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[slot], tree.children)


@jax.custom_batching.custom_vmap
def _with_slice(table, new, begin):
    return jax.lax.dynamic_update_slice_in_dim(table, new, begin, axis=table.ndim - 1)


@_with_slice.def_vmap
def _with_slices(axis_size, in_batched, table, new, begin):
    """The rule of `vmap`: a slice, if the whole batch has one `begin`, where JAX would scatter."""
    if in_batched[2]:
        axes = tuple(0 if batched else None for batched in in_batched)
        plain = functools.partial(jax.lax.dynamic_update_slice_in_dim, axis=table.ndim - 2)
        if not in_batched[0]:
            plain = functools.partial(jax.lax.dynamic_update_slice_in_dim, axis=table.ndim - 1)
        return jax.vmap(plain, axes)(table, new, begin), True
    table, new = (
        x if batched else jnp.broadcast_to(x, (axis_size, *x.shape))
        for x, batched in zip((table, new), in_batched[:2], strict=True)
    )
    return _with_slice(table, new, begin), True


def _append(game, tree, state, slot, prior, since, allowed, among=None):
    """The tree with `state` as its next node, if `allowed`."""
    place = jnp.minimum(tree.count, len(tree.parent) - 1)
    rows, dtype = game.num_rows, tree.average.dtype

    def put(tables, values):
        return jax.tree.map(
            lambda x, new: x.at[place].set(jnp.where(allowed, new, x[place])), tables, values
        )

    def put_columns(table, new):
        new = jnp.where(allowed, new, columns(table, place, 1, rows))
        return with_columns(table, new, place, rows)

    children = game.children(state)
    first = jnp.broadcast_to(game.actor(state) == 0, (1, rows))
    policy, exists = uniform(game, state, dtype), game.child_mask(state)
    if among is not None:
        exists = exists & among
        policy = _spread(exists[:, None], dtype)
    tree = _with_slots(game, tree, children, exists & allowed)
    if tree.added is not None:
        before = columns(tree.added[None], place, 1, game.num_children)
        added = with_columns(
            tree.added[None], before | (exists & allowed)[None], place, game.num_children
        )
        tree = tree.replace(added=added[0])
    return tree.replace(
        count=tree.count + allowed.astype(jnp.int32),
        state=put(tree.state, state),
        children=put(tree.children, children),
        parent=put(tree.parent, slot),
        since=put(tree.since, since),
        uniform=put_columns(tree.uniform, policy),
        first=put_columns(tree.first[None], first)[0],
        prior=put_columns(tree.prior, prior),
        minimizer=tree.minimizer.replace(policy=put_columns(tree.minimizer.policy, policy)),
    )


def _with_slots(game, tree, children, exists):
    """The tree with the next node's children that exist in its lists of leaves and terminals."""
    ends = jax.vmap(game.actor)(children) == TERMINAL
    slot = tree.count * game.num_children + jnp.arange(game.num_children, dtype=jnp.int32)
    none = len(tree.node)
    terminals, _ = _extended(tree.terminals, slot, exists & ends, none)
    leaves, place = _extended(tree.leaves, slot, exists & ~ends, none)
    place = with_columns(tree.place[None], place[None], tree.count, game.num_children)[0]
    return tree.replace(terminals=terminals, leaves=leaves, place=place)


def _extended(slots, new, mask, none):
    """The list with the `new` slots in `mask` appended, and the places `[K]` that they have."""
    number = jnp.cumsum(mask, dtype=jnp.int32) - 1
    # packed without gaps, so that they are written as one slice
    column = jnp.arange(len(new), dtype=jnp.int32)[:, None]
    packed = jnp.min(jnp.where(mask[None] & (number[None] == column), new[None], none), axis=1)
    count = slots.count + jnp.sum(mask, dtype=jnp.int32)
    slot = with_columns(slots.slot[None], packed[None], slots.count, 1)[0]
    return Slots(slot=slot, count=count), slots.count + number


def _without_leaf(tree, slot, allowed):
    """The tree without a leaf, if `allowed`; the last of the list takes its place."""
    leaves, none = tree.leaves, len(tree.node)
    end = jnp.maximum(leaves.count - 1, 0)
    last, gap = leaves.slot[end], tree.place[jnp.minimum(slot, none - 1)]
    put = lambda x, where, new: x.at[jnp.where(allowed, where, none)].set(new, mode="drop")  # noqa: E731
    return tree.replace(
        leaves=Slots(
            slot=put(put(leaves.slot, gap, last), end, none),
            count=leaves.count - allowed.astype(jnp.int32),
        ),
        place=put(tree.place, last, gap),
    )
