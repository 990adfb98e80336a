"""The belief-level contract as tables: any game whose public states fit into memory.

A public state is its number. Rows of a public state are the players' information states there;
the tables say which rows become which, in both directions. Built from an explicit game tree, or
from another implementation of the contract (`tabulate`).
"""

from __future__ import annotations

import functools
import operator

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxgames.beliefs.contract import BeliefGame, Player
from jaxgames.core import CHANCE, TERMINAL, Game, record
from jaxgames.game_tree import GameTree, enumerate_game, levels

_LONG = 16  # axes longer than this are reduced, shorter ones added up
State = Int[Array, ""]  # number of a public state
NOWHERE = -1  # in tables of rows: the child or parent is impossible, or the row is not there


@record
class BeliefTable(BeliefGame):
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
    information_states: Array  # [S, 2, N] int32 numbers, in the game tree if from one; or NOWHERE
    legal_actions: Array  # [S, N, A] bool
    from_act: Array  # [S, I, N] int32 what the actor above did to come here: action * N + row
    from_see: Array  # [S, H, 2, N] int32 rows above that rows of who did not act come from
    to_act: Array  # [S, J, A, N] int32 where the actor's rows go: child * N + row
    to_see: Array  # [S, L, 2, N] int32 the same of who does not act
    weights: Array  # [S, N0, N1] of pairs of rows; no player has more than its N0 or N1 anywhere
    payoffs: Array  # [S, N0, N1] weighted payoffs of player 0 at terminals, else 0
    features: Array  # [S, F]

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
        here = jnp.arange(self.num_children, dtype=jnp.int32)
        ones = jnp.ones((2, self.num_rows), reach.dtype)
        down = jax.vmap(self.down, (None, 0, None, None))(state, here, ones, reach.T)
        return down[:, jnp.maximum(self.actors[state], 0)]

    def act_up(self, state: State, values: Float[Array, "K N"]) -> Float[Array, "N A"]:
        return self.up(state, jnp.stack([values, values]))[0].T

    def see_down(
        self, state: State, player: Player, reach: Float[Array, " N"]
    ) -> Float[Array, "K N"]:
        here = jnp.arange(self.num_children, dtype=jnp.int32)
        both = jnp.stack([reach, reach])
        down = lambda child: self._seen_down(self.successors[state, child], both)  # noqa: E731
        return jnp.where(self.child_mask(state)[:, None], jax.vmap(down)(here)[:, player], 0)

    def see_up(
        self, state: State, player: Player, values: Float[Array, "K N"]
    ) -> Float[Array, " N"]:
        return self.up(state, jnp.stack([values, values]))[1][player]

    def down(
        self,
        state: State,
        child: Int[Array, ""] | int,
        reach: Float[Array, "2 N"],
        policy: Float[Array, "A N"],
    ) -> Float[Array, "2 N"]:
        below, actor = self.successors[state, child], self.actors[state]
        own = policy * jnp.where(actor == 1, reach[1], reach[0])[None]
        acts = jnp.arange(2, dtype=jnp.int32)[:, None] == actor
        acted = self._acted_down(below, child, own)
        after = jnp.where(acts, acted[None], self._seen_down(below, reach))
        return jnp.where(below != NOWHERE, after, 0)

    def up(
        self, state: State, values: Float[Array, "2 K N"]
    ) -> tuple[Float[Array, "A N"], Float[Array, "2 N"]]:
        acting = jnp.where(self.actors[state] == 1, values[1], values[0])
        return self._acted_up(state, acting), self._seen_up(state, values)

    def _acted_down(self, below, child, own):
        """The actor's reaches `[N]` in a child, from those of its actions here `[A, N]`."""
        return _sum(_take(own.reshape(-1), self.from_act[below]))

    def _seen_down(self, below, reach):
        """Both players' reaches `[2, N]` in a child, as if neither acted."""
        rows = self.from_see[below]
        return jnp.stack([_sum(_take(reach[p], rows[:, p])) for p in range(2)])

    def _acted_up(self, state, values):
        """Values of the actor's actions `[A, N]` from its values in the children `[K, N]`."""
        return _sum(_take(values.reshape(-1), self.to_act[state]))

    def _seen_up(self, state, values):
        """Both players' values `[2, N]`, as if neither acted, from those in the children."""
        places = self.to_see[state]
        return jnp.stack([_sum(_take(values[p].reshape(-1), places[:, p])) for p in range(2)])

    def follow(
        self, state: State, pair: Int[Array, "2"], action: Int[Array, ""]
    ) -> Int[Array, "K 2"]:
        here = jnp.arange(self.num_children, dtype=jnp.int32)
        acting = jnp.maximum(self.actors[state], 0)
        acted = self.to_act[state, :, action, pair[acting]]
        rows = []
        for p in range(2):
            seen = self.to_see[state, :, p, pair[p]]
            to = jnp.where(
                self.actors[state] == p,
                _row_in(here, acted, self.num_rows),
                _row_in(here, seen, self.num_rows),
            )
            rows.append(to)
        return jnp.stack(rows, axis=-1)

    def weight(self, state: State, pair: Int[Array, "2"]) -> Float[Array, ""]:
        return self.weights[state, pair[0], pair[1]]

    def compatible(
        self,
        state: State,
        player: Player,
        opponent_reach: Float[Array, " N"],
    ) -> Float[Array, " N"]:
        return products(self.weights[state], player, opponent_reach)

    def terminal_values(
        self,
        state: State,
        player: Player,
        opponent_reach: Float[Array, " N"],
    ) -> Float[Array, " N"]:
        values = products(self.payoffs[state], player, opponent_reach)
        return jnp.where(jnp.asarray(player) == 0, values, -values)

    def encode(self, state: State) -> Float[Array, " F"]:
        return self.features[state]


@record
class SteadyTable(BeliefTable):
    """The same for games in which rows keep their numbers while their player only watches."""

    def _seen_down(self, below, reach):
        return jnp.where(self.information_states[below] != NOWHERE, reach, 0)

    def _seen_up(self, state, values):
        return _sum(values.swapaxes(0, 1))


@record
class AlignedTable(SteadyTable):
    """The same for games whose rows always keep their numbers and whose actions are public.

    Child k of a decision is action k, so that nothing is looked up row by row: poker, liar's dice,
    perfect information. (N is what a player may hold at first.)
    """

    def down(
        self,
        state: State,
        child: Int[Array, ""] | int,
        reach: Float[Array, "2 N"],
        policy: Float[Array, "A N"],
    ) -> Float[Array, "2 N"]:
        below = self.successors[state, child]
        acts = jnp.arange(2, dtype=jnp.int32)[:, None] == self.actors[state]
        played = policy[jnp.minimum(child, self.num_actions - 1)]
        after = self._seen_down(below, jnp.where(acts, reach * played[None], reach))
        return jnp.where(below != NOWHERE, after, 0)

    def _acted_up(self, state, values):
        return values[: self.num_actions]


def _take(values, index):
    """Values by index, 0 where the index is NOWHERE."""
    return jnp.where(index >= 0, values[jnp.maximum(index, 0)], 0)


def _row_in(children, places, num_rows):
    """Rows in each of the `children` from places (child * N + row) `[J]`; NOWHERE in the others."""
    inside = (places >= 0)[None] & (places[None] // num_rows == children[:, None])
    return jnp.max(jnp.where(inside, places[None] % num_rows, NOWHERE), axis=1)


def products(
    matrix: Float[Array, "N0 N1"], player: Player, vector: Float[Array, " N"]
) -> Float[Array, " N"]:
    """What each row of `player` gets from a matrix over pairs of rows and the opponent's vector."""
    if not isinstance(player, int):
        both = [products(matrix, p, vector) for p in range(2)]
        return jnp.where(player == 0, *both)
    rows = matrix.T if player == 0 else matrix
    found = _sum(rows * vector[: len(rows), None])
    return jnp.zeros_like(vector).at[: len(found)].set(found)


def _sum(values):
    """Sum over the leading axis, unrolled where it is short: XLA:CPU reduces those slowly."""
    if values.shape[0] > _LONG:
        return jnp.sum(values, axis=0)
    return functools.reduce(operator.add, [values[i] for i in range(values.shape[0])])


def belief_table(game: Game | GameTree, *, dtype: str = "float32") -> BeliefTable:
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
    slot = _slots(above)
    first = _first(tree.actor[example], above)
    depth = tree.depth[example] - tree.depth[example[first]]
    rows, aligned = _ranks(tree), False
    if (kept := _kept(tree, rows, depth[public] > 0)) is not None:
        rows, aligned = kept, True
        decided = (depth > 0) & (tree.actor[tree.parent[example]] >= 0)
        slot = np.where(decided, tree.parent_action[example], slot)
    num_children = int(max(slot.max() + 1, tree.num_actions if aligned else 1))
    states = _row_table(tree, rows, count)
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
    return (AlignedTable if aligned else BeliefTable)(
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
        weights=jnp.asarray(trimmed(weights, states != NOWHERE), dtype),
        payoffs=jnp.asarray(trimmed(payoffs, states != NOWHERE), dtype),
        features=jnp.asarray(_paths(above, slot, depth, num_children), dtype),
        **_maps(tree, rows, slot, depth, successors.shape, num_rows),
    )


def trimmed(
    matrices: Float[np.ndarray, "S N N"], there: Bool[np.ndarray, "S 2 N"]
) -> Float[np.ndarray, "S N0 N1"]:
    """Matrices over pairs of rows, as large as the rows that are `there` anywhere make them."""
    first, second = (int(np.flatnonzero(rows).max()) + 1 for rows in there.any(axis=0))
    return matrices[:, :first, :second]


def _check_players(tree):
    if tree.num_players != 2:
        raise ValueError(f"{tree.game} has {tree.num_players} players; a public table needs 2")
    off = np.abs(tree.returns.sum(axis=1)).max()
    if off > 1e-9:
        raise ValueError(f"{tree.game} is not zero-sum: returns add up to {off:g} somewhere")


def _slots(above):
    """Number of each public state among its siblings."""
    siblings = np.argsort(above[1:], kind="stable")
    sizes = np.bincount(above[1:], minlength=len(above))
    slot = np.zeros(len(above), np.int64)
    slot[1 + siblings] = np.arange(len(above) - 1) - (np.cumsum(sizes) - sizes)[above[1:][siblings]]
    return slot


def _ranks(tree):
    """Row of each history for both players `[2, H]`: its information state's rank."""
    places = []
    for player in range(2):
        pairs = np.stack([tree.public_state, tree.information_state[:, player]])
        distinct, place = np.unique(pairs, axis=1, return_inverse=True)
        begin = np.searchsorted(distinct[0], distinct[0])
        places.append((np.arange(distinct.shape[1]) - begin)[place])
    return np.stack(places)


def _kept(tree, rows, below):
    """Rows by what they were at first, if that tells them apart and actions are public; or None.

    `below` are the histories after the first decision's public state.
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


def _one_to_one(place, these, those):
    """Whether at each place these and those numbers stand for each other."""
    counts = [
        np.unique(np.stack(columns), axis=1).shape[1]
        for columns in ((place, these), (place, those), (place, these, those))
    ]
    return counts[0] == counts[1] == counts[2]


def _row_table(tree, rows, count):
    """Numbers of information states by public state, player and row `[S, 2, N]`."""
    states = np.full((count, 2, int(rows.max()) + 1), NOWHERE)
    for player in range(2):
        states[tree.public_state, player, rows[player]] = tree.information_state[:, player]
    return states


def _first(actors, above):
    """The public state where play starts: below chance moves that show nothing."""
    state = 0
    while actors[state] == CHANCE and (above == state).sum() == 1:
        state = int(np.argmax(above == state))
    return state


def _paths(above, slot, depth, num_children):
    """One-hot numbers of the child taken at every depth `[S, D * K]`."""
    path = np.zeros((len(above), max(int(depth.max()), 1), num_children))
    for state in range(1, len(above)):  # parents come first
        if depth[state] > 0:
            path[state] = path[above[state]]
            path[state, depth[state] - 1, slot[state]] = 1
    return path.reshape(len(above), -1)


def _maps(tree, rows, slot, depth, shape, num_rows):
    """Which rows become which: the tables of `BeliefTable` in both directions."""
    count, num_children = shape
    child = np.flatnonzero(depth[tree.public_state] > 0)
    parent, below = tree.parent[child], tree.public_state[child]
    state, k = tree.public_state[parent], slot[below]
    actor = tree.actor[parent]
    legal = np.zeros((count, num_rows, tree.num_actions), bool)
    decides = np.flatnonzero(tree.actor >= 0)
    legal[tree.public_state[decides], rows[tree.actor[decides], decides]] = tree.legal[decides]
    to_act = np.full((count, num_children, tree.num_actions, num_rows), NOWHERE)
    to_see = np.full((count, num_children, 2, num_rows), NOWHERE)
    from_act = np.full((count, 1, num_rows), NOWHERE)
    from_see = np.full((count, 1, 2, num_rows), NOWHERE)
    for player in range(2):
        before, after = rows[player, parent], rows[player, child]
        acts, action = actor == player, tree.parent_action[child]
        sees, place = ~acts, k * num_rows + after
        for chosen, table, where, value in (
            (acts, from_act, (below, 0, after), action * num_rows + before),
            (sees, from_see, (below, 0, player, after), before),
            (acts, to_act, (state, k, action, before), place),
            (sees, to_see, (state, k, player, before), place),
        ):
            some = tuple(i[chosen] if isinstance(i, np.ndarray) else i for i in where)
            _fill(tree, table, some, value[chosen])
    tables = dict(
        from_act=from_act, from_see=from_see, to_act=_short(to_act), to_see=_short(to_see)
    )
    found = {name: jnp.asarray(table, jnp.int32) for name, table in tables.items()}
    return dict(found, legal_actions=jnp.asarray(legal))


def _short(places):
    """Lists along axis 1 without gaps, as short as the longest."""
    longest = max(int((places != NOWHERE).sum(axis=1).max()), 1)
    return -np.sort(-places, axis=1)[:, :longest]


def _fill(tree, table, places, values):
    table[places] = values
    if (table[places] != values).any():
        raise ValueError(
            f"{tree.game}: an information state splits up within a public state, because chance"
            " deals privately after the first decision; a public table cannot hold that"
        )
