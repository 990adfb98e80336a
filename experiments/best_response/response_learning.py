"""ISMCTS-BR (Timbers et al. 2020) in training: its settings, and a responder in one seat."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
from jaxtyping import PyTree

from experiments.harness.runs import Run
from experiments.student_of_games.training_run import Trainee
from solvers.approximate_best_response.ismcts_br import IsmctsBr
from solvers.approximate_best_response.response_game import ResponseGame
from solvers.device_batches import on_each_device
from train.best_response_training import (
    ResponseEvaluator,
    ResponseSettings,
    init,
    new_network,
    train_step,
)
from train.learner import LearnerSettings
from train.rl.environment import Environment


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learning:
    """How responders learn and search; part of an experiment's config."""

    measured_at: tuple[int, ...]  # steps of training, the last of which ends it
    simulations: int = 32  # of searches in training
    measured_simulations: int = 1000  # of searches when the responder is measured
    exploration: float = 1.25  # of PUCT
    noise: float = 0.25  # share of noise in the prior at the root, in training
    episodes: int = 128  # games side by side
    updates: int = 4  # per step
    width: int = 128
    depth: int = 2
    learning_rate: float = 2e-3
    decay: float = 0.1  # of the learning rate, from the first update to the last
    l2: float = 1e-5
    batch_size: int = 256
    capacity: int = 8192  # of the replay buffer
    max_uses: int = 20  # updates per example
    games: int = 100_000  # that measure the responder in each seat, in the end
    seed: int = 0

    def shared_sizes(self) -> dict[str, int]:
        """The sizes that devices share in training, by name."""
        names = ("episodes", "batch_size", "capacity")
        return {name: getattr(self, name) for name in names}

    def training_settings(self, evaluate: Any, scale: float) -> ResponseSettings:
        """The settings of training with an evaluator, where payoffs are at most `scale`."""
        return ResponseSettings(
            search=IsmctsBr(
                evaluate=evaluate,
                simulations=self.simulations,
                exploration=self.exploration,
                scale=scale,
                noise=self.noise,
            ),
            learner=LearnerSettings(
                learning_rate=self.learning_rate,
                decay_rate=self.decay,
                decay_steps=max(1, self.measured_at[-1] * self.updates),
                batch_size=self.batch_size,
                capacity=self.capacity,
                max_uses=self.max_uses,
                policy_weight=1.0,
                l2=self.l2,
            ),
            episodes=self.episodes,
            updates=self.updates,
        )


SMOKE_LEARNING = Learning(
    measured_at=(0, 20),
    simulations=16,
    measured_simulations=100,
    episodes=32,
    width=32,
    depth=1,
    games=2000,
)
PAPER_LEARNING = Learning(
    measured_at=(0, 1000, 10_000, 100_000),
    simulations=800,
    measured_simulations=800,
    episodes=2048,
    width=512,
    depth=4,
    learning_rate=2e-4,
    batch_size=2048,
    capacity=1_000_000,
)


class Responder:
    """A responder in one seat of a game, in training against an agent, or several in turn.

    Args:
      run: where its training keeps checkpoints and metrics.
      learning: how it learns and searches.
      environment: the game as its network observes it.
      seat: the player that it is.
    """

    response: ResponseGame  # the game against the present agent
    search: IsmctsBr  # how it searches when it is measured

    def __init__(self, run: Run, learning: Learning, environment: Environment, *, seat: int):
        self.run, self.learning, self.environment, self.seat = run, learning, environment, seat
        self.graph, self._params = new_network(
            environment, jax.random.key(learning.seed), width=learning.width, depth=learning.depth
        )

    def face(self, response: ResponseGame, *, name: str, scale: float) -> None:
        """Begins training against the agent of `response`, with the network as it is.

        Args:
          response: the game against the agent.
          name: of this training in the run, different from all others.
          scale: the largest payoff.
        """
        settings = self.learning.training_settings(ResponseEvaluator(self.graph), scale)
        key = jax.random.fold_in(jax.random.key(self.learning.seed), 1 + self.seat)
        common = dict(settings=settings, mesh=self.run.mesh)
        placed = on_each_device(response, self.run.mesh)
        state = init(self.environment, placed, self._params, key, **common)

        def step(state):
            return train_step(self.environment, placed, self.graph, state, **common)

        self._trainee = Trainee(state, step, self.run, name=name)
        self.response = response
        self.search = dataclasses.replace(
            settings.search, simulations=self.learning.measured_simulations, noise=0.0
        )

    def train(self, step: int) -> None:
        """Trains up to `step` against the present agent.

        Raises:
          FloatingPointError: a number is not finite.
        """
        self._trainee.train(step)
        self._params = self._trainee.params

    @property
    def params(self) -> tuple[Environment, PyTree]:
        """What the evaluator of `search` is given: the environment and the network's parameters."""
        return self.environment, self._params
