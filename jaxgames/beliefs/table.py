"""Belief-level games as tables: any game whose public states fit into memory.

A public state is its number. The tables say which rows of a public state lead to which rows of its
children, in both directions. They are built from an explicit game tree (`from_tree`) or from
another belief-level game (`tabulate`).
"""

from __future__ import annotations

import functools
import operator

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxgames.beliefs.contract import BeliefGame, Player
from jaxgames.core import TERMINAL, record

_MOST_KINDS = 64  # of terminals
_LONG = 16  # axes longer than this are reduced, shorter ones added up
State = Int[Array, ""]  # number of a public state
NOWHERE = -1  # in tables: this child, parent or row does not exist


@record
class BeliefTable(BeliefGame):
    """A game by its tables: S public states in breadth-first order, K children, N rows, A actions.

    The maps list places: rows `N` of a parent, or action and row as `action * N + row`, or child
    and row as `child * N + row`.
    """

    name: str = flax.struct.field(pytree_node=False)
    num_rows: int = flax.struct.field(pytree_node=False)
    num_actions: int = flax.struct.field(pytree_node=False)
    num_children: int = flax.struct.field(pytree_node=False)
    max_depth: int = flax.struct.field(pytree_node=False)
    straight: tuple[bool, bool, bool] = flax.struct.field(pytree_node=False)
    action_of_child: tuple[int, ...] = flax.struct.field(pytree_node=False)
    most_states: tuple[int, int] = flax.struct.field(pytree_node=False)
    first: Array  # [] int32 the root
    actors: Array  # [S] int32
    successors: Array  # [S, K] int32, NOWHERE at padding
    depth: Array  # [S] int32 steps from `first` to here; negative above it
    information_states: Array  # [S, 2, N] int32 numbers (a game tree's, if made of one), or NOWHERE
    legal_actions: Array  # [S, A, N] bool
    from_act: Array  # [S, I, N] int32 actions and rows of the actor above that lead to its rows
    from_see: Array  # [S, H, 2, N] int32 rows above that lead to rows of a player who did not act
    to_act: Array  # [S, J, A, N] int32 children and rows that the actor's actions lead to
    to_see: Array  # [S, L, 2, N] int32 children and rows that a player who does not act comes to
    weights: Array  # [S, N0, N1] W of pairs of rows; N0 and N1 are the most that a player has
    payoffs: Array  # [S, N0, N1] W times the payoff of player 0 at terminals, else 0
    features: Array  # [S, F]
    kinds: Array  # [S] int32 of terminals: which of the matrices their payoffs are
    scales: Array  # [S] multiples of these matrices
    matrices: Array  # [G, N0, N1]; none where they would be too many

    def root(self) -> State:
        return self.first

    def actor(self, state: State) -> Int[Array, ""]:
        return self.actors[state]

    def rows(self, state: State) -> Bool[Array, "2 N"]:
        return self.information_states[state] != NOWHERE

    def legal(self, state: State) -> Bool[Array, "A N"]:
        return self.legal_actions[state]

    def children(self, state: State) -> Int[Array, " K"]:
        return jnp.maximum(self.successors[state], 0)

    def child(self, state: State, number: Int[Array, ""] | int) -> State:
        return jnp.maximum(self.successors[state, number], 0)

    def child_mask(self, state: State) -> Bool[Array, " K"]:
        return self.successors[state] != NOWHERE

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
        """Both players' reaches `[2, N]` in a child, as if neither of them acted here."""
        rows = self.from_see[below]
        return jnp.stack([_sum(_take(reach[p], rows[:, p])) for p in range(2)])

    def _acted_up(self, state, values):
        """Values of the actor's actions `[A, N]` from its values in the children `[K, N]`."""
        return _sum(_take(values.reshape(-1), self.to_act[state]))

    def _seen_up(self, state, values):
        """Both players' values `[2, N]` from the children, as if neither of them acted here."""
        places = self.to_see[state]
        return jnp.stack([_sum(_take(values[p].reshape(-1), places[:, p])) for p in range(2)])

    def follow(
        self, state: State, pair: Int[Array, "2"], action: Int[Array, ""]
    ) -> Int[Array, "K 2"]:
        children = jnp.arange(self.num_children, dtype=jnp.int32)
        acting = jnp.maximum(self.actors[state], 0)
        acted = self.to_act[state, :, action, pair[acting]]
        rows = []
        for p in range(2):
            seen = self.to_see[state, :, p, pair[p]]
            row = jnp.where(
                self.actors[state] == p,
                _row_in(children, acted, self.num_rows),
                _row_in(children, seen, self.num_rows),
            )
            rows.append(row)
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

    @property
    def terminal_kinds(self) -> int:
        return max(len(self.matrices), 1)

    def terminal_kind(self, state: State) -> Int[Array, ""]:
        return self.kinds[state]

    def terminal_page(
        self,
        kind: Int[Array, ""],
        states: Int[Array, " C"],
        reach: tuple[Float[Array, "C N"], Float[Array, "C N"]],
    ) -> tuple[Float[Array, "C N"], Float[Array, "C N"]]:
        if not len(self.matrices):
            return super().terminal_page(kind, states, reach)
        matrix, scale = self.matrices[kind], self.scales[states][:, None]
        count = [max(0, self.num_rows - n) for n in matrix.shape]
        matrix = jnp.pad(matrix, ((0, count[0]), (0, count[1])))
        first, second = (jnp.moveaxis(scale * r, 1, 0)[:, :, None] for r in reach)
        return _sum(second * matrix.T[:, None]), -_sum(first * matrix[:, None])


@record
class SteadyTable(BeliefTable):
    """A table in which rows keep their numbers where their player does not act."""

    def _seen_down(self, below, reach):
        return jnp.where(self.information_states[below] != NOWHERE, reach, 0)

    def _seen_up(self, state, values):
        return _sum(values.swapaxes(0, 1))


@record
class AlignedTable(SteadyTable):
    """A table in which rows always keep their numbers, and actions are public.

    Child k of a decision is where action k leads, so that nothing is looked up row by row. Poker,
    liar's dice and games of perfect information are like that; N is the number of private states
    that a player may be dealt.
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
    """A matrix over pairs of rows times the opponent's vector, for each row of `player`.

    Args:
      matrix: `[N0, N1]` by rows of player 0 and 1, such as weights or payoffs.
      player: 0 or 1; may be traced.
      vector: `[N]` by the opponent's rows.

    Returns:
      `[N]` by the player's rows, 0 beyond those of the matrix.
    """
    if not isinstance(player, int):
        both = [products(matrix, p, vector) for p in range(2)]
        return jnp.where(player == 0, *both)
    rows = matrix.T if player == 0 else matrix
    totals = _sum(rows * vector[: len(rows), None])
    return jnp.zeros_like(vector).at[: len(totals)].set(totals)


def numbers_of_states(actors: Int[np.ndarray, " S"]) -> tuple[int, int]:
    """How many public states are no terminals, and how many are."""
    ends = int(np.count_nonzero(actors == TERMINAL))
    return len(actors) - ends, ends


def kinds_of_payoffs(
    payoffs: Float[np.ndarray, "S N0 N1"], ends: Bool[np.ndarray, " S"], dtype: np.dtype | str
) -> dict[str, Array]:
    """The matrices of which all payoffs are multiples, so that terminals are valued kind by kind.

    Args:
      payoffs: by public state.
      ends: which of them are terminals.
      dtype: of the matrices.

    Returns:
      The fields `kinds`, `scales` and `matrices` of a `BeliefTable`.
    """
    flat = payoffs.reshape(len(payoffs), -1)
    # the first entry that is among the largest makes the scale, and its sign
    largest = np.abs(flat).max(axis=1, keepdims=True)
    first = np.argmax(np.abs(flat) > 0.999 * largest, axis=1)
    scales = flat[np.arange(len(flat)), first]
    normal = np.round(flat / np.where(scales == 0, 1, scales)[:, None], 5)
    kinds = np.zeros(len(flat), np.int32)
    _, example, kinds[ends] = np.unique(
        normal[ends], axis=0, return_index=True, return_inverse=True
    )
    matrices = (flat / np.where(scales == 0, 1, scales)[:, None])[ends][example]
    if len(matrices) > _MOST_KINDS:
        kinds, matrices = np.zeros_like(kinds), matrices[:0]
    return dict(
        kinds=jnp.asarray(kinds, jnp.int32),
        scales=jnp.asarray(scales, dtype),
        matrices=jnp.asarray(matrices.reshape(-1, *payoffs.shape[1:]), dtype),
    )


def _sum(values):
    """Sum over the leading axis, unrolled where it is short: XLA:CPU reduces those slowly."""
    if values.shape[0] > _LONG:
        return jnp.sum(values, axis=0)
    return functools.reduce(operator.add, [values[i] for i in range(values.shape[0])])


def trimmed(
    matrices: Float[np.ndarray, "S N N"], exists: Bool[np.ndarray, "S 2 N"]
) -> Float[np.ndarray, "S N0 N1"]:
    """Matrices over pairs of rows, without the rows that a player has in no public state.

    Args:
      matrices: `[S, N, N]` by public state and rows of player 0 and 1.
      exists: which rows exist `[S, 2, N]`.

    Returns:
      `[S, N0, N1]`: N0 and N1 are the numbers of rows up to the last that exists anywhere.
    """
    first, second = (int(np.flatnonzero(rows).max()) + 1 for rows in exists.any(axis=0))
    return matrices[:, :first, :second]
