"""Tabular Q-learning (Watkins 1989) of all players at once.

    environment, settings = build_environment(make("kuhn_poker")), QLearning()
    learner = run(environment, init(environment), key, settings=settings, num_episodes=100_000)
    policy = greedy_policy(environment, learner)

In games that are played by their rules, information states of one row of their index are learned as
one, and `policy_at` answers for one. An action is worth the payoff at the end of the game, or the
best that its player knows of its next own decision; there is no discount.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from jaxgames.core import TERMINAL, record
from solvers.sampling import episodes
from solvers.sampling.decision_tree import split_by_player
from solvers.sequence_form import Policy
from train.rl.environment import (
    Environment,
    listed_states,
    next_own_decision,
    payoff_of_actor,
    play,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class QLearning:
    """How to learn. Static under `jit`."""

    step_size: float = 0.1
    exploration: float = 0.2  # share of uniform in what is played

    def __post_init__(self):
        for name in ("step_size", "exploration"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must be over 0 and at most 1")


@record
class QLearner:
    """What is learned; row N of the table is nobody's."""

    step: Array  # [] int32 episodes done
    values: Array  # [N + 1, A]


def init(environment: Environment) -> QLearner:
    """A learner before its first episode."""
    game = environment.game
    return QLearner(step=jnp.int32(0), values=jnp.zeros((game.num_states + 1, game.num_actions)))


def greedy_policy(environment: Environment, learner: QLearner) -> Policy:
    """The actions of the highest value, by player `[D_p, A]`.

    Raises:
      ValueError: the environment does not list its information states.
    """
    rows = listed_states(environment)
    return split_by_player(environment.game, _greedy(learner.values[rows], environment.legal[rows]))


def policy_at(environment: Environment, learner: QLearner, node: Any) -> Float[Array, " A"]:
    """What the actor of a node of the environment's game plays: the actions of highest value."""
    return _greedy(learner.values[node.state], node.uniform > 0)


@functools.partial(jax.jit, static_argnames="settings")
def run(
    environment: Environment,
    learner: QLearner,
    key: Key[Array, ""],
    *,
    settings: QLearning,
    num_episodes: int | Int[Array, ""],
    fixed: Float[Array, "N1 A"] | None = None,
) -> QLearner:
    """The learner after so many more episodes, in one compiled loop; `key` is the whole run's.

    `fixed` are policies that are played wherever its rows are not 0; what is learned there is of no
    use.
    """

    def one(learner, key):
        def policy(node):
            share = jnp.float32(settings.exploration)
            return share * node.uniform + (1 - share) * policy_at(environment, learner, node)

        line = play(environment, key, policy, fixed=fixed)
        return learned(environment, learner, line, settings=settings)

    return episodes.repeat_episodes(one, learner, key, num_episodes)


def learned(
    environment: Environment, learner: QLearner, line: episodes.Trajectory, *, settings: QLearning
) -> QLearner:
    """The learner after a line of play."""
    game, values = environment.game, learner.values[line.state]
    _, legal = environment.encoded(line.told)
    best = jnp.max(jnp.where(legal, values, -jnp.inf), axis=1)  # [T]
    following = next_own_decision(line, num_players=game.num_players)
    target = jnp.append(best, 0)[following]
    target = jnp.where(following == len(best), payoff_of_actor(line), target)
    taken = jax.nn.one_hot(line.action, game.num_actions, dtype=bool)
    taken = taken & (line.actor != TERMINAL)[:, None]
    change = settings.step_size * (target[:, None] - values)
    after = values + jnp.where(taken, change, 0)
    return QLearner(
        step=learner.step + 1, values=episodes.put_rows(learner.values, line.state, after)
    )


def _greedy(values, legal):
    values = jnp.where(legal, values, -jnp.inf)
    best = (legal & (values == jnp.max(values, axis=-1, keepdims=True))).astype(values.dtype)
    return best / jnp.maximum(jnp.sum(best, axis=-1, keepdims=True), 1)
