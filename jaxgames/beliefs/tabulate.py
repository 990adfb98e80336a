"""A belief-level game as tables: what its methods compute at every visit is looked up instead.

For games with few public states whose methods are costly (Scotland Yard on small maps). Unlike
tables from game trees, these may have merged rows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.beliefs.contract import BeliefGame
from jaxgames.beliefs.listing import NO_STATE, in_blocks, list_public_states
from jaxgames.beliefs.table import (
    NOWHERE,
    BeliefTable,
    SteadyTable,
    kinds_of_payoffs,
    numbers_of_states,
    trimmed,
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
      max_entries: the most numbers that the maps may need while they are built.

    Returns:
      A table that agrees with the game in all methods; a `SteadyTable` where the game allows it.

    Raises:
      ValueError: there are too many public states, `max_entries` is exceeded, or a reach of 1
        becomes neither 0 nor 1 in some child.
    """
    listing = list_public_states(game)
    count, rows, actions = len(listing.parent), game.num_rows, game.num_actions
    entries = count * rows * (actions * game.num_children * rows + 2 * rows)
    if entries > max_entries:
        raise ValueError(
            f"{game.name}: {count:,} public states need {entries:,} numbers, more than"
            f" max_entries={max_entries:,}"
        )
    view = jax.jit(jax.vmap(lambda state: _view(game, state)))
    tables = in_blocks(view, listing.state)
    exists = tables["rows"]
    numbers = np.where(exists, np.cumsum(exists).reshape(exists.shape) - 1, NOWHERE)
    depth = np.zeros(count, np.int64)
    parent = np.asarray(listing.parent)
    for state in range(1, count):  # parents come first
        depth[state] = depth[parent[state]] + 1
    dtype = dtype or tables["weights"].dtype
    maps = _maps(game, listing, tables["acted"], tables["seen"])
    return (SteadyTable if _is_steady(listing, exists, maps["from_see"]) else BeliefTable)(
        name=game.name,
        num_rows=rows,
        straight=game.straight,
        most_states=numbers_of_states(np.asarray(listing.actor)),
        action_of_child=game.action_of_child,
        num_actions=actions,
        num_children=game.num_children,
        max_depth=int(depth.max()),
        first=jnp.int32(0),
        actors=listing.actor,
        successors=jnp.where(listing.child == NO_STATE, NOWHERE, listing.child),
        depth=jnp.asarray(depth, jnp.int32),
        information_states=jnp.asarray(numbers, jnp.int32),
        legal_actions=jnp.asarray(tables["legal"]),
        weights=jnp.asarray(trimmed(tables["weights"], exists), dtype),
        payoffs=jnp.asarray(trimmed(tables["payoffs"], exists), dtype),
        **kinds_of_payoffs(
            trimmed(tables["payoffs"], exists), np.asarray(listing.actor) == TERMINAL, dtype
        ),
        features=jnp.asarray(tables["features"], dtype),
        **maps,
    )


def _view(game, state):
    """What the tables hold of one public state."""
    rows = jnp.arange(game.num_rows, dtype=jnp.int32)
    units = jnp.eye(game.num_rows)
    weight = lambda a, b: game.weight(state, jnp.stack([a, b]))  # noqa: E731
    weights = jax.vmap(lambda a: jax.vmap(lambda b: weight(a, b))(rows))(rows)
    payoffs = jax.vmap(lambda reach: game.terminal_values(state, 0, reach), out_axes=1)(units)
    exists = game.rows(state)
    acted, seen = _unit_reaches(game, state)
    return {
        "rows": exists,
        "legal": game.legal(state),
        "acted": acted,
        "seen": seen,
        "weights": jnp.where(exists[0][:, None] & exists[1][None, :], weights, 0),
        "payoffs": jnp.where(game.actor(state) == TERMINAL, payoffs, 0),
        "features": game.encode(state),
    }


def _unit_reaches(game, state):
    """`down` of a reach of 1 in a single row, into all children.

    Returns the actor's reaches `[N * A, K, N]` by row and action here, and those of both players
    `[2, N, K, N]` as they are where the player does not act.
    """
    rows, actions = game.num_rows, game.num_actions
    children = jnp.arange(game.num_children, dtype=jnp.int32)
    actor = jnp.maximum(game.actor(state), 0)

    def below(reach, policy):
        return jax.vmap(lambda child: game.down(state, child, reach, policy))(children)  # [K, 2, N]

    every, none = jnp.ones((2, rows)), jnp.zeros((actions, rows))
    policies = jnp.eye(rows * actions).reshape(-1, rows, actions).swapaxes(1, 2)
    acted = jax.vmap(lambda policy: below(every, policy)[:, actor])(policies)
    unit = lambda row: jnp.broadcast_to(row, (2, rows))  # noqa: E731
    seen = jax.vmap(lambda row: below(unit(row), none))(jnp.eye(rows))
    return acted, jnp.moveaxis(seen, 2, 0)


def _maps(game, listing, acted, seen):
    """The maps of rows as lists, from `acted` `[S, N * A, K, N]` and `seen` `[S, 2, N, K, N]`."""
    rows, actions = game.num_rows, game.num_actions
    actor, child = np.asarray(listing.actor), np.asarray(listing.child)
    exists = child != NO_STATE
    count = len(actor)
    acted = np.where((exists & (actor >= 0)[:, None])[:, None, :, None], acted, 0)
    watches = actor[:, None] != np.arange(2)
    seen = np.where(exists[:, None, None, :, None] & watches[:, :, None, None, None], seen, 0)
    for reach in (acted, seen):
        if not np.isin(reach, (0, 1)).all():
            raise ValueError(f"{game.name}: down takes a reach of 1 to another than 0 or 1")
    state, origin, k, row = np.nonzero(acted)
    before, action = origin // actions, origin % actions
    watching, player, watcher, slot, place = np.nonzero(seen)
    below, below_watching = child[state, k], child[watching, slot]
    tables = {
        "from_act": _lists((count, rows), (below, row), action * rows + before),
        "from_see": _lists((count, 2, rows), (below_watching, player, place), watcher),
        "to_act": _lists((count, actions, rows), (state, action, before), k * rows + row),
        "to_see": _lists((count, 2, rows), (watching, player, watcher), slot * rows + place),
    }
    return {name: jnp.asarray(table, jnp.int32) for name, table in tables.items()}


def _is_steady(listing, exists, from_see):
    """Whether rows of a player who does not act keep their numbers in all children."""
    from_see = np.asarray(from_see)
    above = np.asarray(listing.actor)[np.maximum(listing.parent, 0)]
    watches = above[:, None] != np.arange(2)
    watches[0] = False
    kept = np.where(exists & watches[:, :, None], np.arange(exists.shape[2]), NOWHERE)
    return from_see.shape[1] == 1 and bool((from_see[:, 0] == kept).all())


def _lists(shape, place, values):
    """The values of each place as a list `[S, L, ...]`, padded with NOWHERE."""
    flat = np.ravel_multi_index(place, shape)
    order = np.argsort(flat, kind="stable")
    rank = np.arange(len(flat)) - np.searchsorted(flat[order], flat[order])
    lists = np.full((int(rank.max(initial=0)) + 1, int(np.prod(shape))), NOWHERE)
    lists[rank, flat[order]] = values[order]
    return np.moveaxis(lists.reshape(-1, *shape), 0, 1)
