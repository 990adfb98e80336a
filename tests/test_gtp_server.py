"""Our agents as GTP engines."""

import re

import pytest

from experiments.engines.gtp_server import GtpServer
from experiments.engines.referee import load


def gtp(lines, **options):
    said = []
    options = {"agent": "uniform", "simulations": 1, "write": said.append} | options
    GtpServer(load("go_9x9"), **options).run(lines)
    return [text.removesuffix("\n\n") for text in said]


def test_gtp_has_the_commands_that_every_engine_needs():
    said = gtp(["list_commands", "quit", "name"])
    needed = "protocol_version name version known_command list_commands quit boardsize"
    needed += " clear_board komi play genmove"  # section 6.3 of the specification
    assert {*needed.split()} < {*said[0].removeprefix("= ").split()}
    assert said[1:] == ["="]


def test_gtp_refuses_simulations_at_once():
    with pytest.raises(ValueError, match="simulations=0 must be from 1 to 16384"):
        gtp([], simulations=0)


def test_gtp_follows_a_game():
    lines = ["12 boardsize 9", "komi 7.5", "play b d4 # hoshi", "", "genmove w", "undo"]
    lines += ["play w pass", "final_score", "play b PASS", "final_score", "genmove b"]
    said = gtp(lines)
    assert said[:3] == ["=12", "=", "="]
    vertex = said[3].removeprefix("= ")
    assert vertex in load("go_9x9").moves(load("go_9x9").start)
    assert said[4:] == ["=", "=", "= B+73.5", "=", "= B+73.5", "? the game is over: two passes"]


def test_gtp_knows_the_larger_board():
    lines = ["boardsize 19", "showboard", "play b T19", "genmove w", "boardsize 9", "play b T19"]
    said = gtp(lines)
    assert said[0] == said[2] == said[4] == "="
    assert len(said[1].splitlines()) == 19 + 3
    assert said[3].removeprefix("= ") in load("go_19x19").moves(load("go_19x19").start)
    assert said[5] == "? illegal move"


def test_gtp_ends_a_game_whose_board_is_repeated():
    """White sends two stones and takes one back; then the board is that of three moves before."""
    moves = ["A2", "C2", "B2", "D1", "J9", "B1", "J8", "A1", "C1", "B1"]
    lines = [f"play {'bw'[number % 2]} {move}" for number, move in enumerate(moves)]
    said = gtp([*lines, "genmove b", "final_score", "undo", "final_score"])
    assert said[:10] == ["="] * 10
    assert said[10:12] == ["? the game is over: repeated board", "= B+F"]
    assert said[12] == "="
    assert said[13] not in ("= B+F", "= W+F")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("7 hello", "?7 unknown command"),
        ("boardsize 13", "? unacceptable size: it must be 9 or 19"),
        ("boardsize x", "? syntax error: a number is needed"),
        ("komi 6.5", "? komi 6.5 is not possible: it is 7.5 here"),
        ("play b", "? syntax error: a colour and a vertex are needed"),
        ("play green D4", "? syntax error: 'green' is no colour"),
        ("play w D4", "? it is the turn of black: players alternate here"),
        ("play b I4", "? illegal move"),
        ("genmove", "? syntax error: a colour is needed"),
        ("undo", "? cannot undo"),
        ("known_command", "= false"),
        ("known_command play", "= true"),
    ],
)
def test_gtp_refuses_in_words(line, answer):
    assert gtp([line]) == [answer]


def test_gtp_answers_each_command_once():
    """By its number, in order, however odd the arguments are; a search is not to be stopped."""
    many = f"{'9' * 5000}"
    odd = ["genmove b", "stop", "komi nan", f"komi {many}", f"boardsize {many}", "boardsize 1e9"]
    odd += ["set_random_seed -5", "genmove w", f"set_random_seed {many[:40]}", "genmove b", "play"]
    odd += [
        "undo 3",
        "final_score x",
        "showboard x",
        "play w \ufffd",
        "GENMOVE w",
        "\x00name",
        "quit",
    ]
    said = gtp([f"{number} {line}" for number, line in enumerate(odd)])
    assert [re.match(r"[=?](\d+) ?", text)[1] for text in said] == [*map(str, range(len(odd)))]
    assert not any("\n\n" in text for text in said)
