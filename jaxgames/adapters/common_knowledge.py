"""Information states and public states of games from libraries that give only part of them.

Some libraries tell what a player knows only where it acts. `complete_information_states` adds the
player's information states at the other histories. No adapted library gives public states:
`common_knowledge_classes` computes them as the classes of histories that are linked by chains of
"some player cannot distinguish these two".
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from jaxgames.game_tree import GameTree, levels, make_game_tree

UNKNOWN = -1  # the label where a player's information is not given


def complete_tree(
    *,
    parent: Int[np.ndarray, " H"],
    parent_action: Int[np.ndarray, " H"],
    depth: Int[np.ndarray, " H"],
    actor: Int[np.ndarray, " H"],
    legal: Bool[np.ndarray, "H A"],
    chance_prob: Float[np.ndarray, " H"],
    returns: Float[np.ndarray, "H P"],
    labels: Int[np.ndarray, "H P"],
    game: str,
) -> GameTree:
    """Builds a game tree from a table of histories and what the players were told at each.

    Args:
      parent: as for `make_game_tree`.
      parent_action: as for `make_game_tree`.
      depth: number of moves before each history.
      actor: as for `make_game_tree`.
      legal: as for `make_game_tree`.
      chance_prob: as for `make_game_tree`.
      returns: as for `make_game_tree`.
      labels: as for `complete_information_states`.
      game: the name of the game, for messages.

    Returns:
      The tree.

    Raises:
      ValueError: as `make_game_tree`.
    """
    states = complete_information_states(
        parent=parent, parent_action=parent_action, actor=actor, labels=labels
    )
    return make_game_tree(
        parent=parent,
        parent_action=parent_action,
        actor=actor,
        legal=legal,
        chance_prob=chance_prob,
        returns=returns,
        information_state=states,
        public_state=common_knowledge_classes(depth, states),
        game=game,
    )


def complete_information_states(
    *,
    parent: Int[np.ndarray, " H"],
    parent_action: Int[np.ndarray, " H"],
    actor: Int[np.ndarray, " H"],
    labels: Int[np.ndarray, "H P"],
) -> Int[np.ndarray, "H P"]:
    """Numbers the information states of every player at every history.

    At its own decisions a player's information state is the label. Elsewhere it consists of what
    the player knew before, its own last action, who acts, and the label. Where there is no label,
    the player is taken to learn at once what will distinguish its next decisions; if it never acts
    again, it sees the last action of a player. What a later decision of the player shows not to be
    known is removed.

    Args:
      parent: histories in breadth-first order, as for `make_game_tree`.
      parent_action: as for `make_game_tree`.
      actor: as for `make_game_tree`.
      labels: a number for what each player was told, UNKNOWN where it is not given. It must be
        given at the player's own decisions, and may be the same at different depths.

    Returns:
      Numbers of information states, in no particular order.
    """
    by_depth = [slice(0, 1), *levels(parent)]
    by_player = (actor[parent] >= 0) & (parent >= 0)
    last = np.where(by_player, parent_action, -1)
    columns = []
    for player in range(labels.shape[1]):
        label, own = labels[:, player], actor == player
        observed = _dense(label, actor, np.where(label == UNKNOWN, last, -1))
        group = _groups(by_depth, parent, own, observed, label != UNKNOWN)
        known = np.zeros(len(parent), np.int64)
        known[own] = 2 * label[own]  # even numbers for decisions, odd ones for the rest
        count = 0
        for rows in by_depth:
            rest = np.arange(rows.start, rows.stop)[~own[rows]]
            above = parent[rest]
            action = np.where(own[above] & (above >= 0), parent_action[rest], -1)
            number = _dense(known[above], action, group[rest])
            known[rest] = 2 * (count + number) + 1
            count += len(rest)
        columns.append(known)
    return np.stack(columns, axis=1)


def common_knowledge_classes(
    depth: Int[np.ndarray, " H"], information_state: Int[np.ndarray, "H P"]
) -> Int[np.ndarray, " H"]:
    """Numbers the public states: histories among which it is common knowledge that the game is.

    They are the finest classes of histories of one depth such that no information state of any
    player has histories in two of them.

    Args:
      depth: number of moves before each history.
      information_state: numbers of the information states by history and player.

    Returns:
      The number of each history's class.
    """
    rows = np.arange(len(depth))
    edges = [(rows, _dense(depth, column)) for column in information_state.T]
    return _components(len(depth), edges)


def _groups(by_depth, parent, own, observed, known):
    """Classes of histories of each depth that a player must not distinguish.

    Two histories are in one class if the player was told the same there, or if children at which it
    still acts later are in one class. Computed from the last depth to the first.
    """
    alive = own.copy()  # whether the player acts here or later
    group = np.zeros(len(parent), np.int64)
    below = slice(0, 0)
    for rows in reversed(by_depth):
        here, deep = np.arange(rows.start, rows.stop), np.arange(below.start, below.stop)
        deep = deep[alive[deep] & ~own[parent[deep]]]
        alive[parent[deep]] = True
        sure = here[known[here] | ~alive[here]]
        edges = [
            (sure - rows.start, _dense(observed[sure])),
            (parent[deep] - rows.start, group[deep]),
        ]
        group[rows] = _components(len(here), edges)
        below = rows
    return group


def _components(count, edges):
    """Connected components of `count` items; items that share a key in one of the lists are
    connected.
    """
    size, rows, columns = count, [], []
    for items, keys in edges:
        rows.append(items)
        columns.append(keys + size)
        size += 1 + int(keys.max(initial=-1))
    items, keys = np.concatenate(rows), np.concatenate(columns)
    graph = coo_array((np.ones(len(items), bool), (items, keys)), shape=(size, size))
    return connected_components(graph, directed=False)[1][:count].astype(np.int64)


def _dense(*columns):
    """Numbers, from 0, of the distinct tuples `(columns[0][k], columns[1][k], ...)`."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        part = np.unique(column, return_inverse=True)[1]
        number = number * (1 + part.max(initial=0)) + part
        number = np.unique(number, return_inverse=True)[1]
    return number
