"""The public tree: all that solvers need of a game, as arrays.

Compiled from an explicit tree: both players' sequences (see `sequences`), what they earn where they
meet, and the public states with the information states and ranges that belong to them.
"""

from __future__ import annotations

import math
from typing import Protocol

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import TERMINAL, Game, record
from jaxgames.game_tree import MAX_HISTORIES, GameTree, enumerate_game, levels
from solvers.sequence_form import sparse_sum
from solvers.sequence_form.sparse_sum import SparseSum, materialize
from solvers.sequence_form.treeplex import Blocks, Layout, Treeplex, first_inside, split

# A policy for every player: probabilities [D_p, A], rows by number of the information state.
Policy = tuple[Float[Array | np.ndarray, "_ A"], ...]
# Every player's own reach of its root sequences [R_p]: in a subgame, the players' ranges.
RootReach = tuple[Float[Array | np.ndarray, " _"], ...]


class Terminals(Protocol):
    """What one player earns where the game ends: linear in the others' reach."""

    def __call__(self, *others: Float[Array, "_ ..."]) -> tuple[Float[Array, "..."], ...]:
        """Counterfactual payoffs of the terminals right below each of the player's sequences.

        Args:
          others: every other player's own reach of its sequences, in rows (see `Treeplex`).

        Returns:
          Those of the root's rows `[r, ...]`, then those of each group `[A_g, n_g, ...]`.
        """


@record
class TerminalSums:
    """The `Terminals` of an explicit tree: a sum over the terminals below each sequence."""

    sums: SparseSum
    blocks: Blocks = flax.struct.field(pytree_node=False)  # see `Treeplex.blocks`

    def __call__(self, *others: Float[Array, "_ ..."]) -> tuple[Float[Array, "..."], ...]:
        """See `Terminals`."""
        return split(materialize(self.sums(*others), self.sums.opaque_one), self.blocks)


@record
class PublicStates:
    """S public states in breadth-first order, and who may be where.

    Information states of player p at a public state are its rows `[S, N_p]`, padded with -1.
    """

    parent: Array  # [S] int32, -1 at the root
    depth: Array  # [S] int32
    actor: Array  # [S] int32
    information_states: tuple[Array, ...]  # [S, N_p] int32 numbers, -1 at padding
    sequences: tuple[Array, ...]  # [S, N_p] int32 sequence that leads there, 0 at padding


@record
class Histories:
    """What is known of a sequence form that was compiled from an explicit tree of histories.

    Z terminal histories; those at which all players' sequences are the same make one of E terminal
    entries.
    """

    payoffs: Array  # [E, P] chance-weighted payoffs of the terminal entries
    payoff_sequences: Array  # [P, E] int32 sequence of every player at each terminal entry
    terminal_entry: Array  # [Z] int32 terminal entry of each terminal history
    terminal_chance: Array  # [Z] chance's probability of each terminal history
    public_states: PublicStates


@record
class SequenceForm:
    """A game compiled for exact solving; a pytree, so an argument of jitted functions."""

    treeplexes: tuple[Treeplex, ...]  # by player
    terminals: tuple[Terminals, ...]  # by player
    num_actions: int = flax.struct.field(pytree_node=False)
    game: str = flax.struct.field(pytree_node=False)  # full name of the game
    dtype: np.dtype = flax.struct.field(pytree_node=False)  # of payoffs, and so of every solver
    histories: Histories | None = None  # of explicit trees only

    @property
    def num_players(self) -> int:
        """P."""
        return len(self.treeplexes)


def build_sequence_form(
    game: Game | GameTree,
    *,
    root: int = 0,
    dtype: str = "float32",
    max_histories: int = MAX_HISTORIES,
) -> SequenceForm:
    """Compiles a game, or its explicit tree, into a `SequenceForm` of precision `dtype`.

    `root` is a public state; other than 0 it makes a subgame, in which every player has one root
    sequence for each of its information states there, and payoffs are weighted by chance's
    probability from the start of the game. Numbers of information and public states stay those
    of the whole game.

    Raises:
      TreeTooLargeError: more than `max_histories` histories, with an estimate of how many.
      ValueError: no public state `root`, `dtype` neither float32 nor float64, or float64 without
        JAX's x64 mode.
    """
    dtype = _checked_dtype(dtype)
    tree = game if isinstance(game, GameTree) else enumerate_game(game, max_histories=max_histories)
    if not 0 <= root <= tree.public_state.max():
        raise ValueError(f"root={root} must be a public state, 0 to {tree.public_state.max()}")
    inside = _descendants(tree, root)
    layouts = [Layout(tree, p, root, inside, dtype) for p in range(tree.num_players)]
    terminal = np.flatnonzero(inside & (tree.actor == TERMINAL))
    at_terminal = np.stack([layout.rows[layout.last[terminal]] for layout in layouts])
    chance = tree.chance_reach()[terminal]
    sequences, entry = np.unique(at_terminal, axis=1, return_inverse=True)
    payoffs = np.zeros((sequences.shape[1], tree.num_players))
    np.add.at(payoffs, entry, chance[:, None] * tree.returns[terminal])
    return SequenceForm(
        treeplexes=tuple(layout.player for layout in layouts),
        terminals=tuple(
            _terminal_sum(p, sequences, payoffs[:, p].astype(dtype), layouts)
            for p in range(tree.num_players)
        ),
        num_actions=tree.num_actions,
        game=tree.game,
        dtype=dtype,
        histories=Histories(
            payoffs=jnp.asarray(payoffs, dtype),
            payoff_sequences=jnp.asarray(sequences, jnp.int32),
            terminal_entry=jnp.asarray(entry, jnp.int32),
            terminal_chance=jnp.asarray(chance, dtype),
            public_states=_public_states(tree, inside, layouts),
        ),
    )


def with_returns(tree: SequenceForm, returns: Float[Array, "Z P"]) -> SequenceForm:
    """The same tree with other payoffs at its terminal histories; pure, batched by `vmap`.

    Raises:
      ValueError: the shape of `returns` is not `[Z, P]`, or `tree` has no histories.
    """
    histories = checked_histories(tree, "with_returns")
    shape = (len(histories.terminal_chance), tree.num_players)
    if returns.shape != shape:
        raise ValueError(f"returns of {tree.game} have shape {returns.shape}, must be {shape}")
    weighted = returns.astype(tree.dtype) * histories.terminal_chance[:, None]
    num_entries = histories.payoffs.shape[0]
    payoffs = jax.ops.segment_sum(weighted, histories.terminal_entry, num_entries)
    terminals = tuple(
        each.replace(sums=sparse_sum.reweigh(each.sums, payoffs[:, p]))
        for p, each in enumerate(tree.terminals)
    )
    return tree.replace(terminals=terminals, histories=histories.replace(payoffs=payoffs))


def checked_histories(tree: SequenceForm, purpose: str) -> Histories:
    """The histories of an explicit tree, for a function called `purpose`.

    Raises:
      ValueError: `tree` was not compiled from an explicit tree.
    """
    if tree.histories is None:
        raise ValueError(
            f"{tree.game} has no histories; {purpose} needs a sequence form of an explicit tree,"
            " as build_sequence_form makes it"
        )
    return tree.histories


def checked_root_reach(tree: SequenceForm, root_reach: RootReach | None) -> tuple[Array, ...]:
    """`root_reach` in the precision of the tree, or 1 everywhere if it is None.

    Raises:
      ValueError: the shape of a player's root reach is not `[R_p]`.
    """
    shapes = [(player.num_roots,) for player in tree.treeplexes]
    if root_reach is None:
        return tuple(jnp.ones(shape, tree.dtype) for shape in shapes)
    given = [tuple(np.shape(reach)) for reach in root_reach]
    if given != shapes:
        raise ValueError(f"root_reach of {tree.game} has shapes {given}, must be {shapes}")
    return tuple(jnp.asarray(reach, tree.dtype) for reach in root_reach)


def uniform(tree: SequenceForm) -> tuple[tuple[Array, ...], ...]:
    """The uniform policies as tables, by player and group."""
    return tuple(
        tuple(_whole_uniform(group, player.row) for group in player.groups)
        for player in tree.treeplexes
    )


def pack(tree: SequenceForm, policy: Policy) -> tuple[tuple[Array, ...], ...]:
    """Policies as tables by player and group, `[A_g, n_g, *row]`, zero at padding.

    Raises:
      ValueError: the shape of a player's policy is not `[D_p, A]`.
    """
    shapes = [(player.num_decisions, tree.num_actions) for player in tree.treeplexes]
    given = [tuple(np.shape(rows)) for rows in policy]
    if given != shapes:
        raise ValueError(f"policy of {tree.game} has shapes {given}, must be {shapes}")
    packed = []
    for player, rows in zip(tree.treeplexes, policy, strict=True):
        rows = jnp.asarray(rows, tree.dtype)
        tables = (_read(rows, group, player.row) for group in player.groups)
        packed.append(
            tuple(
                jnp.where(expand(group.uniform > 0, table), table, 0)
                for group, table in zip(player.groups, tables, strict=True)
            )
        )
    return tuple(packed)


def unpack(tree: SequenceForm, tables: tuple[tuple[Array, ...], ...]) -> Policy:
    """The inverse of `pack`: rows by information state, zero at illegal actions."""
    policy = []
    for player, groups in zip(tree.treeplexes, tables, strict=True):
        rows = jnp.zeros((player.num_decisions, tree.num_actions + 1), tree.dtype)
        for group, table in zip(player.groups, groups, strict=True):
            rows = _written(rows, group, table)
        policy.append(rows[:, :-1])
    return tuple(policy)


def expand(table: Array, like: Array) -> Array:
    """`table` with axes of length 1 behind, until it has as many as `like`."""
    return table.reshape(table.shape + (1,) * (like.ndim - table.ndim))


def _whole_uniform(group, row):
    shape = group.num_actions, group.num_decisions, *row
    return jnp.broadcast_to(group.uniform.reshape(*group.uniform.shape, *(1 for _ in row)), shape)


def _read(rows, group, row):
    if group.decision.ndim:
        return rows[group.decision[None, :], group.action]
    size = group.num_decisions * math.prod(row), group.num_actions
    table = jax.lax.dynamic_slice(rows, (group.decision, jnp.int32(0)), size).T
    return table.reshape(group.num_actions, group.num_decisions, *row)


def _written(rows, group, table):
    """Rows by information state `[D, A + 1]`; padding, with action -1, goes into the last."""
    if group.decision.ndim:
        return rows.at[group.decision[None, :], group.action].set(table)
    table = table.reshape(group.num_actions, -1).T
    return jax.lax.dynamic_update_slice(rows, table, (group.decision, jnp.int32(0)))


def _checked_dtype(dtype):
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype={dtype!r} must be 'float32' or 'float64'")
    if dtype == "float64" and not jax.config.jax_enable_x64:
        raise ValueError("dtype='float64' needs jax.config.update('jax_enable_x64', True)")
    return np.dtype(dtype)


def _descendants(tree, root):
    """Histories [H] bool at or below a public state."""
    inside = tree.public_state == root
    for rows in levels(tree.parent):
        inside[rows] |= inside[tree.parent[rows]]
    return inside


def _terminal_sum(player, sequences, payoff, layouts):
    others = [q for q in range(len(layouts)) if q != player]
    sums = sparse_sum.build(
        row=sequences[player],
        columns=tuple(sequences[q] for q in others),
        num_rows=layouts[player].player.num_sequences,
        num_columns=0,
        weight=payoff,
    )
    return TerminalSums(sums=sums, blocks=layouts[player].player.blocks)


def _public_states(tree, inside, layouts) -> PublicStates:
    _, first = np.unique(tree.public_state, return_index=True)
    above = tree.public_state[tree.parent[first]]
    tables, sequences = [], []
    for player, layout in enumerate(layouts):
        states = np.unique(tree.information_state[inside, player])
        history = first_inside(tree.information_state[:, player], inside, states)
        table = _pad_by(tree.public_state[history], len(first))
        tables.append(jnp.asarray(np.where(table < 0, -1, states[table]), jnp.int32))
        rows = layout.rows[layout.last[history]]
        sequences.append(jnp.asarray(np.where(table < 0, 0, rows[table]), jnp.int32))
    return PublicStates(
        parent=jnp.asarray(np.where(first == 0, -1, above), jnp.int32),
        depth=jnp.asarray(tree.depth[first], jnp.int32),
        actor=jnp.asarray(tree.actor[first], jnp.int32),
        information_states=tuple(tables),
        sequences=tuple(sequences),
    )


def _pad_by(owner: Int[np.ndarray, " I"], num_owners: int) -> Int[np.ndarray, "S N"]:
    """Members `0..I-1` listed by owner, one row each, padded with -1."""
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=num_owners)
    rank = np.arange(len(owner)) - (np.cumsum(count) - count)[owner[order]]
    table = np.full((num_owners, count.max()), -1)
    table[owner[order], rank] = order
    return table
