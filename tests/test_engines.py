"""Engines as players, and matches in which programs fail."""

import csv
import dataclasses
import errno
import fcntl
import io
import os
import resource
import shlex
import subprocess
import sys
import time
from unittest import mock

import chex
import numpy as np
import pytest
from flax import nnx

from experiments import cli
from experiments.commands import engine_games, engine_match
from experiments.engines import match, networks, pair_queue
from experiments.engines.game import GameRecord, play_game
from experiments.engines.gtp_engine import GtpEngine
from experiments.engines.named_players import Settings, make_player
from experiments.engines.own_agents import OwnAgent
from experiments.engines.player import Turn
from experiments.engines.program import Program, ProgramError
from experiments.engines.referee import load
from experiments.engines.thinkers import uniform_action
from experiments.engines.uci_engine import UciEngine, spin_range
from experiments.harness import elo, results
from experiments.harness.network_files import write_network
from experiments.harness.runs import Run, RunArguments
from experiments.perfect_information import sog_board_games, sog_connect_four
from experiments.perfect_information.student import NETWORK_FIELDS
from jaxgames.adapters import gtp_moves
from nets import cvpn, parameters, position_network, value_prior

FAKE = f"{shlex.quote(sys.executable)} {__file__.replace('test_engines', 'fake_engine')}"


def fake(protocol, behaviour, word="", **seconds):
    """A player that is the program `fake_engine.py`."""
    command = [*shlex.split(FAKE), protocol, behaviour, *word.split()]
    if protocol == "gtp":
        return GtpEngine(f"fake {behaviour}", command, size=9, komi=7.5, **seconds)
    return UciEngine(f"fake {behaviour}", command, nodes=1, **seconds)


def uniform(name, referee):
    return OwnAgent(name, referee, uniform_action)


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
        ("gardner_chess", "uci:engine 'x", 'player "uci:engine \'x": No closing quotation'),
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


@pytest.mark.parametrize(
    ("agent", "new", "kind"),
    [
        ("alphazero", value_prior.new_value_prior, {}),
        ("student_of_games", position_network.new_position_network, {"network": "position"}),
        ("student_of_games", cvpn.new_cvpn, {}),  # runs before there was another kind
    ],
)
def test_networks_are_read_from_the_folder_of_a_run(agent, new, kind, tmp_path):
    game = load("gardner_chess").game
    sizes = {"width": 8, "depth": 1, "torso": "mlp", "dtype": "float32"}
    read = networks.load_value_prior if agent == "alphazero" else networks.load_cvpn
    _, params = nnx.split(new(game, seed=5, **sizes))
    path = tmp_path / "networks" / "0.npz"
    path.parent.mkdir()
    results.write_file(path, parameters.to_bytes(params))
    fields = {"experiment": "training", "preset": "smoke", "command": "none", "numbers": ()}
    usage = results.Usage()
    results.write_result(tmp_path, results.make_result(config=sizes | kind, usage=usage, **fields))
    _, found = read(path, game)
    chex.assert_trees_all_equal(found, params)
    make_player(f"{agent}(network={path})", Settings(referee=load("gardner_chess")))
    with pytest.raises(ValueError, match=r"\.npz does not fit pgx:go_9x9: parameter "):
        read(path, load("go_9x9").game)


TRAININGS = {
    "connect_four": sog_connect_four.PRESETS["smoke"],
    "gardner_chess": sog_board_games.PRESETS["smoke"]["gardner_chess"],
}


@pytest.mark.parametrize("name", TRAININGS)
def test_a_network_in_training_has_the_temperature_of_its_training(name, tmp_path):
    """Of the prior; the run has no result yet."""
    game, config = load(name).game, dataclasses.replace(TRAININGS[name], temperature=1.25)
    arguments = mock.Mock(spec=RunArguments, out=tmp_path, preset="smoke")
    arguments.resume = arguments.overwrite = False
    run = Run(arguments, config, experiment="training", command="none")
    sizes = {name: getattr(config, name) for name in NETWORK_FIELDS}
    _, params = nnx.split(position_network.new_position_network(game, seed=5, **sizes))
    write_network(run, "0", params)
    evaluate, _ = networks.load_cvpn(tmp_path / "networks" / "0.npz", game)
    assert evaluate.temperature == 1.25


def test_networks_in_files_are_rounded(tmp_path):
    """To 11 binary digits, where the factors of products are rounded to eight."""
    game = load("gardner_chess").game
    _, params = nnx.split(cvpn.new_cvpn(game, seed=5, width=8, depth=1))
    write_network(mock.Mock(spec=Run, out=tmp_path), "0", params)
    path = tmp_path / "networks" / "0.npz"
    assert {array.dtype for array in np.load(path).values()} == {np.dtype("float16")}
    back = parameters.from_bytes(path.read_bytes(), params)
    chex.assert_trees_all_equal_dtypes(back, params)
    chex.assert_trees_all_close(back, params, rtol=2**-11, atol=1e-7)


def test_a_program_that_is_missing_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *args, **kwargs: None)
    with pytest.raises(ValueError, match="'gnugo' is not installed: apt install gnugo"):
        make_player("gnugo", Settings(referee=load("go_9x9")))


def test_openings_lead_to_different_positions():
    """In Connect Four the order of moves may not matter."""
    referee = load("connect_four")
    openings = match.draw_openings(referee, pairs=60, length=3, seed=0)
    boards = {referee.picture(referee.played(moves, referee.start)) for moves in openings}
    assert len(boards) == len(openings) == 60
    assert openings[:5] == match.draw_openings(referee, pairs=5, length=3, seed=0)


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
        (("--move_seconds", "inf"), "move_seconds=inf must be above 0, and at most 1,000,000"),
        (("--opening_moves", "-1"), "opening_moves=-1 must be at least 0"),
        (("--opening_moves", "1", "--pairs", "83"), "there are too few different openings"),
    ],
)
def test_bad_matches_are_refused(options, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(match, "_TRIES", 3)
    assert run_match(tmp_path, *options) == 2
    assert message in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]  # and a corrected command begins there


def test_a_match_is_not_resumed_with_another_network(tmp_path):
    path = tmp_path / "0.npz"
    player = f"alphazero(simulations=3,network={path})"
    arguments = engine_match.Arguments(game="go_9x9", a=player, b="uniform", out=tmp_path)

    def config():
        return engine_games.recorded(engine_match.Config, arguments, (player, "uniform"))

    path.write_bytes(b"a")
    first = config()
    assert (first.a, first.pairs) == (player, 10)
    assert config() == first
    path.write_bytes(b"b")
    assert dataclasses.replace(config(), networks_checksum=first.networks_checksum) == first
    assert config() != first


@pytest.mark.parametrize("lacks", [errno.EMFILE, errno.ENOMEM])
def test_what_this_machine_lacks_is_no_loss_of_a_program(lacks, monkeypatch):
    def popen(*args, **kwargs):
        raise OSError(lacks, "why")

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(OSError, match="why"):
        Program(["engine"])
    lacks = errno.ENOENT  # the program's own fault
    with pytest.raises(ProgramError, match=r"cannot be started \(engine\): why"):
        Program(["engine"])


def test_programs_have_files_for_their_errors_whatever_their_names_are(tmp_path):
    referee = load("go_9x9")
    settings = Settings(referee=referee, start_seconds=20.0, errors=tmp_path)
    names = [f"gtp:{FAKE} gtp answers pass {'x' * 300}{end}" for end in "ab"]
    players = [make_player(name, settings) for name in names]
    games = match.play_pair(referee, players, opening=(), seed=0)
    for player in players:
        player.close()
    assert [game.fault for game in games] == [None, None]
    assert len([*tmp_path.iterdir()]) == 2


def test_pipes_are_waited_for_however_many_there_are():
    """`select.select` takes no file descriptors from 1,024 on."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    program = Program([*shlex.split(FAKE), "gtp", "answers", "pass"])
    try:
        high = fcntl.fcntl(program._process.stdout, fcntl.F_DUPFD_CLOEXEC, 2000)
        program._process.stdout.close()
        program._process.stdout = os.fdopen(high, "rb", buffering=0)
        program.send("name")
        assert program.receive(time.monotonic() + 20, "name").startswith("=")
    finally:
        program.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


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


def test_elo_of_a_single_pair_is_as_wide_as_its_share_says():
    numbers = {n.name: n for n in match.numbers(("a", "b"), [[record(1.0), record(0.0)]])}
    share, found = numbers["share of points"], numbers["Elo difference"]
    assert (share.low, share.high) == pytest.approx((0.75 * 0.05, 0.75 + 0.25 * 0.95))
    assert found.low == pytest.approx(elo.difference(share.low))
    assert found.high == pytest.approx(elo.difference(share.high))


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


def test_an_engine_that_waits_for_a_line_ends_when_it_is_asked():
    command = [sys.executable, "-m", "experiments", "uci", "--game", "gardner_chess"]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with subprocess.Popen(command, cwd=results.ROOT, text=True, **pipes) as engine:
        engine.stdin.write("uci\n")
        engine.stdin.flush()
        while engine.stdout.readline().strip() != "uciok":
            assert engine.poll() is None
        engine.terminate()
        assert engine.wait(timeout=60) == 130
        assert engine.stderr.read().split() == ["interrupted"]
