"""Leaves that are valued again only where beliefs have moved.

Policies change little from one iteration of CFR to the next, and with them the beliefs at most
leaves. With `GrowingTreeCfr.belief_tolerance` a leaf keeps what it was worth per unit of the
opponent's reach, to which counterfactual values are proportional, until the belief there has moved
too far. The leaves of all searches that have to be valued are gathered first, so that full chunks
of them are evaluated: calls that are not needed are not made.

What is kept differs from what the evaluator would say now. For the search that is one more error of
its evaluator, in the sense of Theorem 1 of Schmid et al. 2023.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from jaxgames.arrays import at, safe_divide
from jaxgames.beliefs.contract import PublicState
from solvers.search.forest import CHILD, PARENT, Forest, KeptLeaves, Layout, reach_at

# evaluate(states [C, ...], prepared [C, ...], reach [C, N]) -> both players' values [C, N]
Values = tuple[Float[Array, "C N0"], Float[Array, "C N1"]]
EvaluateChunk = Callable[[PublicState, PyTree, Values], Values]

_slice = jax.lax.dynamic_slice_in_dim


def revalued(
    forest: Forest, layout: Layout, evaluate: EvaluateChunk, *, tolerance: float
) -> tuple[Forest, Bool[Array, " leaves"]]:
    """The forest with those leaves valued that are new, or whose beliefs have moved.

    A belief is both players' reaches, each scaled to sum 1, or 0 if nothing is reached. It has
    moved if the L1 distance of either player's from that of the last valuation is above the
    tolerance; this distance is 2 at most.

    Args:
      forest: with the reaches of this iteration.
      layout: of the forest.
      evaluate: values leaves, a chunk at a time.
      tolerance: how far beliefs may move.

    Returns:
      The forest, and which leaves were valued.
    """
    kept, chunk = forest.kept, layout.chunk

    def beliefs(place):
        reach = reach_at(forest, place, forest.reach)
        return tuple(safe_divide(x, jnp.sum(x, axis=1, keepdims=True)) for x in reach)

    def look(i, carry):
        """Lists the leaves of a chunk that have to be valued."""
        listed, count = carry
        number = i * chunk + jnp.arange(chunk, dtype=jnp.int32)
        place = layout.inner + number
        links = forest.links[place]
        exists = forest.pointers[links[:, PARENT], links[:, CHILD]] == place  # and is no node yet
        before = (_slice(x, i * chunk, chunk) for x in kept.beliefs)
        moves = (_distance(x, y) for x, y in zip(beliefs(place), before, strict=True))
        keeps = _slice(kept.valued, i * chunk, chunk) & (jnp.maximum(*moves) <= tolerance)
        moved = exists & ~keeps
        spot = jnp.where(moved, count + jnp.cumsum(moved, dtype=jnp.int32) - 1, layout.leaves)
        return listed.at[spot].set(number, mode="drop"), count + jnp.sum(moved, dtype=jnp.int32)

    def value(i, kept):
        """Values a chunk of those that are listed; the last chunk may not be full."""
        number = _slice(listed, i * chunk, chunk)
        leaf = jnp.minimum(number, layout.leaves - 1)
        now = beliefs(layout.inner + leaf)
        worth = evaluate(at(forest.state, layout.inner + leaf), at(forest.prepared, leaf), now)
        put = lambda table, new: table.at[number].set(new, mode="drop")  # noqa: E731
        return KeptLeaves(
            values=tuple(map(put, kept.values, worth)),
            beliefs=tuple(map(put, kept.beliefs, now)),
            valued=put(kept.valued, True),
        )

    nothing = jnp.full(layout.leaves, layout.leaves, jnp.int32), jnp.int32(0)
    listed, count = jax.lax.fori_loop(0, -(-forest.num_leaves // chunk), look, nothing)
    kept = jax.lax.fori_loop(0, -(-count // chunk), value, kept)
    called = jnp.zeros(layout.leaves, bool).at[listed].set(True, mode="drop")
    return forest.replace(kept=kept), called


def _distance(belief, before):
    """The L1 distance of beliefs; infinite where exactly one of them is 0, since kept values do
    not scale with it."""
    nobody = jnp.all(belief == 0, axis=1) != jnp.all(before == 0, axis=1)
    return jnp.where(nobody, jnp.inf, jnp.sum(jnp.abs(belief - before), axis=1))
