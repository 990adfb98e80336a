"""Hold'em for learned best responses: opponents and beliefs by hand, and games against chumps.

    game = StrengthPoker(**limit_holdem().parameters())
    response = against_chump(game, chumps(game)["always call"], responder=0)

Policies by hand are those of `local_best_response`: functions of what is public.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from jaxgames.core import CHANCE, TERMINAL, record
from jaxgames.holdem.hand_evaluator import suit_sets
from jaxgames.holdem.hand_percentile import hand_percentile
from jaxgames.holdem.rules import NOTHING, Poker, PokerState
from solvers.approximate_best_response.holdem_chumps import Chump, in_proportion, most_decisions
from solvers.approximate_best_response.local_best_response import (
    HandPolicy,
    LocalBestResponse,
    all_hands,
    probabilities,
)
from solvers.approximate_best_response.response_game import Belief, Opponent, ResponseGame
from solvers.sampling.episodes import uniform
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
        seen, hand = jnp.concatenate([place.hole[self.responder], place.board]), []
        for _ in range(self.game.hole):
            card, luck = _unseen_card(self.game, seen, luck)
            hand.append(card)
            seen = jnp.append(seen, card)
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

    def dealt(self, state: PokerState, luck: Float[Array, "2"]) -> PokerState:
        """All cards that come now: the last by the rules, those before it placed without them."""
        words = (luck * 2**23).astype(jnp.uint32)
        ends = tuple(itertools.accumulate(self.board, initial=self._num_hole))
        needed = self._at_round(ends[1:], state.round)

        def card(state):
            seen = jnp.concatenate([state.hole.ravel(), state.board])
            return _unseen_card(self, seen, uniform(words, state.num_dealt.astype(jnp.uint32)))[0]

        def more(state):
            return (state.actor == CHANCE) & (state.num_dealt < needed - 1)

        before = jax.lax.while_loop(more, lambda state: self._deal(state, card(state)), state)
        after = self.step(before, card(before))
        dealing = state.actor == CHANCE
        return jax.tree.map(lambda new, old: jnp.where(dealing, new, old), after, state)

    def features_of_actor(self, state: PokerState) -> Float[Array, " F"]:
        """Those of what the actor knows, without the others'."""
        return self.features(state, jnp.maximum(state.actor, 0))

    def features(self, state: PokerState, player: int | Int[Array, ""]) -> Float[Array, " F"]:
        """How many hands the own one beats as it is; ranks of the own cards, suited, a pair; cards
        of the own best suit, and of the best five ranks in a row; raises, seat, what both have
        spent, and how much more of it the other has; round."""
        hole, board = jnp.maximum(state.hole[player], 0), state.board
        share = hand_percentile(hole, board, ranks=self.ranks, suits=self.suits)
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
            jnp.asarray(player, jnp.float32),
            jnp.log1p(spent[player]),
            jnp.log1p(spent[1 - player]),
            (spent[1 - player] - spent[player]) / jnp.sum(spent),
        ]
        return jnp.concatenate([jnp.stack(numbers), rounds.astype(jnp.float32)])


@record
class ChumpGame(IndexedGame):
    """A game whose opponent may hold any hand at any time.

    At showdown the responder gets the mean over these hands, of which the one that is dealt is one:
    the same game for it, with less luck.
    """

    responder: Array  # [] int32

    def _dealt(self, state, luck):
        return self.game.dealt(state, luck)

    def payoffs_at(self, place: PokerState) -> Float[Array, " P"]:
        """By all hands of the opponent, if the hand is over; else 0."""
        hole, board = place.hole[self.responder], place.board
        ranks, suits = self.game.ranks, self.game.suits
        more = 2 * hand_percentile(hole, board, ranks=ranks, suits=suits) - 1  # wins less losses
        won = more * jnp.min(place.spent).astype(jnp.float32)
        sides = jnp.where(jnp.arange(2, dtype=jnp.int32) == self.responder, won, -won)
        showdown = (place.actor == TERMINAL) & ~jnp.any(place.folded)
        return jnp.where(showdown, sides, place.returns.astype(jnp.float32))


def against_chump(game: StrengthPoker, chump: Chump, *, responder: int) -> ResponseGame:
    """A game against a chump, played by its rules; other chumps and seats compile to the same.

    Raises:
      ValueError: the game is not for two players, or draws the size of bets; the chump is for
        another game; there is no such player.
    """
    if game.players != 2 or not 0 <= responder < 2:
        raise ValueError(f"responder={responder} must be a player of {game}, which must have two")
    if game.draws_size:
        raise ValueError(f"bets={game.bets} of {game} must not be drawn by chance")
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


def _unseen_card(game, seen, luck):
    """One of the cards that are not seen, and what is left of the luck: it is luck again."""
    cards = jnp.arange(game.ranks * game.suits, dtype=jnp.int32)
    same = cards[:, None] == seen[None, :]
    below = (seen[None, :] >= 0) & (seen[None, :] < cards[:, None])
    place = cards - jnp.sum(below, axis=1, dtype=jnp.int32)
    count = len(cards) - jnp.sum(seen >= 0, dtype=jnp.int32)
    luck = luck * count.astype(luck.dtype)
    number = jnp.minimum(luck.astype(jnp.int32), count - 1)
    found = ~jnp.any(same, axis=1) & (place == number)
    return jnp.sum(jnp.where(found, cards, 0), dtype=jnp.int32), luck - number.astype(luck.dtype)


def _sets(game, cards):
    return suit_sets(cards // game.suits * 4 + cards % game.suits)


def _board_sets(game, board):
    """Of the cards that are dealt."""
    each = jax.vmap(lambda card: _sets(game, card[None]))(jnp.maximum(board, 0))
    each = jnp.where((board != NOTHING)[:, None], each, 0)
    return jax.lax.reduce(each, jnp.uint32(0), jax.lax.bitwise_or, (0,))
