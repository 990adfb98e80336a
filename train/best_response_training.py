"""Training of a best response to a fixed opponent, in the manner of AlphaZero (Timbers et al.
2020).

A training step searches and moves once in every game, and makes some gradient updates on what
searches found: values learn the responder's payoff at the end, priors the shares of visits. A step
is one jitted function, spread over the devices of a mesh like training by self-play
(`train.data_sharding`).

Example:

    >>> import jax
    >>> import numpy as np
    >>> import jaxgames
    >>> from solvers.approximate_best_response.ismcts_br import IsmctsBr
    >>> from solvers.approximate_best_response.posterior import build_response_game
    >>> from train import best_response_training
    >>> from train.learner import LearnerSettings
    >>> from train.rl.environment import build_environment
    >>> game = jaxgames.make("kuhn_poker")
    >>> environment, source = build_environment(game), jaxgames.enumerate_game(game)
    >>> uniform = [np.full((count, 2), 0.5) for count in source.num_decisions]
    >>> response = build_response_game(source, environment.game, uniform, responder=0)
    >>> network_key, run_key = jax.random.split(jax.random.key(0))
    >>> graph, params = best_response_training.new_network(environment, network_key, width=8)
    >>> evaluate = best_response_training.ResponseEvaluator(graph)
    >>> settings = best_response_training.ResponseSettings(
    ...     search=IsmctsBr(evaluate=evaluate, simulations=4, scale=2.0),
    ...     learner=LearnerSettings(batch_size=8, capacity=64),
    ...     episodes=4,
    ...     updates=1,
    ... )
    >>> state = best_response_training.init(
    ...     environment, response, params, run_key, settings=settings
    ... )
    >>> state, metrics = best_response_training.train_step(
    ...     environment, response, graph, state, settings=settings
    ... )
    >>> int(state.step)
    1
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

from jaxgames.arrays import choose, merge_axes
from jaxgames.checks import at_least
from jaxgames.core import TERMINAL, record
from jaxgames.debug import checked
from nets.value_prior import ValuePrior
from solvers import device_batches
from solvers.approximate_best_response.ismcts_br import IsmctsBr, evaluate_node, search
from solvers.approximate_best_response.response_game import (
    ResponseGame,
    ResponseState,
    advance,
    begin,
)
from solvers.device_batches import DATA
from solvers.sampling import episodes
from train import data_sharding, replay
from train.learner import Learner, LearnerSettings, learn, new_buffer, new_learner
from train.losses import weighted_mean
from train.rl.environment import Environment
from train.value_checks import check_training

# network(features [B, F]) -> values [B], logits [B, A]
Network = Callable[[Float[Array, "B F"]], tuple[Float[Array, " B"], Float[Array, "B A"]]]


@dataclasses.dataclass(frozen=True)
class ResponseEvaluator:
    """Evaluates nodes for the search by a network; its `params` are (environment, parameters)."""

    graph: nnx.GraphDef

    def __call__(
        self, params: tuple[Environment, PyTree], node: Any
    ) -> tuple[Float[Array, ""], Float[Array, " A"]]:
        """Returns value and logits at the information state of the node's actor."""
        environment, weights = params
        features, _ = environment.encoded(environment.observe(node))
        return nnx.merge(self.graph, weights)(features)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResponseSettings:
    """Settings of training. Static under `jit`."""

    search: IsmctsBr  # with a `ResponseEvaluator`
    learner: LearnerSettings
    episodes: int  # games that are played side by side
    updates: int  # gradient updates per step
    # What moves are drawn by: "visits" or "prior". Where chance has many outcomes, as in hold'em,
    # the visits of a short search are noisy, and the prior has learned their mean.
    acts_by: str = "visits"
    greedy: float = 0.0  # share of moves that are the most probable action; the rest is drawn

    def __post_init__(self):
        if self.acts_by not in ("visits", "prior"):
            raise ValueError(f"acts_by={self.acts_by!r} must be 'visits' or 'prior'")
        if not 0 <= self.greedy <= 1:
            raise ValueError(f"greedy={self.greedy} must be from 0 to 1")
        at_least(1, episodes=self.episodes, updates=self.updates)


@record
class ResponseExample:
    """What a search teaches about an information state; F features, A actions."""

    features: Array  # [F]
    legal: Array  # [A] bool
    policy: Array  # [A] shares of the visits
    value: Array  # [] the responder's payoff at the end, divided by the search's scale
    value_weight: Array  # []
    policy_weight: Array  # []


@record
class ResponseEpisode:
    """A game in progress, with the examples of its searches, which wait for the payoff."""

    standing: ResponseState  # where the game is; checkpoints have this name
    waiting: ResponseExample  # [T, ...] of the searches so far
    searches: Array  # [] int32 the number of searches so far


@record
class ResponseTraining:
    """The state of a training run."""

    learner: Learner
    replay: replay.Replay
    episodes: ResponseEpisode  # [B, ...]
    key: Array
    step: Array  # [] int32


_LAYOUT = ResponseTraining(
    learner=P(),
    replay=replay.LAYOUT,
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
    """Creates a network for a game.

    Args:
      environment: the game.
      key: consumed.
      width: width of the torso.
      depth: depth of the torso.
      torso: the name of the torso.

    Returns:
      The network's graph and its parameters.

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
    """Starts a training run.

    Args:
      environment: the game as the network sees it.
      response: the game against the opponent.
      params: the network's first parameters. A curriculum passes those that were learned against an
        easier opponent.
      key: consumed.
      settings: how to train.
      mesh: the devices to spread over; one device if not given.

    Returns:
      The state before the first step.

    Raises:
      ValueError: the devices of `mesh` cannot share a size evenly.
    """
    learner = {name: getattr(settings.learner, name) for name in ("batch_size", "capacity")}
    device_batches.check_even({"episodes": settings.episodes} | learner, mesh)
    layout = None if mesh is None else data_sharding.named(_LAYOUT, mesh)
    start = functools.partial(_new_training, settings=settings)
    return jax.jit(start, out_shardings=layout)(environment, response, params, key)


def _new_training(environment, response, params, key, *, settings):
    """The state of `init`, as a function that is jitted with its layout over devices."""
    key, episode_key = jax.random.split(key)
    blank = ResponseExample(
        features=jnp.zeros(environment.num_features),
        legal=jnp.zeros(environment.game.num_actions, bool),
        policy=jnp.zeros(environment.game.num_actions),
        value=jnp.zeros(()),
        value_weight=jnp.zeros(()),
        policy_weight=jnp.zeros(()),
    )
    max_decisions = response.game.max_decisions

    def start(key):
        waiting = jax.tree.map(lambda x: jnp.zeros((max_decisions, *x.shape), x.dtype), blank)
        return ResponseEpisode(
            standing=begin(response, key), waiting=waiting, searches=jnp.int32(0)
        )

    return ResponseTraining(
        learner=new_learner(jax.tree.map(jnp.copy, params), settings.learner),
        replay=new_buffer(blank, settings.learner),
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
    """Makes one training step.

    Args:
      environment: the game as the network sees it.
      response: the game against the opponent.
      graph: the network's graph.
      state: consumed, its memory is reused.
      settings: how to train.
      mesh: the devices to spread over; one device if not given.

    Returns:
      The next state, and metrics: losses, the number of games that ended and the responder's mean
      payoff in them.
    """
    key, play_key, learn_key = jax.random.split(state.key, 3)
    advance_all = functools.partial(_advance_all, settings=settings)
    # Self-play: one search and move per game; the examples of finished games go into the replay.
    episodes, examples, finished, over, payoffs = device_batches.split_calls(advance_all, mesh)(
        (environment, response, state.learner.params),
        (jax.random.split(play_key, settings.episodes), state.episodes),
    )
    added = data_sharding.everywhere(merge_axes((examples, finished)), mesh)
    buffer = replay.add(state.replay, *added)
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
    count = jnp.sum(over)
    won = jnp.sum(jnp.where(over, payoffs, 0)) / jnp.maximum(count, 1).astype(payoffs.dtype)
    after = ResponseTraining(
        learner=learner, replay=buffer, episodes=episodes, key=key, step=state.step + 1
    )
    metrics = {"replay": buffer.size, "games": count, "won": won}
    return data_sharding.constrain(after, _LAYOUT, mesh), losses | metrics


def _advance_all(shared, batch, *, settings):
    """Advances a batch of games, for `device_batches.split_calls`."""
    environment, response, params = shared
    advance_one = functools.partial(_advance, environment, response, params, settings=settings)
    return jax.vmap(advance_one)(*batch)


def _advance(environment, response, params, key, episode: ResponseEpisode, *, settings):
    """Searches and moves once in a game.

    Returns:
      The game after the move, or a new one if it is over; the examples of the game, which of them
      are finished (all or none), whether the game is over, and the payoff.
    """
    search_key, pick_key, move_key, new_key = jax.random.split(key, 4)
    node = response.game.at(episode.standing.place)
    result = search(
        response,
        (environment, params),
        search_key,
        episode.standing,
        settings=settings.search,
    )
    visits = result.visits.astype(jnp.float32)
    features, legal = environment.encoded(environment.observe(node))
    example = ResponseExample(
        features=features,
        legal=legal,
        policy=visits / jnp.maximum(jnp.sum(visits), 1),
        value=jnp.zeros(()),
        value_weight=jnp.ones(()),
        policy_weight=jnp.ones(()),
    )
    waiting = jax.tree.map(
        lambda old, new: old.at[episode.searches].set(new, mode="drop"), episode.waiting, example
    )
    idle = node.actor == TERMINAL  # the game was over before the responder's turn
    searches = episode.searches + (~idle).astype(jnp.int32)
    noise = episodes.uniform_numbers(pick_key, (2,))
    weights = visits
    if settings.acts_by == "prior":
        _, weights = evaluate_node((environment, params), node, settings.search)
    first = jnp.argmax(weights).astype(jnp.int32)
    action = jnp.where(noise[1] < settings.greedy, first, episodes.pick_action(weights, noise[0]))
    state = advance(response, episode.standing, action, move_key)
    over = response.game.at(state.place).actor == TERMINAL
    payoff = response.game.payoffs_at(state.place)[response.responder].astype(jnp.float32)
    finished = over & (jnp.arange(len(waiting.value), dtype=jnp.int32) < searches)
    fresh = begin(response, new_key)
    after = ResponseEpisode(
        standing=choose(over, fresh, state),
        waiting=waiting,
        searches=jnp.where(over, 0, searches),
    )
    value = jnp.broadcast_to(payoff / settings.search.scale, waiting.value.shape)
    return after, waiting.replace(value=value), finished, over, payoff


def response_loss(
    network: Network,
    batch: ResponseExample,
    value_weight: Float[Array, ""] | float,
    policy_weight: Float[Array, ""] | float,
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """Computes the loss of a network on a batch of examples.

    Args:
      network: maps features to values and logits.
      batch: examples, with fields [B, ...].
      value_weight: weight of the values' squared error.
      policy_weight: weight of the priors' cross-entropy.

    Returns:
      The weighted sum, and both parts: means over the batch by the examples' own weights.
    """
    values, logits = network(batch.features)
    log_prior = jax.nn.log_softmax(jnp.where(batch.legal, logits, -1e9))
    entropy = -jnp.sum(jnp.where(batch.legal, batch.policy * log_prior, 0), axis=-1)
    parts = {
        "values": weighted_mean((values - batch.value) ** 2, batch.value_weight),
        "policy": weighted_mean(entropy, batch.policy_weight),
    }
    return value_weight * parts["values"] + policy_weight * parts["policy"], parts
