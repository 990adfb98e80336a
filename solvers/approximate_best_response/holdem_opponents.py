"""Hold'em for learned best responses: games against policies by hand (`hand_policies`), with exact
beliefs over the opponent's hands, and games against chumps.

Example:

    >>> from jaxgames.holdem import limit_holdem
    >>> from solvers.approximate_best_response.exact_chump_responses import chumps
    >>> from solvers.approximate_best_response.holdem_opponents import (
    ...     StrengthPoker,
    ...     build_chump_game,
    ... )
    >>> game = StrengthPoker(**limit_holdem().parameters())
    >>> response = build_chump_game(game, chumps(game)["always call"], responder=0)
    >>> response.game.max_decisions
    23
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

from jaxgames.arrays import choose
from jaxgames.core import CHANCE, TERMINAL, record
from jaxgames.holdem.hand_evaluator import dealt_suit_sets, in_full_deck, suit_sets
from jaxgames.holdem.hand_percentile import hand_percentile
from jaxgames.holdem.rules import Poker, PokerState
from solvers.approximate_best_response.exact_chump_responses import (
    Chump,
    in_proportion,
    most_decisions,
)
from solvers.approximate_best_response.hand_policies import (
    HandPolicy,
    all_hands,
    as_argument,
    of_hand,
    probabilities,
)
from solvers.approximate_best_response.response_game import Belief, Opponent, ResponseGame
from solvers.sampling.episodes import uniform_number
from solvers.sampling.indexed_game import IndexedGame, hash_index

_ROWS = 2**31 - 1  # number of hash values


def by_chump(game: Poker, chump: Chump, state: PokerState) -> Float[Array, "N A"]:
    """Returns a chump's policy with every hand."""
    row = chump.probabilities(state.legal)
    return jnp.broadcast_to(row[None], (len(all_hands(game)), len(row)))


@record
class ChumpOpponent(Opponent):
    """Plays legal actions in proportion to weights, whatever its cards."""

    weights: Array  # [A]

    def policy(self, node: Any) -> Float[Array, " A"]:
        """Returns the weights of the legal actions, normalised."""
        return in_proportion(self.weights, node.uniform > 0)


@record
class ByHand(Opponent):
    """Plays by a policy that is given for every hand."""

    game: Poker = flax.struct.field(pytree_node=False)
    policy_of_hands: HandPolicy  # a pytree

    def policy(self, node: Any) -> Float[Array, " A"]:
        """Returns what the policy does with the hand that the actor holds."""
        state = node.place
        return of_hand(
            self.game, self.policy_of_hands, state, state.hole[jnp.maximum(state.actor, 0)]
        )


@record
class RangeBelief(Belief):
    """The belief over the opponent's hands by its known policy; without one, all hands alike."""

    game: Poker = flax.struct.field(pytree_node=False)
    policy_of_hands: HandPolicy | None  # a pytree
    responder: Array  # [] int32

    def start(self) -> PyTree:
        """Returns the opponent's own reach with each hand `[N]`; empty without a policy."""
        if self.policy_of_hands is None:
            return ()
        return jnp.ones(len(all_hands(self.game)), jnp.float32)

    def after(self, memory: PyTree, node: Any, action: Int[Array, ""]) -> PyTree:
        """Multiplies the reach by the probabilities of what the opponent did."""
        if self.policy_of_hands is None:
            return memory
        rows = probabilities(self.game, self.policy_of_hands, node.place)
        theirs = node.place.actor == 1 - self.responder
        reach = jnp.where(theirs, memory * rows[:, action], memory)
        return reach / jnp.maximum(jnp.max(reach), 1e-30)

    def sample(
        self, memory: PyTree, place: PokerState, node: Any, noise: Float[Array, ""]
    ) -> PokerState:
        """Returns the state with a hand for the opponent that is drawn from the belief."""
        draw = self._draw_any_hand if self.policy_of_hands is None else self._draw_hand
        hand = draw(memory, place, noise)
        theirs = jnp.arange(2, dtype=jnp.int32)[:, None] != self.responder
        return place.replace(hole=jnp.where(theirs, hand[None], place.hole))

    def _draw_hand(self, memory, place, noise):
        """A hand drawn in proportion to the belief's weights."""
        weights = self.weights(memory, place)
        bounds = jnp.cumsum(weights)
        number = jnp.sum((bounds <= noise * bounds[-1]).astype(jnp.int32))
        return jnp.asarray(all_hands(self.game))[jnp.minimum(number, len(weights) - 1)]

    def _draw_any_hand(self, memory, place, noise):
        """A hand of unseen cards, drawn card by card: all alike, at a fraction of the cost."""
        seen, hand = jnp.concatenate([place.hole[self.responder], place.board]), []
        for _ in range(self.game.hole):
            card, noise = _unseen_card(self.game, seen, noise)
            hand.append(card)
            seen = jnp.append(seen, card)
        return jnp.sort(jnp.stack(hand))

    def weights(self, memory: PyTree, place: PokerState) -> Float[Array, " N"]:
        """Returns the weight of each hand of the opponent, given the responder's hand and the
        board.
        """
        hands = jnp.asarray(all_hands(self.game))
        seen = jnp.concatenate([place.hole[self.responder], place.board])
        apart = ~jnp.any(hands[:, :, None] == seen[None, None, :], axis=(1, 2))
        return apart.astype(jnp.float32) * (1.0 if self.policy_of_hands is None else memory)


@dataclasses.dataclass(frozen=True)
class StrengthPoker(Poker):
    """Two-player poker with few features: a hand's strength instead of its cards."""

    def deal_all(self, state: PokerState, noise: Float[Array, "2"]) -> PokerState:
        """Deals all cards of the current deal.

        The last card is dealt by the rules; the ones before it are placed without the work of a
        step.
        """
        words = (noise * 2**23).astype(jnp.uint32)
        ends = tuple(itertools.accumulate(self.board, initial=self._num_hole))
        needed = self._at_round(ends[1:], state.round)

        def card(state):
            seen = jnp.concatenate([state.hole.ravel(), state.board])
            return _unseen_card(
                self, seen, uniform_number(words, state.num_dealt.astype(jnp.uint32))
            )[0]

        def more(state):
            return (state.actor == CHANCE) & (state.num_dealt < needed - 1)

        before = jax.lax.while_loop(more, lambda state: self._deal(state, card(state)), state)
        after = self.step(before, card(before))
        dealing = state.actor == CHANCE
        return choose(dealing, after, state)

    def features_of_actor(self, state: PokerState) -> Float[Array, " F"]:
        """Returns the actor's features, without computing the other player's."""
        return self.features(state, jnp.maximum(state.actor, 0))

    def features(self, state: PokerState, player: int | Int[Array, ""]) -> Float[Array, " F"]:
        """Encodes what a player knows by a few numbers.

        They are: the share of hands that the own hand beats on the present board, and its square;
        the ranks of the own cards, whether they are suited or a pair; the cards in the own best
        suit and in the best five adjacent ranks; raises, seat, what both players have spent, and
        their difference; the round.
        """
        hole, board = jnp.maximum(state.hole[player], 0), state.board
        share = hand_percentile(hole, board, ranks=self.ranks, suits=self.suits)
        ranks, suits = hole // self.suits, hole % self.suits
        own = suit_sets(in_full_deck(hole, self.suits))
        held = own | dealt_suit_sets(board, self.suits)
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
class HandGame(IndexedGame):
    """A game that deals the cards of a round at once."""

    def _deal(self, state, noise):
        return self.game.deal_all(state, noise)


@record
class ChumpGame(HandGame):
    """A game against an opponent who may hold any hand at any time.

    At a showdown the responder gets its mean payoff over all hands of the opponent, instead of that
    of the hand that was dealt: the same game for the responder, with less variance.
    """

    responder: Array  # [] int32

    def payoffs_at(self, place: PokerState) -> Float[Array, " P"]:
        """Returns the mean over the opponent's hands if the hand is over, else 0."""
        hole, board = place.hole[self.responder], place.board
        ranks, suits = self.game.ranks, self.game.suits
        more = 2 * hand_percentile(hole, board, ranks=ranks, suits=suits) - 1  # wins less losses
        won = more * jnp.min(place.spent).astype(jnp.float32)
        sides = jnp.where(jnp.arange(2, dtype=jnp.int32) == self.responder, won, -won)
        showdown = (place.actor == TERMINAL) & ~jnp.any(place.folded)
        return jnp.where(showdown, sides, place.returns.astype(jnp.float32))


def build_chump_game(game: StrengthPoker, chump: Chump, *, responder: int) -> ResponseGame:
    """Builds a game against a chump that is played by its rules.

    Chumps and seats are arrays: other ones need no new compilation.

    Args:
      game: the game.
      chump: the opponent.
      responder: the responder's seat.

    Returns:
      The game for the responder.

    Raises:
      ValueError: the game is not for two players, or chance draws its bet sizes; the chump is for
        another game; or there is no such player.
    """
    _check(game, responder)
    chump.probabilities(jnp.ones(game.num_actions, bool))
    seat = jnp.int32(responder)
    playable = ChumpGame(
        game=game,
        index=_index(game),
        num_states=_ROWS,
        max_decisions=most_decisions(game),
        responder=seat,
    )
    return ResponseGame(
        game=playable,
        opponent=ChumpOpponent(weights=jnp.array(chump.weights, jnp.float32)),
        belief=RangeBelief(game=game, policy_of_hands=None, responder=seat),
        responder=seat,
    )


def build_hand_game(game: StrengthPoker, policy: HandPolicy, *, responder: int) -> ResponseGame:
    """Builds a game against a policy by hand that is played by its rules, with exact beliefs.

    Args:
      game: the game.
      policy: the opponent's; arrays that it holds are arguments of compiled functions.
      responder: the responder's seat.

    Returns:
      The game for the responder.

    Raises:
      ValueError: the game is not for two players, or chance draws its bet sizes; or there is no
        such player.
    """
    _check(game, responder)
    policy, seat = as_argument(policy), jnp.int32(responder)
    return ResponseGame(
        game=HandGame(
            game=game, index=_index(game), num_states=_ROWS, max_decisions=most_decisions(game)
        ),
        opponent=ByHand(game=game, policy_of_hands=policy),
        belief=RangeBelief(game=game, policy_of_hands=policy, responder=seat),
        responder=seat,
    )


def _check(game, responder):
    if game.players != 2 or not 0 <= responder < 2:
        raise ValueError(f"responder={responder} must be 0 or 1, and {game} a game of two players")
    if game.draws_size:
        raise ValueError(f"bets={game.bets} of {game} must not be drawn by chance")


@functools.cache
def _index(game):
    return hash_index(game, num_states=_ROWS)


def _unseen_card(game, seen, noise):
    """Draws one of the unseen cards; also returns the noise that is left over, again uniform in [0,
    1).
    """
    cards = jnp.arange(game.ranks * game.suits, dtype=jnp.int32)
    same = cards[:, None] == seen[None, :]
    below = (seen[None, :] >= 0) & (seen[None, :] < cards[:, None])
    place = cards - jnp.sum(below, axis=1, dtype=jnp.int32)
    count = len(cards) - jnp.sum(seen >= 0, dtype=jnp.int32)
    noise = noise * count.astype(noise.dtype)
    number = jnp.minimum(noise.astype(jnp.int32), count - 1)
    chosen = ~jnp.any(same, axis=1) & (place == number)
    return jnp.sum(jnp.where(chosen, cards, 0), dtype=jnp.int32), noise - number.astype(noise.dtype)
