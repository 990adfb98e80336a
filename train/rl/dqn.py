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

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.core import record
from nets.heads import of_players
from solvers.public_tree import Policy
from solvers.sampling import episodes
from train.rl import networks
from train.rl.environment import Environment, next_own, payoff_of_actor, play


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
class Replay:
    """Transitions of all players; row C of the buffers takes what belongs nowhere."""

    seen: Array  # [P] int32 transitions that ever came
    state: Array  # [P, C + 1] int32
    action: Array  # [P, C + 1] int32
    following: Array  # [P, C + 1] int32 next own state; -1: none
    payoff: Array  # [P, C + 1] where there is none


@record
class Learner:
    """What is learned."""

    step: Array  # [] int32 rounds done
    params: PyTree  # [P, ...] of the players' networks
    target: PyTree  # [P, ...] of those that tell what comes later
    replay: Replay
    rate: Array  # []
    first_exploration: Array  # []


def init(
    environment: Environment,
    key: Key[Array, ""],
    *,
    settings: Dqn,
    rate: float | Float[Array, ""] = 1e-2,
    first_exploration: float | Float[Array, ""] = 1.0,
) -> Learner:
    """A learner before its first round; `key` is consumed."""
    actions = environment.tree.num_actions
    params = networks.new_networks(environment, key, settings, num_outputs=actions)
    shape = (environment.tree.num_players, settings.capacity + 1)
    return Learner(
        step=jnp.int32(0),
        params=params,
        target=params,
        replay=Replay(
            seen=jnp.zeros(shape[0], jnp.int32),
            state=jnp.zeros(shape, jnp.int32),
            action=jnp.zeros(shape, jnp.int32),
            following=jnp.zeros(shape, jnp.int32),
            payoff=jnp.zeros(shape),
        ),
        rate=jnp.float32(rate),
        first_exploration=jnp.float32(first_exploration),
    )


def greedy_policy(environment: Environment, learner: Learner, *, settings: Dqn) -> Policy:
    """The actions of the highest value, by player `[D_p, A]`."""
    legal = environment.tree.uniform[:-1] > 0
    values = of_players(_graph(environment, settings), learner.params, environment.features[:-1])
    return networks.of_actors(environment, _greedy(values, legal[None]))


@functools.partial(jax.jit, static_argnames="settings")
def run(
    environment: Environment,
    learner: Learner,
    key: Key[Array, ""],
    *,
    settings: Dqn,
    num_rounds: int | Int[Array, ""],
    fixed: Float[Array, "N1 A"] | None = None,
) -> Learner:
    """The learner after so many more rounds, in one compiled loop; `key` is the whole run's.

    `fixed` are policies that are played wherever its rows are not 0; what is learned there is of no
    use.
    """
    graph = _graph(environment, settings)

    def one(learner, key):
        play_key, learn_key = jax.random.split(key)
        lines = _played(environment, graph, learner, play_key, settings, fixed)
        replay = stored(learner.replay, lines)
        size = jnp.minimum(replay.seen, settings.capacity)
        shape = (len(size), settings.learned)
        luck = episodes.numbers(learn_key, shape)
        rows = jnp.floor(luck * size[:, None].astype(luck.dtype)).astype(jnp.int32)
        gradient = jax.vmap(jax.grad(_loss), (0, 0, 0, 0, None, None))
        found = gradient(learner.params, learner.target, replay, rows, graph, environment)
        params = networks.descended(learner.params, found, learner.rate)
        step = learner.step + 1
        target = jax.tree.map(
            lambda new, old: jnp.where(step % settings.target_every == 0, new, old),
            params,
            learner.target,
        )
        return learner.replace(step=step, params=params, target=target, replay=replay)

    return episodes.repeated(one, learner, key, num_rounds)


def stored(replay: Replay, lines: episodes.Line) -> Replay:
    """The buffers with all decisions of a batch of lines, in place of the oldest."""
    num_players, rows = replay.state.shape
    following = jax.vmap(functools.partial(next_own, num_players=num_players))(lines)
    last = following == lines.actor.shape[1]
    later = jnp.take_along_axis(lines.state, jnp.where(last, 0, following), axis=1)
    nobody = jnp.int32(-1)

    def of(player, seen, buffers):
        mine = (lines.actor == player).ravel()
        number = seen + jnp.cumsum(mine, dtype=jnp.int32) - 1
        place = jnp.where(mine, number % (rows - 1), rows - 1)
        new = (
            lines.state,
            lines.action,
            jnp.where(last, nobody, later),
            jnp.where(last, jax.vmap(payoff_of_actor)(lines), 0),
        )
        put = (old.at[place].set(x.ravel()) for old, x in zip(buffers, new, strict=True))
        return seen + jnp.sum(mine, dtype=jnp.int32), tuple(put)

    buffers = (replay.state, replay.action, replay.following, replay.payoff)
    players = jnp.arange(num_players, dtype=jnp.int32)
    seen, (state, action, following, payoff) = jax.vmap(of)(players, replay.seen, buffers)
    return Replay(seen=seen, state=state, action=action, following=following, payoff=payoff)


def _graph(environment, settings):
    return networks.graph(environment, settings, num_outputs=environment.tree.num_actions)


def _greedy(values, legal):
    best = jnp.argmax(jnp.where(legal, values, -jnp.inf), axis=-1)
    return jnp.where(legal, jax.nn.one_hot(best, values.shape[-1]), 0)


def _played(environment, graph, learner, key, settings, fixed):
    done = jnp.minimum(learner.step / settings.exploration_rounds, 1)
    share = learner.first_exploration
    share = share + done * (jnp.minimum(settings.last_exploration, share) - share)

    def policy(node):
        values = of_players(graph, learner.params, environment.features[node.state])
        greedy = _greedy(values[jnp.maximum(node.actor, 0)], node.count > 0)
        return share * node.uniform + (1 - share) * greedy

    keys = jax.random.split(key, settings.batch)
    return jax.vmap(lambda key: play(environment, key, policy, fixed=fixed))(keys)


def _loss(params, target, replay, rows, graph, environment):
    """Of one player, on rows of its buffer."""
    features, legal = environment.features, environment.tree.uniform > 0
    state, following = replay.state[rows], replay.following[rows]
    later = nnx.merge(graph, target)(features[following])
    best = jnp.max(jnp.where(legal[following], later, -1e9), axis=-1)
    goal = jnp.where(following < 0, replay.payoff[rows], best)
    values = nnx.merge(graph, params)(features[state])
    mine = jnp.take_along_axis(values, replay.action[rows][:, None], axis=-1)[:, 0]
    return jnp.mean((jax.lax.stop_gradient(goal) - mine) ** 2)
