"""The experiment `rl_baselines`. (It resumes as learning curves do.)"""

import pytest

from experiments import cli
from experiments.harness import results
from experiments.tabular import rl_baselines


@pytest.mark.slow
def test_results_of_a_run(tmp_path):
    assert cli.main(["rl_baselines", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    result = results.read_result(tmp_path / "result.json")
    names = [number.name for number in result.numbers]
    assert names == [f"kuhn_poker:best {name}" for name in rl_baselines.ALGORITHMS] + [
        "kuhn_poker:uniform"
    ]
    uniform = result.number("kuhn_poker:uniform")
    assert uniform.value == pytest.approx(458.33, abs=0.01)
    assert [number.paper for number in result.numbers] == pytest.approx([52, 250, 250, 458])
    assert all(number.low <= number.value <= number.high for number in result.numbers[:-1])
    assert result.number("kuhn_poker:best Q-learning").value < uniform.value
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_paper_preset_is_all_of_the_published_grid():
    grid = rl_baselines.PRESETS["paper"].grid
    settings = len(grid.rates) * len(grid.explorations) * len(grid.capacities) * len(grid.layers)
    assert settings == 400
    a2c = len(grid.actor_rates) * len(grid.critic_rates) * len(grid.critic_updates)
    assert a2c * len(grid.layers) == 90
    assert len(grid.step_sizes) == 5
