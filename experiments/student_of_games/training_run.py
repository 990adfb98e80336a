"""A network in training: step by step, with checkpoints, metrics and a guard against NaN."""

from __future__ import annotations

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
from solvers.search.growing_tree_cfr import GrowingTreeCfr
from train import student_of_games_training
from train.learner import LearnerSettings, require_finite
from train.metrics import MetricsWriter

LOG = "log"  # folder of the metrics: JSON lines, and events for TensorBoard
_STATE = "training"  # in the checkpoint
_SAVE_EVERY = 100  # steps, or
_SECONDS = 60.0
_LOG_EVERY = 10


def training_settings(
    config: Any, search: GrowingTreeCfr, *, policy_weight: float, **more: Any
) -> student_of_games_training.StudentOfGamesSettings:
    """What the configs of all training experiments mean; `more` are fields of the result."""
    return student_of_games_training.StudentOfGamesSettings(
        search=search,
        learner=LearnerSettings(
            learning_rate=config.learning_rate,
            decay_rate=config.decay,
            decay_steps=config.measured_at[-1] * config.updates,
            batch_size=config.batch_size,
            capacity=config.capacity,
            max_uses=20,
            policy_weight=policy_weight,
        ),
        episodes=config.episodes,
        solves=config.solves,
        updates=config.updates,
        **more,
    )


def student(
    game: BeliefGame,
    network: nnx.Module,
    settings: student_of_games_training.StudentOfGamesSettings,
    run: Run,
    *,
    seed: int = 0,
) -> Trainee:
    """A network that learns to search by sound self-play."""
    graph, params = nnx.split(network)
    state = student_of_games_training.new_student_of_games_training(
        game, params, jax.random.key(seed), settings=settings
    )
    return Trainee(
        state,
        lambda s: student_of_games_training.train_step(game, graph, s, settings=settings),
        run,
    )


class Trainee:
    """A network that learns in a run, from where an interrupted one stopped.

    `state` is a record with a `learner`, a `key` and a `step`; `step(state)` gives the next one and
    metrics. Those of a run that trains several have different names.
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
        self._folder = run.checkpoint / _STATE / name
        self._identity = {"training": json.dumps(dataclasses.asdict(run.config))}
        if self._folder.exists():
            from solvers import checkpoint  # imports Orbax

            self.state = checkpoint.read(self._folder, self.state, identity=self._identity)

    @property
    def params(self) -> PyTree:
        """The network's, as they are now."""
        return self.state.learner.params

    def train(self, step: int) -> None:
        """Trains up to `step`.

        Raises:
          FloatingPointError: a number is not finite.
        """
        begin, first = time.perf_counter(), int(self.state.step)
        saved = begin
        if first >= step:
            return
        title = f"training {self.name}".strip()
        with progress(title, step) as report, MetricsWriter(self._log, step=first) as log:
            for number in range(first, step):
                self.state, metrics = self._step(self.state)
                require_finite(metrics, number)
                if number % _LOG_EVERY == 0:
                    log.write(number, metrics)
                now = time.perf_counter()
                if (number + 1) % _SAVE_EVERY == 0 or number + 1 == step or now - saved > _SECONDS:
                    self._save()
                    saved = now
                report(number + 1, None, (number + 1 - first) / (now - begin))

    def _save(self):
        from solvers import checkpoint  # imports Orbax

        checkpoint.write(self._folder, self.state, identity=self._identity)
