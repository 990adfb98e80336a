"""The experiments with subgames of small games: RPS+, Leduc, and games with a single bet."""

import numpy as np
import pytest
from experiment_cases import smoke_run

from experiments.subgame_solving import depth_limited_leduc, rps_plus
from experiments.subgame_solving import translation_no_limit_leduc as translation
from solvers import evaluation, linear_program
from solvers.sequence_form import build_sequence_form


@pytest.mark.slow
def test_a_run_of_rps_plus(tmp_path):
    """With a single value the first player plays uniformly; with four it plays the equilibrium."""
    result = smoke_run("rps_plus", tmp_path)
    for method in rps_plus.METHODS:
        numbers = {
            count: [result.number(f"{name}:{method}, values={count}") for name in rps_plus.ACTIONS]
            for count in (1, 4)
        }
        np.testing.assert_allclose([n.value for n in numbers[1]], 1 / 3, atol=0.01)
        np.testing.assert_allclose(
            [n.value for n in numbers[4]], [n.paper for n in numbers[4]], atol=0.02
        )
        won = result.number(f"exploitability:{method}, values=1").value
        assert won == pytest.approx(1 / 3, abs=0.01)
    assert len((tmp_path / "curve.csv").read_text().splitlines()) == 1 + 2 * 2


@pytest.mark.slow
def test_a_run_in_leduc(tmp_path):
    """More values per leaf are better, and safe re-solving keeps the policy near equilibrium."""
    result = smoke_run("depth_limited_leduc", tmp_path)
    for offer in depth_limited_leduc.PRESETS["smoke"].offers:
        for below in depth_limited_leduc.BELOW:
            row = f"equilibrium, {offer}, then {below}"
            single, four = (result.number(f"values={count}:{row}").value for count in (1, 4))
            assert 0 <= four < single + 1
        safe = result.number(f"values=4:equilibrium, {offer}, then safe").value
        assert safe < 40
    assert result.number("histories:round one").value < result.number("histories:the game").value
    assert len((tmp_path / "curve.csv").read_text().splitlines()) == 1 + 2 * 3 * 2


@pytest.mark.slow
def test_a_run_of_resolving(tmp_path):
    """Safe re-solving makes no blueprint worse, and a bad one better."""
    result = smoke_run("resolving_leduc", tmp_path)
    for count, gained in ((1, 100), (100, -1)):
        before = result.number(f"blueprint:{count} iterations").value
        for way in ("resolve", "reach-maxmargin"):
            assert result.number(f"{way}:{count} iterations").value < before - gained


@pytest.mark.slow
def test_a_run_of_translation(tmp_path):
    """The randomised mappings have the published numbers in games with a single bet."""
    result = smoke_run("translation_no_limit_leduc", tmp_path)
    stacks = translation.PRESETS["smoke"].stacks
    for mapping in ("Rand-Arith", "Rand-Geo-1", "Rand-Geo-2", "Rand-psHar"):
        for game in translation.ONE_BET:
            for stack in stacks:
                number = result.number(f"{mapping}:{game}, stack {stack}")
                near = 0.006 if game == "clairvoyance" else 0.0006  # two and three digits
                assert number.value == pytest.approx(number.paper, abs=near)
        assert result.number(f"{mapping}:Leduc, P1").value > 0.01


@pytest.mark.parametrize("name", translation.ONE_BET)
def test_defending_is_part_of_an_equilibrium(name):
    game = translation.build_one_bet(translation.ONE_BET[name], 5, "40%, 100%, allin")
    tree = build_sequence_form(game.tree)
    value, _ = linear_program.solve(tree)
    first = np.zeros((tree.treeplexes[0].num_decisions, tree.num_actions), np.float32)
    policy = translation.defending(game).astype(np.float32)
    best = evaluation.best_response_value(tree, (first, policy))[0]
    assert float(best) == pytest.approx(value, abs=1e-4)
