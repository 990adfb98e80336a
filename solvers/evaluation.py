"""Exact evaluation of policies: expected values, best responses, NashConv, exploitability.

The same sweeps as CFR's, once. A policy is a tuple over players of arrays `[D_p, A]` (see
`public_tree.Policy`); `root_reach`, 1 by default, holds the players' own reach of their root
sequences. All functions are jitted and batch under `jax.vmap`.

All raise `ValueError` for a policy or a root reach of the wrong shape.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from solvers import sweeps
from solvers.public_tree import (
    Policy,
    PublicTree,
    RootReach,
    checked_root_reach,
    pack,
    unpack,
)


@jax.jit
def expected_value(
    tree: PublicTree, policy: Policy, root_reach: RootReach | None = None
) -> Float[Array, " P"]:
    """Every player's expected payoff when all follow `policy`."""
    return _weighed(tree, _root_values(tree, policy, root_reach, sweeps.mean), root_reach)


@jax.jit
def best_response_value(
    tree: PublicTree, policy: Policy, root_reach: RootReach | None = None
) -> Float[Array, " P"]:
    """Every player's payoff from an exact best response to the others' policies."""
    return _weighed(tree, _root_values(tree, policy, root_reach, sweeps.best), root_reach)


@jax.jit
def root_values(
    tree: PublicTree, policy: Policy, root_reach: RootReach | None = None
) -> tuple[Float[Array, " _"], ...]:
    """Counterfactual values of every player's root sequences `[R_p]` when all follow `policy`."""
    return _root_values(tree, policy, root_reach, sweeps.mean)


@jax.jit
def root_best_response_values(
    tree: PublicTree, policy: Policy, root_reach: RootReach | None = None
) -> tuple[Float[Array, " _"], ...]:
    """Counterfactual values of every player's root sequences `[R_p]` when it responds best: what a
    re-solved subgame must not exceed (see `gadget`)."""
    return _root_values(tree, policy, root_reach, sweeps.best)


@jax.jit
def best_response(tree: PublicTree, policy: Policy, root_reach: RootReach | None = None) -> Policy:
    """A pure best response of every player to the others' policies."""
    reaches = _reaches(tree, policy, root_reach)
    responses = []
    for p, player in enumerate(tree.players):
        terminal = sweeps.terminal_values(tree, reaches, p)
        action, *_ = sweeps.values(player, terminal, None, sweeps.best)
        responses.append(tuple(map(_greedy, player.groups, action)))
    return unpack(tree, tuple(responses))


@jax.jit
def nash_conv(
    tree: PublicTree, policy: Policy, root_reach: RootReach | None = None
) -> Float[Array, ""]:
    """Sum over players of what a best response gains (Lanctot et al. 2017); 0 at equilibrium."""
    return jnp.sum(
        best_response_value(tree, policy, root_reach) - expected_value(tree, policy, root_reach)
    )


@jax.jit
def exploitability(
    tree: PublicTree, policy: Policy, root_reach: RootReach | None = None
) -> Float[Array, ""]:
    """NashConv divided by the number of players."""
    return nash_conv(tree, policy, root_reach) / tree.num_players


@jax.jit
def counterfactual_values(
    tree: PublicTree, policy: Policy, root_reach: RootReach | None = None
) -> tuple[Policy, tuple[Float[Array, " _"], ...]]:
    """Counterfactual values where each player acts: of its actions `[D_p, A]`, and of its
    information states `[D_p]`.

    They sum over what the player cannot see, weighted by chance and the others' own reach, not by
    the player's own: v_i(s_i) = sum of r_-i W u_i.
    """
    reaches = _reaches(tree, policy, root_reach)
    tables = pack(tree, policy)
    actions, states = [], []
    for p, player in enumerate(tree.players):
        terminal = sweeps.terminal_values(tree, reaches, p)
        action, decision, _ = sweeps.values(player, terminal, tables[p], sweeps.mean)
        legal = (group.uniform > 0 for group in player.groups)
        actions.append(
            tuple(map(lambda ok, q: jnp.where(sweeps.expand(ok, q), q, 0), legal, action))
        )
        values = jnp.zeros(player.num_decisions, tree.dtype)
        for group, value in zip(player.groups, decision, strict=True):
            if group.decision.ndim:
                values = values.at[group.decision].set(value)
            else:
                values = jax.lax.dynamic_update_slice(values, value.ravel(), (group.decision,))
        states.append(values)
    return unpack(tree, tuple(actions)), tuple(states)


def _root_values(tree, policy, root_reach, reduction):
    """By player [R_p]."""
    reaches, tables = _reaches(tree, policy, root_reach), pack(tree, policy)
    found = []
    for p, player in enumerate(tree.players):
        terminal = sweeps.terminal_values(tree, reaches, p)
        *_, root = sweeps.values(player, terminal, tables[p], reduction)
        found.append(root.ravel())
    return tuple(found)


def _weighed(tree, values, root_reach):
    # in full precision: accelerators multiply float32 matrices in less by default
    roots = checked_root_reach(tree, root_reach)
    return jnp.stack(
        [jnp.vdot(r, v, precision="highest") for r, v in zip(roots, values, strict=True)]
    )


def _greedy(group, action_values):
    legal = sweeps.expand(group.uniform > 0, action_values)
    chosen = jnp.argmax(jnp.where(legal, action_values, -jnp.inf), axis=0)
    slots = sweeps.expand(jnp.arange(len(action_values), dtype=chosen.dtype), action_values)
    return (slots == chosen[None]).astype(action_values.dtype)


def _reaches(tree, policy, root_reach):
    roots = checked_root_reach(tree, root_reach)
    return tuple(map(sweeps.reach, tree.players, pack(tree, policy), roots))
