"""Policies from averages: own reach of sequences can be averaged, probabilities cannot."""

from __future__ import annotations

from jaxtyping import Array, Float

from solvers.regret import match
from solvers.sequences import Player
from solvers.sweeps import Table


def behaviour(player: Player, reach: Float[Array, " Q"]) -> Table:
    """Action probabilities from the own reach of sequences; uniform where it is 0."""
    tables, begin = [], player.num_roots
    for group in player.groups:
        end = begin + group.num_actions * group.num_decisions
        tables.append(match(reach[begin:end].reshape(group.num_actions, -1), group.uniform))
        begin = end
    return tuple(tables)
