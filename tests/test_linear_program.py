"""The exact oracle against published values, tables of pure strategies, and exploitability."""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.optimize
from normal_form import guaranteed, payoff_table
from solver_cases import assert_policies_close, form_of, gains, game_tree, swapped

from solvers import linear_program
from solvers.sequence_form import build_sequence_form


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


# Kuhn (1950); Leduc and liar's dice from linear programs made of OpenSpiel's games, with 3 sides
# from its CFR+; the last three by hand (Brown and Sandholm 2017, 2018)
VALUES = {
    "kuhn_poker": -1 / 18,
    "leduc_poker": -0.085606424078,
    "leduc_poker(suit_isomorphism=true)": -0.085606424078,
    "liars_dice(sides=3)": 1 / 9,
    "liars_dice(sides=4)": 1 / 16,
    "liars_dice(sides=5)": 1 / 125,
    "goofspiel(cards=4,points=descending)": 0.0,  # by symmetry
    "matrix_mp": 0.0,
    "rps_plus": 0.0,
    "coin_toss": 0.0,
}
SLOW = {
    "leduc_poker(suit_isomorphism=true)",
    *(f"liars_dice(sides={sides})" for sides in (3, 4, 5)),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param(*item, marks=[pytest.mark.slow] * (item[0] in SLOW)) for item in VALUES.items()],
)
def test_values_and_equilibria(name, value):
    solved, policies = linear_program.solve(form_of(name))
    np.testing.assert_allclose(solved, value, atol=1e-9)
    values, _, nash_conv = gains(form_of(name), policies)
    np.testing.assert_allclose(values, [value, -value], atol=1e-9)
    np.testing.assert_allclose(nash_conv, 0, atol=1e-9)
    for player, policy in enumerate(policies):
        np.testing.assert_allclose(policy.sum(axis=1), 1)
        assert (policy[~game_tree(name).legal_actions(player)] == 0).all()


@pytest.mark.parametrize(
    ("name", "player", "expected"),
    [
        ("matrix_mp", 0, [0.5, 0.5]),
        ("rps_plus", 0, [0.4, 0.4, 0.2]),
        ("rps_plus", 1, [0.4, 0.4, 0.2]),
        ("coin_toss", 1, [0.25, 0.75]),
        ("coin_toss(swapped=true)", 1, [0.75, 0.25]),
    ],
)
def test_unique_equilibria(name, player, expected):
    _, policies = linear_program.solve(form_of(name))
    np.testing.assert_allclose(policies[player], [expected], atol=1e-9)


def value_of_matrix(table):
    """max over mixed rows x of the least column of x @ table."""
    rows, columns = table.shape
    optimum = scipy.optimize.linprog(
        np.append(np.zeros(rows), -1),
        A_ub=np.hstack([-table.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=[[1.0] * rows + [0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
    )
    return -optimum.fun


@pytest.mark.parametrize(
    "name",
    [
        "untimed",
        "random(seed=35,zero_sum=true)",
        "random(seed=14,zero_sum=true)",
        "random(seed=12,zero_sum=true)",
        "random(seed=3,zero_sum=true)",  # player 0 never acts
    ],
)
def test_agrees_with_the_table_of_pure_strategies(name):
    """Actions that depend on the information state, private and public chance and signals."""
    explicit = game_tree(name)
    value, policies = linear_program.solve(form_of(name))
    np.testing.assert_allclose(value, value_of_matrix(payoff_table(explicit)), atol=1e-8)
    if min(explicit.num_decisions) > 0:
        np.testing.assert_allclose(guaranteed(explicit, list(policies)), value, atol=1e-8)


def test_swapped_players_have_the_opposite_value():
    name = "random(seed=35,zero_sum=true)"
    value, _ = linear_program.solve(form_of(name))
    other, _ = linear_program.solve(build_sequence_form(swapped(game_tree(name)), dtype="float64"))
    np.testing.assert_allclose(other, -value, atol=1e-9)
    assert abs(value) > 1e-3


def test_single_precision_trees_are_solved_in_double():
    form = build_sequence_form(game_tree("kuhn_poker"), dtype="float32")
    value, policies = linear_program.solve(form)
    np.testing.assert_allclose(value, -1 / 18, atol=1e-7)
    assert policies[0].dtype == np.float64
    again, others = linear_program.solve(form_of("kuhn_poker"))
    np.testing.assert_allclose(value, again, atol=1e-7)
    assert_policies_close(policies, others, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: form_of("kuhn_poker(players=3)"), "has 3 players; the program needs 2"),
        (lambda: form_of("random(seed=10,players=1)"), "has 1 players; the program needs 2"),
        (lambda: form_of("random(seed=35)"), "random 35 is not zero-sum: payoffs sum to"),
        (
            lambda: build_sequence_form(
                dataclasses.replace(
                    game_tree("random(seed=35)"),
                    returns=1e-7 * game_tree("random(seed=35)").returns,
                ),
                dtype="float64",
            ),
            "random 35 is not zero-sum: payoffs sum to",
        ),
        (lambda: form_of("kuhn_poker", root=2), r"kuhn_poker.*: subgames with several root"),
    ],
    ids=["three players", "one player", "not zero-sum", "small payoffs", "several roots"],
)
def test_games_it_cannot_solve(make, message):
    with pytest.raises(ValueError, match=message):
        linear_program.solve(make())
