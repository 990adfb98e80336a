"""The experiments `depth_limited_nlfh` and `leaf_values_dnn`."""

import os
import pathlib
import subprocess
import sys

import pytest
from experiment_cases import smoke_run

from experiments.harness import results


@pytest.mark.slow
def test_a_run(tmp_path):
    """All answers lose something, and the paper's numbers stand beside them."""
    result = smoke_run("depth_limited_nlfh", tmp_path)
    uncertain = result.number("without values:uncertainty of the game's value").value
    assert 0 <= uncertain < 50
    for name in (
        "without values:translation",
        "without values:in-abstraction",
        "values=1:plain",
        "values=2:ours, capped",
        "values=2:ours, with gifts",
        "values=2:ours, weakened, with gifts",
    ):
        assert 0 < result.number(name).value < 500
    assert result.number("without values:translation").paper == 9.63
    assert result.number("values=2:plain").paper == 5.3
    assert all(number.paper is None for number in result.numbers if "ours" in number.name)
    assert result.number("sequences:all after the bet, against the first street").value > 10
    assert len((tmp_path / "curve.csv").read_text().splitlines()) == 1 + 4 + 2 * 6


@pytest.mark.slow
def test_a_run_on_two_devices(tmp_path):
    """The large solves are spread over both; rounding may choose other equilibria."""
    out = tmp_path / "out"
    run = "-m experiments depth_limited_nlfh --preset smoke --out"
    subprocess.run(
        [sys.executable, *run.split(), out],
        env=os.environ
        | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(pathlib.Path(__file__).parent.parent)}
        | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        check=True,
        timeout=600,
    )
    result = results.read_result(out / "result.json")
    assert 0 < result.number("without values:blueprint in its abstraction").value < 25
    assert 0 <= result.number("without values:uncertainty of the game's value").value < 25


@pytest.mark.slow
def test_a_run_with_learned_values(tmp_path):
    """The loss falls with the number of examples, of held-out triples and of whole leaves."""
    result = smoke_run("leaf_values_dnn", tmp_path)
    for held_out in ("triples", "leaves"):
        few, many = (
            result.number(f"held-out {held_out}, {count:,} examples") for count in (1000, 10_000)
        )
        assert many.value < 0.5 * few.value
    assert many.low < many.value < many.high  # over the parts of the leaves
    for name in ("exact values", "network", "values on 1 boards"):
        assert result.number(name).value >= 0
