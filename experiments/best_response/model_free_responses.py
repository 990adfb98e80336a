"""Best responses learned without search: DQN and A2C against a fixed agent."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from experiments.best_response.enumerable_responses import Point, enumerated_game, with_policy
from experiments.best_response.named_agents import agent_policies
from experiments.harness.policy_file import TabularPolicy
from jaxgames.registry import unknown
from solvers.approximate_best_response.opponents import tabular_opponent
from train.rl import a2c, dqn
from train.rl.a2c import A2c
from train.rl.dqn import Dqn

ROUNDS = 10_000  # of 32 games each, twice as many for the critic of A2C
_SIZES = {"width": 128, "depth": 2, "batch": 32}
# What a key and the fixed policies `[N, A]` of all decisions (0 where the learner acts) lead to.
Learn = Callable[[jax.Array, jax.Array], TabularPolicy]


def model_free_response(game: str, agent: str, algorithm: str, *, seed: int = 0) -> Point:
    """What a learner wins against an agent: the exact value of its likeliest actions.

    Args:
      game: the name of an enumerable game.
      agent: as in `agent_policies`.
      algorithm: "dqn" or "a2c".
      seed: of training.

    Raises:
      ValueError: there is no such game, agent or algorithm.
    """
    if algorithm not in _ALGORITHMS:
        raise ValueError(unknown("algorithm", algorithm, _ALGORITHMS))
    enumerated = enumerated_game(game)
    policies = agent_policies(agent, enumerated.tree, enumerated.sequence_form)
    learn = _ALGORITHMS[algorithm](enumerated)
    table = tabular_opponent(enumerated.tree, policies).table
    actor = np.repeat(np.arange(2), enumerated.tree.num_decisions)
    profiles = []
    for player in range(2):
        fixed = jnp.asarray(np.append(actor != player, False)[:, None] * np.asarray(table))
        key = jax.random.fold_in(jax.random.key(seed), 20 + player)
        learned = np.asarray(learn(key, fixed)[player])
        likeliest = np.eye(learned.shape[1])[learned.argmax(axis=1)]
        profiles.append(with_policy(policies, player, likeliest))
    exact, won = enumerated.exact_values(policies), enumerated.responder_values(profiles)
    return Point(game=game, agent=agent, step=ROUNDS, exact=exact, won=won)


def _dqn(enumerated) -> Learn:
    settings = Dqn(**_SIZES, exploration_rounds=ROUNDS)
    environment, rate = enumerated.environment, 0.05 / enumerated.scale

    def learn(key, fixed):
        start, key = jax.random.split(key)
        learner = dqn.init(environment, start, settings=settings, rate=rate)
        run = functools.partial(dqn.run, settings=settings, num_rounds=ROUNDS, fixed=fixed)
        learner = run(environment, learner, key)
        return dqn.greedy_policy(environment, learner, settings=settings)

    return learn


def _a2c(enumerated) -> Learn:
    settings = A2c(**_SIZES, critic_updates=2)
    environment, rate = enumerated.environment, 0.05 / enumerated.scale

    def learn(key, fixed):
        start, key = jax.random.split(key)
        learner = a2c.init(environment, start, settings=settings, actor_rate=rate, critic_rate=rate)
        run = functools.partial(a2c.run, settings=settings, num_rounds=ROUNDS, fixed=fixed)
        learner = run(environment, learner, key)
        return a2c.current_policy(environment, learner, settings=settings)

    return learn


_ALGORITHMS = {"dqn": _dqn, "a2c": _a2c}
