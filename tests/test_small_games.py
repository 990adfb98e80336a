"""Matrix games and tic-tac-toe against OpenSpiel; RPS+ and coin toss against their papers."""

import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest
from normal_form import guaranteed, payoff_table
from openspiel_parity import assert_same_game, assert_same_tree

from jaxgames import TERMINAL, checked_step, enumerate_game, make

THIRD = 1 / 3


def play(game, moves):
    state = game.init()
    for move in moves:
        state = checked_step(game, state, move)
    return state


@pytest.mark.parametrize("name", ["matrix_mp", "matrix_rps"])
def test_matrix_game_equals_openspiel(name):
    assert_same_tree(make(name), pyspiel.load_game_as_turn_based(name))


@pytest.mark.parametrize(
    ("alias", "name"), [("matching_pennies", "matrix_mp"), ("rock_paper_scissors", "matrix_rps")]
)
def test_matrix_game_has_a_common_name(alias, name):
    assert make(alias) == make(name)
    assert str(make(alias)) == name


@pytest.mark.parametrize(
    ("name", "mixture"),
    [("matrix_mp", [0.5, 0.5]), ("matrix_rps", [THIRD] * 3), ("rps_plus", [0.4, 0.4, 0.2])],
)
def test_equilibrium_of_matrix_game_has_value_zero(name, mixture):
    tree = enumerate_game(make(name))
    assert tree.num_decisions == (1, 1)
    assert guaranteed(tree, [np.array([mixture])] * 2) == pytest.approx((0, 0), abs=1e-12)


def test_rps_plus_doubles_every_win_with_scissors_shown():
    doubled = payoff_table(enumerate_game(make("rps_plus")))
    plain = payoff_table(enumerate_game(make("matrix_rps")))
    scissors = np.arange(3) == 2
    stakes = np.where(scissors[:, None] | scissors[None, :], 2, 1)
    np.testing.assert_array_equal(doubled, plain * stakes)


@pytest.mark.parametrize("name", ["matrix_mp", "matrix_rps", "rps_plus"])
def test_first_move_stays_hidden_until_the_second(name):
    game = make(name)
    states = [play(game, [move]) for move in (0, 1)]
    public = [game.public_state(state).tolist() for state in states]
    second = [game.information_state(state, 1).tolist() for state in states]
    first = [game.information_state(state, 0).tolist() for state in states]
    assert public[0] == public[1]
    assert second[0] == second[1]
    assert first[0] != first[1]


COIN_RULES = [  # (moves, payoff to player 0): coin 0 heads; 0 sell, 1 play; guess 0 heads
    ([0, 0], 0.5),
    ([1, 0], -0.5),
    ([0, 1, 0], -1.0),
    ([0, 1, 1], 1.0),
    ([1, 1, 0], 1.0),
    ([1, 1, 1], -1.0),
]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("moves", "payoff"), COIN_RULES)
def test_payoffs_of_coin_toss(swapped, moves, payoff):
    state = play(make(f"coin_toss(swapped={swapped})"), moves)
    payoff = -payoff if swapped and len(moves) == 2 else payoff
    assert int(state.actor) == TERMINAL
    assert state.returns.tolist() == [payoff, -payoff]


@pytest.mark.parametrize(("swapped", "heads"), [(False, 0.25), (True, 0.75)])
def test_equilibrium_of_coin_toss_depends_on_the_prices(swapped, heads):
    """Guessing heads with this probability holds player 0 to 0; with the other one, to 0.5."""
    tree = enumerate_game(make(f"coin_toss(swapped={swapped})"))
    assert tree.num_histories == 11
    assert tree.num_decisions == (2, 1)
    uniform = np.full((2, 2), 0.5)
    equilibrium = [uniform, np.array([[heads, 1 - heads]])]
    assert guaranteed(tree, equilibrium) == pytest.approx((0, 0), abs=1e-12)
    assert guaranteed(tree, [uniform, np.array([[1 - heads, heads]])])[1] == pytest.approx(0.5)


def test_tic_tac_toe_equals_openspiel():
    assert_same_game(make("tic_tac_toe"), pyspiel.load_game("tic_tac_toe"), num_playouts=60, seed=0)


def test_tic_tac_toe_picture_and_names_equal_openspiel():
    game, theirs = make("tic_tac_toe"), pyspiel.load_game("tic_tac_toe").new_initial_state()
    state = game.init()
    for move in (4, 0, 2, 6, 3, 5, 1, 7, 8):
        assert game.action_name(state, move) == theirs.action_to_string(move)
        state = checked_step(game, state, move)
        theirs.apply_action(move)
        assert game.render(state) == str(theirs)
    assert state.returns.tolist() == [0, 0]


def test_features_are_seen_from_the_player():
    game = make("tic_tac_toe")
    state = play(game, [4, 0])
    own, other = jnp.split(game.features(state, 1), 2)
    assert jnp.flatnonzero(own).tolist() == [0]
    assert jnp.flatnonzero(other).tolist() == [4]
