"""Games, opponents and exact numbers that the tests of best responses share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from sampling_cases import compiled

from jaxgames.core import CHANCE, TERMINAL
from jaxgames.registry import make
from solvers import cfr, evaluation


@functools.cache
def solved(name, iterations):
    """What CFR+ plays on average after `iterations` iterations."""
    public = compiled(name)[1]
    state = cfr.run(public, cfr.init(public), solver=cfr.cfr_plus(), num_iterations=iterations)
    return tuple(np.asarray(rows) for rows in cfr.average_policy(public, state))


@functools.cache
def uniform(name):
    """Policies that play all legal actions equally often."""
    tree = compiled(name)[0]
    legal = (tree.legal_actions(player) for player in range(tree.num_players))
    return tuple(rows / rows.sum(axis=1, keepdims=True) for rows in legal)


def best_values(name, policies):
    """What exact best responses win."""
    policies = tuple(jnp.asarray(rows, jnp.float32) for rows in policies)
    return np.asarray(evaluation.best_response_value(compiled(name)[1], policies))


def value(name, policies, player, response):
    """What `player` wins with another policy than its own."""
    policies = [jnp.asarray(rows, jnp.float32) for rows in policies]
    policies[player] = jnp.asarray(response, jnp.float32)
    return float(evaluation.expected_value(compiled(name)[1], tuple(policies))[player])


def beliefs_by_hand(name, policies):
    """Pr(h | s) by Bayes from a walk through the rules: of each player and each key of an
    information state where it acts, by the moves of the history."""
    game, tree = make(name), compiled(name)[0]
    step = jax.jit(game.step)
    keys = [jax.jit(functools.partial(game.information_state, player=p)) for p in range(2)]
    row_of = {}  # information states by key, numbered as the tree numbers them
    children = {}
    for history in range(1, tree.num_histories):
        children[int(tree.parent[history]), int(tree.parent_action[history])] = history
    weights = {}

    def walk(state, history, moves, reach, chance):
        actor = int(state.actor)
        if actor == TERMINAL:
            return
        if actor == CHANCE:
            for outcome in np.flatnonzero(np.asarray(state.chance_probs)):
                share = float(state.chance_probs[outcome])
                after = step(state, jnp.int32(outcome))
                walk(after, children[history, outcome], (*moves, outcome), reach, chance * share)
            return
        key = actor, tuple(np.asarray(keys[actor](state)).tolist())
        row_of[key] = int(tree.information_state[history, actor])
        weights.setdefault(key, {})[moves] = history, chance * reach[1 - actor]
        for action in np.flatnonzero(np.asarray(state.legal)):
            share = float(policies[actor][row_of[key], action])
            own = [r * share if p == actor else r for p, r in enumerate(reach)]
            after = step(state, jnp.int32(action))
            walk(after, children[history, action], (*moves, action), own, chance)

    walk(game.init(), 0, (), [1.0, 1.0], 1.0)
    beliefs = {}
    for key, histories in weights.items():
        total = sum(weight for _, weight in histories.values())
        here = {h: weight / total if total else None for h, weight in histories.values()}
        beliefs[key[0], row_of[key]] = here
    return beliefs
