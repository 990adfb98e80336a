"""Messages of the ACPC protocol: the specification's examples, OpenSpiel's and pokerkit's texts."""

import dataclasses
import functools
import re
import warnings

import numpy as np
import pokerkit
import pytest
from openspiel_parity import universal_poker

from jaxgames import holdem
from jaxgames.core import TERMINAL
from jaxgames.holdem import acpc_protocol
from jaxgames.holdem.acpc import parse_game
from jaxgames.holdem.acpc_protocol import MatchState
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.rules import CALL, FOLD, Poker

DEFINITION = """GAMEDEF
{kind}
numPlayers = {players}
numRounds = 4
{stack}
blind = {blinds}
{raises}
firstPlayer = {first}
numSuits = 4
numRanks = 13
numHoleCards = 2
numBoardCards = 0 3 1 1
END GAMEDEF
"""
LIMIT = {"kind": "limit", "stack": "", "raises": "raiseSize = 10 10 20 20\nmaxRaises = 3 4 4 4"}
TWO, THREE = {"players": 2, "first": "2 1 1 1"}, {"players": 3, "first": "3 1 1 1"}
DEFINITIONS = {
    "limit, two players": DEFINITION.format(**LIMIT, **TWO, blinds="10 5"),
    "limit, three players": DEFINITION.format(**LIMIT, **THREE, blinds="5 10 0"),
    "no-limit, two players": DEFINITION.format(
        kind="nolimit", stack="stack = 20000 20000", raises="", **TWO, blinds="100 50"
    ),
    "no-limit, three players": DEFINITION.format(
        kind="nolimit", stack="stack = 2000 2000 2000", raises="", **THREE, blinds="50 100 0"
    ),
}
# The examples of the specification: what a client is sent and answers.
SPECIFIED = {
    "limit, two players": """
        MATCHSTATE:0:0::TdAs|
        MATCHSTATE:0:0:r:TdAs|:r
        MATCHSTATE:0:0:rr:TdAs|
        MATCHSTATE:0:0:rrc/:TdAs|/2c8c3h:r
        MATCHSTATE:0:0:rrc/r:TdAs|/2c8c3h
        MATCHSTATE:0:0:rrc/rc/:TdAs|/2c8c3h/9c:c
        MATCHSTATE:0:0:rrc/rc/c:TdAs|/2c8c3h/9c
        MATCHSTATE:0:0:rrc/rc/cr:TdAs|/2c8c3h/9c:c
        MATCHSTATE:0:0:rrc/rc/crc/:TdAs|/2c8c3h/9c/Kh:c
        MATCHSTATE:0:0:rrc/rc/crc/c:TdAs|/2c8c3h/9c/Kh
        MATCHSTATE:0:0:rrc/rc/crc/cr:TdAs|/2c8c3h/9c/Kh:c
        MATCHSTATE:0:0:rrc/rc/crc/crc:TdAs|8hTc/2c8c3h/9c/Kh
        MATCHSTATE:0:2::9d7s|
        MATCHSTATE:0:2:r:9d7s|:c
        MATCHSTATE:0:2:rc/:9d7s|/5d2cJc:c
        MATCHSTATE:0:2:rc/c:9d7s|/5d2cJc
        MATCHSTATE:0:2:rc/cc/:9d7s|/5d2cJc/3d:c
        MATCHSTATE:0:2:rc/cc/c:9d7s|/5d2cJc/3d
        MATCHSTATE:0:2:rc/cc/cr:9d7s|/5d2cJc/3d:f
        MATCHSTATE:0:2:rc/cc/crf:9d7s|/5d2cJc/3d""",
    "no-limit, two players": """
        MATCHSTATE:0:30::9s8h|
        MATCHSTATE:0:30:c:9s8h|:c
        MATCHSTATE:0:30:cc/:9s8h|/8c8d5c:r250
        MATCHSTATE:0:30:cc/r250:9s8h|/8c8d5c
        MATCHSTATE:0:30:cc/r250c/:9s8h|/8c8d5c/6s:r500
        MATCHSTATE:0:30:cc/r250c/r500:9s8h|/8c8d5c/6s
        MATCHSTATE:0:30:cc/r250c/r500c/:9s8h|/8c8d5c/6s/2d:r1250
        MATCHSTATE:0:30:cc/r250c/r500c/r1250:9s8h|/8c8d5c/6s/2d
        MATCHSTATE:0:30:cc/r250c/r500c/r1250c:9s8h|9c6h/8c8d5c/6s/2d
        MATCHSTATE:1:31::|JdTc:r300
        MATCHSTATE:1:31:r300:|JdTc
        MATCHSTATE:1:31:r300r900:|JdTc:c
        MATCHSTATE:1:31:r300r900c/:|JdTc/6dJc9c
        MATCHSTATE:1:31:r300r900c/r1800:|JdTc/6dJc9c:r3600
        MATCHSTATE:1:31:r300r900c/r1800r3600:|JdTc/6dJc9c
        MATCHSTATE:1:31:r300r900c/r1800r3600r9000:|JdTc/6dJc9c:c
        MATCHSTATE:1:31:r300r900c/r1800r3600r9000c/:|JdTc/6dJc9c/Kh
        MATCHSTATE:1:31:r300r900c/r1800r3600r9000c/r20000:|JdTc/6dJc9c/Kh:c
        MATCHSTATE:1:31:r300r900c/r1800r3600r9000c/r20000c/:KsJs|JdTc/6dJc9c/Kh/Qc""",
    "limit, three players": """
        MATCHSTATE:2:55::||AsTs:r
        MATCHSTATE:2:55:r:||AsTs
        MATCHSTATE:2:55:rc:||AsTs
        MATCHSTATE:2:55:rcc/:||AsTs/4cJh8h
        MATCHSTATE:2:55:rcc/r:||AsTs/4cJh8h
        MATCHSTATE:2:55:rcc/rf:||AsTs/4cJh8h:c
        MATCHSTATE:2:55:rcc/rfc/:||AsTs/4cJh8h/Kd
        MATCHSTATE:2:55:rcc/rfc/r:||AsTs/4cJh8h/Kd:c
        MATCHSTATE:2:55:rcc/rfc/rc/:||AsTs/4cJh8h/Kd/8c
        MATCHSTATE:2:55:rcc/rfc/rc/r:||AsTs/4cJh8h/Kd/8c:f
        MATCHSTATE:2:55:rcc/rfc/rc/rf:||AsTs/4cJh8h/Kd/8c
        MATCHSTATE:0:90::Ad6h||
        MATCHSTATE:0:90:c:Ad6h||:r
        MATCHSTATE:0:90:cr:Ad6h||
        MATCHSTATE:0:90:crf:Ad6h||
        MATCHSTATE:0:90:crfc/:Ad6h||/TsKd7h:r
        MATCHSTATE:0:90:crfc/r:Ad6h||/TsKd7h
        MATCHSTATE:0:90:crfc/rc/:Ad6h||/TsKd7h/Kh:r
        MATCHSTATE:0:90:crfc/rc/r:Ad6h||/TsKd7h/Kh
        MATCHSTATE:0:90:crfc/rc/rc/:Ad6h||/TsKd7h/Kh/6d:r
        MATCHSTATE:0:90:crfc/rc/rc/r:Ad6h||/TsKd7h/Kh/6d
        MATCHSTATE:0:90:crfc/rc/rc/rc:Ad6h||Td2h/TsKd7h/Kh/6d""",
}


@pytest.mark.parametrize("name", SPECIFIED)
def test_examples_of_the_specification(name):
    """Read and written again; a player acts exactly where the specification has an answer."""
    game = parse_game(DEFINITIONS[name])
    for line in SPECIFIED[name].split():
        text, answer = re.fullmatch(r"(MATCHSTATE:\d:\d+:[^:]*:[^:]*)(?::(.+))?", line).groups()
        state = acpc_protocol.parse_state(game, text)
        assert acpc_protocol.format_state(game, state) == text
        played = acpc_protocol.poker_state(game, state)
        assert (int(played.actor) == state.seat) == (answer is not None)
        again = acpc_protocol.seen_by(played, state.seat, hand=state.hand)
        assert again == state
        if answer is not None:
            action = acpc_protocol.parse_action(game, answer)
            assert bool(played.legal[action])
            assert acpc_protocol.format_answer(game, state, action) == line
            assert acpc_protocol.split_answer(line) == (text, answer)


@dataclasses.dataclass(frozen=True)
class Hand:
    """A random hand of OpenSpiel: its own texts at decisions and in the end, and what was dealt."""

    texts: list[str]
    deal: MatchState  # all cards, and all actions
    returns: list[float]


@functools.cache
def theirs(name):
    no_limit = "nolimit" in DEFINITIONS[name]
    return universal_poker(DEFINITIONS[name], "fullgame" if no_limit else "fcpa")


def random_hand(name, rng, number) -> Hand:
    """A hand with mostly calls; of raises often the least or the largest."""
    no_limit, state = "nolimit" in DEFINITIONS[name], theirs(name).new_initial_state()
    cards, actions, texts = rng.permutation(52).tolist(), [], []
    dealt = 0
    while not state.is_terminal():
        if state.is_chance_node():
            state.apply_action(cards[dealt])
            dealt += 1
            continue
        texts.append(acpc_text(state))
        legal = state.legal_actions()
        raises = [action for action in legal if action > CALL]
        luck, action = rng.random(), CALL
        if luck < 0.1 and FOLD in legal:
            action = FOLD
        elif luck > 0.6 and raises:
            largest, other = raises[-1], raises[rng.integers(len(raises))]
            action = raises[0] if luck < 0.85 else largest if luck < 0.9 else other
        actions.append(action + 1 if no_limit and action > CALL else action)
        state.apply_action(action)
    texts.append(acpc_text(state))
    players = state.num_players()
    hole = tuple(tuple(cards[2 * i : 2 * i + 2]) for i in range(players))
    board = tuple(cards[2 * players : dealt])
    deal = MatchState(seat=None, hand=number, actions=tuple(actions), hole=hole, board=board)
    return Hand(texts, deal, list(state.returns()))


def acpc_text(state):
    """What OpenSpiel prints; its hands have the number 0."""
    return re.search(r"ACPC State: (\S+)", str(state))[1]


def messages(game, deal, seats):
    """What seats are sent in a hand from the first decision to the end, and the last state.

    Each line is read again as what it was written from.
    """
    lines = {seat: [] for seat in seats}
    for length in range(len(deal.actions) + 1):
        so_far = dataclasses.replace(deal, actions=deal.actions[:length])
        state = acpc_protocol.poker_state(game, so_far)
        for seat in seats:
            seen = acpc_protocol.seen_by(state, seat, hand=deal.hand)
            lines[seat].append(acpc_protocol.format_state(game, seen))
            assert acpc_protocol.parse_state(game, lines[seat][-1]) == seen
    return lines, state


def assert_as_in_openspiel(name, *, hands):
    """All texts of random hands, and winnings, also as far as one seat sees them."""
    game, rng = parse_game(DEFINITIONS[name]), np.random.default_rng(0)
    ends = set()
    for number in range(hands):
        hand = random_hand(name, rng, number)
        seat = number % game.players
        lines, state = messages(game, hand.deal, (None, seat))
        assert lines[None] == [text.replace("STATE:0:", f"STATE:{number}:") for text in hand.texts]
        np.testing.assert_allclose(state.returns, hand.returns, atol=1e-3)
        assert int(state.actor) == TERMINAL
        seen = acpc_protocol.parse_state(game, lines[seat][-1])
        assert float(acpc_protocol.poker_state(game, seen).returns[seat]) == pytest.approx(
            hand.returns[seat], abs=1e-3
        )
        showdown = sum(map(bool, seen.hole)) > 1
        ends.add(("all-in" if "//" in lines[seat][-1] else "showdown") if showdown else "fold")
    assert ends >= {"showdown", "fold"} | (set() if game.limit else {"all-in"})


@pytest.mark.parametrize("name", DEFINITIONS)
def test_messages_are_those_of_openspiel(name):
    assert_as_in_openspiel(name, hands=40)


@pytest.mark.slow(minutes=5)
@pytest.mark.parametrize("name", DEFINITIONS)
def test_messages_of_ten_thousand_hands_are_those_of_openspiel(name):
    assert_as_in_openspiel(name, hands=10_000)


@functools.cache
def pokerkit_game(game):
    """pokerkit's rules; its players are in the order of the ACPC's seats."""
    first, second, *others = sorted(game.blinds, reverse=True)
    blinds = (second, first, *others)
    if game.limit:
        small, _, big, _ = game.raise_sizes
        return pokerkit.FixedLimitTexasHoldem((), True, 0, blinds, small, big)
    return pokerkit.NoLimitTexasHoldem((), True, 0, blinds, first)


def assert_as_in_pokerkit(name, *, hands):
    """pokerkit reads our log, computes the same winnings, and writes the same messages.

    In the end it does not show hands that lose, and it counts in whole chips.
    """
    game, rng = parse_game(DEFINITIONS[name]), np.random.default_rng(1)
    names = [f"player_{seat}" for seat in range(game.players)]
    dealt = [random_hand(name, rng, number).deal for number in range(hands)]
    log = []
    for deal in dealt:
        values = np.asarray(acpc_protocol.poker_state(game, deal).returns).tolist()
        log.append(acpc_protocol.format_log_line(game, deal, values, names))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = pokerkit.HandHistory.from_acpc_protocol(
            pokerkit_game(game), game.stack or 10_000, "\n".join(log)
        )
        for deal, history in zip(dealt, read, strict=True):
            assert history.hand == deal.hand
            assert history.players == names
            *_, end = history
            values = np.asarray(acpc_protocol.poker_state(game, deal).returns)
            np.testing.assert_allclose([float(x) for x in end.payoffs], values, atol=1.5)
            lines, _ = messages(game, deal, range(game.players))
            for seat, ours in lines.items():
                sent = [line for way, line in history.to_acpc_protocol(seat) if way == "S->"]
                *others, last = [line.removesuffix(acpc_protocol.LINE_END) for line in sent]
                assert others == ours[:-1]
                assert without_losers(game, last, ours[-1]) == ours[-1]


def without_losers(game, theirs, ours):
    """Their text, with hands that only our text shows."""
    *head, cards = theirs.split(":")
    shown, *board = cards.split("/")
    hole = ours.split(":")[-1].split("/")[0].split("|")
    hole = [mine or other for mine, other in zip(shown.split("|"), hole, strict=True)]
    return ":".join([*head, "/".join(["|".join(hole), *board])])


@pytest.mark.parametrize("name", DEFINITIONS)
def test_messages_are_those_of_pokerkit(name):
    assert_as_in_pokerkit(name, hands=12)


@pytest.mark.slow(minutes=10)
@pytest.mark.parametrize("name", DEFINITIONS)
def test_messages_of_ten_thousand_hands_are_those_of_pokerkit(name):
    assert_as_in_pokerkit(name, hands=10_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "is not of the form MATCHSTATE:seat:hand:betting:cards"),
        ("MATCHSTATE:2:0::AhKd|", "seat 2 must be below 2"),
        ("MATCHSTATE:0:0::AhKd", "2 cards, or none, for 2 players"),
        ("MATCHSTATE:0:0::AhK|", "is not of the form"),
        ("MATCHSTATE:0:0::Ah|", "2 cards, or none, for 2 players"),
        ("MATCHSTATE:1:0::AhKd|", "hidden from their own player"),
        ("STATE:0::AhKd|", "hidden from their own player, or from the log"),
        ("MATCHSTATE:0:0::AhAh|", "Ah occurs twice"),
        ("MATCHSTATE:0:0:cc/:AhKd|/2c3cAh", "a card occurs twice"),
        ("MATCHSTATE:0:0:cc/:AhKd|", "the board must have 0, 3 cards by round"),
        ("MATCHSTATE:0:0:cc/:AhKd|/2c3c", "the board must have 0, 3 cards by round"),
        ("MATCHSTATE:0:0:c:AhKd|/2c3c4c", "the board must have 0 cards by round"),
        ("MATCHSTATE:0:0:cc:AhKd|/2c3c4c", "betting 'cc' must be written 'cc/'"),
        ("MATCHSTATE:0:0:c/c:AhKd|/2c3c4c", "betting 'c/c' must be written 'cc/'"),
        ("MATCHSTATE:0:0:cr150:AhKd|", "r150 after 'c' is not legal"),
        ("MATCHSTATE:0:0:r20001:AhKd|", "r20001 after '' is not legal"),
        ("MATCHSTATE:0:0:r0200:AhKd|", "'r0200' must be written 'r200'"),
        ("MATCHSTATE:0:0:cf:AhKd|", "f after 'c' is not legal"),
        ("MATCHSTATE:0:0:fc:AhKd|", "c after 'f' is not legal"),
        ("MATCHSTATE:0:0:r:AhKd|", "action 'r' must be f, c or r with a positive number of chips"),
        (
            "MATCHSTATE:0:0:200:AhKd|",
            "action '200' must be f, c or r with a positive number of chips",
        ),
    ],
)
def test_bad_states_are_refused(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        acpc_protocol.parse_state(holdem.hunl(), text)


@pytest.mark.parametrize("text", ["r0", "r00", "r"])
def test_raises_of_nothing_are_no_calls(text):
    with pytest.raises(ValueError, match="must be f, c or r with a positive number of chips"):
        acpc_protocol.parse_action(holdem.hunl(), text)


def test_limit_raises_have_no_size():
    game = holdem.limit_holdem()
    assert acpc_protocol.parse_betting(game, "rrrc/") == (2, 2, 2, 1)
    for text in ("r20", "x", "", "rr"):
        with pytest.raises(ValueError, match=r"must be f, c or r$"):
            acpc_protocol.parse_action(game, text)
    with pytest.raises(ValueError, match="r after 'rrr' is not legal"):
        acpc_protocol.parse_betting(game, "rrrr")


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (Poker(ranks=10), "ranks=10 and suits=4 must be a full deck"),
        (Poker(board=(1, 3, 1, 0)), "must begin with a round without cards"),
        (holdem.hunl(("1", "allin")), "must be empty: messages name chips"),
    ],
)
def test_games_that_messages_cannot_tell_are_refused(game, message):
    with pytest.raises(ValueError, match=message):
        acpc_protocol.check_expressible(game)


def test_games_may_have_other_rounds():
    game = holdem.nlfh()
    text = "MATCHSTATE:1:7:cc/r200r20000c:KsJs|JdTc/6dJc9c"
    state = acpc_protocol.parse_state(game, text)
    assert acpc_protocol.format_state(game, state) == text
    assert int(acpc_protocol.poker_state(game, state).actor) == TERMINAL


def test_winnings_in_a_log_have_six_digits_at_most():
    """The server writes "%.6f" without zeros at the end."""
    line = acpc_protocol.format_score((20 / 3, -10.0, 10.5), ("a", "b", "c"))
    assert line == "SCORE:6.666667|-10|10.5:a|b|c"
    hole = tuple(parse_cards(cards) for cards in ("KsJs", "JdTc"))
    state = MatchState(seat=None, hand=3, actions=(FOLD,), hole=hole, board=())
    line = acpc_protocol.format_log_line(holdem.hunl(), state, (50.0, -50.0), ("a", "b"))
    assert line == "STATE:3:f:KsJs|JdTc:50|-50:a|b"
