"""The benchmark of steps of chess and Go."""

import pytest

from experiments import benchmarks
from experiments.benchmarks import board_steps
from experiments.benchmarks.reports import Row
from experiments.harness import results


def run_of(rates=(1.0,), positions=(3.0,)):
    samples = [{"rate": rate, "cores": 1.0, "others": 0.0} for rate in rates]
    return {"samples": samples, "positions": [*positions], "failure": None}


def test_numbers_are_speeds_and_how_they_compare():
    rows = [
        Row(task="chess", program=program, runs=[run_of([scale * x for x in (1.0, 2.0, 4.0)])])
        for program, scale in (("ours", 30), ("pgx", 10))
    ]
    found = {
        number.name: number for number in board_steps.numbers(board_steps.PRESETS["smoke"], rows)
    }
    assert found["pgx:chess"].value == 20
    ratio = found["ours / pgx:chess"]
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((0.75, 3, 12))


@pytest.mark.slow
def test_gardner_chess_is_measured(tmp_path):
    benchmarks.run("board_steps", tmp_path, preset="smoke")
    result = results.read_result(tmp_path / "result.json")
    for program in board_steps.PROGRAMS:
        speed = result.number(f"{program}:gardner_chess")
        assert 0 < speed.low <= speed.value <= speed.high


def test_other_positions_than_pgxs_are_refused(monkeypatch, tmp_path):
    answers = iter([run_of(positions=(3.0, 4.0)), run_of(positions=(3.0, 5.0))])
    monkeypatch.setattr(board_steps, "measure_in_process", lambda *_, **__: next(answers))
    with pytest.raises(ValueError, match="gardner_chess: ours and pgx come to different positions"):
        benchmarks.run("board_steps", tmp_path, preset="smoke")


def test_unknown_tasks_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown task 'shogi'"):
        benchmarks.run("board_steps", tmp_path / "out", preset="smoke", tasks=("shogi",))
    assert not (tmp_path / "out").exists()
