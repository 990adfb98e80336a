"""Counterfactual regret minimisation on a sequence form: CFR, CFR+, linear CFR, DCFR, PCFR+.

    >>> import jaxgames
    >>> from solvers import build_sequence_form, cfr
    >>> form = build_sequence_form(jaxgames.make("kuhn_poker"))
    >>> state = cfr.run(form, cfr.init(form), solver=cfr.cfr_plus(), num_iterations=100)
    >>> [rows.shape for rows in cfr.average_policy(form, state)]
    [(6, 2), (6, 2)]

One iteration updates every player once. `run` is one compiled loop in which the sequence form is an
argument, so sequence forms of one shape share a compilation and whole solves batch under
`jax.vmap`.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgames.arrays import prepend_axes
from jaxgames.checks import at_least
from jaxgames.core import record
from jaxgames.debug import checked
from jaxgames.registry import call
from solvers.batching import batch_last
from solvers.regret import (
    DiscountedRegretMatching,
    PredictiveRegretMatchingPlus,
    RegretMatching,
    RegretMatchingPlus,
    RegretMinimizer,
    RegretState,
)
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
from solvers.sequence_form.compression import Compressed, check_storage, compress, decompress
from solvers.sequence_form.sparse_sum import stored
from solvers.value_checks import check_cfr_start, check_cfr_state


@dataclasses.dataclass(frozen=True)
class Solver:
    """A member of the CFR family; static under `jit`."""

    minimizer: RegretMinimizer
    averaging_power: float  # iteration t counts t**power in the average
    averaging_delay: int  # iterations left out of the average at the start
    alternating: bool  # each player answers the others' newest policies

    def __post_init__(self):
        if not 0 <= self.averaging_power < math.inf:
            raise ValueError(
                f"averaging={self.averaging_power} (gamma of dcfr) must be finite and at least 0"
            )
        at_least(0, delay=self.averaging_delay)


def cfr(*, averaging: float = 0.0, delay: int = 0, alternating: bool = True) -> Solver:
    """CFR (Zinkevich et al. 2007), by default with uniform averaging.

    Args:
      averaging: iteration t counts (t - delay)**averaging in the average policy. The sum of these
        must stay below 3e38, so that powers above 5 are for short runs.
      delay: number of iterations at the start that are left out of the average.
      alternating: whether each player answers the others' newest policies, or all update at once.

    Returns:
      A solver for `run`. The other members of the family take the same arguments.

    Raises:
      ValueError: `averaging` is negative or infinite, or `delay` negative.
    """
    return Solver(RegretMatching(), averaging, delay, alternating)


def cfr_plus(
    *, averaging: float = 1.0, delay: int = 0, discounted: int = 0, alternating: bool = True
) -> Solver:
    """CFR+ (Tammelin 2014), by default with linear averaging.

    With `delay` half of the iterations and `discounted=30` it is the variant of Brown, Sandholm and
    Amos (2018, appendix).

    Args:
      averaging, delay, alternating: see `cfr`.
      discounted: number of first iterations t after which regrets are multiplied by
        sqrt(t) / (sqrt(t) + 1).
    """
    return Solver(RegretMatchingPlus(discounted), averaging, delay, alternating)


def linear_cfr(*, averaging: float = 1.0, delay: int = 0, alternating: bool = True) -> Solver:
    """Linear CFR (Brown and Sandholm 2019): iteration t counts t in the regrets and the average.

    Args:
      averaging, delay, alternating: see `cfr`.
    """
    return Solver(RegretMatching(power=1.0), averaging, delay, alternating)


def dcfr(
    *,
    alpha: float = 1.5,
    beta: float = 0.0,
    gamma: float = 2.0,
    delay: int = 0,
    alternating: bool = True,
) -> Solver:
    """Discounted CFR (Brown and Sandholm 2019); the defaults are the authors'.

    Args:
      alpha: after iteration t positive regrets are multiplied by t**alpha / (t**alpha + 1).
      beta: the same for negative regrets.
      gamma: iteration t counts t**gamma in the average policy.
      delay, alternating: see `cfr`.
    """
    return Solver(DiscountedRegretMatching(alpha, beta), gamma, delay, alternating)


def pcfr_plus(*, averaging: float = 2.0, delay: int = 0, alternating: bool = True) -> Solver:
    """Predictive CFR+ (Farina, Kroer and Sandholm 2021), by default with quadratic averaging.

    Args:
      averaging, delay, alternating: see `cfr`.
    """
    return Solver(PredictiveRegretMatchingPlus(), averaging, delay, alternating)


SOLVERS = {
    "cfr": cfr,
    "cfr_plus": cfr_plus,
    "linear_cfr": linear_cfr,
    "dcfr": dcfr,
    "pcfr_plus": pcfr_plus,
}


def make_solver(spec: str) -> Solver:
    """A solver from its name and parameters, such as "dcfr(alpha=1.5,gamma=3)".

    Raises:
      ValueError: unknown solver (the message has the nearest name), unknown or illegal parameter.
    """
    return call(spec, "solver", SOLVERS)


@record
class CfrState:
    """All that a solve remembers; the entries of the tuples are players, then groups.

    With `storage="int16"` the arrays of `minimizers`, `reach` and `average_reach` are `Compressed`.
    """

    step: Array  # [] int32 iterations done
    minimizers: tuple[tuple[RegretState, ...], ...]
    # own reach of every sequence under the current policies, in rows (see `Treeplex`)
    reach: tuple[Array, ...]
    average_reach: tuple[Array, ...]  # the same under the average policies
    weight_sum: Array  # [] sum of the averaging weights so far
    root_reach: tuple[Array, ...]  # [R_p]
    storage: str = flax.struct.field(pytree_node=False, default="full")


@checked(check_cfr_start)
def init(
    form: SequenceForm,
    *,
    root_reach: RootReach | None = None,
    policy: Policy | None = None,
    policy_weight: float | Float[Array, ""] = 1.0,
    storage: str = "full",
) -> CfrState:
    """The state before the first iteration.

    Args:
      form: the game, or a subgame.
      root_reach: each player's own reach of its root sequences `[R_p]`, its range; 1 by default.
      policy: policies `[D_p, A]` by player to start from; uniform by default. Regrets are
        `policy_weight` times its probabilities, which regret matching turns back into it.
      policy_weight: see `policy`.
      storage: how the state is kept between iterations: "full" in the precision of the form,
        "int16" in half the bytes of float32 (see `solvers.sequence_form.compression`).

    Returns:
      The state, to be passed to `run`.

    Raises:
      ValueError: a policy or a root reach has the wrong shape, or the storage is unknown.
    """
    check_storage(storage)
    state = _initial_state(form, root_reach, policy, policy_weight)
    return _compressed(form, state.replace(storage=storage))


@jax.jit
def _initial_state(form, root_reach, policy, policy_weight) -> CfrState:
    root_reach = checked_root_reach(form, root_reach)
    tables = uniform(form) if policy is None else pack(form, policy)
    weight = 0.0 if policy is None else policy_weight
    reach = tuple(map(sweeps.reach, form.treeplexes, tables, root_reach))
    return CfrState(
        step=jnp.int32(0),
        minimizers=tuple(
            tuple(RegretState(regret=weight * table, policy=table) for table in groups)
            for groups in tables
        ),
        reach=reach,
        average_reach=tuple(map(jnp.zeros_like, reach)),
        weight_sum=jnp.zeros((), form.dtype),
        root_reach=root_reach,
    )


@checked(check_cfr_state)
@functools.partial(jax.jit, static_argnames="solver")
def run(
    form: SequenceForm, state: CfrState, *, solver: Solver, num_iterations: int | Int[Array, ""]
) -> CfrState:
    """The state after `num_iterations` more iterations, in one compiled loop.

    Batch it with `jax.vmap` over states, root ranges or payoffs (see `solvers.batching`).

    Args:
      form: the game that `state` was made for.
      state: as `init` or `run` returned it.
      solver: a member of the family, such as `cfr_plus()`; static.
      num_iterations: how many; the same for all solves of a batch.

    Raises:
      ValueError: `num_iterations` is batched.
    """
    return _loop(solver)(form, state, num_iterations)


@functools.cache
def _loop(solver: Solver):
    def loop(form, state, num_iterations):
        def iteration(_, state):
            return _compressed(form, _iteration(form, _decompressed(state), solver))

        return jax.lax.fori_loop(0, num_iterations, iteration, state)

    return batch_last(loop)


@checked(check_cfr_state)
@jax.jit
def average_policy(form: SequenceForm, state: CfrState) -> Policy:
    """The average policies, which converge to an equilibrium in two-player zero-sum games.

    Returns:
      Probabilities `[D_p, A]` by player; uniform in information states that the player itself has
      never reached.
    """
    reach = _decompressed(state).average_reach
    return unpack(form, tuple(map(behaviour, form.treeplexes, reach)))


@checked(check_cfr_state)
@jax.jit
def current_policy(form: SequenceForm, state: CfrState) -> Policy:
    """The policies of the next iteration: probabilities `[D_p, A]` by player."""
    return unpack(form, tuple(map(_policy, _decompressed(state).minimizers)))


@jax.jit
def _compressed(form: SequenceForm, state: CfrState) -> CfrState:
    """The state as it is kept between iterations."""
    if state.storage == "full":
        return state

    def compress_all(values, axis):
        return jax.tree.map(functools.partial(compress, axis=axis, step=state.step), values)

    row = [len(player.row) for player in form.treeplexes]  # axis of the hands, or else of all rows
    return state.replace(
        minimizers=tuple(
            compress_all(x, 1 + axis) for x, axis in zip(state.minimizers, row, strict=True)
        ),
        reach=tuple(map(compress_all, state.reach, row)),
        average_reach=tuple(map(compress_all, state.average_reach, row)),
    )


def _decompressed(state: CfrState) -> CfrState:
    """The state as iterations compute with it."""

    def is_compressed(x):
        return isinstance(x, Compressed)

    return jax.tree.map(
        lambda x: decompress(x) if is_compressed(x) else x, state, is_leaf=is_compressed
    )


def _policy(states: tuple[RegretState, ...]) -> sweeps.Table:
    return tuple(state.policy for state in states)


def _iteration(form: SequenceForm, state: CfrState, solver: Solver) -> CfrState:
    """One iteration t: every player sees the others' reach, and updates regrets and policy.

    Equations are those of Zinkevich et al. (2007), with the averaging weight w_t of the solver.
    """
    step = state.step + 1
    weight_sum, share = _averaging(step, state.weight_sum, solver)
    count = step.astype(form.dtype)
    minimizers, reach = list(state.minimizers), list(state.reach)
    average = list(state.average_reach)
    for p, player in enumerate(form.treeplexes):
        # payoffs of terminals, weighted by the others' own reach: under their newest policies, or
        # (simultaneous updates) under the policies pi^t of all
        others = reach if solver.alternating else state.reach
        terminal = sweeps.terminal_values(form, tuple(others), p)

        # average policy (equation 4), as own reach: sum of w_t r_p^t over the sum of w_t
        average[p] = average[p] + prepend_axes(share, reach[p]) * (reach[p] - average[p])

        # counterfactual values of actions q^t(s, a) and decisions v^t(s), from the leaves up
        policy = _policy(minimizers[p])
        action, decision, _ = sweeps.values(player, terminal, policy, sweeps.mean)

        # regrets r^t = q^t - v^t (equation 7), and the next policy (regret matching, equation 8)
        update = functools.partial(_updated_minimizers, solver.minimizer)
        minimizers[p] = stored(
            update, player.opaque_one, player.groups, minimizers[p], action, decision, count
        )

        # own reach under the next policy, from the root down
        reach[p] = sweeps.reach(player, _policy(minimizers[p]), state.root_reach[p])
    return state.replace(
        step=step,
        minimizers=tuple(minimizers),
        reach=tuple(reach),
        average_reach=tuple(average),
        weight_sum=weight_sum,
    )


def _updated_minimizers(minimizer, groups, states, action, decision, count):
    """The minimisers of a player's groups after the regrets of one iteration."""
    return tuple(
        minimizer.update(state, q - v[None], group.uniform, prepend_axes(count, q))
        for group, state, q, v in zip(groups, states, action, decision, strict=True)
    )


def _averaging(step, weight_sum, solver):
    """The new sum of the weights t**power, and the share of iteration t in it.

    The running average is kept, not the sum, so that float32 neither overflows nor loses the late,
    heavy iterations.
    """
    counted = (step - solver.averaging_delay).astype(weight_sum.dtype)
    weight = jnp.where(counted > 0, jnp.maximum(counted, 1) ** solver.averaging_power, 0)
    weight_sum = weight_sum + weight
    return weight_sum, weight / jnp.maximum(weight_sum, 1)
