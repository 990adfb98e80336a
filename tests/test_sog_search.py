"""The experiment `sog_search`: results, resumption."""

import dataclasses
import types
from unittest import mock

import numpy as np
import pytest

from experiments import cli
from experiments.harness import results
from experiments.harness.runs import Run
from experiments.student_of_games import sog_search


def run(arguments, folder):
    return cli.main(["sog_search", *arguments.split(), "--out", str(folder)])


@pytest.fixture
def small(monkeypatch):
    part = dataclasses.replace(
        sog_search.PRESETS["smoke"].parts["kuhn"],
        simulations=(4, 40),
        agents=("zero, own decisions only",),
    )
    config = dataclasses.replace(sog_search.PRESETS["smoke"], parts={"kuhn": part})
    monkeypatch.setitem(sog_search.PRESETS, "smoke", config)
    return part


@pytest.mark.slow
def test_an_interrupted_run_is_resumed(tmp_path, small, monkeypatch, capfd):
    measure = sog_search._PartLaboratory.measure

    def interrupted(laboratory, name, simulations):
        if simulations == 40:
            raise KeyboardInterrupt
        return measure(laboratory, name, simulations)

    with monkeypatch.context() as patch:
        patch.setattr(sog_search._PartLaboratory, "measure", interrupted)
        assert run("--preset smoke", tmp_path) == 130
    assert capfd.readouterr().err.splitlines()[-1].endswith("--resume")
    assert not (tmp_path / "result.json").exists()
    assert run("--preset cpu --resume", tmp_path) == 2
    assert "another preset" in capfd.readouterr().err
    assert run("--preset smoke --resume", tmp_path) == 0
    numbers = results.read_result(tmp_path / "result.json").numbers
    assert [number.name for number in numbers] == [
        f"SoG({simulations},1):kuhn, {agent}" for agent in small.agents for simulations in (4, 40)
    ]
    few, many = numbers
    assert few.low <= few.value <= few.high
    assert many.value < 0.5 * few.value
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "curve.csv",
        "curve.png",
        "result.json",
    ]
    assert len((tmp_path / "curve.csv").read_text().splitlines()) == 1 + 2 * small.seeds


@pytest.mark.slow
@pytest.mark.parametrize("leaves", ["equilibrium", "uniform"])
def test_leaves_of_policies_where_rows_are_merged(leaves):
    part = sog_search.Part(
        game="scotland_yard(map=glasses,rounds=2)",
        agents=(leaves,),
        simulations=(50,),
        seeds=1,
    )
    run = mock.Mock(spec=Run, config=types.SimpleNamespace(batch=16), mesh=None)
    (cell,) = sog_search._PartLaboratory("glasses", part, run).measure(leaves, 50)
    (exploitability,) = cell.exploitability
    assert 0 <= exploitability < 0.05


def test_references_are_of_agents_that_are_measured():
    parts = sog_search.PRESETS["paper"].parts.values()
    assert {part.game: set(part.agents) for part in parts}.keys() == sog_search.REFERENCE.keys()
    for part in parts:
        assert sog_search.REFERENCE[part.game].keys() <= set(part.agents)
        assert set(part.agents) <= sog_search.AGENTS.keys()


def test_the_deviations_count_the_agreement_with_the_reference():
    path = results.ROOT / "experiments" / "results" / "sog_search" / "cpu" / results.RESULT_FILE
    result = results.read_result(path)
    whole, between, interval = (
        number.value for number in result.numbers if number.name.startswith("of the reference's")
    )
    count = sog_search.DEVIATIONS[0]
    assert f"{between:.0f} of the reference's {whole:.0f} numbers lie between" in count
    assert f"and {interval:.0f} in the 95 % prediction interval" in count


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_means_of_further_seeds_lie_in_the_spread_in_95_percent_of_cases(seeds):
    rng = np.random.default_rng(0)
    samples, further = rng.normal(3, 2, (4000, 6)), rng.normal(3, 2, (4000, seeds)).mean(axis=1)
    inside = [
        sog_search.within_spread(ours.tolist(), float(value), seeds=seeds)
        for ours, value in zip(samples, further, strict=True)
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.011)
