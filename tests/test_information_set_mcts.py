"""Information-set MCTS: counts, read-outs, and play that gets better with search."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling_cases import compiled

from jaxgames.kuhn import BET
from solvers import evaluation
from solvers.sampling import information_set_mcts as mcts
from solvers.sampling.information_set_mcts import InformationSetMcts, IsmctsResult


def nash_conv(name, policy):
    return float(evaluation.nash_conv(compiled(name)[1], policy))


def test_every_simulation_is_a_visit_where_the_search_is():
    _, _, tree = compiled("kuhn_poker")
    settings = InformationSetMcts(exploration=2.0, simulations=37)
    result = mcts.search_everywhere(tree, jax.random.key(0), settings=settings, batch=5)
    np.testing.assert_array_equal(result.visits.sum(axis=1), np.full(12, 37))
    assert (np.asarray(result.visits)[np.asarray(tree.uniform[:-1]) == 0] == 0).all()


def test_known_last_decisions():
    """Facing a bet in Kuhn: with a king a call wins 2, with a jack it loses 2, folding loses 1."""
    _, _, tree = compiled("kuhn_poker")
    settings = InformationSetMcts(exploration=2.0, simulations=500)
    result = mcts.search_everywhere(tree, jax.random.key(0), settings=settings)
    chosen = np.concatenate(mcts.max_visits(tree, result))
    seen = []
    for state in range(tree.num_states):
        places = np.flatnonzero(np.asarray(tree.state) == state)
        after = np.asarray(tree.table)[places, 2 + BET]  # the place after a bet, which is a call
        wins = set(np.asarray(tree.payoffs)[after, int(tree.actor[places[0]])])
        if wins in ({2.0}, {-2.0}):  # the game ends there, and the card decides
            (win,) = wins
            seen.append(win)
            assert chosen[state, BET] == (win > 0)
            assert float(result.values[state].max()) == pytest.approx(max(win, -1.0))
    assert sorted(seen) == [-2, -2, 2, 2]


def test_more_search_is_less_exploitable():
    _, _, tree = compiled("leduc_poker(suit_isomorphism=true)")
    nash_convs = {}
    for count in (10, 400):
        settings = InformationSetMcts(exploration=13.0, simulations=count)
        result = mcts.search_everywhere(tree, jax.random.key(1), settings=settings)
        nash_convs[count] = nash_conv(
            "leduc_poker(suit_isomorphism=true)", mcts.max_visits(tree, result)
        )
    assert nash_convs[400] < 0.6 * nash_convs[10]


def test_read_outs():
    _, _, tree = compiled("matrix_rps")
    result = IsmctsResult(
        visits=jnp.array([[6, 3, 1], [2, 2, 0]]),
        values=jnp.array([[0.1, 0.3, -1.0], [0.0, 0.5, 9]]),
    )
    expected = {
        mcts.visit_distribution: ([[0.6, 0.3, 0.1]], [[0.5, 0.5, 0]]),
        mcts.max_visits: ([[1, 0, 0]], [[0.5, 0.5, 0]]),
        mcts.max_value: ([[0, 1, 0]], [[0, 1, 0]]),
    }
    for read_out, policy in expected.items():
        jax.tree.map(
            np.testing.assert_allclose, read_out(tree, result), tuple(map(np.array, policy))
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exploration": float("inf")}, r"exploration=inf must be at least 0 and finite"),
        ({"exploration": 1.0, "simulations": 0}, r"simulations=0 must be at least 1"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        InformationSetMcts(**options)
