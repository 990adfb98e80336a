"""Leduc hold'em for two or more players (Southey et al. 2005), as OpenSpiel's `leduc_poker`.

Every player antes 1 and gets one private card; a betting round, one public card and a second
betting round follow. Raises have a fixed size in each round. A pair with the public card beats any
other hand, then the higher rank wins; equal hands split the pot. Actions: 0 fold (only when facing
a raise), 1 call or check, 2 raise or bet. Chance outcomes are cards; card c has rank `c // suits`.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import choose
from jaxgames.core import CHANCE, TERMINAL, Game, State, absorb, no_legal, record
from jaxgames.registry import register

FOLD, CALL, RAISE = 0, 1, 2
NOTHING = -1  # no card dealt
_PER_WORD = 15  # actions, of two bits each, in one integer of the history


@record
class LeducState(State):
    """The cards (as chance outcomes), the chips and the betting."""

    private: Array  # [P] int32, dealt in seat order, NOTHING before the deal
    public: Array  # [] int32, NOTHING before the second round
    paid: Array  # [P] int32 chips each player has put into the pot
    folded: Array  # [P] bool
    num_raises: Array  # [] int32, in this round
    num_calls: Array  # [] int32, since the last raise of this round
    num_taken: Array  # [] int32 actions taken in both rounds
    history: Array  # [W] int32: these actions, each as action + 1 in two bits


@register("leduc_poker")
@dataclasses.dataclass(frozen=True)
class LeducPoker(Game):
    """Parameters:

    - `players`: 2 to 10.
    - `ranks`: 0 stands for OpenSpiel's `players + 1`.
    - `suits`: cards of each rank.
    - `raise_sizes`: of the two rounds.
    - `max_raises`: in each round.
    - `suit_isomorphism`: nobody sees suits, and chance deals ranks.
    """

    players: int = 2
    ranks: int = 0
    suits: int = 2
    raise_sizes: tuple[int, ...] = (2, 4)
    max_raises: int = 2
    suit_isomorphism: bool = False

    def __post_init__(self):
        if not 2 <= self.players <= 10:
            raise ValueError(f"leduc_poker: players={self.players} must be between 2 and 10")
        if self.ranks == 0:  # resolved at once, so that equal games compare equal
            object.__setattr__(self, "ranks", self.players + 1)
        if min(self.ranks, self.suits) < 1 or self.ranks * self.suits <= self.players:
            raise ValueError(
                f"leduc_poker: ranks={self.ranks} times suits={self.suits} must be more cards than"
                f" players={self.players}"
            )
        if len(self.raise_sizes) != 2 or min(self.raise_sizes) < 1:
            raise ValueError(
                f"leduc_poker: raise_sizes={self.raise_sizes} must be two positive integers"
            )
        if self.max_raises < 0:
            raise ValueError(f"leduc_poker: max_raises={self.max_raises} must not be negative")

    @property
    def num_players(self) -> int:
        return self.players

    @property
    def num_actions(self) -> int:
        return 3

    @property
    def num_chance_outcomes(self) -> int:
        return self.ranks if self.suit_isomorphism else self.ranks * self.suits

    @property
    def max_depth(self) -> int:
        return self.players + 1 + self._max_taken

    @property
    def _max_taken(self) -> int:
        """The most actions of a hand: in each round everyone acts, then everyone else after each
        raise.
        """
        return 2 * (self.players + self.max_raises * (self.players - 1))

    @property
    def _copies(self) -> int:
        """How many cards of the deck are the same chance outcome."""
        return self.suits if self.suit_isomorphism else 1

    def init(self) -> LeducState:
        count = self.num_chance_outcomes
        return LeducState(
            actor=jnp.int32(CHANCE),
            legal=no_legal(3),
            chance_probs=jnp.full(count, 1.0 / count, float),
            returns=jnp.zeros(self.players, float),
            private=jnp.full(self.players, NOTHING, jnp.int32),
            public=jnp.int32(NOTHING),
            paid=jnp.ones(self.players, jnp.int32),
            folded=jnp.zeros(self.players, bool),
            num_raises=jnp.int32(0),
            num_calls=jnp.int32(0),
            num_taken=jnp.int32(0),
            history=jnp.zeros(-(-self._max_taken // _PER_WORD), jnp.int32),
        )

    def step(self, state: LeducState, action: Int[Array, ""]) -> LeducState:
        dealing = state.actor == CHANCE
        dealt, bet = self._deal(state, action), self._bet(state, action)
        after = choose(dealing, dealt, bet)
        seats = jnp.arange(self.players, dtype=jnp.int32)
        own = jnp.sum(jnp.where(seats == after.actor, after.paid, 0), dtype=jnp.int32)
        acts = after.actor >= 0
        legal = (jnp.max(after.paid) > own, True, after.num_raises < self.max_raises)
        after = after.replace(
            legal=jnp.stack([acts & mask for mask in legal]),
            chance_probs=jnp.where(after.actor == CHANCE, self._deck(after), 0.0),
            returns=jnp.where(after.actor == TERMINAL, self._returns(after), 0.0),
        )
        return absorb(state, after)

    def _deal(self, state: LeducState, card: Int[Array, ""]) -> LeducState:
        """Deals the next private card, or the public card once all players have one."""
        seats = jnp.arange(self.players, dtype=jnp.int32)
        dealt = self._dealt(state)
        all_dealt = dealt >= self.players - 1
        return state.replace(
            actor=jnp.where(all_dealt, _next_seat(state.folded, jnp.int32(-1)), CHANCE),
            private=jnp.where(seats == dealt, card, state.private),
            public=jnp.where(dealt == self.players, card, state.public),
        )

    def _bet(self, state: LeducState, action: Int[Array, ""]) -> LeducState:
        """Plays one action; the round ends when all others have called the last raise."""
        acting = jnp.arange(self.players, dtype=jnp.int32) == state.actor
        second = state.public != NOTHING
        raising = action == RAISE
        size = jnp.where(second, self.raise_sizes[1], self.raise_sizes[0])
        stakes = jnp.max(state.paid) + jnp.where(raising, size, 0)
        folded = state.folded | (acting & (action == FOLD))
        num_raises = state.num_raises + raising.astype(jnp.int32)
        num_calls = jnp.where(raising, 0, state.num_calls + (action == CALL).astype(jnp.int32))
        remaining = jnp.sum(~folded, dtype=jnp.int32)
        called = num_calls == jnp.where(num_raises > 0, remaining - 1, remaining)
        over = (remaining == 1) | (called & second)
        next_seat = _next_seat(folded, state.actor)
        return state.replace(
            actor=jnp.where(over, TERMINAL, jnp.where(called, CHANCE, next_seat)),
            paid=jnp.where(acting & (action != FOLD), stakes, state.paid),
            folded=folded,
            num_raises=jnp.where(called, 0, num_raises),
            num_calls=jnp.where(called, 0, num_calls),
            num_taken=state.num_taken + 1,
            history=_append(state.history, state.num_taken, action),
        )

    def _deck(self, state: LeducState) -> Float[Array, " C"]:
        """The probability of each card to be dealt next."""
        cards = jnp.arange(self.num_chance_outcomes, dtype=jnp.int32)
        seen = jnp.append(state.private, state.public)
        left = self._copies - jnp.sum(cards[:, None] == seen[None, :], axis=1, dtype=jnp.int32)
        return left.astype(float) / jnp.maximum(jnp.sum(left, dtype=jnp.int32), 1).astype(float)

    def _returns(self, state: LeducState) -> Float[Array, " P"]:
        """Each player's share of the pot less its own chips, in a finished hand."""
        suits = self.suits // self._copies
        rank, public_rank = state.private // suits, state.public // suits
        strength = jnp.where(rank == public_rank, self.ranks + rank, rank)
        strength = jnp.where(state.folded, -1, strength)
        wins = (strength == jnp.max(strength)).astype(float)
        pot = jnp.sum(state.paid, dtype=jnp.int32).astype(float)
        return wins * (pot / jnp.sum(wins)) - state.paid.astype(float)

    def information_state(self, state: LeducState, player: int) -> Int[Array, " L"]:
        """Number of private cards dealt, own card, public card, actions."""
        cards = jnp.stack([self._dealt(state), state.private[player], state.public])
        return jnp.concatenate([cards, state.history])

    def public_state(self, state: LeducState) -> Int[Array, " M"]:
        """Number of private cards dealt, public card, actions."""
        return jnp.concatenate([jnp.stack([self._dealt(state), state.public]), state.history])

    def features(self, state: LeducState, player: int) -> Float[Array, " F"]:
        """One-hot own and public card, then for each place of the history one-hot fold, call,
        raise.
        """
        cards = jnp.arange(self.num_chance_outcomes, dtype=jnp.int32)
        seen = jnp.stack([state.private[player], state.public])
        actions = self._actions(state)[:, None] == jnp.arange(3, dtype=jnp.int32)[None, :]
        known = [(seen[:, None] == cards[None, :]).ravel(), actions.ravel()]
        return jnp.concatenate(known).astype(float)

    def render(self, state: LeducState) -> str:
        private = " ".join(map(self._card, np.asarray(state.private)))
        actions = "".join("fcr"[a] for a in np.asarray(self._actions(state)) if a != NOTHING)
        paid = " ".join(map(str, np.asarray(state.paid)))
        return (
            f"cards: {private}  public: {self._card(state.public)}"
            f"  actions: {actions or '-'}  paid: {paid}"
        )

    def action_name(self, state: LeducState, action: int) -> str:
        if int(state.actor) == CHANCE:
            return f"deal {self._card(action)}"
        return ("fold", "call", "raise")[action]

    def _card(self, card: int | Array | np.integer) -> str:
        """Names a card: rank and suit, as in 2b; only the rank under suit isomorphism; ? if not
        dealt.
        """
        if int(card) == NOTHING:
            return "?"
        rank, suit = divmod(int(card), self.suits // self._copies)
        return str(rank) if self.suit_isomorphism else f"{rank}{chr(ord('a') + suit)}"

    def _dealt(self, state: LeducState) -> Int[Array, ""]:
        return jnp.sum(state.private != NOTHING, dtype=jnp.int32)

    def _actions(self, state: LeducState) -> Int[Array, " H"]:
        """The actions taken, in order; NOTHING after the last."""
        shifts = 2 * jnp.arange(_PER_WORD, dtype=jnp.int32)
        codes = (state.history[:, None] >> shifts[None, :]) & 3
        return codes.ravel()[: self._max_taken] - 1


def _append(history: Int[Array, " W"], place: Int[Array, ""], action: Int[Array, ""]):
    """The history with `action` added at `place`."""
    word = jnp.arange(history.shape[0], dtype=jnp.int32) == place // _PER_WORD
    return jnp.where(word, history | ((action + 1) << (2 * (place % _PER_WORD))), history)


def _next_seat(folded, seat):
    """The first player after `seat` who has not folded."""
    players = folded.shape[0]
    distance = (jnp.arange(players, dtype=jnp.int32) - seat - 1) % players
    return jnp.argmin(jnp.where(folded, players, distance)).astype(jnp.int32)
