"""What the public functions of solvers check in debug mode (see `jaxgames.debug`).

A check has the parameters of the function it belongs to, as far as it needs them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from jaxgames.arrays import choose
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.beliefs.listing import Listing
from jaxgames.core import TERMINAL
from jaxgames.debug import require, require_all, require_finite, require_policy, require_reach
from solvers.sequence_form import Policy, RootReach, SequenceForm, sweeps, uniform, unpack

_TOLERANCE = 1e-3  # of reaches that two ways of adding up give, in float32


def check_policy(form: SequenceForm, policy: Policy, root_reach: RootReach | None) -> None:
    """Of evaluation: a policy for every player, and ranges."""
    for player, (rows, legal) in enumerate(zip(policy, _legal(form), strict=True)):
        require_policy(jnp.asarray(rows), legal, f"policy[{player}]")
    check_root_reach(root_reach)


def check_root_reach(root_reach: RootReach | None) -> None:
    """Of everything that starts at ranges: they are reaches."""
    for player, reach in enumerate(root_reach or ()):
        require_reach(reach, f"root_reach[{player}]")


def check_start(form: SequenceForm, root_reach: RootReach | None, policy: Policy | None) -> None:
    """Of `init` of fictitious play: ranges, and a policy to start from."""
    check_root_reach(root_reach)
    if policy is not None:
        check_policy(form, policy, None)


def check_cfr_start(
    form: SequenceForm, root_reach: RootReach | None, policy: Policy | None, policy_weight: Any
) -> None:
    """Of `cfr.init`: the same, and the weight of the policy."""
    check_start(form, root_reach, policy)
    require_reach(jnp.asarray(policy_weight, float), "policy_weight")


def check_cfr_state(form: SequenceForm, state: Any) -> None:
    """Of `cfr.run` and the read-outs: a state of this tree, whose reaches follow its policies."""
    for player, reach in enumerate(state.root_reach):
        require_reach(reach, f"state.root_reach[{player}]")
    require_reach(state.weight_sum, "state.weight_sum")
    if state.storage != "full":
        return
    require_finite(state.minimizers, "state.minimizers")
    for player, treeplex in enumerate(form.treeplexes):
        tables = tuple(memory.policy for memory in state.minimizers[player])
        expected = sweeps.reach(treeplex, tables, state.root_reach[player])
        reach = state.reach[player]
        require_reach(reach, f"state.reach[{player}]")
        require_reach(state.average_reach[player], f"state.average_reach[{player}]")
        close = jnp.abs(reach - expected) <= _TOLERANCE * jnp.maximum(1, jnp.abs(expected))
        require_all(close, reach, f"state.reach[{player}]", "what the current policies reach")


def check_listed_policy(
    game: BeliefGame,
    listing: Listing,
    policy: tuple[Float[Array, "S A0 N0"], Float[Array, "S A1 N1"]],
) -> None:
    """Of evaluation at the level of beliefs: policies at every listed public state."""
    legal = jax.vmap(game.legal)(listing.state)
    for player, (rows, allowed) in enumerate(zip(policy, legal, strict=True)):
        name = f"policy[{player}] (actions last)"
        require_policy(rows.swapaxes(1, 2), allowed.swapaxes(1, 2), name)


def check_search(game: BeliefGame, params: PyTree, problem: Any) -> None:
    """Of growing-tree CFR: beliefs that the game has, and a path that it has."""
    state, reach = problem.state, problem.reach
    require_finite(params, "params")
    require_finite(problem.opt_out, "problem.opt_out")
    rows = game.rows(state)
    for player in range(2):
        require_reach(reach[player], f"problem.reach[{player}]")
        total = jnp.sum(jnp.where(rows[player], reach[player], 0))
        message = f"problem.reach[{player}] sums to {{total}} over the rows of {game.name} there"
        require(total > 0, f"{message}; allowed: more than 0", total=total)
    for step in range(problem.path.shape[0]):
        child = problem.path[step]
        enters = child >= 0
        exists = game.child_mask(state)[jnp.clip(child, 0, game.num_children - 1)]
        require(
            ~enters | (exists & (child < game.num_children)),
            f"problem.path[{step}] is {{child}}; allowed: public children that {game.name} has"
            " there",
            child=child,
        )
        below = game.child(state, jnp.clip(child, 0, game.num_children - 1))
        state = choose(enters, below, state)
    actor = game.actor(state)
    require(
        actor != TERMINAL,
        f"problem.path leads to the end of {game.name}, where the actor is {{actor}}; allowed: a"
        " public state in which somebody acts",
        actor=actor,
    )


def check_response_search(params: PyTree) -> None:
    """Of the search for a best response: parameters of the network."""
    require_finite(params, "params")


def _legal(form: SequenceForm):
    """Legal actions by player `[D_p, A]`."""
    return tuple(rows > 0 for rows in unpack(form, uniform(form)))
