"""Kuhn poker for two or more players (Kuhn 1950; n players: Szafron, Gibson, Sturtevant 2013).

Every player antes 1 and gets one card from a deck of `players + 1` ranks. In turn a player passes
or bets 1; after the first bet every other player, in turn, folds (pass) or calls (bet). The highest
card still in wins. Actions: 0 pass, 1 bet, as in OpenSpiel's `kuhn_poker`.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import CHANCE, TERMINAL, Game, State, absorb, no_legal, record
from jaxgames.registry import register

PASS, BET = 0, 1
NOTHING = -1  # no card dealt, or no action taken yet


@record
class KuhnState(State):
    """The cards, dealt in seat order, and the actions."""

    cards: Array  # [P] int32, NOTHING before the deal
    history: Array  # [2P - 1] int32 actions, NOTHING where none was taken
    num_actions_taken: Array  # [] int32


@register("kuhn_poker")
@dataclasses.dataclass(frozen=True)
class KuhnPoker(Game):
    """The parameter is `players` (2 to 10)."""

    players: int = 2

    def __post_init__(self):
        if not 2 <= self.players <= 10:
            raise ValueError(f"kuhn_poker: players={self.players} must be between 2 and 10")

    @property
    def num_players(self) -> int:
        return self.players

    @property
    def num_actions(self) -> int:
        return 2

    @property
    def num_chance_outcomes(self) -> int:
        return self.players + 1

    @property
    def max_depth(self) -> int:
        return self.players + 2 * self.players - 1

    def init(self) -> KuhnState:
        count = self.num_chance_outcomes
        return KuhnState(
            actor=jnp.int32(CHANCE),
            legal=no_legal(2),
            chance_probs=jnp.full(count, 1.0 / count, float),
            returns=jnp.zeros(self.players, float),
            cards=jnp.full(self.players, NOTHING, jnp.int32),
            history=jnp.full(2 * self.players - 1, NOTHING, jnp.int32),
            num_actions_taken=jnp.int32(0),
        )

    def step(self, state: KuhnState, action: Int[Array, ""]) -> KuhnState:
        seats = jnp.arange(self.players, dtype=jnp.int32)
        dealt = self._dealt(state)
        dealing = state.actor == CHANCE
        cards = jnp.where(dealing & (seats == dealt), action, state.cards)
        places = jnp.arange(2 * self.players - 1, dtype=jnp.int32)
        taken = state.num_actions_taken
        history = jnp.where(~dealing & (places == taken), action, state.history)
        taken = jnp.where(dealing, 0, taken + 1)

        all_dealt = jnp.where(dealing, dealt + 1, dealt) == self.players
        first_bet, over = _progress(history, taken, self.players)
        over = over & all_dealt
        actor = jnp.where(over, TERMINAL, jnp.where(all_dealt, taken % self.players, CHANCE))
        ranks = jnp.arange(self.players + 1, dtype=jnp.int32)
        left = ~jnp.any(ranks[:, None] == cards[None, :], axis=1) & ~all_dealt
        after = KuhnState(
            actor=actor.astype(jnp.int32),
            legal=jnp.full(2, actor >= 0),
            chance_probs=left.astype(float) / jnp.maximum(jnp.sum(left.astype(float)), 1.0),
            returns=jnp.where(over, _returns(cards, history, first_bet, self.players), 0.0),
            cards=cards,
            history=history,
            num_actions_taken=taken,
        )
        return absorb(state, after)

    def information_state(self, state: KuhnState, player: int) -> Int[Array, " L"]:
        """Number of cards dealt, the own card (NOTHING before the deal), the actions."""
        return jnp.concatenate([self._dealt(state)[None], state.cards[player][None], state.history])

    def public_state(self, state: KuhnState) -> Int[Array, " M"]:
        """Number of cards dealt, the actions."""
        return jnp.concatenate([self._dealt(state)[None], state.history])

    def features(self, state: KuhnState, player: int) -> Float[Array, " F"]:
        """One-hot own card, then for each place of the history one-hot pass or bet."""
        card = jnp.arange(self.players + 1, dtype=jnp.int32) == state.cards[player]
        actions = state.history[:, None] == jnp.arange(2, dtype=jnp.int32)[None, :]
        return jnp.concatenate([card, actions.ravel()]).astype(float)

    def render(self, state: KuhnState) -> str:
        cards = " ".join("?" if card == NOTHING else str(card) for card in np.asarray(state.cards))
        actions = "".join("pb"[a] for a in np.asarray(state.history) if a != NOTHING)
        return f"cards: {cards}  actions: {actions or '-'}"

    def action_name(self, state: KuhnState, action: int) -> str:
        return f"deal {action}" if int(state.actor) == CHANCE else ("pass", "bet")[action]

    def _dealt(self, state: KuhnState) -> Int[Array, ""]:
        return jnp.sum(state.cards != NOTHING, dtype=jnp.int32)


def _progress(history, taken, players):
    """The place of the first bet (the length of the history if none), and whether betting is
    over.
    """
    is_bet = history == BET
    first_bet = jnp.where(jnp.any(is_bet), jnp.argmax(is_bet).astype(jnp.int32), history.shape[0])
    return first_bet, jnp.where(jnp.any(is_bet), taken == first_bet + players, taken == players)


def _returns(cards, history, first_bet, players):
    """The winnings of every player in a finished hand."""
    seats = jnp.arange(players, dtype=jnp.int32)
    places = jnp.arange(2 * players - 1, dtype=jnp.int32)
    own = (places % players)[None, :] == seats[:, None]
    bet = jnp.any(own & (history == BET)[None, :], axis=1)
    still_in = bet | (first_bet == history.shape[0])
    paid = 1.0 + bet.astype(float)
    winner = jnp.argmax(jnp.where(still_in, cards, -1)).astype(jnp.int32)
    return jnp.where(seats == winner, jnp.sum(paid), 0.0) - paid
