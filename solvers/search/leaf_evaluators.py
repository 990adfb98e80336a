"""Evaluators of leaves that need no learning, for tests of search and as a yardstick for networks.

An evaluator is `evaluate(params, game, state, reach) -> values, prior`, all of which are pairs. The
priors of those here are uniform. The exact evaluator is `exact_below_belief.Oracle`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, Policy, PublicState, Reach, Values
from jaxgames.beliefs.listing import NO_STATE, Listing
from jaxgames.beliefs.table import BeliefTable, products
from jaxgames.core import TERMINAL
from solvers.search.search_tree import uniform


def zero(
    params: PyTree, game: BeliefGame, state: PublicState, reach: Reach
) -> tuple[Values, Policy]:
    """The evaluator whose values are all 0; `params` are ignored."""
    return jax.tree.map(jnp.zeros_like, reach), uniform(game, state, reach[0].dtype)


def continuation(
    params: Float[Array, "S N0 N1"],
    game: BeliefTable,
    state: PublicState,
    reach: Reach,
) -> tuple[Values, Policy]:
    """The evaluator by which both players follow a fixed policy from the leaf on.

    `params` are `continuation_values` of that policy.
    """
    values = params[state]
    worth = products(values, 0, reach[1]), -products(values, 1, reach[0])
    return worth, uniform(game, state, reach[0].dtype)


@jax.jit
def continuation_values(
    game: BeliefTable,
    listing: Listing,
    policy: tuple[Float[Array, "X A0 N0"], Float[Array, "X A1 N1"]],
) -> Float[Array, "S N0 N1"]:
    """Player 0's expected payoff, times W, from every pair of rows on, if both follow a policy.

    Args:
      game: the tables.
      listing: `list_public_states(game)`.
      policy: of both players, by number in the listing.

    Returns:
      Values `[S, N0, N1]` by the table's numbers of public states, as `continuation` needs them.
    """
    count, rows, dtype = len(listing.parent), game.payoffs.shape[1:], game.payoffs.dtype
    most = max(game.num_actions)
    first, second = (
        jnp.pad(table.astype(dtype), ((0, 0), (0, most - table.shape[1]), (0, 0)))
        for table in policy
    )
    *row, action = (jnp.arange(n, dtype=jnp.int32) for n in (*rows, most))

    def follow(state, first, second, action):
        return game.follow(state, jnp.stack([first, second]), action)

    for axis in (3, 2, 1):  # [N0, N1, A, K, 2]
        follow = jax.vmap(follow, [0 if axis == i else None for i in range(4)])

    def up(i, values):
        s = count - 1 - i
        state, number = at(listing.state, s), listing.child[s]
        pairs = follow(state, *row, action)
        number = jnp.broadcast_to(number, pairs.shape[:-1])
        possible = (number != NO_STATE) & jnp.all(pairs >= 0, axis=-1)
        pairs = jnp.maximum(pairs, 0)
        below = values[jnp.maximum(number, 0), pairs[..., 0], pairs[..., 1]]
        below = jnp.sum(jnp.where(possible, below, 0), axis=-1)  # [N0, N1, A]
        acts = jnp.where(game.actor(state) == 0, first[s].T[:, None], second[s].T[None])
        here = jnp.where(game.actor(state) >= 0, jnp.sum(acts * below, axis=-1), below[..., 0])
        here = jnp.where(game.actor(state) == TERMINAL, game.payoffs[state], here)
        return values.at[s].set(here)

    values = jax.lax.fori_loop(0, count, up, jnp.zeros((count, *rows), dtype))
    return jnp.zeros_like(game.payoffs).at[listing.state].set(values)


@jax.jit
def uniform_policy(
    game: BeliefGame, listing: Listing
) -> tuple[Float[Array, "S A0 N0"], Float[Array, "S A1 N1"]]:
    """The policy that is uniform over legal actions, at every listed public state."""
    dtype = jnp.zeros(()).dtype
    return jax.vmap(lambda state: uniform(game, state, dtype))(listing.state)


@dataclasses.dataclass(frozen=True)
class Noisy:
    """An evaluator with fixed errors by public state and row.

    Its parameters are those of the other evaluator, and both players' errors `[S, N]` per unit of
    compatible opponent reach, by the table's numbers of public states.
    """

    evaluate: Callable  # the evaluator without errors

    def __call__(
        self,
        params: tuple[PyTree, tuple[Float[Array, "S N0"], Float[Array, "S N1"]]],
        game: BeliefTable,
        state: PublicState,
        reach: Reach,
    ) -> tuple[Values, Policy]:
        """Values of the other evaluator plus errors, and its prior."""
        inner, noise = params
        values, prior = self.evaluate(inner, game, state, reach)
        first, second = (
            values[p] + noise[p][state] * game.compatible(state, p, reach[1 - p]) for p in range(2)
        )
        return (first, second), prior
