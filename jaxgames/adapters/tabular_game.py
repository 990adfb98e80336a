"""A game that is given as a game tree: what the adapters of other libraries return."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxgames.core import CHANCE, Game, State, absorb, record
from jaxgames.game_tree import GameTree

_ONE_HOT = 1024  # up to this many information states, features are one-hot; else binary digits


@record
class TabularState(State):
    """A history of the tree."""

    history: Array  # [] int32 row of the tree


@dataclasses.dataclass(frozen=True, eq=False)
class TabularGame(Game):
    """The game whose histories are the rows of `tree`. Equal only to itself.

    `jaxgames.enumerate_game` returns `tree` as it is. The rules are look-ups by row, so that a game
    needs memory in proportion to its tree. The keys of information states and public states are the
    tree's numbers; that of a public state begins with the number of steps made. Where an
    information state spans several depths (a player who cannot count the others' moves), it does
    not determine the public state, contrary to the contract of `Game`.
    """

    tree: GameTree

    name: ClassVar[str] = "tabular"

    @property
    def num_players(self) -> int:
        return self.tree.num_players

    @property
    def num_actions(self) -> int:
        return self.tree.num_actions

    @functools.cached_property
    def num_chance_outcomes(self) -> int:
        by_chance = self.tree.actor[self.tree.parent] == CHANCE
        return 1 + int(self.tree.parent_action[by_chance].max(initial=0))

    @property
    def max_depth(self) -> int:
        return int(self.tree.depth[-1])

    def init(self) -> TabularState:
        return self._at(jnp.int32(0))

    def step(self, state: TabularState, action: Int[Array, ""]) -> TabularState:
        rows, valid = self._children(state.history)
        hit = valid & (jnp.asarray(self.tree.parent_action)[rows] == action)
        return absorb(state, self._at(rows[jnp.argmax(hit)]))

    def information_state(self, state: TabularState, player: int) -> Int[Array, " L"]:
        """The number of the information state."""
        return jnp.asarray(self.tree.information_state[:, player])[state.history][None]

    def public_state(self, state: TabularState) -> Int[Array, " M"]:
        """The number of steps made, and the number of the public state."""
        tables = (self.tree.depth, self.tree.public_state)
        return jnp.stack([jnp.asarray(table)[state.history] for table in tables])

    def features(self, state: TabularState, player: int) -> Float[Array, " F"]:
        """One-hot player, then the number of the information state, one-hot or in binary digits."""
        count = max(self.tree.num_information_states)
        number = self.information_state(state, player)
        if count <= _ONE_HOT:
            code = jnp.arange(count, dtype=jnp.int32) == number
        else:
            code = (number >> jnp.arange(count.bit_length(), dtype=jnp.int32)) & 1 == 1
        seat = np.arange(self.num_players) == player
        return jnp.concatenate([jnp.asarray(seat), code]).astype(float)

    def render(self, state: TabularState) -> str:
        """Lists the moves so far."""
        path = self.path(int(state.history))
        moves = [self._move_name(int(self.tree.parent[row]), row) for row in path]
        return f"{self}: {', '.join(moves) or 'no move yet'}"

    def action_name(self, state: TabularState, action: int) -> str:
        return self._action_name(int(state.history), action)

    def path(self, row: int) -> tuple[int, ...]:
        """Returns the rows on the way from the root (excluded) to `row`."""
        rows = []
        while row > 0:
            rows.append(row)
            row = int(self.tree.parent[row])
        return tuple(reversed(rows))

    def parameters(self) -> dict[str, object]:
        return {}

    def __str__(self) -> str:
        return self.tree.game

    def _move_name(self, parent: int, row: int) -> str:
        actor = int(self.tree.actor[parent])
        who = "chance" if actor == CHANCE else f"player {actor}"
        return f"{who} {self._action_name(parent, int(self.tree.parent_action[row]))}"

    def _action_name(self, row: int, action: int) -> str:
        """Names an action at a history; overridden where names are known."""
        return str(action)

    def _at(self, row: Int[Array, ""]) -> TabularState:
        """The state at a row."""
        children, valid = self._children(row)
        actor = jnp.asarray(self.tree.actor)[row]
        chance = jnp.asarray(self.tree.chance_prob, float)[children]
        outcomes = jnp.asarray(self.tree.parent_action)[children]
        probs = jnp.where(valid & (actor == CHANCE), chance, 0.0)
        # players' actions may be out of range here; they have probability 0 and are dropped
        empty = jnp.zeros(self.num_chance_outcomes, float)
        return TabularState(
            actor=actor,
            legal=jnp.asarray(self.tree.legal)[row],
            chance_probs=empty.at[outcomes].add(probs, mode="drop"),
            returns=jnp.asarray(self.tree.returns, float)[row],
            history=row,
        )

    @functools.cached_property
    def _child_range(self) -> tuple[np.ndarray, np.ndarray]:
        """[H] the first child and the number of children of each history."""
        rows = np.arange(self.tree.num_histories)
        first = np.searchsorted(self.tree.parent, rows).astype(np.int32)
        last = np.searchsorted(self.tree.parent, rows, side="right").astype(np.int32)
        return first, last - first

    def _children(self, row: Int[Array, ""]) -> tuple[Int[Array, " W"], Bool[Array, " W"]]:
        """The rows of the children, padded to the largest number of children, and which are
        valid.
        """
        first, count = self._child_range
        places = jnp.arange(max(1, int(count.max())), dtype=jnp.int32)
        valid = places < jnp.asarray(count)[row]
        return jnp.where(valid, jnp.asarray(first)[row] + places, 0), valid
