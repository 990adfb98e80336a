"""Messages of the ACPC (Annual Computer Poker Competition) protocol, version 2.0.0, as text.

The dealer tells each player the state of the hand, and the player who acts answers with the same
line and an action:

    MATCHSTATE:0:30:cc/r250:9s8h|/8c8d5c
    MATCHSTATE:0:30:cc/r250:9s8h|/8c8d5c:c

That is the seat of the player who reads the line (seats are numbered as players of the rules), the
number of the hand, the betting, and the cards: the reader's own, others' after a showdown, and the
board by round. Betting is `f` (fold), `c` (check or call), `r` (raise; in no-limit games with the
number of chips that the player has put in over the whole hand), and `/` where a round begins. Logs
have lines that begin with `STATE:hand:` and show all cards.

Source: the protocol's specification, and the server that defines what it leaves open (where rounds
begin when players are all-in, which cards are shown): `project_acpc_server`, `game.c`.

Example:

    >>> from jaxgames.holdem import acpc_protocol, hunl
    >>> state = acpc_protocol.parse_state(hunl(), "MATCHSTATE:0:30:cc/r250:9s8h|/8c8d5c")
    >>> state.seat, state.hand, state.actions  # a raise to 250 chips is action 251 of the rules
    (0, 30, (1, 1, 251))
    >>> int(acpc_protocol.poker_state(hunl(), state).actor)
    1
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.core import CHANCE
from jaxgames.holdem.cards import NUM_CARDS, cards_name, parse_cards
from jaxgames.holdem.rules import CALL, FOLD, NOTHING, Poker, PokerState

VERSION = "VERSION:2.0.0"  # a client's first line
LINE_END = "\r\n"
_RAISE = CALL + 1  # in limit games; in no-limit games a raise to n chips is action CALL + n
_CARDS = r"(?:[2-9TJQKA][cdhs])*"
_STATE = re.compile(
    rf"(?:MATCHSTATE:(?P<seat>\d+)|STATE):(?P<hand>\d+):(?P<betting>[fcr/\d]*)"
    rf":(?P<hole>{_CARDS}(?:\|{_CARDS})*)(?P<board>(?:/{_CARDS})*)"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MatchState:
    """What a player, or a log, knows of a hand.

    Attributes:
      seat: the player; None: a log, which shows the cards of all.
      hand: the number of the hand in the match.
      actions: of the rules, all so far.
      hole: private cards by player, as numbers of `jaxgames.holdem.cards`; empty where hidden.
      board: the cards of all rounds that have begun.
    """

    seat: int | None
    hand: int
    actions: tuple[int, ...]
    hole: tuple[tuple[int, ...], ...]
    board: tuple[int, ...]


def check_expressible(game: Poker) -> None:
    """Refuses games whose hands the protocol cannot tell.

    Raises:
      ValueError: the deck is smaller than 52 cards, there are board cards before the first round,
        or raises are those of `bets`.
    """
    if game.ranks * game.suits != NUM_CARDS:
        raise ValueError(f"{game}: ranks={game.ranks} and suits={game.suits} must be a full deck")
    if game.board[0]:
        raise ValueError(f"{game}: board={game.board} must begin with a round without cards")
    if game.bets:
        raise ValueError(f"{game}: bets={game.bets} must be empty: messages name chips")


def warm_up(game: Poker) -> None:
    """Compiles all that the messages of a game need, before somebody waits for one."""
    format_betting(game, (CALL,))


def is_comment(line: str) -> bool:
    """Whether a line of the protocol is to be skipped."""
    return line.startswith(("#", ";"))


def format_action(game: Poker, action: int) -> str:
    """The letter of an action of the rules, in no-limit games with the chips of a raise."""
    if action > CALL and not game.limit:
        return f"r{action - CALL}"
    return "fcr"[action]


def parse_action(game: Poker, text: str) -> int:
    """Reads an action, which need not be legal, or possible with the game's stacks.

    Raises:
      ValueError: the text is no action.
    """
    if match := re.fullmatch(r"f|c|r" if game.limit else r"f|c|r(0*[1-9]\d*)", text):
        if text in ("f", "c"):
            return FOLD if text == "f" else CALL
        return _RAISE if game.limit else CALL + int(match[1])
    wanted = "f, c or r" if game.limit else "f, c or r with a positive number of chips"
    raise ValueError(f"action {text!r} must be {wanted}")


def format_betting(game: Poker, actions: Sequence[int]) -> str:
    """The betting of a hand.

    Args:
      game: the rules.
      actions: of all players, from the beginning of the hand.

    Returns:
      The betting, such as "cc/r250".

    Raises:
      ValueError: an action is not legal.
    """
    return _followed(game, tuple(actions))[1]


def parse_betting(game: Poker, text: str) -> tuple[int, ...]:
    """Reads the betting of a hand.

    Args:
      game: the rules.
      text: the betting, such as "cc/r250".

    Returns:
      The actions of the rules.

    Raises:
      ValueError: a part of the text is no action, an action is not legal, or a slash stands where
        no round begins, or is missing.
    """
    parts = re.findall(r"[^\d/]\d*|/|\d+", text)
    actions = tuple(parse_action(game, part) for part in parts if part != "/")
    expected = format_betting(game, actions)
    if text != expected:
        raise ValueError(f"betting {text!r} must be written {expected!r}")
    return actions


def format_state(game: Poker, state: MatchState) -> str:
    """The line of a state, without its end.

    Raises:
      ValueError: an action is not legal.
    """
    head = "STATE" if state.seat is None else f"MATCHSTATE:{state.seat}"
    betting, board = format_betting(game, state.actions), [""]
    ends = itertools.accumulate(game.board[: 1 + betting.count("/")])
    for begin, end in itertools.pairwise(ends):
        board.append(cards_name(state.board[begin:end]))
    hole = "|".join(map(cards_name, state.hole))
    return f"{head}:{state.hand}:{betting}:{hole}{'/'.join(board)}"


def parse_state(game: Poker, text: str) -> MatchState:
    """Reads the line of a state, without its end.

    Args:
      game: the rules.
      text: the line.

    Returns:
      The state.

    Raises:
      ValueError: the text is no state of the game.
    """
    match = _STATE.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not of the form MATCHSTATE:seat:hand:betting:cards")
    try:
        return _state(game, match)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None


def _state(game, match):
    """The state of the parts of a line."""
    seat = None if match["seat"] is None else int(match["seat"])
    if seat is not None and seat >= game.players:
        raise ValueError(f"seat {seat} must be below {game.players}")
    actions = parse_betting(game, match["betting"])
    hole = tuple(parse_cards(cards) for cards in match["hole"].split("|"))
    if len(hole) != game.players or not {len(cards) for cards in hole} <= {0, game.hole}:
        raise ValueError(f"there must be {game.hole} cards, or none, for {game.players} players")
    if not all(hole) if seat is None else not hole[seat]:
        raise ValueError("cards are hidden from their own player, or from the log")
    rounds = [parse_cards(cards) for cards in match["board"].split("/")]
    wanted = game.board[: 1 + match["betting"].count("/")]
    if tuple(map(len, rounds)) != wanted:
        raise ValueError(f"the board must have {', '.join(map(str, wanted))} cards by round")
    board = tuple(itertools.chain(*rounds))
    cards = (*itertools.chain(*hole), *board)
    if len({*cards}) < len(cards):
        raise ValueError("a card occurs twice")
    return MatchState(seat=seat, hand=int(match["hand"]), actions=actions, hole=hole, board=board)


def format_answer(game: Poker, state: MatchState, action: int) -> str:
    """The line with which the player who acts answers a state, without its end."""
    return f"{format_state(game, state)}:{format_action(game, action)}"


def split_answer(text: str) -> tuple[str, str]:
    """Divides an answer into the text of the state and that of the action."""
    state, _, action = text.rpartition(":")
    return state, action


def seen_by(state: PokerState, seat: int | None, *, hand: int) -> MatchState:
    """What a player sees of a hand: its own cards, and at the showdown those of all who are in it.

    Args:
      state: of the rules, at a decision or at the end.
      seat: the player; None: a log, which sees all cards.
      hand: the number of the hand.

    Returns:
      The state.
    """
    hole, folded = np.asarray(state.hole).tolist(), np.asarray(state.folded)
    showdown = int(state.actor) < 0 and np.sum(~folded) > 1
    shown = [
        seat in (None, player) or (showdown and not folded[player]) for player in range(len(hole))
    ]
    return MatchState(
        seat=seat,
        hand=hand,
        actions=tuple(np.asarray(state.history)[: int(state.num_taken)].tolist()),
        hole=tuple(tuple(hole[i]) if shown[i] else () for i in range(len(hole))),
        board=tuple(card for card in np.asarray(state.board).tolist() if card != NOTHING),
    )


def poker_state(game: Poker, state: MatchState) -> PokerState:
    """The state of the rules, in which hidden cards are `NOTHING`.

    If the hand is over, returns are right for every player whose result follows from the cards that
    are shown: for the player of the seat always.

    Args:
      game: the rules.
      state: what a player knows of the hand.

    Returns:
      The state of the rules, at a decision or at the end.

    Raises:
      ValueError: an action is not legal.
    """
    hidden = (NOTHING,) * game.hole
    known = [*itertools.chain(*(cards or hidden for cards in state.hole)), *state.board]
    cards = np.array(known + [NOTHING] * (_num_cards(game) - len(known)), np.int32)
    if not state.actions:
        return _begin(game, cards)
    _followed(game, state.actions)
    before, _ = _after(game, state.actions[:-1])
    return _acted(game, before, np.int32(state.actions[-1]), cards)[0]


def format_log_line(
    game: Poker, state: MatchState, values: Sequence[float], names: Sequence[str]
) -> str:
    """The line of a log for a hand that is over.

    Args:
      game: the rules.
      state: with the cards of all players.
      values: chips won, by player of the rules.
      names: by player of the rules.

    Returns:
      The line `STATE:hand:betting:cards:value|value:name|name`.
    """
    return f"{format_state(game, state)}:{_by_player(values, names)}"


def format_score(values: Sequence[float], names: Sequence[str]) -> str:
    """The last line of a log: `SCORE:value|value:name|name`, chips won in the match by name."""
    return f"SCORE:{_by_player(values, names)}"


def _by_player(values, names):
    numbers = (f"{value:.6f}".rstrip("0").rstrip(".") for value in values)
    return f"{'|'.join(numbers)}:{'|'.join(names)}"


def _followed(game, actions):
    """The state after actions, without any cards, and their text; refuses illegal actions."""
    for length in range(len(actions) + 1):  # each state is one step from the one before
        result = _after(game, actions[:length])
    return result


@functools.lru_cache(maxsize=1024)  # messages of a hand begin with those before
def _after(game, actions):
    nothing = np.full(_num_cards(game), NOTHING, np.int32)
    if not actions:
        return _begin(game, nothing), ""
    (state, text), action = _after(game, actions[:-1]), actions[-1]
    name = format_action(game, action)
    if not (0 <= action < game.num_actions and np.asarray(state.legal)[action]):
        raise ValueError(f"{name} after {text!r} is not legal")
    after, begun = _acted(game, state, np.int32(action), nothing)
    return after, f"{text}{name}{'/' * int(begun)}"


def _num_cards(game):
    """How many cards are dealt in a hand."""
    return game.players * game.hole + sum(game.board)


@functools.partial(jax.jit, static_argnums=0)
def _begin(game, cards):
    """The first decision, given all cards `[n]` that are dealt in a hand."""
    return _deal(game, game.init(), cards)


@functools.partial(jax.jit, static_argnums=0)
def _acted(game, state, action, cards):
    """The next decision or end after an action, given all cards; and how many rounds began."""
    dealt = jnp.where(jnp.arange(len(cards), dtype=jnp.int32) < state.num_dealt, cards, NOTHING)
    hole, board = jnp.split(dealt, [state.hole.size])
    after = game.step(state.replace(hole=hole.reshape(state.hole.shape), board=board), action)
    alone = jnp.sum(~after.folded, dtype=jnp.int32) == 1  # the rules then go to the last round
    return _deal(game, after, cards), jnp.where(alone, 0, after.round - state.round)


def _deal(game, state, cards):
    def deal(state):
        return game.step(state, cards[state.num_dealt])

    return jax.lax.while_loop(lambda state: state.actor == CHANCE, deal, state)
