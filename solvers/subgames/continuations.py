"""Strategies for the rest of the game to choose from at leaves (Brown, Sandholm and Amos 2018,
section 4).

*Bias approach*: the blueprint, and the blueprint biased towards one class of actions or another.
*Self-generative approach*: the blueprint, and then, one after the other, best responses to the
solution with the strategies so far.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxgames.arrays import safe_divide
from solvers import cfr, evaluation, sequence_form
from solvers.cfr import Solver
from solvers.sequence_form import Policy, RootReach, SequenceForm, unpack
from solvers.subgames import leaf_values
from solvers.subgames.depth_limited_subgame import Subgame, SubgamePolicy, embed, with_leaf_values
from solvers.subgames.leaf_values import Continuations, Paths


def biased(
    strategy: Float[Array, "D A"],
    actions: Bool[Array | np.ndarray, "... A"],
    factor: float | Float[Array, ""] = 10.0,
) -> Float[Array, "D A"]:
    """A strategy with the probabilities of some actions multiplied, and normalised again.

    Args:
      strategy: probabilities of one player.
      actions: which actions, in all information states `[A]` or by information state `[D, A]`.
      factor: what their probabilities are multiplied by.
    """
    weight = strategy * jnp.where(jnp.broadcast_to(actions, strategy.shape), factor, 1.0).astype(
        strategy.dtype
    )
    total = jnp.sum(weight, axis=1, keepdims=True)
    return jnp.where(total > 0, safe_divide(weight, total), strategy)


def bias_set(
    strategy: Float[Array, "D A"],
    classes: Bool[Array | np.ndarray, "K ... A"],
    *,
    factors: tuple[float, ...] = (10.0,),
) -> Float[Array, "n D A"]:
    """The strategy, and for each factor the strategy biased towards each of K classes of actions.

    With fold, call and raise as classes and the factor 10, these are the paper's four.

    Args:
      strategy: probabilities of one player.
      classes: the actions of each class, `[K, A]` or `[K, D, A]`.
      factors: see `biased`.

    Returns:
      n = 1 + K * len(factors) strategies.
    """
    variants = [biased(strategy, actions, factor) for factor in factors for actions in classes]
    return jnp.stack([strategy, *variants])


@functools.partial(jax.jit, static_argnames=("solver", "num_iterations", "weaken"))
def self_generated(
    game: SequenceForm,
    subgame: Subgame,
    paths: tuple[Paths, Paths],
    blueprint: Policy,
    *,
    solver: Solver,
    num_iterations: int,
    weaken: bool = False,
    tremble: float = 1e-3,
) -> Continuations:
    """Self-generated strategies: as many for each player as the subgame has choices.

    The first strategy is the blueprint. Each next one is a best response in the whole game to the
    solution of the subgame with the strategies so far, continued by the blueprint. With fewer
    choices, the result is the first of these strategies.

    Args:
      game: the sequence form of the whole game.
      subgame: from the start of the game, with as many choices as there shall be strategies.
      paths: those to the subgame's leaves and those from there on.
      blueprint: policies `[D_p, A]` of the game by player.
      solver, num_iterations: how subgames are solved; static.
      weaken: whether they are solved with `leaf_values.weakened` values.
      tremble: probability with which the solution is played uniformly when it is responded to, so
        that responses are not arbitrary where the solution never goes.
    """
    uniform = unpack(subgame.form, sequence_form.uniform(subgame.form))

    def with_next_strategy(k, strategies):
        policy = solve(
            subgame,
            values_of(subgame, paths, blueprint, strategies, weaken=weaken),
            solver=solver,
            num_iterations=num_iterations,
        )
        mixed = tuple((1 - tremble) * a + tremble * b for a, b in zip(policy, uniform, strict=True))
        responses = evaluation.best_response(game, embed(subgame, mixed, blueprint))
        return tuple(
            jnp.where(jnp.arange(len(rows))[:, None, None] < k, rows, response[None])
            for rows, response in zip(strategies, responses, strict=True)
        )

    start = tuple(
        jnp.broadcast_to(rows, (count, *rows.shape)).astype(game.dtype)
        for rows, count in zip(blueprint, subgame.choices, strict=True)
    )
    return jax.lax.fori_loop(1, max(subgame.choices), with_next_strategy, start)


def values_of(
    subgame: Subgame,
    paths: tuple[Paths, Paths],
    blueprint: Policy,
    continuations: Continuations,
    *,
    weaken: bool = False,
) -> Float[Array, "L c0 c1"]:
    """The values of a subgame's leaves under these strategies.

    Args:
      subgame: a piece of the game.
      paths: those to the subgame's leaves and those from there on.
      blueprint: policies `[D_p, A]` of the game by player.
      continuations: strategies to choose from at leaves; the blueprint first, to be weakened.
      weaken: whether the values are `leaf_values.weakened`.
    """
    to_leaves, from_leaves = paths
    values = leaf_values.values(from_leaves, continuations)
    return leaf_values.weakened(subgame, values, to_leaves, blueprint) if weaken else values


def solve(
    subgame: Subgame,
    values: Float[Array, "L c0 c1"],
    *,
    solver: Solver,
    num_iterations: int | Int[Array, ""],
    root_reach: RootReach | None = None,
) -> SubgamePolicy:
    """Average policies `[D_p, B]` of a subgame with these values at its leaves.

    Args:
      subgame: a piece of the game.
      values: payoff to player 0 at each leaf, by both players' choices.
      solver, num_iterations: see `cfr.run`.
      root_reach: both players' own reach of the root sequences `[R_p]`; 1 by default.
    """
    form = with_leaf_values(subgame, values)
    state = cfr.init(form, root_reach=root_reach)
    state = cfr.run(form, state, solver=solver, num_iterations=num_iterations)
    return cfr.average_policy(form, state)
