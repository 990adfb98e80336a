"""Sweeps and walks of lazy trees in which all places take part in each step, for accelerators.

There a step takes some microseconds, however many places it is for, and a loop whose end is found
on the way waits for the host at every turn. So nothing here is a loop: places look at their 2^k-th
ancestors, for k = 0, 1, and so on (pointer jumping; Hillis and Steele 1986, "Data parallel
algorithms"), which takes the logarithm of as many steps as `lazy_steps` takes. Products and sums
are the same up to rounding.

To find its siblings, a place looks at K places: at all T of its tree, or at the A that follow one
another in its tree's list.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from solvers.search.lazy_layout import LazyLayout
from solvers.search.lazy_steps import Walk
from solvers.search.lazy_trees import LazyTrees
from solvers.search.puct import puct_scores
from solvers.search.search_state import GrowingTreeCfr


def reaches_and_values(
    trees: LazyTrees, layout: LazyLayout
) -> tuple[tuple[Float[Array, " P"], ...], tuple[Float[Array, " P"], ...]]:
    """As `lazy_steps.reaches_and_values`.

    With M the matrix of policies from parents to children, values are
    (1 + M + M^2 + ...) leaves = ... (1 + M^4) (1 + M^2) (1 + M) leaves. A row of the transpose of
    M^(2^k) has one entry: at the place's 2^k-th ancestor, the policies on the way from there.
    """
    used = _slots(layout) < trees.count[:, None]
    factors = (jnp.where(trees.mover == p, trees.policy, 1) for p in range(2))
    reach = tuple(jnp.where(used.reshape(-1), x, 0) for x in factors)  # from the parent on
    values = jnp.stack([jnp.where(trees.children > 0, 0, x) for x in trees.worth])
    ancestor = _parents(trees, layout)
    for k in range(layout.doublings):
        above = trees.depth >= 2**k  # there is such an ancestor
        weight = jnp.where(above, reach[0] * reach[1], 0)
        to = jnp.where(above, ancestor, _places(layout))
        values = values + _sums_at(layout, to, weight[None] * values)
        reach = tuple(x * x[ancestor] for x in reach)
        ancestor = ancestor[ancestor]
    return reach, (values[0], values[1])


def sibling_sums(trees: LazyTrees, layout: LazyLayout, table: Float[Array, " P"]) -> Array:
    """As `lazy_steps.sibling_sums`."""
    family = _Families(trees, layout)
    terms = jnp.where(family.inside, family.read(table), 0)
    return jnp.sum(terms, axis=2).reshape(-1)


def walk(
    noise: Float[Array, "B D"],
    trees: LazyTrees,
    layout: LazyLayout,
    *,
    settings: GrowingTreeCfr,
    settled: Float[Array, " P"] | None,
) -> Walk:
    """As `lazy_steps.walk`: the child that a walk would take is found at every node, and the walk
    passes the places that are taken and whose ancestors all are."""
    exists = trees.parent >= 0
    on_way = (_taken(noise, trees, layout, settings, settled) & exists) | _is_root(layout)
    ancestor = _parents(trees, layout)
    for _ in range(layout.doublings):
        on_way = on_way & on_way[ancestor]
        ancestor = ancestor[ancestor]
    # places are numbered in the order in which they were made, so the last one is the deepest
    last = jnp.max(jnp.where(layout.by_tree(on_way), _slots(layout), 0), axis=1)
    place = layout.roots + last
    dtype = trees.visits.dtype
    return Walk(
        place=place,
        missing=trees.children[place] > 0,  # none of these children was taken
        action=trees.best_action[place],
        live=jnp.zeros(layout.batch, bool),
        visits=trees.visits + (on_way & exists).astype(dtype),
        walks=trees.walks + (on_way & (trees.children > 0)).astype(dtype),
    )


def _taken(noise, trees, layout, settings, settled):
    """Whether a walk that comes to a place's parent goes on to this place `[P]`."""
    parent, share = jnp.maximum(trees.parent, 0), settings.cfr_share
    family = _Families(trees, layout)
    # 1. PUCT takes the child with the highest score, the first of them, unless an action that was
    # not taken yet has a higher one.
    value = jnp.where(trees.mover == 0, *trees.values)
    root = jnp.sqrt(trees.walks + 1)
    score = puct_scores(value, trees.visits, settled, trees.action_prior, root[parent], settings)
    fresh = jnp.where(trees.best >= 0, settings.exploration * trees.best * root, -jnp.inf)
    # 2. The average policy takes the last child before which the sum is not above a random point.
    depth = jnp.minimum(layout.by_tree(trees.depth), layout.levels - 1)
    drawn = jnp.take_along_axis(noise, depth, axis=1).reshape(-1)
    averaged = trees.mass > 0  # elsewhere present policies are drawn from, which sum to 1
    point = jnp.where(averaged, trees.mass, 1) * jnp.clip(drawn / share if share else drawn, 0, 1)
    weight = jnp.where(averaged[parent], trees.average, trees.policy)
    terms = jnp.where(family.inside & family.earlier, family.read(weight), 0)
    before = jnp.sum(terms, axis=2).reshape(-1)
    possible = (weight > 0) & (before <= point[parent])
    number = jnp.broadcast_to(_slots(layout), (layout.batch, layout.room)).reshape(-1)
    latest = jnp.where(possible, number.astype(score.dtype), -jnp.inf)
    # 3. Which of them chooses is random, too.
    by_cfr = (drawn < share)[parent]
    merit = jnp.where(by_cfr, latest, score)
    own, other = layout.by_tree(merit)[:, :, None], family.read(merit)
    beaten = (other > own) | ((other == own) & family.earlier)
    beaten = jnp.any(family.inside & beaten, axis=2).reshape(-1)
    return ~beaten & (by_cfr | (fresh[parent] <= score))


class _Families:
    """For each place K others of its tree, among which its siblings are.

    Attributes:
      inside: `[B, T, K]` which of them are its siblings, or the place itself.
      earlier: `[B, 1 or T, K]` which of them are before it among the siblings.
    """

    def __init__(self, trees: LazyTrees, layout: LazyLayout):
        slots = _slots(layout)[:, :, None]  # [1, T, 1]
        parent = layout.by_tree(trees.parent)
        if layout.sweep == "pairs":
            self._spot = None
            self.inside = parent[:, :, None] == parent[:, None, :]
            self.earlier = jnp.swapaxes(slots, 1, 2) < slots
        else:
            parent = jnp.maximum(parent, 0)
            number = jnp.arange(min(layout.actions, layout.room), dtype=jnp.int32)[None, None]
            spot = trees.first[parent][:, :, None] + number
            spot = jnp.minimum(spot, layout.room - 1) + layout.roots[:, None, None]
            self._spot = trees.order.reshape(-1)[spot]
            self.inside = number < trees.children[parent][:, :, None]
            self.earlier = self._spot < slots + layout.roots[:, None, None]
        self._layout = layout

    def read(self, table: Float[Array, " P"]) -> Array:
        """What a table has at the K places, `[B, 1 or T, K]`."""
        if self._spot is None:
            return self._layout.by_tree(table)[:, None, :]
        return table[self._spot]


def _sums_at(layout, place, terms):
    """The sums `[n, P]` of terms `[n, P]` at the place `[P]` of each."""
    if layout.sweep != "pairs":
        row = jnp.arange(len(terms), dtype=jnp.int32)[:, None] * layout.places
        sums = jnp.zeros(terms.size, terms.dtype).at[row + place[None]].add(terms)
        return sums.reshape(terms.shape)
    at_place = layout.by_tree(place)[:, None, :] == layout.by_tree(_places(layout))[:, :, None]
    terms_of_tree = terms.reshape(-1, layout.batch, 1, layout.room)
    return jnp.sum(jnp.where(at_place[None], terms_of_tree, 0), axis=3).reshape(terms.shape)


def _parents(trees, layout):
    """The parents `[P]`, and the place itself where there is none."""
    return jnp.where(trees.parent >= 0, trees.parent, _places(layout))


def _is_root(layout):
    return _places(layout) % layout.room == 0


def _places(layout):
    return jnp.arange(layout.places, dtype=jnp.int32)


def _slots(layout):
    """The places of one tree `[1, T]`, from 0 on."""
    return jnp.arange(layout.room, dtype=jnp.int32)[None]
