"""The experiments `sog_glasses` and `sog_district`."""

import types
from unittest import mock

import pytest

from experiments import cli
from experiments.harness import results
from experiments.harness.runs import Run
from experiments.student_of_games import training_curve


def test_other_settings_of_the_search_are_measured_at_the_end_of_training(monkeypatch):
    measured = []

    class Student:
        trainee = types.SimpleNamespace(params=None)

        def __init__(self, run):
            pass

        def measure_at(self, step, *how, **named):
            measured.append(step)
            return []

    monkeypatch.setattr(training_curve, "_Student", Student)
    config = types.SimpleNamespace(measured_at=(0, 5, 9), smoothing=0.5, variants=("other",))
    training_curve.compute(mock.Mock(spec=Run, config=config))
    assert measured == [0, 5, 9, 9]


@pytest.mark.slow
def test_training_on_a_small_map(tmp_path):
    assert cli.main(["sog_glasses", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    result = results.read_result(tmp_path / "result.json")
    assert [number.name for number in result.numbers] == [
        "untrained SoG(4,1)",
        "SoG(4,1)",
        "ours: SoG(4,1), half-uniform ranges",
        "ours: SoG(4,1), half-uniform ranges, exploration 3, own decisions only",
    ]
    assert any("with results in sight" in text for text in result.deviations)
    assert all(number.unit == "utility" and 0 <= number.value <= 2 for number in result.numbers)


@pytest.mark.slow
def test_training_on_a_small_district(tmp_path):
    assert cli.main(["sog_district", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    result = results.read_result(tmp_path / "result.json")
    assert [number.name for number in result.numbers] == ["untrained SoG(4,1)", "SoG(4,1)"]
    assert all(number.unit == "utility" and 0 <= number.value <= 2 for number in result.numbers)
