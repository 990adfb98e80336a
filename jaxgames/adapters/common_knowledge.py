"""What players know at each history, where a game tells it only at decisions or only to players.

`complete` finds each player's information states at the histories where another player or chance
acts; `common_knowledge` the public states, which no library but ours gives: the classes of
histories that are linked by chains of "some player cannot tell these two apart".
"""

from __future__ import annotations

import itertools

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from jaxgames.game_tree import GameTree, make_game_tree

UNKNOWN = -1  # label of a history where a player's information is not given


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
    """The tree of a table of histories, from what its players were told (`labels`).

    As `make_game_tree`, with information states by `complete`, public states by
    `common_knowledge`.
    """
    states = complete_information_states(
        parent=parent, parent_action=parent_action, depth=depth, actor=actor, labels=labels
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
    depth: Int[np.ndarray, " H"],
    actor: Int[np.ndarray, " H"],
    labels: Int[np.ndarray, "H P"],
) -> Int[np.ndarray, "H P"]:
    """Information states of every player at every history, arbitrarily numbered.

    The histories are in breadth-first order. `labels` numbers what each player was told, UNKNOWN
    where that is not given; at the player's own decisions it is given and kept as it is (a label
    may even span depths). Elsewhere a player knows what it knew before, its own last action, whose
    turn it is and what it was told. Where that is unknown: at once, not later, what will tell
    apart its next decisions; if it never acts again, the last action of a player. All this is
    taken back as far as a later decision of the player shows that it was not known.
    """
    levels = _levels(depth)
    by_player = (actor[parent] >= 0) & (parent >= 0)
    last = np.where(by_player, parent_action, -1)
    columns = []
    for player in range(labels.shape[1]):
        label, own = labels[:, player], actor == player
        told = _dense(label, actor, np.where(label == UNKNOWN, last, -1))
        group = _groups(levels, parent, own, told, label != UNKNOWN)
        known = np.zeros(len(parent), np.int64)
        known[own] = 2 * label[own]  # even: decisions; odd: the rest
        count = 0
        for rows in levels:
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
    """Public states: numbers of the finest classes, within one depth, that no player's
    information state cuts."""
    rows = np.arange(len(depth))
    edges = [(rows, _dense(depth, column)) for column in information_state.T]
    return _components(len(depth), edges)


def _groups(levels, parent, own, told, known):
    """Per level, from the last to the first, classes of histories which the player must not tell
    apart: it was told the same, or children that matter are in one class."""
    alive = own.copy()  # the player acts here or further down
    group = np.zeros(len(parent), np.int64)
    below = slice(0, 0)
    for rows in reversed(levels):
        here, deep = np.arange(rows.start, rows.stop), np.arange(below.start, below.stop)
        deep = deep[alive[deep] & ~own[parent[deep]]]
        alive[parent[deep]] = True
        sure = here[known[here] | ~alive[here]]
        edges = [
            (sure - rows.start, _dense(told[sure])),
            (parent[deep] - rows.start, group[deep]),
        ]
        group[rows] = _components(len(here), edges)
        below = rows
    return group


def _components(count, edges):
    """Connected components of `count` things; things with one key in one list are connected."""
    size, rows, columns = count, [], []
    for things, keys in edges:
        rows.append(things)
        columns.append(keys + size)
        size += 1 + int(keys.max(initial=-1))
    things, keys = np.concatenate(rows), np.concatenate(columns)
    graph = coo_array((np.ones(len(things), bool), (things, keys)), shape=(size, size))
    return connected_components(graph, directed=False)[1][:count].astype(np.int64)


def _dense(*columns):
    """Numbers from 0 of the distinct tuples `(columns[0][k], columns[1][k], ...)`."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        part = np.unique(column, return_inverse=True)[1]
        number = number * (1 + part.max(initial=0)) + part
        number = np.unique(number, return_inverse=True)[1]
    return number


def _levels(depth):
    """The slice of rows of each depth."""
    starts = np.searchsorted(depth, np.arange(depth[-1] + 2))
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(starts)]
