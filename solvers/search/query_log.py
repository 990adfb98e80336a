"""The log of a search's queries: calls of its evaluator in regret phases, for training.

Growing-tree CFR "is logging all neural net queries it does since they might be used later in
training" (Schmid et al. 2023, Algorithm 1); they are made "during the GT-CFR regret update phase"
(Fig. 2). The log has room for C of them: each place holds a call that is drawn uniformly from all
calls so far, independently of the other places (a reservoir for each place), together with the
beliefs at which it was made.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame
from solvers.search.search_state import QueryLog, Search
from solvers.search.search_tree import SearchTree, child_at, choose, present_reach


def start_log(game: BeliefGame, state: Search, key: Key[Array, ""], *, num_queries: int) -> Search:
    """The search with a log of the queries that it makes from now on.

    Args:
      game: any belief-level game.
      state: a search before its first iteration.
      key: consumed.
      num_queries: C, how many to keep.

    Returns:
      The search; `iterate` and `simulate` write the log.
    """
    root = state.problem.state
    log = QueryLog(
        state=jax.tree.map(lambda x: jnp.broadcast_to(x, (num_queries, *x.shape)), root),
        reach=jnp.zeros((num_queries, 2, game.num_rows), state.tree.reach.dtype),
        calls=jnp.int32(0),
        key=key,
    )
    if game.num_rows == 1:  # then the first leaves are valued already
        log = with_leaves(game, log, state.tree, jnp.int32(0))
    return state.replace(log=log)


def with_leaves(
    game: BeliefGame, log: QueryLog, tree: SearchTree, first: Int[Array, ""]
) -> QueryLog:
    """The log after one call of the evaluator for each of some leaves.

    Args:
      game: of the search.
      log: before.
      tree: with the reaches and policies at which the leaves are valued.
      first: the place in the list of leaves from which on they are valued.

    Returns:
      The log after the calls.
    """
    number = tree.leaves.count - first
    calls = log.calls + number
    # The last of `calls` calls are these: a place comes to hold one of them with the probability
    # number / calls, and then each of them equally often.
    draws = jax.random.uniform(jax.random.fold_in(log.key, log.calls), (2, len(log.reach)))
    replaced = draws[0] * calls.astype(draws.dtype) < number.astype(draws.dtype)
    place = first + jnp.floor(draws[1] * number.astype(draws.dtype)).astype(jnp.int32)

    def query_at(slot):
        reach = present_reach(game, tree, slot)
        # with perfect information a leaf is valued once, at reach 1
        return child_at(tree, slot), jnp.ones_like(reach) if game.num_rows == 1 else reach

    slot = at(tree.leaves.slot, jnp.minimum(place, jnp.maximum(tree.leaves.count - 1, 0)))
    slot = jnp.minimum(slot, len(tree.node) - 1)
    state, reach = jax.vmap(choose)(replaced, jax.vmap(query_at)(slot), (log.state, log.reach))
    return log.replace(state=state, reach=reach, calls=calls)
