"""Engines as players, our agents as engines, and matches in which programs fail."""

import csv
import io
import re
import shlex
import sys
import time

import chex
import numpy as np
import pytest
from flax import nnx

from experiments import cli
from experiments.engines import match, networks, pair_queue, thinkers
from experiments.engines.game import GameRecord, play_game
from experiments.engines.gtp_engine import GtpEngine
from experiments.engines.gtp_server import GtpServer
from experiments.engines.named_players import Settings, make_player
from experiments.engines.player import OwnAgent, Turn, move_seed
from experiments.engines.program import find
from experiments.engines.referee import load
from experiments.engines.uci_engine import UciEngine, spin_range
from experiments.engines.uci_server import UciServer, centipawns
from experiments.harness import elo, results
from jaxgames.adapters import gtp_moves
from nets import cvpn, value_prior

FAKE = f"{shlex.quote(sys.executable)} {__file__.replace('test_engines', 'fake_engine')}"
OWN = f"{shlex.quote(sys.executable)} -m experiments"


def fake(protocol, behaviour, word="", **seconds):
    """A player that is the program `fake_engine.py`."""
    command = [*shlex.split(FAKE), protocol, behaviour, *word.split()]
    if protocol == "gtp":
        return GtpEngine(f"fake {behaviour}", command, size=9, komi=7.5, **seconds)
    return UciEngine(f"fake {behaviour}", command, nodes=1, **seconds)


def uniform(name, referee):
    return OwnAgent(name, referee, thinkers.Uniform(referee.game), simulations=1)


@pytest.fixture(autouse=True)
def _little_grace(monkeypatch):
    monkeypatch.setattr("experiments.engines.program._GRACE_SECONDS", 0.2)


FAULTS = [
    ("dies", "", "died with exit code 3"),
    ("hangs", "", "did not answer 'go nodes 1' in time"),
    ("chatters", "", "did not answer 'go nodes 1' in time"),
    ("writes a long line", "", "sent a line of more than 65536 bytes"),
    ("is silent", "", "did not answer 'uci' in time"),
    ("answers", "", "answered 'bestmove'"),
    ("answers", "zzz", "answered 'zzz', which is no move"),
]
DISAGREEMENTS = [  # no faults, but other rules than those of pgx
    ("answers", "a1a5", "played 'a1a5', which is illegal"),
    ("answers", "0000", "played '0000', which is illegal"),
    ("answers", "(none)", "says by 'bestmove (none)' that the game is over"),
]


def lost_for(games, engine):
    """Whether the engine lost both games by a fault, and whether by other rules than pgx's."""
    faults = {game.fault for game in games}
    disagreements = {(game.first_disagrees, game.second_disagrees) for game in games}
    assert faults <= {engine.name, None}
    assert disagreements <= {(False, False), (True, False), (False, True)}
    return faults == {engine.name}, disagreements == {(True, False), (False, True)}


@pytest.mark.parametrize(("behaviour", "word", "why"), FAULTS + DISAGREEMENTS)
def test_an_engine_that_fails_loses_and_the_match_goes_on(behaviour, word, why):
    referee = load("gardner_chess")
    limits = {"move_seconds": 0.3, "start_seconds": 0.3 if behaviour == "is silent" else 20.0}
    engine, other = fake("uci", behaviour, word, **limits), uniform("other", referee)
    games = match.play_pair(referee, [engine, other], opening=(), seed=0)
    engine.close()
    rules = (behaviour, word, why) in DISAGREEMENTS
    assert lost_for(games, engine) == (not rules, rules)
    assert [game.payoff for game in games] == [-1, 1]
    assert games[0].reason == games[1].reason == f"{engine.name} {why}"
    assert (games[0].moves, len(games[1].moves.split())) == ("", 1)


@pytest.mark.parametrize(
    ("behaviour", "word", "why"),
    [
        ("dies", "", "died with exit code 3"),
        ("writes garbage", "", "answered 'hello there' to 'known_command set_random_seed'"),
        ("komi", "", "refused 'komi 7.5': no"),
        ("answers", "I5", "played 'I5', which is illegal"),
        ("answers", "hello", "answered 'HELLO', which is no move"),
        ("answers", "resign", "resigns"),
        ("play", "", "refused 'play black D4': no"),
    ],
)
def test_a_gtp_engine_that_fails_loses(behaviour, word, why):
    referee = load("go_9x9")
    engine = fake("gtp", behaviour, word, start_seconds=20.0)
    players = [uniform("other", referee), engine]
    game = play_game(referee, players, opening=("D4", "E5", "D5"), seed=0)
    engine.close()
    assert game.reason.startswith(f"{engine.name} {why}")
    assert game.payoff == 1
    rules = word == "I5" or behaviour == "play"
    assert game.fault == (None if word == "resign" or rules else engine.name)
    assert (game.first_disagrees, game.second_disagrees) == (False, rules)


@pytest.mark.parametrize("seat", [0, 1])
def test_an_engine_that_repeats_a_board_disagrees(seat):
    """White sends two stones and takes one back, as other programs must not."""
    referee, moves = load("go_9x9"), ["A2", "C2", "B2", "D1", "J9", "B1", "J8", "A1", "C1"]
    engine = fake("gtp", "answers", "B1")
    players = [uniform("other", referee), uniform("another", referee)]
    players[seat] = engine
    game = play_game(referee, players, opening=moves if seat else [*moves, "B1"], seed=0)
    engine.close()
    assert game.payoff == 1
    words = f"; {engine.name} repeated a board, which loses by pgx's rules"
    assert game.reason == "repeated board" + words * seat
    assert (game.first_disagrees, game.second_disagrees, game.fault) == (False, bool(seat), None)


@pytest.mark.parametrize(
    ("score", "agrees"),
    [("B+73.5", True), ("b+73.50", True), ("B+72.5", False), ("W+7.5", False), ("0", False)],
)
def test_scores_are_compared_after_two_passes(score, agrees):
    """One black stone has all 81 points, of which white's komi is taken."""
    referee, engine = load("go_9x9"), fake("gtp", "scores", score)
    other = fake("gtp", "answers", "pass")
    black, white = match.play_pair(referee, [engine, other], opening=("D4",), seed=0)
    engine.close()
    other.close()
    for game, disagrees in ((black, (not agrees, False)), (white, (False, not agrees))):
        assert (game.payoff, game.fault) == (1, None)
        words = "" if agrees else f"; {engine.name} scores it '{score}', pgx B+73.5"
        assert game.reason == f"two passes{words}"
        assert (game.first_disagrees, game.second_disagrees) == disagrees
    numbers = {n.name: n.value for n in match.failures(["fake scores"], [[black, white]])}
    assert numbers == {
        "faults of fake scores": 0,
        "disagreements with fake scores": 0 if agrees else 2,
    }


@pytest.mark.parametrize(
    ("points", "score"), [(3.5, "B+3.5"), (-7.5, "W+7.5"), (0.0, "0"), (2.0, "B+2")]
)
def test_scores_are_those_of_gtp(points, score):
    assert gtp_moves.score(points) == score
    assert gtp_moves.points(score) == points
    assert gtp_moves.points("W+Resign") is None


def test_gtp_engines_play_a_game_to_its_end():
    referee, players = load("go_9x9"), [fake("gtp", "answers", "pass") for _ in range(2)]
    first = play_game(referee, players, opening=("D4",), seed=0)
    again = play_game(referee, players, opening=(), seed=0)
    for player in players:
        player.close()
    assert (first.moves, first.payoff, first.reason) == ("D4 pass pass", 1, "two passes")
    assert (again.moves, again.payoff, again.fault) == ("pass pass", -1, None)


@pytest.mark.parametrize("game", ["chess", "gardner_chess"])
def test_strength_by_elo_is_sent(game, tmp_path, monkeypatch):
    """The lines that the program gets, and the range that it tells itself."""
    lines = tmp_path / "lines"
    program = tmp_path / "stockfish"
    program.write_text(f"#!/bin/sh\nexec {FAKE} uci 'writes down' {lines}\n")
    program.chmod(0o755)
    monkeypatch.setattr("experiments.engines.named_players.find", lambda *_, **__: str(program))
    name, referee = ("stockfish" if game == "chess" else "fairy_stockfish"), load(game)
    player = make_player(f"{name}(nodes=7,elo=1400)", Settings(referee=referee))
    player.begin(3)
    assert player.choose(Turn(moves=("a2a3",), position=referee.start)) == "e2e4"
    player.close()
    variant = [] if game == "chess" else ["setoption name UCI_Variant value gardner"]
    assert lines.read_text().splitlines() == [
        *("uci", "uci", *variant),
        *("setoption name Threads value 1", "setoption name Hash value 16"),
        *("setoption name UCI_LimitStrength value true", "setoption name UCI_Elo value 1400"),
        *("setoption name Seed value 3", "ucinewgame", "isready"),
        *("position startpos moves a2a3", "go nodes 7", "quit"),
    ]
    for words, message in (
        ("elo=1320", "elo=1320 must be from 1350 to 2850"),
        ("elo=1400,skill=3", "skill=3 and elo=1400 exclude each other"),
        ("elo=many", "elo='many' must be of type int"),
    ):
        with pytest.raises(ValueError, match=message):
            make_player(f"{name}({words})", Settings(referee=referee))
    make_player(f"{name}(skill=3)", Settings(referee=referee))


def test_programs_without_an_option_are_named():
    with pytest.raises(ValueError, match="has no option UCI_Height"):
        spin_range([*shlex.split(FAKE), "uci", "answers"], "UCI_Height")
    with pytest.raises(ValueError, match="died with exit code 0"):
        spin_range([sys.executable, "-c", ""], "UCI_Elo")


def test_a_program_that_cannot_start_loses():
    referee = load("go_9x9")
    engine = GtpEngine("none", ["/no/such/program"], size=9, komi=7.5)
    game = play_game(referee, [engine, uniform("other", referee)], opening=(), seed=0)
    assert "none cannot be started (/no/such/program): No such file" in game.reason


@pytest.mark.parametrize(
    ("game", "spec", "message"),
    [
        ("go_9x9", "stockfish", "stockfish does not play go_9x9; allowed: chess"),
        ("go_9x9", "nobody", "unknown player 'nobody'"),
        ("go_9x9", "gnugo(level=11)", "level=11 must be from 0 to 10"),
        ("go_9x9", "gtp:no_such_program --x", "'no_such_program' is not installed"),
        ("gardner_chess", "uci:", "must be uci:COMMAND"),
        ("gardner_chess", f"gtp:{sys.executable}", "does not play gardner_chess"),
        ("gardner_chess", "alphazero(network=/none.npz)", "network=/none.npz must be a file"),
        ("gardner_chess", "alphazero(simulations=0)", "simulations=0 must be from 1 to 16384"),
    ],
)
def test_players_that_cannot_be_are_refused(game, spec, message, monkeypatch):
    monkeypatch.setattr("experiments.engines.named_players.find", found)
    with pytest.raises(ValueError, match=r".*") as error:
        make_player(spec, Settings(referee=load(game)))
    assert message in str(error.value)


def found(program, *, package=None):
    if program == "no_such_program":
        raise ValueError(f"the program {program!r} is not installed")
    return program


@pytest.mark.parametrize("agent", ["alphazero", "student_of_games"])
def test_networks_are_read_from_the_folder_of_a_run(agent, tmp_path):
    game, sizes = (
        load("gardner_chess").game,
        {"width": 8, "depth": 1, "torso": "mlp", "dtype": "float32"},
    )
    of_agent = {
        "alphazero": (value_prior.new_value_prior, networks.load_value_prior),
        "student_of_games": (cvpn.new_cvpn, networks.load_cvpn),
    }
    new, read = of_agent[agent]
    _, params = nnx.split(new(game, seed=5, **sizes))
    path = tmp_path / "networks" / "0.npz"
    path.parent.mkdir()
    results.write_file(path, cvpn.to_bytes(params))
    fields = {"experiment": "training", "preset": "smoke", "command": "none", "numbers": ()}
    usage = results.Usage()
    results.write_result(tmp_path, results.make_result(config=sizes, usage=usage, **fields))
    _, found = read(path, game)
    chex.assert_trees_all_equal(found, params)
    make_player(f"{agent}(network={path})", Settings(referee=load("gardner_chess")))
    with pytest.raises(ValueError, match="is no network for pgx:go_9x9"):
        read(path, load("go_9x9").game)


def test_a_program_that_is_missing_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *args, **kwargs: None)
    with pytest.raises(ValueError, match="'gnugo' is not installed: apt install gnugo"):
        make_player("gnugo", Settings(referee=load("go_9x9")))


def run_match(out, *options):
    """A match of two programs that pass."""
    player = f"gtp:{FAKE} gtp answers pass"
    words = ["engine_match", "go_9x9", player, player, "--pairs", "2", *options]
    return cli.main([*words, "--out", str(out)])


def read_games(out):
    with (out / "games.csv").open(newline="") as file:
        return [*csv.DictReader(file)]


def test_a_match_resumes_to_the_same_games(tmp_path, monkeypatch, capsys):
    """Games of a pair begin alike, with swapped colours; Ctrl-C after a pair changes nothing."""
    assert run_match(tmp_path / "whole") == 0
    games, play_pair = read_games(tmp_path / "whole"), match.play_pair
    openings = [game["moves"].split()[:4] for game in games]
    assert openings[0] == openings[1] != openings[2] == openings[3]
    assert [game["first"][-2:] for game in games] == [" 1", " 2"] * 2
    assert all(game["moves"].endswith(" pass pass") for game in games)
    assert not any(game["fault"] for game in games)

    def interrupted(*args, **kwargs):
        monkeypatch.setattr(pair_queue, "play_pair", stops)
        return play_pair(*args, **kwargs)

    def stops(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(pair_queue, "play_pair", interrupted)
    assert run_match(tmp_path / "part") == 130
    assert len(read_games(tmp_path / "part")) == 2
    monkeypatch.setattr(pair_queue, "play_pair", play_pair)
    assert run_match(tmp_path / "part", "--resume") == 0
    assert read_games(tmp_path / "part") == games
    numbers = results.read_result(tmp_path / "part" / "result.json").numbers
    assert sum(number.value for number in numbers[:3]) == 4
    assert "Elo difference" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--pairs", "0"), "pairs=0 must be at least 1"),
        (("--move_seconds", "0"), "move_seconds=0.0 must be above 0"),
        (("--opening_moves", "-1"), "opening_moves=-1 must be at least 0"),
        (("--opening_moves", "1", "--pairs", "83"), "there are too few different openings"),
    ],
)
def test_bad_matches_are_refused(options, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(match, "_TRIES", 3)
    assert run_match(tmp_path, *options) == 2
    assert message in capsys.readouterr().err


def record(payoff, fault=None):
    game = dict(first="a", second="b", opening=0, moves="", payoff=payoff, reason="", fault=fault)
    return GameRecord(**game)


@pytest.mark.parametrize(("games", "error"), [(200, 48), (800, 24)])
def test_elo_of_even_games_is_known_to_what_two_standard_errors_say(games, error):
    """Of the share of 200 games without draws they are 0.0693, which are 48 Elo."""
    drawn = np.random.default_rng(0).choice([-1.0, 1.0], (games // 2, 2))
    pairs = [[record(a), record(b)] for a, b in drawn]
    numbers = {number.name: number for number in match.numbers(("a", "b"), pairs)}
    share, found = numbers["share of points"].value, numbers["Elo difference"]
    assert found.value == pytest.approx(elo.difference(share))
    assert (found.high - found.low) / 2 == pytest.approx(error, rel=0.12)
    assert numbers["wins"].value + numbers["losses"].value == games
    assert share == pytest.approx(numbers["wins"].value / games)


def test_clean_sweeps_give_a_bound():
    """Of ten pairs: a share of 0.05^(1/10) = 0.741 would win them all in 5 % of matches."""
    won = [[record(1.0), record(-1.0, fault="b")]] * 10
    numbers = match.numbers(("a", "b"), won)
    assert match.elo_text(numbers) == ">= 183"
    assert next(n for n in numbers if n.name == "faults of b").value == 10
    lost = [[record(-1.0), record(1.0)]] * 10
    assert match.elo_text(match.numbers(("a", "b"), lost)) == "<= -183"
    even = [[record(1.0), record(1.0)]] * 10  # who begins wins
    # a quarter of all pairs may be otherwise: 1 - 0.05^(1/10)
    assert match.elo_text(match.numbers(("a", "b"), even)) == "+0 (-92 to +92)"


class Endless:
    """Thinks until it is stopped."""

    def __init__(self, game, network=None):
        self.legal = np.flatnonzero(game.start.pgx.legal_action_mask)

    def think(self, position, *, simulations, seed):
        for number in range(1, simulations + 1):
            time.sleep(0.005)
            action = int(self.legal[0])
            yield thinkers.Thought(simulations=number, action=action, value=0.5, line=(action,))


def uci(lines, monkeypatch=None, **options):
    """The answers to some lines.

    Among them are seconds to wait, as float, and numbers of `bestmove` to wait for, as int.
    """

    def slowly():
        for line in lines:
            if isinstance(line, float):
                time.sleep(line)
            elif isinstance(line, int):
                end = time.monotonic() + 5
                while str(said).count("bestmove") < line and time.monotonic() < end:
                    time.sleep(0.01)
            else:
                yield line

    said = []
    options = {"agent": "uniform", "write": said.append} | options
    UciServer("gardner_chess", **options).run(slowly())
    return said


def test_uci_tells_its_options():
    said = uci(["uci", "isready", "quit", "uci"], simulations=5)
    assert said[0].startswith("id name jaxgames")
    assert "option name Simulations type spin default 5 min 1 max 16384" in said
    assert "option name Network type string default <empty>" in said
    assert "option name UCI_Variant type combo default gardner var gardner" in said
    assert said[-2:] == ["uciok", "readyok"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("hello", "unknown command 'hello'"),
        ("position", "position '' must be startpos or fen ..."),
        ("position fen 8/8 w", "fen='8/8 w' must have six fields"),
        ("position startpos moves a2a3 a2a3", "move 'a2a3' is illegal"),
        ("setoption name Simulations value many", "Simulations=many must be a whole number"),
        ("setoption name Agent value nobody", "unknown agent 'nobody'"),
        ("setoption name Network value /none", "network=/none must be a file"),
        ("setoption name Colour value red", "unknown option 'Colour'"),
        ("setoption Agent", "setoption 'Agent' must be name ... value ..."),
        ("\x00\ufffd", "unknown command"),
    ],
)
def test_uci_answers_errors_and_changes_nothing(line, error):
    said = uci(["position startpos moves a2a3", line, "go", "quit"])
    assert said[0].startswith(f"info string error: {error}")
    (best,) = [words for words in said if words.startswith("bestmove")]
    assert best.split()[1][1] in "45"  # black moves


def test_uci_plays_its_own_moves():
    """Positions are followed move by move, and the same seed gives the same games."""
    referee, position, moves = load("gardner_chess"), load("gardner_chess").start, []
    while not referee.is_over(position) and len(moves) < 12:
        lines = [f"position startpos moves {' '.join(moves[:n])}" for n in (0, len(moves))]
        said = uci([*lines, "go nodes 3", "quit"], seed=4)
        assert said[-1] == uci([*lines[1:], "go nodes 3", "quit"], seed=4)[-1]
        moves.append(said[-1].split()[1])
        position = referee.after(position, referee.moves(position)[moves[-1]])
    assert " pv " in said[0]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("go nodes", "error: nodes= must be a whole number"),
        ("go nodes many", "error: nodes=many must be a whole number"),
        ("go nodes infinite", "error: nodes= must be a whole number"),
        ("go sideways nodes 3", "error: go: 'sideways' is not among nodes"),
        ("go nodes 0", "nodes must be from 1 to 16384: simulations of this search: 1"),
        ("go nodes 16385", "nodes must be from 1 to 16384: simulations of this search: 16384"),
        ("go nodes 9999999999", "nodes must be from 1 to 16384: simulations of this search: 16384"),
        ("go depth 5", "depth is not supported: simulations of this search: 800"),
        ("go mate 2 nodes 9", "mate is not supported: simulations of this search: 9"),
        ("go searchmoves a3a4 e1e5", "error: searchmoves: illegal are a3a4 e1e5"),
    ],
)
def test_uci_searches_whatever_is_wrong_with_go(line, answer):
    """A graphical interface waits for `bestmove`, and for one only."""
    said = uci([line, "stop", "position startpos moves a2a3", "go", "quit"])
    assert said[0].startswith(f"info string {answer}")
    best = [words.split()[1] for words in said if words.startswith("bestmove")]
    legal = load("gardner_chess").moves(load("gardner_chess").start)
    assert len(best) == 2
    assert best[0] in legal
    assert best[1][1] in "45"  # black moves


def test_uci_answers_go_where_no_search_is_possible():
    said = uci(["go", "go infinite", "quit"], network="/none")
    assert said[1::2] == ["bestmove (none)"] * 2
    assert said[0] == said[2]
    assert said[0].startswith("info string error: network=/none must be a file")
    mated = "position fen k4/1Q3/1K3/5/5 b - - 0 1"
    assert uci([mated, "go infinite searchmoves a5a4", "stop", "quit"]) == [
        "info string the game is over",
        "bestmove (none)",
    ]


@pytest.mark.parametrize("agent", ["uniform", "alphazero", "student_of_games"])
def test_uci_searches_some_moves_only(agent):
    """The illegal ones among them are named, and the limits after them count."""
    said = uci(["go searchmoves d2d3 e1e5 b2b3 nodes 20", "quit"], agent=agent)
    assert said[0] == "info string error: searchmoves: illegal are e1e5"
    assert said[-1].split()[1] in ("b2b3", "d2d3")
    seen = {uci([f"go searchmoves {move} nodes 4"], agent=agent)[-1] for move in ("b2b3", "e2e3")}
    assert seen == {"bestmove b2b3", "bestmove e2e3"}


class Recorder:
    """Notes what it is made with and asked for."""

    notes = []  # noqa: RUF012

    def __init__(self, game, network=None):
        self.legal, self.network = np.flatnonzero(game.start.pgx.legal_action_mask), network

    def think(self, position, *, simulations, seed):
        self.notes.append((self.network, simulations, seed))
        action = int(self.legal[0])
        yield thinkers.Thought(simulations=simulations, action=action, value=0.0, line=(action,))


def test_uci_options_change_the_search(monkeypatch, tmp_path):
    monkeypatch.setitem(thinkers.THINKERS, "uniform", Recorder)
    monkeypatch.setattr(Recorder, "notes", notes := [])
    network = tmp_path / "0.npz"
    network.touch()
    changes = ("Simulations value 7", "Seed value 2", f"network value {network}")
    lines = ["go", *(line for change in changes for line in (f"setoption name {change}", "go"))]
    said = uci([*lines, "setoption name Network value <empty>", "go", "go nodes 9", "quit"])
    assert not [line for line in said if "error" in line]
    first, second = move_seed(0, 0), move_seed(2, 0)
    assert notes == [
        *((None, 800, first), (None, 7, first), (None, 7, second), (network, 7, second)),
        *((None, 7, second), (None, 9, second)),
    ]
    assert first != second


def test_uci_begins_a_new_game():
    """Which is the first one again, as nothing but the seed and the position count."""
    game = ["position startpos moves a2a3", "go nodes 3"]
    once, fresh = uci([*game, "quit"], seed=5), ["ucinewgame", "isready"]
    both = uci([*fresh, *game, *fresh, "position startpos", "go", *fresh, *game, "quit"], seed=5)
    best = [line for line in both if line.startswith("bestmove")]
    assert best[0] == best[2] == once[-1] != best[1]
    assert both.count("readyok") == 3


def test_uci_is_stopped_between_the_pieces_of_a_search(monkeypatch):
    monkeypatch.setitem(thinkers.THINKERS, "uniform", Endless)
    begin = time.monotonic()
    said = uci(["go infinite", 0.1, "isready", 0.1, "stop", "go movetime 100", "isready", 0.3])
    assert time.monotonic() - begin < 2
    assert [line for line in said if not line.startswith("info")] == [
        "readyok",
        "bestmove a2a3",
        "readyok",
        "bestmove a2a3",
    ]
    assert all(f" score cp {centipawns(0.5)} " in line for line in said if line[:4] == "info")
    said = uci(["go infinite", 0.1, "position startpos moves a2a3", "foo", "quit"])
    assert said[-2:] == ["bestmove a2a3", "info string error: unknown command 'foo'"]
    assert uci(["go wtime 3000 btime 9", "quit"])[-1] == "bestmove a2a3"


@pytest.mark.parametrize("limit", ["infinite", "nodes 16384"])
@pytest.mark.parametrize("end", ["stop", "quit"])
def test_uci_is_stopped_after_other_lines(limit, end, monkeypatch):
    """They wait, in their order, but for `isready`; a search of all nodes would take 80 seconds."""
    monkeypatch.setitem(thinkers.THINKERS, "uniform", Endless)
    begin = time.monotonic()
    lines = [f"go {limit}", 0.1, "debug on", "foo", "isready", "bar", 0.2, "isready", 0.1, end]
    said = uci([*lines, "isready", "quit"])
    assert 0.3 < time.monotonic() - begin < 5
    assert [line for line in said if not line.startswith("info depth")] == [
        *("readyok", "readyok", "bestmove a2a3"),
        *(f"info string error: unknown command {word!r}" for word in ("foo", "bar")),
        *(["readyok"] if end == "stop" else []),
    ]


def test_uci_ends_all_searches_that_were_asked_for_before_a_stop(monkeypatch):
    """But none that was asked for after it. The last one ends with the input."""
    monkeypatch.setitem(thinkers.THINKERS, "uniform", Endless)
    said = uci(["go infinite", "go infinite", "stop", 2, "go nodes 3", "go infinite"])
    best = [number for number, line in enumerate(said) if line == "bestmove a2a3"]
    assert len(best) == 4
    assert best[3] == len(said) - 1
    assert " nodes 1 " in said[best[1] - 1]
    assert " nodes 3 " in said[best[2] - 1]


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


def test_a_person_plays_against_an_engine(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("?\nI5\nd4\npass\n"))
    words = ["play", "go_9x9", "--agent", f"gtp:{FAKE} gtp answers pass", "--games", "1"]
    assert cli.main([*words, "--seat", "0"]) == 0
    said = capsys.readouterr().out
    assert "'i5' is no legal move" in said
    assert "answers pass: pass" in said.replace("\n", " ")
    assert "two passes\nYou win +1" in said
    assert cli.main([*words, "--opponent", "uniform", "--games", "4"]) == 2
    assert "see the command engine_match" in capsys.readouterr().err


REAL = [
    ("chess", "stockfish(nodes=50,skill=0)", 2),
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
    ],
)
def test_our_engines_play_through_pipes(game, spec):
    referee = load(game)
    engine = make_player(spec, Settings(referee=referee, nodes=16), name="own")
    games = assert_full_games(referee, [engine, uniform("other", referee)], ())
    assert len(games) == 2
