"""What a finished search tells: policies, values and reaches where it acted, and its queries.

A search's tree starts at the state of its problem, the *root*; the search acts at its *target*,
below the root by the problem's path.

Called from Python, a read-out is one compiled program; inside another program it is a part of it.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgames.arrays import at, safe_divide
from jaxgames.beliefs.contract import BeliefGame, Policy, PublicState, Reach, Values
from solvers.search.search_state import Search

_compiled = functools.partial(jax.jit, inline=True)


def target_state(search: Search) -> PublicState:
    """The public state at which the search acts."""
    return at(search.tree.state, search.target)


@_compiled
def average_policy(search: Search) -> Policy:
    """The average policy of the actor at the search's target.

    Args:
      search: with at least one iteration.

    Returns:
      The average policies `([A0, N0], [A1, N1])` in all rows; 0 for who does not act.
    """
    return search.tree.policy_at(search.target)


def policy_in_row(
    policy: Policy, player: Int[Array, ""] | int, row: Int[Array, ""] | int
) -> Float[Array, " A"]:
    """A player's policy in one row, with as many actions as the player who has more.

    Args:
      policy: of both players.
      player: 0 or 1.
      row: of that player.
    """
    most = max(len(own) for own in policy)
    first, second = (
        jnp.pad(own[:, jnp.minimum(row, own.shape[1] - 1)], (0, most - len(own))) for own in policy
    )
    return jnp.where(jnp.equal(player, 0), first, second)


def without_rare(policy: Float[Array, "A ..."], threshold: float) -> Float[Array, "A ..."]:
    """Policies without the actions that they play with less than a threshold, which sum to 1 again.

    Where all actions are rarer, the most probable ones stay (thresholding; Ganzfried, Sandholm and
    Waugh 2012).

    Args:
      policy: probabilities `[A, ...]`; where all are 0, they stay so.
      threshold: from 0 to 1; 0 changes nothing. Static.
    """
    if not threshold:
        return policy
    least = jnp.minimum(threshold, jnp.max(policy, axis=0, keepdims=True))
    kept = jnp.where(policy >= least, policy, 0)
    return safe_divide(kept, jnp.sum(kept, axis=0, keepdims=True))


@_compiled
def average_values(search: Search) -> Values:
    """The average counterfactual values at the root of the search's tree.

    Args:
      search: with at least one iteration.

    Returns:
      Average counterfactual values of both players.
    """
    first, second = at(search.tree.values_total, 0)
    return safe_divide(first, search.total), safe_divide(second, search.total)


def last_reach(search: Search) -> Reach:
    """Both players' own reaches at the target, in the last iteration."""
    return search.reach


@_compiled
def average_reach(search: Search) -> Reach:
    """Both players' own reaches at the target, averaged over the iterations.

    Those of a re-solver's opponent are the gadget's.
    """
    weight = search.total - search.tree.since[search.target]
    first, second = at(search.tree.reach_total, search.target)
    return safe_divide(first, weight), safe_divide(second, weight)


@_compiled
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
    values, reach = at((tree.values_total, tree.reach_total), search.target)
    mass = jnp.stack([game.compatible(state, p, reach[1 - p])[rows[p]] for p in range(2)])
    worth = jnp.stack([values[p][rows[p]] for p in range(2)])
    expected = jnp.where(mass > 0, safe_divide(worth, mass), 0)
    return expected[jnp.maximum(game.actor(state), 0)]


def logged_queries(
    search: Search,
) -> tuple[PublicState, tuple[Float[Array, "C N0"], Float[Array, "C N1"]], Bool[Array, " C"]]:
    """The calls of the evaluator that the search has kept; see `query_log`.

    Args:
      search: finished, with `logged_queries=C` of its settings above 0.

    Returns:
      Public states (leading axis C), own reaches of both players, and a mask `[C]` of
      the calls that were made and that a player can reach; otherwise all values are 0.

    Raises:
      ValueError: the search keeps no queries.
    """
    log = search.log
    if log is None:
        raise ValueError("the search has no log; its settings must have logged_queries > 0")
    first, second = (jnp.any(reach > 0, axis=1) for reach in log.reach)
    return log.state, log.reach, first | second
