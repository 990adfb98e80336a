"""Training of a value-and-policy network by sound self-play, as one jitted step.

A step plays one move in every episode, solves some queries, and makes some gradient updates.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Key, PyTree

from jaxgames.core import record
from jaxgames.public_game import PublicGame
from solvers.search.gt_cfr import GrowingTreeCfr
from train import queries, replay, self_play
from train.learner import Learner, LearnerSettings, new_learner, update


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How to train. Static under `jit`."""

    search: GrowingTreeCfr  # of self-play and of the query solver; evaluates with the network
    learner: LearnerSettings
    episodes: int  # games side by side
    solves: int  # queries solved per step, at most
    updates: int  # gradient updates per step
    queries_per_search: float = 0.9  # q_search, at most 1
    queries_per_solve: float = 0.1  # q_recursive, at most 1
    exploration: float = 0.1
    queue_capacity: int = 4096

    def __post_init__(self):
        for name in ("episodes", "solves", "updates"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        for name in ("queries_per_search", "queries_per_solve", "exploration"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must be from 0 to 1")


@record
class Training:
    """Everything that a run remembers."""

    learner: Learner
    replay: replay.Replay
    queue: queries.Queue
    episodes: self_play.Episode  # [B, ...]
    key: Array
    step: Array  # [] int32


def new_training(
    game: PublicGame, params: PyTree, key: Key[Array, ""], *, settings: TrainingSettings
) -> Training:
    """A run at its start; `params` are the network's, `key` is consumed."""
    key, episode_key = jax.random.split(key)
    start = functools.partial(self_play.new_episode, game, max_path=settings.search.max_path)
    episodes = jax.vmap(start)(jax.random.split(episode_key, settings.episodes))
    root = queries.Query(state=game.root(), reach=game.rows(game.root()).astype(jnp.float32))
    solve = functools.partial(queries.solve, settings=settings.search)
    example, _ = jax.eval_shape(solve, game, params, key, root)
    return Training(
        learner=new_learner(params, settings.learner),
        replay=replay.new_replay(example, settings.learner.capacity),
        queue=queries.new_queue(root, settings.queue_capacity),
        episodes=episodes,
        key=key,
        step=jnp.int32(0),
    )


@functools.partial(jax.jit, static_argnames=("graph", "settings"))
def train_step(
    game: PublicGame, graph: nnx.GraphDef, state: Training, *, settings: TrainingSettings
) -> tuple[Training, dict[str, Array]]:
    """One step, and its metrics: losses of the last update, and counts."""
    key, play_key, solve_key, learn_key = jax.random.split(state.key, 4)
    params = state.learner.params
    episodes, asked, wanted, policies = _play(game, params, play_key, state.episodes, settings)
    queue, batch, there = queries.pop(state.queue, settings.solves)
    solved, more, again = _solve(game, params, solve_key, batch, settings)
    queue = queries.push(queue, asked, wanted)
    queue = queries.push(queue, more, again & there)
    buffer = replay.add(state.replay, policies, jnp.ones(settings.episodes, bool))
    buffer = replay.add(buffer, solved, there)
    learner, buffer, losses = _learn(graph, learn_key, state.learner, buffer, settings)
    after = Training(
        learner=learner,
        replay=buffer,
        queue=queue,
        episodes=episodes,
        key=key,
        step=state.step + 1,
    )
    counts = {"queue": queue.size, "solved": jnp.sum(there), "replay": buffer.size}
    return after, losses | counts


def _play(game, params, key, episodes, settings):
    """One search and move in every episode; what was asked of the network."""

    def one(key, episode):
        play_key, pick_key, coin_key = jax.random.split(key, 3)
        episode, search, example = self_play.play(
            game,
            params,
            play_key,
            episode,
            settings=settings.search,
            exploration=settings.exploration,
        )
        query, there = queries.pick(game, search, pick_key)
        wanted = there & jax.random.bernoulli(coin_key, settings.queries_per_search)
        return episode, query, wanted, example

    return jax.vmap(one)(jax.random.split(key, settings.episodes), episodes)


def _solve(game, params, key, batch, settings):
    """Examples from queries, and what was asked of the network on the way."""

    def one(key, query):
        solve_key, pick_key, coin_key = jax.random.split(key, 3)
        example, search = queries.solve(game, params, solve_key, query, settings=settings.search)
        more, there = queries.pick(game, search, pick_key)
        return example, more, there & jax.random.bernoulli(coin_key, settings.queries_per_solve)

    return jax.vmap(one)(jax.random.split(key, settings.solves), batch)


def _learn(graph, key, learner, buffer, settings):
    def one(carry, key):
        learner, buffer = carry
        size, uses = settings.learner.batch_size, settings.learner.max_uses
        buffer, batch, _ = replay.sample(buffer, key, size, uses)
        learner, report = update(graph, learner, batch, settings.learner)
        return (learner, buffer), report.losses

    keys = jax.random.split(key, settings.updates)
    (learner, buffer), losses = jax.lax.scan(one, (learner, buffer), keys)
    return learner, buffer, jax.tree.map(lambda x: x[-1], losses)
