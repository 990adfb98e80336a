"""Our AlphaZero's search, on the games and networks of the benchmark of searches.

Values and priors come from the same evaluator as in growing-tree CFR; there is no noise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from experiments.benchmarks import position_searches
from experiments.benchmarks.search_tasks import Setting
from solvers.perfect_information import alphazero_search
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.evaluators import PositionEvaluator


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """See `position_searches.measure`."""
    position_searches.measure(searcher, job, report)


def searcher(setting: Setting, batch: int) -> Callable[..., Any]:
    """A function of game, params and key that searches `batch` times at the game's root.

    It returns the visits of the actions and their shares, both `[B, A]`.
    """
    evaluate = PositionEvaluator(setting.settings.evaluate)
    settings = AlphaZero(evaluate, simulations=setting.settings.simulations)

    def run(game, params, key):
        root, agent = game.root(), AlphaZeroAgent(params=params, settings=settings)
        states = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *jnp.shape(x))), root)
        search = functools.partial(alphazero_search.search, game, agent)
        visits = jax.vmap(search)(jax.random.split(key, batch), states).visits
        return visits, visits / jnp.sum(visits, axis=1, keepdims=True)

    return run
