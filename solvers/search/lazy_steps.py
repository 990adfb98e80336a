"""Sweeps and walks of lazy trees, step by step: a level after the other, and node by node.

They touch only what they need, which suits a CPU; `lazy_at_once` has the same for accelerators.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.core import record
from solvers.search.lazy_layout import LazyLayout
from solvers.search.lazy_trees import LazyTrees
from solvers.search.puct import puct_scores
from solvers.search.search_state import GrowingTreeCfr

_WINDOW = 8  # children that a step of a walk reads at once


@record
class Walk:
    """Where the walks of B simulations are, or ended."""

    place: Array  # [B] int32
    missing: Array  # [B] bool: it ended because the action's child is not in the tree
    action: Array  # [B] int32 that action
    live: Array  # [B] bool: it has not ended
    visits: Array  # [P] as in the trees, with these simulations
    walks: Array  # [P]


def reaches_and_values(
    trees: LazyTrees, layout: LazyLayout
) -> tuple[tuple[Float[Array, " P"], ...], tuple[Float[Array, " P"], ...]]:
    """Both players' own reaches, 0 at places that are not in use, and both players' values per unit
    of the opponent's reach.

    Args:
      trees: the trees.
      layout: of the trees.
    """
    return _reaches(trees, layout), _values(trees, layout)


def sibling_sums(trees: LazyTrees, layout: LazyLayout, table: Float[Array, " P"]) -> Array:
    """The sums `[P]` of a table over the siblings of each place, itself included; unspecified
    at places without a parent.

    Args:
      trees: the trees.
      layout: of the trees.
      table: what is added up, 0 at places without a parent.
    """
    parent = jnp.maximum(trees.parent, 0)
    return jnp.zeros(layout.places, table.dtype).at[parent].add(table)[parent]


def walk(
    noise: Float[Array, "B D"],
    trees: LazyTrees,
    layout: LazyLayout,
    *,
    settings: GrowingTreeCfr,
    settled: Float[Array, " P"] | None,
) -> Walk:
    """The walks of one simulation of every search, from the roots to their ends.

    Args:
      noise: of `lazy_search.walk_noise`.
      trees: the trees.
      layout: of the trees.
      settings: of the searches.
      settled: the visits at the last iteration, if there were simulations since then.
    """
    begin = Walk(
        place=layout.roots,
        missing=jnp.zeros(layout.batch, bool),
        action=jnp.zeros(layout.batch, jnp.int32),
        live=trees.children[layout.roots] > 0,
        visits=trees.visits,
        walks=trees.walks,
    )
    _, end = jax.lax.while_loop(
        lambda turn: jnp.any(turn[1].live) & (turn[0] < layout.levels),
        lambda turn: (
            turn[0] + 1,
            _step(noise[:, turn[0]], trees, layout, turn[1], settings, settled),
        ),
        (jnp.int32(0), begin),
    )
    return end


# Sweeps


def _over_level(trees, layout, depth, step, carry):
    """`carry = step(places, which of them count, parents, carry)` for the parts `[B * C]` of a
    level."""
    begin = jax.lax.dynamic_slice_in_dim(trees.starts, depth, 2, axis=1)
    lanes = -(-jnp.max(begin[:, 1] - begin[:, 0]) // layout.lane)

    def part(i, carry):
        spot = begin[:, :1] + i * layout.lane + jnp.arange(layout.lane, dtype=jnp.int32)[None]
        inside = spot < begin[:, 1:]
        spot = layout.roots[:, None] + jnp.minimum(spot, layout.room - 1)
        place = trees.order.reshape(-1)[spot].reshape(-1)
        return step(place, inside.reshape(-1), jnp.maximum(trees.parent[place], 0), carry)

    return jax.lax.fori_loop(0, lanes, part, carry)


def _reaches(trees, layout):
    """Both players' own reaches `[P]`; 0 at places that are not in use."""
    factors = tuple(jnp.where(trees.mover == p, trees.policy, 1) for p in range(2))

    def down(place, inside, parent, reach):
        outside = layout.places + jnp.arange(len(place), dtype=jnp.int32)
        to = jnp.where(inside, place, outside)
        return tuple(
            table.at[to].set(table[parent] * factor[place], mode="drop", unique_indices=True)
            for table, factor in zip(reach, factors, strict=True)
        )

    def level(depth, reach):
        return _over_level(trees, layout, depth, down, reach)

    begin = jnp.zeros(layout.places, trees.since.dtype).at[layout.roots].set(1)
    return jax.lax.fori_loop(1, trees.deepest + 1, level, (begin, begin))


def _values(trees, layout):
    """Both players' values `[P]` per unit of the opponent's reach."""

    def up(place, inside, parent, values):
        share = jnp.where(inside, trees.policy[place], 0)
        return tuple(table.at[parent].add(share * table[place]) for table in values)

    def level(i, values):
        return _over_level(trees, layout, trees.deepest - i, up, values)

    leaves = tuple(jnp.where(trees.children > 0, 0, x) for x in trees.worth)
    return jax.lax.fori_loop(0, trees.deepest, level, leaves)


# Walks


def _step(noise, trees, layout, walk, settings, settled):
    """The walks a step further."""
    place, actor = walk.place, trees.actor[walk.place]
    best, puct, average = _read_children(noise, trees, layout, walk, actor, settings, settled)
    # An action that was not taken yet is worth 0 to PUCT; the likeliest is the best of them.
    prior = trees.best[place]
    total = walk.walks[place] + 1  # the simulation that added the node, so that priors count
    fresh = (prior >= 0) & (settings.exploration * prior * jnp.sqrt(total) > best)
    by_cfr = noise < settings.cfr_share
    missing = walk.live & fresh & ~by_cfr
    after = jnp.where(by_cfr, average, puct)
    moves = walk.live & ~missing
    nowhere = layout.places
    return Walk(
        place=jnp.where(moves, after, place),
        missing=walk.missing | missing,
        action=jnp.where(missing, trees.best_action[place], walk.action),
        live=moves & (trees.children[after] > 0),
        visits=walk.visits.at[jnp.where(moves, after, nowhere)].add(1, mode="drop"),
        walks=walk.walks.at[jnp.where(walk.live, place, nowhere)].add(1, mode="drop"),
    )


def _read_children(noise, trees, layout, walk, actor, settings, settled):
    """The highest score of PUCT among the children of the walks' places, which child has it, and
    the child that the average policy draws."""
    place, share = walk.place, settings.cfr_share
    begin, count = trees.first[place], trees.children[place]
    root = jnp.sqrt(walk.walks[place] + 1)[:, None]
    mass = trees.mass[place]
    averaged = mass > 0  # elsewhere present policies are drawn from, which sum to 1
    point = jnp.clip(noise / share if share else noise, 0, 1) * jnp.where(averaged, mass, 1)

    def window(state):
        i, best, puct, drawn, sums = state
        number = i + jnp.arange(_WINDOW, dtype=jnp.int32)[None]
        spot = jnp.minimum(begin[:, None] + number, layout.room - 1)
        child = trees.order.reshape(-1)[layout.roots[:, None] + spot]
        inside = number < count[:, None]
        value = jnp.where((actor == 0)[:, None], trees.values[0][child], trees.values[1][child])
        before = None if settled is None else settled[child]
        prior, visits = trees.action_prior[child], walk.visits[child]
        score = puct_scores(value, visits, before, prior, root, settings)
        score = jnp.where(inside, score, -jnp.inf)
        weight = jnp.where(averaged[:, None], trees.average[child], trees.policy[child])
        weight = jnp.where(inside, weight, 0)
        for k in range(_WINDOW):
            better = score[:, k] > best
            best, puct = jnp.where(better, score[:, k], best), jnp.where(better, child[:, k], puct)
            # the last child before which the sum is not above the point
            drawn = jnp.where((weight[:, k] > 0) & (sums <= point), child[:, k], drawn)
            sums = sums + weight[:, k]
        return i + _WINDOW, best, puct, drawn, sums

    none = jnp.full(layout.batch, -jnp.inf, trees.since.dtype)
    begin_state = (jnp.int32(0), none, place, place, jnp.zeros_like(none))
    most = jnp.max(jnp.where(walk.live, count, 0))
    result = jax.lax.while_loop(lambda state: state[0] < most, window, begin_state)
    return result[1], result[2], result[3]
