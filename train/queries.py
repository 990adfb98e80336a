"""Network queries of searches, and what solving them teaches (Student of Games, Algorithm 2).

A search asks the network for the value of its leaves. Some of these questions are kept in a queue,
solved by a search of their own with both ranges fixed, and become examples.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL, record
from solvers.search import growing_tree_cfr
from solvers.search.growing_tree_cfr import Search
from solvers.search.search_tree import LEAF, child_at, columns
from train.examples import Example, make_example


@record
class Query:
    """A public belief state; batches have a leading axis."""

    state: PublicState
    reach: Array  # [2, N] own reaches


@record
class Queue:
    """First in, first out; a full queue forgets the oldest."""

    queries: Query  # [C, ...]
    first: Array  # [] int32 place of the oldest
    size: Array  # [] int32


def new_queue(query_like: Query, capacity: int) -> Queue:
    """An empty queue for unbatched queries like this one.

    Raises:
      ValueError: `capacity` is below 1.
    """
    if capacity < 1:
        raise ValueError(f"capacity={capacity} must be at least 1")
    return Queue(
        queries=jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), query_like),
        first=jnp.int32(0),
        size=jnp.int32(0),
    )


def push(queue: Queue, batch: Query, mask: Bool[Array, " B"]) -> Queue:
    """Appends those of `batch` (fields [B, ...]) that `mask` names.

    Raises:
      ValueError: the batch is larger than the queue.
    """
    capacity = queue.queries.reach.shape[0]
    if mask.shape[0] > capacity:
        raise ValueError(f"a batch of {mask.shape[0]} queries needs a queue of as many: {capacity}")
    number = jnp.cumsum(mask, dtype=jnp.int32) - 1
    place = jnp.where(mask, (queue.first + queue.size + number) % capacity, capacity)
    queries = jax.tree.map(lambda x, new: x.at[place].set(new, mode="drop"), queue.queries, batch)
    size = queue.size + jnp.sum(mask, dtype=jnp.int32)
    lost = jnp.maximum(size - capacity, 0)
    return Queue(queries=queries, first=(queue.first + lost) % capacity, size=size - lost)


def pop(queue: Queue, count: int) -> tuple[Queue, Query, Bool[Array, " B"]]:
    """Takes the `count` oldest; the mask is False where the queue had no more."""
    capacity = queue.queries.reach.shape[0]
    number = jnp.arange(count, dtype=jnp.int32)
    there = number < queue.size
    taken = jnp.sum(there, dtype=jnp.int32)
    batch = jax.tree.map(lambda x: x[(queue.first + number) % capacity], queue.queries)
    first = (queue.first + taken) % capacity
    return Queue(queries=queue.queries, first=first, size=queue.size - taken), batch, there


def pick(
    game: BeliefGame, search: Search, key: Key[Array, ""], *, count: int
) -> tuple[Query, Bool[Array, " C"]]:
    """Some of the network's queries in a search (fields [C, ...]), and which are there.

    `count` different slots are drawn, the longer they were leaves the likelier, and asked about at
    the beliefs of the search's last policies. `key` is consumed. (The paper logs queries as they
    come; here none has to be stored.)
    """
    tree, slots = search.tree, game.num_children
    number = jnp.arange(len(tree.parent), dtype=jnp.int32)
    node = tree.node.reshape(-1, slots)
    end = jnp.where(node == LEAF, tree.count, node)
    age = jnp.where((number < tree.count)[:, None], end - number[:, None], 0)
    mask = jax.vmap(game.child_mask)(tree.state)
    if tree.added is not None:
        mask = tree.added.reshape(mask.shape)
    actor = jax.vmap(jax.vmap(game.actor))(tree.children)
    weight = jnp.where(mask & (actor != TERMINAL), age, 0).reshape(-1)
    noise = jax.random.gumbel(key, weight.shape, tree.reach.dtype)
    score = jnp.log(jnp.maximum(weight, 1).astype(noise.dtype)) + noise
    _, drawn = jax.lax.top_k(jnp.where(weight > 0, score, -jnp.inf), count)

    def one(slot):
        node, child = slot // slots, slot % slots
        here, policy = (
            columns(table, node, 1, game.num_rows) for table in (tree.reach, tree.minimizer.policy)
        )
        reach = game.down(at(tree.state, node), child, here, policy)
        if game.num_rows == 1:
            reach = jnp.ones_like(reach)  # which the search asked at
        possible = jnp.all(jnp.any(reach > 0, axis=1))  # or there is nothing to learn
        return Query(state=child_at(tree, slot), reach=reach), possible & (weight[slot] > 0)

    return jax.vmap(one)(drawn.astype(jnp.int32))


def answer(game: BeliefGame, query: Query, found: Search) -> Example:
    """What the search of a query's problem teaches: its average values and average policy."""
    values, policy = growing_tree_cfr.average_values(found), growing_tree_cfr.average_policy(found)
    return make_example(game, query.state, query.reach, values, policy)
