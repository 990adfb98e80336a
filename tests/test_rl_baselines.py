"""The experiment `rl_baselines`. (It resumes as learning curves do.)"""

import dataclasses
import itertools

import chex
import jax
import numpy as np
import pytest

from experiments import cli
from experiments.harness import results
from experiments.harness.runs import Run
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
    assert {number.seeds for number in result.numbers[:-1]} == {2}
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    curves = (tmp_path / "curve.csv").read_text()
    assert "kuhn_poker,selection," in curves
    assert "kuhn_poker,reported," in curves


def test_the_reported_seeds_are_not_those_that_choose(tmp_path, monkeypatch):
    """All learners of seed s end at s: the seeds 0 and 1 choose, and 2 to 4 are reported."""

    def learn(folder, methods, *, at, saved):
        seeds = {str(jax.random.key_data(key_of(seed))): float(seed) for seed in range(10)}
        return {
            name: np.array([[seeds[str(jax.random.key_data(key))] for key in method.keys]])
            for name, method in methods.items()
        }

    def key_of(seed):
        return jax.random.split(jax.random.key(seed))[1]

    monkeypatch.setattr(rl_baselines, "learn", learn)
    config = dataclasses.replace(rl_baselines.PRESETS["smoke"], seeds=3)
    arguments = rl_baselines.COMMAND.arguments(preset="smoke", out=tmp_path)
    run = Run(arguments, config, experiment="rl_baselines", command="")
    learned = rl_baselines.compute(run)["kuhn_poker"]
    assert len(learned.selection) == 3
    assert set(learned.reported) == {*rl_baselines.ALGORITHMS}
    for curves, seeds in ((learned.selection, [[0, 1]]), (learned.reported, [[2, 3, 4]])):
        for curve in curves.values():
            np.testing.assert_array_equal(curve, seeds)
    learned = dataclasses.replace(learned, at=learned.at[-1:])  # where `learn` above measures
    for row in rl_baselines.rows(config, {"kuhn_poker": learned}):
        assert float(row["exploitability"]) == row["seed"]


def test_the_setting_that_was_the_least_exploitable_in_the_end_is_chosen():
    curves = {
        "DQN, early": np.array([[0.1, 0.1], [0.5, 0.5]]),
        "DQN, late": np.array([[0.9, 0.9], [0.2, 0.7]]),
        "A2C, better": np.array([[0.0, 0.0], [0.0, 0.0]]),
    }
    assert rl_baselines.least_exploitable(curves, "DQN") == "DQN, late"


def test_a_learner_is_that_of_its_setting_and_seed():
    grid = dataclasses.replace(rl_baselines.PRESETS["smoke"].grid, rates=(0.1, 0.01))
    for family in rl_baselines.families("kuhn_poker", grid):
        values = [*family.settings.values()]
        together = family.method(values, range(2))
        for index, (value, seed) in enumerate(itertools.product(values, range(2))):
            alone = family.method([value], range(seed, seed + 1))
            for whole, part in ((together.start, alone.start), (together.keys, alone.keys)):
                row = jax.tree.map(lambda leaf, index=index: leaf[index], whole)
                chex.assert_trees_all_equal(row, jax.tree.map(lambda leaf: leaf[0], part))


def test_the_paper_preset_is_all_of_the_published_grid():
    grid = rl_baselines.PRESETS["paper"].grid
    settings = len(grid.rates) * len(grid.explorations) * len(grid.capacities) * len(grid.layers)
    assert settings == 400
    a2c = len(grid.actor_rates) * len(grid.critic_rates) * len(grid.critic_updates)
    assert a2c * len(grid.layers) == 90
    assert len(grid.step_sizes) == 5
