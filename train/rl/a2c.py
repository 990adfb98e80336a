"""Advantage actor-critic (Mnih et al. 2016) of all players at once, as OpenSpiel's policy gradient.

A round is `critic_updates` batches of episodes; the critic learns from each of them, the actor from
the last. Actor and critic of a player are two heads of one network, and returns are those of whole
episodes. Learning rates are arrays of the learner, so that grids of them run side by side under
`jax.vmap`.

Example:

    >>> import jax
    >>> import jaxgames
    >>> from train.rl import a2c
    >>> from train.rl.environment import build_environment
    >>> environment = build_environment(jaxgames.make("kuhn_poker"))
    >>> settings = a2c.A2c(width=8, batch=2, critic_updates=1)
    >>> init_key, run_key = jax.random.split(jax.random.key(0))
    >>> learner = a2c.init(environment, init_key, settings=settings)
    >>> learner = a2c.run(environment, learner, run_key, settings=settings, num_rounds=2)
    >>> policy = a2c.current_policy(environment, learner, settings=settings)
    >>> [rows.shape for rows in policy]
    [(6, 2), (6, 2)]
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.checks import at_least
from jaxgames.core import record
from nets.player_networks import apply_player_networks
from solvers.sampling import episodes
from solvers.sequence_form import Policy
from train.rl import networks
from train.rl.environment import Environment, listed_states, payoff_of_actor, play


@dataclasses.dataclass(frozen=True, kw_only=True)
class A2c:
    """Settings of actor-critic. Static under `jit`."""

    width: int = 64
    depth: int = 1
    critic_updates: int = 8  # before every one of the actor
    batch: int = 8  # episodes that an update learns from
    entropy: float = 0.01  # weight of the entropy bonus

    def __post_init__(self):
        at_least(1, critic_updates=self.critic_updates, batch=self.batch)
        at_least(0, entropy=self.entropy)


@record
class A2cLearner:
    """What is learned."""

    step: Array  # [] int32 rounds done
    params: PyTree  # [P, ...] parameters of the players' networks
    actor_rate: Array  # [] learning rate
    critic_rate: Array  # [] learning rate


@record
class _Batch:
    """Decisions of B episodes."""

    features: Array  # [B, T, F]
    legal: Array  # [B, T, A]
    action: Array  # [B, T] int32
    payoff: Array  # [B, T] the actor's payoff at the end
    weight: Array  # [P, B, T] weight of a decision in its actor's mean; 0 in the other players'


def init(
    environment: Environment,
    key: Key[Array, ""],
    *,
    settings: A2c,
    actor_rate: float | Float[Array, ""] = 1e-3,
    critic_rate: float | Float[Array, ""] = 1e-2,
) -> A2cLearner:
    """Returns a learner before its first round.

    Args:
      environment: the game.
      key: consumed.
      settings: how to learn.
      actor_rate: the learning rate of the actor.
      critic_rate: the learning rate of the critic.
    """
    return A2cLearner(
        step=jnp.int32(0),
        params=networks.new_networks(environment, key, settings, num_outputs=_outputs(environment)),
        actor_rate=jnp.float32(actor_rate),
        critic_rate=jnp.float32(critic_rate),
    )


def current_policy(environment: Environment, learner: A2cLearner, *, settings: A2c) -> Policy:
    """Returns the actors' policies, by player `[D_p, A]`.

    Raises:
      ValueError: the environment does not list its information states.
    """
    features, legal = environment.encoded(listed_states(environment))
    outputs = apply_player_networks(_graph(environment, settings), learner.params, features)
    return networks.own_policies(environment, _policy(outputs[..., :-1], legal[None]))


def policy_at(
    environment: Environment, learner: A2cLearner, node: Any, *, settings: A2c
) -> Float[Array, " A"]:
    """Returns the policy of the actor at a node of the environment's game."""
    features, legal = environment.encoded(environment.observe(node))
    outputs = apply_player_networks(_graph(environment, settings), learner.params, features)
    return _policy(outputs[jnp.maximum(node.actor, 0), :-1], legal)


@functools.partial(jax.jit, static_argnames="settings")
def run(
    environment: Environment,
    learner: A2cLearner,
    key: Key[Array, ""],
    *,
    settings: A2c,
    num_rounds: int | Int[Array, ""],
    fixed: Float[Array, "N1 A"] | None = None,
) -> A2cLearner:
    """Runs rounds in one compiled loop.

    Args:
      environment: the game.
      learner: the learner so far.
      key: the key of the whole run: a run that continues with the same key gives the same result as
        one without interruption.
      settings: how to learn.
      num_rounds: how many rounds to add.
      fixed: policies that are played, instead of the learner's, at information states where the row
        is not 0; what is learned there is not used.

    Returns:
      The learner after these rounds.
    """
    graph = _graph(environment, settings)

    def play_and_learn(learner, key):
        def critic(number, carry):
            params, _ = carry
            batch_key = jax.random.fold_in(key, number)
            now = learner.replace(params=params)
            batch = _play_batch(environment, now, batch_key, settings, fixed)
            gradient = jax.vmap(jax.grad(_critic_loss), (0, None, None, 0))
            gradients = gradient(params, graph, batch, batch.weight)
            return networks.descend(params, gradients, learner.critic_rate), batch

        first = critic(0, (learner.params, None))
        params, batch = jax.lax.fori_loop(1, settings.critic_updates, critic, first)
        gradient = jax.vmap(jax.grad(_actor_loss), (0, None, None, 0, None))
        gradients = gradient(params, graph, batch, batch.weight, settings.entropy)
        params = networks.descend(params, gradients, learner.actor_rate)
        return learner.replace(step=learner.step + 1, params=params)

    return episodes.repeat_episodes(play_and_learn, learner, key, num_rounds)


def _outputs(environment):
    return environment.game.num_actions + 1  # logits, then the value


def _graph(environment, settings):
    return networks.graph(environment, settings, num_outputs=_outputs(environment))


def _policy(logits, legal):
    return jnp.where(legal, jax.nn.softmax(jnp.where(legal, logits, -1e9)), 0)


def _play_batch(environment, learner, key, settings, fixed) -> _Batch:
    """Plays the episodes of an update."""

    def policy(node):
        return policy_at(environment, learner, node, settings=settings)

    keys = jax.random.split(key, settings.batch)
    lines = jax.vmap(lambda key: play(environment, key, policy, fixed=fixed))(keys)
    features, legal = environment.encoded(lines.recorded)
    players = jnp.arange(environment.game.num_players, dtype=jnp.int32)
    mine = (lines.actor[None] == players[:, None, None]).astype(features.dtype)
    return _Batch(
        features=features,
        legal=legal,
        action=lines.action,
        payoff=jax.vmap(payoff_of_actor)(lines),
        weight=mine / jnp.maximum(jnp.sum(mine, axis=(1, 2), keepdims=True), 1),
    )


def _critic_loss(params, graph, batch, weight):
    """One player's mean squared error of state values."""
    values = nnx.merge(graph, params)(batch.features)[..., -1]
    return jnp.sum(weight * (batch.payoff - values) ** 2)


def _actor_loss(params, graph, batch, weight, entropy_weight):
    """One player's policy-gradient loss with an entropy bonus."""
    outputs = nnx.merge(graph, params)(batch.features)
    advantage = batch.payoff - jax.lax.stop_gradient(outputs[..., -1])
    logits = jnp.where(batch.legal, outputs[..., :-1], -1e9)
    log_policy = jax.nn.log_softmax(logits)
    taken = jnp.take_along_axis(log_policy, batch.action[..., None], axis=-1)[..., 0]
    entropy = -jnp.sum(jnp.where(batch.legal, jnp.exp(log_policy) * log_policy, 0), axis=-1)
    return -jnp.sum(weight * (advantage * taken + entropy_weight * entropy))
