"""Simulation of pgx's games with hidden chance: kuhn_poker, leduc_holdem, backgammon and the like.

pgx deals cards inside of `init(key)` and rolls dice inside of `step`: chance can be sampled there,
but not enumerated. Solvers need the native games (`kuhn_poker`, `leduc_poker`); a `PgxSimulator` is
for playing policies by sampling.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from jaxgames.adapters.pgx import by_seat, lenient, make_env, seat_of
from jaxgames.core import TERMINAL, record


@record
class SimulatorState:
    """A state of pgx with players numbered by seat: player 0 makes the first move."""

    actor: Array  # [] int32: 0..P-1 or TERMINAL
    legal: Array  # [A] bool, all False when finished
    observation: Array  # what the actor sees, in pgx's encoding
    returns: Array  # [P] float: 0 until the end
    score: Array  # [P] float: sum of the rewards so far
    pgx: Any  # pgx's own state, hidden cards included
    first: Array  # [] int32: pgx's number of the first player


@dataclasses.dataclass(frozen=True, eq=False)
class PgxSimulator:
    """Plays any turn-based game of pgx, by sampling.

    Unlike a `Game` it has no chance states, no keys of information states and no tree; an agent
    sees `observation` and `legal` where it acts. Both methods are pure and jittable, and are
    batched by `jax.vmap`; finished states stay as they are (pgx does so).
    """

    env: Any  # pgx.Env or its name

    def __post_init__(self):
        object.__setattr__(self, "env", make_env(self.env))

    @property
    def num_players(self) -> int:
        """P."""
        return self.env.num_players

    @property
    def num_actions(self) -> int:
        """A."""
        return self.env.num_actions

    def init(self, key: Key[Array, ""]) -> SimulatorState:
        """Returns the first state of a fresh deal; `key` is consumed."""
        with lenient():
            state = self.env.init(key)
        score = jnp.zeros(self.num_players, float)
        return self._view(state, score, state.current_player)

    def step(
        self, state: SimulatorState, action: Int[Array, ""], key: Key[Array, ""]
    ) -> SimulatorState:
        """Returns the state after a legal action of the actor; `key` is consumed."""
        with lenient():
            after = self.env.step(state.pgx, action, key)
        score = state.score + by_seat(after.rewards, state.first)
        return self._view(after, score, state.first)

    def _view(self, state, score, first) -> SimulatorState:
        done = state.terminated | state.truncated
        seat = seat_of(state.current_player, first, self.num_players)
        return SimulatorState(
            actor=jnp.where(done, TERMINAL, seat),
            legal=state.legal_action_mask & ~done,
            observation=state.observation,
            returns=jnp.where(done, score, 0.0),
            score=score,
            pgx=state,
            first=first,
        )
