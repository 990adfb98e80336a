"""Coin toss (Brown and Sandholm 2017, "Safe and nested subgame solving", section 3).

A fair coin lands, and only player 0 sees it. Player 0 sells it (heads is worth 0.5, tails -0.5) or
plays. Then player 1 guesses the side: player 0 pays 1 if the guess is right and wins 1 if it is
wrong. In equilibrium player 1 guesses heads with probability 1/4; with the prices swapped, with
probability 3/4. Nothing in the subgame after "play" tells them apart: the answer depends on the
price in the other branch. Both games have value 0.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import CHANCE, TERMINAL, Game, State, absorb, no_legal, record
from jaxgames.registry import register

HEADS, TAILS = 0, 1  # outcomes of chance, and player 1's guesses
SELL, PLAY = 0, 1  # player 0's actions
NOTHING = -1  # a move that was not made yet
_MOVE_NAMES = (("heads", "tails"), ("sell", "play"), ("guess heads", "guess tails"))


@record
class CoinTossState(State):
    """The moves: the side of the coin, player 0's action, player 1's guess."""

    moves: Array  # [3] int32, NOTHING where not made


@register("coin_toss")
@dataclasses.dataclass(frozen=True)
class CoinToss(Game):
    """The parameter is `swapped`: heads sells for -0.5 and tails for 0.5."""

    swapped: bool = False

    @property
    def num_players(self) -> int:
        return 2

    @property
    def num_actions(self) -> int:
        return 2

    @property
    def num_chance_outcomes(self) -> int:
        return 2

    @property
    def max_depth(self) -> int:
        return 3

    def init(self) -> CoinTossState:
        return CoinTossState(
            actor=jnp.int32(CHANCE),
            legal=no_legal(2),
            chance_probs=jnp.full(2, 0.5, float),
            returns=jnp.zeros(2, float),
            moves=jnp.full(3, NOTHING, jnp.int32),
        )

    def step(self, state: CoinTossState, action: Int[Array, ""]) -> CoinTossState:
        places = jnp.arange(3, dtype=jnp.int32)
        made = jnp.sum(state.moves != NOTHING, dtype=jnp.int32)
        moves = jnp.where(places == made, action, state.moves)
        coin, deal, guess = moves
        over = (deal == SELL) | (guess != NOTHING)
        price = jnp.where((coin == HEADS) != self.swapped, 0.5, -0.5).astype(float)
        won = jnp.where(guess == coin, -1.0, 1.0).astype(float)
        payoff = jnp.where(deal == SELL, price, won)
        after = CoinTossState(
            actor=jnp.where(over, TERMINAL, made).astype(jnp.int32),
            legal=jnp.full(2, ~over),
            chance_probs=jnp.zeros(2, float),
            returns=jnp.where(over, jnp.stack([payoff, -payoff]), 0.0),
            moves=moves,
        )
        return absorb(state, after)

    def information_state(self, state: CoinTossState, player: int) -> Int[Array, " L"]:
        """Whether the coin has landed, the coin if `player` is 0, player 0's action, the guess."""
        return jnp.concatenate([self.public_state(state), _seen_coin(state, player)])

    def public_state(self, state: CoinTossState) -> Int[Array, " M"]:
        """Whether the coin has landed, player 0's action, the guess (the coin is never shown)."""
        landed = (state.moves[0] != NOTHING).astype(jnp.int32)
        return jnp.concatenate([landed[None], state.moves[1:]])

    def features(self, state: CoinTossState, player: int) -> Float[Array, " F"]:
        """One-hot coin (0 if unknown to `player`), action of player 0 and guess."""
        known = jnp.concatenate([_seen_coin(state, player), state.moves[1:]])
        one_hot = known[:, None] == jnp.arange(2, dtype=jnp.int32)[None, :]
        return one_hot.ravel().astype(float)

    def render(self, state: CoinTossState) -> str:
        moves = np.asarray(state.moves)
        return (
            "  ".join(
                names[move]
                for names, move in zip(_MOVE_NAMES, moves, strict=True)
                if move != NOTHING
            )
            or "the coin is in the air"
        )

    def action_name(self, state: CoinTossState, action: int) -> str:
        return _MOVE_NAMES[int(state.actor) + 1][action]


def _seen_coin(state, player):
    """The coin as a vector of length 1; NOTHING for player 1."""
    return state.moves[:1] if player == 0 else jnp.full(1, NOTHING, jnp.int32)
