"""Where a subgame ended the next one begins: nested solving (Brown, Sandholm and Amos 2018, s. 5).

One player, the re-solver, keeps its own policy of the subgames before. Its opponent is believed to
have played as they were solved (*unsafe*), or it was promised something at the leaf. For that it
may opt out of the next subgame (*resolve*), or the re-solver gives it as much less as can be
(*maxmargin*; see `solvers.subgames.safe_resolving`): then it gains nothing by being where it is,
if the promises were right.
"""

from __future__ import annotations

from typing import Literal, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.game_tree import GameTree
from jaxgames.registry import unknown
from solvers import cfr, evaluation
from solvers.cfr import Solver
from solvers.sequence_form import Policy, RootReach
from solvers.subgames.depth_limited_subgame import Subgame, SubgamePolicy, with_values
from solvers.subgames.leaf_values import Paths, own_reach, paths
from solvers.subgames.safe_resolving import root_weights, with_gadget, with_margins, without_gadget

Constraint = Literal["unsafe", "resolve", "maxmargin"]
CONSTRAINTS = get_args(Constraint)


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


def promised_inside(
    subgame: Subgame,
    leaf_values: Float[Array, "L c0 c1"],
    solution: SubgamePolicy,
    reach: RootReach,
    *,
    player: int,
    states: Int[Array, " R"],
) -> Float[Array, " R"]:
    """As `promised`, where `player` acts within the subgame; `reach` is the other's of its root."""
    tree = with_values(subgame, leaf_values)
    response = evaluation.best_response(tree, solution, reach)
    pair = tuple(response[p] if p == player else solution[p] for p in range(2))
    _, values = evaluation.counterfactual_values(tree, pair, reach)
    same = states[:, None] == subgame.decisions[player][None, :]
    return jnp.sum(jnp.where(same, values[player], 0), axis=1)


def resolve(
    subgame: Subgame,
    leaf_values: Float[Array, "L c0 c1"],
    reach: RootReach,
    promises: Float[Array, " R"] | None,
    *,
    resolver: int,
    constraint: Constraint,
    solver: Solver,
    num_iterations: int | Int[Array, ""],
) -> SubgamePolicy:
    """The subgame solved with these ranges at its root.

    Unless unsafe, `promises` are counterfactual values of the resolver's opponent, and its range is
    ignored.

    Raises:
      ValueError: there is no such constraint.
    """
    if constraint not in CONSTRAINTS:
        raise ValueError(unknown("constraint", constraint, CONSTRAINTS))
    whole, other = with_values(subgame, leaf_values), 1 - resolver
    tree, ranges = whole, list(reach)
    if constraint == "resolve":
        tree = with_gadget(whole, promises, resolver=resolver)
        ranges[other] = jnp.ones_like(reach[other])
    elif constraint == "maxmargin":
        weights = root_weights(whole, reach, player=other)
        tree = with_margins(whole, promises, weights, resolver=resolver)
        ranges[other] = jnp.ones(1, tree.dtype)
    state = cfr.init(tree, root_reach=tuple(ranges))
    state = cfr.run(tree, state, solver=solver, num_iterations=num_iterations)
    return without_gadget(whole, cfr.average_policy(tree, state), resolver=resolver)
