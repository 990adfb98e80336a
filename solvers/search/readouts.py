"""What a finished search tells: policies, values and reaches where it acted, and its queries.

A search's tree starts at the state of its problem, the *root*; the search acts at its *target*,
below the root by the problem's path.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgames.arrays import at, safe_divide
from jaxgames.beliefs.contract import BeliefGame, PublicState
from solvers.search.search_state import Search


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
    return search.tree.policy[search.target]


def average_values(search: Search) -> Float[Array, "2 N"]:
    """What the search says that the root of its tree is worth.

    Args:
      search: with at least one iteration.

    Returns:
      Average counterfactual values `[2, N]` of both players.
    """
    return safe_divide(search.tree.values_total[0], search.total)


def last_reach(search: Search) -> Float[Array, "2 N"]:
    """Both players' own reaches at the target, in the last iteration."""
    return search.reach


def average_reach(search: Search) -> Float[Array, "2 N"]:
    """Both players' own reaches at the target, averaged over the iterations.

    Those of a re-solver's opponent are the gadget's.
    """
    weight = search.total - search.tree.since[search.target]
    return safe_divide(search.tree.reach_total[search.target], weight)


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
    values, reach = tree.values_total[search.target], tree.reach_total[search.target]
    mass = game.compatible(state, actor, reach[1 - actor])[rows[actor]]
    return jnp.where(mass > 0, safe_divide(values[actor, rows[actor]], mass), 0)


def logged_queries(
    search: Search,
) -> tuple[PublicState, Float[Array, "C 2 N"], Bool[Array, " C"]]:
    """The calls of the evaluator that the search has kept; see `query_log`.

    Args:
      search: finished, with `logged_queries=C` of its settings above 0.

    Returns:
      Public states (leading axis C), own reaches `[C, 2, N]` of both players, and a mask `[C]` of
      the calls that were made and that both players can reach; otherwise all values are 0.

    Raises:
      ValueError: the search keeps no queries.
    """
    log = search.log
    if log is None:
        raise ValueError("the search has no log; its settings must have logged_queries > 0")
    return log.state, log.reach, jnp.all(jnp.any(log.reach > 0, axis=2), axis=1)
