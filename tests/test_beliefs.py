"""Beliefs at public states against Bayes' rule on histories; laws of the games' symmetries."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solver_reference import random_policies

from jaxgames.beliefs import belief_table
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import enumerate_game, levels
from jaxgames.registry import make
from solvers.search import exact_below_belief, readouts
from solvers.search.exact_below_belief import Whole

GAMES = (
    "matrix_mp",
    "rps_plus",
    "coin_toss",
    "kuhn_poker",
    pytest.param("leduc_poker(ranks=2)", marks=pytest.mark.slow),
    pytest.param("liars_dice(dice=1,sides=3)", marks=pytest.mark.slow),
    "goofspiel(cards=3)",
    "scotland_yard(map=glasses,rounds=2)",
)


@functools.cache
def compiled(name):
    with jax.enable_x64(True):
        tree = enumerate_game(make(name))
        return tree, belief_table(tree, dtype="float64")


def posteriors(tree, policy):
    """P(information state | public state) of both players `[2][I]`, by adding up histories.

    The second part tells which public states can be reached at all.
    """
    probability = np.ones(len(tree.parent))
    for level in levels(tree.parent):
        for history in range(level.start, level.stop):
            above, action = tree.parent[history], tree.parent_action[history]
            actor = tree.actor[above]
            if actor == CHANCE:
                chosen = tree.chance_prob[history]
            else:
                chosen = policy[actor][tree.information_state[above, actor], action]
            probability[history] = probability[above] * chosen
    public = np.bincount(tree.public_state, probability)
    beliefs = []
    for player in range(2):
        states = tree.information_state[:, player]
        mass = np.zeros(states.max() + 1)
        np.add.at(mass, states, probability)
        where = np.zeros(len(mass), int)
        where[states] = tree.public_state
        beliefs.append(mass / np.maximum(public[where], 1e-300))
    return beliefs, public > 0


@pytest.mark.parametrize("name", GAMES)
def test_beliefs_are_bayes_rule_on_histories(name):
    with jax.enable_x64(True):
        tree, table = compiled(name)
        policy = random_policies(tree, 0)
        expected, reachable = posteriors(tree, policy)
        compatible = jax.jit(table.compatible, static_argnums=1)
        actors = np.asarray(table.actors)
        information_states = [np.asarray(own) for own in table.information_states]

        @jax.jit
        def below(state, reach, policy):
            """The children, which of them exist, and both players' reaches there."""
            numbers = jnp.arange(table.num_children, dtype=jnp.int32)
            down = jax.vmap(lambda k: table.down(state, k, reach, policy))(numbers)
            return table.children(state), table.child_mask(state), down

        root = int(table.root())
        reaches = {root: tuple(rows.astype(float) for rows in table.rows(root))}
        for state in range(int(table.first), len(actors)):
            reach, actor = reaches[state], int(actors[state])
            for player in range(2):
                belief = np.asarray(reach[player] * compatible(state, player, reach[1 - player]))
                exists = information_states[player][state] >= 0
                if reachable[state]:
                    numbers = information_states[player][state][exists]
                    np.testing.assert_allclose(
                        belief[exists] / belief.sum(), expected[player][numbers], atol=1e-12
                    )
                assert not belief[~exists].any()
            if actor == TERMINAL:
                continue
            sizes = zip(table.num_actions, table.num_rows, strict=True)
            acts = tuple(np.zeros(size) for size in sizes)
            if actor >= 0:
                rows = information_states[actor][state]
                own = policy[actor][rows[rows >= 0], : table.num_actions[actor]]
                acts[actor][:, rows >= 0] = own.T
            children, exists, after = jax.device_get(below(state, reach, acts))
            for k in np.flatnonzero(exists):
                reaches[int(children[k])] = tuple(own[k] for own in after)


def test_permuting_suits_permutes_the_answer():
    """Leduc with suits told apart: ranges with suits swapped have values and policies swapped."""
    with jax.enable_x64(True):
        _, table = compiled("leduc_poker(ranks=2,suit_isomorphism=False)")
        root, suits = table.root(), np.array([1, 0, 3, 2])  # row of player 0: rank * 2 + suit
        same = np.asarray(table.weights[root]) == 0  # nobody holds the other's card
        assert (same.sum(axis=0) == 1).all()
        card = same.argmax(axis=0)  # of each row of player 1
        swap = np.stack([suits, np.argsort(card)[suits[card]]])
        reach = tuple(np.random.default_rng(0).uniform(0.1, 1, size=(2, 4)))
        swapped = lambda pair: tuple(np.asarray(pair[p])[..., swap[p]] for p in range(2))  # noqa: E731
        settings = Whole(max_nodes=200, num_iterations=20)

        @jax.jit
        def answer(reach):
            search = exact_below_belief.solve_below(table, root, reach, settings=settings)
            return readouts.average_values(search), readouts.average_policy(search)

        values, policy = answer(reach)
        assert max(np.abs(a - b).max() for a, b in zip(values, swapped(values), strict=True)) > 1e-3
        expected = swapped(values), swapped(policy)
        chex.assert_trees_all_close(answer(swapped(reach)), expected, rtol=1e-7, atol=1e-12)
