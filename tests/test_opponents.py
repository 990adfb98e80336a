"""Named agents: policies by information state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_tabulate import GLASSES, random_policy

from experiments.best_response.named_agents import information_state_policies
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.game_tree import check_policies, enumerate_game
from jaxgames.registry import make
from solvers import evaluation
from solvers.evaluation.belief_exploitability import exploitability
from solvers.sequence_form import build_sequence_form


@pytest.mark.parametrize("name", ["kuhn_poker", pytest.param(GLASSES, marks=pytest.mark.slow)])
def test_policies_of_public_states_are_exploited_as_much_in_the_game(name):
    """Also in Scotland Yard, where rows forget how a station was reached."""
    game, table = make(name), belief_table(make(name))
    listing, tree = list_public_states(table), enumerate_game(game)
    policy = random_policy(table, listing)
    policies = information_state_policies(game, tree, table, list(map(np.asarray, policy)))
    check_policies(tree, policies)
    game = build_sequence_form(tree)
    measured = evaluation.exploitability(game, tuple(map(jnp.asarray, policies)))
    expected = jax.jit(exploitability)(table, listing, policy)
    assert float(jnp.ravel(measured)[0]) == pytest.approx(float(expected), abs=1e-5)
    assert float(measured) > 0.01
