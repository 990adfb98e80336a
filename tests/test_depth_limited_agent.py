"""The agent that plays by nested depth-limited solving."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames import make
from jaxgames.game_tree import enumerate_game
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_sizes import build_betting_tree, with_bet
from jaxgames.holdem.small_poker import build_small_poker, known_actions
from solvers import evaluation, linear_program
from solvers.holdem.small_poker_translation import translated
from solvers.sequence_form import build_sequence_form
from solvers.subgames import continuations, depth_limited_agent
from solvers.subgames.depth_limited_agent import DepthLimitedAgent
from solvers.subgames.depth_limited_subgame import after_decisions, ends_of_rounds


def two_more(tree, root):
    return after_decisions(tree, 2, root=root)


@functools.cache
def kuhn():
    tree = enumerate_game(make("kuhn_poker"))
    form = build_sequence_form(tree)
    value, policy = linear_program.solve(form)
    blueprint = tuple(jnp.asarray(rows, jnp.float32) for rows in policy)
    pure = tuple(continuations.bias_set(rows, np.eye(2, dtype=bool)) for rows in blueprint)
    pure = tuple(jnp.concatenate([rows, _always(tree, p)]) for p, rows in enumerate(pure))
    return form, value, DepthLimitedAgent(tree, blueprint, pure, two_more)


def _always(tree, player):
    return jnp.stack([jnp.eye(2)[jnp.full(tree.num_decisions[player], a)] for a in range(2)])


@pytest.mark.slow
def test_agents_play_near_equilibrium():
    form, value, agent = kuhn()
    policy = tuple(
        depth_limited_agent.composed_policy(agent, player)[player] for player in range(2)
    )
    assert float(evaluation.exploitability(form, policy)) < 0.005
    assert float(evaluation.expected_value(form, policy)[0]) == pytest.approx(value, abs=0.01)


@pytest.mark.parametrize("player", [0, 1])
def test_an_agent_plays_its_composed_policy(player):
    """Along every path of public states, thinking wherever somebody is to act."""
    _, _, agent = kuhn()
    composed = depth_limited_agent.composed_policy(agent, player)
    tree, visited = agent.tree, 0
    pending = [depth_limited_agent.init(agent, player)]
    while pending:
        state = pending.pop()
        rows = np.flatnonzero(tree.public_state == state.public)
        actor = int(tree.actor[rows[0]])
        if actor >= 0:
            state, policy = depth_limited_agent.think(agent, state)
            numbers = np.unique(tree.information_state[rows, actor])
            np.testing.assert_allclose(policy, np.asarray(composed[actor])[numbers], atol=1e-5)
            visited += 1
        inner = tree.public_state[tree.parent[1:]] == state.public
        for child in np.unique(tree.public_state[1:][inner]):
            pending.append(depth_limited_agent.observe(agent, state, int(child)))
    assert visited == 4


def test_acting_and_errors():
    _, _, agent = kuhn()
    state = depth_limited_agent.init(agent, 0)
    with pytest.raises(ValueError, match="public=9 does not follow 0"):
        depth_limited_agent.observe(agent, state, 9)
    with pytest.raises(ValueError, match="no player is to act at public state 0"):
        depth_limited_agent.think(agent, state)
    state = depth_limited_agent.observe(agent, depth_limited_agent.observe(agent, state, 1), 2)
    with pytest.raises(ValueError, match=r"information_state=-1 does not exist here; allowed: 0"):
        depth_limited_agent.act(agent, jax.random.key(0), state, -1)
    other = dataclasses.replace(state, player=1)
    with pytest.raises(ValueError, match="player 1 does not act here"):
        depth_limited_agent.act(agent, jax.random.key(0), other, 0)
    state, action, policy = depth_limited_agent.act(agent, jax.random.key(0), state, 0)
    assert policy[int(action)] > 0
    assert policy.sum() == pytest.approx(1.0, abs=1e-5)


def off_tree(betting, to, **cards):
    """A game with one more opening bet, and how its abstraction plays there by translation."""
    abstract = build_small_poker(betting, **cards)
    game = build_small_poker(with_bet(betting, 0, to), **cards)
    _, policy = linear_program.solve(build_sequence_form(abstract.tree))
    blueprint = tuple(
        jnp.asarray(translated(game, abstract, np.asarray(policy[p]), player=p), jnp.float32)
        for p in range(2)
    )
    return game, blueprint, known_actions(game, abstract)


def lost_by_second(game, policy):
    """What player 1 loses to a best response, beyond the value of the game."""
    form = build_sequence_form(game.tree)
    value, _ = linear_program.solve(form)
    return float(evaluation.best_response_value(form, policy)[0]) - value


@functools.cache
def kuhn_with_a_bet():
    """Into a pot of ten the abstraction bets four, or all thirty; the game also has a bet of 11."""
    sizes = BetSizes.parse("40%, allin", ""), BetSizes.parse("", "")
    return off_tree(build_betting_tree(pot=10, stack=30, streets=1, sizes=(sizes,)), 11, ranks=3)


def to_the_end(tree, root):
    return []


@pytest.mark.slow
@pytest.mark.parametrize("constraint", ["resolve", "maxmargin"])
def test_a_bet_outside_of_the_abstraction_is_answered_by_solving_again(constraint):
    game, blueprint, known = kuhn_with_a_bet()
    offered = tuple(rows[None] for rows in blueprint)
    agent = DepthLimitedAgent(
        game.tree, blueprint, offered, to_the_end, constraint=constraint, abstraction=known
    )
    (public,) = agent.off_tree
    assert lost_by_second(game, blueprint) > 0.09
    policy = depth_limited_agent.composed_policy(agent, 1)
    assert lost_by_second(game, (blueprint[0], policy[1])) < 0.002
    state = depth_limited_agent.observe(agent, depth_limited_agent.init(agent, 1), 1)
    before, _ = depth_limited_agent.think(agent, state)
    after, rows = depth_limited_agent.think(
        agent, depth_limited_agent.observe(agent, before, public)
    )
    assert (before.taken, after.taken) == (frozenset(), {public})
    assert after.root == before.public  # where the bet was made
    histories = np.flatnonzero(game.tree.public_state == public)
    numbers = np.unique(game.tree.information_state[histories, 1])
    np.testing.assert_allclose(rows, policy[1][numbers], atol=1e-5)


@pytest.mark.slow
def test_bets_outside_of_the_abstraction_in_a_game_of_two_streets():
    """No-limit Leduc: the second subgame begins at the board, behind the solution of the first."""
    sizes = BetSizes.parse("50%, allin", "allin")
    betting = build_betting_tree(pot=2, stack=8, streets=2, sizes=((sizes, sizes),) * 2)
    game, blueprint, known = off_tree(betting, 3, ranks=3, suits=2)
    kinds = np.eye(game.tree.num_actions, dtype=bool)
    offered = tuple(continuations.bias_set(rows, kinds, factors=(10.0, 1e4)) for rows in blueprint)
    agent = DepthLimitedAgent(
        game.tree, blueprint, offered, lambda tree, _: ends_of_rounds(tree), abstraction=known
    )
    policy = depth_limited_agent.composed_policy(agent, 1)
    assert lost_by_second(game, blueprint) > 0.1
    assert lost_by_second(game, (blueprint[0], policy[1])) < 0.02


def test_the_opponent_must_see_which_actions_are_outside_of_the_abstraction():
    game, blueprint, (first, second) = kuhn_with_a_bet()
    first = first.copy()
    first[0, 1] = False  # of one card only
    agent = DepthLimitedAgent(
        game.tree,
        blueprint,
        tuple(rows[None] for rows in blueprint),
        to_the_end,
        abstraction=(first, second),
    )
    with pytest.raises(ValueError, match="actions outside of it must lead"):
        depth_limited_agent.composed_policy(agent, 1)
