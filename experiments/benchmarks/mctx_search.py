"""AlphaZero's search of the library mctx (Babuschkin et al. 2020), on our games and networks.

Values and priors come from the same evaluator as in our search. At the root, simulations are shared
out by sequential halving (Gumbel AlphaZero; Danihelka et al. 2022), without noise.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from experiments.benchmarks import position_searches
from experiments.benchmarks.search_tasks import Setting
from jaxgames.core import TERMINAL
from solvers.perfect_information import positions

DISTRIBUTION = "mctx"


def is_installed() -> bool:
    """Whether mctx can be found; imports nothing."""
    return importlib.util.find_spec("mctx") is not None


def require() -> None:
    """Raises `ImportError`, which says what to install, if mctx cannot be found."""
    if not is_installed():
        raise ImportError("mctx is not installed: pip install 'jaxgames[test]'")


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """See `position_searches.measure`."""
    position_searches.measure(searcher, job, report)


def searcher(setting: Setting, batch: int) -> Callable[..., Any]:
    """A function of game, params and key that searches `batch` times at the game's root.

    It returns the visits of the actions and the search's policy, both `[B, A]`.
    """
    import mctx

    def run(game, params, key):
        def evaluate(state):
            """The value for the player to move, and the logits of its actions."""
            ones = (jnp.ones(1), jnp.ones(1))
            values, prior = setting.settings.evaluate(params, game, state, ones)
            prior = prior[0][:, 0] + prior[1][:, 0]
            positive = prior > 0
            logits = jnp.log(jnp.where(positive, prior, 1))
            lowest = jnp.finfo(logits.dtype).min
            value = jnp.where(game.actor(state) == 1, values[1][0], values[0][0])
            return value, jnp.where(positive, logits, lowest)

        def step(params, key, action, states):
            after = jax.vmap(game.child)(states, action)
            over = jax.vmap(game.actor)(after) == TERMINAL
            mover = jnp.maximum(jax.vmap(game.actor)(states), 0)
            payoff = jax.vmap(functools.partial(positions.payoff, game))(after, mover)
            value, logits = jax.vmap(evaluate)(after)
            output = mctx.RecurrentFnOutput(
                reward=jnp.where(over, payoff, 0.0),
                discount=jnp.where(over, 0.0, -1.0),
                prior_logits=logits,
                value=jnp.where(over, 0.0, value),
            )
            return output, after

        root = game.root()
        states = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *jnp.shape(x))), root)
        value, logits = jax.vmap(evaluate)(states)
        policy = mctx.gumbel_muzero_policy(
            params,
            key,
            mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states),
            step,
            num_simulations=setting.settings.simulations,
            invalid_actions=jnp.broadcast_to(~game.child_mask(root), logits.shape),
            gumbel_scale=0.0,
        )
        return policy.search_tree.summary().visit_counts, policy.action_weights

    return run
