"""The regret phase of growing-tree CFR: one iteration of CFR on the tree as it is.

Down the nodes go reaches, up come values; terminals and leaves are looked at in lists, and learning
is one pass over the rows of all nodes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from jaxgames.arrays import at, safe_divide, sum_actions
from jaxgames.beliefs.contract import BeliefGame, PublicState
from solvers.batching import widest
from solvers.search.search_state import NO_RESOLVER, Gadget, GrowingTreeCfr, Search
from solvers.search.search_tree import CHUNK, child_at, columns, with_columns
from solvers.sequence_form.sparse_sum import stored


def iterate(game: BeliefGame, params: PyTree, state: Search, *, settings: GrowingTreeCfr) -> Search:
    """One iteration of CFR, simultaneous."""
    tree, step = state.tree, state.iterations + 1
    weight = step.astype(tree.average.dtype) ** settings.averaging_power
    nodes = widest(tree.count)
    root = root_reach(game, state, settings=settings)
    tree = tree.replace(reach=_reaches(game, tree, root, nodes))
    values = _values_outside(game, params, tree, settings.evaluate)
    values, actions = _values_inside(game, tree, values, nodes)
    tree = tree.replace(slot_values=values, action_values=actions)
    tree = _learn(game, tree, weight, settings.minimizer, step, nodes)
    values = columns(tree.slot_values, tree.parent[0], 1, game.num_rows)
    gadget = _answer(game, state, values, settings)
    return state.replace(tree=tree, gadget=gadget, iterations=step, total=state.total + weight)


def root_reach(game: BeliefGame, state: Search, *, settings: GrowingTreeCfr) -> Float[Array, "2 N"]:
    """Own reaches at the root: in a re-solved subgame the opponent's is what the gadget follows
    with, mixed with what the search before had, both to one sum; if that is by policies alone,
    as probabilities, the highest of which becomes 1."""
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
    """Own reaches of all nodes `[2, E * N]`."""
    rows, last = game.num_rows, len(tree.parent) - 1

    def down(e, reach):
        slot = tree.parent[e]
        node = jnp.minimum(slot // game.num_children, last)
        policy = columns(tree.minimizer.policy, node, 1, rows)
        here = columns(reach, node, 1, rows)
        below = game.down(at(tree.state, node), slot % game.num_children, here, policy)
        return with_columns(reach, below, e, rows)

    return jax.lax.fori_loop(1, nodes, down, with_columns(tree.reach, root, 0, rows))


def _values_outside(game, params, tree, evaluate):
    """The values of slots `[2, (X + 1) * N]`, those of terminals and leaves as they are now."""

    def end(slot, reach):
        state = child_at(tree, slot)
        return jnp.stack([game.terminal_values(state, p, reach[1 - p]) for p in range(2)])

    def leaf(slot, reach):
        if game.num_rows == 1:
            return tree.known_values[:, slot, None] * reach[::-1]
        return evaluate(params, game, child_at(tree, slot), reach)[0]

    values = tree.slot_values
    for slots, value in ((tree.terminals, end), (tree.leaves, leaf)):
        values = _valued(game, tree, values, slots, value)
    return values


def _valued(game, tree, values, slots, value):
    """`values` with `value(slot, reach)` at a list of slots."""
    rows, last = game.num_rows, len(tree.node) - 1

    def one(slot):
        slot = jnp.minimum(slot, last)
        node, child = slot // game.num_children, slot % game.num_children
        policy = columns(tree.minimizer.policy, node, 1, rows)
        here = columns(tree.reach, node, 1, rows)
        return value(slot, game.down(at(tree.state, node), child, here, policy))

    def chunk(i, values):
        slot = jax.lax.dynamic_slice_in_dim(slots.slot, i * CHUNK, CHUNK)
        found = jax.vmap(one)(slot).swapaxes(0, 1)
        return values.reshape(2, -1, rows).at[:, slot].set(found).reshape(2, -1)

    return jax.lax.fori_loop(0, _chunks(widest(slots.count)), chunk, values)


def _values_inside(game, tree, values, nodes):
    """The values of slots `[2, (X + 1) * N]`, with those of the nodes in them, and of actions."""
    rows, slots = game.num_rows, game.num_children
    one = jnp.minimum(nodes, 1)  # unknown to the compiler

    def up(i, carry):
        values, actions = carry
        e = nodes - 1 - i
        # the only one to read `values`: with two, all of them would be copied before the writing
        below = stored(lambda table, e: columns(table, e * slots, slots, rows), one, values, e)
        below = below.reshape(2, slots, rows)
        policy = columns(tree.minimizer.policy, e, 1, rows)
        here, found = values_above(game, at(tree.state, e), below, policy)
        return (
            with_columns(values, here, tree.parent[e], rows),
            with_columns(actions, found, e, rows),
        )

    return jax.lax.fori_loop(0, nodes, up, (values, tree.action_values))


def values_above(
    game: BeliefGame,
    state: PublicState,
    below: Float[Array, "2 K N"],
    policy: Float[Array, "A N"],
) -> tuple[Float[Array, "2 N"], Float[Array, "A N"]]:
    """Values of both players, and of the actor's actions, from those in the children."""
    actions, seen = game.up(state, below)
    own = sum_actions(policy * actions)
    acts = jnp.arange(2, dtype=jnp.int32)[:, None] == game.actor(state)
    return jnp.where(acts, own[None], seen), actions


def _learn(game, tree, weight, minimizer, step, nodes):
    """All nodes after an iteration: regrets, policies, sums for averages."""
    rows, slots, dtype = game.num_rows, game.num_children, tree.average.dtype
    one = jnp.minimum(nodes, 1)  # unknown to the compiler

    def read(memory, i):
        return jax.tree.map(lambda table: columns(table, i * CHUNK, CHUNK, rows), memory)

    def chunk(i, carry):
        memory, average, reach_total, slot_total = carry
        take = lambda table, of=1: columns(table, i * CHUNK * of, CHUNK * of, rows)  # noqa: E731
        put = lambda table, new, of=1: with_columns(table, new, i * CHUNK * of, rows)  # noqa: E731
        # the only reader of `memory`: with two, all of it would be copied before the writing
        before = stored(read, one, memory, i)
        uniform, reach, found = take(tree.uniform), take(tree.reach), take(tree.action_values)
        own = jnp.where(take(tree.first[None]), reach[:1], reach[1:])
        value = sum_actions(before.policy * found)
        instant = jnp.where(uniform > 0, found - value[None], 0)
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


def _answer(game, state, values, settings):
    """Regret matching+ of the opponent's choice between following and terminating."""
    gadget, problem = state.gadget, state.problem
    opponent = 1 - jnp.maximum(problem.resolver, 0)
    options = jnp.stack([values[opponent], problem.opt_out])
    value = gadget.follow * options[0] + (1 - gadget.follow) * options[1]
    regret = jnp.maximum(gadget.regret + options - value[None], 0)
    total = jnp.sum(regret, axis=0)
    follow = jnp.where(total > 0, regret[0] / jnp.where(total > 0, total, 1), 0.5)
    return Gadget(regret=regret, follow=follow.astype(value.dtype))
