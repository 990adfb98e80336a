"""The experiment `ismcts_leduc`."""

import pytest

from experiments import cli
from experiments.harness import published, results, tables
from experiments.tabular import ismcts_leduc


@pytest.mark.slow
def test_results_and_resumption(tmp_path, monkeypatch):
    arguments = ["ismcts_leduc", "--preset", "smoke", "--out"]
    assert cli.main([*arguments, str(tmp_path / "whole")]) == 0
    whole = results.read_result(tmp_path / "whole" / "result.json")
    names = [number.name for number in whole.numbers]
    assert names[0] == "sims=10,C=1,visit_distribution"
    assert names[-1] == "sims=50,C=2,max_value"
    assert len(names) == 12
    assert all(number.low <= number.value <= number.high for number in whole.numbers)
    # more search is better, in Kuhn by far
    assert whole.number("sims=50,C=2,max_visits").value < 300
    assert whole.number("sims=50,C=2,max_visits").value < whole.number(names[1]).value

    measure, calls = ismcts_leduc.measure_search, 0

    def interrupted(*args):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return measure(*args)

    out = [*arguments, str(tmp_path / "parts")]
    with monkeypatch.context() as patch:
        patch.setattr(ismcts_leduc, "measure_search", interrupted)
        assert cli.main(out) == 130
    assert cli.main([*out, "--resume"]) == 0
    assert results.read_result(tmp_path / "parts" / "result.json").numbers == whole.numbers


def test_published_numbers():
    known = published.information_set_mcts("leduc_poker")
    assert len(known) == 28
    assert known[10_000, 13.0]["max_visits"] == 0.465
    assert min(value for each in known.values() for value in each.values()) == 0.465
    assert published.information_set_mcts("kuhn_poker(players=2)") == {}


def test_long_lists_are_folded():
    numbers = [results.Number(name=f"n{i}", value=1.0, unit="chips") for i in range(50)]
    assert tables._list(numbers, "published")[0].startswith("<details")
    assert not tables._list(numbers[:10], "published")[0].startswith("<details")
