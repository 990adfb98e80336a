"""Sweeps over one player's sequences: reach downwards, counterfactual values upwards.

Everything exact is one of these two with another rule at the decisions: the policy's mean for
values, a maximum for best responses. A `table` is a tuple over the player's groups of arrays
`[A_g, n_g]` (see `sequences.Group`); trailing axes are carried along.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from solvers import sparse_sum
from solvers.public_tree import PublicTree
from solvers.sequences import Group, Player
from solvers.sparse_sum import SparseSum, materialize, stored

Table = tuple[Array, ...]
Reduction = Callable[[Group, Array, Array | None], Array]


def sum_actions(values: Num[Array, "A ..."]) -> Num[Array, "..."]:
    """Sum over the leading axis, unrolled: several times faster than a reduction on CPU."""
    return functools.reduce(operator.add, [values[a] for a in range(values.shape[0])])


def max_actions(values: Num[Array, "A ..."]) -> Num[Array, "..."]:
    """Maximum over the leading axis, unrolled."""
    return functools.reduce(jnp.maximum, [values[a] for a in range(values.shape[0])])


def expand(table: Array, like: Array) -> Array:
    """`table` with axes of length 1 behind, until it has as many as `like`."""
    return table.reshape(table.shape + (1,) * (like.ndim - table.ndim))


def reach(player: Player, policy: Table, root_reach: Float[Array, "R ..."]) -> Array:
    """Own reach of every sequence `[Q, ...]`: the product of the player's own probabilities."""
    rows, table = [root_reach], iter(policy)
    for level in player.levels:
        above = rows[-1]
        parts = []
        for group in level.groups:
            parent = _above(group, above)
            parts.append(_flat(expand(next(table), parent[None]) * parent[None]))
        rows.append(_joined(parts, player.one))
    return _concatenate(rows)


def terminal_values(tree: PublicTree, reaches: tuple[Array, ...], player: int) -> Array:
    """Counterfactual payoff `[Q, ...]` of terminals right below each sequence of `player`."""
    others = [x for p, x in enumerate(reaches) if p != player]
    plan = tree.terminals[player]
    if not isinstance(plan, SparseSum):  # an operator with a structure of its own
        return plan(*others)
    return materialize(sparse_sum.apply(plan, *others), plan.one)


def values(
    player: Player, terminal: Float[Array, "Q ..."], table: Table | None, reduction: Reduction
) -> tuple[Table, Table, Array]:
    """Counterfactual values, from the last decisions to the root.

    `reduction(group, action_values, table entry)` turns `[A_g, n_g]` into `[n_g]`. Returns the
    values of all actions `[A_g, n_g]` and of all decisions `[n_g]` by group, and of the root
    sequences `[R]`.
    """
    action_values, decision_values = [], []
    below = None
    tables = list(table) if table is not None else [None] * player.num_groups
    for level in reversed(player.levels):
        rows = terminal[level.begin : level.end]
        if below is not None:
            rows = rows + below
            if isinstance(level.children, SparseSum):
                rows = materialize(rows, level.children.one)
        actions, decisions, offset = [], [], 0
        here = tables[level.first_group : level.first_group + len(level.groups)]
        for group, entry in zip(level.groups, here, strict=True):
            size = group.num_actions * group.num_decisions
            block = rows[offset : offset + size]
            block = block.reshape(group.num_actions, group.num_decisions, *block.shape[1:])
            actions.append(block)
            decisions.append(reduction(group, block, entry))
            offset += size
        action_values[:0], decision_values[:0] = actions, decisions
        below = _below(level, _joined(decisions, player.one))
    root = terminal[: player.num_roots]
    return tuple(action_values), tuple(decision_values), root if below is None else root + below


def mean(group: Group, action_values: Array, policy: Array) -> Array:
    """Value of each decision under the policy."""
    return sum_actions(action_values * policy)


def best(group: Group, action_values: Array, _: Array | None) -> Array:
    """Value of the best legal action of each decision."""
    legal = expand(group.uniform > 0, action_values)
    return max_actions(jnp.where(legal, action_values, -jnp.inf))


def _above(group, rows):
    if callable(group.parent):
        return group.parent(rows)
    return sparse_sum.take(rows, group.parent)


def _below(level, decisions):
    if isinstance(level.children, SparseSum):
        return sparse_sum.apply(level.children, decisions)
    return level.children(decisions)


def _joined(parts, one):
    if one is not None and len(parts) > 1:
        parts = stored(lambda *parts: parts, one, *parts)
    return _concatenate(parts)


def _flat(block):
    return block.reshape(-1, *block.shape[2:])


def _concatenate(parts):
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)
