"""Exact best responses to opponents who do not look at their cards, in two-player hold'em.

The responder's cards against such a *chump* are worth their equity against a random hand, and all
that a betting round leaves behind is what both players have paid. Values of all hands on all boards
are computed from the last round backwards: on the river for each of the 1,981 possible equities,
then by averages over the next card for all hands on 16,432 turns and 1,755 flops up to isomorphism.
Johanson, Waugh, Bowling, Zinkevich 2011 ("Accelerating best response calculation in large extensive
games"), Table 1, publishes such values.

A responder plays the best response, or by the rule of local best response, whose value is computed
exactly here.

Example:

    >>> from jaxgames.holdem import limit_holdem
    >>> from solvers.approximate_best_response.exact_chump_responses import chumps
    >>> chump = chumps(limit_holdem())["always call"]
    >>> chump.weights  # of fold, call and raise
    (0.0, 1.0, 0.0)

`chump_responses(limit_holdem(), chump)` then computes what a best response wins, in a minute.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxgames.arrays import index_batches
from jaxgames.holdem.betting_from_rules import state_after
from jaxgames.holdem.canonical_boards import (
    HAND_IMAGES,
    SHARES_CARD,
    CanonicalBoards,
    canonical_boards,
    net_wins,
    num_opponent_hands,
)
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.ranges import HANDS, NUM_HANDS
from jaxgames.holdem.rules import CALL, FOLD, Poker, PokerState
from solvers.approximate_best_response import local_best_response

_BATCH = 16  # boards side by side
Values = dict[int, Float[Array, "..."]]  # in chips, by what both players have paid


@dataclasses.dataclass(frozen=True)
class Chump:
    """A player who ignores its cards: it draws legal actions in proportion to fixed weights.

    It calls, or checks, if all legal actions have weight 0.
    """

    weights: tuple[float, ...]  # of fold, call, and every raise of the rules

    def __post_init__(self):
        if not self.weights or min(self.weights) < 0 or not any(self.weights):
            raise ValueError(f"weights={self.weights} must be at least 0, and one of them above 0")

    def probabilities(self, legal: Bool[Array, " A"]) -> Float[Array, " A"]:
        """Returns the probabilities of all actions, given the legal ones.

        Raises:
          ValueError: the game has another number of actions.
        """
        if len(self.weights) != len(legal):
            raise ValueError(
                f"weights={self.weights} must have one entry for each of {len(legal)} actions"
            )
        return in_proportion(jnp.array(self.weights, jnp.float32), legal)


def in_proportion(weights: Float[Array, " A"], legal: Bool[Array, " A"]) -> Float[Array, " A"]:
    """Returns a chump's policy over the legal actions; it calls if they all have weight 0."""
    weights = jnp.where(legal, weights, 0)
    calls = (jnp.arange(len(legal)) == CALL).astype(weights.dtype)
    weights = jnp.where(jnp.any(weights > 0), weights, calls)
    return weights / jnp.sum(weights)


def chumps(game: Poker) -> dict[str, Chump]:
    """Returns the chumps of the literature by name.

    They always choose one action, or call or raise with equal probability, or choose all actions
    with equal probability. The literature does not say which raise the chump that calls or raises
    makes where there are several: "call or raise" splits its half among them, "call or pot" and the
    like give it to one.

    Raises:
      ValueError: a no-limit game without `bets`.
    """
    if not game.limit and not game.bets:
        raise ValueError(f"{game} must be a limit game or have bets: it has too many raises")
    raises = ["raise"] if game.limit else [_bet_name(bet) for bet in game.bets]
    names = ["fold", "call", *raises]
    single = np.eye(len(names)).tolist()
    weights = {f"always {name}": tuple(row) for name, row in zip(names, single, strict=True)}
    weights["call or raise"] = (0.0, float(len(raises)), *(1.0 for _ in raises))
    if len(raises) > 1:
        _, call, *rows = single
        weights |= {
            f"call or {name}": tuple(np.add(call, row).tolist())
            for name, row in zip(raises, rows, strict=True)
        }
    weights["uniform"] = tuple(1.0 for _ in names)
    return {name: Chump(weights) for name, weights in weights.items()}


def _bet_name(bet):
    return {"allin": "all-in", "1": "pot"}.get(bet, f"{bet} pot")


class _Fold(NamedTuple):
    """The hand is over by a fold."""

    chips: int  # won by the responder


class _End(NamedTuple):
    """The betting round is over."""

    paid: int  # by both


class _Decision(NamedTuple):
    """A player acts."""

    chances: tuple[float, ...] | None  # of the chump's actions; None where the responder acts
    actions: tuple[int, ...]
    children: tuple  # by action
    paid: tuple[int, int]  # by the responder, and by the opponent


_Street = dict[int, _Decision]  # first decisions, by what both have paid, unless all-in
Rule = Callable[[_Decision, list[Array], Array], Array]


def best_value(node: _Decision, values: list[Array], equity: Array) -> Array:
    """The value by a best response: that of the best action."""
    return functools.reduce(jnp.maximum, values)


def local_value(node: _Decision, values: list[Array], equity: Array) -> Array:
    """The value by local best response; `equity` is the chance of winning minus that of losing."""
    win, (own, other) = (1 + equity) / 2, node.paid
    pot, asked = own + other, max(node.paid) - own
    highest, value = None, None
    for action, child, worth in zip(node.actions, node.children, values, strict=True):
        if action == FOLD:
            utility = jnp.zeros_like(win)
        elif action == CALL:
            utility = local_best_response.call_utility(win, pot, asked)
        else:
            folds = dict(zip(child.actions, child.chances, strict=True)).get(FOLD, 0.0)
            bet = max(child.paid) - max(node.paid)
            utility = local_best_response.bet_utility(win, folds, pot, asked, bet)
        if value is None:
            highest, value = utility, worth
        better = utility > highest
        highest, value = jnp.maximum(utility, highest), jnp.where(better, worth, value)
    return value


@dataclasses.dataclass(frozen=True)
class ResponsePlan:
    """How a responder plays.

    Attributes:
      rule: how it chooses: `best_value` or `local_value`.
      allowed: the actions among which it chooses in each round; all if not given.
    """

    rule: Rule = best_value
    allowed: local_best_response.Allowed | None = None


@dataclasses.dataclass(frozen=True)
class ChumpResponse:
    """What a responder wins, in chips, as player 0 and as player 1."""

    values: tuple[float, float]  # means over all deals
    by_hand: Float[np.ndarray, "2 1326"]  # before the first round


def chump_responses(
    game: Poker, chump: Chump, plans: tuple[ResponsePlan, ...] = (ResponsePlan(),)
) -> tuple[ChumpResponse, ...]:
    """Computes what responders win against a chump.

    In hold'em of four rounds this takes a minute per plan, and another minute for what all calls
    share.

    Args:
      game: two-player hold'em with a full deck.
      chump: the opponent.
      plans: how the responders play.

    Returns:
      The winnings of each plan.

    Raises:
      ValueError: the game is not two-player hold'em with 52 cards, two hole cards and known bets;
        the chump is for another game; or a plan allows actions in other rounds.
    """
    if (game.players, game.hole, game.ranks * game.suits) != (2, 2, NUM_CARDS) or game.draws_size:
        raise ValueError(
            f"{game} must be for two players with two hole cards each, a deck of 52 cards and"
            " bets of fixed sizes"
        )
    cases = [
        (_ChumpBetting(game, chump, player, plan.allowed).streets, plan.rule)
        for plan in plans
        for player in range(2)
    ]
    ends = list(itertools.accumulate(game.board))
    boards, columns = canonical_boards(ends[-1]), ((),) * len(cases)
    for count in reversed(range(ends[-1] + 1)):
        # the rounds that begin with `count` cards, the last one first
        rounds = [r for r in reversed(range(len(ends))) if ends[r] == count]
        here = [tuple(streets[r] for r in rounds) for streets, _ in cases]
        play = functools.partial(_play_rounds, here, [rule for _, rule in cases], columns)
        if count == ends[-1]:
            index, values = _river_values(play, count)
        else:
            index, values = None, _average_over_cards(boards[count], index, values, play)
        if rounds:
            columns = tuple(tuple(streets[-1]) for streets in here)
    by_hand = np.asarray(values, np.float64)[:, 1:].T.reshape(len(plans), 2, NUM_HANDS)
    return tuple(
        ChumpResponse(values=tuple(hands.mean(axis=1).tolist()), by_hand=hands) for hands in by_hand
    )


def _river_values(play, num_cards):
    """Values of every number of wins on the last board: `[K, S]`, and their index by hand `[B,
    1326]`.
    """
    most = num_opponent_hands(num_cards)
    equity = jnp.arange(-most, most + 1, dtype=jnp.float32) / most
    values = jax.jit(play)(equity[:, None])
    index = np.where(net_wins(num_cards) == SHARES_CARD, 2 * most + 1, net_wins(num_cards) + most)
    return jnp.asarray(index.astype(np.int16)), jnp.pad(values, ((0, 1), (0, 0)))


def _average_over_cards(boards: CanonicalBoards, index, values, play):
    """Values of all hands on boards `[B * 1326, S]`, from those with one more card."""

    def places(child, exchange):
        hands = jnp.asarray(HAND_IMAGES, jnp.int32)[exchange]
        if index is None:
            return child[:, None] * NUM_HANDS + hands
        return index[child[:, None], hands].astype(jnp.int32)

    @jax.jit
    def batch_values(child, exchange, cards, index, values):
        def add(total, card):
            # the barrier keeps XLA from repeating the look-up for every column
            rows = jax.lax.optimization_barrier(places(*card))
            return total + values.at[rows].get(mode="promise_in_bounds"), None

        total = jnp.zeros((len(child), NUM_HANDS, values.shape[1]), values.dtype)
        total, _ = jax.lax.scan(add, total, (child.T, exchange.T))
        # two of the next cards are in the hand: there its values are 0
        after = play(total / (child.shape[1] - 2))
        shares = jnp.asarray(HANDS)[None, :, :, None] == cards[:, None, None, :]
        possible = ~jnp.any(shares, axis=(2, 3))
        return jnp.where(possible[:, :, None], after, 0).reshape(-1, after.shape[2])

    table = None
    for rows in index_batches(len(boards.cards), min(_BATCH, len(boards.cards))):
        given = (boards.child[rows], boards.exchange[rows], boards.cards[rows])
        part = batch_values(*(jnp.asarray(x, jnp.int32) for x in given), index, values)
        if table is None:
            table = np.zeros((len(boards.cards), NUM_HANDS, part.shape[1]), np.float32)
        table[rows] = np.asarray(part).reshape(len(rows), NUM_HANDS, -1)
    return jnp.asarray(table.reshape(-1, table.shape[2]))


def _play_rounds(cases, rules, columns, means: Array) -> Array:
    """Values where the rounds begin, from those where the last one has ended.

    The first column is the equity; the others are by case, and by what both players have paid.
    """
    equity, place = means[..., 0], 1
    new_columns = [equity]
    for streets, rule, paid in zip(cases, rules, columns, strict=True):
        values = {each: means[..., place + number] for number, each in enumerate(paid)}
        place += len(paid)
        for street in streets:
            values = {each: _value(node, values, equity, rule) for each, node in street.items()}
        new_columns += values.values()
    return jnp.stack(new_columns, axis=-1)


def _value(node, after: Values, equity, rule):
    """The responder's value at a node of a betting round."""
    match node:
        case _Fold(chips):
            return jnp.full_like(equity, chips)
        case _End(paid):  # without a further betting round both go to the showdown
            return after[paid] if paid in after else paid * equity
    values = [_value(child, after, equity, rule) for child in node.children]
    if node.chances is None:
        return rule(node, values, equity)
    return sum(chance * value for chance, value in zip(node.chances, values, strict=True))


def most_decisions(game: Poker) -> int:
    """Returns the largest number of decisions in a hand.

    Raises:
      ValueError: a no-limit game without `bets`.
    """
    streets = _ChumpBetting(game, chumps(game)["uniform"], 0, None).streets

    @functools.cache
    def below(round, node):
        if isinstance(node, _Decision):
            return 1 + max(below(round, child) for child in node.children)
        if isinstance(node, _End) and round + 1 < len(streets):
            after = streets[round + 1].get(node.paid)
            return 0 if after is None else below(round + 1, after)
        return 0

    return max(below(0, node) for node in streets[0].values())


class _ChumpBetting:
    """The betting of a game, round by round, with a chump in the seat of the other player."""

    def __init__(self, game: Poker, chump: Chump, player: int, allowed):
        self.game, self.chump, self.player = game, chump, player
        self.allowed = local_best_response.checked_allowed(game, allowed)
        self.streets: list[_Street] = [{} for _ in game.board]
        dealt = state_after(game, game.init(), jnp.int32(0))  # the first card, and the others
        self.street(0, max(game.blinds), dealt)

    def street(self, round, paid, state):
        """Builds the betting of a round that begins after both have paid `paid`."""
        if paid not in self.streets[round]:
            self.streets[round][paid] = self.decision(state)

    def decision(self, state: PokerState) -> _Decision:
        """Builds the node of a state in which a player acts."""
        actor, round, spent, legal = jax.device_get(
            (state.actor, state.round, state.spent, state.legal)
        )
        chances, actions = None, legal & self.allowed[int(round)]
        if actor != self.player:
            chances = np.asarray(self.chump.probabilities(state.legal), np.float64)
            actions = legal & (chances > 0)
        actions = tuple(np.flatnonzero(actions).tolist())
        return _Decision(
            chances=None if chances is None else tuple(chances[list(actions)].tolist()),
            actions=actions,
            children=tuple(self.follow(state, int(round), action) for action in actions),
            paid=(int(spent[self.player]), int(spent[1 - self.player])),
        )

    def follow(self, before, round, action):
        """Builds the node after an action."""
        state = state_after(self.game, before, jnp.int32(action))
        over, folded, after, spent = jax.device_get(
            (state.over, state.folded, state.round, state.spent)
        )
        if folded.any():
            own, other = spent[self.player], spent[1 - self.player]
            return _Fold(int(-own if folded[self.player] else other))
        if not over and after == round:
            return self.decision(state)
        if not over:
            self.street(int(after), int(spent[0]), state)
        return _End(int(spent[0]))
