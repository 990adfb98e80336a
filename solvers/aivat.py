"""AIVAT: what games were worth, with luck taken out (Burch, Schmid, Moravcik, Morrill, Bowling
2018, "AIVAT: a new variance reduction technique for agent evaluation in imperfect information
games").

Some players' policies are known, and chance's. Histories that the other players cannot tell apart
are then as likely as the known ones make them, whatever the others do: a *class*. A game is worth
the mean payoff over the class it ended in and, for every move of chance or of a known player on the
way, what was to be expected before it less what it led to, by values that are given for all
histories. These corrections have mean 0 whatever the values; the better they are, the less luck is
left.

All is computed for every end of a game that enumerates: an estimate is then looked up, and its mean
and variance are sums.

    values = history_values(tree, policies)  # of self-play, say
    found = estimates(tree, values, (policies[0], None))  # player 0's is known
    found[end, 0]  # of a game that ended in this history
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Float

from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import GameTree, check_policies, levels

PlayerPolicy = Float[np.ndarray, "_ _"] | Float[Array, "_ _"]


def estimates(
    tree: GameTree,
    values: Float[np.ndarray, "H P"],
    policies: Sequence[PlayerPolicy | None],
) -> Float[np.ndarray, "H P"]:
    """What a game that ended in each history was worth to the players; NaN where none ends, or
    where the known players never let one end.

    `policies` are `[D_p, A]` of every player p, None where that is not known. `values` may be any
    numbers; an estimate of player p takes column p.

    Raises:
      ValueError: these are no policies, or no values, of the game.
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
        columns = [np.bincount(classes, weight[moved] * row[moved], count) for row in numbers.T]
        there = total > 0
        return np.stack(columns, axis=1) / np.where(there, total, 1)[:, None]

    after = mean(member[moved], values)  # by the class that a move leads to
    before = mean(member[parent[moved]], values)  # by the class that it was made in
    payoff = mean(member[moved], tree.returns)
    luck = np.zeros_like(values)
    for rows in levels(parent):
        above = parent[rows]
        moves = by_known[above][:, None]
        luck[rows] = luck[above] + np.where(moves, after[member[rows]] - before[member[above]], 0)
    ends = (tree.actor == TERMINAL) & (total[member] > 0)
    return np.where(ends[:, None], payoff[member] - luck, np.nan)


def history_values(tree: GameTree, policies: Sequence[PlayerPolicy]) -> Float[np.ndarray, "H P"]:
    """What the players win on average from every history on, if all play these policies `[D_p, A]`.

    Raises:
      ValueError: these are no policies of the game.
    """
    chance = _steps(tree, policies)
    found = tree.returns.copy()
    for rows in reversed(list(levels(tree.parent))):
        np.add.at(found, tree.parent[rows], chance[rows][:, None] * found[rows])
    return found


def moments(
    tree: GameTree, policies: Sequence[PlayerPolicy], estimate: Float[np.ndarray, " H"]
) -> tuple[float, float]:
    """Mean and standard deviation, over games by these policies, of an estimate of their ends.

    Raises:
      ValueError: these are no policies of the game, or they come where there is no estimate.
    """
    chance = reach(tree, policies)
    ends = (tree.actor == TERMINAL) & (chance > 0)
    if not np.isfinite(estimate[ends]).all():
        end = int(np.flatnonzero(ends & ~np.isfinite(estimate))[0])
        raise ValueError(
            f"{tree.game}: a game may end in history {end}, where there is no estimate: a known"
            " player gives probability 0 to what it does there"
        )
    mean = float(chance[ends] @ estimate[ends])
    return mean, float(np.sqrt(chance[ends] @ (estimate[ends] - mean) ** 2))


def _steps(tree, policies):
    """The chance of the move that leads to each history; 1 for moves of unknown players."""
    legal = map(tree.legal_actions, range(tree.num_players))
    uniform = [rows / rows.sum(axis=1, keepdims=True) for rows in legal]
    given = [None if policy is None else np.asarray(policy, np.float64) for policy in policies]
    check_policies(tree, [u if p is None else p for p, u in zip(given, uniform, strict=False)])
    found = tree.chance_prob.copy()
    for player, table in enumerate(given):
        if table is None:
            continue
        rows = np.flatnonzero(tree.actor[tree.parent[1:]] == player) + 1
        state = tree.information_state[tree.parent[rows], player]
        found[rows] = table[state, tree.parent_action[rows]]
    return found


def reach(tree: GameTree, policies: Sequence[PlayerPolicy | None]) -> Float[np.ndarray, " H"]:
    """Of every history by chance and the known players.

    Raises:
      ValueError: these are no policies of the game.
    """
    found = _steps(tree, policies)
    for rows in levels(tree.parent):
        found[rows] *= found[tree.parent[rows]]
    return found


def _classes(tree, unknown):
    """Numbers of what unknown players know; all that is public, if there are none."""
    if not unknown.any():
        return tree.public_state.astype(np.int64)
    states = tree.information_state[:, unknown]
    return np.unique(states, axis=0, return_inverse=True)[1].reshape(-1)
