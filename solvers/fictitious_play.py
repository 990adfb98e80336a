"""Fictitious play in extensive-form games (Heinrich, Lanctot and Silver 2015), full width.

    >>> import jaxgames
    >>> from solvers import build_sequence_form, fictitious_play
    >>> form = build_sequence_form(jaxgames.make("kuhn_poker"))
    >>> state = fictitious_play.run(form, fictitious_play.init(form), num_iterations=100)
    >>> [rows.shape for rows in fictitious_play.average_policy(form, state)]
    [(6, 2), (6, 2)]

In every iteration all players compute exact best responses to the others' averages, and the
responses join the averages. The average is of own reach, so it plays like a player who draws one of
all its responses at the start of each game (the paper, section 4). It converges to an equilibrium
in two-player zero-sum games.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from jaxgames.core import record
from jaxgames.debug import checked
from solvers import evaluation
from solvers.sequence_form import (
    Policy,
    RootReach,
    SequenceForm,
    checked_root_reach,
    pack,
    sweeps,
    uniform,
    unpack,
)
from solvers.sequence_form.average_policies import behaviour
from solvers.value_checks import check_start


@record
class FictitiousPlayState:
    """All that fictitious play remembers."""

    step: Array  # [] int32 iterations done
    average_reach: tuple[Array, ...]  # [Q_p] own reach of every sequence under the averages
    root_reach: tuple[Array, ...]  # [R_p]


@checked(check_start)
@jax.jit
def init(
    form: SequenceForm, *, root_reach: RootReach | None = None, policy: Policy | None = None
) -> FictitiousPlayState:
    """The state before the first iteration.

    Args:
      form: the game, or a subgame.
      root_reach: each player's own reach of its root sequences `[R_p]`, its range; 1 by default.
      policy: the first policies `[D_p, A]` by player, which count as much in the averages as one
        response; uniform by default.

    Raises:
      ValueError: a policy or a root reach has the wrong shape.
    """
    roots = checked_root_reach(form, root_reach)
    tables = uniform(form) if policy is None else pack(form, policy)
    return FictitiousPlayState(
        step=jnp.int32(0),
        average_reach=tuple(map(sweeps.reach, form.treeplexes, tables, roots)),
        root_reach=roots,
    )


@jax.jit
def run(
    form: SequenceForm, state: FictitiousPlayState, *, num_iterations: int | Int[Array, ""]
) -> FictitiousPlayState:
    """The state after `num_iterations` more iterations, in one compiled loop."""

    def iteration(_, state):
        # exact best responses to the averages, as own reach
        average, step = average_policy(form, state), state.step + 1
        responses = pack(form, evaluation.best_response(form, average, state.root_reach))
        reaches = map(sweeps.reach, form.treeplexes, responses, state.root_reach)
        # running averages: the first policies and `step` responses count alike
        share = 1 / (step + 1).astype(form.dtype)
        mixed = (
            old + share * (new - old) for old, new in zip(state.average_reach, reaches, strict=True)
        )
        return state.replace(step=step, average_reach=tuple(mixed))

    return jax.lax.fori_loop(0, num_iterations, iteration, state)


@jax.jit
def average_policy(form: SequenceForm, state: FictitiousPlayState) -> Policy:
    """The average policies, which converge to an equilibrium: `[D_p, A]` by player."""
    return unpack(form, tuple(map(behaviour, form.treeplexes, state.average_reach)))
