"""Games against Stockfish, Fairy-Stockfish and GNU Go, and of our own engines, through pipes."""

import shlex
import sys
import time

import chess.engine
import pytest
from test_engines import uniform

from experiments.engines import match
from experiments.engines.game import play_game
from experiments.engines.named_players import Settings, make_player
from experiments.engines.program import find
from experiments.engines.referee import load

OWN = f"{shlex.quote(sys.executable)} -m experiments"
REAL = [
    ("chess", "stockfish(nodes=50,skill=0)", 2),
    ("chess", "stockfish(nodes=50,elo=1400)", 2),
    ("chess", "fairy_stockfish(nodes=50,skill=-10)", 2),
    ("gardner_chess", "fairy_stockfish(nodes=50,skill=0)", 4),
    ("go_9x9", "gnugo(level=0)", 2),
    ("go_19x19", "gnugo(level=0)", 0),
]


def real_player(spec, referee):
    """The player; the test is left out where Debian's package is not installed, and only there."""
    package = spec.partition("(")[0].replace("_", "-")
    try:
        find(package, package=package)
    except ValueError as error:
        pytest.skip(str(error))
    return make_player(spec, Settings(referee=referee))


def assert_full_games(referee, players, opening):
    """Nothing goes wrong, and the referee ends the games, unless somebody resigns."""
    games = match.play_pair(referee, players, opening=opening, seed=1)
    for player in players:
        player.close()
    for game in games:
        assert game.fault is None, game
        assert (game.first_disagrees, game.second_disagrees) == (False, False), game
        if not game.reason.endswith("resigns"):
            position = referee.played(game.moves.split(), referee.start)
            assert referee.is_over(position)
    return games


@pytest.mark.parametrize(
    ("game", "spec"),
    [
        ("chess", "stockfish(nodes=20,skill=0)"),
        ("gardner_chess", "fairy_stockfish(nodes=20)"),
        ("go_9x9", "gnugo(level=0)"),
    ],
)
def test_real_programs_play_a_game(game, spec):
    """Against random moves; no move is refused on either side, and nobody disagrees."""
    referee = load(game)
    engine, other = real_player(spec, referee), uniform("other", referee)
    record = play_game(referee, [other, engine], opening=(), seed=3)
    engine.close()
    assert record.fault is None, record
    assert (record.first_disagrees, record.second_disagrees) == (False, False), record
    assert record.payoff == -1
    assert engine.name not in record.reason


@pytest.mark.slow(minutes=3)
@pytest.mark.parametrize(("game", "spec", "length"), REAL)
def test_full_games_against_real_programs(game, spec, length):
    referee = load(game)
    engine = real_player(spec, referee)
    own = make_player("alphazero(simulations=16)", Settings(referee=referee))
    (opening,) = match.draw_openings(referee, pairs=1, length=length, seed=0)
    assert_full_games(referee, [own, engine], opening)


@pytest.mark.slow(minutes=2)
@pytest.mark.parametrize("game", ["chess", "gardner_chess", "go_9x9"])
def test_real_programs_play_each_other(game):
    """Long games of strong programs: the referee refuses none of their moves."""
    referee = load(game)
    specs = {
        "chess": ("stockfish(nodes=500)", "fairy_stockfish(nodes=500)"),
        "gardner_chess": ("fairy_stockfish(nodes=500)", "fairy_stockfish(nodes=50)"),
        "go_9x9": ("gnugo(level=1)", "gnugo(level=0)"),
    }[game]
    players = [real_player(spec, referee) for spec in specs]
    for opening in match.draw_openings(referee, pairs=3, length=2, seed=3):
        assert_full_games(referee, players, opening)


@pytest.mark.slow(minutes=2)
@pytest.mark.parametrize(
    ("game", "spec"),
    [
        ("gardner_chess", f"uci:{OWN} uci --game gardner_chess --simulations 16"),
        ("go_9x9", f"gtp:{OWN} gtp --agent uniform"),
        ("go_9x9", f"gtp:{OWN} gtp --agent alphazero --simulations 4"),
    ],
)
def test_our_engines_play_through_pipes(game, spec):
    referee = load(game)
    engine = make_player(spec, Settings(referee=referee, nodes=16), name="own")
    games = assert_full_games(referee, [engine, uniform("other", referee)], ())
    assert len(games) == 2


@pytest.mark.slow(minutes=2)
def test_another_library_drives_our_engine():
    """python-chess, which checks what engines say: options, a game, a mate, and an endless search
    that it stops."""
    command = [sys.executable, "-m", "experiments", "uci", "--game", "chess"]
    with chess.engine.SimpleEngine.popen_uci(command, timeout=240) as engine:
        assert {"Network", "Simulations", "Seed"} <= engine.options.keys()
        engine.configure({"Simulations": 8, "Seed": 3})
        board = chess.Board()
        for _ in range(8):
            limit = chess.engine.Limit(nodes=16)
            played = engine.play(board, limit, info=chess.engine.INFO_ALL)
            assert played.move in board.legal_moves
            assert played.info["nodes"] == 16
            assert abs(played.info["score"].white().score()) < 10_000
            assert played.info["pv"][0] == played.move
            board.push(played.move)

        mate = chess.Board("6k1/5ppp/8/8/8/8/8/R6K w - - 0 1")
        assert engine.play(mate, chess.engine.Limit(nodes=400)).move.uci() == "a1a8"

        with engine.analysis(mate) as analysis:
            time.sleep(2)
            analysis.stop()
            assert analysis.wait().move in mate.legal_moves
        assert engine.play(board, chess.engine.Limit(nodes=4)).move in board.legal_moves
