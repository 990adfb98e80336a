"""`benchmark startup` on the help, which takes no time."""

import pytest

from experiments import benchmarks
from experiments.benchmarks import startup
from experiments.harness import results


def test_every_command_is_measured_cold_and_warm(tmp_path):
    benchmarks.run("startup", tmp_path, preset="smoke", commands=("help",))
    result = results.read_result(tmp_path / "result.json")
    assert result.experiment == "benchmark_startup"
    kinds = ("cold, wall", "cold, processor", "warm, wall", "warm, processor")
    names = [f"help:{kind}" for kind in kinds]
    assert [each.name for each in result.numbers] == names
    assert all(0 < each.low <= each.value <= each.high for each in result.numbers)
    assert (tmp_path / "benchmark.png").read_bytes().startswith(b"\x89PNG")


def test_a_command_that_fails_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(startup.COMMANDS, "kuhn", "--no_such_option")
    with pytest.raises(ValueError, match="kuhn failed"):
        benchmarks.run("startup", tmp_path, preset="smoke", commands=("kuhn",))
