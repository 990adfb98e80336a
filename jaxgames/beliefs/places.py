"""Where the histories of a game tree are in its public table: concrete play, seen publicly."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.beliefs.table import NOWHERE, BeliefTable
from jaxgames.core import record
from jaxgames.game_tree import GameTree


@record
class Places:
    """H histories, on the host like their tree; M moves: actions of players, or chance outcomes.

    Play goes from history to history by `child`. Agents hear the `slot` of a history that is
    entered, where it has one.
    """

    child: np.ndarray  # [H, M] int32 history after a move, NOWHERE where it is impossible
    state: np.ndarray  # [H] int32 public state
    slot: np.ndarray  # [H] int32 which public child of the one before; NOWHERE down to the root
    row: np.ndarray  # [H, 2] int32 of both players


def table_places(tree: GameTree, table: BeliefTable) -> Places:
    """The places of a tree's histories in `table`, which was made from it."""
    state = tree.public_state
    above = np.maximum(tree.parent, 0)
    child = np.full((tree.num_histories, int(tree.parent_action.max()) + 1), NOWHERE, np.int32)
    child[above[1:], tree.parent_action[1:]] = np.arange(1, tree.num_histories)
    numbers = jnp.arange(int(state.max()) + 1, dtype=jnp.int32)
    below, there = jax.vmap(lambda s: (table.children(s), table.child_mask(s)))(numbers)
    entered = np.asarray(below)[state[above]] == state[:, None]
    slot = np.argmax(entered & np.asarray(there)[state[above]], axis=1)
    root_depth = tree.depth[np.argmax(state == int(table.root()))]
    rows = np.asarray(table.information_states)[state] == tree.information_state[:, :, None]
    return Places(
        child=child,
        state=state,
        slot=np.where(tree.depth > root_depth, slot, NOWHERE).astype(np.int32),
        row=np.argmax(rows, axis=2).astype(np.int32),
    )
