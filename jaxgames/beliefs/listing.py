"""All public states of a belief-level game, or of parts of it, if they are few enough to list."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from jaxgames.arrays import at, index_batches, on_device
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL, record

MAX_STATES = 1_000_000
NO_STATE = -1


@record
class Listing:
    """S public states in breadth-first order: first the root of the game, or several roots."""

    state: PublicState  # [S, ...]
    parent: Array  # [S] int32, NO_STATE at roots
    slot: Array  # [S] int32 which child of its parent
    child: Array  # [S, K] int32 number of each child, NO_STATE where there is none
    actor: Array  # [S] int32, TERMINAL also where the listing ends before the game does

    @property
    def num_inner(self) -> int:
        """Number of public states that are not terminal: the most nodes that a search can use."""
        return int((np.asarray(self.actor) != TERMINAL).sum())


def list_public_states(
    game: BeliefGame,
    *,
    roots: PublicState | None = None,
    is_end: Callable[[PublicState], Bool[np.ndarray, " _"]] | None = None,
    max_states: int = MAX_STATES,
) -> Listing:
    """Lists a game's public states, level by level.

    Args:
      game: any belief-level game.
      roots: public states `[B, ...]` to list all that is below of, in place of the game's root.
      is_end: tells of public states, which it gets as NumPy arrays with a leading axis, where to
        end although the game goes on; these count as terminals. It is not asked about roots.
      max_states: the most public states to list.

    Returns:
      The listing, which begins with the root of the game, or with the roots in their order.

    Raises:
      ValueError: there are more than `max_states`.
    """
    view = functools.partial(in_blocks, functools.partial(_view, game))
    start = jax.tree.map(lambda x: np.asarray(x)[None], game.root()) if roots is None else roots
    level = jax.tree.map(np.asarray, start)
    count, begin = len(jax.tree.leaves(level)[0]), 0
    states, parents, slots = [level], [np.full(count, NO_STATE)], [np.zeros(count, int)]
    actors, ends = [], np.zeros(count, bool)
    while True:
        children, mask, actor = view(level)
        actor = np.where(ends, TERMINAL, actor)
        actors.append(actor)
        above, slot = np.nonzero(mask & (actor != TERMINAL)[:, None])
        if not len(above):
            break
        if count + len(above) > max_states:
            raise ValueError(
                f"{game.name} has more than max_states={max_states:,} public states: {count:,} so"
                f" far and {len(above):,} on the next level"
            )
        level = jax.tree.map(lambda x, a=above, k=slot: x[a, k], children)
        ends = np.zeros(len(above), bool) if is_end is None else is_end(level)
        states.append(level)
        parents.append(above + begin)
        slots.append(slot)
        begin, count = count, count + len(above)
    parent, slot = np.concatenate(parents), np.concatenate(slots)
    child = np.full((count, game.num_children), NO_STATE)
    below = parent != NO_STATE
    child[parent[below], slot[below]] = np.flatnonzero(below)
    return Listing(
        state=jax.tree.map(lambda *x: on_device(np.concatenate(x)), *states),
        parent=on_device(parent, np.int32),
        slot=on_device(slot, np.int32),
        child=on_device(child, np.int32),
        actor=on_device(np.concatenate(actors), np.int32),
    )


@jax.jit
@functools.partial(jax.vmap, in_axes=(None, 0))
def _view(game, state):
    """A public state's children, which of them exist, and who acts in it."""
    return game.children(state), game.child_mask(state), game.actor(state)


def in_blocks(
    function: Callable[[PublicState], PyTree], states: PublicState, *, size: int = 128
) -> PyTree:
    """Applies a batched function to many public states, in blocks of one size.

    Args:
      function: of public states with a leading axis of length `size`; it is compiled once.
      states: public states with any number of them on the leading axis.
      size: public states in a block.

    Returns:
      What the function returns, as NumPy arrays with one entry for each of the states.
    """
    states = jax.tree.map(np.asarray, states)  # JAX would dispatch a gather for each block
    count = len(jax.tree.leaves(states)[0])
    parts = []
    for block in index_batches(count, size):
        parts.append(jax.tree.map(np.asarray, function(at(states, block))))
    return jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)


def distinct_states(states: PublicState) -> tuple[Int[np.ndarray, " D"], Int[np.ndarray, " S"]]:
    """Finds the states that are equal bit by bit among S public states.

    Args:
      states: public states as NumPy arrays with a leading axis.

    Returns:
      The first of each D equal ones, in the order of the states' bytes; and for each state, which
      of these it equals.
    """
    leaves = jax.tree.leaves(states)
    size = len(leaves[0])
    if size == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    codes = [np.ascontiguousarray(leaf).reshape(size, -1).view(np.uint8) for leaf in leaves]
    _, first, number = np.unique(
        np.concatenate(codes, axis=1), axis=0, return_index=True, return_inverse=True
    )
    return first, number.reshape(-1)
