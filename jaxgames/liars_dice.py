"""Liar's dice as OpenSpiel's `liars_dice`: the highest face is wild.

Every player rolls `dice` dice under a cup. In turn a player bids "at least q of all dice show face
f", higher than the last bid (more dice, or as many of a higher face), or calls the last bidder a
liar. A call ends the game: the bidder wins 1 from the caller if the bid holds, and else loses 1.
Action `(q - 1) * sides + (f - 1)` is the bid q-f, the last action is the call. Chance rolls one die
at a time; players see their own dice, without order, once these are all rolled.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import CHANCE, TERMINAL, Game, State, absorb, no_legal, record
from jaxgames.registry import register

NO_BID = -1
_PER_WORD = 31  # actions in one integer of the set of bids


@record
class LiarsDiceState(State):
    """The dice and the bids; bids only rise, so that their set determines their order."""

    faces: Array  # [P, S] int32: how many dice of each player show each face
    num_rolled: Array  # [] int32
    bids: Array  # [W] int32: one bit per action taken so far
    last_bid: Array  # [] int32, NO_BID before the first bid


@register("liars_dice")
@dataclasses.dataclass(frozen=True)
class LiarsDice(Game):
    """Parameters: `dice` per player, `sides` of a die, `players` (2 to 10)."""

    dice: int = 1
    sides: int = 6
    players: int = 2

    def __post_init__(self):
        if not 2 <= self.players <= 10:
            raise ValueError(f"liars_dice: players={self.players} must be between 2 and 10")
        if self.dice < 1 or self.sides < 1:
            raise ValueError(f"liars_dice: dice={self.dice}, sides={self.sides} must be positive")
        if (self.dice + 1) ** self.sides >= 2**31:
            raise ValueError(
                f"liars_dice: dice={self.dice}, sides={self.sides} are too many:"
                " (dice + 1) ** sides must be less than 2 ** 31"
            )

    @property
    def num_players(self) -> int:
        return self.players

    @property
    def num_actions(self) -> int:
        return self._liar + 1

    @property
    def num_chance_outcomes(self) -> int:
        return self.sides

    @property
    def max_depth(self) -> int:
        return self._num_dice + self.num_actions

    @property
    def _num_dice(self) -> int:
        return self.players * self.dice

    @property
    def _liar(self) -> int:
        """The action that calls the last bidder a liar; all lower actions are bids."""
        return self._num_dice * self.sides

    def init(self) -> LiarsDiceState:
        return LiarsDiceState(
            actor=jnp.int32(CHANCE),
            legal=no_legal(self.num_actions),
            chance_probs=jnp.full(self.sides, 1.0 / self.sides, float),
            returns=jnp.zeros(self.players, float),
            faces=jnp.zeros((self.players, self.sides), jnp.int32),
            num_rolled=jnp.int32(0),
            bids=jnp.zeros(-(-self.num_actions // _PER_WORD), jnp.int32),
            last_bid=jnp.int32(NO_BID),
        )

    def step(self, state: LiarsDiceState, action: Int[Array, ""]) -> LiarsDiceState:
        rolling = state.actor == CHANCE
        calling = ~rolling & (action == self._liar)
        num_rolled = state.num_rolled + rolling.astype(jnp.int32)
        last_bid = jnp.where(rolling, NO_BID, action)
        after_roll = jnp.where(num_rolled == self._num_dice, 0, CHANCE)
        after_bid = jnp.where(calling, TERMINAL, (state.actor + 1) % self.players)
        actor = jnp.where(rolling, after_roll, after_bid)
        actions = jnp.arange(self.num_actions, dtype=jnp.int32)
        callable_ = (actions < self._liar) | (last_bid != NO_BID)
        after = LiarsDiceState(
            actor=actor,
            legal=(actor >= 0) & (actions > last_bid) & callable_,
            chance_probs=jnp.full(self.sides, jnp.where(actor == CHANCE, 1.0 / self.sides, 0.0)),
            returns=jnp.where(calling, self._returns(state), 0.0),
            faces=jnp.where(rolling, self._roll(state, action), state.faces),
            num_rolled=num_rolled,
            bids=jnp.where(rolling, state.bids, _add(state.bids, action)),
            last_bid=last_bid,
        )
        return absorb(state, after)

    def _roll(self, state: LiarsDiceState, face: Int[Array, ""]) -> Int[Array, "P S"]:
        """The dice after the next one shows `face`; players roll in seat order."""
        roller = jnp.arange(self.players, dtype=jnp.int32) == state.num_rolled // self.dice
        shown = jnp.arange(self.sides, dtype=jnp.int32) == face
        return state.faces + (roller[:, None] & shown[None, :]).astype(jnp.int32)

    def _returns(self, state: LiarsDiceState) -> Float[Array, " P"]:
        """The payoffs after the actor has called the last bid."""
        faces = jnp.arange(self.sides, dtype=jnp.int32)
        counts = (faces == state.last_bid % self.sides) | (faces == self.sides - 1)
        matches = jnp.sum(jnp.where(counts[None, :], state.faces, 0), dtype=jnp.int32)
        holds = matches > state.last_bid // self.sides
        seats = jnp.arange(self.players, dtype=jnp.int32)
        caller = (seats == state.actor).astype(float)
        bidder = (seats == (state.actor - 1) % self.players).astype(float)
        return jnp.where(holds, bidder - caller, caller - bidder)

    def information_state(self, state: LiarsDiceState, player: int) -> Int[Array, " L"]:
        """Number of dice rolled, the own dice (none before the last of them is rolled), the
        actions.
        """
        weights = jnp.array([(self.dice + 1) ** face for face in range(self.sides)], jnp.int32)
        own = jnp.sum(self._seen(state, player) * weights, dtype=jnp.int32)
        return jnp.concatenate([jnp.stack([state.num_rolled, own]), state.bids])

    def public_state(self, state: LiarsDiceState) -> Int[Array, " M"]:
        """Number of dice rolled, the actions."""
        return jnp.concatenate([state.num_rolled[None], state.bids])

    def features(self, state: LiarsDiceState, player: int) -> Float[Array, " F"]:
        """The fraction of the own dice that show each face, then a bit for each action taken."""
        own = self._seen(state, player).astype(float) / self.dice
        return jnp.concatenate([own, self._taken(state).astype(float)])

    def render(self, state: LiarsDiceState) -> str:
        faces = np.arange(1, self.sides + 1)
        dice = [
            " ".join(map(str, np.repeat(faces, counts))) or "?"
            for counts in np.asarray(state.faces)
        ]
        actions = np.flatnonzero(np.asarray(self._taken(state)))
        return f"dice: {' | '.join(dice)}  bids: {' '.join(map(self._bid, actions)) or '-'}"

    def action_name(self, state: LiarsDiceState, action: int) -> str:
        return f"roll {action + 1}" if int(state.actor) == CHANCE else self._bid(action)

    def _bid(self, action: int | np.integer) -> str:
        quantity, face = divmod(int(action), self.sides)
        return "liar" if action == self._liar else f"{quantity + 1}-{face + 1}"

    def _seen(self, state: LiarsDiceState, player: int) -> Int[Array, " S"]:
        """The own dice by face; all zero until the last of them is rolled."""
        looks = state.num_rolled >= (player + 1) * self.dice
        return jnp.where(looks, state.faces[player], 0)

    def _taken(self, state: LiarsDiceState) -> Int[Array, " A"]:
        """1 for each action that was taken, else 0."""
        places = jnp.arange(_PER_WORD, dtype=jnp.int32)
        return ((state.bids[:, None] >> places[None, :]) & 1).ravel()[: self.num_actions]


def _add(bids: Int[Array, " W"], action: Int[Array, ""]) -> Int[Array, " W"]:
    """The set of bids with `action` added."""
    word = jnp.arange(bids.shape[0], dtype=jnp.int32) == action // _PER_WORD
    bit = jnp.int32(1) << (action % _PER_WORD)
    return jnp.where(word, bids | bit, bids)
