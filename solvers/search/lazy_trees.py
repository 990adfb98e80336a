"""Trees of games of perfect information, whose children are made when simulations take them.

A *place* is a public state that was added to one of B trees: the root, a node with children, a leaf
or a terminal. What belongs to an action, such as its regret, is kept at the place that the action
leads to, so the tables have as many entries as there are places, however many actions the game has.
Only the priors of the actions that were not taken yet are a row `[A]` for each place.

All tables are flat, and a tree's places follow one another. Each tree lists its places by depth,
those of one parent in a row: a slice of the list is a level, or the children of a node. So a sweep
takes a step per level for all trees together, and a walk reads the children that there are.

With one row for each player, reaches are single numbers, and a leaf's values at reach 1, computed
once, serve in all iterations.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from jaxgames.arrays import at, merge_axes
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL, record
from solvers.search.lazy_layout import LazyLayout
from solvers.search.search_state import Evaluator
from solvers.sequence_form.sparse_sum import stored

NO_PARENT = -1
UNAVAILABLE = -1  # in place of the prior of an action that is illegal, or was taken already
# Priors are kept as the bits of their bfloat16: integers in the same order, and negative where
# there is none. XLA:CPU writes numbers of bfloat16 by converting whole tables.
_BITS = jnp.int16
_NO_BITS = -16512  # of UNAVAILABLE


@record
class LazyTrees:
    """B trees with T places each, of which the first `count` are in use; a tree's first place is
    its root. Places are numbered from 0 to P - 1 through all trees."""

    count: Array  # [B] int32
    deepest: Array  # [] int32 depth of the deepest place of all
    order: Array  # [B, T] int32 the places of each tree, level by level and family by family
    starts: Array  # [B, D + 1] int32 where each depth begins in `order`
    first: Array  # [P] int32 where a node's children begin in its tree's `order`
    children: Array  # [P] int32 how many there are
    state: PublicState  # [P, ...]
    actor: Array  # [P] int32 who acts there, or TERMINAL
    depth: Array  # [P] int32
    worth: tuple[Array, Array]  # [P] both players' values at reach 1, if it has no children
    prior: Array  # [P, A] int16 bits of those of actions not taken yet, else of UNAVAILABLE
    best: Array  # [P] the highest entry of that row
    best_action: Array  # [P] int32 its number
    since: Array  # [P] sum of the iterations' weights when the place was added
    mass: Array  # [P] sum of weights times the actor's own reach, since it has children
    walks: Array  # [P] simulations that took an action here
    # of the action that leads to a place
    parent: Array  # [P] int32, NO_PARENT at roots
    action: Array  # [P] int32
    mover: Array  # [P] int32 who takes it, 0 or 1
    action_prior: Array  # [P]
    visits: Array  # [P] simulations that took it
    regret: Array  # [P]
    policy: Array  # [P] of the next iteration; 1 at roots
    average: Array  # [P] sum of weights times own reach times policy
    # both players' values at reach 1 and own reaches, in the last iteration, and their sums: those
    # of values are weighted by the opponent's reach, too
    values: tuple[Array, Array]  # [P]
    reach: tuple[Array, Array]  # [P]
    values_total: tuple[Array, Array]  # [P]
    reach_total: tuple[Array, Array]  # [P]


def plant(
    game: BeliefGame,
    params: PyTree,
    layout: LazyLayout,
    state: PublicState,
    dtype: jnp.dtype,
    *,
    evaluate: Evaluator,
) -> LazyTrees:
    """Trees that have their roots only.

    Args:
      game: of perfect information.
      params: of the evaluator.
      layout: of the trees.
      state: of the roots `[B, ...]`.
      dtype: of values and reaches.
      evaluate: the evaluator.
    """
    number = jnp.zeros(layout.places, jnp.int32)
    real, pair = jnp.zeros(layout.places, dtype), (jnp.zeros(layout.places, dtype),) * 2
    trees = LazyTrees(
        count=jnp.zeros(layout.batch, jnp.int32),
        deepest=jnp.int32(0),
        order=jnp.zeros((layout.batch, layout.room), jnp.int32),
        starts=jnp.zeros((layout.batch, layout.levels + 1), jnp.int32),
        first=number,
        children=number,
        state=jax.tree.map(lambda x: jnp.zeros((layout.places, *x.shape[1:]), x.dtype), state),
        actor=jnp.full(layout.places, TERMINAL, jnp.int32),
        depth=number,
        worth=pair,
        prior=jnp.full((layout.places, layout.actions), _NO_BITS, _BITS),
        best=real,
        best_action=number,
        since=real,
        mass=real,
        walks=real,
        parent=jnp.full(layout.places, NO_PARENT, jnp.int32),
        action=number,
        mover=number,
        action_prior=real,
        visits=real,
        regret=real,
        policy=real,
        average=real,
        values=pair,
        reach=pair,
        values_total=pair,
        reach_total=pair,
    )
    none, nothing = jnp.zeros(layout.batch, jnp.int32), jnp.zeros(layout.batch, dtype)
    actor, worth, prior = _looked_at(game, params, state, dtype, evaluate=evaluate)
    best, best_action = _highest(prior, dtype)
    roots = _NewPlaces(
        state=state,
        actor=actor,
        worth=worth,
        prior=prior,
        best=best,
        best_action=best_action,
        parent=none + NO_PARENT,
        action=none,
        mover=none,
        action_prior=nothing,
        depth=none,
        since=nothing,
        visits=nothing,
        policy=nothing + 1,
    )
    return _with_places(trees, layout, roots, jnp.ones(layout.batch, bool))


@record
class _NewPlaces:
    """A new place of each of B trees, or m of each (then all fields are `[B, m, ...]`)."""

    state: PublicState  # [B, ...]
    actor: Array  # [B] int32
    worth: tuple[Array, Array]  # [B]
    prior: Array  # [B, A] int16
    best: Array  # [B]
    best_action: Array  # [B] int32
    parent: Array  # [B] int32
    action: Array  # [B] int32
    mover: Array  # [B] int32
    action_prior: Array  # [B]
    depth: Array  # [B] int32
    since: Array  # [B]
    visits: Array  # [B]
    policy: Array  # [B]


def add_children(
    game: BeliefGame,
    params: PyTree,
    trees: LazyTrees,
    layout: LazyLayout,
    parent: Int[Array, " B"],
    action: Int[Array, "B m"],
    wanted: Bool[Array, "B m"],
    *,
    since: Float[Array, ""],
    visits: Float[Array, " B"],
    policy: Float[Array, " B"],
    evaluate: Evaluator,
) -> tuple[LazyTrees, PublicState, Bool[Array, "B m"]]:
    """The trees with some children of one place of each.

    Args:
      game: of perfect information.
      params: of the evaluator.
      trees: before.
      layout: of the trees.
      parent: places, one of each tree.
      action: up to m different actions there, which were not taken yet.
      wanted: which of them are added, if there is room for all of a tree's.
      since: the sum of the weights of the iterations so far.
      visits: of each new action so far.
      policy: of each new action in the next iteration.
      evaluate: the evaluator.

    Returns:
      The trees; the states of the new places `[B, m, ...]`; and which of them were added and are no
      terminals, so that the evaluator's values count.
    """
    fits = trees.count + jnp.sum(wanted, axis=1, dtype=jnp.int32) <= layout.room
    wanted = wanted & fits[:, None]
    one = jnp.minimum(trees.count[0], 1)  # which the compiler does not know

    # What is added is computed first: XLA would copy a table that is read after it was written.
    def read():
        new = _children(game, params, trees, parent, action, evaluate=evaluate)
        each = lambda x: jnp.broadcast_to(x, action.shape)  # noqa: E731
        new = new.replace(
            since=each(since), visits=each(visits[:, None]), policy=each(policy[:, None])
        )
        rest = _without(trees.prior[parent], action, wanted)
        best = _highest(rest, trees.since.dtype)
        return new, best, rest

    new, (best, best_action), rest = stored(read, one)
    where = jnp.where(jnp.any(wanted, axis=1), parent, layout.places)
    if layout.sweep != "levels":
        new, best, best_action, rest, where = jax.lax.optimization_barrier(
            (new, best, best_action, rest, where)
        )
    prior = _put(layout, trees.prior, where, rest)
    trees = trees.replace(
        best=_put(layout, trees.best, where, best),
        best_action=_put(layout, trees.best_action, where, best_action),
        prior=prior,
    )
    for j in range(action.shape[1]):
        column = jax.tree.map(lambda x, j=j: x[:, j], new)
        trees = _with_places(trees, layout, column, wanted[:, j])
    return trees, new.state, wanted & (new.actor != TERMINAL)


def _children(game, params, trees, parent, action, *, evaluate):
    """New places at the ends of actions `[B, m]` of one place of each tree; the caller sets the
    fields that depend on the search."""
    dtype = trees.since.dtype
    states = jax.vmap(jax.vmap(game.child, (None, 0)))(at(trees.state, parent), action)
    flat = merge_axes(states)
    looked_at = _looked_at(game, params, flat, dtype, evaluate=evaluate)
    looked_at += _highest(looked_at[-1], dtype)
    actor, worth, prior, best, best_action = jax.tree.map(
        lambda x: x.reshape(*action.shape, *x.shape[1:]), looked_at
    )
    each = lambda x: jnp.broadcast_to(x[:, None], action.shape)  # noqa: E731
    return _NewPlaces(
        state=states,
        actor=actor,
        worth=worth,
        prior=prior,
        best=best,
        best_action=best_action,
        parent=each(parent),
        action=action,
        mover=each(jnp.maximum(trees.actor[parent], 0)),
        action_prior=_number(jnp.take_along_axis(trees.prior[parent], action, axis=1), dtype),
        depth=each(trees.depth[parent] + 1),
        since=None,
        visits=None,
        policy=None,
    )


def _without(prior, action, taken):
    """Rows `[B, A]` of priors without those of the actions `[B, m]` that are taken."""
    searches = jnp.arange(len(prior), dtype=jnp.int32)[:, None]
    action = jnp.where(taken, action, prior.shape[1])
    return prior.at[searches, action].set(_NO_BITS, mode="drop")


def best_actions(
    prior: Int[Array, "B A"], *, count: int
) -> tuple[Int[Array, "B k"], Bool[Array, "B k"]]:
    """The actions with the highest priors in some rows, and which of them there are.

    Args:
      prior: as in `LazyTrees`.
      count: k.
    """
    actions, there = [], []
    searches = jnp.arange(len(prior), dtype=jnp.int32)
    for _ in range(count):
        action = jnp.argmax(prior, axis=1).astype(jnp.int32)
        there.append(jnp.max(prior, axis=1) >= 0)
        prior = prior.at[searches, action].set(_NO_BITS)
        actions.append(action)
    return jnp.stack(actions, axis=1), jnp.stack(there, axis=1)


def first_calls(trees: LazyTrees, layout: LazyLayout) -> tuple[PublicState, Bool[Array, "B T"]]:
    """The states of all places `[B, T, ...]`, and which of them the evaluator valued as leaves: all
    but roots and terminals."""
    valued = layout.by_tree((trees.parent >= 0) & (trees.actor != TERMINAL))
    return jax.tree.map(layout.by_tree, trees.state), valued


def _highest(row, dtype):
    """The highest priors in rows `[B, A]` of bits, and the first actions that have them."""
    return _number(jnp.max(row, axis=1), dtype), jnp.argmax(row, axis=1).astype(jnp.int32)


def _number(bits, dtype):
    """The priors that some bits stand for."""
    return jax.lax.bitcast_convert_type(bits, jnp.bfloat16).astype(dtype)


def _looked_at(game, params, state, dtype, *, evaluate):
    """Who acts in some states `[n, ...]`, both players' values there at reach 1, and priors."""
    ones = (jnp.ones(1, dtype),) * 2

    def one(state):
        actor, mask = game.actor(state), game.child_mask(state)
        values, prior = evaluate(params, game, state, ones)
        ends = [game.terminal_values(state, p, ones[1 - p]) for p in range(2)]
        worth = [jnp.where(actor == TERMINAL, x, y)[0] for x, y in zip(ends, values, strict=True)]
        prior = jnp.where(mask, (prior[0] + prior[1])[:, 0], UNAVAILABLE)
        bits = jax.lax.bitcast_convert_type(prior.astype(jnp.bfloat16), _BITS)
        return actor, tuple(worth), bits

    return jax.vmap(one)(state)


def _with_places(trees, layout, new, wanted):
    """The trees with one new place each, where `wanted`."""
    place = jnp.where(wanted, layout.roots + trees.count, layout.places)
    put = lambda table, own: _put(layout, table, place, own)  # noqa: E731
    written = {
        name: jax.tree.map(put, getattr(trees, name), getattr(new, name))
        for name in (f.name for f in dataclasses.fields(_NewPlaces))
    }
    trees = _listed(trees, layout, new, place, wanted)
    return trees.replace(
        count=trees.count + wanted.astype(jnp.int32),
        values=jax.tree.map(put, trees.values, new.worth),  # until the next iteration
        **written,
    )


def _put(layout, table, place, own):
    """A table `[P, ...]` with a row of each tree replaced by its own `[B, ...]`; not where the
    place is beyond the last one."""
    own = own.astype(table.dtype)
    if layout.sweep == "levels":
        return table.at[place].set(own, mode="drop")
    if table.ndim > 1:
        beyond = layout.places + jnp.arange(layout.batch, dtype=jnp.int32)  # all are different
        to = jnp.where(place < layout.places, place, beyond)
        return table.at[to].set(own, mode="drop", unique_indices=True)
    # all single numbers are written by one kernel or a few, but each scatter is one of its own
    here = layout.by_tree(jnp.arange(layout.places, dtype=jnp.int32)) == place[:, None]
    return jnp.where(here, own[:, None], layout.by_tree(table)).reshape(-1)


def _listed(trees, layout, new, place, wanted):
    """The trees with new places in their lists: the last of their families, which begin at the ends
    of their levels."""
    parent = jnp.maximum(new.parent, 0)
    family = jnp.where(wanted & (new.parent >= 0), parent, layout.places)
    siblings, first = trees.children[parent], trees.first[parent]
    if layout.sweep == "levels":  # what is written does not depend on what was read
        children = trees.children.at[family].add(1, mode="drop")
    else:
        children = _put(layout, trees.children, family, siblings + 1)
    if layout.sweep == "pairs":  # nobody reads the lists
        return trees.replace(children=children)
    end = jnp.take_along_axis(trees.starts, new.depth[:, None] + 1, axis=1)[:, 0]
    spot = jnp.where(siblings > 0, first + siblings, end)
    spot = jnp.where(wanted, spot, layout.room)[:, None]
    slot = jnp.arange(layout.room, dtype=jnp.int32)[None]
    moved = jnp.concatenate([trees.order[:, :1], trees.order[:, :-1]], axis=1)
    order = jnp.where(slot < spot, trees.order, jnp.where(slot == spot, place[:, None], moved))
    later = layout.by_tree(trees.first)
    later = (later + (later >= spot).astype(jnp.int32)).reshape(-1)
    depths = jnp.arange(layout.levels + 1, dtype=jnp.int32)[None]
    below = (depths > new.depth[:, None]) & wanted[:, None]
    opened = jnp.where(siblings > 0, layout.places, family)
    return trees.replace(
        order=order,
        first=_put(layout, later, opened, spot[:, 0]),
        children=children,
        deepest=jnp.maximum(trees.deepest, jnp.max(jnp.where(wanted, new.depth, 0))),
        starts=trees.starts + below.astype(jnp.int32),
    )
