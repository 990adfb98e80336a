"""Best responses learned without search: DQN and A2C against a fixed agent."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from experiments.best_response.learned_responses import Point, arena
from experiments.best_response.named_agents import policies_of
from experiments.harness.policy_file import TabularPolicy
from jaxgames.registry import unknown
from solvers.approximate_best_response.opponents import tabular_opponent
from train.rl import a2c, dqn
from train.rl.a2c import A2c
from train.rl.dqn import Dqn

ROUNDS = 10_000  # of 32 games each, twice as many for the critic of A2C
_SIZES = {"width": 128, "depth": 2, "batch": 32}


def model_free(
    game: str, agent: str, algorithm: str, *, rounds: int = ROUNDS, seed: int = 0
) -> Point:
    """What a learner wins against an agent, by the exact value of its likeliest actions.

    Raises:
      ValueError: no such game, agent or algorithm.
    """
    if algorithm not in _ALGORITHMS:
        raise ValueError(unknown("algorithm", algorithm, _ALGORITHMS))
    here = arena(game)
    policies = policies_of(agent, here.source, here.public)
    learn = _ALGORITHMS[algorithm](here, rounds)
    table = tabular_opponent(here.source, policies).table
    actor = np.repeat(np.arange(2), here.source.num_decisions)
    pairs = []
    for player in range(2):
        theirs = jnp.asarray(np.append(actor != player, False)[:, None] * np.asarray(table))
        key = jax.random.fold_in(jax.random.key(seed), 20 + player)
        mine = np.asarray(learn(key, theirs)[player])
        likeliest = np.eye(mine.shape[1])[mine.argmax(axis=1)]
        pairs.append(tuple(likeliest if p == player else rows for p, rows in enumerate(policies)))
    exact, won = here.best(policies), here.won(pairs)
    return Point(game=game, agent=agent, step=rounds, exact=exact, won=won)


Learn = Callable[[jax.Array, jax.Array], TabularPolicy]  # of a key and the fixed policies


def _dqn(here, rounds) -> Learn:
    settings = Dqn(**_SIZES, exploration_rounds=rounds)

    def learn(key, fixed):
        start, key = jax.random.split(key)
        learner = dqn.init(here.environment, start, settings=settings, rate=0.05 / here.scale)
        run = functools.partial(dqn.run, settings=settings, num_rounds=rounds, fixed=fixed)
        learner = run(here.environment, learner, key)
        return dqn.greedy_policy(here.environment, learner, settings=settings)

    return learn


def _a2c(here, rounds) -> Learn:
    settings = A2c(**_SIZES, critic_updates=2)

    def learn(key, fixed):
        start, key = jax.random.split(key)
        rates = {"actor_rate": 0.05 / here.scale, "critic_rate": 0.05 / here.scale}
        learner = a2c.init(here.environment, start, settings=settings, **rates)
        run = functools.partial(a2c.run, settings=settings, num_rounds=rounds, fixed=fixed)
        learner = run(here.environment, learner, key)
        return a2c.current_policy(here.environment, learner, settings=settings)

    return learn


_ALGORITHMS = {"dqn": _dqn, "a2c": _a2c}
