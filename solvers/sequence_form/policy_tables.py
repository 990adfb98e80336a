"""Policies by information state, and the tables that sweeps compute with.

Users and other modules hold a policy as one row for each information state. Sweeps want it as one
table for each group of decisions, in the layout of the treeplex. `pack` and `unpack` translate.
Called from Python, each is one compiled program; inside another program it is a part of it.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.arrays import append_axes
from solvers.sequence_form.sequence_form import SequenceForm

# A policy for every player: probabilities [D_p, A], rows by number of the information state.
Policy = tuple[Float[Array | np.ndarray, "_ A"], ...]
# Every player's own reach of its root sequences [R_p]; in a subgame, its range.
RootReach = tuple[Float[Array | np.ndarray, " _"], ...]

_compiled = functools.partial(jax.jit, inline=True)


def checked_root_reach(form: SequenceForm, root_reach: RootReach | None) -> tuple[Array, ...]:
    """`root_reach` in the precision of the form `[R_p]`; 1 everywhere if it is None.

    Raises:
      ValueError: the shape of a player's root reach is not `[R_p]`.
    """
    shapes = [(player.num_roots,) for player in form.treeplexes]
    if root_reach is None:
        return tuple(jnp.ones(shape, form.dtype) for shape in shapes)
    given = [tuple(np.shape(reach)) for reach in root_reach]
    if given != shapes:
        raise ValueError(f"root_reach of {form.game} has shapes {given}, must be {shapes}")
    return tuple(jnp.asarray(reach, form.dtype) for reach in root_reach)


@_compiled
def uniform(form: SequenceForm) -> tuple[tuple[Array, ...], ...]:
    """The uniform policies as tables by player and group, `[A_g, n_g, *row]`."""
    return tuple(
        tuple(_whole_uniform(group, player.row) for group in player.groups)
        for player in form.treeplexes
    )


@_compiled
def pack(form: SequenceForm, policy: Policy) -> tuple[tuple[Array, ...], ...]:
    """Policies `[D_p, A]` as tables by player and group, `[A_g, n_g, *row]`, 0 at padding.

    Raises:
      ValueError: the shape of a player's policy is not `[D_p, A]`.
    """
    shapes = [(player.num_decisions, form.num_actions) for player in form.treeplexes]
    given = [tuple(np.shape(rows)) for rows in policy]
    if given != shapes:
        raise ValueError(f"policy of {form.game} has shapes {given}, must be {shapes}")
    packed = []
    for player, rows in zip(form.treeplexes, policy, strict=True):
        rows = jnp.asarray(rows, form.dtype)
        tables = (_read(rows, group, player.row) for group in player.groups)
        packed.append(
            tuple(
                jnp.where(append_axes(group.uniform > 0, table), table, 0)
                for group, table in zip(player.groups, tables, strict=True)
            )
        )
    return tuple(packed)


@_compiled
def unpack(form: SequenceForm, tables: tuple[tuple[Array, ...], ...]) -> Policy:
    """The inverse of `pack`: policies `[D_p, A]` by player, 0 at illegal actions."""
    policy = []
    for player, groups in zip(form.treeplexes, tables, strict=True):
        rows = jnp.zeros((player.num_decisions, form.num_actions + 1), form.dtype)
        for group, table in zip(player.groups, groups, strict=True):
            rows = _written(rows, group, table)
        policy.append(rows[:, :-1])
    return tuple(policy)


def _whole_uniform(group, row):
    """A group's uniform policy `[A, n, *row]`, which is stored without axes that do not matter."""
    shape = group.num_actions, group.num_decisions, *row
    return jnp.broadcast_to(group.uniform.reshape(*group.uniform.shape, *(1 for _ in row)), shape)


def _read(rows, group, row):
    """A group's table `[A, n, *row]` of the rows by information state `[D, A]`."""
    if group.decision.ndim:
        return rows[group.decision[None, :], group.action]
    size = group.num_decisions * math.prod(row), group.num_actions
    table = jax.lax.dynamic_slice(rows, (group.decision, jnp.int32(0)), size).T
    return table.reshape(group.num_actions, group.num_decisions, *row)


def _written(rows, group, table):
    """Rows by information state `[D, A + 1]` with a group's table in its place.

    Padding has the action -1, so it goes into the last column.
    """
    if group.decision.ndim:
        return rows.at[group.decision[None, :], group.action].set(table)
    table = table.reshape(group.num_actions, -1).T
    return jax.lax.dynamic_update_slice(rows, table, (group.decision, jnp.int32(0)))
