"""Our agents as UCI engines."""

import math
import re
import time

import numpy as np
import pytest

from experiments.engines import thinkers
from experiments.engines.player import move_seed
from experiments.engines.referee import load
from experiments.engines.uci_server import UciServer, centipawns, search_seconds


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


def test_a_game_that_goes_on_after_its_end_is_over():
    """A graphical interface may not know that pgx ends it; the position before is not searched."""
    mate = "position fen k4/5/K4/5/4R w - - 0 1 moves e1e5"
    said = uci([f"{mate} a5a4 e5a5", "go", f"{mate} a5a4 e5a5 a4a5", "go nodes 3", "quit"])
    over = "info string error: the game is over before"
    none = ["info string the game is over", "bestmove (none)"]
    assert said == [f"{over} a5a4: checkmate", *none, f"{over} a4a5: checkmate", *none]


@pytest.mark.parametrize("limit", ["infinite", "ponder"])
def test_an_endless_search_of_a_game_that_is_over_waits_for_stop(limit):
    said, before = [], []

    def lines():
        yield from ("position fen k4/1Q3/1K3/5/5 b - - 0 1", f"go {limit}")
        end = time.monotonic() + 60  # the rules are compiled first
        while not said and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)
        before.extend(said)
        yield from ("stop", "quit")

    UciServer("gardner_chess", agent="uniform", write=said.append).run(lines())
    assert not any("bestmove" in line for line in before)
    assert said[-1] == "bestmove (none)"


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


@pytest.mark.parametrize(
    "agent", ["uniform", "alphazero", pytest.param("student_of_games", marks=pytest.mark.slow)]
)
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


@pytest.mark.parametrize("first", ["Agent", "Network"])
def test_an_agent_and_its_network_are_set_one_after_the_other(first, monkeypatch, tmp_path):
    """In either order, though for a moment the network is of another agent."""

    def only_with(name):
        def make(game, network):
            if network.name != name:
                raise ValueError(f"network={network.name} is not of this agent")
            return Recorder(game, network)

        return make

    for name in ("alphazero", "student_of_games"):
        monkeypatch.setitem(thinkers.THINKERS, name, only_with(name))
        (tmp_path / name).touch()
    monkeypatch.setattr(Recorder, "notes", notes := [])
    values = {"Agent": "student_of_games", "Network": tmp_path / "student_of_games"}
    one, other = (
        f"setoption name {name} value {values[name]}" for name in sorted(values, key=first.__ne__)
    )
    said = uci(
        ["go", 1, one, "isready", "go", 2, other, "isready", "go", "quit"],
        agent="alphazero",
        network=str(tmp_path / "alphazero"),
    )
    errors = [line for line in said if "error" in line]
    assert len(errors) == 2  # of `isready` and `go` between the two
    assert all("is not of this agent" in line for line in errors)
    assert said.count("readyok") == 2
    assert [network.name for network, *_ in notes] == ["alphazero", *["student_of_games"] * 2]


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
    score = centipawns(0.5)
    form = re.compile(rf"info depth \d+ time (\d+) nodes (\d+) nps (\d+) score cp {score} pv\b.*")
    informed = [form.fullmatch(line) for line in said if line.startswith("info")]
    assert informed
    for milliseconds, nodes, speed in (map(int, found.groups()) for found in informed):
        low, high = (1000 * nodes / (milliseconds + off) for off in (0.5, -0.5))
        assert low - 1 <= speed <= high + 1
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


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        ({"wtime": 60_000, "btime": 9}, 2.0),
        ({"wtime": 60_000, "winc": 4_000, "binc": 9}, 4.0),
        ({"wtime": 1_000, "winc": 10_000}, 0.5),  # the increment is not there yet
        ({"wtime": -500, "winc": 10_000}, 0.0),
        ({"movetime": 250, "wtime": 60_000}, 0.25),
        ({"btime": 60_000}, math.inf),
        ({"infinite": 1, "wtime": 60_000}, math.inf),
    ],
)
def test_a_search_leaves_time_on_the_clock(limits, seconds):
    assert search_seconds(limits, white=True) == pytest.approx(seconds)
