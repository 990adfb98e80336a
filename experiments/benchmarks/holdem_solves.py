"""One measurement of the hold'em benchmark: the solution of a spot, or the evaluator of hands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from experiments.benchmarks.measurements import Clock, bandwidth, long_enough, peak_memory
from experiments.subgame_solving.holdem_spots import SPOTS
from jaxgames.holdem.hand_evaluator import strength
from solvers import cfr, evaluation
from solvers.device_batches import split_calls
from solvers.holdem.subgame_tree import holdem_tree
from train.data_sharding import data_mesh

EVALUATOR = "hands"  # the job that measures the evaluator instead of a spot
_HANDS = 2**20  # that the evaluator is given at once
_RIVERS_AT_ONCE = 4  # on a CPU device, where that is faster than all at once
_LEAST = 8  # iterations at once: the first one of a flop takes three times as long, for new memory
# after which a batch of rivers must have the same exploitability on all devices: so early, rounding
# has not yet led them apart
_ITERATIONS = 20


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Solves a spot, or a batch of them with different ranges, and times the iterations.

    Args:
      job: `spot`, a key of `SPOTS` or `EVALUATOR`; `batch`; `devices`; `seconds` that iterations
        are timed for, at least; `check`, whether to solve to the end.
      report: takes the numbers as keywords.
    """
    if job["spot"] == EVALUATOR:
        report(hands_per_second=_hands_per_second(job["seconds"]))
        return
    jax.config.update("jax_num_cpu_devices", job["devices"])
    solve = _Solve(job)
    clock = Clock()
    solve.advance(solve.start, 1)
    report(compile_seconds=clock.seconds())
    seconds = _seconds_per_iteration(solve, job["seconds"])
    kept = sum(leaf.nbytes for leaf in jax.tree.leaves(solve.start.average_reach))
    report(
        devices=jax.device_count(),
        seconds=seconds / solve.batch,
        sequences=sum(player.num_sequences for player in solve.tree.sequence_form.treeplexes),
        bytes=kept / solve.batch,
        bandwidth=bandwidth(2 * kept),
        peak=peak_memory(),
    )
    if solve.batch > 1:
        state = solve.advance(solve.start, _ITERATIONS)
        report(answers=jax.vmap(solve.exploitability)(state, solve.reach).tolist())
    if job["check"]:
        _check(solve, seconds, report)


class _Solve:
    """Discounted CFR on a spot, or on a batch of it with ranges of their own."""

    def __init__(self, job: dict[str, Any]):
        self.spot, self.batch = SPOTS[job["spot"]], job["batch"]
        spot = self.spot
        self.tree = holdem_tree(spot.cards, spot.ranges, spot.betting)
        solver, self.reach = cfr.dcfr(gamma=3.0), self.tree.root_reach
        if self.batch > 1:
            self.reach = _random_ranges(self.reach, self.batch)

        def begin(public, reach):
            return cfr.init(public, root_reach=reach)

        def advance(shared, state):
            public, count = shared
            return cfr.run(public, state, solver=solver, num_iterations=count)

        if self.batch > 1:
            mesh = data_mesh() if job["devices"] > 1 else None
            begin, advance = (_side_by_side(function, mesh) for function in (begin, advance))
        self._advance = advance
        self.start = begin(self.tree.sequence_form, self.reach)

    def advance(self, state, count: int):
        """The state after `count` more iterations, when it is computed."""
        return jax.block_until_ready(self._advance((self.tree.sequence_form, count), state))

    def exploitability(self, state, reach):
        """NashConv / 2 of the average policy, in chips."""
        policy = cfr.average_policy(self.tree.sequence_form, state)
        return (
            evaluation.exploitability(self.tree.sequence_form, policy, reach)
            / self.tree.total_weight
        )


def _seconds_per_iteration(solve, wanted) -> float:
    """Of iterations made at once that take at least the wanted seconds."""

    def measured(count):
        clock = Clock()
        solve.advance(solve.start, count)
        return clock.seconds()

    count, elapsed = long_enough(measured, wanted, first=_LEAST)
    return elapsed / count


def _check(solve, seconds, report) -> None:
    """Reports value and exploitability after as many iterations as the other program made, and the
    time until the exploitability is 0.1 % of the pot."""
    spot, target = solve.spot, 0.001 * solve.spot.pot
    state = solve.advance(solve.start, spot.iterations)
    policy = cfr.average_policy(solve.tree.sequence_form, state)
    value = float(evaluation.expected_value(solve.tree.sequence_form, policy, solve.reach)[0])
    exploitability = float(solve.exploitability(state, solve.reach))
    report(ev=value / solve.tree.total_weight + spot.pot / 2, exploitability=exploitability)
    done = spot.iterations
    while solve.exploitability(state, solve.reach) > target:
        state, done = solve.advance(state, 10), done + 10
    report(to_target=done * seconds, target_iterations=done)


def _random_ranges(ranges, batch):
    """A batch of ranges, in which every hand of the given ranges has a random weight."""
    keys = jax.random.split(jax.random.key(0))
    return tuple(
        held * jax.random.uniform(key, (batch, len(held)), minval=0.2)
        for held, key in zip(ranges, keys, strict=True)
    )


def _side_by_side(function, mesh):
    """`function(shared, single)` for a batch in place of `single`, on the devices of a mesh."""
    size_on_cpu = _RIVERS_AT_ONCE if jax.default_backend() == "cpu" else None

    def share(shared, batch):
        size = size_on_cpu or len(jax.tree.leaves(batch)[0])
        return jax.lax.map(functools.partial(function, shared), batch, batch_size=size)

    return jax.jit(split_calls(share, mesh))


def _hands_per_second(wanted) -> float:
    """The rate at which seven-card hands are evaluated, timed for the wanted seconds."""
    cards = jax.random.randint(jax.random.key(0), (_HANDS, 7), 0, 52, jnp.int32)

    @jax.jit
    def evaluate(cards, count):
        def again(number, total):
            # The cards change from round to round, so that the compiler can leave out no round.
            return total + jnp.sum(strength((cards + number) % 52), dtype=jnp.int32)

        return jax.lax.fori_loop(0, count, again, jnp.int32(0))

    jax.block_until_ready(evaluate(cards, 1))

    def measured(count):
        clock = Clock()
        jax.block_until_ready(evaluate(cards, count))
        return clock.seconds()

    count, elapsed = long_enough(measured, wanted)
    return count * _HANDS / elapsed
