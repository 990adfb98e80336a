"""pgx as a referee: repeated boards in Go however long ago, how games of chess end, and boards as
text."""

import jax
import numpy as np
import pytest

from experiments.engines.referee import load
from jaxgames.adapters import gtp_moves

# Five kos at the edges of a board of 9x9. In each, black has stones at B and white at W, and they
# take turns in the two cells between: who plays `a` or `b` takes the stone in the other one.
#
#     B a b W
#     . B W .
SIZE = 9


def ko(corner, along, inward):
    """The cells of black and white around a ko, and its own two cells, as actions."""

    def cell(length, depth):
        row, column = np.asarray(corner) + length * np.asarray(along) + depth * np.asarray(inward)
        return int(row * SIZE + column)

    black, white = (cell(0, 0), cell(1, 1)), (cell(3, 0), cell(2, 1))
    return black, white, cell(1, 0), cell(2, 0)


KOS = [
    ko((0, 0), (0, 1), (1, 0)),
    ko((0, 4), (0, 1), (1, 0)),
    ko((8, 0), (0, 1), (-1, 0)),
    ko((8, 4), (0, 1), (-1, 0)),
    ko((3, 8), (1, 0), (0, -1)),
]
PASS = SIZE * SIZE


def five_kos():
    """Moves to a board on which white has the first, third and fifth ko, and black is to move."""
    black = [cell for black, _, _, _ in KOS for cell in black]
    white = [cell for _, white, _, _ in KOS for cell in white]
    for number, (_, _, near_black, near_white) in enumerate(KOS):
        if number % 2:
            black.append(near_white)
        else:
            white.append(near_black)
    black += [PASS] * (len(white) - len(black))
    return [move for pair in zip(black, white, strict=True) for move in pair]


def test_a_board_may_not_return_though_it_was_ten_moves_ago():
    """Each player takes five stones, one in each ko, and all boards but the last are new."""
    referee = load("go_9x9")
    position = referee.start
    for move in five_kos():
        assert not referee.is_over(position)
        position = referee.after(position, move)
    before, seen = gtp_moves.stones(referee.game, position), set()
    for turn in range(10):
        assert not referee.is_over(position)
        seen.add(gtp_moves.stones(referee.game, position).tobytes())
        _, _, near_black, near_white = KOS[turn % 5]
        taken = near_white if turn % 2 == 0 else near_black
        assert taken in referee.moves(position).values()
        position = referee.after(position, taken)
    np.testing.assert_array_equal(gtp_moves.stones(referee.game, position), before)
    assert len(seen) == 10
    assert referee.is_over(position)
    assert referee.ending(position) == "repeated board"
    assert referee.payoff(position) == 1  # white has repeated it, and loses


def test_passing_repeats_no_board():
    referee = load("go_9x9")
    position = referee.played(["D4", "pass", "E5", "pass"], referee.start)
    assert not referee.is_over(position)


def test_the_third_time_a_position_of_chess_is_a_draw():
    """Both knights go out and back, twice; the first time was the start."""
    referee, position = load("gardner_chess"), load("gardner_chess").start
    for number in range(8):
        assert not referee.is_over(position)
        move = ("b1a3", "b5c3", "a3b1", "c3b5")[number % 4]
        position = referee.after(position, referee.moves(position)[move])
    assert referee.is_over(position)
    assert referee.payoff(position) == 0


@pytest.mark.parametrize(
    ("name", "field", "moves"),
    [
        ("gardner_chess", "_step_count", 256),
        ("gardner_chess", "_halfmove_count", 100),
        pytest.param("chess", "step_count", 512, marks=pytest.mark.slow),
        pytest.param("chess", "halfmove_count", 100, marks=pytest.mark.slow),
    ],
)
def test_games_of_chess_end_as_draws(name, field, moves):
    """After a number of moves, or of moves without a capture and a pawn's move."""
    referee, knight = load(name), "b1c3"

    def with_count(number):
        pgx = jax.tree.map(np.asarray, referee.start.pgx)
        count = np.int32(number)
        if name == "chess":
            changed = pgx.replace(_x=pgx._x._replace(**{field: count}))
        else:
            changed = pgx.replace(**{field: count})
        return referee.start.replace(pgx=changed)

    for number, over in ((moves - 2, False), (moves - 1, True)):
        start = with_count(number)
        after = referee.after(start, referee.moves(start)[knight])
        assert referee.is_over(after) == over
    assert referee.payoff(after) == 0


@pytest.mark.parametrize(
    ("name", "moves", "rows"),
    [
        ("connect_four", "3 3 0", ["", "", "", "", "...O...", "X..X..."]),
        ("go_9x9", "J9 A1", ["........X", *[""] * 7, "O........"]),
        ("hex", "k1 a11", ["..........X", *[""] * 9, "O.........."]),
        ("othello", "f5", ["", "", "", "...OX...", "...XXX..", "", "", ""]),
        ("gardner_chess", "a2a3", ["rnbqk", "ppppp", "P", ".PPPP", "RNBQK"]),
        (
            "chess",
            "e2e4 g8f6",
            ["rnbqkb.r", "pppppppp", ".....n..", "", "....P...", "", "PPPP.PPP", "RNBQKBNR"],
        ),
    ],
)
def test_boards_as_text(name, moves, rows):
    """The stones are where the moves put them, by the names of rows and columns below and beside
    the board."""
    referee = load(name)
    text = referee.picture(referee.played(moves.split(), referee.start)).splitlines()
    columns = text.pop().split()
    pieces = [line.split()[-len(columns) :] for line in text]
    assert ["".join(row) for row in pieces] == [row.ljust(len(columns), ".") for row in rows]
    numbers = [line.split()[: -len(columns)] for line in text]
    if name == "connect_four":
        assert not any(numbers)
    else:
        up = range(1, 1 + len(text))
        counted = up if name in ("hex", "othello") else reversed(up)
        assert numbers == [[str(number)] for number in counted]
    letters = "ABCDEFGHJ" if name == "go_9x9" else "abcdefghijk"
    expected = "0123456" if name == "connect_four" else letters[: len(columns)]
    assert "".join(columns) == expected
