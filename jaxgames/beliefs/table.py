"""Belief-level games as tables: any game whose public states fit into memory.

A public state is its number. The tables say which rows of a public state lead to which rows of its
children, in both directions. They are built from an explicit game tree (`from_tree`) or from
another belief-level game (`tabulate`).
"""

from __future__ import annotations

import functools

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxgames.arrays import on_device, sum_actions
from jaxgames.beliefs.contract import BeliefGame, Policy, Reach, Rows, Values
from jaxgames.core import TERMINAL, record

_MOST_KINDS = 64  # of terminals
State = Int[Array, ""]  # number of a public state
NOWHERE = -1  # in tables: this child, parent or row does not exist
_sum = functools.partial(sum_actions, longest=16)  # over the leading axis


@record
class BeliefTable(BeliefGame):
    """A game by its tables: S public states in breadth-first order, with up to K children.

    N and A are a player's rows and actions. Tables of what players have are pairs. The maps list
    places: rows `N` of a parent, or action and row as `action * N + row`, or child and row as
    `child * N + row`.
    """

    name: str = flax.struct.field(pytree_node=False)
    num_rows: tuple[int, int] = flax.struct.field(pytree_node=False)
    num_actions: tuple[int, int] = flax.struct.field(pytree_node=False)
    num_children: int = flax.struct.field(pytree_node=False)
    max_depth: int = flax.struct.field(pytree_node=False)
    straight: tuple[bool, bool, bool] = flax.struct.field(pytree_node=False)
    action_of_child: tuple[int, ...] = flax.struct.field(pytree_node=False)
    most_states: tuple[int, int] = flax.struct.field(pytree_node=False)
    first: Array  # [] int32 the root
    actors: Array  # [S] int32
    successors: Array  # [S, K] int32, NOWHERE at padding
    depth: Array  # [S] int32 steps from `first` to here; negative above it
    # [S, N] int32 numbers (a game tree's, if made of one), or NOWHERE
    information_states: tuple[Array, Array]
    legal_actions: tuple[Array, Array]  # [S, A, N] bool
    # [S, I, N] int32 actions and rows above, of the player if it acted there, that lead to its rows
    from_act: tuple[Array, Array]
    # [S, H, N] int32 rows above that lead to its rows, if it did not act there
    from_see: tuple[Array, Array]
    # [S, J, A, N] int32 children and rows that its actions lead to, if it acts
    to_act: tuple[Array, Array]
    to_see: tuple[Array, Array]  # [S, L, N] int32 children and rows that it comes to, if not
    weights: Array  # [S, N0, N1] W of pairs of rows
    payoffs: Array  # [S, N0, N1] W times the payoff of player 0 at terminals, else 0
    features: Array  # [S, F]
    kinds: Array  # [S] int32 of terminals: which of the matrices their payoffs are
    scales: Array  # [S] multiples of these matrices
    matrices: Array  # [G, N0, N1]; none where they would be too many

    def root(self) -> State:
        return self.first

    def actor(self, state: State) -> Int[Array, ""]:
        return self.actors[state]

    def rows(self, state: State) -> Rows:
        return tuple(numbers[state] != NOWHERE for numbers in self.information_states)

    def legal(self, state: State) -> tuple[Bool[Array, "A0 N0"], Bool[Array, "A1 N1"]]:
        return tuple(legal[state] for legal in self.legal_actions)

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
        reach: Reach,
        policy: Policy,
    ) -> Reach:
        below, actor = self.successors[state, child], self.actors[state]

        def after(p):
            acted = self._acted_down(p, below, child, reach[p], policy[p])
            came = jnp.where(actor == p, acted, self._seen_down(p, below, reach[p]))
            return jnp.where(below != NOWHERE, came, 0)

        return after(0), after(1)

    def up(
        self, state: State, values: tuple[Float[Array, "K N0"], Float[Array, "K N1"]]
    ) -> tuple[Policy, Values]:
        actions = [self._acted_up(p, state, values[p]) for p in range(2)]
        return tuple(actions), tuple(self._seen_up(p, state, values[p]) for p in range(2))

    def _acted_down(self, player, below, child, reach, policy):
        """A player's reaches `[N]` in a child, as if it acted here by a policy `[A, N]`."""
        return _sum(_take((policy * reach[None]).reshape(-1), self.from_act[player][below]))

    def _seen_down(self, player, below, reach):
        """A player's reaches `[N]` in a child, as if it did not act here."""
        return _sum(_take(reach, self.from_see[player][below]))

    def _acted_up(self, player, state, values):
        """A player's values of its actions `[A, N]` from its values in the children `[K, N]`."""
        return _sum(_take(values.reshape(-1), self.to_act[player][state]))

    def _seen_up(self, player, state, values):
        """A player's values `[N]` from those in the children `[K, N]`, as if it did not act."""
        return _sum(_take(values.reshape(-1), self.to_see[player][state]))

    def follow(
        self, state: State, pair: Int[Array, "2"], action: Int[Array, ""]
    ) -> Int[Array, "K 2"]:
        children = jnp.arange(self.num_children, dtype=jnp.int32)
        rows = []
        for p in range(2):
            # an action that the player does not have leads nowhere
            acted = self.to_act[p].at[state, :, action, pair[p]]
            acted = acted.get(mode="fill", fill_value=NOWHERE)
            row = jnp.where(
                self.actors[state] == p,
                _row_in(children, acted, self.num_rows[p]),
                _row_in(children, self.to_see[p][state, :, pair[p]], self.num_rows[p]),
            )
            rows.append(row)
        return jnp.stack(rows, axis=-1)

    def known_down(
        self, actor: int, state: State, reach: Reach, policy: Policy
    ) -> tuple[Float[Array, "K N0"], Float[Array, "K N1"]]:
        below = self.successors[state]

        def after(p):
            if p != actor:
                return jax.vmap(lambda s: self._seen_down(p, s, reach[p]))(below)
            k = jnp.arange(self.num_children, dtype=jnp.int32)
            down = lambda s, child: self._acted_down(p, s, child, reach[p], policy[p])  # noqa: E731
            return jax.vmap(down)(below, k)

        return after(0), after(1)

    def known_up(
        self, actor: int, state: State, values: tuple[Float[Array, "K N0"], Float[Array, "K N1"]]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        up = [self._acted_up if p == actor else self._seen_up for p in range(2)]
        return up[0](0, state, values[0]), up[1](1, state, values[1])

    def weight(self, state: State, pair: Int[Array, "2"]) -> Float[Array, ""]:
        return self.weights[state, pair[0], pair[1]]

    def compatible(
        self, state: State, player: int, opponent_reach: Float[Array, " M"]
    ) -> Float[Array, " N"]:
        return products(self.weights[state], player, opponent_reach)

    def terminal_values(
        self, state: State, player: int, opponent_reach: Float[Array, " M"]
    ) -> Float[Array, " N"]:
        values = products(self.payoffs[state], player, opponent_reach)
        return values if player == 0 else -values

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
        reach: tuple[Float[Array, "C N0"], Float[Array, "C N1"]],
    ) -> tuple[Float[Array, "C N0"], Float[Array, "C N1"]]:
        if not len(self.matrices):
            return super().terminal_page(kind, states, reach)
        matrix, scale = self.matrices[kind], self.scales[states][:, None]
        first, second = (jnp.moveaxis(scale * r, 1, 0)[:, :, None] for r in reach)
        return _sum(second * matrix.T[:, None]), -_sum(first * matrix[:, None])


@record
class SteadyTable(BeliefTable):
    """A table in which rows keep their numbers where their player does not act."""

    def _seen_down(self, player, below, reach):
        return jnp.where(self.information_states[player][below] != NOWHERE, reach, 0)

    def _seen_up(self, player, state, values):
        return _sum(values)


@record
class AlignedTable(SteadyTable):
    """A table in which rows always keep their numbers, and actions are public.

    Child k of a decision is where action k leads, so that nothing is looked up row by row. Poker,
    liar's dice and games of perfect information are like that; N is the number of private states
    that a player may be dealt.
    """

    def _acted_down(self, player, below, child, reach, policy):
        played = policy[jnp.minimum(child, self.num_actions[player] - 1)]
        return self._seen_down(player, below, reach * played)

    def _acted_up(self, player, state, values):
        return values[: self.num_actions[player]]


def _take(values, index):
    """Values by index, 0 where the index is NOWHERE."""
    return jnp.where(index >= 0, values[jnp.maximum(index, 0)], 0)


def _row_in(children, places, num_rows):
    """Rows in each of the `children` from places (child * N + row) `[J]`; NOWHERE in the others."""
    inside = (places >= 0)[None] & (places[None] // num_rows == children[:, None])
    return jnp.max(jnp.where(inside, places[None] % num_rows, NOWHERE), axis=1)


def products(
    matrix: Float[Array, "N0 N1"], player: int, vector: Float[Array, " M"]
) -> Float[Array, " N"]:
    """A matrix over pairs of rows times the opponent's vector, for each row of `player`.

    Args:
      matrix: `[N0, N1]` by rows of player 0 and 1, such as weights or payoffs.
      player: 0 or 1.
      vector: `[M]` by the opponent's rows.

    Returns:
      `[N]` by the player's rows.
    """
    rows = matrix.T if player == 0 else matrix
    return _sum(rows * vector[:, None])


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
        kinds=on_device(kinds, np.int32),
        scales=on_device(scales, dtype),
        matrices=on_device(matrices.reshape(-1, *payoffs.shape[1:]), dtype),
    )
