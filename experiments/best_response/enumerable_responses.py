"""Best responses to agents of enumerable games, learned and measured.

A responder is trained against an agent in both seats. Its winnings are measured in two ways:
exactly, where its searches at all of its decisions are composed into a policy whose value is
computed; and by games, with a confidence interval.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Sequence

import jax
import numpy as np
from jaxtyping import PyTree

from experiments.best_response.named_agents import agent_policies, to_jax
from experiments.best_response.response_learning import Learning, Responder
from experiments.harness.policy_file import TabularPolicy
from experiments.harness.runs import Run
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import evaluation
from solvers.approximate_best_response import response_matches
from solvers.approximate_best_response.ismcts_br import IsmctsBr
from solvers.approximate_best_response.posterior import build_response_game
from solvers.approximate_best_response.response_game import ResponseGame
from solvers.sequence_form import build_sequence_form
from train.rl.environment import build_environment

SEARCH_ALONE = 0  # the step of points without a network


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """What responses to an agent win, by the responder's seat, after some training."""

    game: str
    agent: str
    step: int
    exact: list[float]  # by an exact best response
    won: list[float]  # by the responder, the exact value of its policy
    mean: list[float] | None = None  # by the responder in games
    error: list[float] | None = None  # standard error of the mean

    @property
    def percent(self) -> float:
        """The responder's share of the exact NashConv in percent; payoffs sum to 0."""
        return 100 * sum(self.won) / sum(self.exact)


class EnumeratedGame:
    """A two-player zero-sum game with all its histories, compiled for responses to agents.

    Raises:
      ValueError: there is no such game, or it is not a zero-sum game of two players.
    """

    def __init__(self, name: str):
        self.game = make(name)
        self.tree = enumerate_game(self.game)
        if self.tree.num_players != 2 or not np.allclose(self.tree.returns.sum(axis=1), 0):
            raise ValueError(f"{self.game} must be a zero-sum game of two players")
        self.sequence_form = build_sequence_form(self.tree)
        self.environment = build_environment(self.game)
        self.scale = float(np.abs(self.tree.returns).max())  # the largest payoff

    def response_games(self, policies: TabularPolicy) -> tuple[ResponseGame, ResponseGame]:
        """The game against an agent, for each player as the responder."""
        return tuple(
            build_response_game(self.tree, self.environment.game, policies, responder=player)
            for player in range(2)
        )

    def exact_values(self, policies: TabularPolicy) -> list[float]:
        """What exact best responses win against an agent, by the responder's seat."""
        values = evaluation.best_response_value(self.sequence_form, to_jax(policies))
        return np.asarray(values, float).tolist()

    def response_profiles(
        self,
        policies: TabularPolicy,
        params: Sequence[PyTree],
        settings: IsmctsBr,
        seed: int,
    ) -> list[TabularPolicy]:
        """Both players' policies, where a searching responder has one seat and an agent the other.

        Args:
          policies: the agent's, in either seat.
          params: the evaluator's parameters, by the responder's seat.
          settings: of the responder's searches.
          seed: of the searches.

        Returns:
          Two profiles of policies, by the responder's seat.
        """
        profiles = []
        for player, response in enumerate(self.response_games(policies)):
            key = jax.random.fold_in(jax.random.key(seed), player)
            searched = response_matches.response_policy(
                response, params[player], key, self.tree, settings=settings
            )
            profiles.append(with_policy(policies, player, searched))
        return profiles

    def responder_values(self, profiles: Sequence[TabularPolicy]) -> list[float]:
        """The exact values of profiles to the responder, whose seat is the profile's number."""
        values = (
            evaluation.expected_value(self.sequence_form, to_jax(profile)) for profile in profiles
        )
        return [float(value[player]) for player, value in enumerate(values)]


enumerated_game = functools.cache(EnumeratedGame)


def with_policy(policies: TabularPolicy, player: int, policy: np.ndarray) -> TabularPolicy:
    """A profile of policies with that of one player replaced."""
    return tuple(policy if p == player else rows for p, rows in enumerate(policies))


def points(run: Run, game: str, agent: str, learning: Learning) -> list[Point]:
    """The learning curve of a responder; what an interrupted run has kept of it is read.

    Raises:
      ValueError: there is no such game or agent.
      FloatingPointError: a number in training is not finite.
    """
    name = re.sub(r"[^\w.]+", "_", f"{game}-{agent}")
    return run.kept(name, Point, lambda: _measured(run, game, agent, learning, name))


def search_alone(game: str, agent: str, learning: Learning) -> Point:
    """What a search without a network wins, with as many simulations as the measured searches."""
    enumerated = enumerated_game(game)
    policies = agent_policies(agent, enumerated.tree, enumerated.sequence_form)
    settings = IsmctsBr(
        simulations=learning.measured_simulations,
        exploration=learning.exploration,
        scale=enumerated.scale,
    )
    profiles = enumerated.response_profiles(policies, (None, None), settings, learning.seed)
    return Point(
        game=game,
        agent=agent,
        step=SEARCH_ALONE,
        exact=enumerated.exact_values(policies),
        won=enumerated.responder_values(profiles),
    )


def _measured(run, game, agent, learning, name) -> Iterator[Point]:
    """Trains responders in both seats, and measures them after each of the steps."""
    enumerated = enumerated_game(game)
    policies = agent_policies(agent, enumerated.tree, enumerated.sequence_form)
    exact = enumerated.exact_values(policies)
    responders = []
    for seat, response in enumerate(enumerated.response_games(policies)):
        responder = Responder(run, learning, enumerated.environment, seat=seat)
        responder.face(response, name=f"{name}-{seat}", scale=enumerated.scale)
        responders.append(responder)

    def measured(step) -> Point:
        for responder in responders:
            responder.train(step)
        params = [responder.params for responder in responders]
        search = responders[0].search
        profiles = enumerated.response_profiles(policies, params, search, learning.seed)
        won = enumerated.responder_values(profiles)
        point = Point(game=game, agent=agent, step=step, exact=exact, won=won)
        if step == learning.measured_at[-1]:
            return _with_games(point, enumerated, profiles, learning)
        return point

    for step in learning.measured_at:  # kept one by one: training does not go back to a step
        yield from run.kept(f"{name}-{step}", Point, lambda step=step: [measured(step)])


def _with_games(point, enumerated, profiles, learning) -> Point:
    """The point with what the responders win in games."""
    means, errors = [], []
    for player, profile in enumerate(profiles):
        key = jax.random.fold_in(jax.random.key(learning.seed), 10 + player)
        payoffs = response_matches.sampled_payoffs(
            enumerated.environment.game, profile, key, num_games=learning.games
        )
        won = payoffs[:, player]
        means.append(float(won.mean()))
        errors.append(float(won.std(ddof=1) / np.sqrt(len(won))))
    return dataclasses.replace(point, mean=means, error=errors)


def games_interval(point: Point) -> tuple[float, float, float]:
    """NashConv by games with its 95 % confidence interval, two standard errors to either side."""
    mean, error = sum(point.mean), float(np.linalg.norm(point.error))
    return mean, mean - 2 * error, mean + 2 * error


def last_point(curve: Iterable[Point]) -> Point:
    """The point after all of the training."""
    return max(curve, key=lambda point: point.step)
