"""All public states of a belief-level game, for games small enough to list them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL, record

MAX_STATES = 1_000_000
NO_STATE = -1


@record
class Listing:
    """S public states in breadth-first order, the root of the game first."""

    state: PublicState  # [S, ...]
    parent: Array  # [S] int32, NO_STATE at the root
    slot: Array  # [S] int32 which child of its parent
    child: Array  # [S, K] int32 number of each child, NO_STATE where there is none
    actor: Array  # [S] int32

    @property
    def num_inner(self) -> int:
        """Number of public states that are not terminal: the most nodes that a search can use."""
        return int((np.asarray(self.actor) != TERMINAL).sum())


def list_public_states(game: BeliefGame, *, max_states: int = MAX_STATES) -> Listing:
    """Lists a game's public states, level by level.

    Args:
      game: any belief-level game.
      max_states: the most public states to list.

    Returns:
      The listing; its first state is the root of the game.

    Raises:
      ValueError: there are more than `max_states`.
    """
    view = jax.jit(jax.vmap(lambda s: (game.children(s), game.child_mask(s), game.actor(s))))
    view = functools.partial(in_blocks, view)
    level = jax.tree.map(lambda x: np.asarray(x)[None], game.root())
    states, parents, slots, actors = [level], [np.array([NO_STATE])], [np.zeros(1, int)], []
    count, begin = 1, 0
    while True:
        children, mask, actor = view(level)
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
        states.append(level)
        parents.append(above + begin)
        slots.append(slot)
        begin, count = count, count + len(above)
    parent, slot = np.concatenate(parents), np.concatenate(slots)
    child = np.full((count, game.num_children), NO_STATE)
    child[parent[1:], slot[1:]] = np.arange(1, count)
    return Listing(
        state=jax.tree.map(lambda *x: jnp.asarray(np.concatenate(x)), *states),
        parent=jnp.asarray(parent, jnp.int32),
        slot=jnp.asarray(slot, jnp.int32),
        child=jnp.asarray(child, jnp.int32),
        actor=jnp.asarray(np.concatenate(actors), jnp.int32),
    )


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
    for begin in range(0, count, size):
        block = np.minimum(np.arange(begin, begin + size), count - 1)
        values = function(jax.tree.map(lambda x, block=block: x[block], states))
        parts.append(jax.tree.map(np.asarray, values))
    return jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)
