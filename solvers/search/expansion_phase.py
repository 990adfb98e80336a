"""The expansion phase of growing-tree CFR: simulations, each of which adds a node to the tree.

A simulation (Schmid et al. 2023, "Growing-tree CFR") draws a world state at the state searched and
walks down the tree, choosing actions half by PUCT and half by CFR's average policy, until it comes
to a leaf, whose children are then added.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import safe_divide
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import CHANCE, TERMINAL, record
from solvers.search.query_log import with_leaves
from solvers.search.search_state import Evaluator, GrowingTreeCfr, Search
from solvers.search.search_tree import (
    LEAF,
    SearchTree,
    add_child,
    at,
    average_policy_of,
    child_at,
    columns,
    expand,
    slot_reach,
)


def simulate(
    game: BeliefGame,
    params: PyTree,
    key: Key[Array, ""],
    state: Search,
    *,
    settings: GrowingTreeCfr,
    settled: Float[Array, "A EN"] | None = None,
) -> Search:
    """One simulation: a walk from the searched state to a leaf, which becomes a node.

    Args:
      game: any belief-level game.
      params: of the evaluator.
      key: consumed.
      state: of the search.
      settings: of the search. Static under `jit`.
      settled: visits `[A, E * N]` at the last iteration, if there were simulations since then.

    Returns:
      The search after the simulation.
    """
    tree, rows = state.tree, game.num_rows
    pair_key, walk_key = jax.random.split(key)
    here = at(tree.state, state.target)
    # All random numbers are drawn at once: on a CPU a draw costs as much as several steps.
    length, options = game.max_depth + 1, game.num_actions + game.num_children
    noise = jax.random.gumbel(walk_key, (length, options), tree.reach.dtype)
    # 1. A world state: a pair of rows, in proportion to both reaches and chance.
    walk = _Walk(
        node=state.target,
        pair=sample_pair(game, pair_key, here, columns(tree.reach, state.target, 1, rows)),
        steps=jnp.int32(0),
        visited=jnp.full((length, 2), LEAF, jnp.int32),
        slot=jnp.int32(LEAF),
    )
    # 2. The walk, until it leaves the nodes.
    walk = jax.lax.while_loop(
        lambda walk: walk.slot == LEAF,
        lambda walk: _step(game, noise[walk.steps], tree, walk, settings, settled),
        walk,
    )
    # 3. Visit counts of the actions taken, and the new node.
    action, column = walk.visited.T
    column = jnp.where(action >= 0, column, tree.visits.shape[1])
    visits = tree.visits.at[jnp.maximum(action, 0), column].add(1, mode="drop")
    grown = _grown(game, params, tree.replace(visits=visits), walk.slot, state.total, settings)
    log = state.log
    if log is not None and game.num_rows == 1:  # new leaves were valued, which are last in the list
        first = tree.leaves.count - (grown.count - tree.count)
        log = with_leaves(game, log, grown, first)
    return state.replace(tree=grown, log=log)


@record
class _Walk:
    node: Array  # [] int32
    pair: Array  # [2] int32 rows of both players
    steps: Array  # [] int32
    visited: Array  # [D, 2] int32 action, column
    slot: Array  # [] int32 where the walk left the tree, or LEAF


def _step(game, noise, tree, walk, settings, settled):
    """The walk a step further; it ends in a slot that has no node."""
    state = at(tree.state, walk.node)
    actor = game.actor(state)
    row = walk.pair[jnp.maximum(actor, 0)]
    selection = _selection(game, tree, state, walk.node, row, settings, settled)
    action = sample(noise[: game.num_actions], selection)
    pairs = game.follow(state, walk.pair, action)
    possible = game.child_mask(state) & jnp.all(pairs >= 0, axis=1)
    weights = jax.vmap(game.weight)(at(tree.children, walk.node), jnp.maximum(pairs, 0))
    child = sample(noise[game.num_actions :], jnp.where(possible, weights, 0))
    slot = walk.node * game.num_children + child
    below, column = tree.node[slot], walk.node * game.num_rows + row
    visit = jnp.where(actor == CHANCE, LEAF, jnp.stack([action, column]))
    return _Walk(
        node=jnp.maximum(below, 0),
        pair=pairs[child],
        steps=walk.steps + 1,
        visited=walk.visited.at[walk.steps].set(visit),
        slot=jnp.where(below == LEAF, slot, LEAF),
    )


def _selection(game, tree, state, node, row, settings, settled):
    """The policy `[A]` of simulations in a row: PUCT mixed with CFR's average policy.

    PUCT maximises q(a) + c * prior(a) * sqrt(n) / (1 + n(a)), with q the values of the last
    iteration per unit of compatible opponent reach (Silver et al. 2018; Schmid et al. 2023). Visits
    since the last iteration count as losses of `virtual_loss`.
    """
    actor = jnp.maximum(game.actor(state), 0)
    column = node * game.num_rows + row
    reach = columns(tree.reach, node, 1, game.num_rows)[1 - actor]
    mass = game.compatible(state, actor, reach)[row]
    values = safe_divide(tree.action_values[:, column], mass)
    visits, legal = tree.visits[:, column], tree.uniform[:, column] > 0
    total = jnp.sum(visits)
    if settings.expand is not None:
        legal = game.legal(state)[:, row]
        total = total + 1  # the simulation that added the node, so that priors count at once
    if settled is not None:
        under_way = visits - settled[:, column]
        weight = 1 + settled[:, column]
        values = (weight * values - settings.virtual_loss * under_way) / (weight + under_way)
    bonus = tree.prior[:, column] * jnp.sqrt(total) / (1 + visits)
    score = jnp.where(legal, values + settings.exploration * bonus, -jnp.inf)
    puct = jax.nn.one_hot(jnp.argmax(score), len(score), dtype=values.dtype)
    average = average_policy_of(
        tree.average[:, column, None], tree.minimizer.policy[:, column, None]
    )
    share = settings.cfr_share
    return share * average[:, 0] + (1 - share) * puct


def _grown(game, params, tree, slot, since, settings):
    """The tree after a walk that left it in a slot: a leaf becomes a node.

    With `settings.expand`, a child that was not yet added is added as a leaf instead.
    """
    leaf = child_at(tree, slot)
    grows = game.actor(leaf) != TERMINAL
    if game.num_rows > 1:
        _, prior = settings.evaluate(params, game, leaf, slot_reach(game, tree, slot))
        return expand(game, tree, slot, prior, since, grows)
    known, number = jnp.bool_(True), tree.count
    prior, among = tree.known_prior[:, slot, None], None
    new = jnp.arange(game.num_children, dtype=jnp.int32)
    if settings.expand is not None:
        known = tree.added[slot]
        new = _best(game, leaf, prior[:, 0], settings.expand)
        among = jnp.zeros(game.num_children, bool).at[new].set(True)
    tree = expand(game, tree, slot, prior, since, grows & known, among)
    new = jnp.where(tree.count > number, number * game.num_children + new, len(tree.node))
    if settings.expand is not None:
        tree = add_child(game, tree, slot, ~known)
        new = new.at[0].set(jnp.where(known, new[0], slot))
    return evaluated_slots(game, params, tree, new, settings.evaluate)


def _best(game, state, prior, count):
    """The numbers `[k]` of the children with the highest prior."""
    score = jnp.where(game.child_mask(state), prior, -1)
    return jax.lax.top_k(score, min(count, len(score)))[1].astype(jnp.int32)


def evaluated_slots(
    game: BeliefGame,
    params: PyTree,
    tree: SearchTree,
    slots: Int[Array, " S"],
    evaluate: Evaluator,
) -> SearchTree:
    """The tree with the evaluator's values and priors of some slots, for games with one row.

    With one row a value is proportional to the opponent's reach, so that one evaluation at reach 1
    serves all iterations.

    Args:
      game: a game with N = 1.
      params: of the evaluator.
      tree: of the search.
      slots: numbers of slots `[S]`; X, which is no slot, is passed over.
      evaluate: the evaluator.

    Returns:
      The tree with `known_values` and `known_prior` of these slots.
    """
    last = len(tree.node) - 1
    reach = jnp.ones((2, 1), tree.reach.dtype)
    values, prior = jax.vmap(
        lambda slot: evaluate(params, game, child_at(tree, jnp.minimum(slot, last)), reach)
    )(slots)
    return tree.replace(
        known_values=tree.known_values.at[:, slots].set(values[..., 0].T, mode="drop"),
        known_prior=tree.known_prior.at[:, slots].set(prior[..., 0].T, mode="drop"),
    )


def sample(noise: Float[Array, " X"], weights: Float[Array, " X"]) -> Int[Array, ""]:
    """Draws an index in proportion to its weight, by the Gumbel trick.

    Args:
      noise: standard Gumbel noise `[X]`.
      weights: non-negative `[X]`.

    Returns:
      The index; one of weight 0 only if all weights are 0.
    """
    logits = jnp.where(weights > 0, jnp.log(jnp.where(weights > 0, weights, 1)), -jnp.inf)
    return jnp.argmax(logits + noise).astype(jnp.int32)


def sample_pair(
    game: BeliefGame, key: Key[Array, ""], state: PublicState, reach: Float[Array, "2 N"]
) -> Int[Array, "2"]:
    """Draws a world state: a pair of rows, in proportion to both own reaches and chance.

    Args:
      game: any belief-level game.
      key: consumed.
      state: a public state.
      reach: own reaches `[2, N]` of both players there.

    Returns:
      A row of either player.
    """
    noise = jax.random.gumbel(key, (2, game.num_rows), reach.dtype)
    first = sample(noise[0], reach[0] * game.compatible(state, 0, reach[1]))
    one_hot = jax.nn.one_hot(first, game.num_rows, dtype=reach.dtype)
    second = sample(noise[1], reach[1] * game.compatible(state, 1, one_hot))
    return jnp.stack([first, second])
