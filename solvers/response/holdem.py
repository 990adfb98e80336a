"""Hold'em for learned best responses: opponents and beliefs by hand, and games against chumps.

    game = StrengthPoker(**limit_holdem().parameters())
    response = against_chump(game, chumps(game)["always call"], responder=0)

Policies by hand are those of `local_best_response`: functions of what is public.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxgames.core import TERMINAL, record
from jaxgames.holdem.evaluator import strength_of_sets, suit_sets
from jaxgames.holdem.rules import NOTHING, Poker, PokerState
from solvers.response.chumps import Chump, in_proportion, most_decisions
from solvers.response.local_best_response import (
    HandPolicy,
    LocalBestResponse,
    all_hands,
    probabilities,
)
from solvers.response.response_game import Belief, Opponent, ResponseGame
from solvers.sampling.indexed_game import IndexedGame, hashed

_ROWS = 2**31 - 1  # of hash values


def by_chump(game: Poker, chump: Chump, state: PokerState) -> Float[Array, "N A"]:
    """The policy of a chump with every hand."""
    row = chump.probabilities(state.legal)
    return jnp.broadcast_to(row[None], (len(all_hands(game)), len(row)))


@record
class ChumpOpponent(Opponent):
    """Plays in proportion to weights of the actions, whatever it holds."""

    weights: Array  # [A]

    def policy(self, node: Any) -> Float[Array, " A"]:
        """Of the legal actions."""
        return in_proportion(self.weights, node.uniform > 0)


@record
class ByHand(Opponent):
    """Plays by a policy for every hand."""

    game: Poker = flax.struct.field(pytree_node=False)
    policy_of_hands: HandPolicy = flax.struct.field(pytree_node=False)

    def policy(self, node: Any) -> Float[Array, " A"]:
        """The row of the hand that the actor holds."""
        state = node.place
        rows = probabilities(LocalBestResponse(self.game), self.policy_of_hands, state)
        held = jnp.sort(state.hole[jnp.maximum(state.actor, 0)])
        same = jnp.all(jnp.asarray(all_hands(self.game)) == held[None], axis=1)
        return rows[jnp.argmax(same)]


@record
class RangeBelief(Belief):
    """The opponent's hands, by what it did with each; without a policy, all that may be."""

    game: Poker = flax.struct.field(pytree_node=False)
    policy_of_hands: HandPolicy | None = flax.struct.field(pytree_node=False)
    responder: Array  # [] int32

    def start(self) -> PyTree:
        """The opponent's own reach with each hand, `[N]`; nothing without a policy."""
        if self.policy_of_hands is None:
            return ()
        return jnp.ones(len(all_hands(self.game)), jnp.float32)

    def after(self, memory: PyTree, node: Any, action: Int[Array, ""]) -> PyTree:
        """Times the probability of what it did."""
        if self.policy_of_hands is None:
            return memory
        rows = probabilities(LocalBestResponse(self.game), self.policy_of_hands, node.place)
        theirs = node.place.actor == 1 - self.responder
        reach = jnp.where(theirs, memory * rows[:, action], memory)
        return reach / jnp.maximum(jnp.max(reach), 1e-30)

    def sample(
        self, memory: PyTree, place: PokerState, node: Any, luck: Float[Array, ""]
    ) -> PokerState:
        """The state with another hand for the opponent."""
        drawn = self._any_hand if self.policy_of_hands is None else self._drawn
        hand = drawn(memory, place, luck)
        theirs = jnp.arange(2, dtype=jnp.int32)[:, None] != self.responder
        return place.replace(hole=jnp.where(theirs, hand[None], place.hole))

    def _drawn(self, memory, place, luck):
        weights = self.weights(memory, place)
        bounds = jnp.cumsum(weights)
        number = jnp.sum((bounds <= luck * bounds[-1]).astype(jnp.int32))
        return jnp.asarray(all_hands(self.game))[jnp.minimum(number, len(weights) - 1)]

    def _any_hand(self, memory, place, luck):
        """Without a policy all hands are alike: unseen cards, one by one, at a fraction of the
        cost."""
        cards = jnp.arange(self.game.ranks * self.game.suits, dtype=jnp.int32)
        seen = jnp.concatenate([place.hole[self.responder], place.board])
        free, hand = ~jnp.any(cards[:, None] == seen[None, :], axis=1), []
        for _ in range(self.game.hole):
            place_of = jnp.cumsum(free, dtype=jnp.int32)
            count = place_of[-1]
            luck = luck * count.astype(luck.dtype)
            number = jnp.minimum(luck.astype(jnp.int32), count - 1)
            luck = luck - number.astype(luck.dtype)  # what is left is luck again
            hand.append(jnp.sum((place_of <= number).astype(jnp.int32)))
            free = free & (cards != hand[-1])
        return jnp.sort(jnp.stack(hand))

    def weights(self, memory: PyTree, place: PokerState) -> Float[Array, " N"]:
        """Of each hand of the opponent, where the responder knows its own and the board."""
        hands = jnp.asarray(all_hands(self.game))
        seen = jnp.concatenate([place.hole[self.responder], place.board])
        apart = ~jnp.any(hands[:, :, None] == seen[None, None, :], axis=(1, 2))
        return apart.astype(jnp.float32) * (1.0 if self.policy_of_hands is None else memory)


@dataclasses.dataclass(frozen=True)
class StrengthPoker(Poker):
    """Two-player poker whose features are few: a hand's strength instead of its cards."""

    def features(self, state: PokerState, player: int) -> Float[Array, " F"]:
        """How many hands the own one beats as it is; ranks of the own cards, suited, a pair; cards
        of the own best suit, and of the best five ranks in a row; board cards, round, raises, seat,
        and what both have spent."""
        hole, board = jnp.maximum(state.hole[player], 0), state.board
        strengths, mine, apart = _strengths(self, hole, board, num_cards=5)
        met = jnp.maximum(jnp.sum(apart, dtype=jnp.int32), 1).astype(jnp.float32)
        wins = (mine > strengths).astype(jnp.float32) + (mine == strengths).astype(jnp.float32) / 2
        share = jnp.sum(jnp.where(apart, wins, 0)) / met
        ranks, suits = hole // self.suits, hole % self.suits
        own = _sets(self, hole)
        held = own | _board_sets(self, board)
        flush = jnp.max(jnp.where(own > 0, jax.lax.population_count(held), 0)).astype(jnp.float32)
        some = held[0] | held[1] | held[2] | held[3]
        low = (some << 1) | (some >> 12)  # the ace is also below the two
        rows = jnp.stack([jax.lax.population_count(low & (31 << i)) for i in range(10)])
        straight = jnp.max(rows).astype(jnp.float32)
        rounds = jnp.arange(len(self.board), dtype=jnp.int32) == state.round
        spent = state.spent.astype(jnp.float32) / max(self.blinds)
        numbers = [
            share,
            share**2,
            jnp.max(ranks).astype(jnp.float32) / 12,
            jnp.min(ranks).astype(jnp.float32) / 12,
            (jnp.max(suits) == jnp.min(suits)).astype(jnp.float32),
            (jnp.max(ranks) == jnp.min(ranks)).astype(jnp.float32),
            flush / 5,
            straight / 5,
            state.num_raises.astype(jnp.float32) / 4,
            jnp.float32(player),
            jnp.log1p(spent[player]),
            jnp.log1p(spent[1 - player]),
            (spent[1 - player] - spent[player]) / 2,
        ]
        return jnp.concatenate([jnp.stack(numbers), rounds.astype(jnp.float32)])


@record
class ChumpGame(IndexedGame):
    """A game whose opponent may hold any hand at any time.

    At showdown the responder gets the mean over these hands, of which the one that is dealt is one:
    the same game for it, with less luck.
    """

    responder: Array  # [] int32

    def payoffs_at(self, place: PokerState) -> Float[Array, " P"]:
        """By all hands of the opponent, if the hand is over; else 0."""
        hole, board = place.hole[self.responder], place.board
        cards = self.game.hole + sum(self.game.board)
        strengths, mine, apart = _strengths(self.game, hole, board, num_cards=cards)
        less = (mine > strengths).astype(jnp.float32) - (mine < strengths).astype(jnp.float32)
        met = jnp.maximum(jnp.sum(apart, dtype=jnp.int32), 1).astype(jnp.float32)
        mean = jnp.sum(jnp.where(apart, less, 0)) / met
        won = mean * jnp.min(place.spent).astype(jnp.float32)
        sides = jnp.where(jnp.arange(2, dtype=jnp.int32) == self.responder, won, -won)
        showdown = (place.actor == TERMINAL) & ~jnp.any(place.folded)
        return jnp.where(showdown, sides, place.returns.astype(jnp.float32))


def against_chump(game: StrengthPoker, chump: Chump, *, responder: int) -> ResponseGame:
    """A game against a chump, played by its rules; other chumps and seats compile to the same.

    Raises:
      ValueError: the game is not for two players, the chump is for another one, or there is no such
        player.
    """
    if game.players != 2 or not 0 <= responder < 2:
        raise ValueError(f"responder={responder} must be a player of {game}, which must have two")
    chump.probabilities(jnp.ones(game.num_actions, bool))
    seat = jnp.int32(responder)
    playable = ChumpGame(
        game=game,
        index=_index(game),
        num_states=_ROWS,
        longest=most_decisions(game),
        responder=seat,
    )
    return ResponseGame(
        game=playable,
        opponent=ChumpOpponent(weights=jnp.array(chump.weights, jnp.float32)),
        belief=RangeBelief(game=game, policy_of_hands=None, responder=seat),
        responder=seat,
    )


@functools.cache
def _index(game):
    return hashed(game, num_states=_ROWS)


def _strengths(
    game: Poker, hole: Int[Array, " k"], board: Int[Array, " B"], *, num_cards: int
) -> tuple[Int[Array, " N"], Int[Array, ""], Bool[Array, " N"]]:
    """Of all hands, of one, and which hands share no card with it nor with the board so far."""
    hands, there = jnp.asarray(all_hands(game)), _board_sets(game, board)
    found = strength_of_sets(_sets(game, hands) | there[:, None], num_cards=num_cards)
    mine = strength_of_sets(_sets(game, hole) | there, num_cards=num_cards)
    seen = jnp.concatenate([hole, board])
    return found, mine, ~jnp.any(hands[:, :, None] == seen[None, None, :], axis=(1, 2))


def _sets(game, cards):
    return suit_sets(cards // game.suits * 4 + cards % game.suits)


def _board_sets(game, board):
    """Of the cards that are dealt."""
    each = jax.vmap(lambda card: _sets(game, card[None]))(jnp.maximum(board, 0))
    each = jnp.where((board != NOTHING)[:, None], each, 0)
    return jax.lax.reduce(each, jnp.uint32(0), jax.lax.bitwise_or, (0,))
