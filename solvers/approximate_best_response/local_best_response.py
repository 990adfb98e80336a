"""Local best response: a lower bound on the exploitability of a hold'em agent.

(Lisy and Bowling 2016, "Equilibrium approximation quality of current no-limit poker bots".) The
responder keeps the opponent's range by Bayes from the opponent's known policy. When it acts, it
compares folding (0) with calling, and with every bet to which the opponent may fold, as if both
players only checked and called afterwards. With `win` the probability of winning the showdown
against the range,

    call:  win * pot - (1 - win) * asked
    bet:   folds * pot + (1 - folds) * (win' * (pot + bet) - (1 - win') * (asked + bet))

where `folds` is the probability that the range folds, and `win'` is that of winning against the
hands that do not. All functions are pure and play one hand; `duplicate_deals` plays many side by
side.

An opponent's policy gives the probabilities of its actions with every hand (`hand_policies`).

Example:

    >>> import jax
    >>> from jaxgames.holdem.rules import Poker
    >>> from solvers.approximate_best_response import local_best_response as lbr
    >>> leduc = Poker(
    ...     ranks=3, suits=2, hole=1, blinds=(1, 1), first=(0, 0), board=(0, 1),
    ...     raise_sizes=(2, 4), max_raises=(2, 2),
    ... )
    >>> settings = lbr.LocalBestResponse(leduc)
    >>> def call_always(state):
    ...     return jax.numpy.zeros((6, 3)).at[:, 1].set(1.0)
    >>> chips = lbr.duplicate_deals(settings, call_always, jax.random.key(0), num_deals=200)
    >>> chips.shape, bool(chips.mean() > 0)
    ((200, 2), True)
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.arrays import safe_divide
from jaxgames.checks import at_least
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.holdem.rules import CALL, FOLD, Poker, PokerState
from solvers.approximate_best_response.hand_policies import (
    HandPolicy,
    all_hands,
    as_argument,
    on_board,
    probabilities,
)
from solvers.approximate_best_response.showdown_chances import (
    ALL,
    ShowdownChances,
    showdown_chances,
)
from solvers.device_batches import split_calls

Allowed = tuple[tuple[int, ...], ...]  # actions by round
_FEW_BOARDS, _MOST_BOARDS = 100, 20_000
_BATCH = 16  # deals side by side


@dataclasses.dataclass(frozen=True)
class LocalBestResponse:
    """Settings of local best response in a game of two players.

    Attributes:
      game: the game.
      allowed: the actions among which it chooses in each round; all if not given.
      boards: for each round, how many complete boards are sampled to estimate the probability of
        winning; `ALL` enumerates them. By default `ALL` where there are few, else `sampled`.
      sampled: the default number of sampled boards.
    """

    game: Poker
    allowed: Allowed | None = None
    boards: tuple[int, ...] | None = None
    sampled: int = 100  # where there are many

    def __post_init__(self):
        game = self.game
        if game.players != 2 or game.draws_size:
            raise ValueError(f'game={game} must have players=2, and no "random" among its bets')
        checked_allowed(game, self.allowed)
        at_least(1, sampled=self.sampled)
        if self.boards is None:
            return
        if len(self.boards) != len(game.board) or min(self.boards) < 0:
            raise ValueError(
                f"boards={self.boards} must give the number of sampled boards for each of the"
                f" {len(game.board)} rounds of {game}"
            )
        for round, (drawn, count) in enumerate(zip(self.boards, self.num_boards, strict=True)):
            if drawn == ALL and count > _MOST_BOARDS:
                raise ValueError(
                    f"boards={self.boards}: all {count:,} boards of round {round} are more than"
                    f" {_MOST_BOARDS:,}; sample some of them"
                )

    @property
    def num_boards(self) -> tuple[int, ...]:
        """The number of complete boards that are possible in each round, given one hand."""
        game, ends = self.game, list(itertools.accumulate(self.game.board))
        left = game.ranks * game.suits - game.hole
        return tuple(math.comb(left - end, ends[-1] - end) for end in ends)

    @property
    def drawn(self) -> tuple[int, ...]:
        """The number of boards that are sampled in each round, or `ALL`."""
        if self.boards is not None:
            return self.boards
        return tuple(ALL if n <= _FEW_BOARDS else self.sampled for n in self.num_boards)


def checked_allowed(game: Poker, allowed: Allowed | None) -> Bool[np.ndarray, "R A"]:
    """Reads and checks the actions that may be chosen in each round.

    Args:
      game: the game.
      allowed: actions by round; all if None.

    Returns:
      A mask by round and action.

    Raises:
      ValueError: the number of rounds is wrong, there is no such action, or calling is not allowed.
    """
    rounds, num_actions = len(game.board), game.num_actions
    if allowed is None:
        return np.ones((rounds, num_actions), bool)
    if len(allowed) != rounds:
        raise ValueError(f"allowed={allowed} must list actions for each of the {rounds} rounds")
    mask = np.zeros((rounds, num_actions), bool)
    for row, actions in zip(mask, allowed, strict=True):
        if CALL not in actions or not set(actions) <= set(range(num_actions)):
            raise ValueError(
                f"allowed={allowed} must list actions from 0 to {num_actions - 1} in every round,"
                f" and among them {CALL} (call)"
            )
        row[list(actions)] = True
    return mask


def call_utility(
    win: Float[Array, "..."], pot: int | Float[Array, ""], asked: int | Float[Array, ""]
) -> Float[Array, "..."]:
    """Returns the mean winnings of a call in chips, if both players only check from then on.

    Args:
      win: the probability of winning against the range.
      pot: chips that both players have paid.
      asked: chips that the call costs.
    """
    return win * pot - (1 - win) * asked


def bet_utility(
    win: Float[Array, "..."],
    folds: float | Float[Array, ""],
    pot: int | Float[Array, ""],
    asked: int | Float[Array, ""],
    bet: int | Float[Array, ""],
) -> Float[Array, "..."]:
    """Returns the mean winnings of a bet in chips, if both players only check from then on.

    Args:
      win: the probability of winning against the hands that do not fold.
      folds: the probability of a fold.
      pot: chips that both players have paid.
      asked: chips that a call would cost.
      bet: chips that are bet on top of these.
    """
    return folds * pot + (1 - folds) * (win * (pot + bet) - (1 - win) * (asked + bet))


def utilities(
    settings: LocalBestResponse,
    policy: HandPolicy,
    state: PokerState,
    reach: Float[Array, " N"],
    chances: ShowdownChances,
) -> Float[Array, " A"]:
    """Computes the utility of each action of the actor by the rule of local best response.

    Args:
      settings: the game and the actions that may be chosen.
      policy: the opponent's policy.
      state: the state.
      reach: the opponent's own reach with each hand.
      chances: how the actor's hand fares against each hand.

    Returns:
      Utilities in chips; -inf for actions that may not be chosen.
    """
    game = settings.game
    won, met, apart = (x[state.round] for x in (chances.won, chances.met, chances.apart))
    weights = reach * apart.astype(reach.dtype)
    own, other = state.spent[state.actor], state.spent[1 - state.actor]
    pot = (own + other).astype(reach.dtype)
    asked = (jnp.max(state.spent) - own).astype(reach.dtype)

    def bets(action):
        after = game.step(state, action)
        fold = probabilities(game, policy, after)[:, FOLD]
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
    """`part / whole`, 0 where `whole` is 0."""
    return jnp.where(whole > 0, safe_divide(part, whole), 0)


def play(
    settings: LocalBestResponse,
    policy: HandPolicy,
    key: Key[Array, ""],
    cards: Int[Array, " n"],
    seat: Int[Array, ""],
) -> Float[Array, ""]:
    """Plays one hand with local best response in one of the seats.

    Args:
      settings: how it plays.
      policy: the opponent's policy.
      key: consumed.
      cards: the cards of player 0, of player 1, then the board.
      seat: the responder's seat.

    Returns:
      The chips that local best response wins.
    """
    game = settings.game
    hands = jnp.asarray(all_hands(game))
    chances_key, play_key = jax.random.split(key)
    hole = cards[: 2 * game.hole].reshape(2, game.hole)
    own, other = hole[seat], jnp.sort(hole[1 - seat])
    board = cards[2 * game.hole :]
    mine = showdown_chances(game, chances_key, own, board, drawn=settings.drawn)
    policy = on_board(policy, board)
    held = jnp.argmax(jnp.all(hands == other[None], axis=1))

    def deal(state):
        step = lambda state: game.step(state, cards[state.num_dealt])  # noqa: E731
        return jax.lax.while_loop(lambda state: state.actor == CHANCE, step, state)

    def act(carry):
        state, reach, key = carry
        state = deal(state)
        key, draw_key = jax.random.split(key)
        acts = state.actor == seat
        chosen = jnp.argmax(utilities(settings, policy, state, reach, mine))
        theirs = probabilities(game, policy, state)
        drawn = jax.random.categorical(draw_key, jnp.log(theirs[held]))
        action = jnp.where(acts, chosen, drawn).astype(jnp.int32)
        reach = jnp.where(acts, reach, reach * theirs[:, action])
        return game.step(state, action), reach / jnp.max(reach), key

    # Each step: the cards of chance; the responder's best action by the rule, or the opponent's by
    # its policy; then Bayes' rule for the range.
    start = (game.init(), jnp.ones(len(hands), jnp.float32), play_key)
    state, *_ = jax.lax.while_loop(lambda carry: carry[0].actor != TERMINAL, act, start)
    return state.returns[seat]


def duplicate_deals(
    settings: LocalBestResponse,
    policy: HandPolicy,
    key: Key[Array, ""],
    *,
    num_deals: int,
    mesh: Mesh | None = None,
) -> Float[Array, "D 2"]:
    """Plays deals twice, once with local best response in each seat.

    The same cards are dealt in both games of a deal, so that part of the variance cancels in their
    mean.

    Args:
      settings: how local best response plays.
      policy: the opponent's policy.
      key: consumed.
      num_deals: D.
      mesh: devices with one axis, `device_batches.DATA`, which share the deals evenly; None: one
        device.

    Returns:
      The chips that local best response wins, by deal and seat.
    """
    return _duplicate_deals(settings, as_argument(policy), key, num_deals=num_deals, mesh=mesh)


@functools.partial(jax.jit, static_argnames=("settings", "num_deals", "mesh"))
def _duplicate_deals(settings, policy, key, *, num_deals, mesh):
    num_cards = settings.game.ranks * settings.game.suits
    dealt = 2 * settings.game.hole + sum(settings.game.board)

    def play_deal(policy, keys):
        cards = jax.random.permutation(keys[0], num_cards)[:dealt].astype(jnp.int32)
        won = functools.partial(play, settings, policy)
        return jax.vmap(won, (0, None, 0))(keys[1:], cards, jnp.arange(2, dtype=jnp.int32))

    def on_device(policy, keys):
        # in batches, so that the tables of all hands stay in the caches
        return jax.lax.map(functools.partial(play_deal, policy), keys, batch_size=_BATCH)

    return split_calls(on_device, mesh)(policy, jax.random.split(key, (num_deals, 3)))
