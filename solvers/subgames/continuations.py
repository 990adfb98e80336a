"""Which strategies for the rest of the game to offer at leaves (Brown, Sandholm and Amos 2018,
section 4).

*Bias*: the blueprint, and the blueprint inclined to one kind of action or another.
*Self-generative*: the blueprint, and one by one best responses to what is solved with the
strategies found before.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from solvers import cfr, evaluation, sequence_form
from solvers.cfr import Solver
from solvers.sequence_form import Policy, RootReach, SequenceForm, unpack
from solvers.subgames import leaf_values
from solvers.subgames.depth_limited_subgame import Subgame, SubgamePolicy, embed, with_values
from solvers.subgames.leaf_values import Continuations, Paths


def biased(
    strategy: Float[Array, "D A"],
    actions: Bool[Array | np.ndarray, "... A"],
    factor: float | Float[Array, ""] = 10.0,
) -> Float[Array, "D A"]:
    """A strategy with the probabilities of `actions` times `factor`, normalised again.

    `actions` are those of a class, in all information states `[A]` or by information state
    `[D, A]`. What the strategy never does it still never does.
    """
    weight = strategy * jnp.where(jnp.broadcast_to(actions, strategy.shape), factor, 1.0).astype(
        strategy.dtype
    )
    total = jnp.sum(weight, axis=1, keepdims=True)
    return jnp.where(total > 0, weight / jnp.where(total > 0, total, 1), strategy)


def bias_set(
    strategy: Float[Array, "D A"],
    classes: Bool[Array | np.ndarray, "K ... A"],
    *,
    factors: tuple[float, ...] = (10.0,),
) -> Float[Array, "n D A"]:
    """The strategy, and for each factor its inclinations to each of K classes of actions.

    With fold, call and raise as classes and the factor 10 these are the paper's four; `n` is
    1 + K times the number of factors.
    """
    inclined = [biased(strategy, actions, factor) for factor in factors for actions in classes]
    return jnp.stack([strategy, *inclined])


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
    """As many strategies for each player as the subgame, from the start of the game, has choices.

    `paths` are those to the subgame's leaves and from there on. The first strategy is the
    blueprint. Each next one is a best response in the whole `game` to the solution of the subgame
    with the strategies so far, continued by the blueprint; so fewer choices are the first ones of
    these. `weaken` solves with `leaf_values.weakened`. Best responses are to a solution that
    trembles: it plays uniformly with this probability, lest a response be arbitrary where the
    solution never goes.
    """
    uniform = unpack(subgame.tree, sequence_form.uniform(subgame.tree))

    def next_ones(k, found):
        policy = solve(
            subgame,
            offered(subgame, paths, blueprint, found, weaken=weaken),
            solver=solver,
            num_iterations=num_iterations,
        )
        mixed = tuple((1 - tremble) * a + tremble * b for a, b in zip(policy, uniform, strict=True))
        responses = evaluation.best_response(game, embed(subgame, mixed, blueprint))
        return tuple(
            jnp.where(jnp.arange(len(rows))[:, None, None] < k, rows, response[None])
            for rows, response in zip(found, responses, strict=True)
        )

    start = tuple(
        jnp.broadcast_to(rows, (count, *rows.shape)).astype(game.dtype)
        for rows, count in zip(blueprint, subgame.choices, strict=True)
    )
    return jax.lax.fori_loop(1, max(subgame.choices), next_ones, start)


def offered(
    subgame: Subgame,
    paths: tuple[Paths, Paths],
    blueprint: Policy,
    continuations: Continuations,
    *,
    weaken: bool = False,
) -> Float[Array, "L c0 c1"]:
    """The values of leaves under these strategies, weakened or as they are."""
    to_leaves, from_leaves = paths
    found = leaf_values.values(from_leaves, continuations)
    return leaf_values.weakened(subgame, found, to_leaves, blueprint) if weaken else found


def solve(
    subgame: Subgame,
    values: Float[Array, "L c0 c1"],
    *,
    solver: Solver,
    num_iterations: int | Int[Array, ""],
    root_reach: RootReach | None = None,
) -> SubgamePolicy:
    """Average policies of a subgame with these values at its leaves (see `with_values`)."""
    tree = with_values(subgame, values)
    state = cfr.init(tree, root_reach=root_reach)
    state = cfr.run(tree, state, solver=solver, num_iterations=num_iterations)
    return cfr.average_policy(tree, state)
