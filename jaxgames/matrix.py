"""Two-player zero-sum matrix games, played in turn: the second player does not see the first move.

`MatrixGame` serves any payoff matrix. Matching pennies and rock-paper-scissors are OpenSpiel's
`matrix_mp` and `matrix_rps` in its turn-based form; both moves become public at the end.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import TERMINAL, Game, State, absorb, record
from jaxgames.registry import register

NOTHING = -1  # no action chosen yet, or hidden


@record
class MatrixState(State):
    """Both players' actions; the first stays hidden until the second is chosen."""

    actions: Array  # [2] int32, NOTHING where none was chosen


@dataclasses.dataclass(frozen=True)
class MatrixGame(Game):
    """Player 0 chooses a row, then player 1 a column; subclasses give the payoffs."""

    payoffs: ClassVar[tuple[tuple[float, ...], ...]]  # A rows of A payoffs to player 0
    action_names: ClassVar[tuple[str, ...]]  # A names

    @property
    def num_players(self) -> int:
        return 2

    @property
    def num_actions(self) -> int:
        return len(self.payoffs)

    @property
    def max_depth(self) -> int:
        return 2

    def init(self) -> MatrixState:
        return MatrixState(
            actor=jnp.int32(0),
            legal=jnp.ones(self.num_actions, bool),
            chance_probs=jnp.zeros(1, float),
            returns=jnp.zeros(2, float),
            actions=jnp.full(2, NOTHING, jnp.int32),
        )

    def step(self, state: MatrixState, action: Int[Array, ""]) -> MatrixState:
        seats = jnp.arange(2, dtype=jnp.int32)
        actions = jnp.where(seats == state.actor, action, state.actions)
        over = state.actor == 1
        payoff = jnp.asarray(self.payoffs, float)[actions[0], actions[1]]
        after = MatrixState(
            actor=jnp.where(over, TERMINAL, 1).astype(jnp.int32),
            legal=jnp.full(self.num_actions, ~over),
            chance_probs=state.chance_probs,
            returns=jnp.where(over, jnp.stack([payoff, -payoff]), 0.0),
            actions=actions,
        )
        return absorb(state, after)

    def information_state(self, state: MatrixState, player: int) -> Int[Array, " L"]:
        """The public state and the own action."""
        return jnp.concatenate([self.public_state(state), state.actions[player][None]])

    def public_state(self, state: MatrixState) -> Int[Array, " M"]:
        """Number of actions chosen; both actions once the game is over, else NOTHING."""
        chosen = jnp.sum(state.actions != NOTHING, dtype=jnp.int32)
        shown = jnp.where(chosen == 2, state.actions, NOTHING)
        return jnp.concatenate([chosen[None], shown])

    def features(self, state: MatrixState, player: int) -> Float[Array, " F"]:
        """Whether player 1 is to act, one-hot own action, one-hot actions shown at the end."""
        known = self.information_state(state, player)
        one_hot = known[1:, None] == jnp.arange(self.num_actions, dtype=jnp.int32)[None, :]
        return jnp.concatenate([(state.actor == 1)[None], one_hot.ravel()]).astype(float)

    def render(self, state: MatrixState) -> str:
        chosen = np.asarray(state.actions)
        return "  ".join(
            f"player {seat}: {'-' if action == NOTHING else self.action_names[action]}"
            for seat, action in enumerate(chosen)
        )

    def action_name(self, state: MatrixState, action: int) -> str:
        return self.action_names[action]


@register("matrix_mp", "matching_pennies")
@dataclasses.dataclass(frozen=True)
class MatchingPennies(MatrixGame):
    """Player 0 wins 1 if the pennies match, else player 1 does."""

    payoffs: ClassVar = ((1, -1), (-1, 1))
    action_names: ClassVar = ("heads", "tails")


@register("matrix_rps", "rock_paper_scissors")
@dataclasses.dataclass(frozen=True)
class RockPaperScissors(MatrixGame):
    """Rock beats scissors, scissors beat paper, paper beats rock."""

    payoffs: ClassVar = ((0, -1, 1), (1, 0, -1), (-1, 1, 0))
    action_names: ClassVar = ("rock", "paper", "scissors")
