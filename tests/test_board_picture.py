"""Board games in words, and the command that plays one and draws it."""

import re
import xml.etree.ElementTree

import numpy as np
import pytest

from experiments import cli
from experiments.engines.game import GameRecord
from experiments.engines.referee import load
from experiments.perfect_information import board_picture

SVG = "{http://www.w3.org/2000/svg}"


def elements(text, kind):
    return [*xml.etree.ElementTree.fromstring(text).iter(SVG + kind)]


def captions(text):
    return [each.text for each in elements(text, "text") if each.text.startswith(("move", "start"))]


def record(moves, payoff=0.0):
    return GameRecord(first="A", second="B", opening=0, moves=moves, payoff=payoff, reason="why")


def test_columns_of_connect_four_are_full_after_six_stones():
    referee = load("connect_four")
    assert [*referee.moves(referee.start)] == [*"0123456"]
    position = referee.played([*"333333"], referee.start)
    assert [*referee.moves(position)] == [*"012456"]
    won = referee.played([*"0101010"], referee.start)
    assert referee.is_over(won)
    assert (referee.payoff(won), referee.ending(won)) == (1, "four in a row")
    assert referee.seat(position) == 0


def test_othello_is_played_in_its_own_words():
    """The four first moves, the tiger opening, and the shortest game, which black wins 13 to 0."""
    referee = load("othello")
    assert {*referee.moves(referee.start)} == {"d3", "c4", "f5", "e6"}
    assert referee.played(["f5", "d6", "c3", "d3", "c4"], referee.start)
    short = referee.played(["e6", "f4", "e3", "f6", "g5", "d6", "e7", "f5", "c5"], referee.start)
    assert referee.is_over(short)  # black has taken all of white's discs
    assert (referee.payoff(short), referee.ending(short)) == (1, "no moves left")


def test_the_second_player_of_hex_may_swap():
    referee = load("hex")
    assert len(referee.moves(referee.start)) == 121
    first = referee.played(["c1"], referee.start)
    assert referee.moves(first)["swap"] == 121
    swapped = referee.played(["swap"], first)
    assert {*referee.moves(first)} - {*referee.moves(swapped)} == {"a3", "swap"}
    column = [f"{letter}{row}" for row in range(1, 12) for letter in "ab"][:-1]
    row = ["k11", *[f"{letter}{row}" for letter in "abcdefghijk" for row in (1, 2)][:-1]]
    for moves, payoff in ((column, 1), (row, -1)):  # who begins connects the top and the bottom
        assert not referee.is_over(referee.played(moves[:-1], referee.start))
        end = referee.played(moves, referee.start)
        assert referee.is_over(end)
        assert (referee.payoff(end), referee.ending(end)) == (payoff, "connected sides")


def test_the_picture_has_the_stones_of_the_game(tmp_path, capsys):
    words = ["board_picture", "connect_four", "uniform", "uniform", "--seed", "3"]
    words += ["--opening_moves", "2", "--pictures", "4", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    picture, text = (tmp_path / "game.svg").read_text(), (tmp_path / "game.txt").read_text()
    assert text in capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0] == "connect_four, seed 3: uniform (black) against uniform (white)"
    assert lines[1] == "the first 2 moves were drawn at random"
    moves = [int(move) for line in lines[2:-1] for move in line.split()[1:]]
    numbers = [round(len(moves) * k / 4) for k in (1, 2, 3, 4)]
    assert captions(picture) == [f"move {n}: {moves[n - 1]}" for n in numbers]

    expected, boards = [], {number: place for place, number in enumerate(numbers)}
    heights, stones = [0] * 7, []
    for number, column in enumerate(moves):
        colour = "black" if number % 2 == 0 else "white"
        stones.append((column, 5 - heights[column], colour))
        heights[column] += 1
        if number + 1 in boards:
            expected.append(sorted(stones))
    drawn = []
    groups = xml.etree.ElementTree.fromstring(picture).findall(f"{SVG}g/{SVG}g")
    for group in groups:
        circles = group.findall(f"{SVG}circle")
        each = [(float(c.get("cx")), float(c.get("cy")), c.get("fill")) for c in circles]
        drawn.append(sorted((int(x // 35), int(y // 35), fill) for x, y, fill in each))
    assert drawn == expected
    winner = has_four(expected[-1])
    assert lines[-1] == (f"{winner} wins: four in a row" if winner else "draw: full board")


def has_four(stones):
    """The colour of four stones in a row."""
    board = {(x, y): colour for x, y, colour in stones}
    for (x, y), colour in board.items():
        for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1)):
            if all(board.get((x + k * dx, y + k * dy)) == colour for k in range(4)):
                return colour
    return None


@pytest.mark.parametrize(
    ("game", "moves", "shape", "number", "colours"),
    [
        ("othello", "d3 c3", "circle", 4 + 6, {"black": 4 + 3, "white": 3}),
        ("hex", "f6 swap", "polygon", 121 + 1 + 4, {"lightgray": 121, "black": 2, "white": 3}),
        pytest.param(
            *("go_9x9", "E5 E4 pass", "circle", 2, {"black": 1, "white": 1}),
            marks=pytest.mark.slow,
        ),
        pytest.param(*("gardner_chess", "a2a3", "image", 20, {None: 20}), marks=pytest.mark.slow),
        pytest.param(*("chess", "e2e4 d7d5 e4d5", "image", 31, {None: 31}), marks=pytest.mark.slow),
    ],
)
def test_all_games_are_drawn(game, moves, shape, number, colours):
    """By the numbers of pieces; boards of Othello have four marks, those of Hex four edges."""
    picture = board_picture.draw(load(game), record(moves), pictures=1)
    shapes = elements(picture, shape)
    assert len(shapes) == number
    fills = [each.get("fill") for each in shapes]
    assert {fill: fills.count(fill) for fill in fills} == colours
    assert captions(picture) == [f"move {len(moves.split())}: {moves.split()[-1]}"]
    white_begins = game.endswith("chess")
    first, second = ("white", "black") if white_begins else ("black", "white")
    (title,) = elements(picture, "title")
    assert title.text == f"{game}: A ({first}) against B ({second})"


def test_a_game_without_moves_is_its_start():
    referee, game = load("connect_four"), record("", payoff=-1.0)
    picture = board_picture.draw(referee, game, pictures=6)
    assert captions(picture) == ["start"]
    assert not elements(picture, "circle")
    text = board_picture.game_text(referee, game, seed=0)
    assert text == "connect_four, seed 0: A (black) against B (white)\nwhite wins: why\n"


def test_boards_lie_side_by_side_with_their_captions():
    picture = board_picture.draw(load("connect_four"), record("0 1 2 3 4 5 6"), pictures=7)
    places = []
    for group in xml.etree.ElementTree.fromstring(picture).findall(f"{SVG}g/{SVG}g"):
        places.append([float(x) for x in re.findall(r"[\d.]+", group.get("transform"))])
    texts = elements(picture, "text")
    at = np.array([[float(each.get("x")), float(each.get("y"))] for each in texts])
    assert len(np.unique(places, axis=0)) == 7
    gap = np.array(places) - at  # a caption is above the left corner of its board
    np.testing.assert_allclose(gap, np.broadcast_to(gap[0], gap.shape), atol=1e-9)
    assert (gap[0] > 0).all()
    assert (gap[0] < 17.5).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["checkers", "uniform", "uniform"], "unknown board game 'checkers'"),
        (["hex", "nobody", "uniform"], "unknown player 'nobody'"),
        (["hex", "uniform", "gtp:true"], "does not play hex; allowed: go_9x9, go_19x19"),
        (["hex", "uniform", "uniform", "--pictures", "0"], "pictures=0 must be at least 1"),
        (
            ["hex", "uniform", "uniform", "--opening_moves", "-1"],
            "opening_moves=-1 must be at least 0",
        ),
        (
            ["hex", "uniform", "alphazero(network=none.npz)"],
            "network=none.npz must be a file",
        ),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, words, message):
    assert cli.main(["board_picture", *words, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_earlier_picture_is_replaced_only_if_asked_for(tmp_path, capsys):
    words = ["board_picture", "connect_four", "uniform", "uniform", "--out", str(tmp_path)]
    (tmp_path / "game.txt").write_text("mine")
    assert cli.main(words) == 2
    assert "holds an earlier picture (game.txt): add --overwrite" in capsys.readouterr().err
    assert (tmp_path / "game.txt").read_text() == "mine"
    assert cli.main([*words, "--overwrite"]) == 0
    assert (tmp_path / "game.txt").read_text().startswith("connect_four, seed 0: ")
    assert {path.name for path in tmp_path.iterdir()} == {"game.svg", "game.txt"}
