"""Iterations with measurements on schedule: an interrupted run goes on where it stopped."""

import contextlib
import itertools

import jax.numpy as jnp
import pytest

from experiments.blueprints import measured_training


def trained(folder, made, *, at=(3, 10, 40), seed=0, state=None):
    """Counts iterations; `made` gets how many were made in each piece."""

    def advance(state, count):
        made.append(count)
        return {"count": state["count"] + count}

    return measured_training.train_and_measure(
        advance,
        {"count": jnp.int32(0)} if state is None else state,
        done=lambda state: int(state["count"]),
        at=at,
        measure=lambda state: {"square": int(state["count"]) ** 2},
        title="counting",
        folder=folder,
        identity={"seed": seed},
        keep=lambda: None,
    )


def test_what_is_measured_is_at_the_schedule(tmp_path):
    made = []
    state, found = trained(tmp_path / "run", made)
    assert int(state["count"]) == sum(made) == 40
    assert found == [{"square": n**2} for n in (3, 10, 40)]
    assert {3, 10, 40} <= set(itertools.accumulate(made))


def test_no_iteration_is_made_twice_after_ctrl_c(tmp_path, monkeypatch):
    made = []
    with monkeypatch.context() as patch:
        presses = iter([False, True])
        pressed = contextlib.nullcontext(lambda: next(presses))
        patch.setattr(measured_training, "interrupt_waits", lambda: pressed)
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "run", made)
    assert 0 < sum(made) < 40
    state, found = trained(tmp_path / "run", made)
    assert int(state["count"]) == sum(made) == 40
    assert found == [{"square": n**2} for n in (3, 10, 40)]
    trained(tmp_path / "run", made)
    assert sum(made) == 40


def test_a_state_is_made_only_without_a_checkpoint(tmp_path):
    made, states = [], []

    def start():
        states.append(0)
        return {"count": jnp.int32(0)}

    whole = trained(tmp_path / "run", made, state=start)
    again = trained(tmp_path / "run", made, state=start)
    assert whole == again
    assert sum(made) == 40
    assert len(states) == 2  # the first run looks at its shape, which JAX remembers, and makes it


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    trained(tmp_path / "run", [])
    with pytest.raises(ValueError, match="seed"):
        trained(tmp_path / "run", [], seed=1)
