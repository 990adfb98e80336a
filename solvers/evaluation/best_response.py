"""Exact best responses to policies on a sequence form, and what they earn.

One sweep for each player, with a maximum where expected values have a mean. All functions are
jitted, batch under `jax.vmap`, and raise `ValueError` for a policy or a root reach of the wrong
shape.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.arrays import append_axes
from solvers.evaluation.policy_sweeps import Measure, expectation, own_reaches, root_values_by
from solvers.sequence_form import Policy, RootReach, SequenceForm, sweeps, unpack


@Measure
def best_response(
    form: SequenceForm, policy: Policy, root_reach: RootReach | None = None
) -> Policy:
    """A pure best response of every player to the others' policies.

    Args:
      form: the game, or a subgame.
      policy: probabilities `[D_p, A]` by player.
      root_reach: each player's own reach of its root sequences `[R_p]`, its range; 1 by default.

    Returns:
      Policies `[D_p, A]` by player. Of several best actions it plays the first.
    """
    reaches = own_reaches(form, policy, root_reach)
    responses = []
    for p, player in enumerate(form.treeplexes):
        terminal = sweeps.terminal_values(form, reaches, p)
        action, *_ = sweeps.values(player, terminal, None, sweeps.best)
        responses.append(tuple(map(_greedy, player.groups, action)))
    return unpack(form, tuple(responses))


@Measure
def best_response_value(
    form: SequenceForm, policy: Policy, root_reach: RootReach | None = None
) -> Float[Array, " P"]:
    """Every player's expected payoff from an exact best response to the others' policies.

    Args:
      form, policy, root_reach: as for `best_response`.

    Returns:
      One number for each player. In a subgame it is weighted by the probability of reaching it.
    """
    (values,) = root_values_by(form, policy, root_reach, sweeps.best)
    return expectation(form, values, root_reach)


@Measure
def root_best_response_values(
    form: SequenceForm, policy: Policy, root_reach: RootReach | None = None
) -> tuple[Float[Array, " _"], ...]:
    """Counterfactual values of every player's root sequences when it responds best to the others.

    A safely re-solved subgame must not give the opponent more than these (see
    `solvers.subgames.safe_resolving`).

    Args:
      form, policy, root_reach: as for `best_response`.

    Returns:
      By player `[R_p]`, weighted by chance and the others' own reach.
    """
    (values,) = root_values_by(form, policy, root_reach, sweeps.best)
    return values


def _greedy(group, action_values):
    """The policy table that plays the first of the best legal actions."""
    legal = append_axes(group.uniform > 0, action_values)
    chosen = jnp.argmax(jnp.where(legal, action_values, -jnp.inf), axis=0)
    slots = append_axes(jnp.arange(len(action_values), dtype=chosen.dtype), action_values)
    return (slots == chosen[None]).astype(action_values.dtype)
