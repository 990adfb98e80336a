"""One-card poker: a game of one's own, from rules to a checked game.

Two players ante 1 and get one card each of `ranks` cards. Player 0 checks, which leads to the
showdown, or bets 1; player 1 then folds or calls. The higher card wins. With three cards this is
the half-street "AKQ game" (Chen and Ankenman, The Mathematics of Poker, 2006), worth 1/18 to
player 0, who always bets the ace and bluffs with one queen in three.
"""

from __future__ import annotations

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames import CHANCE, TERMINAL, Game, State, absorb, no_legal, record

NOTHING = -1  # no card dealt, or no action taken yet
CHECK, BET = 0, 1  # actions of player 0
FOLD, CALL = 0, 1  # actions of player 1


@record
class OneCardState(State):
    cards: Array  # [2] int32: the card of each player, NOTHING before the deal
    actions: Array  # [2] int32: the action of each player, NOTHING where none was taken


@dataclasses.dataclass(frozen=True)
class OneCardPoker(Game):
    """Parameters: `ranks` (2 to 50), the number of cards in the deck."""

    ranks: int = 3
    name = "one_card_poker"

    def __post_init__(self):
        if not 2 <= self.ranks <= 50:
            raise ValueError(f"one_card_poker: ranks={self.ranks} must be between 2 and 50")

    @property
    def num_players(self) -> int:
        return 2

    @property
    def num_actions(self) -> int:
        return 2

    @property
    def num_chance_outcomes(self) -> int:
        return self.ranks * (self.ranks - 1)

    @property
    def max_depth(self) -> int:
        return 3

    def init(self) -> OneCardState:
        count = self.num_chance_outcomes
        return OneCardState(
            actor=jnp.int32(CHANCE),
            legal=no_legal(2),
            chance_probs=jnp.full(count, 1.0 / count, float),
            returns=jnp.zeros(2, float),
            cards=jnp.full(2, NOTHING, jnp.int32),
            actions=jnp.full(2, NOTHING, jnp.int32),
        )

    def step(self, state: OneCardState, action: Int[Array, ""]) -> OneCardState:
        dealing = state.actor == CHANCE
        cards = jnp.where(dealing, jnp.array(self._deals(), jnp.int32)[action], state.cards)
        seats = jnp.arange(2, dtype=jnp.int32)
        actions = jnp.where(seats == state.actor, action, state.actions)

        over = (actions[0] == CHECK) | (actions[1] != NOTHING)
        stake = jnp.where(actions[1] == CALL, 2.0, 1.0)
        wins = (cards[0] > cards[1]) | (actions[1] == FOLD)
        payoff = jnp.where(wins, stake, -stake).astype(float)
        after = OneCardState(
            actor=jnp.where(over, TERMINAL, state.actor + 1).astype(jnp.int32),
            legal=jnp.full(2, ~over),
            chance_probs=jnp.zeros(self.num_chance_outcomes, float),
            returns=jnp.where(over, jnp.stack([payoff, -payoff]), 0.0),
            cards=cards,
            actions=actions,
        )
        return absorb(state, after)

    def information_state(self, state: OneCardState, player: int) -> Int[Array, " L"]:
        return jnp.concatenate([self.public_state(state), state.cards[player][None]])

    def public_state(self, state: OneCardState) -> Int[Array, " M"]:
        dealt = (state.cards[:1] != NOTHING).astype(jnp.int32)
        return jnp.concatenate([dealt, state.actions])

    def features(self, state: OneCardState, player: int) -> Float[Array, " F"]:
        card = state.cards[player] == jnp.arange(self.ranks, dtype=jnp.int32)
        actions = state.actions[:, None] == jnp.arange(2, dtype=jnp.int32)[None, :]
        return jnp.concatenate([card, actions.ravel()]).astype(float)

    def render(self, state: OneCardState) -> str:
        return f"cards {np.asarray(state.cards)}  actions {np.asarray(state.actions)}"

    def action_name(self, state: OneCardState, action: int) -> str:
        if int(state.actor) == CHANCE:
            return f"deal {self._deals()[action]}"
        return (("check", "bet"), ("fold", "call"))[int(state.actor)][action]

    def _deals(self) -> list[tuple[int, int]]:
        return list(itertools.permutations(range(self.ranks), 2))
