"""Training by AlphaZero (Silver et al. 2018), or of a best response to a fixed agent.

    graph, params = nnx.split(new_value_prior(game, seed=0))
    search = AlphaZero(ValuePriorEvaluator(graph), simulations=32, noise=0.25, sampled_moves=10)
    settings = AlphaZeroSettings(search=search, ...)
    state = alphazero_training.init(game, params, key, settings=settings)
    state, metrics = alphazero_training.train_step(game, graph, state, settings=settings)

A step plays whole games side by side and makes some gradient updates. With an `opponent` the games
are played against it, and the learner's search draws the opponent's moves from its prior: ISMCTS-BR
(Timbers et al. 2020) in games of perfect information.

Networks, examples and the loss are those of best responses (`train.best_response_training`).
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Key, PyTree

from jaxgames.beliefs.contract import BeliefGame
from jaxgames.core import record
from jaxgames.debug import checked
from solvers.perfect_information import duels
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.duels import Games
from solvers.perfect_information.positions import (
    legal_actions,
    num_actions,
    require_perfect_information,
)
from solvers.value_checks import check_training
from train import data_sharding, replay
from train.best_response_training import ResponseExample, response_loss
from train.learner import Learner, LearnerSettings, learn, new_buffer, new_learner


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlphaZeroSettings:
    """How to train. Static under `jit`."""

    search: AlphaZero  # evaluates with the network
    learner: LearnerSettings
    games: int  # played in a step
    updates: int  # gradient updates in a step
    # value targets are the search's values so many turns later; None: the payoffs of the games
    td_steps: int | None = None

    def __post_init__(self):
        for name in ("games", "updates"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.td_steps is not None and self.td_steps < 1:
            raise ValueError(f"td_steps={self.td_steps} must be None or at least 1")


@record
class AlphaZeroTraining:
    """The state of a run."""

    learner: Learner
    replay: replay.Replay
    key: Array
    step: Array  # [] int32


_LAYOUT = AlphaZeroTraining(
    learner=P(),
    replay=replay.LAYOUT,
    key=P(),
    step=P(),
)


@record
class _Note:
    """What is recorded of a turn."""

    example: ResponseExample  # without its value target
    sign: Array  # [] 1 if player 0 acts, -1 if player 1 does
    value: Array  # [] of player 0, by the search


def init(
    game: BeliefGame,
    params: PyTree,
    key: Key[Array, ""],
    *,
    settings: AlphaZeroSettings,
    mesh: Mesh | None = None,
) -> AlphaZeroTraining:
    """A run before its first step.

    Args:
      game: a game of perfect information.
      params: of the network, from `nnx.split`; they are copied.
      key: of the run.
      settings: how to train.
      mesh: the devices to train on (`train.data_sharding`); None: one.

    Returns:
      The state that `train_step` takes.

    Raises:
      ValueError: the game has several rows, or the devices of `mesh` cannot share a size evenly.
    """
    require_perfect_information(game)
    sizes = {name: getattr(settings.learner, name) for name in ("batch_size", "capacity")}
    data_sharding.check_even({"games": settings.games} | sizes, mesh)

    def start(game, params, key):
        return AlphaZeroTraining(
            learner=new_learner(jax.tree.map(jnp.copy, params), settings.learner),
            replay=new_buffer(_example(game, game.root()), settings.learner),
            key=jax.random.clone(key),
            step=jnp.int32(0),
        )

    layout = None if mesh is None else data_sharding.named(_LAYOUT, mesh)
    return jax.jit(start, out_shardings=layout)(game, params, key)


@checked(check_training)
@functools.partial(jax.jit, static_argnames=("graph", "settings", "mesh"), donate_argnames="state")
def train_step(
    game: BeliefGame,
    graph: nnx.GraphDef,
    state: AlphaZeroTraining,
    *,
    settings: AlphaZeroSettings,
    opponent: AlphaZeroAgent | None = None,
    mesh: Mesh | None = None,
) -> tuple[AlphaZeroTraining, dict[str, Array]]:
    """Plays games and learns from them.

    Args:
      game: a game of perfect information.
      graph: of the network, from `nnx.split`. Static.
      state: of the run; donated, so that it cannot be used again.
      settings: how to train. Static.
      opponent: a fixed agent to play against; None: self-play.
      mesh: the devices to train on. Static.

    Returns:
      The state after the step, and its metrics: the losses, the mean number of moves of a game
      ("moves"), the mean payoff ("won") of the learner against the opponent or, in self-play, of
      the first player, and the number of examples in the replay buffer ("replay").

    Raises:
      ValueError: `td_steps` is given with an opponent, whose searches say nothing about the values
        of the learner.
    """
    if opponent is not None and settings.td_steps is not None:
        raise ValueError(f"td_steps={settings.td_steps} must be None against an opponent")
    key, play_key, learn_key = jax.random.split(state.key, 3)
    seats = jnp.arange(settings.games, dtype=jnp.int32) % 2
    played = data_sharding.split_calls(functools.partial(_played, settings=settings), mesh)
    games = played(
        (game, state.learner.params, opponent),
        (jax.random.split(play_key, settings.games), seats),
    )
    values = games.notes.sign * value_targets(games, settings.td_steps)
    examples, moved = jax.tree.map(
        lambda x: x.reshape(-1, *x.shape[2:]),
        (games.notes.example.replace(value=values), games.moved),
    )
    examples, moved = data_sharding.everywhere((examples, moved), mesh)
    buffer = replay.add(state.replay, examples, moved)
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
    after = AlphaZeroTraining(learner=learner, replay=buffer, key=key, step=state.step + 1)
    won = games.payoffs if opponent is None else jnp.where(seats == 0, 1, -1) * games.payoffs
    counts = {
        "moves": jnp.mean(jnp.sum(games.moved, axis=1)),
        "won": jnp.mean(won),
        "replay": buffer.size,
    }
    return data_sharding.constrain(after, _LAYOUT, mesh), losses | counts


def value_targets(games: Games, td_steps: int | None) -> Float[Array, "B T"]:
    """Targets of player 0's values at every turn.

    Args:
      games: B games of T turns, whose notes have the values of searches.
      td_steps: a target is the search's value so many turns later, if the game goes on so long;
        None: it is always the payoff of the game.

    Returns:
      Targets `[B, T]`.
    """
    returns = jnp.broadcast_to(games.payoffs[:, None], games.moved.shape)
    if td_steps is None:
        return returns
    later = jnp.pad(games.notes.value[:, td_steps:], ((0, 0), (0, td_steps)))
    goes_on = jnp.pad(games.moved[:, td_steps:], ((0, 0), (0, td_steps)))
    later, goes_on = later[:, : returns.shape[1]], goes_on[:, : returns.shape[1]]
    return jnp.where(goes_on, later, returns)


def _played(shared, batch, *, settings):
    """Plays the learner's games, with notes of every turn."""
    game, params, opponent = shared
    keys, seats = batch
    agent = AlphaZeroAgent(params=params, settings=settings.search, opponent=opponent)
    players = [_noting(game, agent, policy_weight=1.0)]
    if opponent is not None:  # from its moves the values are learned, not the policy
        players.append(_noting(game, opponent, policy_weight=0.0))
    return duels.play(game, keys, seats, players)


def _noting(game, agent, *, policy_weight):
    """The agent as a player whose notes are examples."""
    play = duels.player(game, agent)

    def note(state, result):
        example = _example(game, state).replace(
            policy=result.visits / jnp.maximum(jnp.sum(result.visits), 1),
            value_weight=jnp.float32(1),
            policy_weight=jnp.float32(policy_weight),
        )
        sign = jnp.where(game.actor(state) == 0, 1.0, -1.0)
        return _Note(example=example, sign=sign, value=sign * result.value)

    def player(keys, states, num_moves):
        actions, results = play(keys, states, num_moves)
        return actions, jax.vmap(note)(states, results)

    return player


def _example(game, state):
    """An example of a position, without targets."""
    zero = jnp.float32(0)
    return ResponseExample(
        features=game.encode(state).astype(jnp.float32),
        legal=legal_actions(game, state),
        policy=jnp.zeros(num_actions(game), jnp.float32),
        value=zero,
        value_weight=zero,
        policy_weight=zero,
    )
