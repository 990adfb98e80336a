"""Training a network within a run, with checkpoints and metrics; it stops at numbers that are not
finite."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, PyTree

from experiments.harness.progress import progress
from experiments.harness.runs import Run
from jaxgames.beliefs.contract import BeliefGame
from train import student_of_games_training
from train.learner import require_finite_losses
from train.metrics import MetricsWriter

LOG = "log"  # folder of the metrics: JSON lines, and events for TensorBoard
_STATE = "training"  # in the checkpoint
_SAVE_EVERY = 100  # steps between checkpoints, or fewer if this takes longer than
_SAVE_SECONDS = 60.0
_LOG_EVERY = 10  # steps between metrics


def student(
    game: BeliefGame,
    network: nnx.Module,
    settings: student_of_games_training.StudentOfGamesSettings,
    run: Run,
    *,
    seed: int = 0,
) -> Trainee:
    """The training of a network by sound self-play, for the searches in `settings`."""
    graph, params = nnx.split(network)
    state = student_of_games_training.init(game, params, jax.random.key(seed), settings=settings)
    return Trainee(
        state,
        lambda s: student_of_games_training.train_step(game, graph, s, settings=settings),
        run,
    )


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
        self._kept = run.meter.keep
        self._folder = run.checkpoint / _STATE / name
        self._identity = {"training": json.dumps(dataclasses.asdict(run.config))}
        if self._folder.exists():
            from solvers import checkpoint  # imports Orbax

            with contextlib.suppress(FileNotFoundError):  # stopped while writing the first
                self.state = checkpoint.read(self._folder, self.state, identity=self._identity)

    @property
    def params(self) -> PyTree:
        """The present parameters of the network."""
        return self.state.learner.params

    def train(self, step: int) -> None:
        """Trains until `step` steps have been made in all.

        Raises:
          ValueError: more steps have been made.
          FloatingPointError: a metric is not finite.
          OSError: a checkpoint cannot be written.
        """
        begin, first = time.perf_counter(), int(self.state.step)
        saved = begin
        title = f"training {self.name}".strip()
        if first > step:
            raise ValueError(
                f"{title}: the checkpoint at {self._folder} is already of step {first}, and what"
                f" was kept of step {step} is missing or damaged: add --overwrite to start again"
            )
        if first == step:
            return
        with progress(title, step) as report, MetricsWriter(self._log, step=first) as log:
            for number in range(first, step):
                self.state, metrics = self._step(self.state)
                require_finite_losses(metrics, number)
                if number % _LOG_EVERY == 0:
                    log.write(number, metrics)
                now, done = time.perf_counter(), number + 1
                due = done % _SAVE_EVERY == 0 or now - saved > _SAVE_SECONDS
                if due or done == step:
                    self._save()
                    saved = now
                report(done, None, (done - first) / (now - begin))

    def _save(self):
        from solvers import checkpoint  # imports Orbax

        checkpoint.write(self._folder, self.state, identity=self._identity)
        self._kept()
