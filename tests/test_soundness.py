"""Search with leaves that are solved exactly; the experiment `sog_soundness`."""

import dataclasses
import functools
import itertools

import jax
import numpy as np
import pytest

from experiments import cli
from experiments.harness import results
from experiments.student_of_games import sog_soundness
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.registry import make
from solvers.regret import PredictiveRegretMatchingPlus
from solvers.search import exact_below_belief, leaf_evaluators
from solvers.search.agent_exploitability import agents, searched_exploitability
from solvers.search.search_state import GrowingTreeCfr


@functools.cache
def exactly_solved(name, accuracy):
    """A game, its public states, and leaves that are solved in `accuracy` iterations."""
    table = belief_table(make(name))
    states = list_public_states(table)
    oracle = exact_below_belief.oracle(states, num_iterations=accuracy, max_nodes=states.num_inner)
    return table, states, leaf_evaluators.Noisy(oracle)


def measured(name, *, simulations, pace, error=0.0, batch=1, accuracy=100, **changes):
    """Exploitability of searches with leaves that are solved, their values `error` off at most."""
    table, states, evaluate = exactly_solved(name, accuracy)
    settings = GrowingTreeCfr(
        evaluate,
        simulations=simulations,
        pace=pace,
        max_path=2,
        max_nodes=states.num_inner,
        **changes,
    )
    shape = (len(table.actors), 2, max(table.num_rows))
    noise = error * jax.random.uniform(jax.random.key(1), shape, minval=-1.0, maxval=1.0)
    noise = tuple(noise[:, player, :rows] for player, rows in enumerate(table.num_rows))
    keys = jax.random.split(jax.random.key(0), 1)
    exploitability = searched_exploitability(
        table, states, (None, noise), keys, settings=settings, chains=agents(), batch=batch
    )
    return float(exploitability[0])


@pytest.mark.slow(minutes=20)
def test_exact_leaves_need_no_tree():
    """In Kuhn, re-solving at every decision with one node each; with wrong leaves it is useless."""
    small = dict(simulations=1, pace=1 / 50)
    exact = measured("kuhn_poker", **small)
    assert exact < 0.02
    assert measured("kuhn_poker", **small, error=2.0) > 5 * exact


@pytest.mark.slow(minutes=20)
@pytest.mark.parametrize(
    ("name", "simulations", "settings"),
    [
        ("kuhn_poker", (10, 100, 2000), dict(pace=1.0)),
        ("leduc_poker", (2_000, 20_000, 320_000), dict(pace=20.0, batch=16, accuracy=15)),
        ("liars_dice(dice=1,sides=4)", (20_000, 400_000), dict(pace=200.0, batch=64, accuracy=10)),
        (
            "goofspiel(cards=4,points=descending)",
            (20_000, 400_000),
            dict(pace=200.0, batch=64, accuracy=10),
        ),
        (
            "scotland_yard(map=glasses)",
            (1_200_000, 8_000_000),
            dict(pace=4000.0, batch=64, accuracy=5, exploration=30.0),
        ),
    ],
)
def test_growing_trees_with_exact_leaves_tend_to_equilibrium(name, simulations, settings):
    """Below 0.001 (1 mbb/h in poker) in the end, with the minimiser that converges fast."""
    fast = dict(minimizer=PredictiveRegretMatchingPlus(), averaging_power=2.0, follow_share=1.0)
    curve = [measured(name, simulations=count, **settings, **fast) for count in simulations]
    assert all(after < before / 2 for before, after in itertools.pairwise(curve))
    assert curve[-1] < 0.001


@pytest.fixture
def small(monkeypatch):
    part = dataclasses.replace(sog_soundness.PRESETS["smoke"].parts["kuhn"], iterations=(4,))
    config = dataclasses.replace(sog_soundness.PRESETS["smoke"], parts={"kuhn": part})
    monkeypatch.setitem(sog_soundness.PRESETS, "smoke", config)
    return part


@pytest.mark.slow(minutes=20)
def test_results_of_a_run(tmp_path, small):
    assert cli.main(["sog_soundness", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    result = results.read_result(tmp_path / "result.json")
    assert result.config["constants"]["kuhn_poker"]["states"] == 12
    numbers = result.numbers
    assert [number.name for number in numbers] == ["T=4:kuhn, error 0", "T=4:kuhn, error 1"]
    assert all(number.low <= number.value <= number.high < 0.5 for number in numbers)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "curve.csv",
        "curve.png",
        "result.json",
    ]
    rows = (tmp_path / "curve.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * small.seeds


def test_constants_of_kuhn():
    """Counted by hand: four public states with decisions, check-bet being the only third one."""
    table = belief_table(make("kuhn_poker"))
    constants = sog_soundness.constants_of(table, list_public_states(table))
    assert dataclasses.asdict(constants) == {
        "resolves": 2,
        "frontier": 3,
        "states": 12,
        "actions": 2,
        "spread": 4.0,
        "mass": pytest.approx(1.0),
    }
    assert constants.bound(200, 0.5) == pytest.approx(12 * (3 * 0.5 + 12 * 4 * 0.1), rel=1e-5)
    assert np.isfinite(constants.bound(1, 0.0))
