"""The belief-level contract as tables: any game whose tree fits into memory.

A public state is its number. Rows of a public state are the players' information states there;
the tables say which rows become which, in both directions. Built from an explicit game tree.
"""

from __future__ import annotations

import functools
import operator

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxgames.core import CHANCE, TERMINAL, Game, record
from jaxgames.game_tree import GameTree, enumerate_game, levels
from jaxgames.public_game import Player, PublicGame

_LONG = 16  # axes longer than this are reduced, shorter ones added up
State = Int[Array, ""]  # number of a public state
NOWHERE = -1  # in tables of rows: the child or parent is impossible, or the row is not there


@record
class PublicTable(PublicGame):
    """S public states in breadth-first order, K children, N rows, A actions."""

    name: str = flax.struct.field(pytree_node=False)
    num_rows: int = flax.struct.field(pytree_node=False)
    num_actions: int = flax.struct.field(pytree_node=False)
    num_children: int = flax.struct.field(pytree_node=False)
    max_depth: int = flax.struct.field(pytree_node=False)
    first: Array  # [] int32 where play starts
    actors: Array  # [S] int32
    successors: Array  # [S, K] int32, NOWHERE at padding
    depth: Array  # [S] int32 public states between `first` and here; negative above it
    information_states: Array  # [S, 2, N] int32 numbers in the game tree, NOWHERE at padding
    legal_actions: Array  # [S, N, A] bool
    act_to: Array  # [S, K, N, A] int32 row of the actor in the child
    act_from: Array  # [S, K, N] int32 row * A + action of the actor that a child's row comes from
    act_sum: Array  # [S, J, N, A] int32 the same as lists: child * N + row
    see_to: Array  # [S, 2, K, N] int32 row of a player who does not act
    see_from: Array  # [S, 2, K, N] int32
    weights: Array  # [S, N, N]
    payoffs: Array  # [S, N, N] weighted payoffs of player 0 at terminals, else 0
    path: Array  # [S, D * K] float one-hot number of the child taken at every depth

    def root(self) -> State:
        return self.first

    def actor(self, state: State) -> Int[Array, ""]:
        return self.actors[state]

    def rows(self, state: State) -> Bool[Array, "2 N"]:
        return self.information_states[state] != NOWHERE

    def legal(self, state: State) -> Bool[Array, "N A"]:
        return self.legal_actions[state]

    def children(self, state: State) -> Int[Array, " K"]:
        return jnp.maximum(self.successors[state], 0)

    def child_mask(self, state: State) -> Bool[Array, " K"]:
        return self.successors[state] != NOWHERE

    def act_down(self, state: State, reach: Float[Array, "N A"]) -> Float[Array, "K N"]:
        return _take(reach.reshape(-1), self.act_from[state])

    def act_up(self, state: State, values: Float[Array, "K N"]) -> Float[Array, "N A"]:
        return _sum(_take(values.reshape(-1), self.act_sum[state]))

    def see_down(
        self, state: State, player: Player, reach: Float[Array, " N"]
    ) -> Float[Array, "K N"]:
        return _take(reach, self.see_from[state, player])

    def see_up(
        self, state: State, player: Player, values: Float[Array, "K N"]
    ) -> Float[Array, " N"]:
        return _sum(_take(values.reshape(-1), _flat(self.see_to[state, player])))

    def follow(
        self, state: State, pair: Int[Array, "2"], action: Int[Array, ""]
    ) -> Int[Array, "K 2"]:
        acted = self.act_to[state, :, pair[self.actors[state]], action]
        seen = [self.see_to[state, p, :, pair[p]] for p in range(2)]
        rows = [jnp.where(self.actors[state] == p, acted, seen[p]) for p in range(2)]
        return jnp.stack(rows, axis=-1)

    def weight(self, state: State, pair: Int[Array, "2"]) -> Float[Array, ""]:
        return self.weights[state, pair[0], pair[1]]

    def compatible(
        self,
        state: State,
        player: Player,
        opponent_reach: Float[Array, " N"],
    ) -> Float[Array, " N"]:
        return _apply(self.weights[state], player, opponent_reach)

    def terminal_values(
        self,
        state: State,
        player: Player,
        opponent_reach: Float[Array, " N"],
    ) -> Float[Array, " N"]:
        values = _apply(self.payoffs[state], player, opponent_reach)
        return jnp.where(jnp.asarray(player) == 0, values, -values)

    def encode(self, state: State) -> Float[Array, " F"]:
        return self.path[state]


def _take(values, index):
    """Values by index, 0 where the index is NOWHERE."""
    return jnp.where(index >= 0, values[jnp.maximum(index, 0)], 0)


def _flat(rows):
    """Rows `[K, ...]` of children as indices into flat `[K * N]` values."""
    num_children, num_rows = rows.shape[:2]
    begin = jnp.arange(num_children, dtype=jnp.int32) * num_rows
    return jnp.where(rows >= 0, rows + begin.reshape(-1, *[1] * (rows.ndim - 1)), NOWHERE)


def _apply(matrix, player, vector):
    """Products of the matrix `[N, N]` of players 0 and 1 with the opponent's vector."""
    if not isinstance(player, int):
        return jnp.where(player == 0, _apply(matrix, 0, vector), _apply(matrix, 1, vector))
    rows = matrix.T if player == 0 else matrix
    return _sum(rows * vector[:, None])


def _sum(values):
    """Sum over the leading axis, unrolled where it is short: XLA:CPU reduces those slowly."""
    if values.shape[0] > _LONG:
        return jnp.sum(values, axis=0)
    return functools.reduce(operator.add, [values[i] for i in range(values.shape[0])])


def public_table(game: Game | GameTree, *, dtype: str = "float32") -> PublicTable:
    """Compiles a two-player zero-sum game, or its explicit tree, into tables.

    Chance may deal privately before the first decision only; later it shows what it does.

    Raises:
      TreeTooLargeError: too many histories.
      ValueError: not two players, not zero-sum, or chance deals privately later on.
    """
    tree = game if isinstance(game, GameTree) else enumerate_game(game)
    _check_players(tree)
    public = tree.public_state
    count = int(public.max()) + 1
    _, example = np.unique(public, return_index=True)
    above = np.where(example == 0, NOWHERE, public[tree.parent[example]])
    slot, num_children = _slots(above)
    rows, states = _rows(tree, count)
    num_rows = states.shape[2]
    chance = tree.chance_prob.copy()
    for level in levels(tree.parent):
        chance[level] *= chance[tree.parent[level]]
    weights, payoffs = np.zeros((2, count, num_rows, num_rows))
    ended = tree.actor == TERMINAL
    np.add.at(weights, (public, rows[0], rows[1]), chance)
    np.add.at(payoffs, (public, rows[0], rows[1]), np.where(ended, chance * tree.returns[:, 0], 0))
    successors = np.full((count, num_children), NOWHERE)
    successors[above[1:], slot[1:]] = np.arange(1, count)
    first = _first(tree.actor[example], successors)
    depth = tree.depth[example] - tree.depth[example[first]]
    return PublicTable(
        name=tree.game,
        num_rows=num_rows,
        num_actions=tree.num_actions,
        num_children=num_children,
        max_depth=int(depth.max()),
        first=jnp.int32(first),
        actors=jnp.asarray(tree.actor[example], jnp.int32),
        successors=jnp.asarray(successors, jnp.int32),
        depth=jnp.asarray(depth, jnp.int32),
        information_states=jnp.asarray(states, jnp.int32),
        weights=jnp.asarray(weights, dtype),
        payoffs=jnp.asarray(payoffs, dtype),
        path=jnp.asarray(_paths(above, slot, depth, num_children), dtype),
        **_maps(tree, rows, slot, depth, successors.shape, num_rows),
    )


def _check_players(tree):
    if tree.num_players != 2:
        raise ValueError(f"{tree.game} has {tree.num_players} players; a public table needs 2")
    off = np.abs(tree.returns.sum(axis=1)).max()
    if off > 1e-9:
        raise ValueError(f"{tree.game} is not zero-sum: returns add up to {off:g} somewhere")


def _slots(above):
    """Number of each public state among its siblings, and how many children there are at most."""
    siblings = np.argsort(above[1:], kind="stable")
    sizes = np.bincount(above[1:], minlength=len(above))
    slot = np.zeros(len(above), np.int64)
    slot[1 + siblings] = np.arange(len(above) - 1) - (np.cumsum(sizes) - sizes)[above[1:][siblings]]
    return slot, max(int(sizes.max()), 1)


def _rows(tree, count):
    """Row of each history for both players `[2, H]`, and the tables of rows `[S, 2, N]`."""
    places, lists = [], []
    for player in range(2):
        pairs = np.stack([tree.public_state, tree.information_state[:, player]])
        distinct, place = np.unique(pairs, axis=1, return_inverse=True)
        sizes = np.bincount(distinct[0], minlength=count)
        rank = np.arange(distinct.shape[1]) - (np.cumsum(sizes) - sizes)[distinct[0]]
        places.append(rank[place])
        lists.append((distinct, rank))
    num_rows = 1 + max(int(rank.max()) for _, rank in lists)
    states = np.full((count, 2, num_rows), NOWHERE)
    for player, (distinct, rank) in enumerate(lists):
        states[distinct[0], player, rank] = distinct[1]
    return np.stack(places), states


def _first(actors, successors):
    """The public state where play starts: below chance moves that show nothing."""
    state = 0
    while actors[state] == CHANCE and (successors[state] != NOWHERE).sum() == 1:
        state = successors[state, 0]
    return state


def _paths(above, slot, depth, num_children):
    path = np.zeros((len(above), max(int(depth.max()), 1), num_children))
    for state in range(1, len(above)):  # parents come first
        if depth[state] > 0:
            path[state] = path[above[state]]
            path[state, depth[state] - 1, slot[state]] = 1
    return path.reshape(len(above), -1)


def _maps(tree, rows, slot, depth, shape, num_rows):
    """Which rows become which: the tables of `PublicTable` in both directions."""
    count, num_children = shape
    child = np.flatnonzero(depth[tree.public_state] > 0)
    parent = tree.parent[child]
    state, k = tree.public_state[parent], slot[tree.public_state[child]]
    actor = tree.actor[parent]
    legal = np.zeros((count, num_rows, tree.num_actions), bool)
    decides = np.flatnonzero(tree.actor >= 0)
    legal[tree.public_state[decides], rows[tree.actor[decides], decides]] = tree.legal[decides]
    act_to = np.full((count, num_children, num_rows, tree.num_actions), NOWHERE)
    act_from = np.full((count, num_children, num_rows), NOWHERE)
    see_to = np.full((count, 2, num_children, num_rows), NOWHERE)
    see_from = see_to.copy()
    for player in range(2):
        before, after = rows[player, parent], rows[player, child]
        acts = actor == player
        action = tree.parent_action[child]
        place = (state[acts], k[acts])
        origin = before[acts] * tree.num_actions + action[acts]
        _fill(tree, act_to, (*place, before[acts], action[acts]), after[acts])
        _fill(tree, act_from, (*place, after[acts]), origin)
        place = (state[~acts], player, k[~acts])
        _fill(tree, see_to, (*place, before[~acts]), after[~acts])
        _fill(tree, see_from, (*place, after[~acts]), before[~acts])
    tables = dict(
        act_to=act_to, act_sum=_lists(act_to), act_from=act_from, see_to=see_to, see_from=see_from
    )
    found = {name: jnp.asarray(table, jnp.int32) for name, table in tables.items()}
    return dict(found, legal_actions=jnp.asarray(legal))


def _lists(to):
    """Where each (row, action) leads, `[S, K, N, A]`, as short lists `[S, J, N, A]`."""
    num_rows = to.shape[2]
    flat = np.where(to == NOWHERE, NOWHERE, to + np.arange(to.shape[1])[:, None, None] * num_rows)
    longest = max(int((flat != NOWHERE).sum(axis=1).max()), 1)
    return -np.sort(-flat, axis=1)[:, :longest]


def _fill(tree, table, places, values):
    table[places] = values
    if (table[places] != values).any():
        raise ValueError(
            f"{tree.game}: an information state splits up within a public state, because chance"
            " deals privately after the first decision; a public table cannot hold that"
        )
