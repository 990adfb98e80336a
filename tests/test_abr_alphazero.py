"""The experiment `abr_alphazero`: its numbers, a run that is interrupted."""

import itertools

import numpy as np
import pytest

from experiments import cli
from experiments.best_response import abr_alphazero
from experiments.best_response.abr_alphazero import (
    AGENTS,
    HEAD_TO_HEAD,
    PRESETS,
    RANDOM,
    WAYS,
    Rated,
    Response,
)
from experiments.harness import results

CONFIG = PRESETS["smoke"]


def numbers():
    """By name, for made-up responses that win 60 and draw 20 of 100 games."""
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
    arrays = np.array([0.0, 190.0]), np.array([0.0, 50.0])
    return {one.name: one for one in abr_alphazero._numbers(CONFIG, responses, players, *arrays)}


def test_numbers_and_their_errors():
    found = numbers()
    won = found["direct:TD"]
    assert (won.value, won.paper, won.unit) == (0.6, 0.4, "share of games won")
    np.testing.assert_allclose(won.high - won.value, 2 * (0.6 * 0.4 / 100) ** 0.5)
    gained = found["curriculum:gained from returns"]
    samples = [1.0] * 60 + [0.0] * 20 + [-1.0] * 20
    np.testing.assert_allclose(gained.value, np.mean(samples))
    np.testing.assert_allclose(gained.high - gained.value, 2 * np.std(samples) / 10)
    assert found["head to head:returns"].paper == 0.2325
    rated = found["2 steps, 2 simulations:TD"]
    assert (rated.low, rated.value, rated.high, rated.unit) == (90, 190, 290, "Elo")
    assert not any(RANDOM in name for name in found)


@pytest.mark.slow
def test_interrupted_runs_resume_to_the_same_numbers(tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert cli.main(["abr_alphazero", "--preset", "smoke", "--out", str(whole)]) == 0
    expected = results.read_result(whole / "result.json").numbers
    step, steps = abr_alphazero.alphazero.train_step, 0

    def interrupted(*args, **kwargs):
        nonlocal steps
        steps += 1
        if steps == 6:  # within the first response
            raise KeyboardInterrupt
        return step(*args, **kwargs)

    arguments = ["abr_alphazero", "--preset", "smoke", "--out", str(parts)]
    with monkeypatch.context() as patch:
        patch.setattr(abr_alphazero.alphazero, "train_step", interrupted)
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
