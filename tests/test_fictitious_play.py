"""Fictitious play: by hand on a matrix game, and towards known values."""

import jax.numpy as jnp
import numpy as np
import pytest
from sampling_cases import compiled

from solvers import evaluation, fictitious_play


def test_matching_pennies_by_hand():
    """Both start with heads; then player 0 answers with heads, player 1 with tails, and so on."""
    _, public, _ = compiled("matrix_mp")
    heads = tuple(jnp.array([[1.0, 0.0]]) for _ in range(2))
    state = fictitious_play.init(public, policy=heads)
    first, second = np.array([1.0, 0.0]), np.array([1.0, 0.0])
    for count in range(1, 6):
        state = fictitious_play.run(public, state, num_iterations=1)
        mine = np.eye(2)[int(second[1] > second[0])]  # the first wants to match
        theirs = np.eye(2)[int(first[0] >= first[1])]
        first, second = (
            first + (mine - first) / (count + 1),
            second + (theirs - second) / (count + 1),
        )
        policy = fictitious_play.average_policy(public, state)
        np.testing.assert_allclose(policy[1], second[None], atol=1e-6)
        np.testing.assert_allclose(policy[0], first[None], atol=1e-6)


@pytest.mark.parametrize(("name", "value"), [("kuhn_poker", -1 / 18), ("matrix_rps", 0.0)])
def test_averages_come_near_equilibrium(name, value):
    _, public, _ = compiled(name)
    state = fictitious_play.run(public, fictitious_play.init(public), num_iterations=2000)
    policy = fictitious_play.average_policy(public, state)
    assert float(evaluation.nash_conv(public, policy)) < 0.04
    assert float(evaluation.expected_value(public, policy)[0]) == pytest.approx(value, abs=0.01)


def test_pieces_make_the_whole():
    _, public, _ = compiled("kuhn_poker")
    start = fictitious_play.init(public)
    whole = fictitious_play.run(public, start, num_iterations=30)
    half = fictitious_play.run(public, start, num_iterations=13)
    both = fictitious_play.run(public, half, num_iterations=17)
    for together, in_parts in zip(whole.average_reach, both.average_reach, strict=True):
        np.testing.assert_array_equal(together, in_parts)
