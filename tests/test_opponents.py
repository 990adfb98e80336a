"""Agents as policies of information states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_tabulate import GLASSES, uniform_and_random

from experiments.best_response.named_agents import by_information_state
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.game_tree import check_policies, enumerate_game
from jaxgames.registry import make
from solvers import evaluation
from solvers.evaluation.belief_exploitability import exploitability
from solvers.sequence_form import build_sequence_form


@pytest.mark.parametrize("name", ["kuhn_poker", GLASSES])
def test_policies_of_public_states_are_exploited_as_much_in_the_game(name):
    """In Scotland Yard they forget how a station was reached; a best response does not gain."""
    game, table = make(name), belief_table(make(name))
    listing, tree = list_public_states(table), enumerate_game(game)
    policy = uniform_and_random(table, listing)
    rows = by_information_state(game, tree, table, [np.asarray(policy)] * 2)
    check_policies(tree, rows)
    public = build_sequence_form(tree)
    measured = evaluation.exploitability(public, tuple(map(jnp.asarray, rows)))
    expected = jax.jit(exploitability)(table, listing, policy)
    assert float(jnp.ravel(measured)[0]) == pytest.approx(float(expected), abs=1e-5)
    assert float(measured) > 0.01
