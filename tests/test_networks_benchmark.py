"""The benchmark of networks by the precision of their factors."""

import numpy as np
import pytest

from experiments import benchmarks
from experiments.benchmarks import networks
from experiments.benchmarks.reports import Row
from experiments.harness import results


def test_numbers_are_speeds_and_how_they_compare():
    rows = [
        Row(
            task="Go",
            program=f"{kind}, {dtype}",
            runs=[{"rounding": 0.01, "samples": [{"rate": scale * x} for x in (1.0, 2.0, 4.0)]}],
        )
        for dtype, scale in (("float32", 10), ("bfloat16", 30))
        for kind in networks.KINDS
    ]
    numbers = networks.numbers(networks.PRESETS["smoke"], rows)
    found = {number.name.removesuffix(":Go"): number for number in numbers}
    assert found["evaluations, float32"].value == 20
    ratio = found["gradients, bfloat16 / float32"]
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((0.75, 3, 12))
    assert found["rounding, bfloat16"].value == 0.01


def test_operations_are_two_for_each_weight_and_field():
    torso = networks.TASKS["small"].build("float32")
    blocks = 9 * 2 * 4 + 2 * 9 * 4 * 4 + 4 * 4  # weights of all convolutions
    assert networks.operations_of(torso) == 2 * 9 * blocks + 2 * 36 * 4
    dense = networks.TASKS["London, 6 layers of 512"].build("bfloat16")
    assert networks.operations_of(dense) == 2 * (1223 * 512 + 5 * 512 * 512)


@pytest.mark.slow
def test_a_small_torso_is_measured(tmp_path):
    benchmarks.run("networks", tmp_path, preset="smoke")
    result = results.read_result(tmp_path / "result.json")
    for kind in networks.KINDS:
        for dtype in networks.DTYPES:
            speed = result.number(f"{kind}, {dtype}:small")
            assert 0 < speed.low <= speed.value <= speed.high
    assert 0 < result.number("rounding, bfloat16:small").value < 0.05


def test_outputs_that_differ_are_refused(monkeypatch, tmp_path):
    samples = [{"rate": 1.0, "cores": 1.0, "others": 0.0}]
    run = {kind: samples for kind in networks.KINDS} | {"rounding": np.nan, "failure": None}
    monkeypatch.setattr(networks, "measure_in_process", lambda *_, **__: run)
    with pytest.raises(ValueError, match="small: outputs of float32 are nan of their norm away"):
        benchmarks.run("networks", tmp_path, preset="smoke")


def test_unknown_tasks_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown task 'chess'"):
        benchmarks.run("networks", tmp_path / "out", preset="smoke", tasks=("chess",))
    assert not (tmp_path / "out").exists()
