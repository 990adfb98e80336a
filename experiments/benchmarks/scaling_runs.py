"""What the benchmark of scaling measures in a process of its own: searches, or training."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
from jax.sharding import Mesh

from experiments.benchmarks.growing_tree_search import searcher
from experiments.benchmarks.measurements import mesh_of_cores, samples_of_turns
from experiments.benchmarks.search_tasks import TASKS, Setting, build
from experiments.harness import devices
from solvers.device_batches import on_each_device
from train import student_of_games_training
from train.learner import LearnerSettings
from train.student_of_games_training import StudentOfGamesSettings


def measurements(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The time of the first turn, which compiles, and then samples of searches per second.

    Args:
      job: `program`, a key of `PROGRAMS`; `task`, a key of `TASKS`; `devices`, `cores` and `batch`,
        the searches that all devices make side by side; `seconds` that a sample takes.

    Yields:
      `compile_seconds`, and after that samples of `Clock`. Nothing is under way between two of
      them, so that another process can be measured.

    Raises:
      ValueError: cores are not devices because an accelerator is used.
    """
    if job["cores"] == 1:  # compiled as for several cores
        devices.set_core_flags()
    mesh = mesh_of_cores(job["devices"])
    if (1 if mesh is None else mesh.size) < job["devices"]:
        raise ValueError(f"devices={job['devices']} must be 1: cores are no devices here")
    turns = PROGRAMS[job["program"]](build(TASKS[job["task"]]), job["batch"], mesh)
    yield from samples_of_turns(turns, job["batch"], seconds=job["seconds"])


def _searches(setting: Setting, batch: int, mesh: Mesh | None) -> Iterator[Any]:
    """Batches of searches, each of which is under way when it is given and when the last one is
    waited for, as in training: devices wait neither for the host nor, at a batch's end, for each
    other."""
    run = jax.jit(searcher(setting, mesh))
    shared = on_each_device((setting.game, setting.params, setting.problem), mesh)
    number, last = 0, None
    while True:
        keys = jax.random.split(jax.random.key(number), batch)
        running = run(shared, keys)
        jax.block_until_ready(last)
        last, number = running, number + 1
        yield running


def _training(setting: Setting, batch: int, mesh: Mesh | None) -> Iterator[Any]:
    """Steps of training with `batch` searches each, and updates on as many examples per search as
    in `sog_leduc`."""
    settings = StudentOfGamesSettings(
        search=dataclasses.replace(setting.settings, max_path=2),
        learner=LearnerSettings(batch_size=8 * batch, capacity=512 * batch),
        episodes=batch // 2,
        solves=batch // 2,
        updates=4,
        queries_per_solve=0.3,
        queue_capacity=128 * batch,
    )
    graph = setting.settings.evaluate.graph
    state = student_of_games_training.init(
        setting.game, setting.params, jax.random.key(0), settings=settings, mesh=mesh
    )
    game = on_each_device(setting.game, mesh)
    step = functools.partial(
        student_of_games_training.train_step, game, graph, settings=settings, mesh=mesh
    )
    last = None
    while True:
        state, metrics = step(state)
        jax.block_until_ready(last)  # as the commands do: one step is always under way
        last = metrics
        yield metrics


PROGRAMS = {"searches": _searches, "training": _training}
