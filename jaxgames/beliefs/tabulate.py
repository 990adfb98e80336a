"""A belief-level game as tables: what it computes anew at every visit, looked up.

For games with few public states whose own functions are costly (Scotland Yard on small maps). Rows
may be merged, as tables from game trees never have them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from jaxgames.beliefs.contract import BeliefGame
from jaxgames.beliefs.listing import NO_STATE, in_blocks, list_public_states
from jaxgames.beliefs.table import NOWHERE, BeliefTable, SteadyTable, belief_table, trimmed
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import GameTree, levels
from jaxgames.registry import make
from jaxgames.scotland_yard import ScotlandYard, scotland_yard_beliefs

MAX_ENTRIES = 1_000_000_000


def belief_table_by_name(spec: str) -> BeliefTable:
    """The belief-level tables of a game by its name, with merged rows where it has them.

    Raises:
      ValueError: unknown game, or one that has no such tables.
      TreeTooLargeError: too many histories.
    """
    game = make(spec)
    if isinstance(game, ScotlandYard):
        return tabulate(scotland_yard_beliefs(game))
    return belief_table(game)


def tabulate(game: BeliefGame, *, max_entries: int = MAX_ENTRIES) -> BeliefTable:
    """The same game, with its public states numbered as `list_public_states` lists them.

    Raises:
      ValueError: too many public states, tables of more than `max_entries` numbers would be needed,
        or a map is not made of zeros and ones.
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
    there = tables["rows"]
    numbers = np.where(there, np.cumsum(there).reshape(there.shape) - 1, NOWHERE)
    depth = np.zeros(count, np.int64)
    parent = np.asarray(listing.parent)
    for state in range(1, count):  # parents come first
        depth[state] = depth[parent[state]] + 1
    dtype = tables["weights"].dtype
    maps = _maps(game, listing, tables["act"], tables["see"])
    return (SteadyTable if _steady(listing, there, maps["from_see"]) else BeliefTable)(
        name=game.name,
        num_rows=rows,
        num_actions=actions,
        num_children=game.num_children,
        max_depth=int(depth.max()),
        first=jnp.int32(0),
        actors=listing.actor,
        successors=jnp.where(listing.child == NO_STATE, NOWHERE, listing.child),
        depth=jnp.asarray(depth, jnp.int32),
        information_states=jnp.asarray(numbers, jnp.int32),
        legal_actions=jnp.asarray(tables["legal"]),
        weights=jnp.asarray(trimmed(tables["weights"], there), dtype),
        payoffs=jnp.asarray(trimmed(tables["payoffs"], there), dtype),
        features=jnp.asarray(tables["features"], dtype),
        **maps,
    )


def histories_in_table(
    game: ScotlandYard, tree: GameTree, table: BeliefTable
) -> tuple[Int[np.ndarray, " H"], Int[np.ndarray, " H"]]:
    """Where the histories of `enumerate_game(game)` are in the tables of the same game: the
    public state, and Mr X's row (the detectives have one). -1 before the deal.

    The table forgets how a station was reached: many information states share a row.
    """
    follow = jax.jit(jax.vmap(lambda s, row, a: table.follow(s, jnp.stack([row, 0]), a)))
    successors, actors = np.asarray(table.successors), np.asarray(table.actors)
    starts = np.searchsorted(game.layout.numbers, game.mr_x_starts)
    state, row = np.full((2, tree.num_histories), -1)
    if tree.actor[0] != CHANCE:
        state[0], row[0] = int(table.first), starts[0]
    for level in levels(tree.parent):
        above, action = tree.parent[level], tree.parent_action[level]
        if (tree.actor[above] == CHANCE).any():  # the deal
            state[level], row[level] = int(table.first), starts[action]
            continue
        here, station = state[above], row[above]
        moving = np.ones(len(here), bool)
        while moving.any():  # on through states in which Mr X shows himself
            pairs = np.asarray(
                follow(*(jnp.asarray(x, jnp.int32) for x in (here, station, action)))
            )
            k = (pairs >= 0).all(axis=2).argmax(axis=1)
            one = np.arange(len(k))
            station = np.where(moving, pairs[one, k, 0], station)
            here = np.where(moving, successors[here, k], here)
            moving = actors[here] == CHANCE
        state[level], row[level] = here, station
    return state, row


def _view(game, state):
    rows, actions = game.num_rows, game.num_actions
    basis = jnp.eye(rows * actions).reshape(-1, rows, actions)
    ones = jnp.eye(rows)
    number = jnp.arange(rows, dtype=jnp.int32)
    pair = lambda a, b: game.weight(state, jnp.stack([a, b]))  # noqa: E731
    weights = jax.vmap(lambda a: jax.vmap(lambda b: pair(a, b))(number))(number)
    payoffs = jax.vmap(lambda reach: game.terminal_values(state, 0, reach), out_axes=1)(ones)
    there = game.rows(state)
    return {
        "rows": there,
        "legal": game.legal(state),
        "act": jax.vmap(lambda reach: game.act_down(state, reach))(basis),
        "see": jnp.stack(
            [jax.vmap(lambda reach, p=p: game.see_down(state, p, reach))(ones) for p in range(2)]
        ),
        "weights": jnp.where(there[0][:, None] & there[1][None, :], weights, 0),
        "payoffs": jnp.where(game.actor(state) == TERMINAL, payoffs, 0),
        "features": game.encode(state),
    }


def _maps(game, listing, act, see):
    """The maps of rows as lists. `act`: [S, N * A, K, N], `see`: [S, 2, N, K, N]."""
    rows, actions = game.num_rows, game.num_actions
    actor, child = np.asarray(listing.actor), np.asarray(listing.child)
    there = child != NO_STATE
    count = len(actor)
    for name, table in (("act_down", act), ("see_down", see)):
        if not np.isin(table, (0, 1)).all():
            raise ValueError(f"{game.name}: {name} is not made of zeros and ones")
    act = (act != 0) & (there & (actor >= 0)[:, None])[:, None, :, None]
    see = (see != 0) & there[:, None, None, :, None]
    see &= (actor[:, None] != np.arange(2))[:, :, None, None, None]
    state, origin, k, row = np.nonzero(act)
    before, action = origin // actions, origin % actions
    watching, player, seen, slot, place = np.nonzero(see)
    acted, watched = child[state, k], child[watching, slot]
    tables = {
        "from_act": _lists((count, rows), (acted, row), action * rows + before),
        "from_see": _lists((count, 2, rows), (watched, player, place), seen),
        "to_act": _lists((count, actions, rows), (state, action, before), k * rows + row),
        "to_see": _lists((count, 2, rows), (watching, player, seen), slot * rows + place),
    }
    return {name: jnp.asarray(table, jnp.int32) for name, table in tables.items()}


def _steady(listing, there, from_see):
    """Whether rows of who does not act keep their numbers, in all children that have them."""
    from_see = np.asarray(from_see)
    above = np.asarray(listing.actor)[np.maximum(listing.parent, 0)]
    sees = above[:, None] != np.arange(2)
    sees[0] = False
    kept = np.where(there & sees[:, :, None], np.arange(there.shape[2]), NOWHERE)
    return from_see.shape[1] == 1 and bool((from_see[:, 0] == kept).all())


def _lists(shape, place, values):
    """The values of each place as a list `[S, L, ...]`, padded with NOWHERE."""
    flat = np.ravel_multi_index(place, shape)
    order = np.argsort(flat, kind="stable")
    rank = np.arange(len(flat)) - np.searchsorted(flat[order], flat[order])
    found = np.full((int(rank.max(initial=0)) + 1, int(np.prod(shape))), NOWHERE)
    found[rank, flat[order]] = values[order]
    return np.moveaxis(found.reshape(-1, *shape), 0, 1)
