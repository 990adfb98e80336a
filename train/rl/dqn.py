"""Deep Q-networks (Mnih et al. 2015) of all players at once, as OpenSpiel's agent.

A round is a batch of episodes, then one gradient step of every player on transitions from its
replay buffer. A transition holds an own decision, the action, and the next own decision or the
payoff. The learning rate and the initial exploration are arrays of the learner, so that grids of
them run side by side under `jax.vmap`.

Example:

    >>> import jax
    >>> import jaxgames
    >>> from train.rl import dqn
    >>> from train.rl.environment import build_environment
    >>> environment = build_environment(jaxgames.make("kuhn_poker"))
    >>> settings = dqn.Dqn(width=8, batch=2)
    >>> init_key, run_key = jax.random.split(jax.random.key(0))
    >>> learner = dqn.init(environment, init_key, settings=settings)
    >>> learner = dqn.run(environment, learner, run_key, settings=settings, num_rounds=2)
    >>> policy = dqn.greedy_policy(environment, learner, settings=settings)
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

from jaxgames.arrays import append_axes, at, choose, merge_axes
from jaxgames.checks import at_least
from jaxgames.core import record
from nets.player_networks import apply_player_networks
from solvers.sampling import episodes
from solvers.sequence_form import Policy
from train.rl import networks
from train.rl.environment import (
    Environment,
    listed_states,
    next_own_decision,
    payoff_of_actor,
    play,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dqn:
    """Settings of deep Q-networks. Static under `jit`."""

    width: int = 64
    depth: int = 1
    capacity: int = 10_000  # transitions in the replay buffer of a player
    batch: int = 8  # episodes of a round
    learned: int = 128  # transitions in a gradient step
    target_every: int = 100  # rounds between updates of the target network
    last_exploration: float = 0.1  # share of the uniform policy in what is played in the end
    exploration_rounds: int = 100_000  # rounds until then

    def __post_init__(self):
        for name in ("capacity", "batch", "learned", "target_every", "exploration_rounds"):
            at_least(1, **{name: getattr(self, name)})
        if not 0 <= self.last_exploration <= 1:
            raise ValueError(f"last_exploration={self.last_exploration} must be from 0 to 1")


@record
class DqnReplay:
    """Replay buffers of all players with capacity C; row C takes what belongs to no buffer."""

    count: Array  # [P] int32 transitions that were ever added
    seen: PyTree  # [P, C + 1, ...] observation at the decision
    action: Array  # [P, C + 1] int32
    following: PyTree  # [P, C + 1, ...] observation at the player's next decision
    last: Array  # [P, C + 1] bool: the player has no further decision
    payoff: Array  # [P, C + 1] the player's payoff after its last decision, else 0


@record
class DqnLearner:
    """What is learned."""

    step: Array  # [] int32 rounds done
    params: PyTree  # [P, ...] parameters of the players' networks
    target: PyTree  # [P, ...] parameters of the target networks
    replay: DqnReplay
    rate: Array  # [] learning rate
    first_exploration: Array  # [] share of the uniform policy in what is played at first


def init(
    environment: Environment,
    key: Key[Array, ""],
    *,
    settings: Dqn,
    rate: float | Float[Array, ""] = 1e-2,
    first_exploration: float | Float[Array, ""] = 1.0,
) -> DqnLearner:
    """Returns a learner before its first round.

    Args:
      environment: the game.
      key: consumed.
      settings: how to learn.
      rate: the learning rate.
      first_exploration: the share of the uniform policy in what is played at first.

    Raises:
      ValueError: the share, if it is a number, is not from 0 to 1.
    """
    if isinstance(first_exploration, float | int) and not 0 <= first_exploration <= 1:
        raise ValueError(f"first_exploration={first_exploration} must be from 0 to 1")
    actions = environment.game.num_actions
    params = networks.new_networks(environment, key, settings, num_outputs=actions)
    shape = (environment.game.num_players, settings.capacity + 1)
    nothing = jax.tree.map(
        lambda leaf: jnp.zeros((*shape, *leaf.shape), leaf.dtype), environment.nothing()
    )
    return DqnLearner(
        step=jnp.int32(0),
        params=params,
        target=params,
        replay=DqnReplay(
            count=jnp.zeros(shape[0], jnp.int32),
            seen=nothing,
            action=jnp.zeros(shape, jnp.int32),
            following=nothing,
            last=jnp.zeros(shape, bool),
            payoff=jnp.zeros(shape),
        ),
        rate=jnp.float32(rate),
        first_exploration=jnp.float32(first_exploration),
    )


def greedy_policy(environment: Environment, learner: DqnLearner, *, settings: Dqn) -> Policy:
    """Returns the policies that play the action of the highest value, by player `[D_p, A]`.

    Raises:
      ValueError: the environment does not list its information states.
    """
    features, legal = environment.encoded(listed_states(environment))
    values = apply_player_networks(_graph(environment, settings), learner.params, features)
    return networks.own_policies(environment, _greedy(values, legal[None]))


def policy_at(
    environment: Environment, learner: DqnLearner, node: Any, *, settings: Dqn
) -> Float[Array, " A"]:
    """Returns the greedy policy of the actor at a node of the environment's game."""
    features, legal = environment.encoded(environment.observe(node))
    values = apply_player_networks(_graph(environment, settings), learner.params, features)
    return _greedy(values[jnp.maximum(node.actor, 0)], legal)


@functools.partial(jax.jit, static_argnames="settings")
def run(
    environment: Environment,
    learner: DqnLearner,
    key: Key[Array, ""],
    *,
    settings: Dqn,
    num_rounds: int | Int[Array, ""],
    fixed: Float[Array, "N1 A"] | None = None,
) -> DqnLearner:
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
        play_key, learn_key = jax.random.split(key)
        trajectories = _play_batch(environment, learner, play_key, settings, fixed)
        replay = add_transitions(learner.replay, trajectories)
        size = jnp.minimum(replay.count, settings.capacity)
        shape = (len(size), settings.learned)
        noise = episodes.uniform_numbers(learn_key, shape)
        rows = jnp.floor(noise * size[:, None].astype(noise.dtype)).astype(jnp.int32)
        gradient = jax.vmap(jax.grad(_loss), (0, 0, 0, 0, None, None))
        gradients = gradient(learner.params, learner.target, replay, rows, graph, environment)
        # who has not acted yet has nothing to learn from
        gradients = jax.tree.map(lambda g: jnp.where(append_axes(size > 0, g), g, 0), gradients)
        params = networks.descend(learner.params, gradients, learner.rate)
        step = learner.step + 1
        target = choose(step % settings.target_every == 0, params, learner.target)
        return learner.replace(step=step, params=params, target=target, replay=replay)

    return episodes.repeat_episodes(play_and_learn, learner, key, num_rounds)


def add_transitions(replay: DqnReplay, trajectories: episodes.Trajectory) -> DqnReplay:
    """Adds all decisions of a batch of episodes to the buffers, in place of the oldest.

    Args:
      replay: the buffers.
      trajectories: the episodes, with a leading axis.

    Returns:
      The buffers with the new transitions.
    """
    num_players, rows = replay.action.shape
    following = jax.vmap(functools.partial(next_own_decision, num_players=num_players))(
        trajectories
    )
    last = following == trajectories.actor.shape[1]
    later = jax.tree.map(
        lambda leaf: jax.vmap(lambda row, step: row[step])(leaf, jnp.where(last, 0, following)),
        trajectories.recorded,
    )
    new = DqnReplay(
        count=None,
        seen=trajectories.recorded,
        action=trajectories.action,
        following=later,
        last=last,
        payoff=jnp.where(last, jax.vmap(payoff_of_actor)(trajectories), 0),
    )

    def add_own(player, old):
        mine = (trajectories.actor == player).ravel()
        number = old.count + jnp.cumsum(mine, dtype=jnp.int32) - 1
        # of more than there is room for, the last ones stay
        kept = mine & (number >= old.count + jnp.sum(mine, dtype=jnp.int32) - (rows - 1))
        place = jnp.where(kept, number % (rows - 1), rows - 1)

        put = lambda old, added: old.at[place].set(added)  # noqa: E731
        buffers = jax.tree.map(put, old.replace(count=None), merge_axes(new))
        return buffers.replace(count=old.count + jnp.sum(mine, dtype=jnp.int32))

    return jax.vmap(add_own)(jnp.arange(num_players, dtype=jnp.int32), replay)


def _graph(environment, settings):
    return networks.graph(environment, settings, num_outputs=environment.game.num_actions)


def _greedy(values, legal):
    best = jnp.argmax(jnp.where(legal, values, -jnp.inf), axis=-1)
    return jnp.where(legal, jax.nn.one_hot(best, values.shape[-1]), 0)


def _play_batch(environment, learner, key, settings, fixed):
    """Plays the episodes of a round, with exploration."""
    done = jnp.minimum(learner.step / settings.exploration_rounds, 1)
    share = learner.first_exploration
    share = share + done * (jnp.minimum(settings.last_exploration, share) - share)

    def policy(node):
        greedy = policy_at(environment, learner, node, settings=settings)
        return share * node.uniform + (1 - share) * greedy

    keys = jax.random.split(key, settings.batch)
    return jax.vmap(lambda key: play(environment, key, policy, fixed=fixed))(keys)


def _loss(params, target, replay, rows, graph, environment):
    """One player's mean squared error of Q-values, on rows of its buffer."""
    drawn = at(replay.replace(count=None), rows)
    features, _ = environment.encoded(drawn.seen)
    next_features, next_legal = environment.encoded(drawn.following)
    later = nnx.merge(graph, target)(next_features)
    best = jnp.max(jnp.where(next_legal, later, -1e9), axis=-1)
    goal = jnp.where(drawn.last, drawn.payoff, best)
    values = nnx.merge(graph, params)(features)
    mine = jnp.take_along_axis(values, drawn.action[:, None], axis=-1)[:, 0]
    return jnp.mean((jax.lax.stop_gradient(goal) - mine) ** 2)
