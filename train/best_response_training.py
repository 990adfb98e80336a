"""Training of a best response to a fixed opponent, as AlphaZero does (Timbers et al. 2020).

    environment = build_environment(make("leduc_poker"))
    response = against(source, environment.game, policies, responder=0)
    graph, params = new_network(environment, key)
    state = new_response_training(environment, response, params, key, settings=settings)
    state, metrics = train_step(environment, response, graph, state, settings=settings)

A step searches and moves once in every episode, and makes some gradient updates on what searches
found: values learn what the responder got in the end, priors how often actions were visited. One
jitted function, spread over the devices of a mesh (`train.data_sharding`) as training by
self-play is.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Key, PyTree

from jaxgames.core import TERMINAL, record
from jaxgames.debug import checked
from nets.value_prior import ValuePrior
from solvers.approximate_best_response.ismcts_br import IsmctsBr, evaluate_node, search
from solvers.approximate_best_response.response_game import (
    ResponseGame,
    ResponseState,
    advance,
    begin,
)
from solvers.sampling import episodes
from solvers.value_checks import check_training
from train import data_sharding, replay
from train.data_sharding import DATA
from train.learner import Learner, LearnerSettings, learn, new_learner
from train.rl.environment import Environment

# network(features [B, F]) -> values [B], logits [B, A]
Network = Callable[[Float[Array, "B F"]], tuple[Float[Array, " B"], Float[Array, "B A"]]]


@dataclasses.dataclass(frozen=True)
class ResponseEvaluator:
    """Asks a network; what it is given are the environment and the network's parameters."""

    graph: nnx.GraphDef

    def __call__(
        self, params: tuple[Environment, PyTree], node: Any
    ) -> tuple[Float[Array, ""], Float[Array, " A"]]:
        """Value and logits at the information state of the node's actor."""
        environment, weights = params
        features, _ = environment.encoded(environment.observe(node))
        return nnx.merge(self.graph, weights)(features)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResponseSettings:
    """How to train. Static under `jit`."""

    search: IsmctsBr  # evaluates with a `ResponseEvaluator`
    learner: LearnerSettings
    episodes: int  # games side by side
    updates: int  # gradient updates per step
    # Visits of a short search tell what is better with much noise where chance is wide, as in
    # hold'em; the prior has learned their mean.
    acts_by: str = "visits"
    greedy: float = 0.0  # share of moves that are the first by these, the others drawn

    def __post_init__(self):
        if self.acts_by not in ("visits", "prior"):
            raise ValueError(f"acts_by={self.acts_by!r} must be 'visits' or 'prior'")
        if not 0 <= self.greedy <= 1:
            raise ValueError(f"greedy={self.greedy} must be from 0 to 1")
        for name in ("episodes", "updates"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


@record
class ResponseExample:
    """What a search teaches of an information state; F features, A actions."""

    features: Array  # [F]
    legal: Array  # [A] bool
    policy: Array  # [A] shares of the visits
    value: Array  # [] what the responder got in the end, by the scale of payoffs
    value_weight: Array  # []
    policy_weight: Array  # []


@record
class ResponseEpisode:
    """Where a game stands."""

    standing: ResponseState
    waiting: ResponseExample  # [T, ...] of the searches so far
    searches: Array  # [] int32


@record
class ResponseTraining:
    """Everything that a run remembers."""

    learner: Learner
    replay: replay.Replay
    episodes: ResponseEpisode  # [B, ...]
    key: Array
    step: Array  # [] int32


_LAYOUT = ResponseTraining(
    learner=P(),
    replay=replay.Replay(examples=P(DATA), uses=P(DATA), size=P(), next=P()),
    episodes=P(DATA),
    key=P(),
    step=P(),
)


def new_network(
    environment: Environment,
    key: Key[Array, ""],
    *,
    width: int = 128,
    depth: int = 2,
    torso: str = "mlp",
) -> tuple[nnx.GraphDef, PyTree]:
    """A network for a game, and its parameters; `key` is consumed.

    Raises:
      ValueError: unknown torso, or a size below 1.
    """
    network = ValuePrior(
        environment.num_features,
        environment.game.num_actions,
        width=width,
        depth=depth,
        torso=torso,
        rngs=nnx.Rngs(key),
    )
    return nnx.split(network)


def init(
    environment: Environment,
    response: ResponseGame,
    params: PyTree,
    key: Key[Array, ""],
    *,
    settings: ResponseSettings,
    mesh: Mesh | None = None,
) -> ResponseTraining:
    """A run at its start; `params` are the network's, `key` is consumed.

    A curriculum goes on with the `params` that were learned against an easier opponent.

    Raises:
      ValueError: the devices of `mesh` cannot share a size evenly.
    """
    learner = {name: getattr(settings.learner, name) for name in ("batch_size", "capacity")}
    data_sharding.check_even({"episodes": settings.episodes} | learner, mesh)
    layout = None if mesh is None else data_sharding.named(_LAYOUT, mesh)
    start = functools.partial(_start, settings=settings)
    return jax.jit(start, out_shardings=layout)(environment, response, params, key)


def _start(environment, response, params, key, *, settings):
    key, episode_key = jax.random.split(key)
    blank = ResponseExample(
        features=jnp.zeros(environment.num_features),
        legal=jnp.zeros(environment.game.num_actions, bool),
        policy=jnp.zeros(environment.game.num_actions),
        value=jnp.zeros(()),
        value_weight=jnp.zeros(()),
        policy_weight=jnp.zeros(()),
    )
    longest = response.game.longest

    def start(key):
        waiting = jax.tree.map(lambda x: jnp.zeros((longest, *x.shape), x.dtype), blank)
        return ResponseEpisode(
            standing=begin(response, key), waiting=waiting, searches=jnp.int32(0)
        )

    return ResponseTraining(
        learner=new_learner(jax.tree.map(jnp.copy, params), settings.learner),
        replay=replay.new_replay(blank, settings.learner.capacity),
        episodes=jax.vmap(start)(jax.random.split(episode_key, settings.episodes)),
        key=key,
        step=jnp.int32(0),
    )


@checked(check_training)
@functools.partial(jax.jit, static_argnames=("graph", "settings", "mesh"), donate_argnames="state")
def train_step(
    environment: Environment,
    response: ResponseGame,
    graph: nnx.GraphDef,
    state: ResponseTraining,
    *,
    settings: ResponseSettings,
    mesh: Mesh | None = None,
) -> tuple[ResponseTraining, dict[str, Array]]:
    """One step, and its metrics: losses, games that were over and what the responder won of them
    on average. `state` is consumed: its memory is used again."""
    key, play_key, learn_key = jax.random.split(state.key, 3)
    go_on = functools.partial(_go_on_all, settings=settings)
    episodes, examples, there, payoffs = data_sharding.split_calls(go_on, mesh)(
        (environment, response, state.learner.params),
        (jax.random.split(play_key, settings.episodes), state.episodes),
    )
    flat = functools.partial(jax.tree.map, lambda x: x.reshape(-1, *x.shape[2:]))
    buffer = replay.add(state.replay, flat(examples), flat(there))
    learner, buffer, losses = learn(
        graph,
        learn_key,
        state.learner,
        buffer,
        settings=settings.learner,
        updates=settings.updates,
        mesh=mesh,
        loss=response_loss,
    )
    over = jnp.any(there, axis=1)
    count = jnp.sum(over)
    won = jnp.sum(jnp.where(over, payoffs, 0)) / jnp.maximum(count, 1).astype(payoffs.dtype)
    after = ResponseTraining(
        learner=learner, replay=buffer, episodes=episodes, key=key, step=state.step + 1
    )
    metrics = {"replay": buffer.size, "games": count, "won": won}
    return data_sharding.constrain(after, _LAYOUT, mesh), losses | metrics


def _go_on_all(shared, batch, *, settings):
    environment, response, params = shared
    one = functools.partial(_go_on, environment, response, params, settings=settings)
    return jax.vmap(one)(*batch)


def _go_on(environment, response, params, key, episode: ResponseEpisode, *, settings):
    """The episode a move later, or a new one; the examples of one that is over, and its payoff."""
    search_key, pick_key, move_key, new_key = jax.random.split(key, 4)
    node = response.game.at(episode.standing.place)
    found = search(
        response,
        (environment, params),
        search_key,
        episode.standing,
        settings=settings.search,
    )
    visits = found.visits.astype(jnp.float32)
    features, legal = environment.encoded(environment.observe(node))
    one = jnp.ones(())
    example = ResponseExample(
        features=features,
        legal=legal,
        policy=visits / jnp.maximum(jnp.sum(visits), 1),
        value=jnp.zeros(()),
        value_weight=one,
        policy_weight=one,
    )
    waiting = jax.tree.map(
        lambda old, new: old.at[episode.searches].set(new, mode="drop"), episode.waiting, example
    )
    idle = node.actor == TERMINAL  # the game was over before the responder's turn
    searches = episode.searches + (~idle).astype(jnp.int32)
    luck = episodes.uniform_numbers(pick_key, (2,))
    weights = visits
    if settings.acts_by == "prior":
        _, weights = evaluate_node((environment, params), node, settings.search)
    first = jnp.argmax(weights).astype(jnp.int32)
    action = jnp.where(luck[1] < settings.greedy, first, episodes.pick_action(weights, luck[0]))
    standing = advance(response, episode.standing, action, move_key)
    over = response.game.at(standing.place).actor == TERMINAL
    payoff = response.game.payoffs_at(standing.place)[response.responder].astype(jnp.float32)
    there = over & (jnp.arange(len(waiting.value), dtype=jnp.int32) < searches)
    fresh = begin(response, new_key)
    after = ResponseEpisode(
        standing=jax.tree.map(lambda new, old: jnp.where(over, new, old), fresh, standing),
        waiting=waiting,
        searches=jnp.where(over, 0, searches),
    )
    value = jnp.broadcast_to(payoff / settings.search.scale, waiting.value.shape)
    return after, waiting.replace(value=value), there, payoff


def response_loss(
    network: Network,
    batch: ResponseExample,
    value_weight: Float[Array, ""] | float,
    policy_weight: Float[Array, ""] | float,
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """Squared error of the values and cross-entropy of the priors, weighted, and these two parts.

    Means over the examples of `batch` (fields [B, ...]) by their own weights.
    """
    values, logits = network(batch.features)
    log_prior = jax.nn.log_softmax(jnp.where(batch.legal, logits, -1e9))
    entropy = -jnp.sum(jnp.where(batch.legal, batch.policy * log_prior, 0), axis=-1)
    parts = {
        "values": _mean((values - batch.value) ** 2, batch.value_weight),
        "policy": _mean(entropy, batch.policy_weight),
    }
    return value_weight * parts["values"] + policy_weight * parts["policy"], parts


def _mean(found, weights):
    return jnp.sum(found * weights) / jnp.maximum(jnp.sum(weights), 1e-9)
