"""`solve_holdem` from the command line, on a river that is quickly solved."""

import csv
import json

import numpy as np
import pytest
import tyro

from experiments import cli
from experiments.commands import solve_holdem
from experiments.harness import results
from experiments.harness.hand_grid import of_classes
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.ranges import CLASSES
from solvers.holdem.holdem_solution import HoldemSolution

SPOT = {
    "--board": "Td9d6h Qc 2s",
    "--oop": "QQ,KJs,A5s",
    "--ip": "AQs,TT,87s:0.5",
    "--pot": "200",
    "--stack": "300",
    "--bets": "50%,allin",
    "--raises": "3x",
    "--target": "0.5%",
}


def run(out, *more, **changed):
    spot = SPOT | {f"--{name}": value for name, value in changed.items()}
    words = []
    for name, value in spot.items():
        words += [name, *([value] if isinstance(value, str) else value)]
    return cli.main(["solve_holdem", *words, "--out", str(out), *more])


def test_a_spot_solved(tmp_path, capsys, monkeypatch):
    assert run(tmp_path) == 0
    printed = capsys.readouterr().out
    assert "first: OOP" in printed
    assert "bet 100: IP" in printed
    result = results.read_result(tmp_path / "result.json")
    number = {each.name: each.value for each in result.numbers}
    assert number["ev_oop"] + number["ev_ip"] == pytest.approx(200, abs=1e-3)
    assert number["equity_oop"] + number["equity_ip"] == pytest.approx(1)
    assert number["exploitability"] < 1
    assert number["exploitability_pct_pot"] == pytest.approx(number["exploitability"] / 2)
    assert number["seconds_per_iteration"] > 0
    names = ("frequency_oop_check", "frequency_oop_bet_100", "frequency_oop_allin")
    assert sum(number[name] for name in names) == pytest.approx(1, abs=1e-5)
    with open(tmp_path / "strategy.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    whole = {}
    for row in rows:
        key = row["path"], row["hand"]
        whole[key] = whole.get(key, 0) + float(row["probability"])
    assert whole[("", "KsJs")] == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose([*whole.values()], 1, atol=1e-4)
    strategies = json.loads((tmp_path / "strategy.json").read_text())
    answer = strategies["bet 100"]
    assert (answer["player"], answer["pot"]) == ("ip", 300)
    assert answer["actions"] == ["fold", "call", "allin"]
    hand = next(iter(answer["hands"].values()))
    assert sum(hand["policy"]) == pytest.approx(1, abs=1e-5)
    assert {file.name for file in (tmp_path / "grids").iterdir()} >= {"root.png", "bet100.png"}
    assert (tmp_path / "grids" / "root.png").read_bytes().startswith(b"\x89PNG")
    solution = HoldemSolution.load(tmp_path / "solution.npz")
    assert solution.ev[0] == pytest.approx(number["ev_oop"], abs=1e-3)
    assert run(tmp_path) == 2  # the folder is taken
    assert "--resume" in capsys.readouterr().err
    monkeypatch.setattr(solve_holdem.hand_grid, "draw", lambda *_, **named: None)  # as above
    assert run(tmp_path, "--resume", target="0.3%") == 0  # goes on from there
    again = results.read_result(tmp_path / "result.json")
    assert again.number("iterations").value >= number["iterations"]
    assert run(tmp_path, "--resume", ip="AQs:0.5,TT,87s:0.5") == 2  # other ranges, the same tree
    assert "has fingerprint_of_ranges=" in capsys.readouterr().err
    assert results.read_result(tmp_path / "result.json") == again


def test_sizes_by_street_and_player():
    """Only all-in bets, except that the player in position may bet a third of the pot; of the
    stacks, the 300 chips count."""
    words = [word for option in SPOT.items() for word in option]
    words += ["--bets", "allin", "--raises", "", "--stack", "300", "5000", "--least-bet", "70"]
    words += ["--sizes", "ip bets 33%,allin", "river oop bets"]
    betting = solve_holdem.build(tyro.cli(solve_holdem.Arguments, args=words)).betting
    assert betting.actions[0] == ("check",)
    assert betting.actions[betting.child[0, 0]] == ("check", "bet 70", "allin")
    assert betting.paid.max() == 300


@pytest.mark.slow
def test_a_spot_in_half_the_bytes(tmp_path, capsys):
    assert run(tmp_path, "--storage", "int16") == 0
    result = results.read_result(tmp_path / "result.json")
    assert result.number("exploitability").value < 1
    assert result.config["storage"] == "int16"
    capsys.readouterr()
    assert run(tmp_path, "--resume") == 2
    assert "has dtype='float32 in int16', not 'float32'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_target_that_is_not_reached(tmp_path, capsys):
    assert run(tmp_path, "--iterations", "2", target="0.001") == 1
    assert "is not below the target of 0.001" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"board": "Td9d6hTd"}, "Td occurs twice in 'Td9d6hTd'"),
        ({"board": "Td9d"}, "must have 3 to 5 cards"),
        ({"oop": "QQ, KX"}, "KX"),
        ({"ip": "TdAh"}, "player 1's range is empty on this board"),
        ({"pot": "0"}, "pot=0 must be at least 1"),
        ({"stack": "-5"}, "stack=-5 must be at least 1"),
        ({"bets": "50"}, "size '50' must be like 50%, 3x, 2e, allin or any"),
        ({"bets": "2x"}, "is a multiple of a bet"),
        ({"stack": ("5", "0")}, "stack=0 must be at least 1"),
        ({"sizes": "turn bets 50%"}, "'turn bets 50%' must be for one of the streets river"),
        ({"sizes": "river 50%"}, "'river 50%' must be like 'turn oop bets 50%,allin'"),
        ({"target": "little"}, "target='little' must be a share of the pot (0.1%) or chips"),
        ({"target": "0"}, "target=0.0 must be positive"),
    ],
)
def test_bad_spots(tmp_path, capsys, changed, message):
    assert run(tmp_path / "new", **changed) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_classes_of_a_range():
    hands = np.sort([parse_cards(text) for text in ("AhAs", "AhAc", "KhQh", "KhQd")], axis=1)
    weights = np.array([1.0, 1.0, 0.5, 0.0])
    policy = np.array([[1.0, 0.0], [0.0, 1.0], [0.25, 0.75], [1.0, 0.0]])
    shares, filled = of_classes(hands, weights, policy)
    number = {name: place for place, name in enumerate(CLASSES)}
    np.testing.assert_allclose(shares[number["AA"]], [0.5, 0.5])
    np.testing.assert_allclose(shares[number["KQs"]], [0.25, 0.75])
    np.testing.assert_allclose(
        filled[[number["AA"], number["KQs"], number["KQo"], number["22"]]], [1, 0.5, 0, 0]
    )
