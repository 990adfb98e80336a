"""All public states of a belief-level game, where they can be listed, and what policies earn there.

The yardstick of search agents: exact values and best responses by two loops over the public states,
on the same maps that the search uses. Merged rows are as good as histories here, since the rest of
the game does not depend on how a row was reached.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.core import TERMINAL, record
from jaxgames.public_game import PublicGame, PublicState
from jaxgames.public_table import NOWHERE, PublicTable
from solvers.public_tree import Policy
from solvers.search.gt_cfr import values_above

MAX_STATES = 1_000_000
NO_STATE = -1


@record
class Listing:
    """S public states in breadth-first order, the root of the game first."""

    state: PublicState  # [S, ...]
    parent: Array  # [S] int32, NO_STATE at the root
    slot: Array  # [S] int32 which child of its parent
    child: Array  # [S, K] int32 number of each child, NO_STATE where there is none
    actor: Array  # [S] int32

    @property
    def num_inner(self) -> int:
        """Public states that are not terminal: no search needs more nodes."""
        return int((np.asarray(self.actor) != TERMINAL).sum())


def list_public_states(game: PublicGame, *, max_states: int = MAX_STATES) -> Listing:
    """Lists a game's public states, level by level.

    Raises:
      ValueError: there are more than `max_states`.
    """
    view = jax.jit(jax.vmap(lambda s: (game.children(s), game.child_mask(s), game.actor(s))))
    level = jax.tree.map(lambda x: np.asarray(x)[None], game.root())
    states, parents, slots, actors = [level], [np.array([NO_STATE])], [np.zeros(1, int)], []
    count, begin = 1, 0
    while True:
        children, mask, actor = view(level)
        actors.append(np.asarray(actor))
        above, slot = np.nonzero(np.asarray(mask) & (actors[-1] != TERMINAL)[:, None])
        if not len(above):
            break
        if count + len(above) > max_states:
            raise ValueError(
                f"{game.name} has more than max_states={max_states:,} public states: {count:,} so"
                f" far and {len(above):,} on the next level"
            )
        level = jax.tree.map(lambda x, a=above, k=slot: np.asarray(x)[a, k], children)
        states.append(level)
        parents.append(above + begin)
        slots.append(slot)
        begin, count = count, count + len(above)
    parent, slot = np.concatenate(parents), np.concatenate(slots)
    child = np.full((count, game.num_children), NO_STATE)
    child[parent[1:], slot[1:]] = np.arange(1, count)
    return Listing(
        state=jax.tree.map(lambda *x: jnp.asarray(np.concatenate(x)), *states),
        parent=jnp.asarray(parent, jnp.int32),
        slot=jnp.asarray(slot, jnp.int32),
        child=jnp.asarray(child, jnp.int32),
        actor=jnp.asarray(np.concatenate(actors), jnp.int32),
    )


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
