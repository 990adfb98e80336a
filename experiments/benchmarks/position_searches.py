"""Speed of searches of positions, of AlphaZero's kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from experiments.benchmarks.measurements import Clock, mesh_of_cores, sample_searches
from experiments.benchmarks.search_tasks import TASKS, Setting, before_mate, build
from solvers.device_batches import split_calls


def measure(
    searcher: Callable[[Setting, int], Callable[..., Any]],
    job: dict[str, Any],
    report: Callable[..., None],
) -> None:
    """Reports compile time, the move played where one wins, and samples of searches per second.

    Args:
      searcher: makes a function of game, params and key that makes this many searches at the game's
        root and returns the visits of the actions and the search's policy, both `[B, A]`.
      job: `task`, a key of `TASKS`; `devices`, which share the batch as in `growing_tree_search`;
        `repeats` and `sampling_seconds`, as in `search.Config`.
      report: takes the numbers as keywords.
    """
    mesh = mesh_of_cores(job["devices"])
    devices = 1 if mesh is None else mesh.size
    report(devices=devices)
    if devices < job["devices"]:
        return
    task = TASKS[job["task"]]
    setting = build(task)
    share = searcher(setting, task.batch // devices)
    split = jax.jit(split_calls(lambda shared, keys: share(*shared, keys[0]), mesh))

    def arguments_of(game, number):
        return (game, setting.params), jax.random.split(jax.random.key(number), devices)

    clock = Clock()
    run = split.lower(*arguments_of(setting.game, 0)).compile()
    report(compile_seconds=round(clock.seconds(), 3))
    visits, policies = run(*arguments_of(before_mate(task, setting.game), 0))
    report(
        move=int(jnp.argmax(jnp.sum(policies, axis=0))),
        simulations=int(jnp.sum(visits[0])),
        calls=task.simulations + 1,
    )
    _, samples = sample_searches(
        lambda number: run(*arguments_of(setting.game, number)), task.batch, job
    )
    report(samples=samples)
