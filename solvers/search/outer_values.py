"""Values of places without children: terminals, by their payoffs, and leaves, by an evaluator."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, PublicState
from solvers.search import leaf_evaluators
from solvers.search.forest import Forest, Layout, reach_at, take
from solvers.search.pages import over_pages
from solvers.search.search_state import GrowingTreeCfr
from solvers.search.sweeps import FAR, Table, arriving, written, written_at

_NUMBERS = 2**20  # of the reaches of terminals that are valued at once on an accelerator

_slice = jax.lax.dynamic_slice_in_dim


def outer_values(
    game: BeliefGame,
    params: PyTree,
    forest: Forest,
    layout: Layout,
    weight: Array,
    settings: GrowingTreeCfr,
) -> Table:
    """The values of all places, with those of terminals and leaves brought up to date.

    Args:
      game: the game.
      params: of the evaluator.
      forest: whose reaches count.
      layout: of the forest.
      weight: of the iteration in the sums `[]`.
      settings: of the searches.
    """

    def leaves(i, values):
        first = layout.inner + i * layout.chunk
        here = arriving(forest, first, layout.chunk, forest.reach)
        if layout.single_row:
            known = (_slice(x, i * layout.chunk, layout.chunk) for x in forest.known.values)
            worth = tuple(x * r for x, r in zip(known, here[::-1], strict=True))
            return written(values, worth, first, weight)
        if layout.keeps:
            kept = (_slice(x, i * layout.chunk, layout.chunk) for x in forest.kept.values)
            mass = (jnp.sum(r, axis=1, keepdims=True) for r in here[::-1])
            worth = tuple(x * m for x, m in zip(kept, mass, strict=True))
            return written(values, worth, first, weight)
        states = jax.tree.map(lambda x: _slice(x, first, layout.chunk), forest.state)
        number = i * layout.chunk
        ahead = jax.tree.map(lambda x: _slice(x, number, layout.chunk), forest.prepared)
        worth = evaluated(game, params, settings, states, ahead, here)
        return written(values, worth, first, weight)

    values = Table(last=forest.values, total=forest.values_total)
    terminals = _terminals_together if layout.together else _terminals
    values = terminals(game, forest, layout, weight, values)
    if settings.evaluate is leaf_evaluators.zero:  # which is what new leaves are worth anyway
        return values
    chunks = -(-forest.num_leaves // layout.chunk)
    return jax.lax.fori_loop(0, chunks, leaves, values)


def _terminals(game, forest, layout, weight, values):
    """The values with those of terminals, a page of one kind in each step."""

    def kind_by_kind(kind, values):
        def page(first, values):
            first = layout.terminal_page(first // layout.page)
            here = arriving(forest, first, layout.page, forest.reach)
            states = jax.tree.map(lambda x: _slice(x, first, layout.page), forest.state)
            worth = game.terminal_page(kind, states, here)
            masks = (_slice(table, first, layout.page) for table in forest.masks)
            worth = tuple(jnp.where(mask, x, 0) for mask, x in zip(masks, worth, strict=True))
            return written(values, worth, first, weight)

        return over_pages(forest.terminals, kind, page, values, page=layout.page)

    return jax.lax.fori_loop(0, layout.terminal_kinds, kind_by_kind, values)


def _terminals_together(game, forest, layout, weight, values):
    """The same, many pages of any kinds in each step."""
    lists, size = forest.terminals, layout.page
    count = min(max(_NUMBERS // (size * max(layout.rows)), 1), layout.terminal_pages)
    spot = jnp.arange(size, dtype=jnp.int32)

    def several(i, values):
        number = i * count + jnp.arange(count, dtype=jnp.int32)
        known = jnp.minimum(number, layout.terminal_pages - 1)
        place = (layout.terminal_page(known)[:, None] + spot[None]).reshape(-1)
        by_page = lambda x: x.reshape(count, size, *x.shape[1:])  # noqa: E731
        here = reach_at(forest, place, forest.reach)
        states = at(forest.state, place)
        worth = jax.vmap(game.terminal_page)(
            take(lists.owner, known), *jax.tree.map(by_page, (states, here))
        )
        worth = tuple(
            jnp.where(take(mask, place), x.reshape(-1, x.shape[-1]), 0)
            for mask, x in zip(forest.masks, worth, strict=True)
        )
        far = FAR + jnp.arange(len(place), dtype=jnp.int32)
        taken = jnp.repeat(number < lists.used, size)
        return written_at(values, worth, jnp.where(taken, place, far), weight)

    return jax.lax.fori_loop(0, -(-lists.used // count), several, values)


def evaluated(
    game: BeliefGame,
    params: PyTree,
    settings: GrowingTreeCfr,
    states: PublicState,
    ahead: PyTree,
    reach: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Both players' values `[C, N]` of C leaves, by the evaluator.

    Args:
      game: the game.
      params: of the evaluator.
      settings: of the searches.
      states: of the leaves.
      ahead: what the evaluator prepared for them; None if it prepares nothing.
      reach: both players' own reaches `[C, N]` there.
    """
    if ahead is None:
        return jax.vmap(lambda s, r: settings.evaluate(params, game, s, r)[0])(states, reach)
    value = functools.partial(settings.evaluate.prepared_values, params, game)
    return jax.vmap(value)(states, ahead, reach)
