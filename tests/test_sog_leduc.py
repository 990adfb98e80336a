"""The experiment `sog_leduc`: training, results, resumption."""

import dataclasses
import itertools
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

from experiments import cli
from experiments.harness import results
from experiments.harness.runs import Run
from experiments.student_of_games import training_run
from train import learner


def run(arguments, folder):
    return cli.main(["sog_leduc", *arguments.split(), "--out", str(folder)])


@pytest.mark.slow
def test_interrupted_runs_resume_to_the_same_numbers(tmp_path, monkeypatch, capfd):
    times = itertools.cycle([False] * 4 + [True])  # a checkpoint every five steps
    monkeypatch.setattr(training_run.CheckpointTimes, "due", lambda self: next(times))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run("--preset smoke", whole) == 0
    numbers = results.read_result(whole / "result.json").numbers
    assert [number.name for number in numbers] == ["untrained SoG(4,1)", "SoG(4,1)"]
    assert all(number.low <= number.value <= number.high for number in numbers)
    step, steps = training_run.student_of_games_training.train_step, 0

    def interrupted(*args, **kwargs):
        nonlocal steps
        steps += 1
        if steps == 8:
            raise KeyboardInterrupt
        return step(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(training_run.student_of_games_training, "train_step", interrupted)
        assert run("--preset smoke", parts) == 130
    assert capfd.readouterr().err.splitlines()[-1].endswith("--resume")
    assert not (parts / "result.json").exists()
    assert run("--preset smoke --resume", parts) == 0
    assert results.read_result(parts / "result.json").numbers == numbers
    assert (parts / "network.npz").read_bytes()
    assert sorted(path.name for path in parts.iterdir()) == [
        "curve.csv",
        "curve.png",
        "log",
        "network.npz",
        "result.json",
    ]


@dataclasses.dataclass(frozen=True)
class Config:
    rate: float = 2.0


class State(NamedTuple):
    """A training that adds up."""

    step: jax.Array
    total: jax.Array


def add(state):
    after = State(state.step + 1, state.total + state.step.astype(jnp.float32))
    return after, dict.fromkeys(learner.CHECKED, after.total)


def trainee(folder, step=add, config=Config()):
    arguments = SimpleNamespace(out=folder, resume=True, overwrite=False, preset="smoke")
    run = Run(arguments, config, experiment="sums", command="")
    return training_run.Trainee(State(jnp.int32(0), jnp.float32(0)), step, run)


def test_training_goes_on_from_its_checkpoint(tmp_path):
    trainee(tmp_path).train(4)
    resumed = trainee(tmp_path)
    assert int(resumed.state.step) == 4
    resumed.train(10)
    assert float(resumed.state.total) == sum(range(10))


def test_training_goes_on_when_its_config_has_a_new_field(tmp_path):
    """As a run does: the field is as its default says, and so it was before."""
    trainee(tmp_path).train(4)
    newer = dataclasses.make_dataclass("Config", [("more", int, 1)], bases=(Config,), frozen=True)
    assert int(trainee(tmp_path, config=newer()).state.step) == 4


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_training_goes_back_from_a_damaged_checkpoint_to_the_one_before(tmp_path):
    for step in (4, 6):
        trainee(tmp_path).train(step)
    states = tmp_path / "checkpoint" / "training"
    spoil(states / "1")
    with pytest.warns(UserWarning, match=f"{states}/1 is damaged: .*; going back to .*{states}/0$"):
        resumed = trainee(tmp_path)
    assert int(resumed.state.step) == 4
    resumed.train(10)
    assert float(resumed.state.total) == sum(range(10))
    spoil(states)
    with pytest.raises(ValueError, match=f"{states}/2 is damaged: .*; .*{states}/1 is damaged: ."):
        trainee(tmp_path)


def spoil(folder):
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-10])


def test_training_does_not_pretend_to_be_at_an_earlier_step(tmp_path):
    """What is measured then would be of the later step."""
    trainee(tmp_path).train(4)
    with pytest.raises(ValueError, match="is already of step 4, and what was kept of step 2 is"):
        trainee(tmp_path).train(2)


def test_training_that_was_stopped_in_its_first_checkpoint_begins_anew(tmp_path):
    unfinished = tmp_path / "checkpoint" / "training" / "0.orbax-checkpoint-tmp"
    unfinished.mkdir(parents=True)
    (unfinished / "part").write_text("of it")
    restarted = trainee(tmp_path)
    assert int(restarted.state.step) == 0
    restarted.train(3)
    assert int(trainee(tmp_path).state.step) == 3


def test_training_stops_at_numbers_that_are_not_finite(tmp_path):
    def broken(state):
        after, metrics = add(state)
        return after, metrics | {"values": jnp.float32(jnp.nan)}

    with pytest.raises(FloatingPointError, match="step 0: not finite: values"):
        trainee(tmp_path, broken).train(3)


def test_metrics_are_read_while_the_next_step_runs_and_before_anything_is_kept(
    tmp_path, monkeypatch
):
    events = []

    def step(state):
        events.append(f"step {int(state.step)}")
        return add(state)

    def read(metrics, number):
        events.append(f"read {number}")
        learner.require_finite_losses(metrics, number)

    monkeypatch.setattr(training_run, "require_finite_losses", read)
    trained = trainee(tmp_path, step)
    monkeypatch.setattr(trained, "_save", lambda: events.append("save"))
    trained.train(3)
    assert events == ["step 0", "step 1", "read 0", "step 2", "read 1", "read 2", "save"]


def test_a_last_step_that_is_not_finite_is_not_kept(tmp_path):
    def broken(state):
        after, metrics = add(state)
        return after, metrics | {"policy": jnp.where(state.step == 2, jnp.nan, 1.0)}

    with pytest.raises(FloatingPointError, match="step 2: not finite: policy"):
        trainee(tmp_path, broken).train(3)
    assert not (tmp_path / "checkpoint" / "training").exists()
