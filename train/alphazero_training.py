"""AlphaZero (Silver et al. 2018), and a best response to a fixed agent learned in the same way.

    graph, params = nnx.split(new_value_prior(game, seed=0))
    search = AlphaZero(ValuePriorEvaluator(graph), simulations=32, noise=0.25, sampled_moves=10)
    settings = AlphaZeroSettings(search=search, ...)
    state = new_alphazero_training(game, params, key, settings=settings)
    state, metrics = train_step(game, graph, state, settings=settings)

A step plays whole games, side by side, and makes some gradient updates. With an `opponent` they are
against it, and the learner's search draws the opponent's moves from its prior: ISMCTS-BR (Timbers
et al. 2020) in games of perfect information.

Networks, examples and the loss are those of other best responses (`train.best_response_training`).
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

from jaxgames.adapters.pgx_beliefs import PgxBeliefs
from jaxgames.core import record
from jaxgames.debug import checked
from solvers.perfect_information import duels
from solvers.perfect_information.alphazero_search import Agent, AlphaZero
from solvers.perfect_information.duels import Games
from solvers.value_checks import check_training
from train import data_sharding, replay
from train.best_response_training import ResponseExample, response_loss
from train.data_sharding import DATA
from train.learner import Learner, LearnerSettings, learn, new_learner


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlphaZeroSettings:
    """How to train. Static under `jit`."""

    search: AlphaZero  # evaluates with the network
    learner: LearnerSettings
    games: int  # in a step
    updates: int  # of the network in a step
    td_steps: int | None = (
        None  # values are learned from the search so many moves on; None: returns
    )

    def __post_init__(self):
        for name in ("games", "updates"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.td_steps is not None and self.td_steps < 1:
            raise ValueError(f"td_steps={self.td_steps} must be None or at least 1")


@record
class AlphaZeroTraining:
    """Everything that a run remembers."""

    learner: Learner
    replay: replay.Replay
    key: Array
    step: Array  # [] int32


_LAYOUT = AlphaZeroTraining(
    learner=P(),
    replay=replay.Replay(examples=P(DATA), uses=P(DATA), size=P(), next=P()),
    key=P(),
    step=P(),
)


@record
class _Note:
    """What is known of a turn when it is made."""

    example: ResponseExample  # without the value
    sign: Array  # [] 1 if player 0 acts, -1 if player 1 does
    value: Array  # [] player 0's, as the search has it


def new_alphazero_training(
    game: PgxBeliefs,
    params: PyTree,
    key: Key[Array, ""],
    *,
    settings: AlphaZeroSettings,
    mesh: Mesh | None = None,
) -> AlphaZeroTraining:
    """A run at its start; `params` are the network's, `key` is the run's.

    Raises:
      ValueError: the devices of `mesh` cannot share a size evenly.
    """
    sizes = {name: getattr(settings.learner, name) for name in ("batch_size", "capacity")}
    data_sharding.check_even({"games": settings.games} | sizes, mesh)

    def start(game, params, key):
        return AlphaZeroTraining(
            learner=new_learner(jax.tree.map(jnp.copy, params), settings.learner),
            replay=replay.new_replay(_example(game, game.root()), settings.learner.capacity),
            key=jax.random.clone(key),
            step=jnp.int32(0),
        )

    layout = None if mesh is None else data_sharding.named(_LAYOUT, mesh)
    return jax.jit(start, out_shardings=layout)(game, params, key)


@checked(check_training)
@functools.partial(jax.jit, static_argnames=("graph", "settings", "mesh"), donate_argnames="state")
def train_step(
    game: PgxBeliefs,
    graph: nnx.GraphDef,
    state: AlphaZeroTraining,
    *,
    settings: AlphaZeroSettings,
    opponent: Agent | None = None,
    mesh: Mesh | None = None,
) -> tuple[AlphaZeroTraining, dict[str, Array]]:
    """One step, and its metrics: losses, moves of a game, and what the learner wins of the
    `opponent`, or the first player of itself. `state` is consumed: its memory is used again.

    Raises:
      ValueError: `td_steps` with an opponent, whose search tells nothing of the learner's values.
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
    examples, there = jax.tree.map(
        lambda x: x.reshape(-1, *x.shape[2:]),
        (games.notes.example.replace(value=values), games.there),
    )
    buffer = replay.add(state.replay, examples, there)
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
        "moves": jnp.mean(jnp.sum(games.there, axis=1)),
        "won": jnp.mean(won),
        "replay": buffer.size,
    }
    return data_sharding.constrain(after, _LAYOUT, mesh), losses | counts


def value_targets(games: Games, td_steps: int | None) -> Float[Array, "B T"]:
    """What player 0's values are to be at every turn: the payoff of the game or, if it goes on for
    so many more turns, what the search finds there."""
    returns = jnp.broadcast_to(games.payoffs[:, None], games.there.shape)
    if td_steps is None:
        return returns
    later = jnp.pad(games.notes.value[:, td_steps:], ((0, 0), (0, td_steps)))
    goes_on = jnp.pad(games.there[:, td_steps:], ((0, 0), (0, td_steps)))
    later, goes_on = later[:, : returns.shape[1]], goes_on[:, : returns.shape[1]]
    return jnp.where(goes_on, later, returns)


def _played(shared, batch, *, settings):
    """Games of the learner's, with notes of every turn."""
    game, params, opponent = shared
    keys, seats = batch
    agent = Agent(params=params, settings=settings.search, opponent=opponent)
    players = [_noting(game, agent, policy_weight=1.0)]
    if opponent is not None:  # of its moves only the values are learned
        players.append(_noting(game, opponent, policy_weight=0.0))
    return duels.play(game, keys, seats, players)


def _noting(game, agent, *, policy_weight):
    """The agent as a player who notes examples."""
    play = duels.player(game, agent)

    def note(state, found):
        example = _example(game, state).replace(
            policy=found.visits / jnp.maximum(jnp.sum(found.visits), 1),
            value_weight=jnp.float32(1),
            policy_weight=jnp.float32(policy_weight),
        )
        sign = jnp.where(game.actor(state) == 0, 1.0, -1.0)
        return _Note(example=example, sign=sign, value=sign * found.value)

    def player(keys, states):
        actions, found = play(keys, states)
        return actions, jax.vmap(note)(states, found)

    return player


def _example(game, state):
    """What a position looks like, with nothing to learn yet."""
    zero = jnp.float32(0)
    return ResponseExample(
        features=game.encode(state).astype(jnp.float32),
        legal=game.child_mask(state),
        policy=jnp.zeros(game.num_actions, jnp.float32),
        value=zero,
        value_weight=zero,
        policy_weight=zero,
    )
