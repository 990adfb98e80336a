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
from experiments.student_of_games import sog_leduc, training_curve
from experiments.student_of_games.measured_search import SearchLaboratory
from jaxgames.beliefs import list_public_states
from solvers.evaluation.belief_exploitability import exploitability
from solvers.search import agent_exploitability, leaf_evaluators
from solvers.search.agent_exploitability import agents, composed_policy, longest_path
from solvers.search.search_state import GrowingTreeCfr
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
def test_seeds_that_are_measured_apart_give_the_same_and_compile_no_more():
    laboratory = SearchLaboratory("kuhn_poker", batch=2)
    search = GrowingTreeCfr(leaf_evaluators.zero, simulations=3)

    def measured(**which):
        return laboratory.exploitability("", None, search, seeds=4, key=1, **which)

    together = measured()
    assert len(set(together)) == 4
    apart, programs = [], []
    for seed in range(4):
        apart += measured(which=range(seed, seed + 1))
        programs.append(agent_exploitability._search._cache_size())
    assert apart == pytest.approx(together, abs=1e-6)
    assert programs == [programs[0]] * 4


@pytest.mark.parametrize(
    ("batch", "pieces"),
    [(1, [range(0, 3), range(3, 5)]), (2, [range(5)]), (64, [range(5)])],
)
def test_a_piece_is_as_many_seeds_as_fill_batches(batch, pieces):
    """In Kuhn a seed has four searches, in three rounds; two batches of a search need two seeds."""
    assert SearchLaboratory("kuhn_poker", batch=batch).pieces(5) == pieces


@pytest.mark.slow
def test_large_games_are_measured_seed_by_seed():
    laboratory = SearchLaboratory("scotland_yard(map=district,rounds=4)", batch=4)
    assert laboratory.pieces(3) == [range(1), range(1, 2), range(2, 3)]


def test_an_interrupted_measurement_keeps_the_seeds_that_are_done(tmp_path, monkeypatch):
    config = dataclasses.replace(sog_leduc.PRESETS["smoke"], seeds=5, batch=1)
    arguments = types.SimpleNamespace(out=tmp_path, resume=True, overwrite=False, preset="smoke")
    measured = []

    def measure(laboratory, title, *args, which, **named):
        if len(measured) == 1:
            raise KeyboardInterrupt
        measured.append(which)
        return [seed / 10 for seed in which]

    monkeypatch.setattr(SearchLaboratory, "exploitability", measure)

    def student():
        return training_curve._Student(Run(arguments, config, experiment="", command=""))

    with pytest.raises(KeyboardInterrupt):
        student().measure_at(0)
    assert measured == [range(0, 3)]
    measured.insert(0, None)  # no interruption any longer
    (cell,) = student().measure_at(0)
    assert measured == [None, range(0, 3), range(3, 5)]
    assert cell.exploitability == [0.0, 0.1, 0.2, 0.3, 0.4]


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
