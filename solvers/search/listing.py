"""What policies earn in a belief-level game whose public states can be listed.

The yardstick of search agents: exact values and best responses by two loops over the public states,
on the same maps that the search uses. Merged rows are as good as histories here, since the rest of
the game does not depend on how a row was reached.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.core import TERMINAL
from jaxgames.public_game import PublicGame
from jaxgames.public_states import NO_STATE, Listing
from jaxgames.public_table import NOWHERE, PublicTable
from solvers.public_tree import Policy
from solvers.search.regret_phase import values_above


def listed_policy(table: PublicTable, listing: Listing, policy: Policy) -> Float[Array, "S A N"]:
    """A policy by information state, as tabular solvers give it, by public state and row."""
    actor, state = np.asarray(listing.actor), np.asarray(listing.state)
    numbers = np.asarray(table.information_states)[state, np.maximum(actor, 0)]
    rows = np.zeros((len(state), table.num_rows, table.num_actions))
    for player in range(2):
        s, row = np.nonzero((actor == player)[:, None] & (numbers != NOWHERE))
        rows[s, row] = np.asarray(policy[player])[numbers[s, row]]
    return jnp.asarray(rows.swapaxes(1, 2), table.weights.dtype)


@jax.jit
def reach_and_values(
    game: PublicGame, listing: Listing, policy: Float[Array, "S A N"]
) -> tuple[Float[Array, "S 2 N"], Float[Array, "S 2 N"]]:
    """Own reaches and counterfactual values at every public state if both follow `policy`."""
    reach = _reach(game, listing, policy)
    return reach, _values(game, listing, policy, reach, None)


@jax.jit
def expected_value(
    game: PublicGame, listing: Listing, policy: Float[Array, "S A N"]
) -> Float[Array, ""]:
    """What player 0 earns if both follow `policy`."""
    reach, values = reach_and_values(game, listing, policy)
    return jnp.sum(reach[0, 0] * values[0, 0])


@jax.jit
def exploitability(
    game: PublicGame, listing: Listing, policy: Float[Array, "S A N"]
) -> Float[Array, ""]:
    """NashConv / 2 of a policy, given at every public state for the rows of its actor."""
    reach = _reach(game, listing, policy)
    responses = [_values(game, listing, policy, reach, p)[0, p] for p in range(2)]
    return sum(jnp.sum(reach[0, p] * responses[p]) for p in range(2)) / 2


def _at(tree, index):
    return jax.tree.map(lambda x: x[index], tree)


def _reach(game, listing, policy):
    """Both players' own reaches `[S, 2, N]`."""
    count = len(listing.parent)
    root = game.rows(_at(listing.state, 0)).astype(policy.dtype)

    def down(s, reach):
        above = listing.parent[s]
        state = _at(listing.state, above)
        return reach.at[s].set(game.down(state, listing.slot[s], reach[above], policy[above]))

    start = jnp.zeros((count, 2, game.num_rows), policy.dtype).at[0].set(root)
    return jax.lax.fori_loop(1, count, down, start)


def _values(game, listing, policy, reach, responder):
    """Counterfactual values `[S, 2, N]`; those of a `responder`, if any, by a best response."""
    count = len(listing.parent)

    def up(i, values):
        s = count - 1 - i
        state = _at(listing.state, s)
        there = (listing.child[s] != NO_STATE)[:, None, None]
        below = jnp.where(there, values[jnp.maximum(listing.child[s], 0)], 0)
        here, actions = values_above(game, state, below.swapaxes(0, 1), policy[s])
        if responder is not None:
            best = _best(actions, game.legal(state).T)
            own = jnp.where(listing.actor[s] == responder, best, here[responder])
            here = here.at[responder].set(own)
        final = jnp.stack([game.terminal_values(state, p, reach[s, 1 - p]) for p in range(2)])
        return values.at[s].set(jnp.where(listing.actor[s] == TERMINAL, final, here))

    return jax.lax.fori_loop(0, count, up, jnp.zeros_like(reach))


def _best(actions, legal):
    best = jnp.max(jnp.where(legal, actions, -jnp.inf), axis=0)
    return jnp.where(jnp.any(legal, axis=0), best, 0)
