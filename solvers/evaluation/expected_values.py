"""What policies are worth when everybody follows them: expected and counterfactual values, exact.

One sweep for each player, as in an iteration of CFR. All functions are jitted, batch under
`jax.vmap`, and raise `ValueError` for a policy or a root reach of the wrong shape.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgames.arrays import append_axes
from solvers.evaluation.policy_sweeps import Measure, expectation, own_reaches, root_values_by
from solvers.sequence_form import Policy, RootReach, SequenceForm, pack, sweeps, unpack


@Measure
def expected_value(
    form: SequenceForm, policy: Policy, root_reach: RootReach | None = None
) -> Float[Array, " P"]:
    """Every player's expected payoff when all follow `policy`.

    Args:
      form: the game, or a subgame.
      policy: probabilities `[D_p, A]` by player.
      root_reach: each player's own reach of its root sequences `[R_p]`, its range; 1 by default.

    Returns:
      One number for each player. In a subgame it is weighted by the probability of reaching it.
    """
    (values,) = root_values_by(form, policy, root_reach, sweeps.mean)
    return expectation(form, values, root_reach)


@Measure
def root_values(
    form: SequenceForm, policy: Policy, root_reach: RootReach | None = None
) -> tuple[Float[Array, " _"], ...]:
    """Counterfactual values of every player's root sequences when all follow `policy`.

    Args:
      form, policy, root_reach: as for `expected_value`.

    Returns:
      By player `[R_p]`, weighted by chance and the others' own reach.
    """
    (values,) = root_values_by(form, policy, root_reach, sweeps.mean)
    return values


@Measure
def counterfactual_values(
    form: SequenceForm, policy: Policy, root_reach: RootReach | None = None
) -> tuple[Policy, tuple[Float[Array, " _"], ...]]:
    """Counterfactual values of every player's actions and information states.

    They are v_i(s_i) = sum of r_-i W u_i over what the player cannot see: weighted by chance and
    the others' own reach, not by the player's own.

    Args:
      form, policy, root_reach: as for `expected_value`.

    Returns:
      Values of the actions `[D_p, A]` by player, 0 at illegal ones; and of the information states
      `[D_p]` by player.
    """
    reaches = own_reaches(form, policy, root_reach)
    tables = pack(form, policy)
    actions, states = [], []
    for p, player in enumerate(form.treeplexes):
        terminal = sweeps.terminal_values(form, reaches, p)
        action, decision, _ = sweeps.values(player, terminal, tables[p], sweeps.mean)
        legal = (group.uniform > 0 for group in player.groups)
        actions.append(tuple(map(lambda ok, q: jnp.where(append_axes(ok, q), q, 0), legal, action)))
        values = jnp.zeros(player.num_decisions, form.dtype)
        for group, value in zip(player.groups, decision, strict=True):
            if group.decision.ndim:
                values = values.at[group.decision].set(value)
            else:
                values = jax.lax.dynamic_update_slice(values, value.ravel(), (group.decision,))
        states.append(values)
    return unpack(form, tuple(actions)), tuple(states)
