"""The benchmark of exact solutions of Scotland Yard on districts."""

import pytest

from experiments import benchmarks
from experiments.benchmarks import districts
from experiments.benchmarks.config_checks import cores
from experiments.benchmarks.reports import Row
from experiments.harness import results


def test_numbers_are_seconds_and_microseconds_by_node():
    """Two iterations a second of 5,000 nodes are 100 microseconds by node and iteration."""
    run = {"list_seconds": 1, "build_seconds": 2, "compile_seconds": 3, "solve_seconds": 4}
    run |= {
        "all_cores_seconds": 6,
        "iterations": 75,
        "nodes": 5000,
        "samples": [{"rate": x} for x in (1.0, 2.0, 4.0)],
    }
    row = Row(task="district", program="PCFR+", runs=[run])
    found = {number.name.removesuffix(":district"): number for number in districts.numbers(row)}
    values = {name: number.value for name, number in found.items()}
    assert values.pop(f"all, {cores()} cores") == 6
    seconds = {"list": 1, "build": 2, "compile": 3, "solve": 4, "all": 10, "iterations": 75}
    assert values == pytest.approx(seconds | {"node and iteration": 100})
    speed = found["node and iteration"]
    assert (speed.low, speed.high) == pytest.approx((50, 200))


@pytest.mark.slow
def test_a_small_map_is_solved(tmp_path):
    benchmarks.run("districts", tmp_path, preset="smoke")
    result = results.read_result(tmp_path / "result.json")
    parts = [
        result.number(f"{part}:glasses").value for part in ("list", "build", "compile", "solve")
    ]
    assert min(parts) > 0
    assert result.number("all:glasses").value == pytest.approx(sum(parts))
    speed = result.number("node and iteration:glasses")
    assert 0 < speed.low <= speed.value <= speed.high
    assert result.number("iterations:glasses").value % result.config["checked_after"] == 0


@pytest.mark.slow
def test_wrong_values_are_refused(monkeypatch):
    monkeypatch.setitem(districts.GAMES, "glasses", ("scotland_yard(map=glasses,rounds=2)", -0.5))
    job = {"game": "glasses", "exploitability": 0.1, "checked_after": 10}
    with pytest.raises(ValueError, match=r"is worth -0\.5 to Mr X, but"):
        districts.measure(job, lambda **numbers: None)


def test_unknown_games_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown game 'london'"):
        benchmarks.run("districts", tmp_path / "out", preset="smoke", games=("london",))
    assert not (tmp_path / "out").exists()
