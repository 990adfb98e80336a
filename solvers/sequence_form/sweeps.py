"""Sweeps over one player's sequences: reach downwards, counterfactual values upwards.

All exact solvers and measures are made of these two, with different rules at the decisions: the
mean under a policy for values, a maximum for best responses. A `Table` is a tuple over the player's
groups of arrays `[A_g, n_g]` (see `treeplex.Group`); trailing axes are carried along, those of a
row first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.arrays import append_axes, max_actions, merge_axes, sum_actions
from solvers.sequence_form.sequence_form import SequenceForm
from solvers.sequence_form.sparse_sum import stored
from solvers.sequence_form.treeplex import Group, Treeplex

Table = tuple[Array, ...]
Reduction = Callable[[Group, Array, Array | None], Array]


def reach(player: Treeplex, policy: Table, root_reach: Float[Array, "R ..."]) -> Array:
    """A player's own reach of every sequence: the product of its own probabilities.

    Args:
      player: its sequences.
      policy: its probabilities, a table.
      root_reach: own reach of its root sequences `[R, ...]`.

    Returns:
      Own reach of all sequences, in rows `[Q, ...]`.
    """
    return _downwards(player, policy, root_reach, operator.mul)


def path_sums(player: Treeplex, table: Table, start: Float[Array, "R ..."]) -> Array:
    """The sum of a table's numbers on the way to every sequence.

    Args:
      player: its sequences.
      table: a number for every action of its decisions.
      start: the sums at its root sequences `[R, ...]`.

    Returns:
      Sums at all sequences, in rows `[Q, ...]`.
    """
    return _downwards(player, table, start, operator.add)


def _downwards(player, table, start, combine):
    """Rows of all sequences: `start`, then each one's number combined with its parent's."""
    rows, tables = [start.reshape(-1, *player.row, *start.shape[1:])], iter(table)
    for level in player.levels:
        above = rows[-1]
        parts = []
        for group in level.groups:
            parent = group.parent(above)
            parts.append(merge_axes(combine(append_axes(next(tables), parent[None]), parent[None])))
        rows.append(_joined(parts, player.opaque_one))
    return _concatenate(rows)


def terminal_values(form: SequenceForm, reaches: tuple[Array, ...], player: int) -> Table:
    """Counterfactual payoffs of the terminals right below each sequence of `player`.

    Args:
      form: the game.
      reaches: every player's own reach of its sequences; that of `player` does not matter.
      player: whose payoffs.

    Returns:
      Those of the root's rows `[r, ...]`, then those of each group `[A_g, n_g, ...]`.
    """
    return form.terminals[player](*(x for p, x in enumerate(reaches) if p != player))


def values(
    player: Treeplex, terminal: Table, table: Table | None, reduction: Reduction
) -> tuple[Table, Table, Array]:
    """A player's counterfactual values, from the last decisions up to the root.

    Args:
      player: its sequences.
      terminal: payoffs of terminals, as `terminal_values` returns them.
      table: what the reduction reads at each decision, such as a policy; or None.
      reduction: `reduction(group, action_values, table entry)` turns `[A_g, n_g]` into `[n_g]`.

    Returns:
      Values of all actions `[A_g, n_g]` by group, of all decisions `[n_g]` by group, and of the
      root sequences `[R]`.
    """
    action_values, decision_values = [], []
    root, *ends = terminal
    below = None
    tables = list(table) if table is not None else [None] * player.num_groups
    for level in reversed(player.levels):
        groups = slice(level.first_group, level.first_group + len(level.groups))
        actions = ends[groups]
        if below is not None:
            actions = list(map(operator.add, actions, _blocks(level, below)))
        decisions = list(map(reduction, level.groups, actions, tables[groups]))
        action_values[:0], decision_values[:0] = actions, decisions
        below = level.children(_joined(decisions, player.opaque_one))
    return tuple(action_values), tuple(decision_values), root if below is None else root + below


def mean(group: Group, action_values: Array, policy: Array) -> Array:
    """Value of each decision under the policy."""
    return sum_actions(action_values * policy)


def best(group: Group, action_values: Array, _: Array | None) -> Array:
    """Value of the best legal action of each decision."""
    legal = append_axes(group.uniform > 0, action_values)
    return max_actions(jnp.where(legal, action_values, -jnp.inf))


def _blocks(level, rows):
    """The rows of a level's sequences `[_, ...]` as blocks by group `[A_g, n_g, ...]`."""
    blocks, begin = [], 0
    for group in level.groups:
        end = begin + group.num_actions * group.num_decisions
        shape = group.num_actions, group.num_decisions, *rows.shape[1:]
        blocks.append(rows[begin:end].reshape(shape))
        begin = end
    return blocks


def _joined(parts, opaque_one):
    """The parts one after the other, each stored first: fused, XLA:CPU would vectorise none."""
    if len(parts) > 1:
        parts = stored(lambda *parts: parts, opaque_one, *parts)
    return _concatenate(parts)


def _concatenate(parts):
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)
