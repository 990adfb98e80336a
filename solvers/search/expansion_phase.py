"""The expansion phase of growing-tree CFR: walks down the tree, which grows where they leave it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import CHANCE, TERMINAL, record
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
    """One simulation: a walk from the searched state to a leaf, which then joins the tree.

    `settled` are the visits at the last iteration, if there were simulations since.
    """
    tree, rows = state.tree, game.num_rows
    pair_key, walk_key = jax.random.split(key)
    here = at(tree.state, state.target)
    # drawn at once: on CPU a draw costs as much as several steps
    length, options = game.max_depth + 1, game.num_actions + game.num_children
    noise = jax.random.gumbel(walk_key, (length, options), tree.reach.dtype)
    walk = _Walk(
        node=state.target,
        pair=sample_pair(game, pair_key, here, columns(tree.reach, state.target, 1, rows)),
        steps=jnp.int32(0),
        visited=jnp.full((length, 2), LEAF, jnp.int32),
        slot=jnp.int32(LEAF),
    )
    walk = jax.lax.while_loop(
        lambda walk: walk.slot == LEAF,
        lambda walk: _step(game, noise[walk.steps], tree, walk, settings, settled),
        walk,
    )
    action, column = walk.visited.T
    column = jnp.where(action >= 0, column, tree.visits.shape[1])
    visits = tree.visits.at[jnp.maximum(action, 0), column].add(1, mode="drop")
    tree = _grown(game, params, tree.replace(visits=visits), walk.slot, state.total, settings)
    return state.replace(tree=tree)


@record
class _Walk:
    node: Array  # [] int32
    pair: Array  # [2] int32 rows of both players
    steps: Array  # [] int32
    visited: Array  # [D, 2] int32 action, column
    slot: Array  # [] int32 where the walk left the tree, or LEAF


def _step(game, noise, tree, walk, settings, settled):
    """One more step of a walk; leaves the tree where a slot has no node."""
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
    """What a simulation plays in a row: half PUCT, half CFR's average policy, `[A]`."""
    actor = jnp.maximum(game.actor(state), 0)
    column = node * game.num_rows + row
    reach = columns(tree.reach, node, 1, game.num_rows)[1 - actor]
    mass = game.compatible(state, actor, reach)[row]
    values = tree.action_values[:, column] / jnp.where(mass > 0, mass, 1)
    visits, legal = tree.visits[:, column], tree.uniform[:, column] > 0
    total = jnp.sum(visits)
    if settings.expand is not None:
        legal = game.legal(state)[:, row]
        total = total + 1  # the simulation that added the node: priors count from the first on
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
    """The tree after a walk that left it at a slot: a leaf is expanded; what was no leaf is one."""
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
    return asked(game, params, tree, new, settings.evaluate)


def _best(game, state, prior, count):
    """The children with the highest prior, `[k]`."""
    score = jnp.where(game.child_mask(state), prior, -1)
    return jax.lax.top_k(score, min(count, len(score)))[1].astype(jnp.int32)


def asked(
    game: BeliefGame,
    params: PyTree,
    tree: SearchTree,
    slots: Int[Array, " S"],
    evaluate: Evaluator,
) -> SearchTree:
    """The tree with what the evaluator says of some slots; of no slot X, nothing.

    With one row, values are so much per unit of opponent reach, whatever that is.
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
    """An index in proportion to its weight, by the Gumbel trick; of weight 0 only if all are."""
    logits = jnp.where(weights > 0, jnp.log(jnp.where(weights > 0, weights, 1)), -jnp.inf)
    return jnp.argmax(logits + noise).astype(jnp.int32)


def sample_pair(
    game: BeliefGame, key: Key[Array, ""], state: PublicState, reach: Float[Array, "2 N"]
) -> Int[Array, "2"]:
    """A pair of rows in proportion to both own reaches and chance; `key` is consumed."""
    noise = jax.random.gumbel(key, (2, game.num_rows), reach.dtype)
    first = sample(noise[0], reach[0] * game.compatible(state, 0, reach[1]))
    one_hot = jax.nn.one_hot(first, game.num_rows, dtype=reach.dtype)
    second = sample(noise[1], reach[1] * game.compatible(state, 1, one_hot))
    return jnp.stack([first, second])
