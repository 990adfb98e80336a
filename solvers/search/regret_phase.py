"""The regret phase of growing-tree CFR: iterations of CFR on the tree as it is.

An iteration is that of CFR (Zinkevich et al. 2007) at the level of public states (Schmid et al.
2023, "Growing-tree CFR"): own reaches go down the tree, terminals and leaves are valued at these
reaches, counterfactual values go up, and the regrets, policies and averages of all nodes are
updated in one pass. Both players are updated at once.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from jaxgames.arrays import at, safe_divide, sum_actions
from jaxgames.beliefs.contract import BeliefGame
from solvers.batching import widest
from solvers.belief_sweeps import values_above
from solvers.search.query_log import with_leaves
from solvers.search.search_state import NO_RESOLVER, Gadget, GrowingTreeCfr, Search
from solvers.search.search_tree import CHUNK, child_at, columns, present_reach, with_columns
from solvers.sequence_form.sparse_sum import stored


def iterate(game: BeliefGame, params: PyTree, state: Search, *, settings: GrowingTreeCfr) -> Search:
    """One iteration of CFR with simultaneous updates, for both players and the gadget.

    Args:
      game: any belief-level game.
      params: of the evaluator.
      state: of the search.
      settings: of the search. Static under `jit`.

    Returns:
      The search after the iteration.
    """
    tree, step = state.tree, state.iterations + 1
    weight = step.astype(tree.average.dtype) ** settings.averaging_power
    nodes = widest(tree.count)
    # 1. Own reaches pi_i of all nodes, from the ranges at the root down. In a re-solved subgame
    #    the opponent's range is what the gadget lets in (Burch, Johanson and Bowling 2014).
    root = root_reach(game, state, settings=settings)
    tree = tree.replace(reach=_reaches(game, tree, root, nodes))
    # 2. Counterfactual values v_i of terminals, by their payoffs, and of leaves, by the evaluator.
    values = _outer_values(game, params, tree, settings.evaluate)
    log = state.log
    if log is not None and game.num_rows > 1:  # with one row leaves keep their first values
        log = with_leaves(game, log, tree, jnp.int32(0))
    # 3. Counterfactual values of nodes and of actions, v_i(s) and v_i(s, a), from the children up.
    values, actions = _inner_values(game, tree, values, nodes)
    tree = tree.replace(slot_values=values, action_values=actions)
    # 4. Regrets v_i(s, a) - v_i(s), the next policies by regret matching, and weighted averages.
    tree = _updated(game, tree, weight, settings.minimizer, step, nodes)
    # 5. The same for the opponent's choice in the gadget.
    values = columns(tree.slot_values, tree.parent[0], 1, game.num_rows)
    gadget = _updated_gadget(game, state, values, settings)
    total = state.total + weight
    return state.replace(tree=tree, gadget=gadget, iterations=step, total=total, log=log)


def root_reach(game: BeliefGame, state: Search, *, settings: GrowingTreeCfr) -> Float[Array, "2 N"]:
    """Both players' own reaches at the root of the tree.

    In a re-solved subgame the opponent's are a mixture of the gadget's probabilities of following
    and of its reaches in the search before (Schmid et al. 2023, "Modified continual re-solving",
    the shares alpha and 1 - alpha). Both parts are scaled to sum 1. With `range_by_policies` the
    first part stays as it is, and the second is scaled to a largest entry of 1.

    Args:
      game: any belief-level game.
      state: of the search.
      settings: of the search; `follow_share` is alpha.

    Returns:
      Reaches `[2, N]`; without a re-solver, those of the problem.
    """
    problem = state.problem
    opponent = 1 - jnp.maximum(problem.resolver, 0)
    rows, before = game.rows(problem.state)[opponent], problem.reach[opponent]
    follow = jnp.where(rows, state.gadget.follow, 0)
    if settings.range_by_policies:
        share, before = settings.follow_share, safe_divide(before, jnp.max(before))
    else:
        share = jnp.where(jnp.sum(follow) > 0, settings.follow_share, 0).astype(before.dtype)
        follow, before = (safe_divide(x, jnp.sum(x)) for x in (follow, before))
    mixed = share * follow + (1 - share) * before
    resolved = problem.reach.at[opponent].set(mixed)
    return jnp.where(problem.resolver == NO_RESOLVER, problem.reach, resolved)


def _reaches(game, tree, root, nodes):
    """Own reaches of all nodes `[2, E * N]`; parents come before their children."""
    rows, last = game.num_rows, len(tree.parent) - 1

    def down(e, reach):
        slot = tree.parent[e]
        node = jnp.minimum(slot // game.num_children, last)
        policy = columns(tree.minimizer.policy, node, 1, rows)
        here = columns(reach, node, 1, rows)
        below = game.down(at(tree.state, node), slot % game.num_children, here, policy)
        return with_columns(reach, below, e, rows)

    return jax.lax.fori_loop(1, nodes, down, with_columns(tree.reach, root, 0, rows))


def _outer_values(game, params, tree, evaluate):
    """The values of slots `[2, (X + 1) * N]`, with those of terminals and leaves brought up to
    date."""

    def terminal(slot, reach):
        state = child_at(tree, slot)
        return jnp.stack([game.terminal_values(state, p, reach[1 - p]) for p in range(2)])

    def leaf(slot, reach):
        if game.num_rows == 1:
            return tree.known_values[:, slot, None] * reach[::-1]
        return evaluate(params, game, child_at(tree, slot), reach)[0]

    values = tree.slot_values
    for slots, value in ((tree.terminals, terminal), (tree.leaves, leaf)):
        values = _valued(game, tree, values, slots, value)
    return values


def _valued(game, tree, values, slots, value):
    """`values` with `value(slot, reach)` at a list of slots."""
    rows, last = game.num_rows, len(tree.node) - 1

    def value_at(slot):
        slot = jnp.minimum(slot, last)
        return value(slot, present_reach(game, tree, slot))

    def chunk(i, values):
        slot = jax.lax.dynamic_slice_in_dim(slots.slot, i * CHUNK, CHUNK)
        new = jax.vmap(value_at)(slot).swapaxes(0, 1)
        return values.reshape(2, -1, rows).at[:, slot].set(new).reshape(2, -1)

    return jax.lax.fori_loop(0, _chunks(widest(slots.count)), chunk, values)


def _inner_values(game, tree, values, nodes):
    """The values of slots `[2, (X + 1) * N]` with those of nodes brought up to date, and of the
    actors' actions `[A, E * N]`."""
    rows, slots = game.num_rows, game.num_children
    once = jnp.minimum(nodes, 1)  # 1, which the compiler does not know

    def up(i, carry):
        values, actions = carry
        e = nodes - 1 - i
        # the only reader of `values`: with two, all of it would be copied before it is written
        below = stored(lambda table, e: columns(table, e * slots, slots, rows), once, values, e)
        below = below.reshape(2, slots, rows)
        policy = columns(tree.minimizer.policy, e, 1, rows)
        here, by_action = values_above(game, at(tree.state, e), below, policy)
        return (
            with_columns(values, here, tree.parent[e], rows),
            with_columns(actions, by_action, e, rows),
        )

    return jax.lax.fori_loop(0, nodes, up, (values, tree.action_values))


def _updated(game, tree, weight, minimizer, step, nodes):
    """The tree with the regrets, policies and weighted sums of all nodes after an iteration."""
    rows, slots, dtype = game.num_rows, game.num_children, tree.average.dtype
    once = jnp.minimum(nodes, 1)  # 1, which the compiler does not know

    def read(memory, i):
        return jax.tree.map(lambda table: columns(table, i * CHUNK, CHUNK, rows), memory)

    def chunk(i, carry):
        memory, average, reach_total, slot_total = carry
        take = lambda table, of=1: columns(table, i * CHUNK * of, CHUNK * of, rows)  # noqa: E731
        put = lambda table, new, of=1: with_columns(table, new, i * CHUNK * of, rows)  # noqa: E731
        # the only reader of `memory`: with two, all of it would be copied before it is written
        before = stored(read, once, memory, i)
        uniform, reach, values = take(tree.uniform), take(tree.reach), take(tree.action_values)
        own = jnp.where(take(tree.first[None]), reach[:1], reach[1:])
        value = sum_actions(before.policy * values)
        # instantaneous counterfactual regrets (Zinkevich et al. 2007)
        instant = jnp.where(uniform > 0, values - value[None], 0)
        after = minimizer.update(before, instant, uniform, step.astype(dtype))
        return (
            jax.tree.map(put, memory, after),
            put(average, take(average) + weight * own * before.policy),
            put(reach_total, take(reach_total) + weight * reach),
            put(
                slot_total, take(slot_total, slots) + weight * take(tree.slot_values, slots), slots
            ),
        )

    carry = (tree.minimizer, tree.average, tree.reach_total, tree.slot_total)
    memory, average, reach_total, slot_total = jax.lax.fori_loop(0, _chunks(nodes), chunk, carry)
    root = tree.parent[0]
    values = weight * columns(tree.slot_values, root, 1, rows)
    slot_total = with_columns(slot_total, columns(slot_total, root, 1, rows) + values, root, rows)
    return tree.replace(
        minimizer=memory,
        average=average,
        reach_total=reach_total,
        slot_total=slot_total,
    )


def _chunks(count):
    return (count + CHUNK - 1) // CHUNK


def _updated_gadget(game, state, values, settings):
    """The gadget after an iteration: regret matching+ of following against terminating.

    Following is worth the opponent's `values` at the root, terminating the problem's `opt_out`.
    """
    gadget, problem = state.gadget, state.problem
    opponent = 1 - jnp.maximum(problem.resolver, 0)
    options = jnp.stack([values[opponent], problem.opt_out])
    value = gadget.follow * options[0] + (1 - gadget.follow) * options[1]
    regret = jnp.maximum(gadget.regret + options - value[None], 0)
    total = jnp.sum(regret, axis=0)
    follow = jnp.where(total > 0, safe_divide(regret[0], total), 0.5)
    return Gadget(regret=regret, follow=follow.astype(value.dtype))
