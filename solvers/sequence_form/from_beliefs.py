"""The sequence form of a belief-level game, whose rows may merge information states.

In Scotland Yard Mr X's row is his station: how he came there does not matter for the rest of the
game. A decision then follows several sequences, and its own reach is the sum of theirs. All else is
as with perfect recall, since whatever is reached is worth the same on all ways: the same sweeps,
one own depth after the other, solve and measure these games, without a list of their histories.

Decision s * N_p + n of player p is its row n at listed public state s.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.sparse import coo_array, csr_array

from jaxgames.arrays import on_device
from jaxgames.beliefs import NO_STATE, BeliefGame, Listing
from jaxgames.beliefs.listing import in_blocks
from jaxgames.beliefs.row_moves import WATCHING, row_moves
from jaxgames.core import TERMINAL
from jaxgames.game_tree import levels
from solvers.sequence_form import sparse_sum
from solvers.sequence_form.policy_tables import Policy
from solvers.sequence_form.sequence_form import SequenceForm, TerminalSums, checked_dtype
from solvers.sequence_form.treeplex import (
    NO_ACTION,
    ChildSums,
    Group,
    Level,
    Treeplex,
    group_by_num_actions,
)


def sequence_form_of_beliefs(
    game: BeliefGame,
    listing: Listing,
    *,
    end_values: Float[np.ndarray, " S"] | None = None,
    dtype: str = "float32",
) -> SequenceForm:
    """Compiles a belief-level game with S public states into a sequence form.

    Of a listing with several roots each is a game of its own. A solver solves all of them at once,
    and every player has one root sequence for each of its rows in each of the roots.

    Args:
      game: any belief-level game.
      listing: `list_public_states(game)`, or a part of the game that is listed by it.
      end_values: what each pair of rows is worth to player 0 where the listing ends before the game
        does; what it is at other public states does not matter.
      dtype: "float32" or "float64", the precision of everything that is solved.

    Returns:
      The sequence form, without `histories`. Every player has `S * N_p` decisions, most of which do
      not exist; `by_public_state` rearranges its policies.

    Raises:
      ValueError: `dtype` is neither float32 nor float64, or it is float64 without JAX's x64 mode;
        or the game's rows do not lead to rows one by one.
    """
    precision = checked_dtype(dtype)
    rows, legal = in_blocks(functools.partial(_rows_and_legal, game), listing.state)
    layouts = [
        _lay_out(game, listing, p, rows[p], legal[p].swapaxes(1, 2), moves, precision)
        for p, moves in enumerate(row_moves(game, listing))
    ]
    first, second = (layout.sources for layout in layouts)
    joint = (first.T @ _payoffs(game, listing, rows, end_values) @ second).tocoo()
    sequences = joint.row, joint.col
    return SequenceForm(
        treeplexes=tuple(layout.treeplex for layout in layouts),
        terminals=tuple(
            TerminalSums(
                sums=sparse_sum.build(
                    row=sequences[p],
                    columns=(sequences[1 - p],),
                    num_rows=layout.treeplex.num_sequences,
                    num_columns=0,
                    weight=((1, -1)[p] * joint.data).astype(precision),
                    tiles=False,
                ),
                blocks=layout.treeplex.blocks,
            )
            for p, layout in enumerate(layouts)
        ),
        num_actions=max(game.num_actions),
        game=game.name,
        dtype=precision,
    )


def by_public_state(
    game: BeliefGame, policy: Policy
) -> tuple[Float[Array, "S A0 N0"], Float[Array, "S A1 N1"]]:
    """Policies of `sequence_form_of_beliefs`, as `belief_exploitability` measures them.

    Args:
      game: the belief-level game.
      policy: of both players, by decision `[S * N_p, A]`.

    Returns:
      Both players' policies by listed public state, 0 where they do not act.
    """
    sizes = zip(policy, game.num_rows, game.num_actions, strict=True)
    first, second = (
        jnp.asarray(own).reshape(-1, rows, own.shape[1])[..., :actions].swapaxes(1, 2)
        for own, rows, actions in sizes
    )
    return first, second


@dataclasses.dataclass(frozen=True)
class _Layout:
    """One player's sequences, and which of them lead to each of its rows.

    The own reach of row n at public state s is the sum of those of the sequences in row s * N + n
    of `sources` [S * N, Q].
    """

    treeplex: Treeplex
    sources: csr_array


def _lay_out(game, listing, player, exists, legal, moves, dtype):
    """Lays out a player's sequences, of rows `exists` [S, N] with actions `legal` [S, N, A].

    As in `treeplex.Layout`, sequences have raw numbers, and rows as places in the layout.
    """
    acts = np.asarray(listing.actor) == player
    decides = (exists & acts[:, None]).ravel()
    depth = np.where(decides, np.repeat(_own_depth(listing, acts), exists.shape[1]), -1)
    legal = legal.reshape(len(decides), -1)
    roots = _root_rows(listing, exists)
    num_roots = len(roots)
    sources = _sources(exists, roots, moves, legal.shape[1])
    if (sources.data > 1).any():
        raise ValueError(
            f"{game.name}: a row of player {player} is reached in several ways after one action of"
            " theirs; allowed: one way"
        )
    place = np.full(num_roots + legal.size, -1)  # of each raw number
    place[:num_roots] = np.arange(num_roots)
    found, begin, first_group, above = [], num_roots, 0, (0, num_roots)
    for d in range(depth.max(initial=-1) + 1):
        at_depth = np.flatnonzero(depth == d)
        members = group_by_num_actions(at_depth, legal[at_depth].sum(axis=1))
        leads = [_leads(sources, decisions, place, above) for decisions in members]
        groups, end = [], begin
        for decisions, lead in zip(members, leads, strict=True):
            groups.append(_group(decisions, legal, lead, num_roots, place, end, dtype))
            end += groups[-1].num_actions * groups[-1].num_decisions
        offsets = np.cumsum([0, *map(len, members)])
        children = _sums(
            np.concatenate([lead.col for lead in leads]),
            np.concatenate([lead.row + o for lead, o in zip(leads, offsets, strict=False)]),
            above[1] - above[0],
            int(offsets[-1]),
        )
        found.append(
            Level(
                groups=tuple(groups),
                children=ChildSums(sums=children),
                begin=begin,
                end=end,
                first_group=first_group,
            )
        )
        above, begin, first_group = (begin, end), end, first_group + len(groups)
    treeplex = Treeplex(
        levels=tuple(found),
        opaque_one=on_device(1, np.int32),
        num_roots=num_roots,
        num_sequences=begin,
        num_decisions=len(depth),
    )
    raw = sources.tocoo()
    ways = (raw.data, (raw.row, place[raw.col]))
    return _Layout(treeplex, coo_array(ways, shape=(len(depth), begin)).tocsr())


def _own_depth(listing, acts):
    """How many public states above each one [S] are the player's own."""
    parent, depth = np.asarray(listing.parent), np.zeros(len(acts), np.int64)
    for states in levels(parent):
        above = parent[states]
        depth[states] = np.where(above == NO_STATE, 0, depth[above] + acts[above])
    return depth


def _root_rows(listing, exists):
    """The rows [R] of S * N that a player has in the roots."""
    return np.flatnonzero(exists & (np.asarray(listing.parent) == NO_STATE)[:, None])


def _sources(exists, roots, moves, num_actions):
    """The raw sequences that lead to each row [S * N, R + S * N * A]."""
    size = exists.size
    above = moves.state * exists.shape[1] + moves.row
    below = moves.child * exists.shape[1] + moves.row_below
    acted = moves.action != WATCHING
    row = np.concatenate([roots, below[acted]])
    own = len(roots) + above[acted] * num_actions + moves.action[acted]
    column = np.concatenate([np.arange(len(roots)), own])
    shape = size, len(roots) + size * num_actions
    last = coo_array((np.ones(len(row), np.int64), (row, column)), shape=shape).tocsr()
    steps = np.ones(np.sum(~acted), np.int64), (below[~acted], above[~acted])
    watched = coo_array(steps, shape=(size, size)).tocsr()
    sources = last
    while last.nnz:  # once for each step of the others between own actions
        last = watched @ last
        sources = sources + last
    return sources


def _leads(sources, decisions, place, above):
    """Which rows of the level `above` lead to each of the decisions."""
    leads = sources[decisions].tocoo()
    column = place[leads.col] - above[0]
    return coo_array((leads.data, (leads.row, column)), shape=(len(decisions), above[1] - above[0]))


def _group(decisions, legal, leads, num_roots, place, first, dtype):
    """Decisions as a group, whose sequences get the rows from `first` on."""
    width = int(legal[decisions].sum(axis=1).max())
    slots = np.argsort(~legal[decisions], axis=1, kind="stable")[:, :width].T  # [A, n]
    allowed = np.take_along_axis(legal[decisions], slots.T, axis=1).T
    rows = first + np.arange(slots.size).reshape(slots.shape)
    raw = num_roots + decisions[None, :] * legal.shape[1] + slots
    place[raw[allowed]] = rows[allowed]
    return Group(
        parent=_sums(leads.row, leads.col, *leads.shape),
        decision=on_device(decisions, np.int32),
        action=on_device(np.where(allowed, slots, NO_ACTION), np.int32),
        uniform=on_device(allowed / allowed.sum(axis=0), dtype),
        num_actions=width,
        num_decisions=len(decisions),
    )


def _sums(row, column, num_rows, num_columns):
    return sparse_sum.build(row=row, columns=(column,), num_rows=num_rows, num_columns=num_columns)


def _payoffs(game, listing, rows, end_values):
    """Player 0's payoffs, weighted by chance, where rows meet at ends [S * N0, S * N1]."""
    ends = np.flatnonzero(np.asarray(listing.actor) == TERMINAL)
    view = functools.partial(_final_values, game)
    final = in_blocks(view, jax.tree.map(lambda x: np.asarray(x)[ends], listing.state))
    values, weights, is_over = final
    if end_values is not None:
        values = np.where(is_over[:, None, None], values, end_values[ends, None, None] * weights)
    values = np.where(rows[0][ends, :, None] & rows[1][ends, None, :], values, 0)
    end, first, second = np.nonzero(values)
    places = (ends[end] * game.num_rows[0] + first, ends[end] * game.num_rows[1] + second)
    shape = tuple(own.size for own in rows)
    return coo_array((values[end, first, second].astype(float), places), shape=shape).tocsr()


@jax.jit
@functools.partial(jax.vmap, in_axes=(None, 0))
def _rows_and_legal(game, state):
    return game.rows(state), game.legal(state)


@jax.jit
@functools.partial(jax.vmap, in_axes=(None, 0))
def _final_values(game, state):
    """Payoffs of player 0 and weights by pairs of rows [N0, N1], and whether the game is over."""
    columns = jnp.eye(game.num_rows[1])
    values, weights = (
        jax.vmap(of, (None, None, 0), out_axes=1)(state, 0, columns)
        for of in (game.terminal_values, game.compatible)
    )
    return values, weights, game.actor(state) == TERMINAL
