"""What tests of belief-level games share."""

import jax.numpy as jnp
import numpy as np

from jaxgames.beliefs.table import NOWHERE


def listed_policy(table, listing, policy):
    """A tabular policy, rearranged by public state and row.

    Args:
      table: made of a game tree.
      listing: `list_public_states(table)`.
      policy: by player and information state of that tree `[D_p, A]`.

    Returns:
      Both players' policies at all listed public states, 0 where they do not act.
    """
    actor, state = np.asarray(listing.actor), np.asarray(listing.state)
    listed = []
    for player, actions in enumerate(table.num_actions):
        numbers = np.asarray(table.information_states[player])[state]
        rows = np.zeros((*numbers.shape, actions))
        s, row = np.nonzero((actor == player)[:, None] & (numbers != NOWHERE))
        rows[s, row] = np.asarray(policy[player])[numbers[s, row], :actions]
        listed.append(jnp.asarray(rows.swapaxes(1, 2), table.weights.dtype))
    return tuple(listed)
