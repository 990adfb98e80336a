"""Moves in the words of UCI and GTP: against published counts, and other programs' rules."""

import functools
import itertools

import chess
import jax
import numpy as np
import pyffish
import pytest

from experiments.engines.referee import load
from jaxgames.adapters import gtp_moves, uci_moves

KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
PERFT = {  # positions of the Chess Programming Wiki ("Perft Results"), with their counts
    KIWIPETE: (48, 2039),
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1": (14, 191),
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1": (6, 264),
    "r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1": (6, 264),
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8": (44, 1486),
}


def random_positions(referee, games, *, seed=0):
    """The positions of random games; those in which a game is over are left out."""
    generator = np.random.default_rng(seed)
    for _ in range(games):
        position = referee.start
        while not referee.is_over(position):
            yield position
            legal = [*referee.moves(position).values()]
            position = referee.after(position, legal[generator.integers(len(legal))])


def disagreements(referee, games, legal_moves, *, most=10_000):
    """Positions whose legal moves differ from another program's, and how many were compared."""
    wrong, number = [], 0
    for position in itertools.islice(random_positions(referee, games), most):
        mine, fen = referee.moves(position), uci_moves.fen(referee.game, position)
        legal = np.flatnonzero(position.pgx.legal_action_mask)
        assert sorted(mine.values()) == legal.tolist()  # one word each, and back
        number += 1
        if {*mine} != {*legal_moves(fen)}:
            wrong.append((fen, {*mine} ^ {*legal_moves(fen)}))
    return wrong, number


def perft(referee, position, depth):
    """How many lines of play of this length there are."""
    moves = referee.moves(position)
    if depth == 1:
        return len(moves)
    return sum(perft(referee, referee.after(position, a), depth - 1) for a in moves.values())


def test_gardner_chess_moves_are_those_of_fairy_stockfish():
    referee = load("gardner_chess")
    assert uci_moves.fen(referee.game, referee.start) == pyffish.start_fen("gardner")
    legal = functools.partial(pyffish.legal_moves, "gardner")
    wrong, number = disagreements(referee, 1, lambda fen: legal(fen, []))
    assert not wrong
    assert number > 10


@pytest.mark.slow(minutes=2)
def test_many_gardner_chess_positions():
    referee = load("gardner_chess")
    legal = functools.partial(pyffish.legal_moves, "gardner")
    wrong, number = disagreements(referee, 10_000, lambda fen: legal(fen, []), most=10_000)
    assert (wrong, number) == ([], 10_000)
    for position in itertools.islice(random_positions(referee, 1, seed=1), 20):
        again = uci_moves.from_fen(referee.game, uci_moves.fen(referee.game, position))
        assert referee.moves(again) == referee.moves(position)
        assert referee.seat(again) == referee.seat(position)


@pytest.mark.slow
def test_chess_has_the_published_numbers_of_moves():
    referee = load("chess")
    assert [perft(referee, referee.start, depth) for depth in (1, 2, 3)] == [20, 400, 8902]
    for text, counts in PERFT.items():
        position = uci_moves.from_fen(referee.game, text)
        assert uci_moves.fen(referee.game, position) == text
        assert tuple(perft(referee, position, depth) for depth in (1, 2)) == counts


@pytest.mark.slow
def test_chess_moves_are_those_of_another_program():
    referee = load("chess")

    def legal(fen):
        return {move.uci() for move in chess.Board(fen).legal_moves}

    wrong, number = disagreements(referee, 20, legal, most=800)
    assert (wrong, number > 200) == ([], True)


@pytest.mark.parametrize(
    ("name", "back"),
    [
        ("gardner_chess", ["b1a3", "b5c3", "a3b1", "c3b5"]),
        pytest.param("chess", ["g1f3", "g8f6", "f3g1", "f6g8"], marks=pytest.mark.slow),
    ],
)
def test_positions_of_fen_have_no_past(name, back):
    """The first position is as at the start of a game, and comes back for the third time only when
    it has come back twice."""
    referee = load(name)
    again = uci_moves.from_fen(referee.game, uci_moves.fen(referee.game, referee.start))
    seen = [jax.jit(referee.game.encode)(position) for position in (again, referee.start)]
    np.testing.assert_array_equal(*seen)
    history = again.pgx._x.hash_history if name == "chess" else again.pgx._hash_history
    assert not np.asarray(history)[1:].any()
    assert not referee.is_over(referee.played(back, again))
    assert referee.is_over(referee.played(back * 2, again))


@pytest.mark.parametrize(
    ("text", "winner"), [("k4/1Q3/1K3/5/5 b - - 0 1", 1), ("4K/3q1/3k1/5/5 w - - 0 1", -1)]
)
def test_who_is_mated_in_a_fen_has_lost(text, winner):
    referee = load("gardner_chess")
    position = uci_moves.from_fen(referee.game, text)
    assert referee.payoff(position) == winner
    assert referee.ending(position) == "checkmate"


@pytest.mark.slow
def test_all_moves_of_a_fen_are_found():
    """The position with the most legal moves, by Nenad Petrovic."""
    game = load("chess").game
    text = "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1"
    assert len(uci_moves.moves(game, uci_moves.from_fen(game, text))) == 218


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k7/8/8/8/8/8/3Pp3/K7 w - e3 0 1", "'e3' is not of the form"),
        ("8/8 w", "six fields"),
        ("8/8/8/8/8/8/8/7 w - - 0 1", "8 rows of 8 squares"),
        ("8/8/8/8/8/8/8/8 w - - 0 1", "a king of each colour"),
        ("k7/8/8/8/8/8/8/K7 x - - 0 1", "'x' is not of the form"),
        ("k7/8/8/8/8/8/8/K7 w - e9 0 1", "'e9' is not of the form"),
        ("k7/8/8/8/8/8/8/R6K w - - 0 1", "could take the other's king"),
    ],
)
def test_what_is_no_fen_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        uci_moves.from_fen(load("chess").game, text)


def test_a_king_that_can_be_taken_is_seen():
    """In positions of random games, in which the other player would be to move."""
    generator, checks = np.random.default_rng(0), 0
    for _ in range(5):
        board = chess.Board()
        while not board.is_game_over():
            place, turn = board.fen().split()[:2]
            assert not uci_moves._takes_the_king(place, turn)
            other = "b" if turn == "w" else "w"
            assert uci_moves._takes_the_king(place, other) == board.is_check()
            checks += board.is_check()
            moves = [*board.legal_moves]
            board.push(moves[generator.integers(len(moves))])
    assert checks > 25


def test_vertices_are_those_of_gtp():
    """The letter I is left out, rows are counted from below."""
    words = [gtp_moves.vertex(action, 19) for action in range(362)]
    assert len({*words}) == 362
    assert (words[0], words[18], words[342], words[-1]) == ("A19", "T19", "A1", "pass")
    assert not any(word.startswith("I") for word in words)
    assert gtp_moves.vertex(8, 9) == "J9"


def test_area_counts_stones_and_what_only_one_player_reaches():
    board = np.zeros((9, 9), np.int32)
    assert gtp_moves.area(board) == 0
    board[4, 4] = 1
    assert gtp_moves.area(board) == 81
    board[:, 3], board[:, 5] = 1, -1  # three columns, and black's stone in neutral ones
    assert gtp_moves.area(board) == 4 * 9 - 4 * 9 + 1


def test_area_decides_the_games_of_pgx():
    referee, ended = load("go_9x9"), 0
    generator = np.random.default_rng(0)
    for _ in range(2):
        position = referee.start
        while not referee.is_over(position):
            legal = [*referee.moves(position).values()]
            fair = legal if generator.uniform() < 0.1 else legal[:-1] or legal
            position = referee.after(position, fair[generator.integers(len(fair))])
        if referee.ending(position) != "repeated board":
            points = gtp_moves.area(gtp_moves.stones(referee.game, position)) - 7.5
            assert referee.payoff(position) == np.sign(points)
            ended += 1
    assert ended
