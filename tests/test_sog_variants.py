"""The experiment `sog_variants`, with the committed agent."""

from experiments import cli, results


def test_variants_of_the_committed_agent(tmp_path, capfd):
    assert cli.main(["sog_variants", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    found = results.read_result(tmp_path / "result.json")
    assert [number.name for number in found.numbers] == ["SoG(4):as the paper", "SoG(4):PCFR+"]
    assert all(0 < number.value < 2400 for number in found.numbers)  # better than uniform
    assert "PCFR+" in capfd.readouterr().out


def test_an_agent_that_is_not_there(tmp_path, capfd):
    out = tmp_path / "out"
    arguments = ["sog_variants", "--out", str(out), "--agent", str(tmp_path)]
    assert cli.main(arguments) == 2
    assert "holds no trained agent: there is no result.json" in capfd.readouterr().err
    assert not out.exists()
