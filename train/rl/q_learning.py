"""Tabular Q-learning (Watkins 1989) of all players at once.

The target of an action is the payoff at the end of the game, or the value of the best action at the
player's next own decision; there is no discount. In games that are played by their rules,
information states that share a row of the index are learned as one.

Example:

    >>> import jax
    >>> import jaxgames
    >>> from train.rl import q_learning
    >>> from train.rl.environment import build_environment
    >>> environment = build_environment(jaxgames.make("kuhn_poker"))
    >>> learner = q_learning.init(environment)
    >>> learner = q_learning.run(
    ...     environment,
    ...     learner,
    ...     jax.random.key(0),
    ...     settings=q_learning.QLearning(),
    ...     num_episodes=1000,
    ... )
    >>> policy = q_learning.greedy_policy(environment, learner)
    >>> [rows.shape for rows in policy]
    [(6, 2), (6, 2)]
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
    """Settings of Q-learning. Static under `jit`."""

    step_size: float = 0.1
    exploration: float = 0.2  # the share of the uniform policy in what is played

    def __post_init__(self):
        for name in ("step_size", "exploration"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must be above 0 and at most 1")


@record
class QLearner:
    """What is learned; row N of the table belongs to no information state."""

    step: Array  # [] int32 episodes done
    values: Array  # [N + 1, A]


def init(environment: Environment) -> QLearner:
    """Returns a learner before its first episode."""
    game = environment.game
    return QLearner(step=jnp.int32(0), values=jnp.zeros((game.num_states + 1, game.num_actions)))


def greedy_policy(environment: Environment, learner: QLearner) -> Policy:
    """Returns the policies that play the actions of the highest value, by player `[D_p, A]`.

    Raises:
      ValueError: the environment does not list its information states.
    """
    rows = listed_states(environment)
    return split_by_player(environment.game, _greedy(learner.values[rows], environment.legal[rows]))


def policy_at(environment: Environment, learner: QLearner, node: Any) -> Float[Array, " A"]:
    """Returns the greedy policy of the actor at a node of the environment's game."""
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
    """Runs episodes in one compiled loop.

    Args:
      environment: the game.
      learner: the learner so far.
      key: the key of the whole run: a run that continues with the same key gives the same result as
        one without interruption.
      settings: how to learn.
      num_episodes: how many episodes to add.
      fixed: policies that are played, instead of the learner's, at information states where the row
        is not 0; what is learned there is not used.

    Returns:
      The learner after these episodes.
    """

    def episode(learner, key):
        def policy(node):
            share = jnp.float32(settings.exploration)
            return share * node.uniform + (1 - share) * policy_at(environment, learner, node)

        trajectory = play(environment, key, policy, fixed=fixed)
        return update_from_trajectory(environment, learner, trajectory, settings=settings)

    return episodes.repeat_episodes(episode, learner, key, num_episodes)


def update_from_trajectory(
    environment: Environment,
    learner: QLearner,
    trajectory: episodes.Trajectory,
    *,
    settings: QLearning,
) -> QLearner:
    """Updates the values along an episode.

    Args:
      environment: the game.
      learner: the learner so far.
      trajectory: the episode, with the observations recorded.
      settings: how to learn.

    Returns:
      The learner after the episode.
    """
    game, values = environment.game, learner.values[trajectory.state]
    _, legal = environment.encoded(trajectory.recorded)
    best = jnp.max(jnp.where(legal, values, -jnp.inf), axis=1)  # [T]
    following = next_own_decision(trajectory, num_players=game.num_players)
    target = jnp.append(best, 0)[following]
    target = jnp.where(following == len(best), payoff_of_actor(trajectory), target)
    taken = jax.nn.one_hot(trajectory.action, game.num_actions, dtype=bool)
    taken = taken & (trajectory.actor != TERMINAL)[:, None]
    change = settings.step_size * (target[:, None] - values)
    after = values + jnp.where(taken, change, 0)
    return QLearner(
        step=learner.step + 1, values=episodes.put_rows(learner.values, trajectory.state, after)
    )


def _greedy(values, legal):
    values = jnp.where(legal, values, -jnp.inf)
    best = (legal & (values == jnp.max(values, axis=-1, keepdims=True))).astype(values.dtype)
    return best / jnp.maximum(jnp.sum(best, axis=-1, keepdims=True), 1)
