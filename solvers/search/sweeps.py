"""Sweeps over a forest: own reaches go down the trees, and counterfactual values come up.

On a CPU a step of a sweep takes a page of nodes of one depth and kind, as many as a near cache
holds. On an accelerator steps cost more than room (`Layout.together`): a step takes a page of each
kind at once, where rows keep their numbers in one piece, and many pages of terminals.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from jaxgames.arrays import LONG, sum_actions
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.core import record
from solvers.search.forest import (
    CHANCE_KIND,
    FACTOR_0,
    KINDS,
    MAPPED,
    NUMBER,
    Forest,
    Layout,
    actor_of,
    decision_rows,
    factor_rows,
    reach_along,
    reach_at,
    take,
)
from solvers.search.pages import NO_PAGE, in_rounds, over_pages

FAR = 2**30  # behind all tables: what is written there is dropped

_slice = jax.lax.dynamic_slice_in_dim
_put = functools.partial(jax.lax.dynamic_update_slice_in_dim, axis=0)


@record
class Table:
    """Both players' reaches or values in the last iteration, and their weighted sums."""

    last: tuple[Array, Array]
    total: tuple[Array, Array]


def written(table: Table, new: tuple[Array, ...], first: Array, weight: Array) -> Table:
    """The table with new rows `[count, N]` of both players from one place on."""
    total = (
        _slice(old, first, len(x)) + weight * x for old, x in zip(table.total, new, strict=True)
    )
    return Table(
        last=tuple(_put(old, x, first) for old, x in zip(table.last, new, strict=True)),
        total=tuple(_put(old, x, first) for old, x in zip(table.total, total, strict=True)),
    )


def written_at(table: Table, new: tuple[Array, ...], place: Array, weight: Array) -> Table:
    """The table with new rows `[n, N]` of both players at different places, some of them far."""

    def put(old, rows):
        return old.at[place].set(rows, mode="drop", unique_indices=True)

    here = jnp.minimum(place, min(map(len, table.total)) - 1)
    total = (take(old, here) + weight * x for old, x in zip(table.total, new, strict=True))
    return Table(
        last=tuple(map(put, table.last, new)),
        total=tuple(map(put, table.total, total)),
    )


# The order of the steps


@record
class Rounds:
    """The steps of a sweep where pages of all kinds are taken together, from the roots down."""

    pages: Array  # [R, KINDS] int32, or NO_PAGE
    count: Array  # [] int32


def rounds_of(forest: Forest, layout: Layout) -> Rounds | None:
    """The steps of both sweeps; None where each page is a step."""
    if not layout.together:
        return None
    pages, count = in_rounds(forest.pages, KINDS, page=layout.page)
    return Rounds(pages=pages, count=count)


def _over_nodes(
    forest: Forest,
    layout: Layout,
    rounds: Rounds | None,
    carry: PyTree,
    *,
    upwards: bool,
    on_page: Callable[[int, Array, PyTree], PyTree],
    on_straight: Callable[[Array, PyTree], PyTree],
) -> PyTree:
    """A sweep over all nodes, level by level.

    Args:
      forest: the forest.
      layout: of the forest.
      rounds: of `rounds_of`.
      carry: what steps change.
      upwards: whether it begins with the deepest level.
      on_page: a step for the page of a kind that begins at a place.
      on_straight: the same for the places `[n]` of several pages of any kinds at which rows keep
        their numbers; far ones do not count.
    """

    def level(i, carry):
        depth = forest.deepest - i if upwards else i
        for kind in range(KINDS):
            step = functools.partial(on_page, kind)
            carry = over_pages(forest.pages, depth * KINDS + kind, step, carry, page=layout.page)
        return carry

    def turn(i, carry):
        pages = rounds.pages[rounds.count - 1 - i if upwards else i]
        straight = [kind for kind in range(KINDS) if layout.straight[kind]]
        if straight:
            carry = on_straight(_places(layout, pages[jnp.array(straight)]), carry)
        for kind in range(KINDS):
            if kind not in straight:  # more work than waiting for a branch
                first = pages[kind] * layout.page
                step = functools.partial(on_page, kind, first)
                carry = jax.lax.cond(pages[kind] == NO_PAGE, lambda x: x, step, carry)
        return carry

    if rounds is None:
        return jax.lax.fori_loop(0, forest.deepest + 1, level, carry)
    return jax.lax.fori_loop(0, rounds.count, turn, carry)


def _places(layout: Layout, pages: Int[Array, " k"]) -> Int[Array, " n"]:
    """All places of some pages, far ones for NO_PAGE."""
    spot = jnp.arange(layout.page, dtype=jnp.int32)[None]
    far = FAR + jnp.arange(len(pages), dtype=jnp.int32) * layout.page
    return (jnp.where(pages == NO_PAGE, far, pages * layout.page)[:, None] + spot).reshape(-1)


# Reaches


def reaches(
    game: BeliefGame,
    forest: Forest,
    layout: Layout,
    roots: tuple[Array, Array],
    weight: Array,
    *,
    rounds: Rounds | None = None,
) -> Table:
    """Own reaches of all nodes, of mapped nodes' children, and of the roots.

    Args:
      game: the game.
      forest: before the iteration.
      layout: of the forest.
      roots: own reaches `[B, N]` of both players at the roots.
      weight: of the iteration in the sums `[]`.
      rounds: of `rounds_of`.

    Returns:
      Both players' reaches, as `Forest.reach`, and their weighted sums, as `Forest.reach_total`.
    """
    begin = tuple(
        _put(table, root, layout.first_root)
        for table, root in zip(forest.reach, roots, strict=True)
    )
    begin = Table(last=begin, total=forest.reach_total)

    def down(kind, first, reach):
        here = arriving(forest, first, layout.page, reach.last)
        reach = written(reach, here, first, weight)
        if layout.straight[kind]:
            return reach
        return reach.replace(last=spread(kind, first, here, reach.last))

    def down_straight(place, reach):
        here = reach_at(forest, jnp.minimum(place, layout.inner - 1), reach.last)
        return written_at(reach, here, place, weight)

    def spread(kind, first, here, reach):
        """Writes the reaches of the children of a page's mapped nodes."""
        links = _slice(forest.links, first, layout.page)
        states = jax.tree.map(lambda x: _slice(x, first, layout.page), forest.state)
        policy = page_policy(forest, layout, kind, links)
        k = jnp.arange(layout.children, dtype=jnp.int32)
        below = jax.vmap(functools.partial(game.known_down, actor_of(kind)))(states, here, policy)
        row = layout.inner + links[:, MAPPED, None] * layout.children + k[None]
        row = jnp.where(links[:, MAPPED, None] < layout.mapped_nodes, row, len(reach[0]))
        return tuple(
            table.at[row].set(new, mode="drop", unique_indices=True)
            for table, new in zip(reach, below, strict=True)
        )

    return _over_nodes(
        forest, layout, rounds, begin, upwards=False, on_page=down, on_straight=down_straight
    )


def page_policy(forest: Forest, layout: Layout, kind: int, links: Array) -> tuple[Array, Array]:
    """The present policies `[C, A, N]` of the actors on a page of nodes of one kind; 0 of who does
    not act."""
    sizes = zip(layout.actions, layout.rows, strict=True)
    none = [jnp.zeros((layout.page, *size), forest.since.dtype) for size in sizes]
    if kind != CHANCE_KIND:
        none[kind] = decision_rows(forest.decisions[kind].policy, links[:, NUMBER])
    return none[0], none[1]


def arriving(
    forest: Forest, first: Array, count: int, reach: tuple[Array, Array]
) -> tuple[Array, ...]:
    """Both players' own reaches `[count, N]` at some places in a row (see `reach_at`)."""
    links = _slice(forest.links, first, count)
    masks = [_slice(mask, first, count) for mask in forest.masks]
    return reach_along(forest, links, masks, reach)


# Values


def inner_values(
    game: BeliefGame,
    forest: Forest,
    layout: Layout,
    values: Table,
    weight: Array,
    *,
    rounds: Rounds | None = None,
) -> tuple[Table, tuple[Array | None, Array | None]]:
    """The values of all places with those of nodes brought up to date, and, by player, the values
    of mapped decisions' actions.

    Args:
      game: the game.
      forest: whose policies count.
      layout: of the forest.
      values: of all places, in which leaves and terminals are up to date.
      weight: of the iteration in the sums `[]`.
      rounds: of `rounds_of`.

    Returns:
      Both players' values and their weighted sums; and `action_values` of `Decisions`.
    """
    carry = values, tuple(tables.action_values for tables in forest.decisions)

    def up(kind, first, carry):
        links = _slice(forest.links, first, layout.page)
        pointers = _slice(forest.pointers, first, layout.page)
        values, actions = carry
        if not layout.straight[kind]:
            here, actions = _mapped(
                game, forest, layout, kind, first, links, pointers, values.last, actions
            )
        elif kind == CHANCE_KIND:
            here = [sum_actions(_children(layout, pointers, table)) for table in values.last]
        else:
            here = _decided(forest, layout, kind, links, pointers, values.last)
        return written(values, tuple(here), first, weight), actions

    def up_straight(place, carry):
        """A child's values count as much as the actor plays there: 1 of who does not act."""
        values, actions = carry
        pointers = take(forest.pointers, jnp.minimum(place, layout.inner - 1))
        rows = take(forest.links, jnp.minimum(pointers, layout.nowhere - 1))
        here = []
        for p in range(2):
            played = _children(layout, rows[..., FACTOR_0 + p], factor_rows(forest.decisions[p]))
            here.append(sum_actions(_children(layout, pointers, values.last[p]) * played))
        return written_at(values, tuple(here), place, weight), actions

    return _over_nodes(
        forest, layout, rounds, carry, upwards=True, on_page=up, on_straight=up_straight
    )


def _decided(forest, layout, player, links, pointers, values):
    """Both players' values `[C, N]` on a page of straight decisions: the actor's by its policy, the
    other's a sum."""
    if layout.children > LONG and layout.numbered:
        below = [_children(layout, pointers[:, : layout.actions[player]], x) for x in values]
        action = jnp.arange(layout.actions[player], dtype=jnp.int32)[:, None]
        row = layout.policy_row(player, links[None, :, NUMBER], action)
        below[player] *= take(factor_rows(forest.decisions[player]), row)
        return [sum_actions(x) for x in below]
    policy = factor_rows(forest.decisions[player])
    here = [jnp.zeros((layout.page, n), forest.since.dtype) for n in layout.rows]
    for k, action in enumerate(layout.action_of_child):
        if action >= layout.actions[player]:
            continue
        played = take(policy, layout.policy_row(player, links[:, NUMBER], action))
        for p in range(2):
            below = take(values[p], pointers[:, k])
            here[p] = here[p] + (below * played if p == player else below)
    return here


def _children(layout, pointers, table):
    """Rows `[K, C, N]` of all children of a page's nodes."""
    if layout.children > LONG:
        return take(table, pointers.T)
    return jnp.stack([take(table, pointers[:, k]) for k in range(layout.children)])


def _mapped(game, forest, layout, kind, first, links, pointers, values, actions):
    """Both players' values `[C, N]` on a page of mapped nodes of one kind, by the game's rules, and
    the values of actions with those of the page's decisions."""
    states = jax.tree.map(lambda x: _slice(x, first, layout.page), forest.state)
    below = tuple(take(table, pointers) for table in values)  # [C, K, N]
    here = jax.vmap(functools.partial(game.known_up, actor_of(kind)))(states, below)
    if kind != CHANCE_KIND:
        number, by_action = links[:, NUMBER], here[kind]
        policy = decision_rows(forest.decisions[kind].policy, number)
        own = sum_actions(jnp.moveaxis(policy * by_action, 1, 0))
        here = tuple(own if p == kind else x for p, x in enumerate(here))
        new = actions[kind].at[number].set(by_action, mode="drop", unique_indices=True)
        actions = tuple(new if p == kind else x for p, x in enumerate(actions))
    return here, actions
