"""A belief-level game as tables: what its methods compute at every visit is looked up instead.

For games with few public states whose methods are costly (Scotland Yard on small maps). Unlike
tables from game trees, these may have merged rows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.arrays import at, on_device
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.beliefs.listing import NO_STATE, in_blocks, list_public_states
from jaxgames.beliefs.row_moves import WATCHING, row_moves
from jaxgames.beliefs.table import (
    NOWHERE,
    BeliefTable,
    SteadyTable,
    kinds_of_payoffs,
    numbers_of_states,
)
from jaxgames.core import TERMINAL

MAX_ENTRIES = 1_000_000_000


def tabulate(
    game: BeliefGame, *, dtype: str | None = None, max_entries: int = MAX_ENTRIES
) -> BeliefTable:
    """The tables of a belief-level game, its public states numbered as `list_public_states` does.

    The maps of rows are read off `down`, applied to reaches and policies of a single row or action.

    Args:
      game: any implementation of the contract.
      dtype: of weights, payoffs and features; None: the game's own.
      max_entries: the most numbers, block by block of public states, that the maps may be read off.

    Returns:
      A table that agrees with the game in all methods; a `SteadyTable` where the game allows it.

    Raises:
      ValueError: there are too many public states, `max_entries` is exceeded, or a reach of 1
        becomes neither 0 nor 1 in some child.
    """
    listing = list_public_states(game)
    count, width, inner = len(listing.parent), game.num_children, listing.num_inner
    sizes = [*zip(game.num_actions, game.num_rows, strict=True)]
    entries = inner * sum(rows * rows * (actions * width + 1) for actions, rows in sizes)
    if entries > max_entries:
        raise ValueError(
            f"{game.name}: {inner:,} public states need {entries:,} numbers, more than"
            f" max_entries={max_entries:,}"
        )
    view = jax.jit(jax.vmap(lambda state: _view(game, state)))
    tables = in_blocks(view, listing.state)
    ends = np.asarray(listing.actor) == TERMINAL
    depth = np.zeros(count, np.int64)
    parent = np.asarray(listing.parent)
    for state in range(1, count):  # parents come first
        depth[state] = depth[parent[state]] + 1
    dtype = dtype or tables["weights"].dtype
    maps = _maps(game, listing)
    steady = _is_steady(listing, tables["rows"], maps["from_see"])
    return (SteadyTable if steady else BeliefTable)(
        name=game.name,
        num_rows=game.num_rows,
        straight=game.straight,
        most_states=numbers_of_states(np.asarray(listing.actor)),
        action_of_child=game.action_of_child,
        num_actions=game.num_actions,
        num_children=width,
        max_depth=int(depth.max()),
        first=jnp.int32(0),
        actors=listing.actor,
        successors=jnp.where(listing.child == NO_STATE, NOWHERE, listing.child),
        depth=on_device(depth, np.int32),
        information_states=_numbers(tables["rows"]),
        legal_actions=tuple(map(on_device, tables["legal"])),
        weights=on_device(tables["weights"], dtype),
        payoffs=on_device(tables["payoffs"], dtype),
        **kinds_of_payoffs(tables["payoffs"], ends, dtype),
        features=on_device(tables["features"], dtype),
        **maps,
    )


def _numbers(exists):
    """Numbers `[S, N]` of the rows of either player that exist, one after the other."""
    flat = np.concatenate([rows.ravel() for rows in exists])
    numbers = np.where(flat, np.cumsum(flat) - 1, NOWHERE)
    parts = np.split(numbers, [exists[0].size])
    return tuple(
        on_device(part.reshape(rows.shape), np.int32)
        for part, rows in zip(parts, exists, strict=True)
    )


def _view(game, state):
    """What the tables hold of one public state."""
    first, second = (jnp.arange(n, dtype=jnp.int32) for n in game.num_rows)
    weight = lambda a, b: game.weight(state, jnp.stack([a, b]))  # noqa: E731
    weights = jax.vmap(lambda a: jax.vmap(lambda b: weight(a, b))(second))(first)
    worth = lambda reach: game.terminal_values(state, 0, reach)  # noqa: E731
    payoffs = jax.vmap(worth, out_axes=1)(jnp.eye(len(second)))
    exists = game.rows(state)
    return {
        "rows": exists,
        "legal": game.legal(state),
        "weights": jnp.where(exists[0][:, None] & exists[1][None, :], weights, 0),
        "payoffs": jnp.where(game.actor(state) == TERMINAL, payoffs, 0),
        "features": game.encode(state),
    }


def _maps(game, listing):
    """The maps of rows as lists."""
    tables = dict(from_act=[], from_see=[], to_act=[], to_see=[])
    sizes = zip(game.num_actions, game.num_rows, row_moves(game, listing), strict=True)
    for actions, rows, moves in sizes:
        given = _maps_of(len(listing.parent), actions, rows, moves)
        for name, table in given.items():
            tables[name].append(on_device(table, np.int32))
    return {name: tuple(each) for name, each in tables.items()}


def _maps_of(count, actions, rows, moves):
    """One player's maps of rows, in a game of `count` public states."""
    acts = moves.action != WATCHING
    acted, seen = (at(moves, mask) for mask in (acts, ~acts))
    return {
        "from_act": _lists(
            (count, rows), (acted.child, acted.row_below), acted.action * rows + acted.row
        ),
        "from_see": _lists((count, rows), (seen.child, seen.row_below), seen.row),
        "to_act": _lists(
            (count, actions, rows),
            (acted.state, acted.action, acted.row),
            acted.slot * rows + acted.row_below,
        ),
        "to_see": _lists((count, rows), (seen.state, seen.row), seen.slot * rows + seen.row_below),
    }


def _is_steady(listing, exists, from_see):
    """Whether rows of a player who does not act keep their numbers in all children."""
    above = np.asarray(listing.actor)[np.maximum(listing.parent, 0)]
    below = np.arange(len(above)) > 0
    for player, (rows, table) in enumerate(zip(exists, from_see, strict=True)):
        watched = (below & (above != player))[:, None]
        kept = np.where(rows & watched, np.arange(rows.shape[1]), NOWHERE)
        if table.shape[1] != 1 or not (np.asarray(table)[:, 0] == kept).all():
            return False
    return True


def _lists(shape, place, values):
    """The values of each place as a list `[S, L, ...]`, padded with NOWHERE."""
    flat = np.ravel_multi_index(place, shape)
    order = np.argsort(flat, kind="stable")
    rank = np.arange(len(flat)) - np.searchsorted(flat[order], flat[order])
    lists = np.full((int(rank.max(initial=0)) + 1, int(np.prod(shape))), NOWHERE)
    lists[rank, flat[order]] = values[order]
    return np.moveaxis(lists.reshape(-1, *shape), 0, 1)
