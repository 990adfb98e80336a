"""All tabular solvers by name, and one way to run each of them on a game.

`SOLVERS` lists all of them; `cfr.SOLVERS` is its CFR family, which `cfr.make_solver` builds for
subgames. `solvers.solve` and the command line read `SOLVERS`. Every entry is a function or a class
whose parameters can be written in a name, such as "dcfr(alpha=1.5,gamma=3)".
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from jaxgames.beliefs import belief_table
from jaxgames.core import Game
from jaxgames.game_tree import GameTree
from jaxgames.registry import call
from solvers import cfr, fictitious_play
from solvers.regret import RegretMatching, RegretMatchingPlus
from solvers.sampling import external_sampling, outcome_sampling, public_chance_sampling
from solvers.sampling.decision_tree import build_decision_tree
from solvers.sampling.external_sampling import ExternalSampling
from solvers.sampling.outcome_sampling import OutcomeSampling
from solvers.sampling.public_chance_sampling import PublicChanceSampling
from solvers.sequence_form import Policy, RootReach, SequenceForm


@dataclasses.dataclass(frozen=True)
class FictitiousPlay:
    """Fictitious play (Heinrich, Lanctot, Silver 2015): an iteration is a best response of all."""


@dataclasses.dataclass(frozen=True)
class LinearProgram:
    """Sequence-form linear program (Koller et al. 1996): exact, two players, no iterations."""


TabularSolver = (
    cfr.Solver
    | FictitiousPlay
    | LinearProgram
    | OutcomeSampling
    | ExternalSampling
    | PublicChanceSampling
)


def new_outcome_sampling(
    *,
    exploration: float = 0.6,
    baseline_rate: float = 0.0,
    averaging: float = 0.0,
    alternating: bool = False,
    plus: bool = False,
) -> OutcomeSampling:
    """Outcome-sampling MCCFR (Lanctot et al. 2009): an iteration is one episode.

    Args:
      exploration: share of the uniform policy in what is sampled.
      baseline_rate: rate of the running averages that serve as baselines; 0 for no baselines.
      averaging: iteration t counts t**averaging in the average.
      alternating: whether one player learns per episode, or all.
      plus: whether regrets are truncated at 0, as in CFR+.

    Returns:
      The settings, static under `jit`.
    """
    return OutcomeSampling(
        minimizer=_minimizer(plus),
        averaging_power=averaging,
        exploration=exploration,
        baseline_rate=baseline_rate or None,
        alternating=alternating,
    )


def new_external_sampling(*, averaging: float = 0.0, plus: bool = False) -> ExternalSampling:
    """External-sampling MCCFR (Lanctot et al. 2009): an iteration is a traversal per player.

    Args:
      averaging: iteration t counts t**averaging in the average.
      plus: whether regrets are truncated at 0, as in CFR+.

    Returns:
      The settings, static under `jit`.
    """
    return ExternalSampling(minimizer=_minimizer(plus), averaging_power=averaging)


def new_public_chance_sampling(
    *, averaging: float = 0.0, plus: bool = False
) -> PublicChanceSampling:
    """Public-chance-sampling MCCFR (Johanson et al. 2012): an iteration is one public walk.

    Args:
      averaging: iteration t counts t**averaging in the average.
      plus: whether regrets are truncated at 0, as in CFR+.

    Returns:
      The settings, static under `jit`.
    """
    return PublicChanceSampling(minimizer=_minimizer(plus), averaging_power=averaging)


def _minimizer(plus: bool) -> RegretMatching | RegretMatchingPlus:
    return RegretMatchingPlus() if plus else RegretMatching()


SOLVERS: dict[str, Callable[..., TabularSolver]] = cfr.SOLVERS | {
    "fictitious_play": FictitiousPlay,
    "linear_program": LinearProgram,
    "outcome_sampling": new_outcome_sampling,
    "external_sampling": new_external_sampling,
    "public_chance_sampling": new_public_chance_sampling,
}


def solver_names() -> tuple[str, ...]:
    """The names of all solvers that `solve` knows.

    Returns:
      The names, the CFR family first.
    """
    return tuple(SOLVERS)


def solver_by_name(spec: str) -> TabularSolver:
    """Builds a solver from its name and parameters.

    Args:
      spec: a name of `solver_names()`, perhaps with parameters: "outcome_sampling(plus=true)".

    Returns:
      The solver's settings, static under `jit`.

    Raises:
      ValueError: unknown solver (with the nearest name), unknown or illegal parameter.
    """
    return call(spec, "solver", SOLVERS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompiledGame:
    """A game with what has been compiled from it."""

    sequence_form: SequenceForm
    tree: GameTree | None = None  # None where only a sequence form is known
    game: Game | None = None  # None where only the tree is known


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedSolver:
    """A solver prepared for one game. States of iterating solvers count iterations in `step`."""

    solver: TabularSolver
    sequence_form: SequenceForm
    root_reach: RootReach | None = None  # the players' ranges in a subgame
    storage: str = "full"  # of the state between iterations
    seed: int | None = None  # None if the solver draws nothing
    initial_state: PyTree  # before the first iteration
    run: Callable[[PyTree, int], PyTree]  # the state after this many more iterations, compiled
    average_policy: Callable[[PyTree], Policy]


def prepare_solver(solver: TabularSolver, game: CompiledGame, *, seed: int = 0) -> PreparedSolver:
    """Prepares a solver for a game.

    Args:
      solver: of `solver_by_name`.
      game: what to solve; sampling solvers need its tree.
      seed: of the sampling solvers; others draw nothing.

    Returns:
      The state before the first iteration, and functions that advance it and read it out.

    Raises:
      ValueError: the solver cannot be used on this game.
    """
    form = game.sequence_form
    if isinstance(solver, cfr.Solver):
        return prepare_cfr(solver, form)
    if isinstance(solver, FictitiousPlay):
        return PreparedSolver(
            solver=solver,
            sequence_form=form,
            initial_state=fictitious_play.init(form),
            run=lambda state, count: fictitious_play.run(form, state, num_iterations=count),
            average_policy=functools.partial(fictitious_play.average_policy, form),
        )
    if isinstance(solver, LinearProgram):
        return PreparedSolver(
            solver=solver,
            sequence_form=form,
            initial_state=None,
            run=lambda _, count: _equilibrium(form),
            average_policy=lambda policy: policy,
        )
    return _prepare_sampling(solver, game, seed)


def prepare_cfr(
    solver: cfr.Solver,
    form: SequenceForm,
    *,
    root_reach: RootReach | None = None,
    storage: str = "full",
) -> PreparedSolver:
    """Prepares a member of the CFR family, also for a subgame.

    Args:
      solver: of `solver_by_name` or `cfr.make_solver`.
      form: the game or subgame.
      root_reach: the players' ranges at the root, `[R_p]` each; None for 1 everywhere.
      storage: of the state between iterations (see `cfr.init`).

    Returns:
      The state before the first iteration, and functions that advance it and read it out.

    Raises:
      ValueError: a root reach has the wrong shape, or there is no such storage.
    """
    return PreparedSolver(
        solver=solver,
        sequence_form=form,
        root_reach=root_reach,
        storage=storage,
        initial_state=cfr.init(form, root_reach=root_reach, storage=storage),
        run=lambda state, count: cfr.run(form, state, solver=solver, num_iterations=count),
        average_policy=functools.partial(cfr.average_policy, form),
    )


def _equilibrium(form: SequenceForm) -> Policy:
    from solvers import linear_program  # imports SciPy

    return tuple(jnp.asarray(rows, form.dtype) for rows in linear_program.solve(form)[1])


def _prepare_sampling(solver, game, seed) -> PreparedSolver:
    """The members of the MCCFR family, which walk histories or public states of the game."""
    key = jax.random.key(seed)
    if game.tree is None:
        raise ValueError(
            f"solver={solver} samples play, for which a sequence form is not enough; allowed: a"
            " name, a Game or a GameTree"
        )
    if isinstance(solver, OutcomeSampling):
        tree = build_decision_tree(game.tree)
        return PreparedSolver(
            solver=solver,
            sequence_form=game.sequence_form,
            seed=seed,
            initial_state=outcome_sampling.init(tree, solver),
            run=lambda state, count: outcome_sampling.run(
                tree, state, key, settings=solver, num_episodes=count
            ),
            average_policy=functools.partial(outcome_sampling.average_policy, tree),
        )
    if isinstance(solver, ExternalSampling):
        module, tree = external_sampling, build_decision_tree(game.tree)
    else:
        dtype = str(game.sequence_form.dtype)
        table = belief_table(game.tree, dtype=dtype)
        module, tree = public_chance_sampling, public_chance_sampling.build_chance_tree(table)
    return PreparedSolver(
        solver=solver,
        sequence_form=game.sequence_form,
        seed=seed,
        initial_state=module.init(tree),
        run=lambda state, count: module.run(
            tree, state, key, settings=solver, num_iterations=count
        ),
        average_policy=functools.partial(module.average_policy, tree),
    )
