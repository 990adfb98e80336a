"""ISMCTS-BR (Timbers et al. 2020) as the benchmark measures it: searches and games per second."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from experiments.benchmarks.measurements import Clock, sample_searches
from experiments.best_response.enumerable_responses import enumerated_game
from experiments.best_response.named_agents import agent_policies
from jaxgames.registry import make
from solvers.approximate_best_response import holdem_opponents, response_matches
from solvers.approximate_best_response.exact_chump_responses import chumps
from solvers.approximate_best_response.ismcts_br import IsmctsBr, search
from solvers.approximate_best_response.response_game import ResponseGame, begin
from train.best_response_training import ResponseEvaluator, new_network
from train.rl.environment import Environment


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """Searches of the first player, side by side, against uniform random play or a chump."""

    game: str
    simulations: int
    batch: int
    width: int = 0  # of the untrained network of two layers; 0: all states are worth nothing
    chump: str | None = None  # a player of hold'em that does not look at its cards


TASKS = {
    "Leduc (100), zero": Task(game="leduc_poker", simulations=100, batch=256),
    "Leduc (100), 2x128": Task(game="leduc_poker", simulations=100, batch=256, width=128),
    "limit hold'em (16), 2x64": Task(
        game="limit_holdem", simulations=16, batch=256, width=64, chump="always call"
    ),
    "Kuhn (8), zero": Task(game="kuhn_poker", simulations=8, batch=8),
}


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Reports compile time, samples of searches per second at the responder's first decision, and
    as `games` samples of whole games per second, in which it searches at every decision.

    Args:
      job: `task`, a key of `TASKS`; `repeats` and `sampling_seconds`, as in `search.Config`.
      report: takes the numbers as keywords.

    Raises:
      ValueError: the simulations that a search counts are not those asked for.
    """
    task = TASKS[job["task"]]
    response, params, settings = build(task)
    begins = jax.vmap(functools.partial(begin, response))
    states = jax.jit(begins)(_keys(task, 0))

    @jax.jit
    def searches(response, params, keys, states):
        return jax.vmap(functools.partial(search, response, params, settings=settings))(
            keys, states
        )

    clock = Clock()
    run = searches.lower(response, params, _keys(task, 0), states).compile()
    report(compile_seconds=round(clock.seconds(), 3))
    result, samples = sample_searches(
        lambda number: run(response, params, _keys(task, number), states), task.batch, job
    )
    visits = np.asarray(result.visits).sum(axis=1)
    if (visits != task.simulations).any():
        raise ValueError(f"{job['task']}: searches of {np.unique(visits)} simulations")
    report(samples=samples)

    def play(number):
        key = jax.random.key(number)
        return response_matches.play(
            response, params, key, settings=settings, num_games=task.batch, batch=task.batch
        )

    play(0)  # compiles
    report(games=sample_searches(play, task.batch, job)[1])


def build(task: Task) -> tuple[ResponseGame, PyTree, IsmctsBr]:
    """The game with its opponent, the network's parameters and the settings of the searches."""
    if task.chump is None:
        enumerated = enumerated_game(task.game)
        environment, scale = enumerated.environment, enumerated.scale
        uniform = agent_policies("uniform", enumerated.tree, enumerated.sequence_form)
        response, _ = enumerated.response_games(uniform)
    else:
        poker = holdem_opponents.StrengthPoker(**make(task.game).parameters())
        response = holdem_opponents.build_chump_game(poker, chumps(poker)[task.chump], responder=0)
        environment = Environment(game=response.game, features=None, legal=None)
        scale = 2.0 * max(poker.blinds)
    if not task.width:
        return response, None, IsmctsBr(simulations=task.simulations, scale=scale)
    graph, params = new_network(environment, jax.random.key(0), width=task.width)
    evaluate = ResponseEvaluator(graph)
    settings = IsmctsBr(evaluate=evaluate, simulations=task.simulations, scale=scale)
    return response, (environment, params), settings


def _keys(task, number):
    return jax.random.split(jax.random.key(number), task.batch)
