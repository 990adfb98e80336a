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

from jaxgames.arrays import safe_divide
from jaxgames.beliefs.contract import BeliefGame, Reach
from solvers.regret import RegretState
from solvers.search.forest import Forest, Layout, action_values_at, take
from solvers.search.kept_leaves import revalued
from solvers.search.outer_values import evaluated, outer_values
from solvers.search.query_log import with_calls
from solvers.search.search_state import Gadget, GrowingTreeCfr, Problem, Searches
from solvers.search.sweeps import inner_values, reaches, rounds_of
from solvers.sequence_form.sparse_sum import stored

_slice = jax.lax.dynamic_slice_in_dim


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
    rounds = rounds_of(forest, layout)
    reach = reaches(game, forest, layout, roots, weight, rounds=rounds)
    forest = forest.replace(reach=reach.last, reach_total=reach.total)
    # 2. Counterfactual values v_i of terminals, by their payoffs, and of leaves, by the evaluator.
    called = None  # which leaves; None: all
    if layout.keeps:
        evaluate = functools.partial(evaluated, game, params, settings)
        forest, called = revalued(forest, layout, evaluate, tolerance=settings.belief_tolerance)
    values = outer_values(game, params, forest, layout, weight, settings)
    log = state.log
    if log is not None and not layout.single_row:  # with one row leaves keep their first values
        log = with_calls(log, forest, layout, jnp.zeros(layout.batch, jnp.int32), called)
    # 3. Counterfactual values of nodes and of actions, v_i(s) and v_i(s, a), from the children up.
    values, by_action = inner_values(game, forest, layout, values, weight, rounds=rounds)
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


def learnt(forest: Forest, layout: Layout, weight: Array, step: Array, settings: GrowingTreeCfr):
    """Both players' tables with the regrets, policies and weighted sums after an iteration."""
    return tuple(_learnt(forest, layout, player, weight, step, settings) for player in range(2))


def _learnt(forest, layout, player, weight, step, settings):
    tables = forest.decisions[player]
    count = layout.most_decisions[player] if layout.together else layout.page
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
    if layout.together:
        memory = block(0, memory)
    else:
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
