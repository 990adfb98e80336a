"""Policies from averages: own reach of sequences can be averaged, probabilities cannot."""

from __future__ import annotations

import math

from jaxtyping import Array, Float

from solvers.regret import match
from solvers.sequence_form.sweeps import Table
from solvers.sequence_form.treeplex import Treeplex


def behaviour(player: Treeplex, reach: Float[Array, "rows ..."]) -> Table:
    """Action probabilities from the own reach of sequences; uniform where it is 0."""
    tables, begin = [], player.num_roots // math.prod(player.row)
    for group in player.groups:
        end = begin + group.num_actions * group.num_decisions
        shape = group.num_actions, group.num_decisions, *player.row
        tables.append(match(reach[begin:end].reshape(shape), group.uniform))
        begin = end
    return tuple(tables)
