"""Best responses to agents of enumerable games, learned and measured: what several experiments do.

A responder is trained against an agent in both seats. What it wins is measured exactly: searches
wherever it can come to make a policy, whose value is computed; and, with confidence, by games.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from experiments.best_response.named_agents import policies_of, to_jax
from experiments.harness.policy_file import TabularPolicy
from experiments.harness.runs import Run
from experiments.student_of_games.training_run import Trainee
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import evaluation
from solvers.approximate_best_response import response_matches
from solvers.approximate_best_response.ismcts_br import IsmctsBr
from solvers.approximate_best_response.posterior import build_response_game
from solvers.approximate_best_response.response_game import ResponseGame
from solvers.sequence_form import build_sequence_form
from train.best_response_training import (
    ResponseEvaluator,
    ResponseSettings,
    init,
    new_network,
    train_step,
)
from train.learner import LearnerSettings
from train.rl.environment import build_environment

SEARCH_ALONE = 0  # the step of points without a network


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learning:
    """How responders learn and search; part of an experiment's config."""

    measured_at: tuple[int, ...]  # steps
    simulations: int = 32  # of searches in training
    measured_simulations: int = 1000
    exploration: float = 1.25
    noise: float = 0.25
    episodes: int = 128
    updates: int = 4
    width: int = 128
    depth: int = 2
    learning_rate: float = 2e-3
    decay: float = 0.1  # of the rate, over the whole run
    l2: float = 1e-5
    batch_size: int = 256
    capacity: int = 8192
    max_uses: int = 20  # updates per example
    games: int = 100_000  # in either seat, in the end
    seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """What the responder wins against an agent, by seat, after so many steps of training."""

    game: str
    agent: str
    step: int
    exact: list[float]  # what an exact best response wins
    won: list[float]  # the exact value of what the responder plays
    mean: list[float] | None = None  # by games
    error: list[float] | None = None  # standard error of that

    @property
    def percent(self) -> float:
        """Of the exact NashConv; payoffs sum to 0."""
        return 100 * sum(self.won) / sum(self.exact)


class Arena:
    """A two-player zero-sum game, compiled for all that is done here."""

    def __init__(self, game: str):
        self.game = make(game)
        self.source = enumerate_game(self.game)
        if self.source.num_players != 2 or not np.allclose(self.source.returns.sum(axis=1), 0):
            raise ValueError(f"{self.game} must be a zero-sum game of two players")
        self.public = build_sequence_form(self.source)
        self.environment = build_environment(self.game)
        self.tree = self.environment.game
        self.scale = float(np.abs(self.source.returns).max())

    def against(self, policies: TabularPolicy) -> tuple[ResponseGame, ResponseGame]:
        """The game for either player as the responder."""
        return tuple(
            build_response_game(self.source, self.tree, policies, responder=p) for p in range(2)
        )

    def best(self, policies: TabularPolicy) -> list[float]:
        """What exact best responses win, by seat."""
        found = evaluation.best_response_value(self.public, to_jax(policies))
        return np.asarray(found, float).tolist()

    def composed(
        self,
        policies: TabularPolicy,
        params: Sequence[PyTree],
        settings: IsmctsBr,
        seed: int,
    ) -> list[TabularPolicy]:
        """What both play when a searching responder has one seat and the agent the other: by seat
        of the responder."""
        found = []
        for player, response in enumerate(self.against(policies)):
            key = jax.random.fold_in(jax.random.key(seed), player)
            mine = response_matches.response_policy(
                response, params[player], key, self.source, settings=settings
            )
            both = (mine if p == player else rows for p, rows in enumerate(policies))
            found.append(tuple(both))
        return found

    def won(self, pairs: Sequence[TabularPolicy]) -> list[float]:
        """The exact values of what responders play, by seat."""
        values = (evaluation.expected_value(self.public, to_jax(both)) for both in pairs)
        return [float(value[player]) for player, value in enumerate(values)]


arena = functools.cache(Arena)


def points(run: Run, game: str, agent: str, learning: Learning) -> list[Point]:
    """A learning curve, or what an interrupted run kept of it.

    Raises:
      ValueError: no such game or agent.
      FloatingPointError: a number in training is not finite.
    """
    name = re.sub(r"[^\w.]+", "_", f"{game}-{agent}")
    return run.kept(name, Point, lambda: _measured(run, game, agent, learning, name))


def search_alone(game: str, agent: str, learning: Learning) -> Point:
    """What a search without a network wins, with as many simulations as one with it."""
    here = arena(game)
    policies = policies_of(agent, here.source, here.public)
    settings = IsmctsBr(
        simulations=learning.measured_simulations,
        exploration=learning.exploration,
        scale=here.scale,
    )
    won = here.won(here.composed(policies, (None, None), settings, learning.seed))
    return Point(game=game, agent=agent, step=SEARCH_ALONE, exact=here.best(policies), won=won)


def _measured(run, game, agent, learning, name) -> Iterator[Point]:
    here = arena(game)
    policies = policies_of(agent, here.source, here.public)
    responses, exact = here.against(policies), here.best(policies)
    key = jax.random.key(learning.seed)
    graph, params = new_network(here.environment, key, width=learning.width, depth=learning.depth)
    settings = training_settings(learning, ResponseEvaluator(graph), here.scale)
    trainees = [
        _trainee(run, here.environment, graph, params, responses[p], settings, learning, name, p)
        for p in range(2)
    ]
    search = dataclasses.replace(
        settings.search, simulations=learning.measured_simulations, noise=0.0
    )
    for step in learning.measured_at:
        for trainee in trainees:
            trainee.train(step)
        given = [(here.environment, trainee.params) for trainee in trainees]
        pairs = here.composed(policies, given, search, learning.seed)
        point = Point(game=game, agent=agent, step=step, exact=exact, won=here.won(pairs))
        if step == learning.measured_at[-1]:
            point = _with_games(point, here, pairs, learning)
        yield point


def _trainee(run, environment, graph, params, response, settings, learning, name, player):
    key = jax.random.fold_in(jax.random.key(learning.seed), 1 + player)
    state = init(environment, response, params, key, settings=settings)

    def step(state):
        return train_step(environment, response, graph, state, settings=settings)

    return Trainee(state, step, run, name=f"{name}-{player}")


def training_settings(learning: Learning, evaluate: Any, scale: float) -> ResponseSettings:
    """What a config means for `train.best_response_training`."""
    return ResponseSettings(
        search=IsmctsBr(
            evaluate=evaluate,
            simulations=learning.simulations,
            exploration=learning.exploration,
            scale=scale,
            noise=learning.noise,
        ),
        learner=LearnerSettings(
            learning_rate=learning.learning_rate,
            decay_rate=learning.decay,
            decay_steps=max(1, learning.measured_at[-1] * learning.updates),
            batch_size=learning.batch_size,
            capacity=learning.capacity,
            max_uses=learning.max_uses,
            policy_weight=1.0,
            l2=learning.l2,
        ),
        episodes=learning.episodes,
        updates=learning.updates,
    )


def _with_games(point, here, pairs, learning) -> Point:
    means, errors = [], []
    for player, both in enumerate(pairs):
        key = jax.random.fold_in(jax.random.key(learning.seed), 10 + player)
        won = response_matches.sampled_payoffs(here.tree, both, key, num_games=learning.games)[
            :, player
        ]
        means.append(float(won.mean()))
        errors.append(float(won.std(ddof=1) / np.sqrt(len(won))))
    return dataclasses.replace(point, mean=means, error=errors)


def by_games(point: Point) -> tuple[float, float, float]:
    """NashConv by games, and its 95 % confidence interval: two standard errors to either side."""
    mean, error = sum(point.mean), float(np.linalg.norm(point.error))
    return mean, mean - 2 * error, mean + 2 * error


def row(point: Point) -> dict[str, object]:
    """A point as a row of a CSV."""
    seats = [*point.exact, *point.won]
    names = ("exact_0", "exact_1", "won_0", "won_1")
    values = {name: f"{value:.6g}" for name, value in zip(names, seats, strict=True)}
    where = dict(game=point.game, agent=point.agent, step=point.step)
    return where | values | {"percent": f"{point.percent:.4g}"}


def last(found: Iterable[Point]) -> Point:
    """The point after all of the training."""
    return max(found, key=lambda point: point.step)
