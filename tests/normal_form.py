"""Exact values of small two-player zero-sum games through their tables of pure strategies.

Independent of the solvers: every pure strategy of both players is played against every other.
"""

from __future__ import annotations

import itertools

import numpy as np

from jaxgames.core import CHANCE
from jaxgames.game_tree import GameTree


def pure_strategies(tree: GameTree, player: int) -> np.ndarray:
    """[S, D]: one action for each of the player's D decisions, in all possible ways."""
    legal = [np.flatnonzero(row) for row in tree.legal_actions(player)]
    return np.array(list(itertools.product(*legal)))


def payoff_table(tree: GameTree) -> np.ndarray:
    """[S0, S1]: expected payoff to player 0."""
    reach = [_reach(tree, player, pure_strategies(tree, player)) for player in range(2)]
    chance = np.ones(tree.num_histories)
    for row in range(1, tree.num_histories):
        chance[row] = chance[tree.parent[row]] * tree.chance_prob[row]
    return (reach[0] * (chance * tree.returns[:, 0])) @ reach[1].T


def guaranteed(tree: GameTree, policies: list[np.ndarray]) -> tuple[float, float]:
    """What each policy `[D, A]` guarantees: at least this to player 0, at most this to player 0.

    The policies are an equilibrium exactly if the two are equal, and then they are its value.
    """
    mixed = []
    for player, policy in enumerate(policies):
        actions = pure_strategies(tree, player)
        mixed.append(np.prod(policy[np.arange(len(policy)), actions], axis=1))
    table = payoff_table(tree)
    return float((mixed[0] @ table).min()), float((table @ mixed[1]).max())


def _reach(tree, player, strategies):
    reach = np.ones((len(strategies), tree.num_histories))
    for row in range(1, tree.num_histories):
        above = tree.parent[row]
        reach[:, row] = reach[:, above]
        if tree.actor[above] == player != CHANCE:
            decision = tree.information_state[above, player]
            reach[:, row] *= strategies[:, decision] == tree.parent_action[row]
    return reach


def moves_before(tree: GameTree, row: int) -> list[int]:
    """The chance outcomes and actions that lead to a history."""
    moves: list[int] = []
    while row > 0:
        moves.insert(0, int(tree.parent_action[row]))
        row = tree.parent[row]
    return moves
