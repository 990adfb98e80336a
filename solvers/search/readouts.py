"""What a finished search tells: policies, values and reaches where it acted, and its leaf queries.

A search's tree starts at the state of its problem, the *root*; the search acts at its *target*,
below the root by the problem's path.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.arrays import at, safe_divide
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL
from solvers.search.search_state import Search
from solvers.search.search_tree import LEAF, child_at, columns, node_policy, node_row_count


def target_state(search: Search) -> PublicState:
    """The public state at which the search acts."""
    return at(search.tree.state, search.target)


def average_policy(search: Search) -> Float[Array, "A N"]:
    """What the search says that the actor at its target should play.

    Args:
      search: with at least one iteration.

    Returns:
      The average policy `[A, N]` for all rows of the actor.
    """
    return node_policy(search.tree, search.target)


def average_values(search: Search) -> Float[Array, "2 N"]:
    """What the search says that the root of its tree is worth.

    Args:
      search: with at least one iteration.

    Returns:
      Average counterfactual values `[2, N]` of both players.
    """
    tree = search.tree
    total = columns(tree.slot_total, tree.parent[0], 1, node_row_count(tree))
    return safe_divide(total, search.total)


def last_reach(search: Search) -> Float[Array, "2 N"]:
    """Both players' own reaches at the target, in the last iteration."""
    return columns(search.tree.reach, search.target, 1, node_row_count(search.tree))


def average_reach(search: Search) -> Float[Array, "2 N"]:
    """Both players' own reaches at the target, averaged over the iterations.

    Those of a re-solver's opponent are the gadget's.
    """
    tree = search.tree
    weight = search.total - tree.since[search.target]
    total = columns(tree.reach_total, search.target, 1, node_row_count(tree))
    return safe_divide(total, weight)


def expected_payoff(game: BeliefGame, search: Search, rows: Int[Array, "2"]) -> Float[Array, ""]:
    """What the actor at the target may expect to win in one world state.

    Args:
      game: of the search.
      search: with at least one iteration.
      rows: of both players, which say what the world state is.

    Returns:
      The average value of the actor's row per unit of compatible opponent reach; 0 where the
      search's beliefs rule the world state out.
    """
    tree, state = search.tree, target_state(search)
    actor = jnp.maximum(game.actor(state), 0)
    values = columns(tree.slot_total, tree.parent[search.target], 1, game.num_rows)
    reach = columns(tree.reach_total, search.target, 1, game.num_rows)  # of the same iterations
    mass = game.compatible(state, actor, reach[1 - actor])[rows[actor]]
    return jnp.where(mass > 0, safe_divide(values[actor, rows[actor]], mass), 0)


def leaf_queries(
    game: BeliefGame, search: Search, key: Key[Array, ""], *, count: int
) -> tuple[PublicState, Float[Array, "C 2 N"], Bool[Array, " C"]]:
    """A random sample of the public belief states that the evaluator was asked about.

    Different slots are drawn, in proportion to the number of nodes added while they were leaves.
    Their reaches are those of the search's last policies. (Student of Games logs queries as they
    are made; drawing them afterwards needs no memory during the search.)

    Args:
      game: of the search.
      search: a finished search.
      key: consumed.
      count: C, how many to draw.

    Returns:
      Public states (leading axis C), own reaches `[C, 2, N]` of both players, and a mask `[C]` of
      the queries that exist and that both players can reach.
    """
    tree, slots = search.tree, game.num_children
    number = jnp.arange(len(tree.parent), dtype=jnp.int32)
    node = tree.node.reshape(-1, slots)
    end = jnp.where(node == LEAF, tree.count, node)
    age = jnp.where((number < tree.count)[:, None], end - number[:, None], 0)
    mask = jax.vmap(game.child_mask)(tree.state)
    if tree.added is not None:
        mask = tree.added.reshape(mask.shape)
    actor = jax.vmap(jax.vmap(game.actor))(tree.children)
    weight = jnp.where(mask & (actor != TERMINAL), age, 0).reshape(-1)
    noise = jax.random.gumbel(key, weight.shape, tree.reach.dtype)
    score = jnp.log(jnp.maximum(weight, 1).astype(noise.dtype)) + noise
    _, drawn = jax.lax.top_k(jnp.where(weight > 0, score, -jnp.inf), count)

    def query_at(slot):
        node, child = slot // slots, slot % slots
        here, policy = (
            columns(table, node, 1, game.num_rows) for table in (tree.reach, tree.minimizer.policy)
        )
        reach = game.down(at(tree.state, node), child, here, policy)
        if game.num_rows == 1:
            reach = jnp.ones_like(reach)  # as the evaluator was asked
        possible = jnp.all(jnp.any(reach > 0, axis=1))  # otherwise all values are 0
        return child_at(tree, slot), reach, possible & (weight[slot] > 0)

    return jax.vmap(query_at)(drawn.astype(jnp.int32))
