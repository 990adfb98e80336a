"""The expansion phase of growing-tree CFR: simulations, each of which adds a node to the tree.

A simulation (Schmid et al. 2023, "Growing-tree CFR") draws a world state at the state searched and
walks down the tree, choosing actions half by PUCT and half by CFR's average policy, until it comes
to a leaf, whose children are then added. All searches of a batch simulate at once.
"""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import LONG, at, choose_rows, safe_divide, sum_actions
from jaxgames.beliefs.contract import BeliefGame, PublicState, Reach
from jaxgames.core import TERMINAL, record
from solvers.search.forest import (
    CHANCE_KIND,
    CHILD,
    NUMBER,
    PARENT,
    Forest,
    Layout,
    action_values_at,
    actor_of,
    average_policies,
    kind_of,
)
from solvers.search.forest_growth import expand
from solvers.search.puct import puct_scores
from solvers.search.query_log import with_calls
from solvers.search.search_state import GrowingTreeCfr, Searches

_NO_ACTION = -1


@record
class _Walk:
    place: Array  # [B] int32 where the walk is: a node, or where it ended
    pair: Array  # [B, 2] int32 rows of both players
    live: Array  # [B] bool
    visits: tuple[Array, Array]  # [A, T', N] of either player


def simulate(
    game: BeliefGame,
    params: PyTree,
    noise: Float[Array, "B D 2"],
    state: Searches,
    *,
    settings: GrowingTreeCfr,
    settled: tuple[Array, Array] | None = None,
) -> Searches:
    """One simulation of every search: a walk from the searched state to a leaf, which becomes a
    node.

    Args:
      game: any belief-level game.
      params: of the evaluator.
      noise: of `walk_noise`.
      state: of the searches.
      settings: of the searches. Static under `jit`.
      settled: both players' visits at the last iteration, if there were simulations since then.

    Returns:
      The searches after the simulations.
    """
    forest, layout = state.forest, state.layout
    # 1. A world state: a pair of rows, in proportion to both reaches and chance.
    here, reach = at(forest.state, state.target), reach_of(forest, state.target)
    walk = _Walk(
        place=state.target,
        pair=jax.vmap(functools.partial(sample_pair, game))(noise[:, 0], here, reach),
        live=jnp.ones(layout.batch, bool),
        visits=tuple(tables.visits for tables in forest.decisions),
    )
    # 2. The walk, until it leaves the nodes.
    _, walk = jax.lax.while_loop(
        lambda turn: jnp.any(turn[1].live),
        lambda turn: (
            turn[0] + 1,
            _step(game, noise[:, turn[0] + 1], forest, layout, turn[1], settings, settled),
        ),
        (jnp.int32(0), walk),
    )
    # 3. Visit counts of the actions taken, and the new nodes.
    decisions = tuple(
        tables.replace(visits=visits)
        for tables, visits in zip(forest.decisions, walk.visits, strict=True)
    )
    grown = _grown(
        game, params, forest.replace(decisions=decisions), layout, walk, state.total, settings
    )
    log = state.log
    if log is not None and layout.single_row:  # new leaves were valued, which are last in the lists
        first = forest.leaves.count - (grown.count - forest.count)
        log = with_calls(log, grown, layout, first)
    return state.replace(forest=grown, log=log)


def walk_noise(
    key: Key[Array, ""], layout: Layout, count: int, dtype: jnp.dtype
) -> Float[Array, "count D 2"]:
    """Random numbers of the simulations of one search: of a world state, then of each step.

    Args:
      key: consumed.
      layout: of the forest.
      count: simulations.
      dtype: of the numbers.
    """
    return jax.random.uniform(key, (count, layout.levels + 1, 2), dtype)


def reach_of(
    forest: Forest, node: Int[Array, " n"]
) -> tuple[Float[Array, "n N0"], Float[Array, "n N1"]]:
    """Both players' own reaches at some nodes, in the last iteration."""
    first, second = (table[node] for table in forest.reach)
    return first, second


def _grown(game, params, forest, layout, walk, total, settings):
    """The forest after walks that ended: a leaf becomes a node."""
    leaf = jnp.minimum(walk.place, layout.nowhere - 1)
    grows = walk.place < layout.nowhere
    grows &= jax.vmap(game.actor)(at(forest.state, leaf)) != TERMINAL
    # A later simulation of the phase may grow below the new node, before an iteration has seen it:
    # then the node keeps its reaches until the next iteration.
    keeps = settings.expansions_per_phase > 1 and not layout.single_row
    kept = _average_reach(game, forest, layout, leaf, total) if keeps else None

    def prior(leaf, state):
        if layout.single_row:
            number = jnp.clip(leaf - layout.inner, 0, layout.leaves - 1)
            own = forest.known.prior[number][..., None]
            return own[:, : layout.actions[0]], own[:, : layout.actions[1]]
        reach = kept if keeps else _average_reach(game, forest, layout, leaf, None)
        return jax.vmap(lambda s, r: settings.evaluate(params, game, s, r)[1])(state, reach)

    grown, place = expand(
        game,
        params,
        forest,
        layout,
        leaf,
        grows,
        prior=prior,
        since=jnp.broadcast_to(total, (layout.batch,)),
        evaluate=settings.evaluate,
    )
    if not keeps:
        return grown
    place = jnp.where(place < layout.inner, place, len(forest.reach[0]))  # far where none is new
    tables = zip(grown.reach, kept, strict=True)
    return grown.replace(reach=tuple(x.at[place].set(y, mode="drop") for x, y in tables))


def _step(game, noise, forest, layout, walk, settings, settled):
    """The walks a step further; a walk ends at a place that is no node."""
    state = at(forest.state, walk.place)
    number = forest.links[walk.place, NUMBER]
    actor = jax.vmap(game.actor)(state)
    acting = jnp.maximum(actor, 0)
    row = jnp.where(acting == 0, walk.pair[:, 0], walk.pair[:, 1])
    # 1. An action.
    chosen = [
        _selected(game, noise[:, 0], forest, layout, p, walk, state, number, row, settings, settled)
        for p in range(2)
    ]
    action = jnp.where(acting == 0, *chosen)
    # 2. A public child.
    pointers = forest.pointers[walk.place]
    inside = jnp.minimum(pointers, layout.nowhere - 1)
    pairs, possible = _followed(game, forest, layout, state, actor, walk, action, inside)
    possible = possible & (pointers < layout.nowhere)
    weights = jax.vmap(jax.vmap(game.weight))(at(forest.state, inside), jnp.maximum(pairs, 0))
    child = draw_index(jnp.where(possible, weights, 0).T, noise[:, 1])
    take = lambda x: jnp.take_along_axis(  # noqa: E731
        x, child.reshape(-1, *[1] * (x.ndim - 1)), axis=1
    )[:, 0]
    after = take(pointers)
    # 3. A visit.
    visits = []
    for p, table in enumerate(walk.visits):
        counts = walk.live & (actor == p)
        decision = jnp.where(counts, number, layout.no_decision)
        visits.append(table.at[action, decision, row].add(1, mode="drop"))
    return _Walk(
        place=choose_rows(walk.live, after, walk.place),
        pair=choose_rows(walk.live, take(pairs), walk.pair),
        live=walk.live & (after < layout.inner),
        visits=tuple(visits),
    )


def _followed(game, forest, layout, state, actor, walk, action, places):
    """The pairs of rows `[B, K, 2]` in all children, and which children are possible."""
    kind = kind_of(actor)
    # 1. Where rows keep their numbers: the children that the action leads to and that have them.
    number = jnp.asarray(layout.actions_by_child(none=_NO_ACTION))
    possible = (number[None] == action[:, None]) | (kind == CHANCE_KIND)[:, None]
    if not layout.single_row:
        for p, table in enumerate(forest.masks):
            possible &= table[places, walk.pair[:, p, None]]
    kept = jnp.broadcast_to(walk.pair[:, None], (*places.shape, 2))
    if all(layout.straight):
        return kept, possible
    # 2. Elsewhere, the game tells.
    for mapped in np.flatnonzero(~np.asarray(layout.straight)):
        here = (kind == int(mapped)) & walk.live
        follow = functools.partial(_mapped_pairs, game, forest, int(mapped), state, walk, action)
        same = lambda kept=kept, possible=possible: (kept, possible)  # noqa: E731
        followed = functools.partial(follow, places, here, kept, possible)
        kept, possible = _if_any(layout, here, followed, same)
    return kept, possible


def _mapped_pairs(game, forest, kind, state, walk, action, places, here, kept, possible):
    """The pairs of rows in all children, and which of them are possible, at nodes of one kind."""
    follow = jax.vmap(functools.partial(game.known_follow, actor_of(kind)))
    pairs = follow(state, walk.pair, action)
    leads = jnp.all(pairs >= 0, axis=2)
    for p, table in enumerate(forest.masks):
        leads &= table[places, jnp.maximum(pairs[..., p], 0)]
    return (
        jnp.where(here[:, None, None], pairs, kept),
        jnp.where(here[:, None], leads, possible),
    )


def _selected(game, uniform, forest, layout, player, walk, state, number, row, settings, settled):
    """The actions `[B]` that simulations take in the actor's row: by CFR's average policy, or by
    PUCT with the values of the last iteration per unit of compatible opponent reach."""
    tables, place = forest.decisions[player], walk.place
    row = jnp.minimum(row, layout.rows[player] - 1)  # of who acts, who may be the other player
    entry = lambda table: table[:, number, row]  # noqa: E731
    reach = forest.reach[1 - player][place]
    mass = jax.vmap(lambda s, r: game.compatible(s, player, r))(state, reach)
    mass = jnp.take_along_axis(mass, row[:, None], axis=1)[:, 0]
    if tables.action_values is None:
        values = action_values_at(forest, layout, player, forest.pointers[place], row)
    else:
        values = tables.action_values[number, :, row].T
    values = safe_divide(values, mass[None])
    visits, legal = entry(walk.visits[player]), entry(tables.uniform) > 0
    before = None if settled is None else entry(settled[player])
    root = jnp.sqrt(sum_actions(visits))[None]
    scores = puct_scores(values, visits, before, entry(tables.prior), root, settings)
    by_puct = _largest(jnp.where(legal, scores, -jnp.inf))
    average, share = entry(tables.average), settings.cfr_share
    average = jnp.where(sum_actions(average)[None] > 0, average, entry(tables.policy))
    by_cfr = draw_index(average, uniform / share if share else uniform)
    return jnp.where(uniform < share, by_cfr, by_puct)


def _average_reach(game, forest, layout, leaf, total):
    """Both players' own reaches `[B, N]` at leaves: sums since their nodes were added.

    Nodes without an iteration since then, by `total`, the weights of all, have what `_grown` wrote
    for them; None: there are none.
    """
    parent = jnp.maximum(forest.links[leaf, PARENT], 0)
    child = forest.links[leaf, CHILD]
    above = tuple(table[parent] for table in forest.reach_total)
    if total is not None:
        seen = (forest.since[parent] < total)[:, None]
        above = tuple(
            jnp.where(seen, x, y[parent]) for x, y in zip(above, forest.reach, strict=True)
        )
    state, policy = at(forest.state, parent), policies_at(game, forest, parent)
    actor = jax.vmap(game.actor)(state)
    # 1. Where rows keep their numbers: the actor's are multiplied by its policy.
    action = jnp.asarray(layout.actions_by_child())
    below = []
    for p in range(2):
        taken = jnp.minimum(action[child], layout.actions[p] - 1)[:, None, None]
        played = jnp.take_along_axis(policy[p], taken, axis=1)[:, 0]
        after = jnp.where((actor == p)[:, None], above[p] * played, above[p])
        below.append(jnp.where(forest.masks[p][leaf], after, 0))
    below = tuple(below)
    if all(layout.straight):
        return below
    # 2. Elsewhere, the game tells.
    for mapped in np.flatnonzero(~np.asarray(layout.straight)):
        here = actor == actor_of(int(mapped))
        down = functools.partial(_mapped_reach, game, forest, actor_of(int(mapped)), state, leaf)
        mapped_below = functools.partial(down, child, above, policy, here, below)
        below = _if_any(layout, here, mapped_below, lambda below=below: below)
    return below


def _if_any(layout, here, new, same):
    """`new()`, which changes what is `same()` only where `here` is true. Where a branch costs more
    than the work, as on accelerators, it is always computed."""
    return new() if layout.together else jax.lax.cond(jnp.any(here), new, same)


def _mapped_reach(game, forest, actor, state, leaf, child, above, policy, here, below):
    """Both players' own reaches `[B, N]` at leaves below nodes of one kind."""
    everywhere = jax.vmap(functools.partial(game.known_down, actor))(state, above, policy)
    after = []
    for p, reach in enumerate(everywhere):
        came = jnp.take_along_axis(reach, child[:, None, None], axis=1)[:, 0]
        came = jnp.where(forest.masks[p][leaf], came, 0)
        after.append(jnp.where(here[:, None], came, below[p]))
    return tuple(after)


def policies_at(game: BeliefGame, forest: Forest, place: Array) -> tuple[Array, Array]:
    """Both players' average policies `[n, A, N]` at some nodes; 0 where they do not act."""
    actor, number = jax.vmap(game.actor)(at(forest.state, place)), forest.links[place, NUMBER]
    first, second = (
        jnp.where((actor == p)[:, None, None], average_policies(tables, number), 0)
        for p, tables in enumerate(forest.decisions)
    )
    return first, second


def draw_index(weights: Float[Array, "A ..."], noise: Float[Array, "..."]) -> Int[Array, "..."]:
    """Draws an index in proportion to its weight, by the inverse of the distribution function.

    Args:
      weights: non-negative `[A, ...]`.
      noise: a number from 0 to 1 for each draw.

    Returns:
      The indices; one of weight 0 only if all weights are 0.
    """
    below = _running_sums(weights)
    total = below[-1]
    # a little less than the total, so that a number that is rounded to 1 finds an index, too
    point = noise.astype(total.dtype) * (total * (1 - jnp.finfo(total.dtype).eps))
    if len(weights) > LONG:
        passed = jnp.sum(below <= point[None], axis=0, dtype=jnp.int32)
    else:
        passed = sum((x <= point).astype(jnp.int32) for x in below)
    return jnp.minimum(passed, len(weights) - 1)


def _running_sums(weights):
    """Sums of the first entries along the leading axis, unrolled where it is short."""
    if len(weights) > LONG:
        return jnp.cumsum(weights, axis=0)
    return list(itertools.accumulate(weights[i] for i in range(len(weights))))


def _largest(scores):
    """The index of the (first) largest entry along the leading axis."""
    if len(scores) > LONG:
        return jnp.argmax(scores, axis=0).astype(jnp.int32)
    best, top = jnp.zeros(scores.shape[1:], jnp.int32), scores[0]
    for i in range(1, len(scores)):
        better = scores[i] > top
        best, top = jnp.where(better, i, best), jnp.where(better, scores[i], top)
    return best


def sample_pair(
    game: BeliefGame, uniform: Float[Array, "2"], state: PublicState, reach: Reach
) -> Int[Array, "2"]:
    """Draws a world state: a pair of rows, in proportion to both own reaches and chance.

    Args:
      game: any belief-level game.
      uniform: two numbers from 0 to 1.
      state: a public state.
      reach: own reaches of both players there.

    Returns:
      A row of either player.
    """
    first = draw_index(reach[0] * game.compatible(state, 0, reach[1]), uniform[0])
    one_hot = jax.nn.one_hot(first, game.num_rows[0], dtype=reach[0].dtype)
    second = draw_index(reach[1] * game.compatible(state, 1, one_hot), uniform[1])
    return jnp.stack([first, second])
