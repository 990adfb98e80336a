"""Ladders of engines: ratings, workers, and runs that are interrupted or killed."""

import csv
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

import pytest

from experiments import cli
from experiments.engines import match, pair_queue, tournament
from experiments.harness import results

FAKE = f"{shlex.quote(sys.executable)} {pathlib.Path(__file__).parent / 'fake_engine.py'}"
PASSES, RESIGNS = (f"gtp:{FAKE} gtp answers {word}" for word in ("pass", "resign"))
PLAYERS = [RESIGNS, PASSES, PASSES]
MIXED = [RESIGNS, PASSES, "uniform"]  # the last two play long games


def words_of(out, *options, players=PLAYERS, pairs=4):
    """A command line. White wins if both pass; who resigns loses all games."""
    words = ["engine_ladder", "go_9x9", *players, "--pairs", str(pairs), "--opening_moves", "2"]
    return [*words, *options, "--out", str(out)]


def run_ladder(out, *options, **common):
    return cli.main(words_of(out, *options, **common))


def read_games(out):
    with (out / "games.csv").open(newline="") as file:
        return [*csv.DictReader(file)]


def test_all_players_have_names_of_their_own():
    assert tournament.numbered(["uniform", "uci:e"]) == ["uniform", "uci:e"]
    names = tournament.numbered(["uci:e", "uci:e", "uci:e 1", "uci:e"])
    assert names == ["uci:e 2", "uci:e 3", "uci:e 1", "uci:e 4"]


def test_a_ladder_has_all_players(tmp_path, capsys):
    assert run_ladder(tmp_path) == 0
    games = read_games(tmp_path)
    assert len(games) == 3 * 4 * 2
    openings = [game["moves"].split()[:2] for game in games]
    assert openings[:8] == openings[8:16] == openings[16:]  # of each match
    names = tournament.numbered(PLAYERS)
    assert {game["first"] for game in games} == {*names}
    numbers = results.read_result(tmp_path / "result.json").numbers
    assert [number.value for number in numbers if number.name == f"faults of {names[0]}"] == [0]
    with (tmp_path / "ladder.csv").open(newline="") as file:
        rows = {row["player"]: row for row in csv.DictReader(file)}
    assert rows[names[0]]["points"] == "0.0"
    assert rows[names[1]]["points"] == rows[names[2]]["points"] == "12.0"
    assert [rows[name]["bound"] for name in names] == ["", ">=", ">="]
    assert ">=" in capsys.readouterr().out
    assert (tmp_path / "ladder.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_two_workers_play_the_same_games(tmp_path, monkeypatch):
    """And an interruption changes nothing."""
    words, part = ("--workers", "2"), tmp_path / "part"
    common = dict(players=MIXED, pairs=3)
    assert run_ladder(tmp_path / "one", **common) == 0
    games = read_games(tmp_path / "one")
    assert run_ladder(tmp_path / "two", *words, **common) == 0
    assert read_games(tmp_path / "two") == games
    play_pair, calls = match.play_pair, []

    def interrupted(*args, **kwargs):
        if len(calls) < 6:
            return counted(*args, **kwargs)
        while len([*(part / "checkpoint").glob("pair_*.json")]) <= 2:
            time.sleep(0.01)
        raise KeyboardInterrupt

    def counted(*args, **kwargs):
        calls.append(args)
        return play_pair(*args, **kwargs)

    monkeypatch.setattr(pair_queue, "play_pair", interrupted)
    assert run_ladder(part, *words, **common) == 130
    played = len(read_games(part)) // 2
    assert 2 < played <= len(calls) == 6
    monkeypatch.setattr(pair_queue, "play_pair", counted)
    calls.clear()
    assert run_ladder(part, *words, "--resume", **common) == 0
    assert len(calls) == 9 - played
    assert read_games(part) == games


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--workers", "0"), "workers=0 must be at least 1"),
        (("--move_seconds", "0"), "move_seconds=0.0 must be above 0"),
    ],
)
def test_bad_options_are_refused(options, message, tmp_path, capsys):
    assert run_ladder(tmp_path, *options) == 2
    assert message in capsys.readouterr().err
    assert run_ladder(tmp_path, players=["uniform"]) == 2
    assert "must be at least two" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_games(tmp_path):
    """`kill -9` after some of the pairs, with two workers."""
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert run_ladder(whole, players=MIXED) == 0
    command = [sys.executable, "-m", "experiments", *words_of(part, players=MIXED)]
    process = subprocess.Popen(
        [*command, "--workers", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 300
    while len([*(part / "checkpoint").glob("pair_*.json")]) < 3:
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (part / "result.json").exists()
    assert run_ladder(part, "--workers", "2", "--resume", players=MIXED) == 0
    assert read_games(part) == read_games(whole)
