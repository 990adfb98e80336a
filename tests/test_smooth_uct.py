"""The experiments `smooth_uct_kuhn` and `smooth_uct_leduc`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling_cases import compiled

from experiments import cli
from experiments.harness import results
from experiments.tabular import smooth_uct_kuhn, smooth_uct_leduc
from solvers import cfr, evaluation
from solvers.sampling.decision_tree import split_by_player


def test_a_run_in_kuhn(tmp_path):
    assert cli.main(["smooth_uct_kuhn", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    result = results.read_result(tmp_path / "result.json")
    curves = ("UCT, c = 2", "Smooth UCT, c = 1.75")
    for name in curves:
        first, last = (result.number(f"{n} episodes:{name}") for n in ("500", "3,000"))
        assert last.value < first.value < 0.2
        assert first.low < first.value < first.high
    best = [number for number in result.numbers if number.name.startswith("best c")]
    assert [number.paper for number in best] == [2.0, 1.75]
    assert [number.value for number in best] == [2.0, 2.0]  # 0.25 explores too little
    rows = (tmp_path / "curve.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * 4 + 2 * 2 * len(smooth_uct_kuhn.log_spaced(500, 3000))
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_run_of_the_four_methods(tmp_path):
    assert cli.main(["smooth_uct_leduc", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    result = results.read_result(tmp_path / "result.json")
    assert result.config["game"] == "kuhn_poker"
    for name in smooth_uct_leduc.METHODS:
        first, last = (result.number(f"{n} episodes:{name}") for n in ("500", "3,000"))
        assert last.value < first.value < 0.6  # uniform play: 0.917
    assert all(number.paper is None for number in result.numbers)
    rows = (tmp_path / "curve.csv").read_text().splitlines()
    assert len(rows) == 1 + 4 * 2 * len(smooth_uct_kuhn.log_spaced(500, 3000))


def equilibrium(alpha):
    family = smooth_uct_kuhn.equilibria()
    bets = family.base + np.float32(alpha) * family.slope
    return jnp.stack([1 - bets, bets], axis=1)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1 / 3])
def test_equilibria_of_kuhn(alpha):
    """Every member of the family is an equilibrium, and has no error."""
    _, public, tree = compiled("kuhn_poker")
    policy = split_by_player(tree, equilibrium(alpha))
    assert float(evaluation.nash_conv(public, policy)) == pytest.approx(0, abs=1e-6)
    assert float(smooth_uct_kuhn.equilibria().error(policy)) == pytest.approx(0, abs=1e-12)


@pytest.mark.slow
def test_error_is_that_to_the_closest_equilibrium():
    """Compared with the closest of many equilibria."""
    _, _, tree = compiled("kuhn_poker")
    error = jax.jit(smooth_uct_kuhn.equilibria().error)
    many = np.stack([np.asarray(equilibrium(alpha)) for alpha in np.linspace(0, 1 / 3, 301)])
    for seed in range(4):
        bets = np.random.default_rng(seed).uniform(size=12).astype(np.float32) ** (seed + 1)
        policy = split_by_player(tree, jnp.stack([1 - bets, bets], axis=1))
        closest = ((many[:, :, 1] - bets) ** 2).mean(axis=1).min()
        assert float(error(policy)) == pytest.approx(closest, abs=1e-4)


def test_cfr_comes_near_the_family():
    """The policy of another solver, which does not know the family."""
    _, public, _ = compiled("kuhn_poker")
    state = cfr.run(public, cfr.init(public), solver=cfr.cfr_plus(), num_iterations=1000)
    assert float(smooth_uct_kuhn.equilibria().error(cfr.average_policy(public, state))) < 1e-4


def test_where_curves_cross():
    at = (10, 20, 30, 40)
    curves = {
        "Smooth UCT": np.array([[4.0], [3.0], [2.0], [1.0]]),
        "late": np.array([[5.0], [2.0], [2.5], [0.5]]),
        "never": np.array([[3.0], [2.0], [1.0], [1.0]]),
        "always": np.array([[3.0], [2.0], [1.0], [0.5]]),
    }
    crossings = {
        name: smooth_uct_leduc.passed(at, curves, name) for name in ("late", "never", "always")
    }
    assert crossings == {"late": 40, "never": None, "always": 10}
