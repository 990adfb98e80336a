"""Where the histories of a game are in its belief table, so that concrete play can be followed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from jaxgames.beliefs.table import NOWHERE, BeliefTable
from jaxgames.core import Game, record
from jaxgames.game_tree import GameTree


@record
class Places:
    """H histories, as NumPy arrays; M moves: actions of players, or outcomes of chance.

    Play goes from history to history by `child`. An agent is told the `slot` of each history that
    play comes to.
    """

    child: np.ndarray  # [H, M] int32 the history after a move, NOWHERE where it is impossible
    state: np.ndarray  # [H] int32 public state
    # [H] int32 number among its parent's public children; NOWHERE down to the root
    slot: np.ndarray
    row: np.ndarray  # [H, 2] int32 of both players


def history_places(
    game: Game, tree: GameTree, table: BeliefTable
) -> tuple[Int[np.ndarray, " H"], Int[np.ndarray, "H 2"]]:
    """The public state and the rows of every history.

    Args:
      game: the rules.
      tree: `enumerate_game(game)`, H histories.
      table: `belief_table(game)`; where it merges information states, histories share rows.

    Returns:
      The public state's number `[H]` and both players' rows `[H, 2]`; -1 before the root in games
      with merged rows.
    """
    beliefs = game.belief_game()
    if beliefs is not None and beliefs.merges_rows:
        return beliefs.history_places(tree, table)
    return tree.public_state, _own_rows(tree, table)


def table_places(tree: GameTree, table: BeliefTable) -> Places:
    """The places of a tree's histories in a table with the same information states.

    Args:
      tree: of H histories.
      table: `table_from_tree(tree)`.

    Returns:
      The places of all histories.
    """
    state = tree.public_state
    above = np.maximum(tree.parent, 0)
    child = np.full((tree.num_histories, int(tree.parent_action.max()) + 1), NOWHERE, np.int32)
    child[above[1:], tree.parent_action[1:]] = np.arange(1, tree.num_histories)
    numbers = jnp.arange(int(state.max()) + 1, dtype=jnp.int32)
    below, exists = jax.vmap(lambda s: (table.children(s), table.child_mask(s)))(numbers)
    entered = np.asarray(below)[state[above]] == state[:, None]
    slot = np.argmax(entered & np.asarray(exists)[state[above]], axis=1)
    root_depth = tree.depth[np.argmax(state == int(table.root()))]
    return Places(
        child=child,
        state=state,
        slot=np.where(tree.depth > root_depth, slot, NOWHERE).astype(np.int32),
        row=_own_rows(tree, table).astype(np.int32),
    )


def _own_rows(tree, table):
    """Both players' rows of every history `[H, 2]`, in a table made of the tree."""
    rows = [
        np.argmax(np.asarray(numbers)[tree.public_state] == own[:, None], axis=1)
        for numbers, own in zip(table.information_states, tree.information_state.T, strict=True)
    ]
    return np.stack(rows, axis=1)
