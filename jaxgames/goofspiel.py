"""Goofspiel with hidden bids: OpenSpiel's `goofspiel(imp_info=true)`, made turn-based.

N point cards are auctioned, one in each round. Every player bids a card from a hand of 1..N without
seeing the other bids; the single highest bid wins the points, and a tie discards them. Only the
winner is made public. The last round is played at once, as every hand has one card left. Action (or
chance outcome) c is the card of value `c + 1`.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import CHANCE, TERMINAL, Game, State, absorb, record
from jaxgames.registry import register, unknown

POINTS = ("random", "descending", "ascending")
RETURNS = ("win_loss", "point_difference", "total_points")
NOTHING = 0  # no card bid, or no point card revealed
OPEN, TIE = 0, 1  # results of a round: not yet played, tie; 2 + p: player p won


@record
class GoofspielState(State):
    """The bids and the point cards; cards are given by their values 1..N."""

    bids: Array  # [P, N] int32 card bid in each round, NOTHING before the bid
    points: Array  # [N] int32 point card of each round, NOTHING before it is revealed


@register("goofspiel")
@dataclasses.dataclass(frozen=True)
class Goofspiel(Game):
    """Parameters:

    - `cards`: N, the size of a hand.
    - `points`: the order of the point cards: random, descending or ascending.
    - `players`: 2 to 10.
    - `returns`: win_loss (winners share 1, losers share -1), point_difference (to the mean of all
      players) or total_points (which is not zero-sum).
    """

    cards: int = 13
    points: str = "random"
    players: int = 2
    returns: str = "win_loss"

    def __post_init__(self):
        if not 2 <= self.cards <= 100:
            raise ValueError(f"goofspiel: cards={self.cards} must be between 2 and 100")
        if not 2 <= self.players <= 10:
            raise ValueError(f"goofspiel: players={self.players} must be between 2 and 10")
        if self.points not in POINTS:
            raise ValueError(unknown("points of goofspiel", self.points, POINTS))
        if self.returns not in RETURNS:
            raise ValueError(unknown("returns of goofspiel", self.returns, RETURNS))

    @property
    def num_players(self) -> int:
        return self.players

    @property
    def num_actions(self) -> int:
        return self.cards

    @property
    def num_chance_outcomes(self) -> int:
        return self.cards if self._random else 1

    @property
    def max_depth(self) -> int:
        return (self.cards - 1) * (self.players + self._random)

    @property
    def _random(self) -> bool:
        return self.points == "random"

    def init(self) -> GoofspielState:
        values = jnp.arange(1, self.cards + 1, dtype=jnp.int32)
        orders = {"random": jnp.full(self.cards, NOTHING, jnp.int32), "ascending": values}
        points = orders.get(self.points, values[::-1])
        return self._state(jnp.full((self.players, self.cards), NOTHING, jnp.int32), points)

    def step(self, state: GoofspielState, action: Int[Array, ""]) -> GoofspielState:
        bidder = jnp.arange(self.players, dtype=jnp.int32) == state.actor
        current = jnp.arange(self.cards, dtype=jnp.int32) == _num_bids(state.bids) // self.players
        bids = jnp.where(bidder[:, None] & current[None, :], action + 1, state.bids)
        points = jnp.where((state.actor == CHANCE) & current, action + 1, state.points)
        over = jnp.all(bids[:, -2] != NOTHING)  # the last round is played at once
        bids = jnp.where(over, self._fill_last(bids), bids)
        points = jnp.where(over, self._fill_last(points), points)
        return absorb(state, self._state(bids, points))

    def _state(self, bids: Int[Array, "P N"], points: Int[Array, " N"]) -> GoofspielState:
        """The state in which these cards have been played and revealed."""
        cards = jnp.arange(1, self.cards + 1, dtype=jnp.int32)
        current = cards - 1 == _num_bids(bids) // self.players
        turn = _num_bids(bids) % self.players
        waits = (turn == 0) & jnp.any(current & (points == NOTHING))
        over = jnp.all(bids != NOTHING)
        actor = jnp.where(over, TERMINAL, jnp.where(waits, CHANCE, turn))
        hidden = jnp.all(points[None, :] != cards[:, None], axis=1) & waits
        bidder = jnp.arange(self.players, dtype=jnp.int32) == actor
        played = jnp.any(bidder[:, None, None] & (bids[:, None, :] == cards[None, :, None]), (0, 2))
        chance = hidden.astype(float) / jnp.maximum(jnp.sum(hidden.astype(float)), 1.0)
        return GoofspielState(
            actor=actor,
            legal=(actor >= 0) & ~played,
            chance_probs=chance[: self.num_chance_outcomes],
            returns=jnp.where(over, self._payoff(bids, points), 0.0),
            bids=bids,
            points=points,
        )

    def _fill_last(self, cards: Int[Array, "*P N"]) -> Int[Array, "*P N"]:
        """The cards of all rounds, with the last one filled in by the only card that is left."""
        played = cards[..., :-1]
        rest = self.cards * (self.cards + 1) // 2 - jnp.sum(played, -1, jnp.int32, keepdims=True)
        return jnp.concatenate([played, rest], axis=-1)

    def _payoff(self, bids: Int[Array, "P N"], points: Int[Array, " N"]) -> Float[Array, " P"]:
        """The returns of a finished game."""
        seats = jnp.arange(self.players, dtype=jnp.int32)
        won = _winners(bids)[None, :] == 2 + seats[:, None]
        totals = jnp.sum(jnp.where(won, points[None, :], 0), axis=1, dtype=jnp.int32)
        if self.returns == "total_points":
            return totals.astype(float)
        if self.returns == "point_difference":
            # whole numbers up to the division: a player at the mean gets 0, not a rounding error
            return (self.players * totals - jnp.sum(totals)).astype(float) / self.players
        best = totals == jnp.max(totals)
        num_best = jnp.sum(best.astype(float))
        loss = -1.0 / jnp.maximum(self.players - num_best, 1.0)
        return jnp.where(num_best == self.players, 0.0, jnp.where(best, 1.0 / num_best, loss))

    def information_state(self, state: GoofspielState, player: int) -> Int[Array, " L"]:
        """Number of bids made, then for each round the point card, the winner and the own bid."""
        rounds = self._public_rounds(state) * (self.cards + 1) + state.bids[player]
        return jnp.append(_num_bids(state.bids), rounds)

    def public_state(self, state: GoofspielState) -> Int[Array, " M"]:
        """Number of bids made, then for each round the point card and the winner."""
        return jnp.append(_num_bids(state.bids), self._public_rounds(state))

    def _public_rounds(self, state: GoofspielState) -> Int[Array, " N"]:
        """Point card and winner of each round, as one number."""
        return state.points * (self.players + 2) + _winners(state.bids)

    def features(self, state: GoofspielState, player: int) -> Float[Array, " F"]:
        """For each round, one-hot own bid, point card and winner (tie, self, the next seats in
        order).
        """
        cards = jnp.arange(1, self.cards + 1, dtype=jnp.int32)
        winners = _winners(state.bids)
        relative = jnp.where(winners >= 2, 2 + (winners - 2 - player) % self.players, winners)
        results = jnp.arange(TIE, self.players + 2, dtype=jnp.int32)
        rounds = [
            state.bids[player][:, None] == cards[None, :],
            state.points[:, None] == cards[None, :],
            relative[:, None] == results[None, :],
        ]
        return jnp.concatenate(rounds, axis=1).ravel().astype(float)

    def render(self, state: GoofspielState) -> str:
        named = [("points", state.points), *((f"player {p}", b) for p, b in enumerate(state.bids))]
        rows = [f"{name}: {_cards(cards)}" for name, cards in named]
        winners = [("", "=", *map(str, range(self.players)))[w] for w in _winners(state.bids)]
        return "  ".join([*rows, f"won by: {' '.join(filter(None, winners)) or '-'}"])

    def action_name(self, state: GoofspielState, action: int) -> str:
        return f"{'reveal' if int(state.actor) == CHANCE else 'bid'} {action + 1}"


def _num_bids(bids):
    return jnp.sum(bids != NOTHING, dtype=jnp.int32)


def _winners(bids):
    """Who won each round: OPEN, TIE, or 2 + the only player with the highest bid."""
    top = bids == jnp.max(bids, axis=0, keepdims=True)
    alone = jnp.sum(top, axis=0, dtype=jnp.int32) == 1
    winner = 2 + jnp.argmax(top, axis=0).astype(jnp.int32)
    return jnp.where(jnp.all(bids != NOTHING, axis=0), jnp.where(alone, winner, TIE), OPEN)


def _cards(cards):
    return " ".join(str(card) for card in np.asarray(cards) if card != NOTHING) or "-"
