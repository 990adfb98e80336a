"""Explicit game trees: their table, how they are built, and the game's states at their histories.

- `GameTree`, `make_game_tree`: the table of all histories; `levels` and `own_sequence` walk it.
- `enumerate_game`, `estimate_num_histories`: the tree of a game; the size of a tree.
- `check_policies`: refuses what is not a policy of a tree.
- `moves_to`, `states_at`: the moves to a history, and the game's states there.
"""

from jaxgames.game_tree.check_policies import check_policies
from jaxgames.game_tree.enumeration import (
    MAX_HISTORIES,
    TreeTooLargeError,
    enumerate_game,
    estimate_num_histories,
    too_large,
)
from jaxgames.game_tree.histories import moves_to, states_at
from jaxgames.game_tree.tree import NO_PARENT, GameTree, levels, make_game_tree, own_sequence

__all__ = [
    "MAX_HISTORIES",
    "NO_PARENT",
    "GameTree",
    "TreeTooLargeError",
    "check_policies",
    "enumerate_game",
    "estimate_num_histories",
    "levels",
    "make_game_tree",
    "moves_to",
    "own_sequence",
    "states_at",
    "too_large",
]
