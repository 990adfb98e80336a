"""Network queries of searches, their queue, and the examples that their solutions give.

A search asks the network for the values of its leaves. Some of these queries go into a queue, are
solved by a search of their own with both ranges fixed, and become examples (Schmid et al. 2023,
Algorithm 2).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool

from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.checks import at_least
from jaxgames.core import record
from nets.ranges import reached
from solvers.search.readouts import average_policy, average_values, logged_queries
from solvers.search.search_state import Search
from train import data_sharding
from train.examples import Example, make_example


@record
class Query:
    """A public belief state; batches have a leading axis."""

    state: PublicState
    reach: tuple[Array, Array]  # [N] own reaches of both players


@record
class Queue:
    """A first-in, first-out queue of C places; when it is full, the oldest query is dropped."""

    queries: Query  # [C, ...]
    first: Array  # [] int32 place of the oldest query
    size: Array  # [] int32 number of queries


def new_queue(query_like: Query, capacity: int) -> Queue:
    """An empty queue.

    Args:
      query_like: an unbatched query, which fills the places that are not in use: searches may be
        made for them, too, whose results nobody reads.
      capacity: the number of places.

    Raises:
      ValueError: `capacity` is below 1.
    """
    at_least(1, capacity=capacity)
    return Queue(
        queries=jax.tree.map(lambda x: jnp.broadcast_to(x, (capacity, *x.shape)), query_like),
        first=jnp.int32(0),
        size=jnp.int32(0),
    )


def push(queue: Queue, batch: Query, mask: Bool[Array, " B"]) -> Queue:
    """The queue with some queries appended.

    Args:
      queue: at least as large as the batch.
      batch: queries (fields `[B, ...]`).
      mask: which of them to append `[B]`.

    Raises:
      ValueError: the batch is larger than the queue.
    """
    capacity = len(queue.queries.reach[0])
    if mask.shape[0] > capacity:
        raise ValueError(f"a batch of {mask.shape[0]} queries needs a queue of as many: {capacity}")
    number = jnp.cumsum(mask, dtype=jnp.int32) - 1
    place = jnp.where(mask, (queue.first + queue.size + number) % capacity, capacity)
    queries = jax.tree.map(lambda x, new: x.at[place].set(new, mode="drop"), queue.queries, batch)
    size = queue.size + jnp.sum(mask, dtype=jnp.int32)
    lost = jnp.maximum(size - capacity, 0)
    return Queue(queries=queries, first=(queue.first + lost) % capacity, size=size - lost)


def pop(
    queue: Queue, count: int, *, mesh: Mesh | None = None
) -> tuple[Queue, Query, Bool[Array, " B"]]:
    """Takes the oldest queries out of the queue.

    Args:
      queue: to take from.
      count: B, how many to take; 0 is allowed.
      mesh: the devices over which the queue is cut, and then the queries; None: one.

    Returns:
      The queue without them, the queries (fields `[B, ...]`), and a mask `[B]` that is False where
      the queue had no more.
    """
    if not count:  # devices have nothing to send each other
        nothing = jax.tree.map(lambda x: x[:0], queue.queries)
        return queue, nothing, jnp.zeros(0, bool)
    capacity = len(queue.queries.reach[0])
    number = jnp.arange(count, dtype=jnp.int32)
    exists = number < queue.size
    taken = jnp.sum(exists, dtype=jnp.int32)
    place = (queue.first + number) % capacity
    (batch,) = data_sharding.read([(queue.queries, place)], mesh)
    first = (queue.first + taken) % capacity
    return Queue(queries=queue.queries, first=first, size=queue.size - taken), batch, exists


def searched_queries(game: BeliefGame, search: Search) -> tuple[Query, Bool[Array, " C"]]:
    """The queries that a search has kept; see `solvers.search.readouts.logged_queries`.

    Args:
      game: any belief-level game.
      search: finished, with `logged_queries=C` of its settings above 0.

    Returns:
      Queries (fields `[C, ...]`), with the ranges that the network saw (`nets.ranges.reached`), and
      a mask `[C]` of those that exist.
    """
    state, reach, exists = logged_queries(search)
    seen = jax.vmap(lambda state, reach: reached(game.rows(state), reach))(state, reach)
    return Query(state=state, reach=seen), exists


def solved_example(game: BeliefGame, query: Query, search: Search) -> Example:
    """The example of a solved query: the average values and policy of its search."""
    values, policy = average_values(search), average_policy(search)
    return make_example(game, query.state, query.reach, values, policy)
