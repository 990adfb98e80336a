"""The experiments `sog_glasses` and `sog_district`."""

import dataclasses
import types
from unittest import mock

import jax
import jax.numpy as jnp
import pytest

from experiments import cli
from experiments.harness import results
from experiments.harness.runs import Run
from experiments.student_of_games import training_curve
from jaxgames.beliefs import list_public_states
from solvers.evaluation.belief_exploitability import exploitability
from solvers.search.agent_exploitability import agents, composed_policy, longest_path
from train.agent import load_agent


def test_other_settings_of_the_search_are_measured_at_the_end_of_training(monkeypatch):
    measured = []

    class Student:
        trainee = types.SimpleNamespace(params=None)

        def __init__(self, run):
            pass

        def measure_at(self, step, *how, **named):
            measured.append(step)
            return []

    monkeypatch.setattr(training_curve, "_Student", Student)
    config = types.SimpleNamespace(measured_at=(0, 5, 9), smoothing=0.5, variants=("other",))
    training_curve.compute(mock.Mock(spec=Run, config=config))
    assert measured == [0, 5, 9, 9]


@pytest.mark.slow
def test_training_on_a_small_map(tmp_path):
    assert cli.main(["sog_glasses", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    result = results.read_result(tmp_path / "result.json")
    assert [number.name for number in result.numbers] == [
        "untrained SoG(4,1)",
        "SoG(4,1)",
        "ours: SoG(4,1), half-uniform ranges",
        "ours: SoG(4,1), half-uniform ranges, exploration 3, own decisions only",
    ]
    assert any("with results in sight" in text for text in result.deviations)
    assert all(number.unit == "utility" and 0 <= number.value <= 2 for number in result.numbers)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of an agent that was trained on a small district."""
    folder = tmp_path_factory.mktemp("district")
    assert cli.main(["sog_district", "--preset", "smoke", "--out", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_training_on_a_small_district(trained):
    result = results.read_result(trained / "result.json")
    assert [number.name for number in result.numbers] == ["untrained SoG(4,1)", "SoG(4,1)"]
    assert all(number.unit == "utility" and 0 <= number.value <= 2 for number in result.numbers)


@pytest.mark.slow
def test_responses_to_the_agent_of_a_district(trained, tmp_path):
    """What an exact response wins by histories is what it wins by public states."""
    command = ["abr_search_agents", "--preset", "smoke", "--agents", str(trained)]
    assert cli.main([*command, "--out", str(tmp_path / "responses")]) == 0
    result = results.read_result(tmp_path / "responses" / "result.json")
    numbers = {(number.name, number.unit): number.value for number in result.numbers}
    name = "SoG(1,1) in scotland_yard(map=district,rounds=2)"
    assert 0 < numbers[f"ISMCTS-BR:{name}", "% of exact"] < 100.001
    agent = load_agent(trained, simulations=1)
    listing = list_public_states(agent.table)
    chains = agents()
    settings = dataclasses.replace(agent.settings, max_path=longest_path(listing, chains))
    searched = [
        composed_policy(
            agent.table,
            listing,
            agent.params,
            jax.random.split(jax.random.key(player), 1),
            settings=settings,
            chain=chain,
        )[player][0]
        for player, chain in enumerate(chains)
    ]
    nash_conv = 2 * float(exploitability(agent.table, listing, tuple(map(jnp.asarray, searched))))
    assert numbers[f"exact:{name}", "NashConv"] == pytest.approx(nash_conv, abs=1e-5)
