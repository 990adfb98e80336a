"""The experiment `sog_tictactoe`: its measures, results. (It resumes as `sog_leduc` does.)"""

import functools

import numpy as np
import pytest

from experiments import cli
from experiments.harness import results
from experiments.student_of_games import sog_tictactoe
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from solvers.perfect_information import minimax


@functools.cache
def solved():
    positions = minimax.enumerate_positions(pgx_beliefs("tic_tac_toe"))
    return positions, minimax.perfect_actions(positions)


def play(allowed):
    """The policy of an agent that takes the first allowed action in every position."""
    positions, _ = solved()
    asked = []

    def choose(numbers, states):
        asked.append(numbers)
        np.testing.assert_array_equal(states.num_steps, positions.depth[numbers])
        return allowed[numbers].argmax(axis=1)

    policy = sog_tictactoe.composed(positions, choose, batch=16)
    assert all(len(numbers) == 16 for numbers in asked)
    return positions, policy


def test_a_perfect_agent_never_loses():
    positions, policy = play(solved()[1])
    for seat in range(2):
        assert sog_tictactoe.against_best(positions, policy, seat=seat) == 0
        shares = sog_tictactoe.against_perfect(positions, policy, seat=seat)
        np.testing.assert_allclose(shares, (0, 1, 0), atol=1e-12)


def test_an_agent_that_fills_the_first_cell_is_met_by_all_its_games():
    """As first player it begins in a corner, against which only the centre draws."""
    positions, policy = play(solved()[0].child >= 0)
    met = np.flatnonzero(policy.any(axis=1))
    assert 0 in met
    assert (policy[met].argmax(axis=1) == (positions.child[met] >= 0).argmax(axis=1)).all()
    for seat in range(2):
        own = met[positions.actor[met] == seat]
        assert (positions.depth[own] % 2 == seat).all()
        shares = sog_tictactoe.against_perfect(positions, policy, seat=seat)
        assert sum(shares) == pytest.approx(1)
        assert shares[0] > 0.5
        assert sog_tictactoe.against_best(positions, policy, seat=seat) == -1


@pytest.mark.slow  # training is tested with `sog_leduc`
def test_results_of_a_run(tmp_path):
    assert cli.main(["sog_tictactoe", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    numbers = results.read_result(tmp_path / "result.json").numbers
    assert [number.name.partition(":")[0] for number in numbers[::3]] == [
        "untrained SoG(4,1)",
        "SoG(4,1)",
    ]
    assert all(number.low <= number.value <= number.high for number in numbers)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "curve.csv",
        "curve.png",
        "log",
        "network.npz",
        "result.json",
    ]
