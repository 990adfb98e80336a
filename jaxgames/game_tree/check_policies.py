"""A check of policies against a game tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from jaxgames.game_tree.tree import GameTree


def check_policies(tree: GameTree, policies: Sequence[Float[np.ndarray, "_ _"]]) -> None:
    """Refuses what is not a policy for every player of a game.

    Args:
      tree: the game tree.
      policies: for each player p an array `[D_p, A]`.

    Raises:
      ValueError: the number of policies or a shape is wrong, or the probabilities of an information
        state are negative or do not sum to 1 over its legal actions.
    """
    if len(policies) != tree.num_players:
        raise ValueError(f"{len(policies)} policies given; {tree.game} has {tree.num_players}")
    for player, policy in enumerate(policies):
        shape = (tree.num_decisions[player], tree.num_actions)
        if policy.shape != shape:
            raise ValueError(f"policy of player {player} has shape {policy.shape}, not {shape}")
        legal = tree.legal_actions(player)
        good = np.isclose(policy.sum(axis=1), 1, atol=1e-5) & (policy >= 0).all(axis=1)
        good &= (np.where(legal, 0, policy) == 0).all(axis=1)
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(
                f"policy of player {player} is {policy[row]} in information state {row}, where"
                f" the legal actions are {np.flatnonzero(legal[row])}"
            )
