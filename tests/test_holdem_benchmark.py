"""The benchmark of hold'em: results follow the schema, and unequal answers are refused."""

import numpy as np
import pytest

from experiments import benchmarks
from experiments.benchmarks import holdem
from experiments.harness import results


@pytest.mark.slow
def test_result_follows_the_schema(tmp_path):
    benchmarks.run("holdem", tmp_path, preset="smoke", command="the command")
    result = results.read_result(tmp_path / "result.json")
    assert (result.experiment, result.preset) == ("benchmark_holdem", "smoke")
    for name in ("river", "river, each of 4", "river, each of 4, 2 devices"):
        assert 0 < result.number(f"floor:{name}").value < result.number(f"ms:{name}").value < 100
        assert name in (tmp_path / "table.md").read_text()
    assert result.number("seven-card hands:per second").value > 0
    assert result.number("NumPy / ours:blueprint of preflop and flop, 169/50").value > 0


def test_other_answers_are_refused():
    holdem.check_equal([0.1, 0.2], [0.1, 0.2])
    with pytest.raises(ValueError, match=r"several devices change .* exploitability by 0.05"):
        holdem.check_equal([0.1, 0.2], [0.1, 0.25])


def test_other_steps_are_refused():
    table = np.array([1.0, 100.0])
    holdem.check_same_step([table], [np.array([1.0, 100.0001])])
    with pytest.raises(ValueError, match=r"one step differs by 0.001 of its largest number"):
        holdem.check_same_step([table], [np.array([1.1, 100.0])])


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="unknown spot 'rivers'"):
        benchmarks.run("holdem", tmp_path, spots=("rivers",))
    with pytest.raises(ValueError, match="unknown blueprint 'river'"):
        benchmarks.run("holdem", tmp_path, blueprints=("river",))
    with pytest.raises(ValueError, match="devices=3 must divide batch=4 of rivers"):
        benchmarks.run("holdem", tmp_path, preset="smoke", devices=3)
    with pytest.raises(ValueError, match="unknown preset 'paper'"):
        benchmarks.run("holdem", tmp_path, preset="paper")
