"""Belief tables from explicit game trees."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jaxgames.arrays import on_device
from jaxgames.beliefs.table import (
    NOWHERE,
    AlignedTable,
    BeliefTable,
    kinds_of_payoffs,
    numbers_of_states,
)
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import GameTree, levels


def table_from_tree(tree: GameTree, *, dtype: str = "float32") -> BeliefTable:
    """The tables of a two-player zero-sum game, from all its histories.

    Rows are the tree's information states; none are merged. Chance may deal privately before the
    first decision only; whatever it does later must be public.

    Args:
      tree: the histories of the game, as `enumerate_game` lists them.
      dtype: of weights, payoffs and features.

    Returns:
      Tables whose public states and information states have the tree's numbers; an `AlignedTable`
      where the game allows it.

    Raises:
      ValueError: the game has not two players, is not zero-sum, chance deals privately after the
        first decision, or an information state lies in several public states.
    """
    _check_players(tree)
    _check_information_states(tree)
    public = tree.public_state
    count = int(public.max()) + 1
    _, example = np.unique(public, return_index=True)  # a history in each public state
    above = np.where(example == 0, NOWHERE, public[tree.parent[example]])
    slot = _slots(above)
    first = _first(tree.actor[example], above)
    depth = tree.depth[example] - tree.depth[example[first]]
    rows, aligned = _ranks(tree), False
    if (kept := _kept(tree, rows, depth[public] > 0)) is not None:
        rows, aligned = kept, True
        decided = (depth > 0) & (tree.actor[tree.parent[example]] >= 0)
        slot = np.where(decided, tree.parent_action[example], slot)
    num_children = int(max(slot.max() + 1, tree.num_actions if aligned else 1))
    num_rows = tuple(int(own.max()) + 1 for own in rows)
    num_actions = _num_actions(tree)
    weights, payoffs = _pair_matrices(tree, rows, (count, *num_rows))
    successors = np.full((count, num_children), NOWHERE)
    successors[above[1:], slot[1:]] = np.arange(1, count)
    return (AlignedTable if aligned else BeliefTable)(
        name=tree.game,
        num_rows=num_rows,
        straight=(aligned, aligned, aligned),
        most_states=numbers_of_states(tree.actor[example][first:]),
        action_of_child=tuple(range(min(tree.num_actions, num_children))),
        num_actions=num_actions,
        num_children=num_children,
        max_depth=int(depth.max()),
        first=jnp.int32(first),
        actors=on_device(tree.actor[example], np.int32),
        successors=on_device(successors, np.int32),
        depth=on_device(depth, np.int32),
        information_states=_row_tables(tree, rows, count, num_rows),
        legal_actions=_legal(tree, rows, count, num_actions, num_rows),
        weights=on_device(weights, dtype),
        payoffs=on_device(payoffs, dtype),
        **kinds_of_payoffs(payoffs, tree.actor[example] == TERMINAL, dtype),
        features=on_device(_paths(above, slot, depth, num_children), dtype),
        **_maps(tree, rows, slot, depth, successors.shape, num_actions, num_rows),
    )


def _check_players(tree):
    if tree.num_players != 2:
        raise ValueError(f"{tree.game} has {tree.num_players} players; a belief table needs 2")
    off = np.abs(tree.returns.sum(axis=1)).max()
    if off > 1e-9:
        raise ValueError(f"{tree.game} is not zero-sum: returns add up to {off:g} somewhere")


def _check_information_states(tree):
    """Refuses games in which a player cannot tell where in public the game is: in tables, whose
    public states players know, it would be told."""
    for player in range(2):
        decisions = np.flatnonzero(tree.actor == player)
        states, public = tree.information_state[decisions, player], tree.public_state[decisions]
        pairs = np.unique(np.stack([states, public]), axis=1)
        several = np.flatnonzero(np.diff(pairs[0]) == 0)
        if len(several):
            raise ValueError(
                f"{tree.game}: information state {pairs[0, several[0]]} of player {player} is in"
                " several public states; a belief table needs players who can tell these apart"
            )


def _slots(above):
    """The number of each public state `[S]` among its siblings."""
    siblings = np.argsort(above[1:], kind="stable")
    sizes = np.bincount(above[1:], minlength=len(above))
    slot = np.zeros(len(above), np.int64)
    slot[1 + siblings] = np.arange(len(above) - 1) - (np.cumsum(sizes) - sizes)[above[1:][siblings]]
    return slot


def _ranks(tree):
    """Both players' rows of each history `[2, H]`: the ranks of its information states among
    those of the public state."""
    places = []
    for player in range(2):
        pairs = np.stack([tree.public_state, tree.information_state[:, player]])
        distinct, place = np.unique(pairs, axis=1, return_inverse=True)
        begin = np.searchsorted(distinct[0], distinct[0])
        places.append((np.arange(distinct.shape[1]) - begin)[place])
    return np.stack(places)


def _kept(tree, rows, below):
    """Rows `[2, H]` that keep the numbers they had at the root, as an `AlignedTable` needs them.

    `below` `[H]` says which histories lie below the root. None if two information states would
    share a row or one would have two, or if actions are not public.
    """
    rows = rows.copy()
    for level in levels(tree.parent):
        later = np.flatnonzero(below[level]) + level.start
        rows[:, later] = rows[:, tree.parent[later]]
    child = np.flatnonzero(below & (tree.actor[tree.parent] >= 0))
    pairs = [
        (tree.public_state, rows[player], tree.information_state[:, player]) for player in range(2)
    ]
    above = tree.public_state[tree.parent[child]]
    pairs.append((above, tree.parent_action[child], tree.public_state[child]))
    return rows if all(map(_one_to_one, *zip(*pairs, strict=True))) else None


def _one_to_one(place, first, second):
    """Whether at each place the first numbers determine the second ones and the reverse."""
    counts = [
        np.unique(np.stack(columns), axis=1).shape[1]
        for columns in ((place, first), (place, second), (place, first, second))
    ]
    return counts[0] == counts[1] == counts[2]


def _pair_matrices(tree, rows, shape):
    """Weights and weighted payoffs `[S, N0, N1]` of pairs of rows: sums over histories."""
    chance = tree.chance_reach()
    weights, payoffs = np.zeros((2, *shape))
    place = tree.public_state, rows[0], rows[1]
    ended = tree.actor == TERMINAL
    np.add.at(weights, place, chance)
    np.add.at(payoffs, place, np.where(ended, chance * tree.returns[:, 0], 0))
    return weights, payoffs


def _num_actions(tree):
    """The actions that either player has: up to the last that is legal anywhere.

    Who has more has all of the tree's, so that policies by information state have their width.
    """
    legal = [tree.legal[tree.actor == player].any(axis=0) for player in range(2)]
    counts = [int(np.flatnonzero(own).max(initial=0)) + 1 for own in legal]
    return tuple(tree.num_actions if n == max(counts) else n for n in counts)


def _legal(tree, rows, count, num_actions, num_rows):
    """Legal actions `[S, A, N]` of the rows of either player, where it acts."""
    tables = []
    for player, size in enumerate(zip(num_actions, num_rows, strict=True)):
        legal, decides = np.zeros((count, *size), bool), np.flatnonzero(tree.actor == player)
        place = tree.public_state[decides], slice(None), rows[player, decides]
        legal[place] = tree.legal[decides, : size[0]]
        tables.append(on_device(legal))
    return tuple(tables)


def _row_tables(tree, rows, count, num_rows):
    """Numbers of information states `[S, N]` of either player, by public state and row."""
    tables = []
    for player, size in enumerate(num_rows):
        states = np.full((count, size), NOWHERE)
        states[tree.public_state, rows[player]] = tree.information_state[:, player]
        tables.append(on_device(states, np.int32))
    return tuple(tables)


def _first(actors, above):
    """The public state below the first chance moves, which show nothing."""
    state = 0
    while actors[state] == CHANCE and (above == state).sum() == 1:
        state = int(np.argmax(above == state))
    return state


def _paths(above, slot, depth, num_children):
    """The path to each public state `[S, D * K]`: one-hot numbers of the children taken."""
    path = np.zeros((len(above), max(int(depth.max()), 1), num_children))
    for state in range(1, len(above)):  # parents come first
        if depth[state] > 0:
            path[state] = path[above[state]]
            path[state, depth[state] - 1, slot[state]] = 1
    return path.reshape(len(above), -1)


def _maps(tree, rows, slot, depth, shape, num_actions, num_rows):
    """The maps of rows of a `BeliefTable`, in both directions."""
    count, num_children = shape
    tables = dict(from_act=[], from_see=[], to_act=[], to_see=[])
    child = np.flatnonzero(depth[tree.public_state] > 0)
    parent, below = tree.parent[child], tree.public_state[child]
    state, k = tree.public_state[parent], slot[below]
    actor = tree.actor[parent]
    for player, (size, own_actions) in enumerate(zip(num_rows, num_actions, strict=True)):
        to_act = np.full((count, num_children, own_actions, size), NOWHERE)
        to_see = np.full((count, num_children, size), NOWHERE)
        from_act, from_see = np.full((2, count, 1, size), NOWHERE)
        before, after = rows[player, parent], rows[player, child]
        acts, action = actor == player, tree.parent_action[child]
        sees, place = ~acts, k * size + after
        for mask, table, index, value in (
            (acts, from_act, (below, 0, after), action * size + before),
            (sees, from_see, (below, 0, after), before),
            (acts, to_act, (state, k, action, before), place),
            (sees, to_see, (state, k, before), place),
        ):
            masked = tuple(i[mask] if isinstance(i, np.ndarray) else i for i in index)
            _fill(tree, table, masked, value[mask])
        tables["from_act"].append(from_act)
        tables["from_see"].append(from_see)
        tables["to_act"].append(_short(to_act))
        tables["to_see"].append(_short(to_see))
    return {name: tuple(on_device(x, np.int32) for x in each) for name, each in tables.items()}


def _short(places):
    """The lists along axis 1 without their gaps, cut to the length of the longest."""
    longest = max(int((places != NOWHERE).sum(axis=1).max()), 1)
    return -np.sort(-places, axis=1)[:, :longest]


def _fill(tree, table, places, values):
    """Writes values to places, which must agree where a place occurs twice."""
    table[places] = values
    if (table[places] != values).any():
        raise ValueError(
            f"{tree.game}: an information state splits up within a public state, because chance"
            " deals privately after the first decision; a belief table cannot hold that"
        )
