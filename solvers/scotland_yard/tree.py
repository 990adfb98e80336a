"""The search tree of PimBot in arrays of fixed size, of many searches side by side.

A node is a position by the moves that led to it. When detectives search, Mr X's station is another
one in every simulation: the first node at which he moves has, for each station, a node of its own
with the moves from there. Every simulation adds one node at most.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgames.core import record
from solvers.scotland_yard import playouts
from solvers.scotland_yard.tables import YardTables

NO_NODE = 0  # the root, which is no node's child


@record
class Tree:
    """B trees of C nodes; node 0 is the root. Rewards are those of the player who moves."""

    visits: Array  # [B, C, A] float32
    rewards: Array  # [B, C, A] float32 sums
    child: Array  # [B, C, A] int32, or NO_NODE
    by_station: Array | None  # [B, C, N] int32 nodes of Mr X's assumed stations, or NO_NODE
    size: Array  # [B] int32 nodes in use
    history: Array  # [B, H, 2] float32 times that a move was made, and its sum of rewards


def init(tables: YardTables, *, batch: int, simulations: int, assumed: bool) -> Tree:
    """Trees that are only a root.

    Args:
      tables: of the game.
      batch: B.
      simulations: that each tree has room for.
      assumed: whether Mr X's station is assumed.
    """
    nodes = batch, simulations + 1
    actions = (*nodes, tables.num_moves + 1)
    stations = (*nodes, tables.num_stations)
    return Tree(
        visits=jnp.zeros(actions, jnp.float32),
        rewards=jnp.zeros(actions, jnp.float32),
        child=jnp.zeros(actions, jnp.int32),
        by_station=jnp.zeros(stations, jnp.int32) if assumed else None,
        size=jnp.ones(batch, jnp.int32),
        history=jnp.zeros((batch, playouts.num_move_numbers(tables), 2), jnp.float32),
    )


def put_node(
    tree: Tree,
    *,
    adds: Bool[Array, " B"],
    node: Int[Array, " B"],
    action: Int[Array, " B"],
    station: Int[Array, " B"],
    by_station: Bool[Array, " B"],
) -> Tree:
    """Adds a new node to some trees.

    Args:
      tree: before.
      adds: the trees that get a node.
      node: the node above it.
      action: that leads to it.
      station: that leads to it, where `by_station` holds.
      by_station: whether the new node is that of an assumed station.
    """
    games = jnp.arange(len(adds), dtype=jnp.int32)
    new = jnp.where(adds & ~by_station, tree.size, 0)  # NO_NODE is added where there is none
    stations = tree.by_station
    if stations is not None:
        other = jnp.where(adds & by_station, tree.size, 0)
        stations = stations.at[games, node, station].add(other)
    return tree.replace(
        child=tree.child.at[games, node, action].add(new),
        by_station=stations,
        size=tree.size + adds.astype(jnp.int32),
    )


def back_up(
    tree: Tree,
    *,
    counts: Bool[Array, " B"],
    node: Int[Array, " B"],
    action: Int[Array, " B"],
    reward: Float[Array, " B"],
) -> Tree:
    """Counts an action of a node of each tree where `counts` holds."""
    games = jnp.arange(len(counts), dtype=jnp.int32)
    at = games, node, action
    return tree.replace(
        visits=tree.visits.at[at].add(counts.astype(jnp.float32)),
        rewards=tree.rewards.at[at].add(jnp.where(counts, reward, 0.0)),
    )


def remember(tree: Tree, moves: Int[Array, "T B"], rewards: Float[Array, "T B"]) -> Tree:
    """Counts moves by their numbers, whatever the position was in which they were made.

    Args:
      tree: before.
      moves: as `playouts.move_number` numbers them, or NO_MOVE.
      rewards: of the players who made them.
    """
    made = moves != playouts.NO_MOVE
    games = jnp.broadcast_to(jnp.arange(moves.shape[1], dtype=jnp.int32)[None], moves.shape)
    change = jnp.stack([jnp.ones_like(rewards), rewards], axis=-1)
    change = jnp.where(made[..., None], change, 0.0)
    number = jnp.where(made, moves, 0)
    return tree.replace(history=tree.history.at[games, number].add(change))
