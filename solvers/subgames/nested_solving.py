"""Nested solving: the next subgame begins where the last one ended (Brown, Sandholm and Amos 2018,
section 5).

One player, the resolver, keeps its own policy of the subgames before. Of its opponent one of two
things is assumed. *Unsafe* solving believes that it has played the solution of the last subgame.
*Safe* solving gives it an opt-out value in each of its information states at the new root: what
the solution of the last subgame gives it there. With the constraint *resolve* the opponent may take
it instead of playing on; with *maxmargin* the resolver makes the opponent's gain over it as small
as possible (see `solvers.subgames.safe_resolving`). If the opt-out values are right, the opponent
then gains nothing by coming to the subgame.
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
from solvers.subgames.depth_limited_subgame import Subgame, SubgamePolicy, with_leaf_values
from solvers.subgames.leaf_values import Paths, own_reach, paths
from solvers.subgames.safe_resolving import root_weights, with_gadget, with_margins, without_gadget

Constraint = Literal["unsafe", "resolve", "maxmargin"]
CONSTRAINTS = get_args(Constraint)


def paths_to_root(tree: GameTree, subgame: Subgame) -> tuple[Paths, Paths]:
    """The ways from the start of the game to a history of each root information state, by player.

    The player's own moves on the way are the same for all histories of an information state.
    """
    dtype = subgame.form.dtype.name
    first = [tree.representative(p)[np.asarray(subgame.root_states[p])] for p in range(2)]
    return tuple(paths(tree, np.zeros(1, int), rows, dtype=dtype) for rows in first)


def ranges(to_root: tuple[Paths, Paths], policy: Policy) -> RootReach:
    """Both players' own reach of a subgame's root sequences `[R_p]`.

    Args:
      to_root: see `paths_to_root`.
      policy: policies `[D_p, A]` of the game by player.
    """
    return tuple(own_reach(to_root[p], jnp.asarray(policy[p])[None], p)[0] for p in range(2))


def opt_out_values_at_leaves(
    subgame: Subgame,
    to_leaves: Paths,
    leaf_values: Float[Array | np.ndarray, "L c0 c1"],
    solution: SubgamePolicy,
    policy: Policy,
    *,
    player: int,
    states: Int[Array, " R"],
) -> Float[Array, " R"]:
    """Counterfactual values that a solved subgame gives a player at its leaves.

    They are those of the player's best choice of a strategy there, against the other's choices in
    the solution.

    Args:
      subgame: the piece of the game that was solved.
      to_leaves: see `leaf_values.paths_to_leaves`.
      leaf_values: payoff to player 0 at each leaf, by both players' choices.
      solution: policies of the subgame by player, of which the other's choices count.
      policy: policies `[D_p, A]` of the whole game, of which the other's reach counts.
      player: whose values.
      states: its information states, in numbers of the game.

    Returns:
      The value of each of the states.
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
    weighted = weight[:, None] * own
    sums = jnp.matmul(belongs.astype(own.dtype), weighted, precision="highest")
    return jnp.max(sums, axis=1, initial=-jnp.inf)


def opt_out_values_inside(
    subgame: Subgame,
    leaf_values: Float[Array | np.ndarray, "L c0 c1"],
    solution: SubgamePolicy,
    reach: RootReach,
    *,
    player: int,
    states: Int[Array, " R"],
) -> Float[Array, " R"]:
    """Counterfactual values that a solved subgame gives a player at decisions within it.

    They are those of the player's best response to the solution.

    Args:
      subgame, leaf_values, solution: as for `opt_out_values_at_leaves`.
      reach: both players' own reach of the subgame's root sequences; the other's counts.
      player: whose values.
      states: its decisions, in numbers of the game.

    Returns:
      The value of each of the states.
    """
    form = with_leaf_values(subgame, leaf_values)
    response = evaluation.best_response(form, solution, reach)
    pair = tuple(response[p] if p == player else solution[p] for p in range(2))
    _, values = evaluation.counterfactual_values(form, pair, reach)
    same = states[:, None] == subgame.decisions[player][None, :]
    return jnp.sum(jnp.where(same, values[player], 0), axis=1)


def resolve(
    subgame: Subgame,
    leaf_values: Float[Array | np.ndarray, "L c0 c1"],
    reach: RootReach,
    opt_out: Float[Array, " R"] | None,
    *,
    resolver: int,
    constraint: Constraint,
    solver: Solver,
    num_iterations: int | Int[Array, ""],
) -> SubgamePolicy:
    """Solves a subgame, with both players' ranges at its root or safely.

    Args:
      subgame: the piece of the game.
      leaf_values: payoff to player 0 at each leaf, by both players' choices.
      reach: both players' own reach of the root sequences `[R_p]`; the opponent's only counts if
        the constraint is "unsafe".
      opt_out: counterfactual values of the opponent's root sequences; None if unsafe.
      resolver: the player that re-solves.
      constraint: "unsafe", "resolve" or "maxmargin".
      solver, num_iterations: see `cfr.run`.

    Returns:
      Average policies of the subgame `[D_p, B]` by player.

    Raises:
      ValueError: there is no such constraint, or it needs opt-out values that are not given.
    """
    if constraint not in CONSTRAINTS:
        raise ValueError(unknown("constraint", constraint, CONSTRAINTS))
    if opt_out is None and constraint != "unsafe":
        raise ValueError(
            f"opt_out=None with constraint={constraint!r}; allowed: the counterfactual values of"
            " the opponent's root sequences, or constraint='unsafe'"
        )
    form, opponent = with_leaf_values(subgame, leaf_values), 1 - resolver
    safe, root_reach = form, list(reach)
    if constraint == "resolve":
        safe = with_gadget(form, opt_out, resolver=resolver)
        root_reach[opponent] = jnp.ones_like(reach[opponent])
    elif constraint == "maxmargin":
        weights = root_weights(form, reach, player=opponent)
        safe = with_margins(form, opt_out, weights, resolver=resolver)
        root_reach[opponent] = jnp.ones(1, safe.dtype)
    state = cfr.init(safe, root_reach=tuple(root_reach))
    state = cfr.run(safe, state, solver=solver, num_iterations=num_iterations)
    return without_gadget(form, cfr.average_policy(safe, state), resolver=resolver)
