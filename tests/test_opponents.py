"""Agents as policies of information states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_tabulate import GLASSES, uniform_and_random

from experiments.opponents import by_information_state
from jaxgames.game_tree import check_policies, enumerate_game
from jaxgames.public_states import list_public_states
from jaxgames.registry import make
from jaxgames.tabulate import belief_table
from solvers import evaluation
from solvers.public_tree import build_public_tree
from solvers.search.listing import exploitability


@pytest.mark.parametrize("name", ["kuhn_poker", GLASSES])
def test_policies_of_public_states_are_exploited_as_much_in_the_game(name):
    """In Scotland Yard they forget how a station was reached; a best response does not gain."""
    game, table = make(name), belief_table(name)
    listing, tree = list_public_states(table), enumerate_game(game)
    policy = uniform_and_random(table, listing)
    found = by_information_state(game, tree, table, [np.asarray(policy)] * 2)
    check_policies(tree, found)
    public = build_public_tree(tree)
    measured = evaluation.exploitability(public, tuple(map(jnp.asarray, found)))
    expected = jax.jit(exploitability)(table, listing, policy)
    assert float(jnp.ravel(measured)[0]) == pytest.approx(float(expected), abs=1e-5)
    assert float(measured) > 0.01
