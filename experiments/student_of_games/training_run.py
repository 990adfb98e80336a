"""Training a network within a run, with checkpoints and metrics; it stops at numbers that are not
finite."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, PyTree

from experiments.harness.checkpoint_times import CheckpointTimes
from experiments.harness.devices import by_first
from experiments.harness.progress import progress
from experiments.harness.runs import Run
from jaxgames.beliefs.contract import BeliefGame
from solvers.device_batches import on_each_device
from train import student_of_games_training
from train.learner import require_finite_losses
from train.metrics import MetricsWriter

LOG = "log"  # folder of the metrics: JSON lines, and events for TensorBoard
READINGS = (
    "readings where the text is silent: an agent's first search is at the root of the game,"
    " whoever acts there; the opponent's range of before is its average reach in the search"
    " before, that search's gadget included; what the network sees, and learns, of leaves that"
    " a player does not reach"
)  # of searches and training, among the deviations
_STATE = "training"  # in the checkpoint
_SAVE_SECONDS = 20.0  # between checkpoints, as an interruption loses what came after the last
_LOG_EVERY = 10  # steps between metrics


def student(
    game: BeliefGame,
    network: nnx.Module,
    settings: student_of_games_training.StudentOfGamesSettings,
    run: Run,
    *,
    seed: int = 0,
    name: str = "",
) -> Trainee:
    """The training of a network by sound self-play, for the searches in `settings`; `name` tells
    the networks of a run apart."""
    graph, params = nnx.split(network)
    common = dict(settings=settings, mesh=run.mesh)
    state = student_of_games_training.init(game, params, jax.random.key(seed), **common)
    game = on_each_device(game, run.mesh)
    return Trainee(
        state,
        lambda s: student_of_games_training.train_step(game, graph, s, **common),
        run,
        name=name,
    )


def shared_sizes(config: Any) -> dict[str, int]:
    """The sizes that devices share in training with this config, by name.

    Args:
      config: what `train.agent.training_settings` takes.
    """
    names = ("episodes", "solves", "batch_size", "capacity")
    queue = student_of_games_training.StudentOfGamesSettings.queue_capacity
    return {name: getattr(config, name) for name in names} | {"queue_capacity": queue}


def lost_queries(config: Any, per_search: float, per_solve: float) -> list[str]:
    """Among the deviations, that more queries are asked than solved; empty if all can be.

    Args:
      config: with `episodes`, the searches of self-play in a step, and `solves`.
      per_search: queries that such a search asks [q_search].
      per_solve: queries that a solved query asks [q_recursive].
    """
    asked = per_search * config.episodes + per_solve * config.solves
    capacity = student_of_games_training.StudentOfGamesSettings.queue_capacity
    text = (
        f"{asked:,g} queries are asked in a step and {config.solves:,} solved: as soon as the queue"
        f" of {capacity:,} is full, its oldest are lost"
    )
    return [text] * (asked > config.solves + 1e-6)  # but for rounding


def unplaced(arrays: PyTree) -> PyTree:
    """Copies of arrays that JAX may move to any devices; each process has all of each array."""
    return jax.tree.map(jnp.asarray, jax.device_get(arrays))


class Trainee:
    """A network in training, which continues where an interrupted run stopped.

    Args:
      state: of training: a record with a `learner`, a `key` and a `step`.
      step: makes a step of training: returns the next state and metrics.
      run: keeps the checkpoints and the metrics.
      name: tells the networks of a run apart.
    """

    def __init__(
        self,
        state: Any,
        step: Callable[[Any], tuple[Any, dict[str, Array]]],
        run: Run,
        *,
        name: str = "",
    ):
        self.state, self.name = state, name
        self._step, self._log = step, run.out / LOG / name
        self._run = run
        self._folder = run.checkpoint / _STATE / name
        if self._folder.exists():  # of this config, as the run has checked
            from solvers import checkpoint  # imports Orbax

            with contextlib.suppress(FileNotFoundError):  # stopped while writing the first
                self.state = checkpoint.read(self._folder, self.state, identity={})

    @property
    def params(self) -> PyTree:
        """The present parameters of the network; any devices may use them."""
        params = self.state.learner.params
        return params if self._run.mesh is None else unplaced(params)

    def train(self, step: int) -> None:
        """Trains until `step` steps have been made in all.

        Raises:
          ValueError: more steps have been made.
          FloatingPointError: a metric is not finite.
          OSError: a checkpoint cannot be written.
        """
        begin, first = time.perf_counter(), int(self.state.step)
        times = CheckpointTimes(_SAVE_SECONDS)
        title = f"training {self.name}".strip()
        if first > step:
            raise ValueError(
                f"{title}: the checkpoint at {self._folder} is already of step {first}, and what"
                f" was kept of step {step} is missing or damaged: add --overwrite to start again"
            )
        if first == step:
            return
        with progress(title, step) as report, self._metrics(first) as log:

            def read(number: int, metrics: dict[str, Array] | None) -> None:
                if metrics is not None:
                    require_finite_losses(metrics, number)
                    if log is not None and number % _LOG_EVERY == 0:
                        log.write(number, metrics)

            unread = None  # the metrics of the last step
            for number in range(first, step):
                self.state, metrics = self._step(self.state)
                # The last step's are read while this step runs: the devices never wait for the host
                read(number - 1, unread)
                unread = metrics
                done = number + 1
                if done == step or by_first(times.due):
                    read(number, unread)  # before anything is kept
                    unread = None
                    with times.writing():
                        self._save()
                report(done, None, (done - first) / (time.perf_counter() - begin))

    def timed_steps(self, number: int) -> list[float]:
        """How many seconds steps of training take after the first, which compiles.

        They are made with a copy of the state and change nothing.
        """
        state, seconds = jax.tree.map(jnp.copy, self.state), []
        for _ in range(1 + number):
            begin = time.perf_counter()
            state, metrics = self._step(state)
            jax.block_until_ready((state, metrics))
            seconds.append(time.perf_counter() - begin)
        return seconds[1:]

    def _save(self):
        from solvers import checkpoint  # imports Orbax

        checkpoint.write(self._folder, self.state, identity={})
        self._run.keep_usage()

    def _metrics(self, first):
        """The writer of the metrics, if this process writes."""
        writes = self._run.writes
        return MetricsWriter(self._log, step=first) if writes else contextlib.nullcontext()
