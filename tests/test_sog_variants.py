"""The experiment `sog_variants`."""

import dataclasses

import pytest
from written_agent import write_agent

from experiments import cli
from experiments.harness import results
from experiments.student_of_games import sog_variants


@pytest.mark.slow
def test_variants_of_an_agent(tmp_path, monkeypatch, capfd):
    names = ("as the paper", "own decisions only")
    variants = (names[0], "the other's decisions too", names[1])  # the second is the agent itself
    config = dataclasses.replace(
        sog_variants.PRESETS["smoke"],
        variants=variants,
        simulations=(2,),  # not the whole game
    )
    monkeypatch.setitem(sog_variants.PRESETS, "smoke", config)
    folder, out = write_agent(tmp_path / "agent"), tmp_path / "out"
    arguments = ["sog_variants", "--preset", "smoke", "--agent", str(folder), "--out", str(out)]
    assert cli.main(arguments) == 0
    result = results.read_result(out / "result.json")
    exploitability, calls = result.numbers[::2], result.numbers[1::2]
    assert [number.name for number in exploitability] == [f"SoG(2):{name}" for name in names]
    assert exploitability[0].value != exploitability[1].value
    assert all(0 < number.value < 458.4 for number in exploitability)  # better than uniform
    assert [number.name for number in calls] == [f"calls, SoG(2):{name}" for name in names]
    assert all(number.value > 2 for number in calls)
    assert result.config["game"] == "kuhn_poker(players=2)"
    assert "own decisions only" in capfd.readouterr().out


def test_a_run_knows_its_agent(tmp_path):
    """So that it is not resumed with another one."""
    folder = write_agent(tmp_path / "agent")
    preset = sog_variants.PRESETS["smoke"]
    options = sog_variants.Options(agent=folder, out=tmp_path / "out")
    first = sog_variants.configure(preset, options)
    assert first == sog_variants.configure(preset, options)
    (folder / "result.json").write_text((folder / "result.json").read_text() + " ")
    assert first != sog_variants.configure(preset, options)
    assert first.agent == str(folder)


def test_folders_without_an_agent_are_refused(tmp_path, capfd):
    out = tmp_path / "out"
    arguments = ["sog_variants", "--out", str(out), "--agent", str(tmp_path)]
    assert cli.main(arguments) == 2
    assert "holds no trained agent: there is no result.json" in capfd.readouterr().err
    assert not out.exists()
