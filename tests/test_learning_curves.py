"""Learning curves on a schedule, of learners whose values are known."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.tabular import learning_curves
from experiments.tabular.learning_curves import Method, learn, log_spaced, of_seeds, reported

AT = (3, 10, 700)


def counting(step, *, start=0.0):
    """A learner that adds `step` and a random number of its own in every episode."""

    def run(learner, key, count):
        def episode(_, learner):
            noise = jax.random.uniform(jax.random.fold_in(key, learner["step"]))
            return {"step": learner["step"] + 1, "sum": learner["sum"] + step + noise}

        return jax.lax.fori_loop(0, count, episode, learner)

    begin = {"step": jnp.int32(0), "sum": jnp.float32(start)}
    return Method(**of_seeds(begin, 2), run=run, measure=lambda learner: learner["sum"])


def methods():
    return {"ones": counting(1), "hundreds": counting(100)}


def measured(folder):
    return learn(folder / "curve", methods(), at=AT)


def test_every_seed_of_every_method_is_measured_on_schedule(tmp_path):
    curves = measured(tmp_path)
    assert list(curves) == ["ones", "hundreds"]
    for name, step in (("ones", 1), ("hundreds", 100)):
        chex.assert_shape(curves[name], (3, 2))
        mean = (curves[name] / np.array(AT)[:, None])[-1]
        np.testing.assert_allclose(mean, step + 0.5, atol=0.06)  # 5 standard errors
        assert curves[name][0, 0] != curves[name][0, 1]


def test_interrupted_curves_resume_to_the_same_numbers(tmp_path, monkeypatch):
    whole = measured(tmp_path / "whole")
    (tmp_path / "parts" / "curve").mkdir(parents=True)  # as if killed before the first checkpoint

    def stopped_after(pieces):
        def pressed():
            nonlocal pieces
            pieces -= 1
            return pieces < 0

        class Waits:
            __enter__ = staticmethod(lambda: pressed)
            __exit__ = staticmethod(lambda *error: None)

        return Waits

    for pieces in (1, 3):
        with monkeypatch.context() as patch:
            patch.setattr(learning_curves, "interrupt_waits", stopped_after(pieces))
            with pytest.raises(KeyboardInterrupt, match="stopped after"):
                measured(tmp_path / "parts")
    parts = measured(tmp_path / "parts")
    assert list(parts) == list(whole)
    chex.assert_trees_all_equal(parts, whole)
    again = measured(tmp_path / "parts")  # from a finished checkpoint
    chex.assert_trees_all_equal(again, whole)


def test_measurements_must_be_finite(tmp_path):
    lost = {"lost": counting(1, start=float("nan"))}
    with pytest.raises(ValueError, match=r"lost: measured .*nan.* after 3 episodes"):
        learn(tmp_path / "curve", lost, at=AT)


def test_points_of_a_schedule():
    at = log_spaced(100, 2500)
    assert at == (100, 125, 160, 200, 250, 315, 400, 500, 630, 800, 1000, 1250, 1600, 2000, 2500)
    assert log_spaced(100, 110) == (100, 110)
    assert [at[number] for number in reported(at)] == [100, 500, 1000, 2500]
