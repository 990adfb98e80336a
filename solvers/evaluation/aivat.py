"""AIVAT: unbiased estimates of what a played game was worth, with less variance (Burch, Schmid,
Moravcik, Morrill and Bowling 2018, "AIVAT: a new variance reduction technique for agent evaluation
in imperfect information games").

The policies of some players are known, and so is chance. Histories that the other players cannot
tell apart form a *class*: their relative probabilities only depend on the known policies. The
estimate of a game is the mean payoff over the class in which it ended, plus a correction for every
move of chance or of a known player on the way: the expected value before the move, less the value
of the class that it led to. Values of histories are given, and may be anything: the corrections
have mean 0 in any case. The better the values, the smaller the variance.

Estimates are computed for all terminal histories of an enumerated game. The estimate of a played
game is then looked up, and means and variances of estimates are sums.

    >>> import jaxgames
    >>> from solvers import solve
    >>> from solvers.evaluation import aivat
    >>> from solvers.evaluation.history_values import history_values
    >>> tree = jaxgames.enumerate_game(jaxgames.make("kuhn_poker"))
    >>> policies = solve(tree, num_iterations=100).policy
    >>> values = history_values(tree, policies)  # for example, of self-play
    >>> estimates = aivat.estimates(tree, values, (policies[0], None))  # player 0's policy is known
    >>> estimates.shape  # by the history in which a game ended, and player
    (58, 2)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import GameTree, levels
from solvers.evaluation.history_values import PlayerPolicy, reach


def estimates(
    tree: GameTree,
    values: Float[np.ndarray, "H P"],
    policies: Sequence[PlayerPolicy | None],
) -> Float[np.ndarray, "H P"]:
    """The AIVAT estimate of each player's payoff, for a game that ended in each history.

    Args:
      tree: the game with H histories.
      values: any value of each history for each player.
      policies: probabilities `[D_p, A]` by player, None where they are not known.

    Returns:
      NaN at histories that are not terminal, and at those that the known players never reach.

    Raises:
      ValueError: the values or policies do not fit the game.
    """
    if values.shape != tree.returns.shape:
        raise ValueError(f"values {values.shape} must be {tree.returns.shape} in {tree.game}")
    weight = reach(tree, policies)
    known = np.array([policy is not None for policy in policies])
    member = _classes(tree, ~known)
    count = int(member.max()) + 1
    total = np.bincount(member, weight, count)
    parent, moved = tree.parent, np.arange(tree.num_histories) > 0
    by_known = (tree.actor == CHANCE) | np.append(known, False)[tree.actor]

    def mean(classes, numbers):
        """Means over the moves of each class, weighted by their reach."""
        columns = [np.bincount(classes, weight[moved] * row[moved], count) for row in numbers.T]
        return np.stack(columns, axis=1) / np.where(total > 0, total, 1)[:, None]

    after = mean(member[moved], values)  # by the class that a move leads to
    before = mean(member[parent[moved]], values)  # by the class in which it was made
    payoff = mean(member[moved], tree.returns)
    luck = np.zeros_like(values)
    for rows in levels(parent):
        above = parent[rows]
        moves = by_known[above][:, None]
        luck[rows] = luck[above] + np.where(moves, after[member[rows]] - before[member[above]], 0)
    ends = (tree.actor == TERMINAL) & (total[member] > 0)
    return np.where(ends[:, None], payoff[member] - luck, np.nan)


def moments(
    tree: GameTree, policies: Sequence[PlayerPolicy], estimate: Float[np.ndarray, " H"]
) -> tuple[float, float]:
    """Mean and standard deviation of an estimate over games that are played by these policies.

    Args:
      tree: the game with H histories.
      policies: probabilities `[D_p, A]` by player.
      estimate: of a game that ended in each history, such as a column of `estimates`.

    Raises:
      ValueError: the policies do not fit the game, or reach a history that has no estimate.
    """
    probability = reach(tree, policies)
    ends = (tree.actor == TERMINAL) & (probability > 0)
    if not np.isfinite(estimate[ends]).all():
        end = int(np.flatnonzero(ends & ~np.isfinite(estimate))[0])
        raise ValueError(
            f"{tree.game}: a game may end in history {end}, which has no estimate: a known player"
            " gives probability 0 to an action on the way there"
        )
    mean = float(probability[ends] @ estimate[ends])
    return mean, float(np.sqrt(probability[ends] @ (estimate[ends] - mean) ** 2))


def _classes(tree, unknown):
    """The class of each history: what the unknown players know; public states if there are none."""
    if not unknown.any():
        return tree.public_state.astype(np.int64)
    states = tree.information_state[:, unknown]
    return np.unique(states, axis=0, return_inverse=True)[1].reshape(-1)
