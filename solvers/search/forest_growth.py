"""How a forest grows: leaves become nodes, and nodes get children."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL
from solvers.search.forest import (
    CHILD,
    DEPTH,
    FACTOR_0,
    FACTOR_1,
    KINDS,
    LINKS,
    MAPPED,
    NOTHING,
    NUMBER,
    PARENT,
    SEARCH,
    SOURCE,
    Forest,
    KnownLeaves,
    Layout,
    OpenLeaves,
    kind_of,
    prepares,
)
from solvers.search.pages import take_places
from solvers.search.search_state import Evaluator


def add_roots(
    game: BeliefGame, forest: Forest, layout: Layout, state: PublicState
) -> tuple[Forest, Int[Array, " B"]]:
    """The forest with the root of each search, whose states are `[B, ...]`, and their places."""
    searches = jnp.arange(layout.batch, dtype=jnp.int32)
    links = jnp.zeros((layout.batch, LINKS), jnp.int32).at[:, SEARCH].set(searches)
    links = links.at[:, SOURCE].set(layout.first_root + searches)
    links = links.at[:, FACTOR_0].set(layout.room - 1).at[:, FACTOR_1].set(layout.room - 1)
    links = links.at[:, PARENT].set(NOTHING)
    none = jnp.zeros(layout.batch, forest.since.dtype)
    prior = tuple(
        jnp.zeros((layout.batch, layout.actions[p], layout.rows[p]), none.dtype) for p in range(2)
    )
    every = jnp.ones(layout.batch, bool)
    return append(game, forest, layout, state, links, prior, none, every)


def expand(
    game: BeliefGame,
    forest: Forest,
    layout: Layout,
    leaf: Int[Array, " B"],
    prior: tuple[Array, Array],
    since: Array,
    wanted: Bool[Array, " B"],
) -> tuple[Forest, Int[Array, " B"]]:
    """The forest with one leaf of each search turned into a node, which has no children yet.

    Args:
      game: any belief-level game.
      forest: before.
      layout: of the forest.
      leaf: places of leaves, one of each search.
      prior: of the new nodes, for either player `[B, A, N]`.
      since: the sums of the weights of the searches' iterations so far `[B]`.
      wanted: the searches that expand at all; nothing happens either if a tree is full.

    Returns:
      The forest, and the places of the new nodes; behind all tables where there is none.
    """
    links, state = forest.links[leaf], at(forest.state, leaf)
    room = (forest.count < layout.nodes) & (forest.slots + layout.children <= layout.slots)
    wanted = wanted & room
    known = [tuple(table[leaf] for table in x) for x in (forest.values, forest.values_total)]
    # 1. The leaf's place is free again.
    number = jnp.cumsum(wanted, dtype=jnp.int32) - 1
    spot = jnp.where(wanted, forest.num_free + number, layout.leaves)
    forest = forest.replace(
        free=forest.free.at[spot].set(leaf, mode="drop"),
        num_free=forest.num_free + jnp.sum(wanted, dtype=jnp.int32),
        leaves=_without_leaf(forest.leaves, layout, leaf, wanted),
    )
    # 2. The node, and the parent's pointer to it.
    forest, place = append(game, forest, layout, state, links, prior, since, wanted)
    parent = jnp.where(wanted, links[:, PARENT], layout.inner)
    values, totals = (
        tuple(table.at[place].set(x, mode="drop") for table, x in zip(tables, of_leaf, strict=True))
        for tables, of_leaf in zip((forest.values, forest.values_total), known, strict=True)
    )
    return forest.replace(
        pointers=forest.pointers.at[parent, links[:, CHILD]].set(place, mode="drop"),
        values=values,
        values_total=totals,
    ), place


def _without_leaf(leaves, layout, leaf, wanted):
    """The lists without a leaf of each search; the last of a list takes its place."""
    if leaves is None:
        return None
    searches = jnp.arange(layout.batch, dtype=jnp.int32)
    first = layout.inner + layout.first_leaf
    end = jnp.maximum(leaves.count - 1, 0)
    last, gap = leaves.place[searches, end], leaves.spot[jnp.maximum(leaf - first, 0)]
    far = layout.most_leaves + layout.leaves
    return OpenLeaves(
        place=leaves.place.at[searches, jnp.where(wanted, gap, far)].set(last, mode="drop"),
        count=leaves.count - wanted.astype(jnp.int32),
        spot=leaves.spot.at[jnp.where(wanted, last - first, far)].set(gap, mode="drop"),
    )


def _with_leaves(leaves, layout, place, opens):
    """The lists with new leaves of each search at places `[B, m]`, where `opens`."""
    if leaves is None:
        return None
    searches = jnp.arange(layout.batch, dtype=jnp.int32)[:, None]
    spot = leaves.count[:, None] + jnp.cumsum(opens, axis=1, dtype=jnp.int32) - 1
    far = layout.most_leaves + layout.leaves
    number = jnp.where(opens, place - layout.inner - layout.first_leaf, far)
    return OpenLeaves(
        place=leaves.place.at[searches, jnp.where(opens, spot, far)].set(place, mode="drop"),
        count=leaves.count + jnp.sum(opens, axis=1, dtype=jnp.int32),
        spot=leaves.spot.at[number].set(spot, mode="drop"),
    )


def append(
    game: BeliefGame,
    forest: Forest,
    layout: Layout,
    state: PublicState,
    links: Int[Array, "B L"],
    prior: tuple[Array, Array],
    since: Array,
    wanted: Bool[Array, " B"],
) -> tuple[Forest, Int[Array, " B"]]:
    """The forest with a node for each search that wants one, and the nodes' places."""
    kind = jax.vmap(functools.partial(kind_of, game))(state)
    parent = links[:, PARENT]
    depth = jnp.where(parent < 0, 0, forest.links[jnp.maximum(parent, 0), DEPTH] + 1)
    pages, place = take_places(forest.pages, depth * KINDS + kind, wanted, page=layout.page)
    place = jnp.where(wanted, place, layout.nowhere + 1)  # behind all tables
    # 1. The node's number among its player's decisions, and among mapped nodes.
    decisions, numbers = [], jnp.full(layout.batch, layout.room - 1, jnp.int32)
    for player in range(2):
        acts = wanted & (kind == player)
        number = forest.decisions[player].count + jnp.cumsum(acts, dtype=jnp.int32) - 1
        numbers = jnp.where(acts, number, numbers)
        decisions.append(
            _with_decisions(game, forest.decisions[player], state, prior[player], place, acts)
        )
    maps = wanted & ~jnp.asarray(layout.straight)[kind]
    mapped = forest.mapped + jnp.cumsum(maps, dtype=jnp.int32) - 1
    mapped = jnp.where(maps, mapped, layout.mapped_nodes)
    links = links.at[:, DEPTH].set(depth).at[:, NUMBER].set(numbers).at[:, MAPPED].set(mapped)
    own = jnp.where(wanted, forest.count, layout.nodes)
    searches = jnp.arange(layout.batch, dtype=jnp.int32)
    forest = forest.replace(
        pages=pages,
        decisions=tuple(decisions),
        mapped=forest.mapped + jnp.sum(maps, dtype=jnp.int32),
        deepest=jnp.maximum(forest.deepest, jnp.max(jnp.where(wanted, depth, 0))),
        since=forest.since.at[place].set(since, mode="drop"),
        count=forest.count + wanted.astype(jnp.int32),
        nodes=forest.nodes.at[searches, own].set(place, mode="drop"),
        index=forest.index.at[place].set(own, mode="drop"),
    )
    return _with_places(forest, place, state, links, _masks(game, state)), place


def _masks(game, state):
    rows = jax.vmap(game.rows)(state)
    return rows[:, 0], rows[:, 1]


def _with_places(forest, place, state, links, masks):
    put = lambda table, new: table.at[place].set(new.astype(table.dtype), mode="drop")  # noqa: E731
    return forest.replace(
        links=put(forest.links, links),
        masks=tuple(map(put, forest.masks, masks)),
        state=jax.tree.map(put, forest.state, state),
    )


def _with_decisions(game, tables, state, prior, place, acts):
    """A player's tables with the new nodes at which the player acts."""
    # The new ones in a row, so that they are written as one slice.
    number = jnp.cumsum(acts, dtype=jnp.int32) - 1
    order = jnp.full(len(acts), len(acts), jnp.int32)
    order = order.at[jnp.where(acts, number, len(acts))].set(
        jnp.arange(len(acts), dtype=jnp.int32), mode="drop"
    )
    new = order < len(acts)
    order = jnp.minimum(order, len(acts) - 1)
    legal = jax.vmap(game.legal)(state).astype(prior.dtype)
    uniform = legal / jnp.maximum(jnp.sum(legal, axis=1, keepdims=True), 1)

    def put(table, given):
        given = jnp.where(new[:, None, None], given[order], 0).swapaxes(0, 1)
        return jax.lax.dynamic_update_slice_in_dim(table, given, tables.count, axis=1)

    places = jnp.where(new, place[order], tables.place[-1])
    return tables.replace(
        count=tables.count + jnp.sum(acts, dtype=jnp.int32),
        place=jax.lax.dynamic_update_slice_in_dim(tables.place, places, tables.count, axis=0),
        uniform=put(tables.uniform, uniform),
        prior=put(tables.prior, prior),
        policy=put(tables.policy, uniform),
    )


def add_children(
    game: BeliefGame,
    forest: Forest,
    layout: Layout,
    place: Int[Array, " B"],
    child: Int[Array, "B m"],
    state: PublicState,
    wanted: Bool[Array, "B m"],
) -> tuple[Forest, Int[Array, "B m"]]:
    """The forest with children of one node of each search, as terminals and leaves.

    Args:
      game: any belief-level game.
      forest: before.
      layout: of the forest.
      place: of the nodes.
      child: numbers of children which these nodes do not have yet.
      state: the children `[B, m, ...]`.
      wanted: which of them to add.

    Returns:
      The forest, and the places of the children; `layout.nowhere` where there is none.
    """
    size, most = child.shape
    inside = jnp.minimum(place, layout.inner - 1)
    links, kind = (
        forest.links[inside],
        jax.vmap(functools.partial(kind_of, game))(at(forest.state, inside)),
    )
    flat = jax.tree.map(lambda x: x.reshape(size * most, *x.shape[2:]), state)
    ends = jax.vmap(game.actor)(flat) == TERMINAL
    exists = wanted.reshape(-1)
    # 1. Places: terminals by kind; leaves first where others were given back.
    over, opens = exists & ends, exists & ~ends
    kinds = jax.vmap(game.terminal_kind)(flat)
    terminals, final = take_places(forest.terminals, kinds, over, page=layout.page)
    number = jnp.cumsum(opens, dtype=jnp.int32) - 1
    new = jnp.sum(opens, dtype=jnp.int32)
    again = forest.free[jnp.maximum(forest.num_free - 1 - number, 0)]
    fresh = layout.inner + layout.first_leaf + forest.num_leaves + number - forest.num_free
    leaf = jnp.where(number < forest.num_free, again, fresh)
    spots = jnp.where(over, layout.inner + final, jnp.where(opens, leaf, layout.nowhere))
    # 2. How reaches come there.
    straight = jnp.asarray(layout.straight)[kind][:, None]
    source = layout.inner + links[:, MAPPED, None] * layout.children + child
    action = np.zeros(layout.children, np.int32)
    action[: len(layout.action_of_child)] = layout.action_of_child
    factors = []
    for player in range(2):
        row = layout.policy_row(links[:, NUMBER, None], jnp.asarray(action)[child])
        acts = straight & (kind == player)[:, None]
        factors.append(jnp.where(acts, row, layout.room - 1))
    given = {
        SOURCE: jnp.where(straight, inside[:, None], source),
        FACTOR_0: factors[0],
        FACTOR_1: factors[1],
        PARENT: inside[:, None],
        CHILD: child,
        SEARCH: links[:, SEARCH, None],
    }
    below = [jnp.broadcast_to(given.get(c, 0), (size, most)).reshape(-1) for c in range(LINKS)]
    zero = lambda table: table.at[jnp.where(opens, spots, len(table))].set(0, mode="drop")  # noqa: E731
    parent = jnp.where(wanted, inside[:, None], layout.inner)
    forest = forest.replace(
        terminals=terminals,
        slots=forest.slots + jnp.sum(wanted, axis=1, dtype=jnp.int32),
        num_leaves=forest.num_leaves + jnp.maximum(new - forest.num_free, 0),
        num_free=jnp.maximum(forest.num_free - new, 0),
        pointers=forest.pointers.at[parent, child].set(spots.reshape(size, most), mode="drop"),
        values=tuple(map(zero, forest.values)),
        values_total=tuple(map(zero, forest.values_total)),
        leaves=_with_leaves(
            forest.leaves, layout, spots.reshape(size, most), opens.reshape(size, most)
        ),
    )
    far = jnp.where(exists, spots, layout.nowhere + 1)
    forest = _with_places(forest, far, flat, jnp.stack(below, axis=-1), _masks(game, flat))
    return forest, spots.reshape(size, most)


def add_all_children(
    game: BeliefGame,
    params: PyTree,
    forest: Forest,
    layout: Layout,
    place: Int[Array, " B"],
    *,
    evaluate: Evaluator,
) -> Forest:
    """The forest with all children of one new node of each search; `place` may be no place."""
    wanted = place < layout.inner
    state = at(forest.state, jnp.minimum(place, layout.inner - 1))
    child = jnp.arange(layout.children, dtype=jnp.int32)
    child = jnp.broadcast_to(child, (layout.batch, layout.children))
    exists = jax.vmap(game.child_mask)(state) & wanted[:, None]
    below = jax.vmap(game.children)(state)
    forest, spots = add_children(game, forest, layout, place, child, below, exists)
    return with_known(game, params, forest, layout, spots, below, evaluate=evaluate)


def add_best_children(
    game: BeliefGame,
    params: PyTree,
    forest: Forest,
    layout: Layout,
    place: Int[Array, " B"],
    child: Int[Array, "B m"],
    wanted: Bool[Array, "B m"],
    fresh: Bool[Array, " B"],
    *,
    evaluate: Evaluator,
) -> Forest:
    """The forest with some children of one node of each search, in games where child k is where
    action k leads.

    Actions to other children do not exist for CFR. At `fresh` nodes, the policy begins with the
    uniform one over those that exist.
    """
    state = at(forest.state, jnp.minimum(place, layout.inner - 1))
    below = jax.vmap(jax.vmap(game.child, (None, 0)))(state, child)
    forest, spots = add_children(game, forest, layout, place, child, below, wanted)
    forest = with_known(game, params, forest, layout, spots, below, evaluate=evaluate)
    # The policies that count from now on: uniform over the actions that exist.
    inside = jnp.minimum(place, layout.inner - 1)
    number = forest.links[inside, NUMBER]
    exists = (forest.pointers[inside] < layout.nowhere).astype(forest.since.dtype)
    spread = exists / jnp.maximum(jnp.sum(exists, axis=1, keepdims=True), 1)
    decisions = []
    for tables in forest.decisions:
        mine = jnp.any(wanted, axis=1) & (tables.place[number] == place)
        known, begins = (jnp.where(x, number, layout.room) for x in (mine, mine & fresh))
        decisions.append(
            tables.replace(
                uniform=tables.uniform.at[:, known, 0].set(spread.T, mode="drop"),
                policy=tables.policy.at[:, begins, 0].set(spread.T, mode="drop"),
            )
        )
    return forest.replace(decisions=tuple(decisions))


def with_known(
    game: BeliefGame,
    params: PyTree,
    forest: Forest,
    layout: Layout,
    place: Int[Array, "B m"],
    state: PublicState,
    *,
    evaluate: Evaluator,
) -> Forest:
    """The forest with what the evaluator can tell of new leaves once and for all.

    With one row a value is proportional to the opponent's reach, so that one evaluation at reach 1
    serves all iterations. Elsewhere it is what `evaluate.prepare` computes, if there is that.
    """
    number = place - layout.inner - layout.first_leaf
    number = jnp.where((number >= 0) & (place < layout.nowhere), number, layout.leaves)
    if prepares(layout, evaluate):
        ahead = jax.vmap(jax.vmap(lambda s: evaluate.prepare(params, game, s)))(state)
        put = lambda table, new: table.at[number].set(new, mode="drop")  # noqa: E731
        return forest.replace(prepared=jax.tree.map(put, forest.prepared, ahead))
    if not layout.single_row:
        return forest
    reach = jnp.ones((2, 1), forest.since.dtype)
    values, prior = jax.vmap(jax.vmap(lambda s: evaluate(params, game, s, reach)))(state)
    known = KnownLeaves(
        values=tuple(
            table.at[number].set(values[:, :, p], mode="drop")
            for p, table in enumerate(forest.known.values)
        ),
        prior=forest.known.prior.at[number].set(prior[..., 0], mode="drop"),
    )
    return forest.replace(known=known)
