"""The regret phase of growing-tree CFR: iterations of CFR on the trees as they are.

An iteration is that of CFR (Zinkevich et al. 2007) at the level of public states (Schmid et al.
2023, "Growing-tree CFR"): own reaches go down the tree, terminals and leaves are valued at these
reaches, counterfactual values go up, and the regrets, policies and averages of all decisions are
updated in one pass. Both players are updated at once, and all searches of a batch, level by level.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxgames.arrays import LONG, safe_divide, sum_actions
from jaxgames.beliefs.contract import BeliefGame, PublicState, Reach
from jaxgames.core import record
from solvers.regret import RegretState
from solvers.search import leaf_evaluators
from solvers.search.forest import (
    CHANCE_KIND,
    FACTOR_0,
    KINDS,
    MAPPED,
    NUMBER,
    SOURCE,
    Forest,
    Layout,
    action_values_at,
    actor_of,
    decision_rows,
    factor_rows,
)
from solvers.search.kept_leaves import revalued
from solvers.search.pages import over_pages
from solvers.search.query_log import with_calls
from solvers.search.search_state import Gadget, GrowingTreeCfr, Problem, Searches
from solvers.sequence_form.sparse_sum import stored

_slice = jax.lax.dynamic_slice_in_dim
_put = functools.partial(jax.lax.dynamic_update_slice_in_dim, axis=0)


def iterate(
    game: BeliefGame, params: PyTree, state: Searches, *, settings: GrowingTreeCfr
) -> Searches:
    """One iteration of CFR with simultaneous updates, for both players and the gadget.

    Args:
      game: any belief-level game.
      params: of the evaluator.
      state: of the searches.
      settings: of the searches. Static under `jit`.

    Returns:
      The searches after the iteration.
    """
    forest, layout, step = state.forest, state.layout, state.iterations + 1
    weight = step.astype(forest.since.dtype) ** settings.averaging_power
    # 1. Own reaches pi_i of all nodes, from the ranges at the root down. In a re-solved subgame
    #    the opponent's range is what the gadget lets in (Burch, Johanson and Bowling 2014).
    above = jax.vmap(functools.partial(root_reach, game, settings=settings))
    roots = above(state.problem, state.gadget)
    reach = reaches(game, forest, layout, roots, weight)
    forest = forest.replace(reach=reach.last, reach_total=reach.total)
    # 2. Counterfactual values v_i of terminals, by their payoffs, and of leaves, by the evaluator.
    called = None  # which leaves; None: all
    if layout.keeps:
        evaluate = functools.partial(evaluated, game, params, settings)
        forest, called = revalued(forest, layout, evaluate, tolerance=settings.belief_tolerance)
    values = outer_values(game, params, forest, layout, weight, settings)
    log = state.log
    if log is not None and not layout.single_row:  # with one row leaves keep their first values
        log = with_calls(game, log, forest, layout, jnp.zeros(layout.batch, jnp.int32), called)
    # 3. Counterfactual values of nodes and of actions, v_i(s) and v_i(s, a), from the children up.
    values, by_action = inner_values(game, forest, layout, values, weight)
    decisions = tuple(
        tables.replace(action_values=x)
        for tables, x in zip(forest.decisions, by_action, strict=True)
    )
    forest = forest.replace(values=values.last, values_total=values.total, decisions=decisions)
    # 4. Regrets v_i(s, a) - v_i(s), the next policies by regret matching, and weighted averages.
    forest = forest.replace(decisions=learnt(forest, layout, weight, step, settings))

    # 5. The same for the opponent's choice in the gadget.
    def chosen(values, weight):
        worth = tuple(table[forest.nodes[:, 0]] for table in values)
        return jax.vmap(_updated_gadget)(state.problem, state.gadget, worth), weight

    # This is stored, and what comes later waits for it (by the weight): otherwise it might be
    # computed after simulations have changed the tables of values, which XLA would copy for it.
    once = jnp.minimum(forest.count[0], 1)  # 1, which the compiler does not know
    gadget, weight = stored(chosen, once, forest.values, weight)
    total = state.total + weight
    return state.replace(forest=forest, gadget=gadget, iterations=step, total=total, log=log)


def root_reach(
    game: BeliefGame, problem: Problem, gadget: Gadget, *, settings: GrowingTreeCfr
) -> Reach:
    """Both players' own reaches at the root of the tree.

    In a re-solved subgame the opponent's are a mixture of the gadget's probabilities of following
    and of its reaches in the search before (Schmid et al. 2023, "Modified continual re-solving",
    the shares alpha and 1 - alpha). Both parts are scaled to sum 1. With `range_by_policies` the
    first part stays as it is, and the second is scaled to a largest entry of 1.

    Args:
      game: any belief-level game.
      problem: of one search.
      gadget: of the search.
      settings: of the search; `follow_share` is alpha.

    Returns:
      Reaches of both players; without a re-solver, those of the problem.
    """
    rows, reaches = game.rows(problem.state), []
    for player, before in enumerate(problem.reach):
        follow, last = jnp.where(rows[player], gadget.follow[player], 0), before
        if settings.range_by_policies:
            share, last = settings.follow_share, safe_divide(last, jnp.max(last))
        else:
            share = jnp.where(jnp.sum(follow) > 0, settings.follow_share, 0).astype(last.dtype)
            follow, last = (safe_divide(x, jnp.sum(x)) for x in (follow, last))
        mixed = share * follow + (1 - share) * last
        reaches.append(jnp.where(problem.resolver == 1 - player, mixed, before))
    return reaches[0], reaches[1]


def take(table: Array, index: Array) -> Array:
    """Rows of a table by numbers that are in range."""
    return table.at[index].get(mode="promise_in_bounds")


@record
class Table:
    """Both players' reaches or values in the last iteration, and their weighted sums."""

    last: tuple[Array, Array]
    total: tuple[Array, Array]


def _written(table: Table, new, first: Array, weight: Array) -> Table:
    """The table with new rows `[count, N]` of both players from one place on."""
    total = (
        _slice(old, first, len(x)) + weight * x for old, x in zip(table.total, new, strict=True)
    )
    return Table(
        last=tuple(_put(old, x, first) for old, x in zip(table.last, new, strict=True)),
        total=tuple(_put(old, x, first) for old, x in zip(table.total, total, strict=True)),
    )


def reaches(
    game: BeliefGame,
    forest: Forest,
    layout: Layout,
    roots: tuple[Array, Array],
    weight: Array,
) -> Table:
    """Own reaches of all nodes, of mapped nodes' children, and of the roots `[B, N]`."""
    begin = tuple(
        _put(table, root, layout.first_root)
        for table, root in zip(forest.reach, roots, strict=True)
    )
    begin = Table(last=begin, total=forest.reach_total)

    def level(depth, reach):
        for kind in range(KINDS):
            step = functools.partial(down, kind)
            reach = over_pages(forest.pages, depth * KINDS + kind, step, reach, page=layout.page)
        return reach

    def down(kind, first, reach):
        here = arriving(forest, layout, first, layout.page, reach.last)
        reach = _written(reach, here, first, weight)
        if layout.straight[kind]:
            return reach
        return reach.replace(last=spread(kind, first, here, reach.last))

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

    return jax.lax.fori_loop(0, forest.deepest + 1, level, begin)


def page_policy(forest: Forest, layout: Layout, kind: int, links: Array) -> tuple[Array, Array]:
    """The present policies `[C, A, N]` of the actors on a page of nodes of one kind; 0 of who does
    not act."""
    sizes = zip(layout.actions, layout.rows, strict=True)
    none = [jnp.zeros((layout.page, *size), forest.since.dtype) for size in sizes]
    if kind != CHANCE_KIND:
        none[kind] = decision_rows(forest.decisions[kind].policy, links[:, NUMBER])
    return none[0], none[1]


def arriving(forest: Forest, layout: Layout, first: Array, count: int, reach):
    """Both players' own reaches `[count, N]` at some places in a row."""
    links = _slice(forest.links, first, count)
    return tuple(
        jnp.where(
            _slice(forest.masks[p], first, count),
            take(reach[p], links[:, SOURCE])
            * take(factor_rows(forest.decisions[p]), links[:, FACTOR_0 + p]),
            0,
        )
        for p in range(2)
    )


def outer_values(
    game: BeliefGame,
    params: PyTree,
    forest: Forest,
    layout: Layout,
    weight: Array,
    settings: GrowingTreeCfr,
) -> Table:
    """The values of all places, with those of terminals and leaves brought up to date."""

    def terminals(kind, values):
        def page(first, values):
            first = layout.terminal_page(first // layout.page)
            here = arriving(forest, layout, first, layout.page, forest.reach)
            states = jax.tree.map(lambda x: _slice(x, first, layout.page), forest.state)
            worth = game.terminal_page(kind, states, here)
            masks = (_slice(table, first, layout.page) for table in forest.masks)
            worth = tuple(jnp.where(mask, x, 0) for mask, x in zip(masks, worth, strict=True))
            return _written(values, worth, first, weight)

        return over_pages(forest.terminals, kind, page, values, page=layout.page)

    def leaves(i, values):
        first = layout.inner + i * layout.chunk
        here = arriving(forest, layout, first, layout.chunk, forest.reach)
        if layout.single_row:
            known = (_slice(x, i * layout.chunk, layout.chunk) for x in forest.known.values)
            worth = tuple(x * r for x, r in zip(known, here[::-1], strict=True))
            return _written(values, worth, first, weight)
        if layout.keeps:
            kept = (_slice(x, i * layout.chunk, layout.chunk) for x in forest.kept.values)
            mass = (jnp.sum(r, axis=1, keepdims=True) for r in here[::-1])
            worth = tuple(x * m for x, m in zip(kept, mass, strict=True))
            return _written(values, worth, first, weight)
        states = jax.tree.map(lambda x: _slice(x, first, layout.chunk), forest.state)
        number = i * layout.chunk
        ahead = jax.tree.map(lambda x: _slice(x, number, layout.chunk), forest.prepared)
        worth = evaluated(game, params, settings, states, ahead, here)
        return _written(values, worth, first, weight)

    values = Table(last=forest.values, total=forest.values_total)
    values = jax.lax.fori_loop(0, layout.terminal_kinds, terminals, values)
    if settings.evaluate is leaf_evaluators.zero:  # which is what new leaves are worth anyway
        return values
    chunks = -(-forest.num_leaves // layout.chunk)
    return jax.lax.fori_loop(0, chunks, leaves, values)


def evaluated(
    game: BeliefGame,
    params: PyTree,
    settings: GrowingTreeCfr,
    states: PublicState,
    ahead: PyTree,
    reach: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Both players' values `[C, N]` of C leaves, by the evaluator; `ahead` is what it prepared."""
    if ahead is None:
        return jax.vmap(lambda s, r: settings.evaluate(params, game, s, r)[0])(states, reach)
    value = functools.partial(settings.evaluate.prepared_values, params, game)
    return jax.vmap(value)(states, ahead, reach)


def inner_values(
    game: BeliefGame, forest: Forest, layout: Layout, values: Table, weight: Array
) -> tuple[Table, tuple[Array | None, Array | None]]:
    """The values of all places with those of nodes brought up to date, and, by player, the values
    of mapped decisions' actions."""
    carry = values, tuple(tables.action_values for tables in forest.decisions)

    def level(i, carry):
        for kind in range(KINDS):
            number = (forest.deepest - i) * KINDS + kind
            step = functools.partial(up, kind)
            carry = over_pages(forest.pages, number, step, carry, page=layout.page)
        return carry

    def up(kind, first, carry):
        links = _slice(forest.links, first, layout.page)
        pointers = _slice(forest.pointers, first, layout.page)
        values, actions = carry
        if not layout.straight[kind]:
            here, actions = mapped(kind, first, links, pointers, values.last, actions)
        elif kind == CHANCE_KIND:
            here = [sum_actions(children_of(pointers, table)) for table in values.last]
        else:
            here = decided(kind, links, pointers, values.last)
        return _written(values, tuple(here), first, weight), actions

    def children_of(pointers, table):
        """Rows `[K, C, N]` of all children of a page's nodes."""
        if layout.children > LONG:
            return take(table, pointers.T)
        return jnp.stack([take(table, pointers[:, k]) for k in range(layout.children)])

    def decided(player, links, pointers, values):
        """Values at straight decisions: the actor's by its policy, the other's a sum."""
        if layout.children > LONG:  # then child k is where action k leads
            below = [children_of(pointers[:, : layout.actions[player]], x) for x in values]
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

    def mapped(kind, first, links, pointers, values, actions):
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

    return jax.lax.fori_loop(0, forest.deepest + 1, level, carry)


def learnt(forest: Forest, layout: Layout, weight: Array, step: Array, settings: GrowingTreeCfr):
    """Both players' tables with the regrets, policies and weighted sums after an iteration."""
    return tuple(_learnt(forest, layout, player, weight, step, settings) for player in range(2))


def _learnt(forest, layout, player, weight, step, settings):
    tables, count = forest.decisions[player], layout.block
    actions, rows = layout.actions[player], layout.rows[player]
    values, reach = forest.values[player], forest.reach[player]
    once = jnp.minimum(tables.count, 1)  # 1, which the compiler does not know

    def read(memory, first):
        return [_slice(table, first, count, axis=1).reshape(actions, -1) for table in memory]

    def block(i, memory):
        first = i * count
        place = _slice(tables.place, first, count)
        value, own = (take(table, place).reshape(-1) for table in (values, reach))
        if tables.action_values is None:
            pointers = take(forest.pointers, place)
            by_action = action_values_at(forest, layout, player, pointers, None)
        else:
            by_action = _slice(tables.action_values, first, count).swapaxes(0, 1)
        by_action = by_action.reshape(actions, -1)
        # the only reader of `memory`: with two, all of it would be copied before it is written
        regret, policy, average = stored(read, once, memory, first)
        uniform = _slice(tables.uniform, first, count, axis=1).reshape(actions, -1)
        # instantaneous counterfactual regrets (Zinkevich et al. 2007)
        instant = jnp.where(uniform > 0, by_action - value[None], 0)
        before = RegretState(regret=regret, policy=policy)
        after = settings.minimizer.update(before, instant, uniform, step.astype(value.dtype))
        new = after.regret, after.policy, average + weight * own[None] * policy
        return tuple(
            jax.lax.dynamic_update_slice_in_dim(
                table, x.reshape(actions, count, rows), first, axis=1
            )
            for table, x in zip(memory, new, strict=True)
        )

    memory = tables.regret, tables.policy, tables.average
    memory = jax.lax.fori_loop(0, -(-tables.count // count), block, memory)
    return tables.replace(**dict(zip(("regret", "policy", "average"), memory, strict=True)))


def _updated_gadget(problem, gadget, values):
    """The gadget after an iteration: regret matching+ of following against terminating.

    Following is worth a player's `values` at the root, terminating the problem's `opt_out`.
    """
    regrets, follows = [], []
    for player in range(2):
        follow = gadget.follow[player]
        options = jnp.stack([values[player], problem.opt_out[player]])
        value = follow * options[0] + (1 - follow) * options[1]
        regret = jnp.maximum(gadget.regret[player] + options - value[None], 0)
        total = jnp.sum(regret, axis=0)
        follow = jnp.where(total > 0, safe_divide(regret[0], total), 0.5)
        regrets.append(regret)
        follows.append(follow.astype(value.dtype))
    return Gadget(regret=tuple(regrets), follow=tuple(follows))
