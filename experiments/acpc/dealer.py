"""Deals hands of poker to clients of the ACPC protocol.

An action that is not legal is corrected as the ACPC's server does it: a raise of a size that is not
allowed becomes the nearest raise that is, anything else a call. Answers to earlier states are
skipped. All else that is wrong with a client ends the match.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence

import numpy as np

from experiments.acpc.connection import MAX_LINE, Connection
from experiments.engines.program import short
from jaxgames.checks import at_least
from jaxgames.core import TERMINAL
from jaxgames.holdem import acpc_protocol
from jaxgames.holdem.acpc_protocol import MatchState
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.rules import CALL, Poker, PokerState


class ClientError(Exception):
    """A client has done what ends the match; the message says which and what."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """Which cards and seats the hands of a match have.

    Seats move by one from hand to hand, as at the ACPC's server. With `duplicate` the first
    `hands / players` deals are played again and again, until each client has had each seat of each
    deal.

    Attributes:
      game: the rules.
      hands: of the match; with `duplicate` a multiple of the number of players.
      seed: of the deals.
      duplicate: whether each deal is played once by each client in each seat.
    """

    game: Poker
    hands: int
    seed: int
    duplicate: bool

    def __post_init__(self):
        acpc_protocol.check_expressible(self.game)
        at_least(1, hands=self.hands)
        if self.duplicate and self.hands % self.game.players:
            raise ValueError(
                f"hands={self.hands} must be a multiple of {self.game.players} players, as each"
                " deal is played in all seats"
            )
        at_least(0, seed=self.seed)

    @property
    def deals(self) -> int:
        """How many different deals there are."""
        return self.hands // self.game.players if self.duplicate else self.hands

    def deal(self, hand: int) -> MatchState:
        """The cards of a hand, those of the whole board included."""
        game = self.game
        generator = np.random.default_rng((self.seed, hand % self.deals))
        cards = generator.permutation(NUM_CARDS).tolist()
        ends = [player * game.hole for player in range(game.players + 1)]
        hole = tuple(tuple(cards[end : end + game.hole]) for end in ends[:-1])
        board = tuple(cards[ends[-1] : ends[-1] + sum(game.board)])
        return MatchState(seat=None, hand=hand, actions=(), hole=hole, board=board)

    def clients(self, hand: int) -> tuple[int, ...]:
        """The numbers of the clients in the seats of a hand."""
        moved = hand % self.deals + hand // self.deals
        return tuple((seat + moved) % self.game.players for seat in range(self.game.players))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimeLimits:
    """Seconds that a client may take, as the ACPC's server has them.

    Attributes:
      action: for one action.
      hand: for all its actions of one hand.
    """

    action: float = 600.0
    hand: float = 600.0

    def __post_init__(self):
        for name in ("action", "hand"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}_seconds={getattr(self, name)} must be above 0")


@dataclasses.dataclass
class Client:
    """A client at the table, and how many of its actions were not legal."""

    name: str
    connection: Connection
    corrected: int = 0

    def fails(self, what: str) -> ClientError:
        """The error that says what this client did."""
        return ClientError(f"{self.name} {what}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DealtHand:
    """A hand that was played to its end."""

    deal: int
    line: str
    """Of the log."""
    values: tuple[float, ...]
    """Chips won, by client."""


def greet(client: Client, *, seconds: float) -> None:
    """Reads the version that a client sends first.

    Raises:
      ClientError: it sends none in time, or another one.
    """
    line = _receive(client, seconds, f"sent no version in {seconds:g} s")
    major = acpc_protocol.VERSION.partition(".")[0]
    if line.partition(".")[0] != major:
        raise client.fails(f"sent {short(line)} instead of {acpc_protocol.VERSION}")


def play_match(
    schedule: Schedule, clients: Sequence[Client], limits: TimeLimits
) -> Iterator[DealtHand]:
    """Plays the hands of a match, one by one.

    Args:
      schedule: which hands.
      clients: as many as the game has players.
      limits: of their time.

    Yields:
      The hands in their order.

    Raises:
      ClientError: a client does not answer in time, sends what is no answer, or is gone.
    """
    for hand in range(schedule.hands):
        numbers, deal = schedule.clients(hand), schedule.deal(hand)
        seated = [clients[number] for number in numbers]
        deal, values = _play_hand(schedule.game, deal, seated, limits)
        names = [client.name for client in seated]
        yield DealtHand(
            deal=hand % schedule.deals,
            line=acpc_protocol.format_log_line(schedule.game, deal, values, names),
            values=tuple(values[numbers.index(number)] for number in range(len(clients))),
        )


def _play_hand(game, deal, seated, limits):
    """What a log says of a hand that is played to its end, and what each seat has won."""
    used = [0.0] * game.players
    while True:
        state = acpc_protocol.poker_state(game, deal)
        for seat, client in enumerate(seated):
            line = acpc_protocol.format_state(
                game, acpc_protocol.seen_by(state, seat, hand=deal.hand)
            )
            _send(client, line)
            if seat == int(state.actor):
                asked = line
        if int(state.actor) == TERMINAL:
            final = acpc_protocol.seen_by(state, None, hand=deal.hand)
            return final, np.asarray(state.returns).tolist()
        actor = int(state.actor)
        begin = time.monotonic()
        text = _answer(game, seated[actor], asked, limits, used[actor])
        used[actor] += time.monotonic() - begin
        action = _corrected(game, state, text, seated[actor])
        deal = dataclasses.replace(deal, actions=(*deal.actions, action))


def _answer(game, client, asked, limits, used):
    """The text of the client's action in the state of the line that it was asked with."""
    end = time.monotonic() + min(limits.action, limits.hand - used)
    late = f"took more than {limits.action:g} s for an action"
    if limits.hand - used < limits.action:
        late = f"took more than {limits.hand:g} s for a hand"
    while True:
        line = _receive(client, end - time.monotonic(), late)
        if not line or acpc_protocol.is_comment(line):
            continue
        text, action = acpc_protocol.split_answer(line)
        if text == asked:
            return action
        try:
            acpc_protocol.parse_state(game, text)  # an answer that nobody waits for is skipped
        except ValueError:
            raise client.fails(f"sent {short(line)}, which is no answer") from None


def _corrected(game: Poker, state: PokerState, text: str, client: Client) -> int:
    """The action of a text, or a legal one in its place, which is counted."""
    legal = np.flatnonzero(state.legal)
    try:
        action = acpc_protocol.parse_action(game, text)
    except ValueError:
        action = None
    if action in legal:
        return action
    client.corrected += 1
    raises = legal[legal > CALL]
    if action is None or action <= CALL or not len(raises):
        return CALL
    return int(raises[0] if action < raises[0] else raises[-1])


def _send(client, line):
    try:
        client.connection.send(line)
    except TimeoutError:
        raise client.fails("does not read what it is sent") from None
    except OSError:
        raise client.fails("has closed the connection") from None


def _receive(client, seconds, late):
    """The next line of a client; `late` says what it did if there is none in time."""
    try:
        return client.connection.receive(seconds=seconds)
    except TimeoutError:
        raise client.fails(late) from None
    except OSError:
        raise client.fails("has closed the connection") from None
    except ValueError:
        raise client.fails(f"sent a line of more than {MAX_LINE} bytes") from None
