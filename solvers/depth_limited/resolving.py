"""Where a subgame ended the next one begins: nested solving (Brown, Sandholm and Amos 2018, s. 5).

One player, the re-solver, keeps its own policy of the subgames before. Its opponent is believed to
have played as they were solved (*unsafe*), or it may opt out of the next one for what it was
promised at the leaf (*safe*: Burch, Johanson and Bowling 2014): then it gains nothing by being
where it is, if the promises were right.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.game_tree import GameTree
from solvers.cfr import Solver
from solvers.depth_limited.continuations import solve
from solvers.depth_limited.leaf_values import Paths, own_reach, paths
from solvers.depth_limited.subgame import Subgame, SubgamePolicy, opt_out_payoffs
from solvers.public_tree import Policy, RootReach


def to_root(tree: GameTree, subgame: Subgame) -> tuple[Paths, Paths]:
    """From the start of the game to both players' information states at a subgame's root."""
    dtype = subgame.tree.dtype.name
    first = [tree.representative(p)[np.asarray(subgame.root_states[p])] for p in range(2)]
    return tuple(paths(tree, np.zeros(1, int), rows, dtype=dtype) for rows in first)


def ranges(to_root: tuple[Paths, Paths], policy: Policy) -> RootReach:
    """Both players' own reach of a subgame's root, by their policies so far."""
    return tuple(own_reach(to_root[p], jnp.asarray(policy[p])[None], p)[0] for p in range(2))


def promised(
    subgame: Subgame,
    to_leaves: Paths,
    leaf_values: Float[Array, "L c0 c1"],
    solution: SubgamePolicy,
    policy: Policy,
    *,
    player: int,
    states: Int[Array, " R"],
) -> Float[Array, " R"]:
    """Counterfactual values of `player` in its information states `states` at a subgame's leaves.

    That of its best choice there, against the other's choices in the `solution` of the subgame, and
    the other's own reach by `policy`, of the whole game.
    """
    other, sign = 1 - player, 1 - 2 * player
    weight = to_leaves.chance * own_reach(to_leaves, jnp.asarray(policy[other])[None], other)[0]
    values = sign * jnp.moveaxis(leaf_values, 1 + other, 1)  # [L, c_other, c_player]
    if subgame.choices[other] == 1:
        own = values[:, 0]
    else:
        chosen = jnp.asarray(solution[other])[subgame.leaf_choice[other]]
        own = jnp.sum(chosen[:, : values.shape[1], None] * values, axis=1)
    belongs = states[:, None] == subgame.leaf_states[player][None, :]
    weighed = weight[:, None] * own
    return jnp.max(belongs.astype(own.dtype) @ weighed, axis=1, initial=-jnp.inf)


def resolve(
    subgame: Subgame,
    leaf_values: Float[Array, "L c0 c1"],
    reach: RootReach,
    promises: Float[Array, " R"] | None,
    *,
    solver: Solver,
    num_iterations: int | Int[Array, ""],
) -> SubgamePolicy:
    """The subgame solved with these ranges at its root.

    If it has a gadget, `promises` are the counterfactual values that its player may opt out for,
    and that player's range is ignored.
    """
    opt_out = None
    if subgame.gadget is not None:
        other = 1 - subgame.gadget
        opt_out = opt_out_payoffs(subgame, promises, reach[other])
        reach = tuple(r if p == other else jnp.ones_like(r) for p, r in enumerate(reach))
    return solve(
        subgame,
        leaf_values,
        solver=solver,
        num_iterations=num_iterations,
        root_reach=reach,
        opt_out=opt_out,
    )
