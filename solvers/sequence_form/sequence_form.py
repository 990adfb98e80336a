"""The sequence form of a game: what exact solvers need of it, as arrays.

`build_sequence_form` compiles it from an explicit tree: every player's sequences (see `treeplex`),
what they earn where a terminal history joins them, and the public states with their information
states.
"""

from __future__ import annotations

from typing import Protocol

import flax.struct
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import on_device
from jaxgames.core import TERMINAL, Game, record
from jaxgames.game_tree import MAX_HISTORIES, GameTree, enumerate_game, levels
from solvers.sequence_form import sparse_sum
from solvers.sequence_form.sparse_sum import SparseSum, materialize
from solvers.sequence_form.treeplex import Blocks, Layout, Treeplex, first_inside, split


class Terminals(Protocol):
    """What one player earns where the game ends, as an operator on the others' own reach.

    Implementations are records: pytrees with this one method.
    """

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
    """S public states in breadth-first order, with each player's information states there.

    Row s of a table lists the up to N_p information states of player p at public state s.
    """

    parent: Array  # [S] int32, -1 at the root
    depth: Array  # [S] int32
    actor: Array  # [S] int32
    information_states: tuple[Array, ...]  # [S, N_p] int32 numbers, -1 at padding
    sequences: tuple[Array, ...]  # [S, N_p] int32 sequence that leads there, 0 at padding


@record
class Histories:
    """What only the sequence form of an explicit tree has: terminal histories and public states.

    There are Z terminal histories. Those at which all players' sequences are the same share one of
    E terminal entries.
    """

    payoffs: Array  # [E, P] chance-weighted payoffs of the terminal entries
    payoff_sequences: Array  # [P, E] int32 sequence of every player at each terminal entry
    terminal_entry: Array  # [Z] int32 terminal entry of each terminal history
    terminal_chance: Array  # [Z] chance's probability of each terminal history
    public_states: PublicStates


@record
class SequenceForm:
    """A game compiled for exact solving; a pytree, so an argument of jitted functions.

    Solvers need the players' treeplexes and terminals only. `build_sequence_form` makes one from an
    explicit tree, `solvers.holdem` from betting and boards, `solvers.subgames.safe_resolving` by
    putting a gadget before another.
    """

    treeplexes: tuple[Treeplex, ...]  # by player
    terminals: tuple[Terminals, ...]  # by player
    num_actions: int = flax.struct.field(pytree_node=False)
    game: str = flax.struct.field(pytree_node=False)  # full name of the game
    dtype: np.dtype = flax.struct.field(pytree_node=False)  # of payoffs, and so of every solver
    histories: Histories | None = None  # None: not compiled from an explicit tree

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
    """Compiles a game, or its explicit tree, into a sequence form.

    Args:
      game: the rules, which are enumerated, or the tree.
      root: the public state to start from. Other than 0 it makes a subgame, in which every player
        has one root sequence for each of its information states there, and payoffs are weighted by
        chance's probability from the start of the game. Information states and public states keep
        their numbers of the whole game.
      dtype: "float32" or "float64", the precision of everything that is solved.
      max_histories: the largest tree to enumerate.

    Returns:
      The sequence form, with `histories`.

    Raises:
      TreeTooLargeError: more than `max_histories` histories, with an estimate of how many.
      ValueError: there is no public state `root`, `dtype` is neither float32 nor float64, or it is
        float64 without JAX's x64 mode.
    """
    dtype = checked_dtype(dtype)
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
        treeplexes=tuple(layout.treeplex for layout in layouts),
        terminals=tuple(
            _terminal_sums(p, sequences, payoffs[:, p].astype(dtype), layouts)
            for p in range(tree.num_players)
        ),
        num_actions=tree.num_actions,
        game=tree.game,
        dtype=dtype,
        histories=Histories(
            payoffs=on_device(payoffs, dtype),
            payoff_sequences=on_device(sequences, np.int32),
            terminal_entry=on_device(entry, np.int32),
            terminal_chance=on_device(chance, dtype),
            public_states=_public_states(tree, inside, layouts),
        ),
    )


def with_returns(form: SequenceForm, returns: Float[Array, "Z P"]) -> SequenceForm:
    """The same sequence form with other payoffs; pure, differentiable, batched by `jax.vmap`.

    Args:
      form: the sequence form of an explicit tree.
      returns: payoffs of every player at the Z terminal histories, in order of history.

    Raises:
      ValueError: the shape of `returns` is not `[Z, P]`, or `form` has no histories.
    """
    histories = checked_histories(form, "with_returns")
    shape = (len(histories.terminal_chance), form.num_players)
    if returns.shape != shape:
        raise ValueError(f"returns of {form.game} have shape {returns.shape}, must be {shape}")
    weighted = returns.astype(form.dtype) * histories.terminal_chance[:, None]
    num_entries = histories.payoffs.shape[0]
    payoffs = jax.ops.segment_sum(weighted, histories.terminal_entry, num_entries)
    terminals = tuple(
        each.replace(sums=sparse_sum.reweigh(each.sums, payoffs[:, p]))
        for p, each in enumerate(form.terminals)
    )
    return form.replace(terminals=terminals, histories=histories.replace(payoffs=payoffs))


def checked_histories(form: SequenceForm, purpose: str) -> Histories:
    """The histories of a sequence form, which the function called `purpose` needs.

    Raises:
      ValueError: `form` was not compiled from an explicit tree.
    """
    if form.histories is None:
        raise ValueError(
            f"{form.game} has no histories; {purpose} needs a sequence form of an explicit tree,"
            " as build_sequence_form makes it"
        )
    return form.histories


def checked_dtype(dtype: str) -> np.dtype:
    """The precision of a sequence form, if it is one.

    Raises:
      ValueError: it is neither float32 nor float64, or it is float64 without JAX's x64 mode.
    """
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype={dtype!r} must be 'float32' or 'float64'")
    if dtype == "float64" and not jax.config.jax_enable_x64:
        raise ValueError("dtype='float64' needs jax.config.update('jax_enable_x64', True)")
    return np.dtype(dtype)


def _descendants(tree, root):
    """Which histories [H] are at or below a public state."""
    inside = tree.public_state == root
    for rows in levels(tree.parent):
        inside[rows] |= inside[tree.parent[rows]]
    return inside


def _terminal_sums(player, sequences, payoff, layouts):
    """A player's terminals: payoffs [E] where players' sequences [P, E] meet."""
    others = [q for q in range(len(layouts)) if q != player]
    sums = sparse_sum.build(
        row=sequences[player],
        columns=tuple(sequences[q] for q in others),
        num_rows=layouts[player].treeplex.num_sequences,
        num_columns=0,
        weight=payoff,
    )
    return TerminalSums(sums=sums, blocks=layouts[player].treeplex.blocks)


def _public_states(tree, inside, layouts) -> PublicStates:
    _, first = np.unique(tree.public_state, return_index=True)
    above = tree.public_state[tree.parent[first]]
    tables, sequences = [], []
    for player, layout in enumerate(layouts):
        states = np.unique(tree.information_state[inside, player])
        history = first_inside(tree.information_state[:, player], inside, states)
        table = _members_by_owner(tree.public_state[history], len(first))
        tables.append(on_device(np.where(table < 0, -1, states[table]), np.int32))
        rows = layout.rows[layout.last[history]]
        sequences.append(on_device(np.where(table < 0, 0, rows[table]), np.int32))
    return PublicStates(
        parent=on_device(np.where(first == 0, -1, above), np.int32),
        depth=on_device(tree.depth[first], np.int32),
        actor=on_device(tree.actor[first], np.int32),
        information_states=tuple(tables),
        sequences=tuple(sequences),
    )


def _members_by_owner(owner: Int[np.ndarray, " I"], num_owners: int) -> Int[np.ndarray, "S N"]:
    """The members 0..I-1 of each owner, one row for each owner, padded with -1."""
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=num_owners)
    rank = np.arange(len(owner)) - (np.cumsum(count) - count)[owner[order]]
    table = np.full((num_owners, count.max()), -1)
    table[owner[order], rank] = order
    return table
