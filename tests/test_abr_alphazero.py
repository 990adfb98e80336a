"""The experiment `abr_alphazero`: its numbers, its agents, and a run that is interrupted."""

import argparse
import dataclasses
import itertools
import pathlib
import sys

import jax
import numpy as np
import pytest
from experiment_cases import smoke_run

from experiments import cli
from experiments.best_response import abr_alphazero, alphazero_presets
from experiments.best_response.abr_alphazero import PRESETS, Outcome
from experiments.best_response.alphazero_responses import (
    AGENTS,
    HEAD_TO_HEAD,
    PERFECT,
    RANDOM,
    WAYS,
    AlphaZeroLaboratory,
    Rated,
    Response,
)
from experiments.harness import results
from experiments.harness.runs import Run
from train import alphazero_training
from train.learner import CHECKED

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
    responses.append(Response(agent="TD", way=PERFECT, step=0, games=100, won=1.0, drawn=0.0))
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
    every = numbers["perfect player:TD"]  # a share of 97 % is all of 100 games once in twenty times
    assert (every.value, every.high, every.paper) == (1, 1, None)
    np.testing.assert_allclose(every.low**100, 0.05)
    gained = numbers["perfect player:gained from TD"]
    np.testing.assert_allclose([gained.low, gained.high], [2 * every.low - 1, 1])


@pytest.mark.parametrize("name", ["connect_four", "connect_four_large"])
def test_the_window_is_as_large_a_part_of_a_game_as_in_go(name):
    """25 of 150 moves; games of Connect Four have 36 (Allis 1994)."""
    config = PRESETS[name]
    assert config.td_steps / 36 == 25 / 150
    assert config.curriculum == PRESETS["paper"].curriculum
    words = abr_alphazero.deviations(config)
    assert any("TD learns from searches 6 moves later instead of 25;" in text for text in words)
    assert not any("instead of 800" in text for text in words)


def test_without_the_solver_a_line_says_so(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "bitbully", None)
    assert not abr_alphazero._has_perfect_player(CONFIG)
    said = "no games of a perfect player: bitbully is not installed: pip install bitbully\n"
    assert capsys.readouterr().err == said
    assert not abr_alphazero._has_perfect_player(PRESETS["paper"])  # where none is asked for
    assert capsys.readouterr().err == ""


def made_up_run(folder, experiment="alphazero_connect_four", **fields):
    """The folder of a run, with these fields in its config, whose network is empty."""
    from experiments.perfect_information.alphazero_connect_four import PRESETS as TRAININGS

    result = results.make_result(
        experiment=experiment,
        preset="cpu",
        config=dataclasses.asdict(TRAININGS["cpu"]) | fields,
        command="",
        usage=results.Usage(),
        numbers=[],
    )
    (folder / "networks").mkdir(parents=True)
    (folder / "networks" / "0.npz").touch()
    results.write_result(folder, result)
    return folder


def test_agents_are_trained_as_the_run_was(tmp_path):
    """The preset has the settings of the training that it stands beside."""
    preset = PRESETS["connect_four"]
    config = alphazero_presets.with_agent(preset, made_up_run(tmp_path / "run"))
    assert config.agent == str(tmp_path / "run")
    assert config.measured_at == (400,)
    assert dataclasses.replace(config, agent="", measured_at=(0, 400)) == preset
    other = made_up_run(tmp_path / "td", td_steps=9)
    both = alphazero_presets.with_td_agent(config, other)
    assert both == dataclasses.replace(config, td_agent=str(other), td_steps=9)


_RUN = ["--preset", "connect_four", "--agent", "run"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--agent", "/nowhere"], "agent=/nowhere must be the folder of a finished training"),
        (["--agent", "sog_run"], "sog_run must be a run of alphazero_connect_four, not of sog"),
        (["--agent", "run", "--preset", "paper"], "agent=run is for presets of pgx:connect_four"),
        (["--td_steps", "0"], "td_steps=0 must be at least 1"),
        (["--agent", "td"], "agent=td must learn from returns, and is a run with --td_steps"),
        (["--td_agent", "td"], "td_agent=td needs an agent of returns, --agent"),
        ([*_RUN, "--td_agent", "run"], "td_agent=run must be a run with --td_steps"),
        ([*_RUN, "--td_agent", "td", "--td_steps", "6"], "td_steps=6 is for an agent of TD that"),
        ([*_RUN, "--td_agent", "longer"], "agent=run, which has another measured_at, updates"),
    ],
)
def test_bad_options_are_refused(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made_up_run(pathlib.Path("sog_run"), "sog_connect_four")
    made_up_run(pathlib.Path("run"))
    made_up_run(pathlib.Path("td"), td_steps=6)
    made_up_run(pathlib.Path("longer"), td_steps=6, updates=3, measured_at=[0, 800])
    command = ["abr_alphazero", "--preset", "smoke", "--out", str(tmp_path / "out"), *words]
    assert cli.main(command) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow(minutes=3)
def test_the_agent_of_another_run(tmp_path):
    """Its network is taken, and is the one that the agent has if it is trained here."""
    smoke_run("alphazero_connect_four", tmp_path / "run")
    smoke_run("alphazero_connect_four", tmp_path / "td", "--td_steps", "2")
    words = ["--agent", str(tmp_path / "run"), "--td_steps", "2", "--out", str(tmp_path / "out")]
    assert cli.main(["abr_alphazero", "--preset", "smoke", *words]) == 0
    result = results.read_result(tmp_path / "out" / "result.json")
    network = arrays(tmp_path / "run" / "networks" / "0.npz")
    returns, other = (arrays(tmp_path / "out" / f"network_{n}.npz") for n in ("returns", "TD"))
    assert all((returns[name] == network[name]).all() for name in network)
    assert any((other[name] != network[name]).any() for name in network)
    assert (result.config["td_steps"], result.config["torso"]) == (2, "alphazero")
    for name in AGENTS:
        assert result.number(f"perfect player first:{name}").value == 1

    config = alphazero_presets.with_agent(CONFIG, tmp_path / "run")
    config = alphazero_presets.with_td_agent(config, tmp_path / "td")
    trained_here = dataclasses.replace(config, agent="", td_agent="")
    for name in AGENTS:
        read, trained = (
            parameters_of(each, name, tmp_path / f"{name}-{kind}")
            for kind, each in (("read", config), ("trained", trained_here))
        )
        for own, other in zip(trained, read, strict=True):
            np.testing.assert_allclose(own, other, rtol=5e-4, atol=1e-4)  # the files have 16 bits


def arrays(path):
    with np.load(path) as file:
        return dict(file)


def parameters_of(config, name, folder):
    """The parameters of an agent."""
    arguments = argparse.Namespace(out=folder, preset="", resume=False, overwrite=False)
    run = Run(arguments, config, experiment="abr_alphazero", command="")
    return jax.tree.leaves(AlphaZeroLaboratory(run).agent(name)[config.measured_at[-1]])


def test_stages_of_a_curriculum_are_trainings_of_their_own(tmp_path, monkeypatch):
    """They begin with the network of the stage before, and without examples or updates."""
    begun = []

    def train_step(game, graph, state, *, opponent, settings, **rest):
        assert settings.search.concentration == 0.5
        bias = float(state.learner.params["value"]["bias"][0])
        begun.append((int(opponent.simulations), int(state.replay.size), bias))
        params = jax.tree.map(lambda x: x + 1, state.learner.params)
        replay = state.replay.replace(size=state.replay.size + 1)
        learner = state.learner.replace(params=params)
        losses = dict.fromkeys(CHECKED, state.replay.size)
        return state.replace(step=state.step + 1, replay=replay, learner=learner), losses

    monkeypatch.setattr(alphazero_training, "train_step", train_step)
    monkeypatch.setattr(AlphaZeroLaboratory, "_duel", lambda *_, **__: np.zeros(4))
    arguments = argparse.Namespace(out=tmp_path, preset="", resume=False, overwrite=False)
    config = dataclasses.replace(CONFIG, responses_at=(0, 4), curriculum=(1, 2), concentration=0.5)
    run = Run(arguments, config, experiment="abr_alphazero", command="")
    laboratory = AlphaZeroLaboratory(run)
    assert len([*laboratory.responses("TD", "curriculum", laboratory.start)]) == 2
    assert begun == [(1, 0, 0.0), (1, 1, 1.0), (2, 0, 2.0), (2, 1, 3.0)]


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
