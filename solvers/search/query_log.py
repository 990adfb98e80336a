"""The log of a search's queries: calls of its evaluator in regret phases, for training.

Growing-tree CFR "is logging all neural net queries it does since they might be used later in
training" (Schmid et al. 2023, Algorithm 1); they are made "during the GT-CFR regret update phase"
("Training Process"). The log has room for C of them: each place holds a call that is drawn
uniformly from all calls so far, independently of the other places (a reservoir for each place),
together with the beliefs at which it was made. Where leaves keep their values
(`GrowingTreeCfr.belief_tolerance`), only calls that are made count.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from jaxgames.arrays import at
from jaxgames.beliefs.contract import PublicState
from solvers.search.forest import Forest, Layout, OpenLeaves, reach_at
from solvers.search.lazy_trees import LazyTrees, first_calls
from solvers.search.search_state import QueryLog, Searches


def start_log(state: Searches, keys: Key[Array, " B"], *, num_queries: int) -> Searches:
    """The searches with a log of the queries that each makes from now on.

    Args:
      state: searches before their first iteration.
      keys: consumed.
      num_queries: C, how many to keep of each search.

    Returns:
      The searches; `iterate` and `simulate` write the log. Leaves that are valued when a search
      starts are in it already.
    """
    shape = len(keys), num_queries
    log = QueryLog(
        state=jax.tree.map(
            lambda x: jnp.broadcast_to(x[:, None], (*shape, *x.shape[1:])), state.problem.state
        ),
        reach=tuple(jnp.zeros((*shape, x.shape[1]), x.dtype) for x in state.problem.reach),
        calls=jnp.zeros(len(keys), jnp.int32),
        key=keys,
    )
    if isinstance(state.forest, LazyTrees):
        log = with_new_calls(log, *first_calls(state.forest, state.layout))
    elif state.layout.single_row:
        log = with_calls(log, state.forest, state.layout, jnp.zeros(len(keys), jnp.int32))
    return state.replace(log=log)


def with_calls(
    log: QueryLog,
    forest: Forest,
    layout: Layout,
    first: Int[Array, " B"],
    called: Bool[Array, " leaves"] | None = None,
) -> QueryLog:
    """The log after one call of the evaluator for each of some leaves.

    Args:
      log: before, of B searches.
      forest: with the reaches and policies at which the leaves are valued.
      layout: of the forest.
      first: the place in the list of each search's leaves from which on they are valued.
      called: which of all leaves are valued; None: all from `first` on.

    Returns:
      The log after the calls.
    """
    leaves = forest.leaves if called is None else _called(forest.leaves, layout, called)
    number = leaves.count - first
    replaced, which = _drawn(log, number)
    spot = first[:, None] + which
    spot = jnp.clip(spot, 0, jnp.maximum(leaves.count - 1, 0)[:, None])
    leaf = jnp.take_along_axis(leaves.place, spot, axis=1)
    # with perfect information a leaf is valued once, at reach 1
    reach = reach_at(forest, leaf, forest.reach)
    reach = jax.tree.map(jnp.ones_like, reach) if layout.single_row else reach
    return _replaced(log, number, replaced, at(forest.state, leaf), reach)


def with_new_calls(log: QueryLog, states: PublicState, valued: Bool[Array, "B m"]) -> QueryLog:
    """The log after a call of the evaluator, at reach 1, for each of some public states.

    Args:
      log: before, of B searches.
      states: up to m of each search `[B, m, ...]`.
      valued: which of them are valued.

    Returns:
      The log after the calls.
    """
    number = jnp.sum(valued, axis=1, dtype=jnp.int32)
    replaced, which = _drawn(log, number)
    order = jnp.argsort(~valued, axis=1, stable=True)  # those that are valued come first
    spot = jnp.take_along_axis(order, jnp.minimum(which, valued.shape[1] - 1), axis=1)
    searches = jnp.arange(len(valued), dtype=jnp.int32)[:, None]
    drawn = at(states, (searches, spot))
    return _replaced(log, number, replaced, drawn, jax.tree.map(jnp.ones_like, log.reach))


def _drawn(log, number):
    """Which places come to hold one of the last `number` calls, and which one of these `[B, C]`.

    A place does with the probability number / calls, and then holds each of them equally often.
    """
    calls = log.calls + number
    shape, dtype = (2, log.reach[0].shape[1]), log.reach[0].dtype
    draw = lambda key, calls: jax.random.uniform(jax.random.fold_in(key, calls), shape)  # noqa: E731
    draws = jax.vmap(draw)(log.key, log.calls).astype(dtype)
    share = number[:, None].astype(dtype)
    replaced = draws[:, 0] * calls[:, None].astype(dtype) < share
    return replaced, jnp.floor(draws[:, 1] * share).astype(jnp.int32)


def _replaced(log, number, replaced, state, reach):
    """The log with some places replaced by the states and reaches given for all of them."""

    def kept(new, old):
        return jnp.where(replaced.reshape(*replaced.shape, *[1] * (new.ndim - 2)), new, old)

    return log.replace(
        state=jax.tree.map(kept, state, log.state),
        reach=jax.tree.map(kept, reach, log.reach),
        calls=log.calls + number,
    )


def _called(leaves, layout, called):
    """The lists of those leaves that are valued."""
    every = jnp.arange(leaves.place.shape[1], dtype=jnp.int32)
    used = every[None] < leaves.count[:, None]
    mine = used & called[jnp.maximum(leaves.place - layout.inner, 0)]
    number = jnp.cumsum(mine, axis=1, dtype=jnp.int32)
    searches = jnp.arange(layout.batch, dtype=jnp.int32)[:, None]
    spot = jnp.where(mine, number - 1, len(every))
    place = jnp.zeros_like(leaves.place).at[searches, spot].set(leaves.place, mode="drop")
    return OpenLeaves(place=place, count=number[:, -1], spot=leaves.spot)
