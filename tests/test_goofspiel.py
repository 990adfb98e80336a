"""Goofspiel against OpenSpiel's, made sequential by its turn-based wrapper."""

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest
from openspiel_parity import assert_same_game, assert_same_tree

from jaxgames.core import CHANCE, TERMINAL
from jaxgames.goofspiel import Goofspiel
from jaxgames.registry import make


def openspiel_goofspiel(cards, points="random", players=2, returns="win_loss"):
    return pyspiel.load_game(
        f"turn_based_simultaneous_game(game=goofspiel(imp_info=true,num_cards={cards},"
        f"points_order={points},players={players},returns_type={returns}))"
    )


@pytest.mark.parametrize("points", ["random", "descending", "ascending"])
def test_random_playouts_agree_with_openspiel(points):
    game = Goofspiel(points=points)
    assert_same_game(game, openspiel_goofspiel(13, points), num_playouts=20, seed=0)


@pytest.mark.parametrize("returns", ["win_loss", "point_difference", "total_points"])
def test_returns_of_three_players_agree_with_openspiel(returns):
    game = Goofspiel(cards=4, players=3, returns=returns)
    theirs = openspiel_goofspiel(4, players=3, returns=returns)
    assert_same_game(game, theirs, num_playouts=60, seed=1)


@pytest.mark.parametrize(
    ("cards", "points"),
    [(4, "random"), pytest.param(5, "descending", marks=pytest.mark.slow)],
)
def test_whole_tree_agrees_with_openspiel(cards, points):
    game = Goofspiel(cards=cards, points=points)
    assert_same_tree(game, openspiel_goofspiel(cards, points))


def test_whole_tree_of_three_players_agrees_with_openspiel():
    game = Goofspiel(cards=3, points="descending", players=3)
    assert_same_tree(game, openspiel_goofspiel(3, "descending", players=3))


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ("cards=1", "cards=1"),
        ("players=1", "players=1"),
        ("points=falling", "points .*'falling'"),
        ("returns=win_lose", "did you mean 'win_loss'"),
    ],
)
def test_illegal_parameters_are_refused(parameters, named):
    with pytest.raises(ValueError, match=named):
        make(f"goofspiel({parameters})")


def test_text():
    game = Goofspiel(cards=3)
    step, state = jax.jit(game.step), jax.jit(game.init)()
    assert int(state.actor) == CHANCE
    assert game.action_name(state, 1) == "reveal 2"
    for move in (1, 0, 2, 0):
        state = step(state, jnp.int32(move))
    assert game.action_name(state, 1) == "bid 2"
    assert game.render(state) == "points: 2 1  player 0: 1  player 1: 3  won by: 1"
    for move in (1, 1):
        state = step(state, jnp.int32(move))
    assert int(state.actor) == TERMINAL
    assert game.render(state) == "points: 2 1 3  player 0: 1 2 3  player 1: 3 2 1  won by: 1 = 0"
    np.testing.assert_array_equal(np.asarray(state.returns), [1, -1])
