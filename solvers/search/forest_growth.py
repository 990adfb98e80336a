"""How a forest grows: leaves become nodes, and nodes get children.

All that a step adds is computed first, and then written into the tables at once: XLA would copy a
table that is read after it was written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from jaxgames.arrays import at, merge_axes
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL, record
from solvers.search.forest import (
    CHILD,
    DEPTH,
    FACTOR_0,
    FACTOR_1,
    KINDS,
    LINKS,
    MAPPED,
    NO_NODE,
    NUMBER,
    PARENT,
    SOURCE,
    Forest,
    Layout,
    OpenLeaves,
    kind_of,
    prepares,
)
from solvers.search.pages import take_places
from solvers.search.search_state import Evaluator
from solvers.sequence_form.sparse_sum import stored

# prior(leaf [B], states [B, ...]) -> priors of both players [B, A, N]
Prior = Callable[[Array, PublicState], tuple[Array, Array]]


@record
class _Added:
    """What a step adds: a node to some of B searches, and its m children, of which some exist."""

    adds: Array  # [B] bool searches that get a node
    state: PublicState  # [B, ...] of the nodes
    kind: Array  # [B] int32
    links: Array  # [B, LINKS] int32 of the leaves that they were
    rows: tuple[Array, Array]  # [B, N]
    actions: tuple[Array, Array]  # [B, A, N] bool legal actions
    prior: tuple[Array, Array]  # [B, A, N]
    values: tuple[Array, Array]  # [B, N] in the last iteration
    values_total: tuple[Array, Array]  # [B, N]
    child: Array  # [B, m] int32 numbers of the children
    exists: Array  # [B, m] bool which of them are added
    below: PublicState  # [B, m, ...]
    below_rows: tuple[Array, Array]  # [B, m, N]
    ends: Array  # [B, m] bool terminals
    end_kinds: Array  # [B, m] int32 their kinds
    known: PyTree  # [B, m, ...] what the evaluator can tell once and for all, or None


_PREPARED_AT_ONCE = 64  # new leaves


def no_prior(layout: Layout, dtype: jnp.dtype) -> Prior:
    """The prior of nodes that no simulation has to choose at."""
    sizes = [*zip(layout.actions, layout.rows, strict=True)]
    return lambda leaf, state: tuple(jnp.zeros((layout.batch, *size), dtype) for size in sizes)


def add_roots(
    game: BeliefGame,
    params: PyTree,
    forest: Forest,
    layout: Layout,
    state: PublicState,
    *,
    evaluate: Evaluator,
) -> tuple[Forest, Int[Array, " B"]]:
    """The forest with the root of each search and all its children.

    Args:
      game: any belief-level game.
      params: of the evaluator.
      forest: without nodes.
      layout: of the forest.
      state: of the roots `[B, ...]`.
      evaluate: the evaluator.

    Returns:
      The forest, and the places of the roots.
    """
    searches = jnp.arange(layout.batch, dtype=jnp.int32)
    links = jnp.zeros((layout.batch, LINKS), jnp.int32)
    links = links.at[:, SOURCE].set(layout.first_root + searches)
    ones = jnp.array([room - 1 for room in layout.room], jnp.int32)
    links = links.at[:, jnp.array([FACTOR_0, FACTOR_1])].set(ones)
    links = links.at[:, PARENT].set(NO_NODE)
    dtype = forest.since.dtype
    worth = tuple(jnp.zeros((layout.batch, rows), dtype) for rows in layout.rows)
    new = _node(
        game,
        adds=jnp.ones(layout.batch, bool),
        state=state,
        links=links,
        prior=no_prior(layout, dtype)(searches, state),
        worth=(worth, worth),
    )
    new = _with_all_children(game, params, layout, new, evaluate=evaluate)
    forest, place, leaves = _grown(forest, layout, new, jnp.zeros(layout.batch, dtype), leaf=None)
    return _with_prepared(game, params, forest, layout, leaves, evaluate=evaluate), place


def expand(
    game: BeliefGame,
    params: PyTree,
    forest: Forest,
    layout: Layout,
    leaf: Int[Array, " B"],
    wanted: Bool[Array, " B"],
    *,
    prior: Prior,
    since: Array,
    evaluate: Evaluator,
) -> tuple[Forest, Int[Array, " B"]]:
    """The forest with one leaf of each search turned into a node, and all its children.

    Args:
      game: any belief-level game.
      params: of the evaluator.
      forest: before.
      layout: of the forest.
      leaf: places of leaves, one of each search.
      wanted: the searches that expand; a tree without room stays as it is.
      prior: of the new nodes.
      since: the sums of the weights of the searches' iterations so far `[B]`.
      evaluate: the evaluator.

    Returns:
      The forest, and the places of the new nodes; behind all tables where there is none.
    """

    def read():
        new = _leaf(game, forest, layout, leaf, wanted, prior)
        return _with_all_children(game, params, layout, new, evaluate=evaluate)

    new = stored(read, _one(forest))
    forest, place, leaves = _grown(forest, layout, new, since, leaf=leaf)
    return _with_prepared(game, params, forest, layout, leaves, evaluate=evaluate), place


def _merged(layout: Layout, prior: tuple[Array, Array]) -> Array:
    """Priors of who acts `[..., A]` from those of both players `[..., A, 1]`, where information is
    perfect."""
    most = max(layout.actions)
    first, second = (
        jnp.pad(x[..., 0], [(0, 0)] * (x.ndim - 2) + [(0, most - x.shape[-2])]) for x in prior
    )
    return first + second


# What is added


def _one(forest):
    """1, which the compiler does not know."""
    return (forest.num_free >= 0).astype(jnp.int32)


def _leaf(game, forest, layout, leaf, wanted, prior):
    """A leaf of each search as a node, without its children."""
    state = at(forest.state, leaf)
    new = _node(
        game,
        adds=wanted,
        state=state,
        links=forest.links[leaf],
        prior=prior(leaf, state),
        worth=(at(forest.values, leaf), at(forest.values_total, leaf)),
    )
    room = (forest.count < layout.nodes) & (forest.slots + layout.children <= layout.slots)
    for player, most in enumerate(layout.decisions):
        room &= (new.kind != player) | (forest.decided[:, player] < most)
    return new.replace(adds=wanted & room)


def _node(game, *, adds, state, links, prior, worth):
    kind = kind_of(jax.vmap(game.actor)(state))
    return _Added(
        adds=adds,
        state=state,
        kind=kind,
        links=links,
        rows=jax.vmap(game.rows)(state),
        actions=jax.vmap(game.legal)(state),
        prior=prior,
        values=worth[0],
        values_total=worth[1],
        child=None,
        exists=None,
        below=None,
        below_rows=None,
        ends=None,
        end_kinds=None,
        known=None,
    )


def _with_all_children(game, params, layout, new, *, evaluate):
    mask, below = jax.vmap(game.child_mask)(new.state), jax.vmap(game.children)(new.state)
    each = lambda function: jax.vmap(jax.vmap(function))(below)  # noqa: E731
    number = jnp.arange(layout.children, dtype=jnp.int32)
    return new.replace(
        child=jnp.broadcast_to(number, mask.shape),
        exists=mask & new.adds[:, None],
        below=below,
        below_rows=each(game.rows),
        ends=each(game.actor) == TERMINAL,
        end_kinds=each(game.terminal_kind),
        known=_known(game, params, layout, below, new.values[0].dtype, evaluate=evaluate),
    )


def _known(game, params, layout, below, dtype, *, evaluate):
    """What the evaluator can tell of new leaves once and for all, or None.

    With one row a value is proportional to the opponent's reach, so that one evaluation at reach 1
    serves all iterations.
    """
    if not layout.single_row:
        return None
    one = jnp.ones(1, dtype)
    values, prior = jax.vmap(jax.vmap(lambda s: evaluate(params, game, s, (one, one))))(below)
    return values, _merged(layout, prior)


# How it is written


def _grown(forest, layout, new, since, *, leaf):
    """The forest with what is added, the places of the new nodes, and the numbers of the new leaves
    `[B, m]`, out of range for other children."""
    # 1. Places of the nodes, and of their children: terminals by kind, leaves wherever one is free.
    depth = new.links[:, DEPTH]
    classes = depth * KINDS + new.kind
    pages, place = take_places(forest.pages, classes, new.adds, page=layout.page)
    place = jnp.where(new.adds, place, layout.nowhere + 1)  # behind all tables
    forest, links = _numbered(forest.replace(pages=pages), layout, new, place, since)
    if leaf is not None:
        forest = _given_back(forest, layout, leaf, new.adds)
    forest, spots = _children_placed(forest, layout, new)
    # 2. Links, states and rows: of the nodes, and of their children.
    below = _links_below(layout, place, links, new.kind, new.child)
    where = jnp.concatenate([place, merge_axes(jnp.where(new.exists, spots, layout.nowhere + 1))])
    both = lambda own, lower: jnp.concatenate([own, merge_axes(lower)])  # noqa: E731
    put = lambda table, own, lower: table.at[where].set(  # noqa: E731
        both(own, lower).astype(table.dtype), mode="drop"
    )
    # 3. Values: nodes keep those of the leaves that they were, and new leaves begin with 0.
    fresh = merge_axes(jnp.where(new.exists & ~new.ends, spots, layout.nowhere + 1))
    valued = jnp.concatenate([place, fresh])

    def worth(table, own):
        nothing = jnp.zeros((len(fresh), table.shape[1]), table.dtype)
        return table.at[valued].set(jnp.concatenate([own, nothing]), mode="drop")

    # 4. Pointers: the parent's to the node, and the node's to its children.
    parent = jnp.where(new.adds & (links[:, PARENT] >= 0), links[:, PARENT], layout.inner)
    rows = jnp.where(new.exists, place[:, None], layout.inner)
    pointers = forest.pointers.at[
        jnp.concatenate([parent, rows.reshape(-1)]),
        jnp.concatenate([links[:, CHILD], new.child.reshape(-1)]),
    ].set(jnp.concatenate([place, spots.reshape(-1)]), mode="drop")
    forest = forest.replace(
        links=put(forest.links, links, below),
        state=jax.tree.map(put, forest.state, new.state, new.below),
        masks=tuple(map(put, forest.masks, new.rows, new.below_rows)),
        values=tuple(map(worth, forest.values, new.values)),
        values_total=tuple(map(worth, forest.values_total, new.values_total)),
        pointers=pointers,
    )
    leaves = jnp.where(new.exists & ~new.ends, spots - layout.inner, layout.leaves)
    if forest.kept is not None:  # what earlier leaves have left there is not theirs
        valued = forest.kept.valued.at[leaves].set(False, mode="drop")
        forest = forest.replace(kept=forest.kept.replace(valued=valued))
    return _with_known(forest, new.known, leaves), place, leaves


def _numbered(forest, layout, new, place, since):
    """The forest with the new nodes counted, and their links."""
    decisions, decided = [], []
    numbers = jnp.full(layout.batch, layout.no_decision, jnp.int32)
    for player, tables in enumerate(forest.decisions):
        acts = new.adds & (new.kind == player)
        number = tables.count + jnp.cumsum(acts, dtype=jnp.int32) - 1
        numbers = jnp.where(acts, number, numbers)
        decided.append(forest.decided[:, player] + acts.astype(jnp.int32))
        decisions.append(
            _with_decisions(tables, new.actions[player], new.prior[player], place, acts)
        )
    maps = new.adds & ~jnp.asarray(layout.straight)[new.kind]
    mapped = forest.mapped + jnp.cumsum(maps, dtype=jnp.int32) - 1
    mapped = jnp.where(maps, mapped, layout.mapped_nodes)
    own = jnp.where(new.adds, forest.count, layout.nodes)
    searches = jnp.arange(layout.batch, dtype=jnp.int32)
    depth = jnp.where(new.adds, new.links[:, DEPTH], 0)
    forest = forest.replace(
        decisions=tuple(decisions),
        mapped=forest.mapped + jnp.sum(maps, dtype=jnp.int32),
        deepest=jnp.maximum(forest.deepest, jnp.max(depth)),
        since=forest.since.at[place].set(since, mode="drop"),
        count=forest.count + new.adds.astype(jnp.int32),
        decided=jnp.stack(decided, axis=1),
        nodes=forest.nodes.at[searches, own].set(place, mode="drop"),
        index=forest.index.at[place].set(own, mode="drop"),
    )
    return forest, new.links.at[:, NUMBER].set(numbers).at[:, MAPPED].set(mapped)


def _with_decisions(tables, actions, prior, place, acts):
    """A player's tables with the new nodes at which the player acts."""
    # The new ones in a row, so that they are written as one slice.
    number = jnp.cumsum(acts, dtype=jnp.int32) - 1
    order = jnp.full(len(acts), len(acts), jnp.int32)
    order = order.at[jnp.where(acts, number, len(acts))].set(
        jnp.arange(len(acts), dtype=jnp.int32), mode="drop"
    )
    new = order < len(acts)
    order = jnp.minimum(order, len(acts) - 1)

    def put(table, given):
        given = jnp.where(new[:, None, None], given[order], 0).swapaxes(0, 1)
        return jax.lax.dynamic_update_slice_in_dim(table, given, tables.count, axis=1)

    places = jnp.where(new, place[order], tables.place[-1])
    spread = _evenly(actions, prior.dtype)
    return tables.replace(
        count=tables.count + jnp.sum(acts, dtype=jnp.int32),
        place=jax.lax.dynamic_update_slice_in_dim(tables.place, places, tables.count, axis=0),
        uniform=put(tables.uniform, spread),
        prior=put(tables.prior, prior),
        policy=put(tables.policy, spread),
    )


def _evenly(actions, dtype):
    """The uniform policies `[B, A, N]` over some actions."""
    actions = actions.astype(dtype)
    return actions / jnp.maximum(jnp.sum(actions, axis=1, keepdims=True), 1)


def _given_back(forest, layout, leaf, adds):
    """The forest with the places of leaves that became nodes free again."""
    number = jnp.cumsum(adds, dtype=jnp.int32) - 1
    spot = jnp.where(adds, forest.num_free + number, layout.leaves)
    return forest.replace(
        free=forest.free.at[spot].set(leaf, mode="drop"),
        num_free=forest.num_free + jnp.sum(adds, dtype=jnp.int32),
        leaves=_without_leaf(forest.leaves, layout, leaf, adds),
    )


def _children_placed(forest, layout, new):
    """The forest with room for the children, and their places; `layout.nowhere` where there is
    none."""
    over, opens = ((new.exists & x).reshape(-1) for x in (new.ends, ~new.ends))
    terminals, final = take_places(
        forest.terminals, new.end_kinds.reshape(-1), over, page=layout.page
    )
    number, count = jnp.cumsum(opens, dtype=jnp.int32) - 1, jnp.sum(opens, dtype=jnp.int32)
    # leaves first where others were given back
    again = forest.free[jnp.maximum(forest.num_free - 1 - number, 0)]
    unused = layout.inner + forest.num_leaves + number - forest.num_free
    leaf = jnp.where(number < forest.num_free, again, unused)
    final = layout.terminal_page(final // layout.page) + final % layout.page
    spots = jnp.where(over, final, jnp.where(opens, leaf, layout.nowhere))
    spots = spots.reshape(new.exists.shape)
    return forest.replace(
        terminals=terminals,
        slots=forest.slots + jnp.sum(new.exists, axis=1, dtype=jnp.int32),
        num_leaves=forest.num_leaves + jnp.maximum(count - forest.num_free, 0),
        num_free=jnp.maximum(forest.num_free - count, 0),
        leaves=_with_leaves(forest.leaves, layout, spots, opens.reshape(spots.shape)),
    ), spots


def _links_below(layout, place, links, kind, child):
    """The links `[B, m, LINKS]` of children: how reaches come there, and where they belong."""
    straight = jnp.asarray(layout.straight)[kind][:, None]
    source = layout.inner + links[:, MAPPED, None] * layout.children + child
    action = jnp.asarray(layout.actions_by_child())
    factors = []
    for player in range(2):
        row = layout.policy_row(player, links[:, NUMBER, None], action[child])
        acts = straight & (kind == player)[:, None]
        factors.append(jnp.where(acts, row, layout.room[player] - 1))
    given = {
        SOURCE: jnp.where(straight, place[:, None], source),
        FACTOR_0: factors[0],
        FACTOR_1: factors[1],
        PARENT: place[:, None],
        CHILD: child,
        DEPTH: links[:, DEPTH, None] + 1,
    }
    columns = [jnp.broadcast_to(given.get(c, 0), child.shape) for c in range(LINKS)]
    return jnp.stack(columns, axis=-1)


def _without_leaf(leaves, layout, leaf, wanted):
    """The lists without a leaf of each search; the last of a list takes its place."""
    if leaves is None:
        return None
    searches = jnp.arange(layout.batch, dtype=jnp.int32)
    end = jnp.maximum(leaves.count - 1, 0)
    last, gap = leaves.place[searches, end], leaves.spot[jnp.maximum(leaf - layout.inner, 0)]
    far = layout.most_leaves + layout.leaves
    return OpenLeaves(
        place=leaves.place.at[searches, jnp.where(wanted, gap, far)].set(last, mode="drop"),
        count=leaves.count - wanted.astype(jnp.int32),
        spot=leaves.spot.at[jnp.where(wanted, last - layout.inner, far)].set(gap, mode="drop"),
    )


def _with_leaves(leaves, layout, place, opens):
    """The lists with new leaves of each search at places `[B, m]`, where `opens`."""
    if leaves is None:
        return None
    searches = jnp.arange(layout.batch, dtype=jnp.int32)[:, None]
    spot = leaves.count[:, None] + jnp.cumsum(opens, axis=1, dtype=jnp.int32) - 1
    far = layout.most_leaves + layout.leaves
    number = jnp.where(opens, place - layout.inner, far)
    return OpenLeaves(
        place=leaves.place.at[searches, jnp.where(opens, spot, far)].set(place, mode="drop"),
        count=leaves.count + jnp.sum(opens, axis=1, dtype=jnp.int32),
        spot=leaves.spot.at[number].set(spot, mode="drop"),
    )


def _with_known(forest, known, number):
    """The forest with what the evaluator can tell of new leaves once and for all; `number` is out
    of range for other children."""
    if known is None:
        return forest
    put = lambda table, new: table.at[number].set(new, mode="drop")  # noqa: E731
    values, prior = known
    return forest.replace(
        known=forest.known.replace(
            values=tuple(map(put, forest.known.values, values)),
            prior=put(forest.known.prior, prior),
        )
    )


def _with_prepared(game, params, forest, layout, number, *, evaluate):
    """The forest with what the evaluator computes of new leaves ahead; `number` is out of range for
    other children.

    Nodes have room for all children that a node may have, and most have few. So on CPUs it is
    computed for those that there are, some at a time.
    """
    if not prepares(layout, evaluate):
        return forest
    number = number.reshape(-1)
    each = len(number) if layout.together else min(_PREPARED_AT_ONCE, len(number))

    def add(turn, prepared):
        some = jax.lax.dynamic_slice(ordered, (turn * each,), (each,))
        state = at(forest.state, layout.inner + jnp.minimum(some, layout.leaves - 1))
        new = jax.vmap(functools.partial(evaluate.prepare, params, game))(state)
        put = lambda table, found: table.at[some].set(found, mode="drop")  # noqa: E731
        return jax.tree.map(put, prepared, new)

    if layout.together:
        ordered = number
        return forest.replace(prepared=add(0, forest.prepared))
    ordered = jnp.pad(jnp.sort(number), (0, -len(number) % each), constant_values=layout.leaves)
    turns = -(-jnp.sum(number < layout.leaves, dtype=jnp.int32) // each)
    return forest.replace(prepared=jax.lax.fori_loop(0, turns, add, forest.prepared))
