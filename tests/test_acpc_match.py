"""Matches by the ACPC protocol: dealer and clients, duplicate deals, and clients that fail."""

import contextlib
import functools
import pathlib
import re
import shlex
import signal
import socket
import sys
import threading
import time
from unittest import mock

import jax.numpy as jnp
import numpy as np
import pytest

from experiments import cli
from experiments.acpc import agents, client, dealer, match_result
from experiments.acpc.connection import Connection
from experiments.acpc.dealer import Schedule
from experiments.commands import acpc
from experiments.harness import results
from jaxgames.holdem import acpc_protocol, hunl, limit_holdem
from jaxgames.holdem.acpc_protocol import VERSION, MatchState
from jaxgames.holdem.rules import CALL, Poker
from solvers.approximate_best_response.exact_chump_responses import chumps
from solvers.approximate_best_response.hand_policies import all_hands
from solvers.approximate_best_response.holdem_opponents import by_chump

NO_LIMIT = Poker(
    players=3,
    limit=False,
    stack=400,
    blinds=(50, 100, 0),
    first=(2, 0, 0, 0),
    raise_sizes=(),
    max_raises=(0, 0, 0, 0),
)


class Table:
    """A dealer that runs in the main thread, and clients that run in others."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.threads, self.outcomes = folder, [], {}
        monkeypatch.setattr(acpc, "print", self.said, raising=False)
        self.ports = {}

    def said(self, line, **_):
        if match := re.fullmatch(r"(\S+): 127\.0\.0\.1, port (\d+)", line):
            self.ports[match[1]] = int(match[2])

    def seat(self, name, play):
        """Lets `play(port)` be a client, once the dealer has said where it listens."""

        def run():
            while name not in self.ports:
                time.sleep(0.01)
            with contextlib.suppress(ConnectionError):
                self.outcomes[name] = play(self.ports[name])

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.threads.append(thread)

    def deal(self, command):
        """Deals a match; the exit code, the result and the lines of the log."""
        words = ["acpc", "dealer", *shlex.split(command), "--out", str(self.folder)]
        code = cli.main(words)
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()
        log = self.folder / "match.log"
        lines = log.read_text().splitlines() if log.exists() else []
        states = [line for line in lines if not line.startswith("#")]
        return code, results.read_result(self.folder / "result.json"), states


@pytest.fixture
def table(tmp_path, monkeypatch):
    return Table(tmp_path / "match", monkeypatch)


def agent_client(game, build, **options):
    """A client that plays an agent."""
    return lambda port: client.play(build(game, **options), game, host="127.0.0.1", port=port)


def raw_client(answer):
    """A client that sends `answer(line)` for each line that asks it, and nothing if that is None.

    Stops when the answer is an exception.
    """

    def play(port):
        asked = []
        with socket.create_connection(("127.0.0.1", port)) as connected:
            connected.sendall(f"{VERSION}\r\n".encode())
            for line in connected.makefile("r", newline="\r\n"):
                asked.append(line.removesuffix("\r\n"))
                if (text := answer(asked[-1])) is Exception:
                    break
                if text is not None:
                    connected.sendall(text.encode())
        return asked

    return play


def acts(game, line):
    """Whether a line asks its reader for an action."""
    state = acpc_protocol.parse_state(game, line)
    return int(acpc_protocol.poker_state(game, state).actor) == state.seat


def log_values(states):
    """Hand numbers, winnings and names of the lines of a log; the score."""
    hands = [line.split(":") for line in states if line.startswith("STATE")]
    rows = [
        dict(zip(parts[5].split("|"), map(float, parts[4].split("|")), strict=True))
        for parts in hands
    ]
    assert [int(parts[1]) for parts in hands] == list(range(len(hands)))
    return rows


def test_a_duplicate_match_of_two_players(table):
    """Cards that do not matter: each deal is won as often as lost, by whoever does the same."""
    game = limit_holdem()
    for name in ("ann", "bob"):
        table.seat(name, agent_client(game, agents.always_call))
    code, result, states = table.deal("limit_holdem --hands 12 --duplicate --names ann bob")
    assert code == 0
    rows = log_values(states)
    assert len(rows) == 12
    assert all(row["ann"] + row["bob"] == 0 for row in rows)
    assert any(row["ann"] for row in rows)
    first, again = rows[:6], rows[6:]
    assert [row["ann"] for row in first] == [row["bob"] for row in again]
    cards = [line.split(":")[3] for line in states[:-1]]
    assert cards[:6] == cards[6:]
    assert len({*cards}) == 6
    assert states[-1] == "SCORE:0|0:ann|bob"
    assert result.number("ann").value == result.number("ann").low == 0  # of whole deals
    assert result.number("hands").value == 12
    assert result.config["ended_early"] is None
    for name in ("ann", "bob"):
        assert table.outcomes[name] == client.Played(12, 0.0)


def test_an_unfinished_duplicate_match_counts_whole_deals():
    """The second half of the match has the deals of the first, with swapped seats."""
    schedule = Schedule(game=limit_holdem(), hands=6, seed=0, duplicate=True)
    won = {0: (10.0, 4.0), 1: (-20.0, 10.0), 2: (500.0,)}  # the last deal was played once
    hands = [
        dealer.DealtHand(deal=deal, line="", values=(chips, -chips))
        for deal, each in won.items()
        for chips in each
    ]
    clients = [
        dealer.Client(name, mock.create_autospec(Connection, instance=True))
        for name in ("ann", "bob")
    ]
    found = {each.name: each for each in match_result.numbers(schedule, clients, hands)}
    assert found["ann"].value == pytest.approx(100 * (7 - 5) / 2)
    assert found["ann"].low <= found["ann"].value <= found["ann"].high
    assert found["hands"].value == 5


def test_winnings_are_those_of_the_log(table):
    game = limit_holdem()
    table.seat("client_0", agent_client(game, agents.uniform, seed=1))
    table.seat("client_1", agent_client(game, agents.always_raise))
    code, result, states = table.deal("limit_holdem --hands 30 --seed 5")
    rows, won = log_values(states), {}
    assert code == 0
    for number, name in enumerate(("client_0", "client_1")):
        won[name] = sum(row[name] for row in rows)
        assert table.outcomes[name] == client.Played(30, won[name])
        assert result.number(name).value == pytest.approx(won[name] / 30 / 10 * 1000)
        assert result.number(f"corrected:{name}").value == 0
        assert states[-1].split(":")[1].split("|")[number] == f"{won[name]:g}"
    mean, samples = result.number("client_0"), [100 * row["client_0"] for row in rows]
    assert mean.high - mean.value == pytest.approx(2 * np.std(samples, ddof=1) / 30**0.5)


def test_policies_by_hand_play_matches(table):
    """One that always raises, by the weights of a chump, plays as the agent that always raises."""
    game = limit_holdem()
    policy = functools.partial(by_chump, game, chumps(game)["always raise"])
    table.seat("client_0", agent_client(game, agents.by_hand_policy, policy=policy))
    table.seat("client_1", agent_client(game, agents.always_raise))
    code, result, states = table.deal("limit_holdem --hands 3")
    assert code == 0
    assert all(line.split(":")[2] == "rrrc/rrrrc/rrrrc/rrrrc" for line in states[:-1])
    assert result.number("corrected:client_0").value == 0


def definition(folder):
    path = folder / "small.game"
    path.write_text(
        "GAMEDEF\nnolimit\nnumPlayers = 3\nnumRounds = 4\nstack = 400 400 400\n"
        "blind = 50 100 0\nfirstPlayer = 3 1 1 1\nnumSuits = 4\nnumRanks = 13\n"
        "numHoleCards = 2\nnumBoardCards = 0 3 1 1\nEND GAMEDEF\n"
    )
    assert acpc.poker_game(str(path)) == NO_LIMIT
    return path


@pytest.mark.slow
def test_a_duplicate_match_of_three_players(table, tmp_path):
    """Each client has each seat of each deal; clients that do the same win nothing in all."""
    for name in ("client_0", "client_1", "client_2"):
        table.seat(name, agent_client(NO_LIMIT, agents.always_raise))
    code, _, states = table.deal(f"{definition(tmp_path)} --hands 12 --duplicate")
    rows = log_values(states)
    assert code == 0
    assert len({line.split(":")[3] for line in states[:-1]}) == 4
    for deal in range(4):
        played = rows[deal::4]
        for name in ("client_0", "client_1", "client_2"):
            assert sum(row[name] for row in played) == pytest.approx(0, abs=1e-3)
    assert any(row["client_0"] for row in rows)
    assert re.fullmatch(r"SCORE:-?0\|-?0\|-?0:client_0\|client_1\|client_2", states[-1])


def test_seats_move_and_every_client_has_every_seat():
    schedule = Schedule(game=NO_LIMIT, hands=15, seed=0, duplicate=True)
    seats = {(hand % 5, schedule.clients(hand)) for hand in range(15)}
    assert len(seats) == 15
    assert [schedule.clients(hand) for hand in range(4)] == [
        (0, 1, 2),
        (1, 2, 0),
        (2, 0, 1),
        (0, 1, 2),
    ]
    deals = [schedule.deal(hand) for hand in range(15)]
    assert all(deals[hand].hole == deals[hand + 5].hole for hand in range(10))
    assert all(deals[hand].board == deals[hand + 5].board for hand in range(10))
    assert len({deal.hole for deal in deals}) == 5
    other = Schedule(game=NO_LIMIT, hands=15, seed=1, duplicate=True)
    assert other.deal(0).hole != deals[0].hole


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("r1", "r200"),  # the least raise
        ("r123456", "r20000"),  # the largest raise
        ("r", "c"),
        ("x", "c"),
        ("", "c"),
        ("c5", "c"),
    ],
)
def test_actions_that_are_not_legal_are_corrected(table, answer, wanted):
    """As by the ACPC's server: to the nearest raise, else to a call."""
    game = hunl()

    def bad(line):
        if acts(game, line):
            return f"{line}:{answer}\r\n" if line.split(":")[3] == "" else f"{line}:c\r\n"

    table.seat("client_0", agent_client(game, agents.always_call))
    table.seat("client_1", raw_client(bad))
    code, result, states = table.deal("hunl --hands 1")
    assert code == 0
    assert re.match(rf"STATE:0:{wanted}c/", states[0])
    assert result.number("corrected:client_1").value == 1
    assert result.number("corrected:client_0").value == 0


def test_folds_without_a_bet_are_calls(table):
    def folds(line):
        return f"{line}:f\r\n" if acts(limit_holdem(), line) else None

    table.seat("client_0", raw_client(folds))
    table.seat("client_1", agent_client(limit_holdem(), agents.always_call))
    code, result, states = table.deal("limit_holdem --hands 1")
    assert code == 0
    assert states[0].startswith("STATE:0:cc/cc/cc/cc:")
    assert result.number("corrected:client_0").value == 4


def test_comments_and_answers_to_earlier_states_are_skipped(table):
    game, before = limit_holdem(), []

    def chatty(line):
        before.append(line)
        if acts(game, line):
            return f"# thinking\r\n;\r\n\r\n{before[0]}:r\r\n{line}:c\r\n"

    table.seat("client_0", raw_client(chatty))
    table.seat("client_1", agent_client(game, agents.always_call))
    code, result, states = table.deal("limit_holdem --hands 2")
    assert code == 0
    assert all(":cc/cc/cc/cc:" in line for line in states[:-1])
    assert result.number("corrected:client_0").value == 0


def in_hand(number, text):
    """Calls in the hands before, and then does something else."""

    def answer(line):
        if not acts(limit_holdem(), line):
            return None
        return f"{line}:c\r\n" if int(line.split(":")[2]) < number else text

    return answer


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        (None, "--action_seconds 0.3", "took more than 0.3 s for an action"),
        (None, "--hand_seconds 0.3", "took more than 0.3 s for a hand"),
        ("#\r\n", "--action_seconds 0.3", "took more than 0.3 s for an action"),
        ("hello\r\n", "", "sent 'hello', which is no answer"),
        (
            "MATCHSTATE:0:0:cc:AhKd|:c\r\n",
            "",
            "sent 'MATCHSTATE:0:0:cc:AhKd|:c', which is no answer",
        ),
        ("\xff\xfe\r\n", "", "which is no answer"),
        ("x" * 70_000, "", "sent a line of more than 65536 bytes"),
        (Exception, "", "has closed the connection"),
    ],
    ids=["hangs", "hangs in a hand", "only comments", "greets", "wrong", "bytes", "long", "closes"],
)
def test_a_client_that_fails_ends_the_match(table, capsys, text, options, why):
    """With one line that says why; log and result have the hands until then."""
    table.seat("client_0", agent_client(limit_holdem(), agents.always_call))
    table.seat("client_1", raw_client(in_hand(2, text)))
    code, result, states = table.deal(f"limit_holdem --hands 5 {options}")
    assert code == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "ended" in line]
    assert line.startswith("the match ended after 2 of 5 hands: client_1 ")
    assert line.endswith(why)
    assert result.config["ended_early"].endswith(why)
    assert result.number("hands").value == 2
    rows = log_values(states)
    assert len(rows) == len(states) == 2  # no score
    won = sum(row["client_1"] for row in rows)
    assert result.number("client_1").value == pytest.approx(won / 2 / 10 * 1000)


@pytest.fixture
def heeds_ctrl_c():
    """A process that was started in the background ignores Ctrl-C, unless it says otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_keeps_the_hands_so_far(table, heeds_ctrl_c, capsys):
    def interrupts(line):
        if acts(limit_holdem(), line):
            if line.split(":")[2] == "1":
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                return None
            return f"{line}:c\r\n"

    table.seat("client_0", agent_client(limit_holdem(), agents.always_call))
    table.seat("client_1", raw_client(interrupts))
    code, result, states = table.deal("limit_holdem --hands 5")
    assert (code, len(states)) == (130, 1)
    assert result.config["ended_early"] == "Ctrl-C"
    assert result.number("hands").value == 1
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"VERSION:1.0.0\r\n", "client_0 sent 'VERSION:1.0.0' instead of VERSION:2.0.0"),
        (b"", "client_0 sent no version in 0.3 s"),
    ],
)
def test_clients_of_another_version_are_refused(table, capsys, sent, why):
    def play(port):
        with socket.create_connection(("127.0.0.1", port)) as connected:
            connected.sendall(sent)
            return connected.recv(100)

    table.seat("client_0", play)
    code, result, states = table.deal("limit_holdem --hands 5 --start_seconds 0.3")
    assert (code, states) == (1, [])
    assert f"after 0 of 5 hands: {why}" in capsys.readouterr().err
    assert result.number("hands").value == 0


def test_clients_that_do_not_connect_end_the_match(table, capsys):
    program = shlex.quote(f"{shlex.quote(sys.executable)} -c 'raise SystemExit(3)' {{port}}")
    code, _, _ = table.deal(f"limit_holdem --hands 5 --programs {program}")
    assert code == 1
    error = capsys.readouterr().err
    assert "client_0 ended with exit code 3 before it connected" in error
    table.folder = table.folder.with_name("other")
    code, _, _ = table.deal("limit_holdem --hands 5 --start_seconds 0.3")
    assert code == 1
    assert "client_0 did not connect in 0.3 s" in capsys.readouterr().err


PROGRAM = """
import socket, sys
connected = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connected.sendall(b"VERSION:2.0.0\\r\\n")
for line in connected.makefile():
    print(line.strip())
    connected.sendall(line.strip().encode() + b":c\\r\\n")
print("the end")
"""


def test_programs_are_started_and_ended(table, tmp_path):
    """A program that answers every line: those answers that nobody waits for are skipped."""
    (tmp_path / "calls.py").write_text(PROGRAM)
    program = shlex.quote(f"{shlex.quote(sys.executable)} {tmp_path / 'calls.py'} {{port}}")
    table.seat("client_1", agent_client(limit_holdem(), agents.always_call))
    code, result, states = table.deal(f"limit_holdem --hands 2 --programs {program}")
    assert code == 0
    assert all(":cc/cc/cc/cc:" in line for line in states[:-1])
    printed = (table.folder / "client_0.txt").read_text().splitlines()
    assert len(printed) == 2 * 9 + 1  # the states of both hands
    assert printed[-1] == "the end"
    assert result.config["programs"] == [shlex.split(program)[0]]


def test_a_program_that_is_not_there_leaves_nothing(table, capsys):
    words = ["acpc", "dealer", "limit_holdem", "--programs", "sleep {port}", "/no/program {port}"]
    assert cli.main([*words, "--out", str(table.folder)]) == 2
    assert "No such file or directory: /no/program" in capsys.readouterr().err
    assert [*table.folder.iterdir()] == []


def test_nothing_is_left_of_programs_that_hang(table, tmp_path, capsys):
    """Neither the program nor what it has started."""
    hangs = PROGRAM.partition("for line")[0] + (
        "import subprocess, time\n"
        "print(subprocess.Popen(['sleep', '1000']).pid, flush=True)\n"
        "time.sleep(1000)\n"
    )
    (tmp_path / "hangs.py").write_text(hangs)
    program = shlex.quote(f"{shlex.quote(sys.executable)} {tmp_path / 'hangs.py'} {{port}}")
    table.seat("client_1", agent_client(limit_holdem(), agents.always_call))
    code, _, _ = table.deal(f"limit_holdem --hands 2 --action_seconds 0.5 --programs {program}")
    assert code == 1
    assert "client_0 took more than 0.5 s for an action" in capsys.readouterr().err
    started = int((table.folder / "client_0.txt").read_text())
    for _ in range(100):  # whoever inherits it takes note of its end
        state = pathlib.Path(f"/proc/{started}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {started} still runs")


@pytest.mark.slow
def test_two_commands_play_a_match(table):
    program = shlex.quote(
        f"{shlex.quote(sys.executable)} -m experiments acpc client limit_holdem --agent uniform"
        " --port {port}"
    )
    code, _, states = table.deal(f"limit_holdem --hands 20 --programs {program} {program}")
    assert code == 0
    for number, won in enumerate(states[-1].split(":")[1].split("|")):
        printed = (table.folder / f"client_{number}.txt").read_text()
        assert printed == f"uniform: 20 hands, {float(won):+g} chips\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("limit_holdem --hands 0", "hands=0 must be at least 1"),
        ("limit_holdem --hands 3 --duplicate", "hands=3 must be a multiple of 2 players"),
        ("limit_holdem --seed -1", "seed=-1 must be from 0 to 4,294,967,295"),
        ("limit_holdem --action_seconds 0", "action_seconds=0.0 must be above 0"),
        ("limit_holdem --names a", "names=('a',) must be different names for 2 players"),
        ("limit_holdem --names a a", "must be different names"),
        ("limit_holdem --names a 'b|c'", "name 'b|c' must be letters, digits"),
        ("limit_holdem --ports 1 70000", "ports=(1, 70000) must be numbers from 0 to 65535"),
        ("limit_holdem --programs 'a {port}' b", "program 'b' must have {port}"),
        ("limit_holdem --programs a{port} a{port} a{port}", "must be at most 2"),
        ('limit_holdem --programs "a \'x {port}"', "is no command line: No closing quotation"),
        ("leduc_poker", "leduc_poker must be a game of poker"),
        ("poker(ranks=10)", "must be a full deck"),
    ],
)
def test_bad_input_is_refused(tmp_path, capsys, options, message):
    words = ["acpc", "dealer", *shlex.split(options), "--out", str(tmp_path / "match")]
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "match").exists()


def test_an_earlier_match_is_not_overwritten(tmp_path, capsys):
    (tmp_path / "match.log").write_text("precious")
    assert cli.main(["acpc", "dealer", "limit_holdem", "--out", str(tmp_path)]) == 2
    assert "holds an earlier run (match.log)" in capsys.readouterr().err
    assert (tmp_path / "match.log").read_text() == "precious"


def test_clients_report_what_is_wrong(capsys):
    assert cli.main(shlex.split("acpc client limit_holdem --agent nobody --port 1")) == 2
    assert "unknown agent 'nobody'" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert cli.main(shlex.split(f"acpc client limit_holdem --agent uniform --port {port}")) == 2
    assert "Connection refused" in capsys.readouterr().err


def dealt_by(lines, agent, game=None):
    """What happens to a client that is sent some lines by a dealer, which then hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connected, _ = server.accept()
            with connected:
                connected.sendall("".join(line + "\r\n" for line in lines).encode())
                connected.shutdown(socket.SHUT_WR)
                while connected.recv(1000):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            game = game or limit_holdem()
            return client.play(agent, game, host="127.0.0.1", port=server.getsockname()[1])
        finally:
            thread.join(10)


def test_a_client_names_what_a_dealer_does_wrong():
    with pytest.raises(ValueError, match="'hello' is not of the form MATCHSTATE"):
        dealt_by(["# a comment", "hello"], agents.always_call(limit_holdem()))
    with pytest.raises(ConnectionError, match="has ended the match within a hand"):
        dealt_by(["MATCHSTATE:0:0::AhKd|"], agents.always_call(limit_holdem()))
    with pytest.raises(ValueError, match="the agent's action 0 is not legal"):
        dealt_by(["MATCHSTATE:0:0:c:AhKd|"], lambda state: 0)
    over = ["MATCHSTATE:0:0::AhKd|", "MATCHSTATE:0:0:f:AhKd|"]
    assert dealt_by(over, agents.always_call(limit_holdem())) == client.Played(1, 5.0)


def state_of(hand, number=0):
    return MatchState(seat=0, hand=number, actions=(CALL,), hole=(hand, ()), board=())


def test_agents_by_hand_policies_play_the_row_of_their_hand():
    """Aces raise, all others check; hands may be written in any order."""
    game = limit_holdem()
    aces = (all_hands(game) // 4 == 12).all(axis=1)

    def policy(state):
        assert state.hole.shape == (2, 2)
        row = jnp.where(jnp.asarray(aces)[:, None], jnp.eye(3)[2], jnp.eye(3)[1])
        hidden = jnp.all(state.hole == -1) & (state.actor == 0)
        return jnp.where(hidden, row, jnp.eye(3)[0][None])

    agent = agents.by_hand_policy(game, policy)
    assert [agent(state_of(hand)) for hand in ((48, 51), (51, 48), (47, 51))] == [2, 2, 1]


def test_agents_by_hand_policies_draw_by_their_probabilities():
    game = limit_holdem()

    def policy(state):
        return jnp.tile(jnp.array([0.0, 0.25, 0.75]), (1326, 1))

    agent, again = (agents.by_hand_policy(game, policy, seed=3) for _ in range(2))
    drawn = [agent(state_of((0, 5), number)) for number in range(400)]
    assert drawn[:20] == [again(state_of((0, 5), number)) for number in range(20)]
    assert np.mean(np.array(drawn) == 2) == pytest.approx(0.75, abs=0.08)
    with pytest.raises(ValueError, match=r"shape \(3,\) in poker.*; allowed: \(1326, 3\)"):
        agents.by_hand_policy(game, lambda state: jnp.ones(3))(state_of((0, 5)))
