"""Counterfactual regret minimisation on a public tree, any member of the family.

    tree, solver = build_sequence_form(make("leduc_poker")), cfr_plus()
    state = run(tree, init(tree), solver=solver, num_iterations=1000)
    policy = average_policy(tree, state)

One iteration updates every player once. `run` is one compiled loop in which the tree is an
argument, so trees of one shape share a compilation and whole solves batch under `jax.vmap`.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgames.core import record
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
from solvers.sequence_form.averaging import behaviour
from solvers.sequence_form.sparse_sum import stored
from solvers.sequence_form.storage import Compressed, check_storage, compress, decompress


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
        if self.averaging_delay < 0:
            raise ValueError(f"delay={self.averaging_delay} must be at least 0")


def cfr(*, averaging: float = 0.0, delay: int = 0, alternating: bool = True) -> Solver:
    """CFR (Zinkevich et al. 2007), uniform averaging."""
    return Solver(RegretMatching(), averaging, delay, alternating)


def cfr_plus(
    *, averaging: float = 1.0, delay: int = 0, discounted: int = 0, alternating: bool = True
) -> Solver:
    """CFR+ (Tammelin 2014), linear averaging.

    With `delay` half of the iterations and `discounted=30` it is the variant of Brown, Sandholm and
    Amos (2018, appendix).
    """
    return Solver(RegretMatchingPlus(discounted), averaging, delay, alternating)


def linear_cfr(*, averaging: float = 1.0, delay: int = 0, alternating: bool = True) -> Solver:
    """Linear CFR (Brown and Sandholm 2019): iteration t counts t in regrets and average."""
    return Solver(RegretMatching(power=1.0), averaging, delay, alternating)


def dcfr(
    *,
    alpha: float = 1.5,
    beta: float = 0.0,
    gamma: float = 2.0,
    delay: int = 0,
    alternating: bool = True,
) -> Solver:
    """Discounted CFR (Brown and Sandholm 2019); the defaults are the authors'."""
    return Solver(DiscountedRegretMatching(alpha, beta), gamma, delay, alternating)


def pcfr_plus(*, averaging: float = 2.0, delay: int = 0, alternating: bool = True) -> Solver:
    """Predictive CFR+ (Farina, Kroer, Sandholm 2021), quadratic averaging."""
    return Solver(PredictiveRegretMatchingPlus(), averaging, delay, alternating)


SOLVERS = {
    "cfr": cfr,
    "cfr_plus": cfr_plus,
    "linear_cfr": linear_cfr,
    "dcfr": dcfr,
    "pcfr_plus": pcfr_plus,
}


def make_solver(spec: str) -> Solver:
    """Builds a solver from its name and parameters: `make_solver("dcfr(alpha=1.5,gamma=3)")`.

    Raises:
      ValueError: unknown solver (with the nearest name), unknown or illegal parameter.
    """
    return call(spec, "solver", SOLVERS)


@record
class CfrState:
    """All that a solve remembers; the entries of the tuples are players, then groups.

    In "int16" `storage`, arrays of `minimizers`, `reach` and `average_reach` are `Compressed`.
    """

    step: Array  # [] int32 iterations done
    minimizers: tuple[tuple[RegretState, ...], ...]
    # own reach of every sequence under the current policies, in rows (see `sequences.Player`)
    reach: tuple[Array, ...]
    average_reach: tuple[Array, ...]  # the same under the average policies
    weight_sum: Array  # [] sum of the averaging weights so far
    root_reach: tuple[Array, ...]  # [R_p]
    storage: str = flax.struct.field(pytree_node=False, default="full")


def init(
    tree: SequenceForm,
    *,
    root_reach: RootReach | None = None,
    policy: Policy | None = None,
    policy_weight: float | Float[Array, ""] = 1.0,
    storage: str = "full",
) -> CfrState:
    """The state before the first iteration.

    `root_reach` is each player's own reach of its root sequences `[R_p]` (its range; default 1).
    A `policy` warm-starts the solve: regrets are `policy_weight` times its probabilities, which
    regret matching turns back into it. Between iterations a `storage` of "int16" keeps the
    state in half the bytes of float32 (see `storage.py`); "full" is the precision of the tree.

    Raises:
      ValueError: a policy or a root reach has the wrong shape, or there is no such storage.
    """
    check_storage(storage)
    state = _start(tree, root_reach, policy, policy_weight)
    return _compressed(tree, state.replace(storage=storage))


@jax.jit
def _start(tree, root_reach, policy, policy_weight) -> CfrState:
    root_reach = checked_root_reach(tree, root_reach)
    tables = uniform(tree) if policy is None else pack(tree, policy)
    weight = 0.0 if policy is None else policy_weight
    reach = tuple(map(sweeps.reach, tree.treeplexes, tables, root_reach))
    return CfrState(
        step=jnp.int32(0),
        minimizers=tuple(
            tuple(RegretState(regret=weight * table, policy=table) for table in groups)
            for groups in tables
        ),
        reach=reach,
        average_reach=tuple(map(jnp.zeros_like, reach)),
        weight_sum=jnp.zeros((), tree.dtype),
        root_reach=root_reach,
    )


@functools.partial(jax.jit, static_argnames="solver")
def run(
    tree: SequenceForm, state: CfrState, *, solver: Solver, num_iterations: int | Int[Array, ""]
) -> CfrState:
    """The state after `num_iterations` more iterations, in one compiled loop.

    Batch it with `jax.vmap` over states, root ranges or payoffs (see `batching`).

    Raises:
      ValueError: `num_iterations` is batched.
    """
    return _loop(solver)(tree, state, num_iterations)


@functools.cache
def _loop(solver: Solver):
    def loop(tree, state, num_iterations):
        def iteration(_, state):
            return _compressed(tree, _iteration(tree, _whole(state), solver))

        return jax.lax.fori_loop(0, num_iterations, iteration, state)

    return batch_last(loop)


@jax.jit
def average_policy(tree: SequenceForm, state: CfrState) -> Policy:
    """Average policies, which converge to equilibrium: by player `[D_p, A]`.

    Uniform in information states that the player itself has never reached.
    """
    reach = _whole(state).average_reach
    return unpack(tree, tuple(map(behaviour, tree.treeplexes, reach)))


@jax.jit
def current_policy(tree: SequenceForm, state: CfrState) -> Policy:
    """The policies of the next iteration: by player `[D_p, A]`."""
    return unpack(tree, tuple(map(_policy, _whole(state).minimizers)))


@jax.jit
def _compressed(tree: SequenceForm, state: CfrState) -> CfrState:
    """The state as it is kept between iterations."""
    if state.storage == "full":
        return state

    def each(values, axis):
        return jax.tree.map(functools.partial(compress, axis=axis, step=state.step), values)

    row = [len(player.row) for player in tree.treeplexes]  # axis of the hands, or else of all rows
    return state.replace(
        minimizers=tuple(each(x, 1 + axis) for x, axis in zip(state.minimizers, row, strict=True)),
        reach=tuple(map(each, state.reach, row)),
        average_reach=tuple(map(each, state.average_reach, row)),
    )


def _whole(state: CfrState) -> CfrState:
    """The state as iterations compute with it."""

    def is_compressed(x):
        return isinstance(x, Compressed)

    return jax.tree.map(
        lambda x: decompress(x) if is_compressed(x) else x, state, is_leaf=is_compressed
    )


def _policy(states: tuple[RegretState, ...]) -> sweeps.Table:
    return tuple(state.policy for state in states)


def _iteration(tree: SequenceForm, state: CfrState, solver: Solver) -> CfrState:
    step = state.step + 1
    weight_sum, share = _averaging(step, state.weight_sum, solver)
    count = step.astype(tree.dtype)
    minimizers, reach = list(state.minimizers), list(state.reach)
    average = list(state.average_reach)
    for p, player in enumerate(tree.treeplexes):
        seen = reach if solver.alternating else state.reach
        terminal = sweeps.terminal_values(tree, tuple(seen), p)
        average[p] = average[p] + _lift(share, reach[p]) * (reach[p] - average[p])
        policy = _policy(minimizers[p])
        action, decision, _ = sweeps.values(player, terminal, policy, sweeps.mean)
        update = functools.partial(_updated, solver.minimizer)
        if player.opaque_one is not None:
            update = functools.partial(stored, update, player.opaque_one)
        minimizers[p] = update(player.groups, minimizers[p], action, decision, count)
        reach[p] = sweeps.reach(player, _policy(minimizers[p]), state.root_reach[p])
    return state.replace(
        step=step,
        minimizers=tuple(minimizers),
        reach=tuple(reach),
        average_reach=tuple(average),
        weight_sum=weight_sum,
    )


def _updated(minimizer, groups, memories, action, decision, count):
    return tuple(
        minimizer.update(memory, q - v[None], group.uniform, _lift(count, q))
        for group, memory, q, v in zip(groups, memories, action, decision, strict=True)
    )


def _lift(count: Array, like: Array) -> Array:
    """A number per solve, with axes of length 1 before it: as many as `like` has."""
    return count.reshape((1,) * (like.ndim - count.ndim) + count.shape)


def _averaging(step, weight_sum, solver):
    """New sum of weights t**power, and iteration t's share of it: the running average is kept,
    not the sum, so that float32 neither overflows nor loses the late, heavy iterations."""
    counted = (step - solver.averaging_delay).astype(weight_sum.dtype)
    weight = jnp.where(counted > 0, jnp.maximum(counted, 1) ** solver.averaging_power, 0)
    weight_sum = weight_sum + weight
    return weight_sum, weight / jnp.maximum(weight_sum, 1)
