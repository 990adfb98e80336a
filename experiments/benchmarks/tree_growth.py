"""The cost of an iteration of CFR by the nodes of the search tree and by its capacity."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks.measurements import seconds_per_turn
from experiments.benchmarks.search_tasks import belief_game
from solvers.search import (
    continual_resolving,
    expansion_phase,
    growing_tree_cfr,
    leaf_evaluators,
    regret_phase,
)
from solvers.search.search_state import GrowingTreeCfr

_TRIES = 100  # simulations per node after which the game is taken to have no more nodes
_ITERATIONS = 10  # of CFR, after which trees of both capacities must have the same policy


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Reports `points`: nodes, and microseconds per iteration and search with two capacities.

    The first capacity is that of the largest tree, the second is twice that.

    Args:
      job: `game`; `nodes`, the sizes of the tree; `batch`, the searches side by side; `seconds`
        that each point is timed for.
      report: takes the numbers as keywords.

    Raises:
      ValueError: the capacity changes the policy.
    """
    game = belief_game(job["game"])
    largest = max(job["nodes"])
    trees = [_GrowingTree(game, capacity, job) for capacity in (largest, 2 * largest)]
    points = []
    for nodes in sorted(job["nodes"]):
        timings = [tree.at(nodes) for tree in trees]
        if timings[0] is None:
            break
        check_equal(job["game"], nodes, *(policy for _, policy in timings))
        points.append([nodes, *(microseconds for microseconds, _ in timings)])
        report(points=points)


def check_equal(game: str, nodes: int, policy: Any, other: Any) -> None:
    """Raises `ValueError` if the policies of two capacities differ."""
    if not np.allclose(policy, other, rtol=1e-4, atol=1e-5):
        worst = np.abs(np.asarray(policy) - np.asarray(other)).max()
        raise ValueError(f"{game}, {nodes} nodes: twice the capacity changes policies by {worst:g}")


class _GrowingTree:
    """A batch of equal search trees that grow."""

    def __init__(self, game, capacity, job):
        self.job, self.game = job, game
        self.settings = GrowingTreeCfr(
            leaf_evaluators.zero, simulations=capacity, max_nodes=capacity, max_path=1
        )
        problem = continual_resolving.first_problem(game, max_path=self.settings.max_path)
        problems = jax.tree.map(
            lambda x: jnp.broadcast_to(x, (job["batch"], *jnp.shape(x))), problem
        )
        start = jax.jit(growing_tree_cfr.start, static_argnames="settings")
        state = start(game, None, problems=problems, settings=self.settings)
        # simulations draw world states by the reaches of the last iteration
        iterate = jax.jit(regret_phase.iterate, static_argnames="settings")
        self.state = iterate(game, None, state, settings=self.settings)

    def at(self, nodes):
        """Microseconds per iteration and search at `nodes` nodes, and the average policy; None if
        the game has fewer nodes."""
        self.state = _grown(self.game, self.state, jnp.int32(nodes), settings=self.settings)
        if int(self.state.forest.count[0]) < nodes:
            return None
        run = functools.partial(_iterated, self.game, self.state, settings=self.settings)
        spent = seconds_per_turn(run, seconds=self.job["seconds"])
        policy = run(jnp.int32(_ITERATIONS))
        return 1e6 * spent / self.job["batch"], np.concatenate([np.ravel(x) for x in policy])


@functools.partial(jax.jit, static_argnames="settings")
def _grown(game, state, nodes, *, settings):
    """Equal searches with trees grown to `nodes` by simulations only; capacity does not matter."""

    def more(carry):
        tried, state = carry
        return (state.forest.count[0] < nodes) & (tried < _TRIES * nodes)

    def grow(carry):
        tried, state = carry
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), nodes), tried)
        noise = expansion_phase.walk_noise(key, state.layout, 1, state.forest.since.dtype)
        noise = jnp.broadcast_to(noise, (state.layout.batch, *noise.shape[1:]))
        return tried + 1, expansion_phase.simulate(game, None, noise, state, settings=settings)

    return jax.lax.while_loop(more, grow, (jnp.int32(0), state))[1]


@functools.partial(jax.jit, static_argnames="settings")
def _iterated(game, states, count, *, settings):
    """The average policies at the root after more iterations of a batch of equal searches."""
    iterate = functools.partial(regret_phase.iterate, game, None, settings=settings)
    states = jax.lax.fori_loop(0, count, lambda _, states: iterate(states), states)
    return expansion_phase.policies_at(game, states.forest, states.target)
