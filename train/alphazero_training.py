"""Training by AlphaZero (Silver et al. 2018), or of a best response to a fixed agent.

    >>> import jax
    >>> import jaxgames
    >>> from flax import nnx
    >>> from nets import ValuePriorEvaluator, new_value_prior
    >>> from solvers.perfect_information import AlphaZero
    >>> from train import AlphaZeroSettings, LearnerSettings, alphazero_training
    >>> game = jaxgames.make("pgx:tic_tac_toe").belief_game()
    >>> graph, params = nnx.split(new_value_prior(game, seed=0, width=8, depth=1))
    >>> search = AlphaZero(ValuePriorEvaluator(graph), simulations=4, noise=0.25, sampled_moves=5)
    >>> learner = LearnerSettings(batch_size=8, capacity=64, policy_weight=1.0, l2=1e-4)
    >>> settings = AlphaZeroSettings(search=search, learner=learner, games=4, updates=1)
    >>> state = alphazero_training.init(game, params, jax.random.key(0), settings=settings)
    >>> state, metrics = alphazero_training.train_step(game, graph, state, settings=settings)
    >>> int(metrics["games"])
    4

A step plays whole games side by side and makes some gradient updates. The games wait for the last
of them; with `moves` a step makes that many in each game instead, a new game follows where one
has ended, and games go on in the next step. With an `opponent` whole games are played against it,
and the learner's search draws the opponent's moves from its prior: ISMCTS-BR (Timbers et al. 2020)
in games of perfect information.

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

from jaxgames.arrays import merge_axes
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.checks import at_least
from jaxgames.core import record
from jaxgames.debug import checked
from solvers import device_batches
from solvers.device_batches import DATA
from solvers.perfect_information import duels
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.duels import Games, GamesUnderWay
from solvers.perfect_information.positions import (
    legal_actions,
    num_actions,
    require_perfect_information,
)
from train import data_sharding, replay
from train.best_response_training import ResponseExample, response_loss
from train.learner import Learner, LearnerSettings, learn, new_buffer, new_learner
from train.value_checks import check_training


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlphaZeroSettings:
    """How to train. Static under `jit`."""

    # evaluates with the network; without `noise` and `sampled_moves` all games are the same
    search: AlphaZero
    learner: LearnerSettings  # whose defaults are for poker: here policies weigh as much as values
    games: int  # side by side
    updates: int  # gradient updates in a step
    moves: int | None = None  # in each game in a step; None: a step plays the games to their ends
    # value targets are the search's values this many turns later; None: the payoffs of the games
    td_steps: int | None = None

    def __post_init__(self):
        at_least(1, games=self.games, updates=self.updates)
        for name in ("moves", "td_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value} must be None or at least 1")


@record
class Note:
    """What is recorded of a turn."""

    example: ResponseExample  # without its value target
    sign: Array  # [] 1 if player 0 acts, -1 if player 1 does
    value: Array  # [] of player 0, by the search


@record
class SelfPlay:
    """B games that go on from step to step, with the examples that wait for the payoffs."""

    games: GamesUnderWay
    waiting: Note  # [B, max_depth, ...] of the latest turns; those of the game are the last ones


@record
class AlphaZeroTraining:
    """The state of a run."""

    learner: Learner
    replay: replay.Replay
    key: Array
    step: Array  # [] int32
    games: Array  # [] int32 of training that have ended
    self_play: SelfPlay | None = None  # None: every step begins new games


_LAYOUT = AlphaZeroTraining(
    learner=P(),
    replay=replay.LAYOUT,
    key=P(),
    step=P(),
    games=P(),
    self_play=P(DATA),
)


@record
class _Played:
    """What a step has played, as examples for the replay buffer, and its metrics."""

    examples: ResponseExample  # [B, T, ...]
    exists: Array  # [B, T] bool whether it is an example of a game that has ended
    metrics: dict[str, Array]


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
    device_batches.check_even({"games": settings.games} | sizes, mesh)

    def start(game, params, key):
        return AlphaZeroTraining(
            learner=new_learner(jax.tree.map(jnp.copy, params), settings.learner),
            replay=new_buffer(_example(game, game.root()), settings.learner),
            key=jax.random.clone(key),
            step=jnp.int32(0),
            games=jnp.int32(0),
            self_play=None if settings.moves is None else _new_self_play(game, settings.games),
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
      The state after the step, and its metrics: the losses, the number of games that ended
      ("games") and their mean number of moves ("moves"), the mean payoff in them ("won") of the
      learner against the opponent or, in self-play, of the first player, and the number of examples
      in the replay buffer ("replay").

    Raises:
      ValueError: `moves` or `td_steps` is given with an opponent, whose searches say nothing about
        the values of the learner.
    """
    for name in ("moves", "td_steps"):
        if opponent is not None and getattr(settings, name) is not None:
            raise ValueError(f"{name}={getattr(settings, name)} must be None against an opponent")
    key, play_key, learn_key = jax.random.split(state.key, 3)
    common = dict(settings=settings, mesh=mesh)
    keys, params, self_play = jax.random.split(play_key, settings.games), state.learner.params, None
    if settings.moves is None:
        played = _whole_games(game, params, opponent, keys, **common)
    else:
        self_play, played = _going_on(game, params, keys, state.self_play, **common)
    examples, exists = merge_axes((played.examples, played.exists))
    examples, exists = data_sharding.everywhere((examples, exists), mesh)
    buffer = replay.add(state.replay, examples, exists)
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
    after = AlphaZeroTraining(
        learner=learner,
        replay=buffer,
        key=key,
        step=state.step + 1,
        games=state.games + played.metrics["games"],
        self_play=self_play,
    )
    metrics = losses | played.metrics | {"replay": buffer.size}
    return data_sharding.constrain(after, _LAYOUT, mesh), metrics


def value_targets(games: Games, td_steps: int | None) -> Float[Array, "B T"]:
    """Targets of player 0's values at every turn.

    Args:
      games: B games of T turns, whose notes have the values of searches.
      td_steps: a target is the search's value this many turns later, if the game goes on so long;
        None: it is always the payoff of the game.

    Returns:
      Targets `[B, T]`.
    """
    returns = jnp.broadcast_to(games.payoffs[:, None], games.moved.shape)
    last = jnp.sum(games.moved, axis=1, keepdims=True, dtype=jnp.int32) - 1
    return _targets(returns, games.notes.value, last, td_steps)


def _targets(returns, values, last, td_steps):
    """Targets `[B, T]` from the payoffs of the games and the values of searches by turn; `last` is
    the turn that ends the game of a turn."""
    if td_steps is None:
        return returns
    later = jnp.pad(values[:, td_steps:], ((0, 0), (0, td_steps)))[:, : values.shape[1]]
    turn = jnp.arange(values.shape[1], dtype=jnp.int32)[None, :]
    return jnp.where(turn + td_steps <= last, later, returns)


def _whole_games(game, params, opponent, keys, *, settings, mesh):
    """Plays the learner's games from their first moves to their ends."""
    seats = jnp.arange(settings.games, dtype=jnp.int32) % 2
    play = device_batches.split_calls(functools.partial(_play, settings=settings), mesh)
    games = play((game, params, opponent), (keys, seats))
    values = games.notes.sign * value_targets(games, settings.td_steps)
    won = games.payoffs if opponent is None else jnp.where(seats == 0, 1, -1) * games.payoffs
    return _Played(
        examples=games.notes.example.replace(value=values),
        exists=games.moved,
        metrics={
            "games": jnp.int32(settings.games),
            "moves": jnp.mean(jnp.sum(games.moved, axis=1)),
            "won": jnp.mean(won),
        },
    )


def _play(shared, batch, *, settings):
    """Plays whole games, with notes of every turn."""
    game, params, opponent = shared
    keys, seats = batch
    agent = AlphaZeroAgent(params=params, settings=settings.search, opponent=opponent)
    players = [_noting(game, agent, policy_weight=1.0)]
    if opponent is not None:  # its moves teach values, not the policy
        players.append(_noting(game, opponent, policy_weight=0.0))
    return duels.play(game, keys, seats, players)


def _new_self_play(game, num_games):
    """Games before their first moves, without examples that wait."""
    note = Note(example=_example(game, game.root()), sign=jnp.float32(0), value=jnp.float32(0))
    shape = num_games, game.max_depth
    return SelfPlay(
        games=duels.begin(game, num_games),
        waiting=jax.tree.map(lambda x: jnp.zeros((*shape, *x.shape), x.dtype), note),
    )


def _going_on(game, params, keys, self_play, *, settings, mesh):
    """Goes on with the learner's games; examples are of those that end."""
    go_on = device_batches.split_calls(functools.partial(_go_on, settings=settings), mesh)
    self_play, examples, exists, turns = go_on((game, params), (keys, self_play))
    count = jnp.sum(turns.ended, dtype=jnp.int32)
    share = 1 / jnp.maximum(count, 1).astype(jnp.float32)
    metrics = {
        "games": count,
        "moves": share * jnp.sum(exists).astype(jnp.float32),
        "won": share * jnp.sum(turns.payoffs),
    }
    return self_play, _Played(examples=examples, exists=exists, metrics=metrics)


def _go_on(shared, batch, *, settings):
    """The games after some more moves; examples of the waiting and the new turns, and which of them
    are of games that have ended; what happened in the new turns, without notes."""
    game, params = shared
    keys, self_play = batch
    agent = AlphaZeroAgent(params=params, settings=settings.search)
    player = _noting(game, agent, policy_weight=1.0)
    games, turns = duels.play_on(game, keys, self_play.games, player, turns=settings.moves)
    room = game.max_depth  # for the turns that wait, before the new ones
    notes = jax.tree.map(
        lambda old, new: jnp.concatenate([old, new], axis=1), self_play.waiting, turns.notes
    )
    ended, payoffs = (jnp.pad(x, ((0, 0), (room, 0))) for x in (turns.ended, turns.payoffs))
    turn = jnp.arange(room + settings.moves, dtype=jnp.int32)[None, :]
    never = jnp.int32(room + settings.moves)
    last = jax.lax.cummin(jnp.where(ended, turn, never), axis=1, reverse=True)
    begun = room - self_play.games.num_moves[:, None]  # the first turn of the game
    returns = jnp.take_along_axis(payoffs, jnp.minimum(last, never - 1), axis=1)
    values = notes.sign * _targets(returns, notes.value, last, settings.td_steps)
    exists = (turn >= begun) & (last < never)
    after = SelfPlay(games=games, waiting=jax.tree.map(lambda x: x[:, -room:], notes))
    examples = notes.example.replace(value=values)
    return after, examples, exists, turns.replace(notes=())


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
        return Note(example=example, sign=sign, value=sign * result.value)

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
