"""Policies from averages: what is averaged over iterations is own reach, not probabilities."""

from __future__ import annotations

from jaxtyping import Array, Float

from solvers.regret import match
from solvers.sequence_form.sweeps import Table
from solvers.sequence_form.treeplex import Treeplex


def behaviour(player: Treeplex, reach: Float[Array, "rows ..."]) -> Table:
    """A player's policy from its own reach of its sequences.

    Args:
      player: its sequences.
      reach: own reach `[rows, ...]`, of one policy or an average of several.

    Returns:
      Action probabilities by group `[A_g, n_g, ...]`: an action's share in the reach of all actions
      of its decision; uniform where that is 0.
    """
    tables, begin = [], player.num_root_rows
    for group in player.groups:
        end = begin + group.num_actions * group.num_decisions
        shape = group.num_actions, group.num_decisions, *player.row
        tables.append(match(reach[begin:end].reshape(shape), group.uniform))
        begin = end
    return tuple(tables)
