"""Fictitious play in extensive-form games (Heinrich, Lanctot and Silver 2015, full width).

    tree = build_sequence_form(make("leduc_poker"))
    state = run(tree, init(tree), num_iterations=1000)
    policy = average_policy(tree, state)

Every iteration all players best respond to the others' averages, exactly, and the responses join
the averages: by reach, so that the average plays as a player who draws one of all its responses at
the start of each game. It converges to equilibrium in zero-sum games of two players.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from jaxgames.core import record
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
from solvers.sequence_form.averaging import behaviour


@record
class FictitiousPlayState:
    """All that fictitious play remembers."""

    step: Array  # [] int32 iterations done
    average_reach: tuple[Array, ...]  # [Q_p] own reach of every sequence under the averages
    root_reach: tuple[Array, ...]  # [R_p]


@jax.jit
def init(
    tree: SequenceForm, *, root_reach: RootReach | None = None, policy: Policy | None = None
) -> FictitiousPlayState:
    """The state before the first iteration: all play `policy` (default: uniform), which counts as
    much as one response. `root_reach` is each player's own reach of its root sequences `[R_p]`.

    Raises:
      ValueError: a policy or a root reach has the wrong shape.
    """
    roots = checked_root_reach(tree, root_reach)
    tables = uniform(tree) if policy is None else pack(tree, policy)
    return FictitiousPlayState(
        step=jnp.int32(0),
        average_reach=tuple(map(sweeps.reach, tree.treeplexes, tables, roots)),
        root_reach=roots,
    )


@jax.jit
def run(
    tree: SequenceForm, state: FictitiousPlayState, *, num_iterations: int | Int[Array, ""]
) -> FictitiousPlayState:
    """The state after `num_iterations` more iterations, in one compiled loop."""

    def iteration(_, state):
        average, step = average_policy(tree, state), state.step + 1
        responses = pack(tree, evaluation.best_response(tree, average, state.root_reach))
        found = map(sweeps.reach, tree.treeplexes, responses, state.root_reach)
        share = 1 / (step + 1).astype(tree.dtype)
        mixed = (
            old + share * (new - old) for old, new in zip(state.average_reach, found, strict=True)
        )
        return state.replace(step=step, average_reach=tuple(mixed))

    return jax.lax.fori_loop(0, num_iterations, iteration, state)


@jax.jit
def average_policy(tree: SequenceForm, state: FictitiousPlayState) -> Policy:
    """Average policies, which converge to equilibrium: by player `[D_p, A]`."""
    return unpack(tree, tuple(map(behaviour, tree.treeplexes, state.average_reach)))
