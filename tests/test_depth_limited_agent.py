"""The agent that solves one depth-limited subgame after the other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames import make
from jaxgames.game_tree import enumerate_game
from solvers import evaluation, linear_program
from solvers.depth_limited import agent, continuations
from solvers.depth_limited.agent import Nested
from solvers.depth_limited.subgame import after_decisions
from solvers.public_tree import build_public_tree


def two_more(tree, root):
    return after_decisions(tree, 2, root=root)


@functools.cache
def kuhn():
    tree = enumerate_game(make("kuhn_poker"))
    public = build_public_tree(tree)
    value, policy = linear_program.solve(public)
    blueprint = tuple(jnp.asarray(rows, jnp.float32) for rows in policy)
    pure = tuple(continuations.bias_set(rows, np.eye(2, dtype=bool)) for rows in blueprint)
    pure = tuple(jnp.concatenate([rows, _always(tree, p)]) for p, rows in enumerate(pure))
    return public, value, Nested(tree, blueprint, pure, two_more)


def _always(tree, player):
    return jnp.stack([jnp.eye(2)[jnp.full(tree.num_decisions[player], a)] for a in range(2)])


@pytest.mark.slow
def test_agents_play_near_equilibrium():
    public, value, nested = kuhn()
    policy = tuple(agent.composed_policy(nested, player)[player] for player in range(2))
    assert float(evaluation.exploitability(public, policy)) < 0.005
    assert float(evaluation.expected_value(public, policy)[0]) == pytest.approx(value, abs=0.01)


@pytest.mark.parametrize("player", [0, 1])
def test_an_agent_does_what_its_composition_says(player):
    """Along every path of public states, thinking wherever somebody is to act."""
    _, _, nested = kuhn()
    composed = agent.composed_policy(nested, player)
    tree, visited = nested.tree, 0
    waiting = [agent.init(nested, player)]
    while waiting:
        state = waiting.pop()
        rows = np.flatnonzero(tree.public_state == state.public)
        actor = int(tree.actor[rows[0]])
        if actor >= 0:
            state, policy = agent.think(nested, state)
            numbers = np.unique(tree.information_state[rows, actor])
            np.testing.assert_allclose(policy, np.asarray(composed[actor])[numbers], atol=1e-5)
            visited += 1
        inner = tree.public_state[tree.parent[1:]] == state.public
        for child in np.unique(tree.public_state[1:][inner]):
            waiting.append(agent.observe(nested, state, int(child)))
    assert visited == 4


def test_acting_and_errors():
    _, _, nested = kuhn()
    state = agent.init(nested, 0)
    with pytest.raises(ValueError, match="public=9 is not next"):
        agent.observe(nested, state, 9)
    with pytest.raises(ValueError, match="no player is to act at public state 0"):
        agent.think(nested, state)
    state = agent.observe(nested, agent.observe(nested, state, 1), 2)
    state, action, policy = agent.act(nested, jax.random.key(0), state, 0)
    assert policy[int(action)] > 0
    assert policy.sum() == pytest.approx(1.0, abs=1e-5)
