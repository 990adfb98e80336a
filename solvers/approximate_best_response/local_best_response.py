"""Local best response: a bound from below on what an opponent loses in hold'em (Lisy and Bowling
2016, "Equilibrium approximation quality of current no-limit poker bots").

The responder keeps the opponent's range by Bayes from its known policy. When it acts, it compares
folding with calling, and with every bet after which the opponent may fold, as if both only checked
and called from there on: with `win` the chance to win the showdown against the range,

    call:  win * pot - (1 - win) * asked
    bet:   folds * pot + (1 - folds) * (win' * (pot + bet) - (1 - win') * (asked + bet))

where `folds` is the range's chance to fold and `win'` that to win against what does not fold. All
functions are pure, of one hand played; `duplicate_deals` plays many side by side.

    play = LocalBestResponse(limit_holdem())
    won = duplicate_deals(play, policy, jax.random.key(0), num_deals=1000)  # chips, [1000, 2]

An opponent's policy is a function of the public state (the state without hole cards) that gives
its probabilities `[N, A]` with each of the N hands of `all_hands`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.core import CHANCE, TERMINAL, record
from jaxgames.holdem.hand_evaluator import strength_of_sets, suit_sets
from jaxgames.holdem.rules import CALL, FOLD, NOTHING, Poker, PokerState

HandPolicy = Callable[[PokerState], Float[Array, "N A"]]
Allowed = tuple[tuple[int, ...], ...]  # actions by round
ALL = 0  # boards
_FEW_BOARDS, _MOST_BOARDS = 100, 20_000
_BATCH = 16  # deals side by side


@dataclasses.dataclass(frozen=True)
class LocalBestResponse:
    """How local best response plays a game.

    `allowed` are the actions that it chooses among, by round; all if not given. `boards` are drawn
    in each round to estimate chances to win, where `ALL` are not enumerated; `ALL` wherever there
    are few if not given.
    """

    game: Poker
    allowed: Allowed | None = None
    boards: tuple[int, ...] | None = None
    sampled: int = 100  # where there are many

    def __post_init__(self):
        game = self.game
        if game.players != 2 or game.draws_size:
            raise ValueError(f"{game} must be for two players, with known bets")
        checked_allowed(game, self.allowed)
        if self.sampled < 1:
            raise ValueError(f"sampled={self.sampled} boards must be at least 1")
        if self.boards is None:
            return
        if len(self.boards) != len(game.board) or min(self.boards) < 0:
            raise ValueError(
                f"boards={self.boards} must be how many are drawn in each of the"
                f" {len(game.board)} rounds of {game}"
            )
        for round, (drawn, count) in enumerate(zip(self.boards, self.num_boards, strict=True)):
            if drawn == ALL and count > _MOST_BOARDS:
                raise ValueError(
                    f"boards={self.boards}: all {count:,} boards of round {round} are more than"
                    f" {_MOST_BOARDS:,}; draw some of them"
                )

    @property
    def num_boards(self) -> tuple[int, ...]:
        """How many boards may come, by round, for who knows one hand."""
        game, ends = self.game, list(itertools.accumulate(self.game.board))
        left = game.ranks * game.suits - game.hole
        return tuple(math.comb(left - end, ends[-1] - end) for end in ends)

    @property
    def drawn(self) -> tuple[int, ...]:
        """How many boards are drawn in each round, or `ALL`."""
        if self.boards is not None:
            return self.boards
        return tuple(ALL if n <= _FEW_BOARDS else self.sampled for n in self.num_boards)


@record
class Chances:
    """What may come of one hand held, by round and by hand of the opponent."""

    won: Array  # [R, N] boards on which it wins, ties half
    met: Array  # [R, N] boards that may come with both hands
    apart: Array  # [R, N] bool: shares no card with the hand held, nor with the board so far


def all_hands(game: Poker) -> Int[np.ndarray, "N k"]:
    """Hands of the game's cards, in the order of `jaxgames.holdem.ranges.HANDS`."""
    hands = itertools.combinations(range(game.ranks * game.suits), game.hole)
    return np.array(sorted(hands, key=lambda hand: hand[::-1]), np.int32)


def checked_allowed(game: Poker, allowed: Allowed | None) -> Bool[np.ndarray, "R A"]:
    """Which actions may be chosen, by round.

    Raises:
      ValueError: there are not such rounds or actions, or to call, or check, is not among them.
    """
    rounds, num_actions = len(game.board), game.num_actions
    if allowed is None:
        return np.ones((rounds, num_actions), bool)
    if len(allowed) != rounds:
        raise ValueError(f"allowed={allowed} must be actions for each of {rounds} rounds")
    found = np.zeros((rounds, num_actions), bool)
    for row, actions in zip(found, allowed, strict=True):
        if CALL not in actions or not set(actions) <= set(range(num_actions)):
            raise ValueError(
                f"allowed={allowed} must be actions from 0 to {num_actions - 1}, with {CALL}, to"
                " call, in every round"
            )
        row[list(actions)] = True
    return found


def call_utility(win, pot, asked):
    """Chips that a call wins on average, if both only check from there on."""
    return win * pot - (1 - win) * asked


def bet_utility(win, folds, pot, asked, bet):
    """Chips that a bet wins on average, likewise; `win` is against who does not fold."""
    return folds * pot + (1 - folds) * (win * (pot + bet) - (1 - win) * (asked + bet))


def chances(
    settings: LocalBestResponse,
    key: Key[Array, ""],
    hand: Int[Array, " k"],
    board: Int[Array, " B"],
) -> Chances:
    """Of a hand, when so much of a board is known as in each round; `key` is consumed."""
    game = settings.game
    hands = jnp.asarray(all_hands(game))
    ends, keys = itertools.accumulate(game.board), jax.random.split(key, len(game.board))
    found = []
    for end, drawn, noise in zip(ends, settings.drawn, keys, strict=True):
        seen = jnp.concatenate([hand, board[:end]])
        boards = _boards(game, noise, board[:end], seen, drawn)
        won, met = _won(game, hand, hands, boards)
        apart = ~jnp.any(hands[:, :, None] == seen[None, None, :], axis=(1, 2))
        found.append((won, met, apart))
    won, met, apart = (jnp.stack(rows) for rows in zip(*found, strict=True))
    return Chances(won=won, met=met, apart=apart)


def _boards(game, key, board, seen, drawn):
    """Boards `[X, B]` that go on from one, all of them or some."""
    cards = jnp.arange(game.ranks * game.suits, dtype=jnp.int32)
    count, missing = len(cards) - len(seen), sum(game.board) - len(board)
    there = jnp.any(cards[:, None] == seen[None, :], axis=1)
    if drawn == ALL:
        left = jnp.argsort(there, stable=True)[:count].astype(jnp.int32)
        which = np.array(list(itertools.combinations(range(count), missing)), np.int32)
        more = left[which.reshape(math.comb(count, missing), missing)]
    else:
        noise = jax.random.uniform(key, (drawn, len(cards)), jnp.float32)
        noise = jnp.where(there[None], 2, noise)
        more = jnp.argsort(noise, axis=1)[:, :missing].astype(jnp.int32)
    return jnp.concatenate([jnp.broadcast_to(board[None], (len(more), len(board))), more], axis=1)


def _won(game, hand, hands, boards):
    """On how many boards a hand wins against each, ties half, and how many they share."""
    num_cards = game.hole + sum(game.board)

    def sets(cards):
        return suit_sets(cards // game.suits * 4 + cards % game.suits)

    held, mine = sets(hands), sets(hand)

    def add(total, board):
        there = sets(board) if len(board) else jnp.zeros(4, jnp.uint32)
        others = strength_of_sets(held | there[:, None], num_cards=num_cards)
        own = strength_of_sets(mine | there, num_cards=num_cards)
        seen = jnp.concatenate([hand, board])
        apart = ~jnp.any(hands[:, :, None] == seen[None, None, :], axis=(1, 2))
        wins = (own > others).astype(jnp.float32) + (own == others).astype(jnp.float32) / 2
        won, met = total
        return (won + jnp.where(apart, wins, 0), met + apart.astype(jnp.float32)), None

    nothing = jnp.zeros(len(hands), jnp.float32)
    total, _ = jax.lax.scan(add, (nothing, nothing), boards)
    return total


def utilities(
    settings: LocalBestResponse,
    policy: HandPolicy,
    state: PokerState,
    reach: Float[Array, " N"],
    chances: Chances,
) -> Float[Array, " A"]:
    """What each action of the actor is worth in chips by the rule; -inf if it may not be chosen.

    `reach` is the opponent's own: the product of its probabilities so far with each hand.
    """
    game = settings.game
    won, met, apart = (x[state.round] for x in (chances.won, chances.met, chances.apart))
    weights = reach * apart.astype(reach.dtype)
    own, other = state.spent[state.actor], state.spent[1 - state.actor]
    pot = (own + other).astype(reach.dtype)
    asked = (jnp.max(state.spent) - own).astype(reach.dtype)

    def bets(action):
        after = game.step(state, action)
        fold = probabilities(settings, policy, after)[:, FOLD]
        stays = weights * (1 - fold)
        folds = _ratio(jnp.sum(weights * fold), jnp.sum(weights))
        win = _ratio(jnp.sum(stays * won), jnp.sum(stays * met))
        bet = (jnp.max(after.spent) - jnp.max(state.spent)).astype(reach.dtype)
        return bet_utility(win, folds, pot, asked, bet)

    win = _ratio(jnp.sum(weights * won), jnp.sum(weights * met))
    raises = jax.vmap(bets)(jnp.arange(2, game.num_actions, dtype=jnp.int32))
    first = jnp.stack([jnp.zeros_like(win), call_utility(win, pot, asked)])
    allowed = jnp.asarray(checked_allowed(game, settings.allowed))[state.round]
    return jnp.where(state.legal & allowed, jnp.concatenate([first, raises]), -jnp.inf)


def _ratio(part, whole):
    return jnp.where(whole > 0, part / jnp.where(whole > 0, whole, 1), 0)


def probabilities(
    settings: LocalBestResponse, policy: HandPolicy, state: PokerState
) -> Float[Array, "N A"]:
    """What the opponent does with every hand at a state, of which it sees what is public.

    Raises:
      ValueError: the policy is not for this game's hands and actions.
    """
    found = policy(state.replace(hole=jnp.full_like(state.hole, NOTHING)))
    expected = (len(all_hands(settings.game)), settings.game.num_actions)
    if found.shape != expected:
        raise ValueError(f"the policy gives probabilities {found.shape}, but must give {expected}")
    return found


def checked_reach(
    settings: LocalBestResponse,
    policy: HandPolicy,
    state: PokerState,
    reach: Float[Array, " N"],
    action: int,
) -> Float[Array, " N"]:
    """The opponent's reach with every hand after it acted at a state, from Python.

    Raises:
      ValueError: it would never have acted so, with any hand that it may hold.
    """
    found = reach * probabilities(settings, policy, state)[:, action]
    if not jnp.any(found > 0):
        raise ValueError(
            f"{settings.game}: the opponent gives probability 0 to action {action} with every hand"
            " that it may hold, so there is nothing to believe after it"
        )
    return found / jnp.max(found)


def play(
    settings: LocalBestResponse,
    policy: HandPolicy,
    key: Key[Array, ""],
    cards: Int[Array, " n"],
    seat: Int[Array, ""],
) -> Float[Array, ""]:
    """Chips won by local best response in a seat, when `cards` are dealt: of player 0, of player 1,
    then the board. `key` is consumed."""
    game = settings.game
    hands = jnp.asarray(all_hands(game))
    chances_key, play_key = jax.random.split(key)
    hole = cards[: 2 * game.hole].reshape(2, game.hole)
    own, other = hole[seat], jnp.sort(hole[1 - seat])
    mine = chances(settings, chances_key, own, cards[2 * game.hole :])
    held = jnp.argmax(jnp.all(hands == other[None], axis=1))

    def deal(state):
        step = lambda state: game.step(state, cards[state.num_dealt])  # noqa: E731
        return jax.lax.while_loop(lambda state: state.actor == CHANCE, step, state)

    def act(carry):
        state, reach, key = carry
        key, draw_key = jax.random.split(key)
        acts = state.actor == seat
        chosen = jnp.argmax(utilities(settings, policy, state, reach, mine))
        theirs = probabilities(settings, policy, state)
        drawn = jax.random.categorical(draw_key, jnp.log(theirs[held]))
        action = jnp.where(acts, chosen, drawn).astype(jnp.int32)
        reach = jnp.where(acts, reach, reach * theirs[:, action])
        return deal(game.step(state, action)), reach / jnp.max(reach), key

    start = (deal(game.init()), jnp.ones(len(hands), jnp.float32), play_key)
    state, *_ = jax.lax.while_loop(lambda carry: carry[0].actor != TERMINAL, act, start)
    return state.returns[seat]


@functools.partial(jax.jit, static_argnames=("settings", "policy", "num_deals"))
def duplicate_deals(
    settings: LocalBestResponse, policy: HandPolicy, key: Key[Array, ""], *, num_deals: int
) -> Float[Array, "D 2"]:
    """Chips won by local best response, by deal and seat: the same cards are dealt to the seats in
    both games of a deal, so that luck cancels in their mean. `key` is consumed."""
    num_cards = settings.game.ranks * settings.game.suits
    dealt = 2 * settings.game.hole + sum(settings.game.board)

    def one(keys):
        cards = jax.random.permutation(keys[0], num_cards)[:dealt].astype(jnp.int32)
        won = functools.partial(play, settings, policy)
        return jax.vmap(won, (0, None, 0))(keys[1:], cards, jnp.arange(2, dtype=jnp.int32))

    # some at a time, so that what is known of all hands stays in the caches
    return jax.lax.map(one, jax.random.split(key, (num_deals, 3)), batch_size=_BATCH)
