"""Values on the public states of a belief-level game, against those on its histories."""

import functools

import jax
import numpy as np
import pytest
from solver_reference import random_policies

from jaxgames.game_tree import enumerate_game
from jaxgames.public_states import list_public_states
from jaxgames.public_table import public_table
from jaxgames.registry import make
from solvers import evaluation
from solvers.public_tree import build_public_tree
from solvers.search import listing

GAMES = ("leduc_poker", "goofspiel(cards=3)", "coin_toss")


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


@functools.cache
def compiled(name):
    tree = enumerate_game(make(name))
    table = public_table(tree, dtype="float64")
    return tree, table, list_public_states(table)


@pytest.mark.parametrize("name", GAMES)
def test_values_and_best_responses_are_those_of_the_game(name):
    tree, table, states = compiled(name)
    policy = random_policies(tree, 0)
    public = build_public_tree(tree, dtype="float64")
    mine = listing.listed_policy(table, states, policy)
    found = float(listing.expected_value(table, states, mine))
    assert found == pytest.approx(float(evaluation.expected_value(public, policy)[0]), abs=1e-12)
    found = float(listing.exploitability(table, states, mine))
    assert found == pytest.approx(float(evaluation.exploitability(public, policy)), abs=1e-12)


def test_every_public_state_is_listed_once():
    _, table, states = compiled("leduc_poker")
    numbers = np.asarray(states.state)
    first = int(table.first)
    np.testing.assert_array_equal(np.sort(numbers), np.arange(first, len(table.actors)))


def test_too_many():
    _, table, _ = compiled("leduc_poker")
    with pytest.raises(ValueError, match="more than max_states=50 public states"):
        list_public_states(table, max_states=50)
