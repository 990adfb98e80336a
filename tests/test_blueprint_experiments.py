"""The experiments on blueprints, at their smallest."""

import pytest
from experiment_cases import smoke_run

from experiments import cli
from experiments.blueprints import blueprint_limit
from solvers.blueprint.blueprint import read_blueprint


@pytest.mark.slow
def test_blueprint_two_rounds_smoke(tmp_path):
    result = smoke_run("blueprint_two_rounds", tmp_path)
    assert {n.name for n in result.numbers} >= {"CFR:169/percentile:20", "CFR-BR:169/percentile:20"}


@pytest.mark.slow
def test_blueprint_limit_smoke(tmp_path):
    result = smoke_run("blueprint_limit", tmp_path / "one")
    value, exploitability, local = result.numbers
    assert value.low < value.value < value.high
    assert exploitability.value > 0
    assert local.low < exploitability.value, "the local best response wins more than the best one"
    name = "169-percentile-20"
    blueprint, poker = read_blueprint(tmp_path / "one" / "blueprints" / name)
    assert poker == blueprint_limit.PRESETS["smoke"].game
    assert blueprint.buckets.num_buckets == (169, 20)
    assert (tmp_path / "one" / "grids" / f"dealer-{name}.png").exists()


def test_options_of_blueprint_limit(tmp_path, capsys):
    preset = blueprint_limit.PRESETS["cpu"]
    options = blueprint_limit.Options(out=tmp_path, abstraction="169/all:1", boards=4_000)
    config = blueprint_limit.configure(preset, options)
    assert config.abstractions == ("169/all:1",)
    assert config.at == (1_000, 2_000, 4_000)
    for words, message in (
        (("--boards", "3"), "boards=3 must be a multiple of 2"),
        (("--abstraction", "169/emd:5"), "kind 'emd' of buckets must be one of"),
    ):
        assert cli.main(["blueprint_limit", *words, "--out", str(tmp_path / "bad")]) == 2
        assert message in capsys.readouterr().err
