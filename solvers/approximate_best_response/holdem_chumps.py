"""Exact responses to opponents who do not look at their cards, in two-player hold'em.

Such a *chump* may hold any hand at any time, so the cards of a responder are worth their equity
against a random hand, and the betting of a round is left behind but for what both have paid. Values
of all hands at all boards are computed from the last round up: on the river for each of the 1,981
possible equities, then by averages over the next card for all hands on 16,432 turns, 1,755 flops.
(Johanson, Waugh, Bowling, Zinkevich 2011, "Accelerating best response calculation in large
extensive games", Table 1, has such values.)

    chump = chumps(limit_holdem())["always call"]
    found = responses(limit_holdem(), chump, (Plan(), Plan(rule=local)))
    print(found[0].values)  # chips that the responder wins on average, by its seat

The responder plays best, or by the rule of local best response, whose value is exact here.
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

from jaxgames.holdem.betting_from_rules import state_after
from jaxgames.holdem.canonical_boards import (
    HAND_IMAGES,
    SHARES_CARD,
    CanonicalBoards,
    canonical_boards,
    index_batches,
    net_wins,
    num_opponent_hands,
)
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.ranges import HANDS, NUM_HANDS
from jaxgames.holdem.rules import CALL, FOLD, Poker, PokerState
from solvers.approximate_best_response import local_best_response

_BATCH = 16  # boards at once
Values = dict[int, Float[Array, "..."]]  # in chips, by what both have paid


@dataclasses.dataclass(frozen=True)
class Chump:
    """Plays legal actions in proportion to their weights, whatever its cards; calls, or checks, if
    all legal ones have none."""

    weights: tuple[float, ...]  # of fold, call, and every raise of the rules

    def __post_init__(self):
        if not self.weights or min(self.weights) < 0 or not any(self.weights):
            raise ValueError(f"weights={self.weights} must be at least 0, and some above")

    def probabilities(self, legal: Bool[Array, " A"]) -> Float[Array, " A"]:
        """Of all actions.

        Raises:
          ValueError: the game has another number of actions.
        """
        if len(self.weights) != len(legal):
            raise ValueError(f"weights={self.weights} must be of {len(legal)} actions")
        return in_proportion(jnp.array(self.weights, jnp.float32), legal)


def in_proportion(weights: Float[Array, " A"], legal: Bool[Array, " A"]) -> Float[Array, " A"]:
    """What a chump of these weights does; it calls if all legal actions have none."""
    weights = jnp.where(legal, weights, 0)
    calls = (jnp.arange(len(legal)) == CALL).astype(weights.dtype)
    weights = jnp.where(jnp.any(weights > 0), weights, calls)
    return weights / jnp.sum(weights)


def chumps(game: Poker) -> dict[str, Chump]:
    """Those of the literature: one action always, calls or raises at random, all at random.

    Raises:
      ValueError: a no-limit game without `bets`.
    """
    if not game.limit and not game.bets:
        raise ValueError(f"{game} must have limits or bets: there are too many raises")
    raises = ["raise"] if game.limit else [_bet_name(bet) for bet in game.bets]
    names = ["fold", "call", *raises]
    single = np.eye(len(names)).tolist()
    found = {f"always {name}": tuple(row) for name, row in zip(names, single, strict=True)}
    found["call or raise"] = (0.0, *(1.0 for _ in names[1:]))
    found["uniform"] = tuple(1.0 for _ in names)
    return {name: Chump(weights) for name, weights in found.items()}


def _bet_name(bet):
    return {"allin": "all-in", "1": "pot"}.get(bet, f"{bet} pot")


class _Fold(NamedTuple):
    """The hand is over."""

    chips: int  # that the responder has won


class _End(NamedTuple):
    """The round is over."""

    paid: int  # by both


class _Decision(NamedTuple):
    """Somebody acts."""

    chances: tuple[float, ...] | None  # of the opponent's actions; None: the responder acts
    actions: tuple[int, ...]
    children: tuple  # by action
    paid: tuple[int, int]  # by the responder, and by the opponent


_Street = dict[int, _Decision]  # first decisions by what both have paid; none where all are all-in
Rule = Callable[[_Decision, list[Array], Array], Array]


def best(node: _Decision, values: list[Array], equity: Array) -> Array:
    """The rule of a best response: the action of the highest value."""
    return functools.reduce(jnp.maximum, values)


def local(node: _Decision, values: list[Array], equity: Array) -> Array:
    """The rule of local best response; equity is chances to win less chances to lose."""
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
class Plan:
    """How a responder plays: by a rule, among the actions that are allowed in each round, all if
    none are given."""

    rule: Rule = best
    allowed: local_best_response.Allowed | None = None


@dataclasses.dataclass(frozen=True)
class Response:
    """What a responder wins, in chips, as player 0 and as player 1."""

    values: tuple[float, float]  # on average
    by_hand: Float[np.ndarray, "2 1326"]  # before the first round


def responses(
    game: Poker, chump: Chump, plans: tuple[Plan, ...] = (Plan(),)
) -> tuple[Response, ...]:
    """What each plan wins against a chump. A minute in hold'em of four rounds; what all calls
    share takes another.

    Raises:
      ValueError: not a two-player game of hold'em with the whole deck, and a board; the chump is
        for another game; or actions are allowed in other rounds.
    """
    if (game.players, game.hole, game.ranks * game.suits) != (2, 2, NUM_CARDS) or game.draws_size:
        raise ValueError(
            f"{game} must be for two players with two cards each of all 52, and with known bets"
        )
    cases = [
        (_Walk(game, chump, player, plan.allowed).streets, plan.rule)
        for plan in plans
        for player in range(2)
    ]
    ends = list(itertools.accumulate(game.board))
    boards, columns = canonical_boards(ends[-1]), ((),) * len(cases)
    for count in reversed(range(ends[-1] + 1)):
        # the rounds that begin with so many cards, the last one first
        rounds = [r for r in reversed(range(len(ends))) if ends[r] == count]
        here = [tuple(streets[r] for r in rounds) for streets, _ in cases]
        play = functools.partial(_played, here, [rule for _, rule in cases], columns)
        if count == ends[-1]:
            index, values = _by_wins(play, count)
        else:
            index, values = None, _averaged(boards[count], index, values, play)
        if rounds:
            columns = tuple(tuple(streets[-1]) for streets in here)
    by_hand = np.asarray(values, np.float64)[:, 1:].T.reshape(len(plans), 2, NUM_HANDS)
    return tuple(
        Response(values=tuple(hands.mean(axis=1).tolist()), by_hand=hands) for hands in by_hand
    )


def _by_wins(play, num_cards):
    """Where to look up each hand `[B, 1326]`, and values by wins `[K, S]`."""
    most = num_opponent_hands(num_cards)
    equity = jnp.arange(-most, most + 1, dtype=jnp.float32) / most
    values = jax.jit(play)(equity[:, None])
    index = np.where(net_wins(num_cards) == SHARES_CARD, 2 * most + 1, net_wins(num_cards) + most)
    return jnp.asarray(index.astype(np.int16)), jnp.pad(values, ((0, 1), (0, 0)))


def _averaged(boards: CanonicalBoards, index, values, play):
    """Values of all hands at boards `[B * 1326, S]` from those with one card more."""

    def places(child, exchange):
        hands = jnp.asarray(HAND_IMAGES, jnp.int32)[exchange]
        if index is None:
            return child[:, None] * NUM_HANDS + hands
        return index[child[:, None], hands].astype(jnp.int32)

    @jax.jit
    def some(child, exchange, cards, index, values):
        def add(total, card):
            # stored, or it would be looked up again for every column
            rows = jax.lax.optimization_barrier(places(*card))
            return total + values.at[rows].get(mode="promise_in_bounds"), None

        total = jnp.zeros((len(child), NUM_HANDS, values.shape[1]), values.dtype)
        total, _ = jax.lax.scan(add, total, (child.T, exchange.T))
        # a hand shares a card with two of the boards, where its values are 0
        found = play(total / (child.shape[1] - 2))
        shares = jnp.asarray(HANDS)[None, :, :, None] == cards[:, None, None, :]
        there = ~jnp.any(shares, axis=(2, 3))
        return jnp.where(there[:, :, None], found, 0).reshape(-1, found.shape[2])

    found = None
    for rows in index_batches(len(boards.cards), min(_BATCH, len(boards.cards))):
        given = (boards.child[rows], boards.exchange[rows], boards.cards[rows])
        part = some(*(jnp.asarray(x, jnp.int32) for x in given), index, values)
        if found is None:
            found = np.zeros((len(boards.cards), NUM_HANDS, part.shape[1]), np.float32)
        found[rows] = np.asarray(part).reshape(len(rows), NUM_HANDS, -1)
    return jnp.asarray(found.reshape(-1, found.shape[2]))


def _played(cases, rules, columns, means: Array) -> Array:
    """Values where the rounds begin, from those where the last one has ended: the first column is
    equity, the others are by case, and by what both have paid."""
    equity, place = means[..., 0], 1
    found = [equity]
    for streets, rule, paid in zip(cases, rules, columns, strict=True):
        values = {each: means[..., place + number] for number, each in enumerate(paid)}
        place += len(paid)
        for street in streets:
            values = {each: _value(node, values, equity, rule) for each, node in street.items()}
        found += values.values()
    return jnp.stack(found, axis=-1)


def _value(node, after: Values, equity, rule):
    match node:
        case _Fold(chips):
            return jnp.full_like(equity, chips)
        case _End(paid):  # nobody has anything left to bet where no street begins
            return after[paid] if paid in after else paid * equity
    values = [_value(child, after, equity, rule) for child in node.children]
    if node.chances is None:
        return rule(node, values, equity)
    return sum(chance * value for chance, value in zip(node.chances, values, strict=True))


def most_decisions(game: Poker) -> int:
    """How many decisions a hand has at most.

    Raises:
      ValueError: a no-limit game without `bets`.
    """
    streets = _Walk(game, chumps(game)["uniform"], 0, None).streets

    @functools.cache
    def below(round, node):
        if isinstance(node, _Decision):
            return 1 + max(below(round, child) for child in node.children)
        if isinstance(node, _End) and round + 1 < len(streets):
            after = streets[round + 1].get(node.paid)
            return 0 if after is None else below(round + 1, after)
        return 0

    return max(below(0, node) for node in streets[0].values())


class _Walk:
    """The betting of a game, round by round, with a chump in one of the seats."""

    def __init__(self, game: Poker, chump: Chump, player: int, allowed):
        self.game, self.chump, self.player = game, chump, player
        self.allowed = local_best_response.checked_allowed(game, allowed)
        self.streets: list[_Street] = [{} for _ in game.board]
        dealt = state_after(game, game.init(), jnp.int32(0))  # the first card, and the others
        self.street(0, max(game.blinds), dealt)

    def street(self, round, paid, state):
        if paid not in self.streets[round]:
            self.streets[round][paid] = self.decision(state)

    def decision(self, state: PokerState) -> _Decision:
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
