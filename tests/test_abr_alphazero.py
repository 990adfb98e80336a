"""The experiment `abr_alphazero`: its numbers, and a run that is interrupted."""

import itertools

import numpy as np
import pytest

from experiments import cli
from experiments.best_response import abr_alphazero
from experiments.best_response.abr_alphazero import PRESETS, Outcome
from experiments.best_response.alphazero_responses import (
    AGENTS,
    HEAD_TO_HEAD,
    RANDOM,
    WAYS,
    Rated,
    Response,
)
from experiments.harness import results
from train import alphazero_training

CONFIG = PRESETS["smoke"]


def example_numbers():
    """The numbers by name, for responses that win 60 and draw 20 of 100 games."""
    share = dict(games=100, won=0.6, drawn=0.2)
    steps = (CONFIG.responses_at[-1],)
    responses = [
        Response(agent=agent, way=way, step=step, **share)
        for agent, way, step in itertools.product(AGENTS, WAYS, steps)
    ]
    responses.append(Response(agent=AGENTS[0], way=HEAD_TO_HEAD, step=0, **share))
    players = [
        Rated(agent=RANDOM, step=0, simulations=0, points=[0.0, 10.0]),
        Rated(agent="TD", step=2, simulations=2, points=[30.0, 0.0]),
    ]
    outcome = Outcome(responses, players, networks={})
    numbers = abr_alphazero.numbers(CONFIG, outcome)
    return {number.name: number for number in numbers}, outcome.ratings


def test_numbers_and_their_errors():
    numbers, (strengths, errors) = example_numbers()
    won = numbers["direct:TD"]
    assert (won.value, won.paper, won.unit) == (0.6, 0.4, "share of games won")
    np.testing.assert_allclose(won.high - won.value, 2 * (0.6 * 0.4 / 100) ** 0.5)
    gained = numbers["curriculum:gained from returns"]
    samples = [1.0] * 60 + [0.0] * 20 + [-1.0] * 20
    np.testing.assert_allclose(gained.value, np.mean(samples))
    np.testing.assert_allclose(gained.high - gained.value, 2 * np.std(samples) / 10)
    assert numbers["head to head:returns"].paper == 0.2325
    rated = numbers["2 steps, 2 simulations:TD"]
    assert rated.unit == "Elo"
    assert rated.value == strengths[1] > 0
    np.testing.assert_allclose(rated.high - rated.value, 2 * errors[1])
    np.testing.assert_allclose(rated.value - rated.low, 2 * errors[1])
    assert not any(RANDOM in name for name in numbers)


@pytest.mark.slow
def test_interrupted_runs_resume_to_the_same_numbers(tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert cli.main(["abr_alphazero", "--preset", "smoke", "--out", str(whole)]) == 0
    expected = results.read_result(whole / "result.json").numbers
    step, steps = alphazero_training.train_step, 0

    def interrupted(*args, **kwargs):
        nonlocal steps
        steps += 1
        if steps == 6:  # within the first response
            raise KeyboardInterrupt
        return step(*args, **kwargs)

    arguments = ["abr_alphazero", "--preset", "smoke", "--out", str(parts)]
    with monkeypatch.context() as patch:
        patch.setattr(alphazero_training, "train_step", interrupted)
        assert cli.main(arguments) == 130
    assert cli.main([*arguments, "--resume"]) == 0
    assert results.read_result(parts / "result.json").numbers == expected
    assert sorted(path.name for path in parts.iterdir()) == [
        "curve.csv",
        "curve.png",
        "elo.csv",
        "log",
        "network_TD.npz",
        "network_returns.npz",
        "result.json",
    ]
