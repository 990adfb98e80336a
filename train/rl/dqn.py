"""Deep Q-networks of all players at once (Mnih et al. 2015), as OpenSpiel's agent.

    environment, settings = build_environment(make("kuhn_poker")), Dqn()
    learner = init(environment, jax.random.key(0), settings=settings)
    learner = run(environment, learner, key, settings=settings, num_rounds=1000)
    policy = greedy_policy(environment, learner, settings=settings)

A round is a batch of episodes and one gradient step of every player on transitions from its replay
buffer: own decision, action, next own decision, or the payoff. The learning rate and the first
share of exploration are arrays of the learner, so that grids of them go side by side under
`jax.vmap`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key, PyTree

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
    """How to learn. Static under `jit`."""

    width: int = 64
    depth: int = 1
    capacity: int = 10_000  # transitions in the replay buffer of a player
    batch: int = 8  # episodes of a round
    learned: int = 128  # transitions of a gradient step
    target_every: int = 100  # rounds for which the target network stays
    last_exploration: float = 0.1
    exploration_rounds: int = 100_000  # until then

    def __post_init__(self):
        for name in ("capacity", "batch", "learned", "target_every", "exploration_rounds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 <= self.last_exploration <= 1:
            raise ValueError(f"last_exploration={self.last_exploration} must be from 0 to 1")


@record
class DqnReplay:
    """Transitions of all players; row C of the buffers takes what belongs nowhere."""

    count: Array  # [P] int32 transitions that ever came
    seen: PyTree  # [P, C + 1, ...] observations
    action: Array  # [P, C + 1] int32
    following: PyTree  # [P, C + 1, ...] next own observations
    last: Array  # [P, C + 1] bool: there is none
    payoff: Array  # [P, C + 1] where there is none


@record
class DqnLearner:
    """What is learned."""

    step: Array  # [] int32 rounds done
    params: PyTree  # [P, ...] of the players' networks
    target: PyTree  # [P, ...] of those that tell what comes later
    replay: DqnReplay
    rate: Array  # []
    first_exploration: Array  # []


def init(
    environment: Environment,
    key: Key[Array, ""],
    *,
    settings: Dqn,
    rate: float | Float[Array, ""] = 1e-2,
    first_exploration: float | Float[Array, ""] = 1.0,
) -> DqnLearner:
    """A learner before its first round; `key` is consumed."""
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
    """The actions of the highest value, by player `[D_p, A]`.

    Raises:
      ValueError: the environment does not list its information states.
    """
    features, legal = environment.encoded(listed_states(environment))
    values = apply_player_networks(_graph(environment, settings), learner.params, features)
    return networks.own_policies(environment, _greedy(values, legal[None]))


def policy_at(
    environment: Environment, learner: DqnLearner, node: Any, *, settings: Dqn
) -> Float[Array, " A"]:
    """What the actor of a node of the environment's game plays: the action of highest value."""
    return _policy_at(environment, _graph(environment, settings), learner.params, node)


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
    """The learner after so many more rounds, in one compiled loop; `key` is the whole run's.

    `fixed` are policies that are played wherever its rows are not 0; what is learned there is of no
    use.
    """
    graph = _graph(environment, settings)

    def one(learner, key):
        play_key, learn_key = jax.random.split(key)
        lines = _played(environment, graph, learner, play_key, settings, fixed)
        replay = stored(learner.replay, lines)
        size = jnp.minimum(replay.count, settings.capacity)
        shape = (len(size), settings.learned)
        luck = episodes.uniform_numbers(learn_key, shape)
        rows = jnp.floor(luck * size[:, None].astype(luck.dtype)).astype(jnp.int32)
        gradient = jax.vmap(jax.grad(_loss), (0, 0, 0, 0, None, None))
        found = gradient(learner.params, learner.target, replay, rows, graph, environment)
        params = networks.descend(learner.params, found, learner.rate)
        step = learner.step + 1
        target = jax.tree.map(
            lambda new, old: jnp.where(step % settings.target_every == 0, new, old),
            params,
            learner.target,
        )
        return learner.replace(step=step, params=params, target=target, replay=replay)

    return episodes.repeat_episodes(one, learner, key, num_rounds)


def stored(replay: DqnReplay, lines: episodes.Trajectory) -> DqnReplay:
    """The buffers with all decisions of a batch of lines, in place of the oldest."""
    num_players, rows = replay.action.shape
    following = jax.vmap(functools.partial(next_own_decision, num_players=num_players))(lines)
    last = following == lines.actor.shape[1]
    later = jax.tree.map(
        lambda leaf: jax.vmap(lambda line, step: line[step])(leaf, jnp.where(last, 0, following)),
        lines.told,
    )
    new = DqnReplay(
        count=None,
        seen=lines.told,
        action=lines.action,
        following=later,
        last=last,
        payoff=jnp.where(last, jax.vmap(payoff_of_actor)(lines), 0),
    )

    def of(player, old):
        mine = (lines.actor == player).ravel()
        number = old.count + jnp.cumsum(mine, dtype=jnp.int32) - 1
        place = jnp.where(mine, number % (rows - 1), rows - 1)

        def put(old, new):
            return old.at[place].set(new.reshape(-1, *new.shape[2:]))

        buffers = jax.tree.map(put, old.replace(count=None), new)
        return buffers.replace(count=old.count + jnp.sum(mine, dtype=jnp.int32))

    return jax.vmap(of)(jnp.arange(num_players, dtype=jnp.int32), replay)


def _graph(environment, settings):
    return networks.graph(environment, settings, num_outputs=environment.game.num_actions)


def _greedy(values, legal):
    best = jnp.argmax(jnp.where(legal, values, -jnp.inf), axis=-1)
    return jnp.where(legal, jax.nn.one_hot(best, values.shape[-1]), 0)


def _policy_at(environment, graph, params, node):
    features, legal = environment.encoded(environment.observe(node))
    values = apply_player_networks(graph, params, features)
    return _greedy(values[jnp.maximum(node.actor, 0)], legal)


def _played(environment, graph, learner, key, settings, fixed):
    done = jnp.minimum(learner.step / settings.exploration_rounds, 1)
    share = learner.first_exploration
    share = share + done * (jnp.minimum(settings.last_exploration, share) - share)

    def policy(node):
        greedy = _policy_at(environment, graph, learner.params, node)
        return share * node.uniform + (1 - share) * greedy

    keys = jax.random.split(key, settings.batch)
    return jax.vmap(lambda key: play(environment, key, policy, fixed=fixed))(keys)


def _loss(params, target, replay, rows, graph, environment):
    """Of one player, on rows of its buffer."""
    drawn = jax.tree.map(lambda leaf: leaf[rows], replay.replace(count=None))
    features, _ = environment.encoded(drawn.seen)
    next_features, next_legal = environment.encoded(drawn.following)
    later = nnx.merge(graph, target)(next_features)
    best = jnp.max(jnp.where(next_legal, later, -1e9), axis=-1)
    goal = jnp.where(drawn.last, drawn.payoff, best)
    values = nnx.merge(graph, params)(features)
    mine = jnp.take_along_axis(values, drawn.action[:, None], axis=-1)[:, 0]
    return jnp.mean((jax.lax.stop_gradient(goal) - mine) ** 2)
