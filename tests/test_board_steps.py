"""Faster steps of chess and Go: states against pgx, moves of chess against python-chess."""

import chess
import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pytest
from pgx._src.games.chess import FROM_PLANE

from jaxgames.adapters.chess_moves import legal_actions
from jaxgames.adapters.pgx import MOST_LEGAL, from_pgx, lenient, make_env

NOTHING = -1  # no square
TARGETS = np.asarray(FROM_PLANE)
# Captures in passing that uncover the king on the rank, that end a check, on a line with the king;
# castling through and out of check.
SHARP = (
    "8/8/8/K2Pp2r/8/8/8/7k w - e6 0 2",
    "8/8/8/K1pP3r/8/8/8/7k w - c6 0 2",
    "8/8/8/2k5/3Pp3/8/8/4K3 b - d3 0 2",
    "4k3/8/8/3pP3/4K3/8/8/8 w - d6 0 2",
    "4r2k/8/8/3pP3/8/8/8/4K3 w - d6 0 2",
    "r3k2r/8/8/8/8/8/5r2/R3K2R w KQkq - 0 1",
    "r3k2r/8/8/8/8/2n5/8/R3K2R w KQkq - 0 1",
    "1r2k2r/8/8/8/8/8/8/R3K2R w KQk - 0 1",
    "r3k2r/8/8/8/7B/8/8/R3K2R b KQkq - 0 1",
)
# Of all positions that games can come to it has the most legal moves.
MOST = "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1"


def square(number, mirrored):
    """pgx's number of a square of python-chess, as the player to move sees the board."""
    rank, file = divmod(number, 8)
    return file * 8 + (7 - rank if mirrored else rank)


def arrays(position):
    """A position of python-chess as pgx has it: board, square of en passant, rights to castle."""
    me, board = position.turn, np.zeros(64, np.int32)
    for number, piece in position.piece_map().items():
        sign = 1 if piece.color == me else -1
        board[square(number, not me)] = sign * piece.piece_type
    passed = position.ep_square
    rights = position.has_queenside_castling_rights(me), position.has_kingside_castling_rights(me)
    return board, np.int32(NOTHING if passed is None else square(passed, not me)), np.array(rights)


def moves_of(mask):
    """Legal actions as triples: from, to and the promotion's piece."""
    found = set()
    for action in np.flatnonzero(mask):
        origin, plane = divmod(int(action), 73)
        piece = (chess.ROOK, chess.BISHOP, chess.KNIGHT)[plane // 3] if plane < 9 else None
        found.add((origin, int(TARGETS[origin, plane]), piece))
    return found


def published(position):
    """The moves of python-chess as such triples; promotions to a queen have no piece."""
    found = set()
    for move in position.legal_moves:
        ends = (square(each, not position.turn) for each in (move.from_square, move.to_square))
        found.add((*ends, None if move.promotion == chess.QUEEN else move.promotion))
    return found


def random_positions(games, *, seed=0):
    """Positions of random games in which captures, checks and promotions are more probable."""
    generator, found = np.random.default_rng(seed), []
    for _ in range(games):
        position = chess.Board()
        while not position.is_game_over() and position.ply() < 200:
            found.append(position.copy(stack=False))
            legal = [*position.legal_moves]
            sharp = [m for m in legal if position.is_capture(m) or m.promotion]
            some = sharp if sharp and generator.uniform() < 0.3 else legal
            position.push(some[generator.integers(len(some))])
    return found


def test_chess_moves_are_those_of_another_program():
    positions = [*map(chess.Board, (MOST, *SHARP)), *random_positions(30)]
    assert sum(position.is_check() for position in positions) > 100
    assert sum(position.has_legal_en_passant() for position in positions) > 10
    boards, passed, rights = (np.stack(each) for each in zip(*map(arrays, positions), strict=True))
    with lenient():
        found = jax.jit(jax.vmap(legal_actions))(boards, passed, rights)
    castled = 0
    for position, mask in zip(positions, np.asarray(found), strict=True):
        expected = published(position)
        castled += any(position.is_castling(move) for move in position.legal_moves)
        assert moves_of(mask) == expected, position.fen()
    assert castled > 10
    assert found[0].sum() == MOST_LEGAL["chess"]


def either(first, one, other):
    """A pytree, or the other one."""
    return jax.tree.map(lambda x, y: jnp.where(first, x, y), one, other)


LONG = pytest.mark.slow(minutes=2)
NAMES = [
    pytest.param("go_9x9", 180),
    pytest.param("go_19x19", 300, marks=LONG),
    pytest.param("gardner_chess", 300, marks=LONG),
    pytest.param("chess", 300, marks=LONG),
]


@pytest.mark.parametrize(("name", "turns"), NAMES)
def test_states_are_pgxs(name, turns):
    """All arrays along random games."""
    theirs, ours = pgx.make(name), make_env(name)
    assert type(ours) is not type(theirs)
    with lenient():
        first = jax.jit(jax.vmap(theirs.init))(jax.random.split(jax.random.key(0), 32))
        again = jax.jit(jax.vmap(either))
        steps = [jax.jit(jax.vmap(env.step)) for env in (theirs, ours)]
        state, generator, ended = first, np.random.default_rng(0), 0
        for _ in range(turns):
            noise = generator.uniform(size=state.legal_action_mask.shape)
            action = np.argmax(np.where(state.legal_action_mask, noise, -1), axis=1)
            state, after = (step(state, action.astype(np.int32)) for step in steps)
            jax.tree.map(np.testing.assert_array_equal, after, state)
            ended += int(state.terminated.sum())
            fresh = state.terminated & (generator.uniform(size=32) < 0.5)
            state = again(fresh, first, state)
        assert ended > 32 or name == "go_19x19"  # where games at random are long
        lost = [step(state, np.argmin(state.legal_action_mask, axis=1)) for step in steps]
    for field in ("terminated", "rewards", "legal_action_mask", "current_player"):
        np.testing.assert_array_equal(*(getattr(each, field) for each in lost))


def test_other_environments_are_pgxs_own():
    assert type(make_env("connect_four")) is type(pgx.make("connect_four"))
    chess_of_pgx = pgx.make("chess")
    assert make_env(chess_of_pgx) is chess_of_pgx
    assert str(from_pgx("gardner_chess")) == "pgx:gardner_chess"
