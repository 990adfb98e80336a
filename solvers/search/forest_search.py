"""Growing-tree CFR on a forest: how the searches of a batch start, and what they leave.

Nodes have all their children. The iterations are in `regret_phase`, and the simulations in
`expansion_phase`.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame
from solvers.search.expansion_phase import reach_of
from solvers.search.forest import (
    CHILD,
    NUMBER,
    PARENT,
    Layout,
    average_policies,
    decision_rows,
    new_forest,
)
from solvers.search.forest_growth import add_roots, expand, no_prior
from solvers.search.search_state import NO_STEP, Gadget, GrowingTreeCfr, Problem, Search, Searches
from solvers.search.search_tree import LEAF, SearchTree, uniform

_MOST_CHILDREN = 1024  # of a node; with more, trees would have room for little else
_LARGEST_PAGE = 64  # places on a CPU, whose nearest cache larger pages leave
_LARGEST_CHUNK = 256  # leaves on a CPU


def layout_of(
    game: BeliefGame, settings: GrowingTreeCfr, batch: int, *, listed: bool = False
) -> Layout:
    """The sizes of the forest of a batch of searches.

    Args:
      game: any belief-level game.
      settings: of the searches.
      batch: B, how many there are.
      listed: whether to list the leaves of each search; they are for logs of queries anyway.
    """
    nodes, most = settings.capacity, game.num_children
    slots, path = nodes * most, (1 + settings.max_path) * most
    if settings.children is not None:
        slots = min(slots, path + math.ceil(settings.children * nodes) + most)
    inner, ends = (slots if size is None else min(slots, size) for size in game.most_states)
    together = jax.default_backend() != "cpu"
    if not together:
        page = _power_of_two(batch * nodes // 64, 4, _LARGEST_PAGE)
        chunk = _power_of_two(batch * inner // 4, page, _LARGEST_CHUNK)
    else:  # steps cost more than room: a level is one page, or a few
        page = chunk = _power_of_two(batch * nodes // 4, 64, 2**16)
    return Layout(
        batch=batch,
        nodes=nodes,
        decisions=tuple(_most_decisions(share, settings) for share in settings.decision_shares),
        slots=slots,
        rows=game.num_rows,
        actions=game.num_actions,
        children=game.num_children,
        straight=game.straight,
        action_of_child=game.action_of_child,
        levels=min(game.max_depth + 1, nodes),
        page=page,
        chunk=chunk,
        terminal_kinds=game.terminal_kinds,
        most_terminals=ends,
        most_leaves=inner,
        listed=listed or settings.logged_queries > 0,
        keeps=settings.belief_tolerance > 0,
        together=together,
    )


def _most_decisions(share, settings):
    """Nodes of a tree at which a player may act: all of a path, and a share of the others."""
    start = 1 + settings.max_path
    return min(settings.capacity, start + math.ceil(share * (settings.capacity - start)))


def _power_of_two(number, least, most):
    size = least
    while size < min(number, most):
        size *= 2
    return size


def start(
    game: BeliefGame,
    params: PyTree,
    *,
    problems: Problem,
    settings: GrowingTreeCfr,
    listed: bool = False,
) -> Searches:
    """Searches before their first iteration.

    Their trees have the nodes of the problems' paths, from the roots to the states that the
    searches act at, and all their children as leaves.

    Args:
      game: any belief-level game.
      params: of the evaluator.
      problems: what to search, `[B, ...]`.
      settings: how to search. Static under `jit`.
      listed: whether the leaves of each search are listed, in `forest.leaves`.

    Returns:
      The searches.

    Raises:
      ValueError: the game has too many children to make all of them.
    """
    _check_children(game)
    batch = len(problems.path)
    layout, dtype = layout_of(game, settings, batch, listed=listed), problems.reach[0].dtype
    forest = new_forest(game, params, layout, dtype, evaluate=settings.evaluate)
    forest, place = add_roots(
        game, params, forest, layout, problems.state, evaluate=settings.evaluate
    )
    if layout.single_row:  # with perfect information reach would only scale all values
        problems = problems.replace(reach=jax.tree.map(jnp.ones_like, problems.reach))
    forest, place, reach = _grow_paths(game, params, forest, layout, place, problems, settings)
    evaluate = jax.vmap(lambda s, r: settings.evaluate(params, game, s, r))
    _, prior = evaluate(at(forest.state, place), reach)
    return Searches(
        layout=layout,
        problem=problems,
        forest=_with_prior(forest, layout, place, prior),
        gadget=Gadget(
            regret=tuple(jnp.zeros((batch, 2, rows), dtype) for rows in layout.rows),
            follow=tuple(jnp.full((batch, rows), 0.5, dtype) for rows in layout.rows),
        ),
        target=place,
        iterations=jnp.int32(0),
        total=jnp.zeros((), dtype),
    )


def _grow_paths(game, params, forest, layout, place, problems, settings):
    """The forest with the nodes of the problems' paths, the places `[B]` where these end, and both
    players' reach there under uniform policies."""
    dtype = problems.reach[0].dtype
    grow = functools.partial(
        expand,
        game,
        params,
        prior=no_prior(layout, dtype),
        since=jnp.zeros(layout.batch, dtype),
        evaluate=settings.evaluate,
    )

    @jax.vmap
    def down(state, child, reach):
        policy = uniform(game, state, dtype)  # those of the path are uniform so far
        return game.down(state, child, reach, policy)

    def follow(step, carry):
        forest, place, reach = carry
        child = problems.path[:, step]
        leaf = forest.pointers[place, jnp.maximum(child, 0)]
        below = down(at(forest.state, place), jnp.maximum(child, 0), reach)
        forest, new = grow(forest, layout, leaf, child != NO_STEP)
        grown = new < layout.inner
        reach = jax.tree.map(lambda x, y: jnp.where(grown[:, None], x, y), below, reach)
        return forest, jnp.where(grown, new, place), reach

    carry, length = (forest, place, problems.reach), problems.path.shape[1]
    if not length:
        return carry
    # a loop: the program is as long for any length of the path
    return jax.lax.fori_loop(0, length, follow, carry)


def _check_children(game):
    if game.num_children > _MOST_CHILDREN:
        raise ValueError(
            f"expand=None makes all {game.num_children} children of each node of {game.name}, more"
            f" than {_MOST_CHILDREN}; allowed: expand from 1 to {game.num_children}"
        )


def _with_prior(forest, layout, place, prior):
    """The forest with the priors `[B, A, N]` of both players at some nodes where they act."""
    number = forest.links[place, NUMBER]
    decisions = []
    for tables, own in zip(forest.decisions, prior, strict=True):
        column = jnp.where(tables.place[number] == place, number, layout.no_decision)
        new = tables.prior.at[:, column].set(own.swapaxes(0, 1), mode="drop")
        decisions.append(tables.replace(prior=new))
    return forest.replace(decisions=tuple(decisions))


def finish(state: Searches) -> Search:
    """The searches as they are, each with a tree of its own.

    Args:
      state: B searches in progress.

    Returns:
      Finished searches `[B, ...]`.
    """
    forest, layout = state.forest, state.layout
    place = jnp.minimum(forest.nodes, layout.inner - 1)
    links, pointers = forest.links[place], forest.pointers[place]
    used = jnp.arange(layout.nodes, dtype=jnp.int32)[None] < forest.count[:, None]
    is_node = used[..., None] & (pointers < layout.inner)
    above = jnp.maximum(links[..., PARENT], 0)
    decisions = [_decisions(forest, layout, p, place, links, used) for p in range(2)]
    decision, policy, visits = (tuple(pair) for pair in zip(*decisions, strict=True))
    slot, children = _enumerated(used[..., None] & (pointers < layout.nowhere), layout.slots)
    below = jnp.append(
        pointers.reshape(layout.batch, -1),
        jnp.full((layout.batch, 1), layout.nowhere, jnp.int32),
        axis=1,
    )
    below = jnp.take_along_axis(below, children, axis=1)
    tree = SearchTree(
        count=forest.count,
        state=at(forest.state, place),
        parent=jnp.where(used & (links[..., PARENT] >= 0), forest.index[above], LEAF),
        child=links[..., CHILD],
        node=jnp.where(is_node, forest.index[jnp.where(is_node, pointers, 0)], LEAF),
        since=forest.since[place],
        decision=decision,
        policy=policy,
        visits=visits,
        reach_total=at(forest.reach_total, place),
        values_total=at(forest.values_total, place),
        slot=slot,
        child_values_total=at(forest.values_total, below),
    )
    every = lambda x: jnp.broadcast_to(x, layout.batch)  # noqa: E731
    return Search(
        problem=state.problem,
        tree=tree,
        target=forest.index[state.target],
        reach=reach_of(forest, state.target),
        iterations=every(state.iterations),
        total=every(state.total),
        log=None if state.log is None else state.log.replace(key=None),
    )


def _decisions(forest, layout, player, place, links, used):
    """Where the nodes `[B, E]` are among a player's decisions, and the average policies and visits
    `[B, D, A, N]` of these."""
    tables, most = forest.decisions[player], layout.decisions[player]
    number = jnp.minimum(links[..., NUMBER], layout.room[player] - 1)
    acts = used & (tables.place[number] == place)
    decision, nodes = _enumerated(acts, most)
    last = jnp.full((layout.batch, 1), layout.room[player] - 1, jnp.int32)
    number = jnp.take_along_axis(jnp.append(number, last, axis=1), nodes[:, :most], axis=1)
    shape = layout.batch, most, layout.actions[player], layout.rows[player]
    flat = number.reshape(-1)
    given = (nodes[:, :most] < layout.nodes)[..., None, None]
    policy = average_policies(tables, flat).reshape(shape)
    visits = decision_rows(tables.visits, flat).reshape(shape)
    return decision, jnp.where(given, policy, 0), jnp.where(given, visits, 0)


def _enumerated(mask, most):
    """Numbers of the entries `[B, ...]` of a mask, `most` for others; and the entries by number
    `[B, most + 1]`, flat, the number of all entries where there are fewer."""
    flat = mask.reshape(len(mask), -1)
    number = jnp.where(flat, jnp.cumsum(flat, axis=1, dtype=jnp.int32) - 1, most)
    size = flat.shape[1]
    entries = jnp.full((len(mask), most + 1), size, jnp.int32)
    searches = jnp.arange(len(mask), dtype=jnp.int32)[:, None]
    every = jnp.arange(size, dtype=jnp.int32)[None]
    entries = entries.at[searches, jnp.where(flat, number, most + 1)].set(every, mode="drop")
    return number.reshape(mask.shape), entries
