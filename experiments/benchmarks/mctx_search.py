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

from experiments.benchmarks.measurements import Clock, mesh_of_cores, sample_searches
from experiments.benchmarks.search_tasks import TASKS, Setting, before_mate, build
from jaxgames.core import TERMINAL
from solvers.device_batches import split_calls
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
    """Reports compile time, the move played where one wins, and samples of searches per second.

    Args:
      job: `task`, a key of `TASKS`; `devices`, which share the batch as in `growing_tree_search`;
        `repeats` and `sampling_seconds`, as in `search.Config`.
      report: takes the numbers as keywords.
    """
    mesh = mesh_of_cores(job["devices"])
    devices = 1 if mesh is None else mesh.size
    report(devices=devices)
    if devices < job["devices"]:
        return
    task = TASKS[job["task"]]
    setting = build(task)
    share = searcher(setting, task.batch // devices)
    split = jax.jit(split_calls(lambda shared, keys: share(*shared, keys[0]), mesh))

    def arguments_of(game, number):
        return (game, setting.params), jax.random.split(jax.random.key(number), devices)

    clock = Clock()
    run = split.lower(*arguments_of(setting.game, 0)).compile()
    report(compile_seconds=round(clock.seconds(), 3))
    visits, policies = run(*arguments_of(before_mate(task, setting.game), 0))
    report(
        move=int(jnp.argmax(jnp.sum(policies, axis=0))),
        simulations=int(jnp.sum(visits[0])),
        calls=task.simulations + 1,
    )
    _, samples = sample_searches(
        lambda number: run(*arguments_of(setting.game, number)), task.batch, job
    )
    report(samples=samples)


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
