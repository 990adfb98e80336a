"""Growing-tree CFR in games of perfect information, on trees whose children are made lazily.

The same algorithm as in `regret_phase` and `expansion_phase` (Schmid et al. 2023), for searches
with `GrowingTreeCfr.expand`: nodes start with their k best children by prior, and get others when
simulations take them. An iteration costs as much as there are places, however many actions the
game has.

With one row for each player, what happened on the way to a state says nothing about it, and the
gadget of a re-solved subgame would only scale a player's values. So a tree begins at the state that
the search acts at, and there is no gadget.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import safe_divide
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL, record
from solvers.regret import RegretState
from solvers.search.lazy_trees import (
    LazyLayout,
    add_children,
    best_actions,
    lazy_layout,
    plant,
)
from solvers.search.query_log import with_new_calls
from solvers.search.search_state import NO_STEP, Gadget, GrowingTreeCfr, Problem, Search, Searches
from solvers.search.search_tree import LEAF, LazyTree, choose

_WINDOW = 8  # children that a step of a walk reads at once


def check_expandable(game: BeliefGame, expand: int) -> None:
    """Refuses games whose children are not where actions lead.

    Raises:
      ValueError: the game has several rows, or other children than actions.
    """
    if not game.has_perfect_information:
        raise ValueError(
            f"expand={expand} is for games of perfect information without chance in which child k"
            f" is where action k leads; {game.name} has num_rows={game.num_rows},"
            f" num_actions={game.num_actions}, num_children={game.num_children}; allowed: None"
        )


def start(
    game: BeliefGame, params: PyTree, *, problems: Problem, settings: GrowingTreeCfr
) -> Searches:
    """Searches before their first iteration: trees of the states that they act at, which are where
    the problems' paths end, and of the best children there.

    Args:
      game: of perfect information.
      params: of the evaluator.
      problems: what to search, `[B, ...]`.
      settings: how to search. Static under `jit`.

    Returns:
      The searches.

    Raises:
      ValueError: `settings.expand` is not for this game.
    """
    check_expandable(game, settings.expand)
    batch, dtype = len(problems.path), problems.reach[0].dtype
    layout = lazy_layout(game, settings, batch)
    state = jax.vmap(functools.partial(end_of_path, game))(problems.state, problems.path)
    trees = plant(game, params, layout, state, dtype, evaluate=settings.evaluate)
    best, there = best_actions(trees.prior[layout.roots], count=layout.expand)
    trees, _, _ = add_children(
        game,
        params,
        trees,
        layout,
        layout.roots,
        best,
        there,
        since=jnp.zeros((), dtype),
        visits=jnp.zeros(batch, dtype),
        policy=1 / jnp.maximum(jnp.sum(there, axis=1), 1).astype(dtype),
        evaluate=settings.evaluate,
    )
    return Searches(
        layout=layout,
        problem=problems,
        forest=trees,
        gadget=Gadget(
            regret=tuple(jnp.zeros((batch, 2, 1), dtype) for _ in range(2)),
            follow=tuple(jnp.full((batch, 1), 0.5, dtype) for _ in range(2)),
        ),
        target=layout.roots,
        iterations=jnp.int32(0),
        total=jnp.zeros((), dtype),
    )


def end_of_path(game: BeliefGame, state: PublicState, path: Int[Array, " L"]) -> PublicState:
    """The public state where a path from another one ends.

    Args:
      game: any belief-level game.
      state: where the path begins.
      path: numbers of children, then NO_STEP.
    """

    def step(i, state):
        child = path[i]
        below = game.child(state, jnp.maximum(child, 0))
        return choose(child != NO_STEP, below, state)

    return jax.lax.fori_loop(0, len(path), step, state)


# The regret phase


def iterate(
    game: BeliefGame, params: PyTree, state: Searches, *, settings: GrowingTreeCfr
) -> Searches:
    """One iteration of CFR with simultaneous updates, for both players.

    Args:
      game: of perfect information.
      params: of the evaluator, which is not asked.
      state: of the searches.
      settings: of the searches. Static under `jit`.

    Returns:
      The searches after the iteration.
    """
    trees, layout, step = state.forest, state.layout, state.iterations + 1
    dtype = trees.since.dtype
    weight = step.astype(dtype) ** settings.averaging_power
    # 1. Own reaches pi_i, from the roots down.
    reach = _reaches(trees, layout)
    # 2. Values v_i per unit of the opponent's reach: those of leaves, and from the children up.
    values = _values(trees, layout)
    # 3. Regrets pi_-i (v_i(s, a) - v_i(s)), the next policies by regret matching, and averages.
    parent = jnp.maximum(trees.parent, 0)
    exists = trees.parent >= 0
    first = trees.mover == 0
    own = jnp.where(first, values[0], values[1])
    above = jnp.where(first, values[0][parent], values[1][parent])
    opposing = jnp.where(first, reach[1][parent], reach[0][parent])
    instant = jnp.where(exists, opposing * (own - above), 0)
    uniform = jnp.where(exists, 1 / jnp.maximum(trees.children[parent], 1).astype(dtype), 0)

    def total(positive):
        """The sums over siblings, for each place."""
        sums = jnp.zeros(layout.places, dtype).at[parent].add(positive[0])
        return sums[parent]

    before = RegretState(regret=trees.regret[None], policy=trees.policy[None])
    after = settings.minimizer.update(
        before, instant[None], uniform[None], step.astype(dtype), total=total
    )
    played = weight * jnp.where(first, reach[0], reach[1])  # the policy is in the own reach
    acting = jnp.where(trees.actor == 0, reach[0], reach[1])
    trees = trees.replace(
        reach=reach,
        values=values,
        regret=after.regret[0],
        policy=jnp.where(exists, after.policy[0], 1),
        average=trees.average + jnp.where(exists, played, 0),
        mass=trees.mass + jnp.where(trees.children > 0, weight * acting, 0),
        reach_total=tuple(
            old + weight * new for old, new in zip(trees.reach_total, reach, strict=True)
        ),
        values_total=tuple(
            trees.values_total[p] + weight * reach[1 - p] * values[p] for p in range(2)
        ),
    )
    return state.replace(forest=trees, iterations=step, total=state.total + weight)


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


# The expansion phase


@record
class _Walk:
    place: Array  # [B] int32 where the walk is, or ended
    missing: Array  # [B] bool: it ended because the action's child is not in the tree
    action: Array  # [B] int32 that action
    live: Array  # [B] bool
    visits: Array  # [P]
    walks: Array  # [P]


def walk_noise(
    key: Key[Array, ""], layout: LazyLayout, count: int, dtype: jnp.dtype
) -> Float[Array, "count D"]:
    """Random numbers of some simulations of one search, one for each step.

    Args:
      key: consumed.
      layout: of the trees.
      count: simulations.
      dtype: of the numbers.
    """
    return jax.random.uniform(key, (count, layout.levels), dtype)


def simulate(
    game: BeliefGame,
    params: PyTree,
    noise: Float[Array, "B D"],
    state: Searches,
    *,
    settings: GrowingTreeCfr,
    settled: Float[Array, " P"] | None = None,
) -> Searches:
    """One simulation of every search: a walk from the searched state on, until it comes to a leaf,
    which gets its k best children, or takes an action whose child is not there, which is added.

    Args:
      game: of perfect information.
      params: of the evaluator.
      noise: of `walk_noise`.
      state: of the searches.
      settings: of the searches. Static under `jit`.
      settled: the visits at the last iteration, if there were simulations since then.

    Returns:
      The searches after the simulations.
    """
    trees, layout = state.forest, state.layout
    # 1. The walk.
    walk = _Walk(
        place=state.target,
        missing=jnp.zeros(layout.batch, bool),
        action=jnp.zeros(layout.batch, jnp.int32),
        live=trees.children[state.target] > 0,
        visits=trees.visits,
        walks=trees.walks,
    )
    _, walk = jax.lax.while_loop(
        lambda turn: jnp.any(turn[1].live) & (turn[0] < layout.levels),
        lambda turn: (
            turn[0] + 1,
            _step(noise[:, turn[0]], trees, layout, turn[1], settings, settled),
        ),
        (jnp.int32(0), walk),
    )
    trees = trees.replace(visits=walk.visits, walks=walk.walks)
    # 2. New places: the child that is missing, or the best children of a leaf.
    if layout.expand == 1:
        best, actions = trees.best[walk.place], trees.best_action[walk.place][:, None]
        there = best[:, None] >= 0
    else:
        actions, there = best_actions(trees.prior[walk.place], count=layout.expand)
    first = (jnp.arange(layout.expand) == 0)[None]
    missing = walk.missing[:, None]
    actions = jnp.where(missing & first, walk.action[:, None], actions)
    wanted = jnp.where(missing, first, there & (trees.actor[walk.place] != TERMINAL)[:, None])
    shares = 1 / jnp.maximum(jnp.sum(wanted, axis=1), 1).astype(trees.since.dtype)
    trees, states, valued = add_children(
        game,
        params,
        trees,
        layout,
        walk.place,
        actions,
        wanted,
        since=state.total,
        visits=walk.missing.astype(trees.since.dtype),
        policy=jnp.where(walk.missing, 0, shares),
        evaluate=settings.evaluate,
    )
    log = state.log
    if log is not None:
        log = with_new_calls(log, states, valued)
    return state.replace(forest=trees, log=log)


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
    return _Walk(
        place=jnp.where(moves, after, place),
        missing=walk.missing | missing,
        action=jnp.where(missing, trees.best_action[place], walk.action),
        live=moves & (trees.children[after] > 0),
        visits=walk.visits.at[jnp.where(moves, after, nowhere)].add(1, mode="drop"),
        walks=walk.walks.at[jnp.where(walk.live, place, nowhere)].add(1, mode="drop"),
    )


def _read_children(noise, trees, layout, walk, actor, settings, settled):
    """The highest score of PUCT among the children of the walks' places, which child has it, and
    the child that the average policy draws.

    PUCT maximises q(a) + c * prior(a) * sqrt(n) / (1 + n(a)), with q the values of the last
    iteration (Silver et al. 2018; Schmid et al. 2023). Visits since the last iteration count as
    losses of `virtual_loss`.
    """
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
        visits = walk.visits[child]
        if settled is not None:
            before = settled[child]
            under_way, heft = visits - before, 1 + before
            value = (heft * value - settings.virtual_loss * under_way) / (heft + under_way)
        bonus = trees.action_prior[child] * root / (1 + visits)
        score = jnp.where(inside, value + settings.exploration * bonus, -jnp.inf)
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


# Reading


def finish(state: Searches) -> Search:
    """The searches as they are, each with a tree of its own.

    Args:
      state: B searches in progress.

    Returns:
      Finished searches `[B, ...]`.
    """
    trees, layout = state.forest, state.layout
    own = layout.by_tree
    column = lambda pair: tuple(own(x[:, None]) for x in pair)  # noqa: E731
    parent = jnp.maximum(trees.parent, 0)
    mass = trees.mass[parent]
    average = jnp.where(mass > 0, safe_divide(trees.average, mass), trees.policy)
    tree = LazyTree(
        count=trees.count,
        state=jax.tree.map(own, trees.state),
        parent=jnp.where(own(trees.parent) >= 0, own(trees.parent) - layout.roots[:, None], LEAF),
        child=own(trees.action),
        actor=own(trees.actor),
        children=own(trees.children),
        since=own(trees.since),
        policy=own(jnp.where(trees.parent >= 0, average, 0)),
        visits=own(trees.visits),
        reach_total=column(trees.reach_total),
        values_total=column(trees.values_total),
        num_actions=layout.actions,
    )
    every = lambda x: jnp.broadcast_to(x, layout.batch)  # noqa: E731
    return Search(
        problem=state.problem,
        tree=tree,
        gadget=state.gadget,
        target=jnp.zeros(layout.batch, jnp.int32),
        reach=tuple(x[state.target][:, None] for x in trees.reach),
        iterations=every(state.iterations),
        total=every(state.total),
        log=None if state.log is None else state.log.replace(key=None),
    )
