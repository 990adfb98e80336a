"""Values and reach of every history of an explicit game tree, when players follow given policies.

Everything is computed on the host, in float64.

    >>> import jaxgames
    >>> from solvers import solve
    >>> from solvers.evaluation.history_values import history_values, reach
    >>> tree = jaxgames.enumerate_game(jaxgames.make("kuhn_poker"))
    >>> policies = solve(tree, num_iterations=100).policy
    >>> history_values(tree, policies).shape  # by history and player
    (58, 2)
    >>> reach(tree, (policies[0], None)).shape  # whatever player 1 does
    (58,)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Float

from jaxgames.game_tree import GameTree, check_policies, levels

PlayerPolicy = Float[np.ndarray, "_ _"] | Float[Array, "_ _"]


def history_values(tree: GameTree, policies: Sequence[PlayerPolicy]) -> Float[np.ndarray, "H P"]:
    """Expected payoffs of all players from every history on, when all follow their policies.

    Args:
      tree: the game with H histories.
      policies: probabilities `[D_p, A]` by player.

    Raises:
      ValueError: the policies do not fit the game.
    """
    probability = _move_probabilities(tree, policies)
    values = tree.returns.copy()
    for rows in reversed(list(levels(tree.parent))):
        np.add.at(values, tree.parent[rows], probability[rows][:, None] * values[rows])
    return values


def reach(tree: GameTree, policies: Sequence[PlayerPolicy | None]) -> Float[np.ndarray, " H"]:
    """Reach of every history by chance and the known players.

    Args:
      tree: the game with H histories.
      policies: probabilities `[D_p, A]` by player, None where they are not known.

    Raises:
      ValueError: the policies do not fit the game.
    """
    product = _move_probabilities(tree, policies)
    for rows in levels(tree.parent):
        product[rows] *= product[tree.parent[rows]]
    return product


def _move_probabilities(tree, policies):
    """The probability of the move that leads to each history; 1 for moves of unknown players."""
    if len(policies) != tree.num_players:
        raise ValueError(f"{len(policies)} policies given; {tree.game} has {tree.num_players}")
    legal = map(tree.legal_actions, range(tree.num_players))
    uniform = [rows / rows.sum(axis=1, keepdims=True) for rows in legal]
    given = [None if policy is None else np.asarray(policy, np.float64) for policy in policies]
    check_policies(tree, [u if p is None else p for p, u in zip(given, uniform, strict=True)])
    probability = tree.chance_prob.copy()
    for player, table in enumerate(given):
        if table is None:
            continue
        rows = np.flatnonzero(tree.actor[tree.parent[1:]] == player) + 1
        state = tree.information_state[tree.parent[rows], player]
        probability[rows] = table[state, tree.parent_action[rows]]
    return probability
