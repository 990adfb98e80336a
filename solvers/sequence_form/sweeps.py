"""Sweeps over one player's sequences: reach downwards, counterfactual values upwards.

Everything exact is one of these two with another rule at the decisions: the policy's mean for
values, a maximum for best responses. A `table` is a tuple over the player's groups of arrays
`[A_g, n_g]` (see `sequences.Group`); trailing axes are carried along, those of a row first.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from solvers.sequence_form.sequence_form import SequenceForm, expand
from solvers.sequence_form.sparse_sum import stored
from solvers.sequence_form.treeplex import Group, Treeplex

Table = tuple[Array, ...]
Reduction = Callable[[Group, Array, Array | None], Array]


def sum_actions(values: Num[Array, "A ..."]) -> Num[Array, "..."]:
    """Sum over the leading axis, unrolled: several times faster than a reduction on CPU."""
    return functools.reduce(operator.add, [values[a] for a in range(values.shape[0])])


def max_actions(values: Num[Array, "A ..."]) -> Num[Array, "..."]:
    """Maximum over the leading axis, unrolled."""
    return functools.reduce(jnp.maximum, [values[a] for a in range(values.shape[0])])


def reach(player: Treeplex, policy: Table, root_reach: Float[Array, "R ..."]) -> Array:
    """Own reach of every sequence: the product of the player's own probabilities."""
    return _downwards(player, policy, root_reach, operator.mul)


def total(player: Treeplex, table: Table, start: Float[Array, "R ..."]) -> Array:
    """Of every sequence, the sum of a table's numbers on the way there."""
    return _downwards(player, table, start, operator.add)


def _downwards(player, table, start, combine):
    rows, tables = [start.reshape(-1, *player.row, *start.shape[1:])], iter(table)
    for level in player.levels:
        above = rows[-1]
        parts = []
        for group in level.groups:
            parent = group.parent(above)
            parts.append(_flat(combine(expand(next(tables), parent[None]), parent[None])))
        rows.append(_joined(parts, player.opaque_one))
    return _concatenate(rows)


def terminal_values(tree: SequenceForm, reaches: tuple[Array, ...], player: int) -> Table:
    """Counterfactual payoffs of the terminals right below each sequence of `player`.

    Of the root's rows `[r, ...]`, then of each group's `[A_g, n_g, ...]` (see `Terminals`).
    """
    return tree.terminals[player](*(x for p, x in enumerate(reaches) if p != player))


def values(
    player: Treeplex, terminal: Table, table: Table | None, reduction: Reduction
) -> tuple[Table, Table, Array]:
    """Counterfactual values, from the last decisions to the root.

    `reduction(group, action_values, table entry)` turns `[A_g, n_g]` into `[n_g]`. Returns the
    values of all actions `[A_g, n_g]` and of all decisions `[n_g]` by group, and of the root
    sequences `[R]`.
    """
    action_values, decision_values = [], []
    root, *ends = terminal
    below = None
    tables = list(table) if table is not None else [None] * player.num_groups
    for level in reversed(player.levels):
        here = slice(level.first_group, level.first_group + len(level.groups))
        actions = ends[here]
        if below is not None:
            actions = list(map(operator.add, actions, _cut(level, below)))
        decisions = list(map(reduction, level.groups, actions, tables[here]))
        action_values[:0], decision_values[:0] = actions, decisions
        below = level.children(_joined(decisions, player.opaque_one))
    return tuple(action_values), tuple(decision_values), root if below is None else root + below


def mean(group: Group, action_values: Array, policy: Array) -> Array:
    """Value of each decision under the policy."""
    return sum_actions(action_values * policy)


def best(group: Group, action_values: Array, _: Array | None) -> Array:
    """Value of the best legal action of each decision."""
    legal = expand(group.uniform > 0, action_values)
    return max_actions(jnp.where(legal, action_values, -jnp.inf))


def _cut(level, rows):
    """Rows of a level's sequences as blocks `[A_g, n_g, ...]`."""
    blocks, begin = [], 0
    for group in level.groups:
        end = begin + group.num_actions * group.num_decisions
        shape = group.num_actions, group.num_decisions, *rows.shape[1:]
        blocks.append(rows[begin:end].reshape(shape))
        begin = end
    return blocks


def _joined(parts, opaque_one):
    if opaque_one is not None and len(parts) > 1:
        parts = stored(lambda *parts: parts, opaque_one, *parts)
    return _concatenate(parts)


def _flat(block):
    return block.reshape(-1, *block.shape[2:])


def _concatenate(parts):
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)
