"""AlphaZero agents in training, their duels, and responses that learn to exploit them.

Timbers et al. 2020, Section 4.2; `abr_alphazero` is the experiment.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float, PyTree

from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from experiments.student_of_games.training_run import Trainee, unplaced
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from nets import value_prior
from solvers.perfect_information import duels
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from train import alphazero_training
from train.alphazero_training import AlphaZeroSettings
from train.learner import LearnerSettings

AGENTS = ("returns", "TD")  # by what their values learn from
WAYS = ("direct", "curriculum")  # in which responses are trained
HEAD_TO_HEAD, RANDOM = "head to head", "random"
_HEAD_TO_HEAD_DUELS = 4  # times as many games as other measurements have


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is trained and measured; a step plays `games` games and makes `updates` updates."""

    measured_at: tuple[int, ...]  # steps of the agents' training, the last of which ends it
    responses_at: tuple[int, ...]  # steps of the responses' training
    curriculum: tuple[int, ...]  # simulations of the agent, which plays with the last number
    duels: int  # games per measurement
    game: str = "pgx:connect_four"
    td_steps: int = 25
    training_simulations: int = 32
    response_simulations: int = 64  # of a response when it is measured
    torso: str = "mlp"
    width: int = 128
    depth: int = 2
    games: int = 64
    updates: int = 16
    learning_rate: float = 2e-3
    decay: float = 0.05  # of the learning rate, from the first update to the last
    l2: float = 1e-4
    batch_size: int = 256
    capacity: int = 40_000  # of the replay buffer
    explored_moves: int = 10  # at the start of a game of training, drawn by visits
    sampled_moves: int = 4  # likewise in games that are measured, so that the games differ


def shared_sizes(config: Config) -> dict[str, int]:
    """The sizes that devices share in training, by name."""
    return {name: getattr(config, name) for name in ("games", "batch_size", "capacity")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Response:
    """What a response wins against an agent after so much training."""

    agent: str
    way: str
    step: int
    games: int
    won: float  # share of the games
    drawn: float  # share of the games


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rated:
    """A player of the ladder and its points against each player."""

    agent: str  # or RANDOM, which plays uniformly at random
    step: int
    simulations: int
    points: list[float]


class AlphaZeroLaboratory:
    """Agents in training, their duels, and responses to them, in one game."""

    def __init__(self, run: Run):
        self.run, self.config = run, run.config
        config = self.config
        self.game = pgx_beliefs(config.game.removeprefix("pgx:"))
        self.graph, self.start = nnx.split(self._network(0))
        self.evaluate = value_prior.ValuePriorEvaluator(self.graph)
        self.playing = AlphaZero(
            self.evaluate,
            simulations=config.curriculum[-1],
            sampled_moves=config.sampled_moves,
        )

    def agent(self, name: str) -> dict[int, PyTree]:
        """Trains an agent; returns its parameters by the steps at which it is measured."""
        from solvers import checkpoint  # imports Orbax

        config = self.config
        settings = self._training(
            config.measured_at[-1],
            td_steps=config.td_steps if name == "TD" else None,
        )
        common = dict(settings=settings, mesh=self.run.mesh)
        state = alphazero_training.init(self.game, self.start, jax.random.key(0), **common)

        def step(state):
            return alphazero_training.train_step(self.game, self.graph, state, **common)

        trainee, params = Trainee(state, step, self.run, name=f"agent {name}"), {}
        identity = {"config": repr(config)}
        for number in config.measured_at:
            folder = self.run.checkpoint / f"{name}-{number}"

            def read(folder=folder):
                return unplaced(checkpoint.read(folder, self.start, identity=identity))

            try:
                params[number] = read()
            except FileNotFoundError:
                trainee.train(number)
                for _ in range(2):  # the first is read if the second is damaged
                    checkpoint.write(folder, jax.device_get(trainee.params), identity=identity)
                params[number] = read()  # training goes on in the arrays that it was given
        return params

    def ladder(self, agents: Mapping[str, Mapping[int, PyTree]]) -> Iterator[Rated]:
        """Duels of all pairs of players: agents by training steps, and by simulations."""
        config = self.config
        players = [(RANDOM, 0, 0)]
        for name in agents:
            players += [(name, step, config.curriculum[-1]) for step in config.measured_at[:-1]]
            players += [(name, config.measured_at[-1], count) for count in config.curriculum]
        points = np.zeros((len(players), len(players)))
        pairs = list(itertools.combinations(range(len(players)), 2))
        with progress("ladder", len(pairs)) as report:
            count = counter(report)
            for i, j in pairs:
                first, second = (self._player(agents, *players[n]) for n in (i, j))
                won = self._duel(first, second, seed=len(players) * i + j)
                points[i, j] = np.sum((1 + won) / 2)
                points[j, i] = len(won) - points[i, j]
                count(1)
        for (agent, step, simulations), row in zip(players, points, strict=True):
            yield Rated(agent=agent, step=step, simulations=simulations, points=row.tolist())

    def head_to_head(self, agents: Mapping[str, PyTree]) -> Response:
        """What the agent of the returns wins against the other, both with all simulations."""
        first, second = (
            AlphaZeroAgent(params=agents[name], settings=self.playing) for name in AGENTS
        )
        payoffs = [self._duel(first, second, seed=seed) for seed in range(_HEAD_TO_HEAD_DUELS)]
        return _response(AGENTS[0], HEAD_TO_HEAD, 0, np.concatenate(payoffs))

    def responses(self, name: str, way: str, params: PyTree) -> Iterator[Response]:
        """Trains a response to an agent in one of the ways, and measures it in the course."""
        config = self.config
        opponent, steps = (
            AlphaZeroAgent(params=params, settings=self.playing),
            config.responses_at[-1],
        )
        stages = config.curriculum if way == "curriculum" else config.curriculum[-1:]
        settings = self._training(steps)
        start = nnx.split(self._network(1))[1]
        common = dict(settings=settings, mesh=self.run.mesh)
        state = alphazero_training.init(self.game, start, jax.random.key(1), **common)

        def step(state):
            stage = stages[min(int(state.step) * len(stages) // steps, len(stages) - 1)]
            fixed = opponent.replace(simulations=jnp.int32(stage))
            return alphazero_training.train_step(
                self.game, self.graph, state, opponent=fixed, **common
            )

        trainee = Trainee(state, step, self.run, name=f"{way} {name}")
        search = AlphaZero(
            self.evaluate,
            simulations=config.response_simulations,
            sampled_moves=0,
        )
        opponent = opponent.replace(simulations=jnp.int32(config.curriculum[-1]))

        def measure(number):
            trainee.train(number)
            responder = AlphaZeroAgent(params=trainee.params, settings=search, opponent=opponent)
            yield _response(name, way, number, self._duel(responder, opponent, seed=2000))

        for number in config.responses_at:
            if number == steps:
                trainee.train(number)
            yield from self.run.kept(
                f"{name}-{way}-{number}", Response, lambda n=number: measure(n)
            )

    def _network(self, seed):
        """An untrained network."""
        config = self.config
        return value_prior.new_value_prior(
            self.game, seed=seed, width=config.width, depth=config.depth, torso=config.torso
        )

    def _training(self, steps, td_steps=None):
        """The settings of a training of `steps` steps."""
        config = self.config
        return AlphaZeroSettings(
            search=AlphaZero(
                self.evaluate,
                simulations=config.training_simulations,
                noise=0.25,
                sampled_moves=config.explored_moves,
            ),
            learner=LearnerSettings(
                learning_rate=config.learning_rate,
                decay_rate=config.decay,
                decay_steps=steps * config.updates,
                batch_size=config.batch_size,
                capacity=config.capacity,
                max_uses=20,
                policy_weight=1.0,
                l2=config.l2,
            ),
            games=config.games,
            updates=config.updates,
            td_steps=td_steps,
        )

    def _player(self, agents, name, step, simulations):
        """A player of the ladder."""
        if name == RANDOM:
            return AlphaZeroAgent()
        return AlphaZeroAgent(
            params=agents[name][step],
            settings=self.playing,
            simulations=jnp.int32(simulations),
        )

    def _duel(self, first, second, *, seed) -> Float[np.ndarray, " G"]:
        """The payoffs of the first player in every game."""
        key = jax.random.key(seed)
        return np.asarray(duels.duel(self.game, first, second, key, num_games=self.config.duels))


def _response(agent, way, step, payoffs):
    """The record of games with these payoffs of the response."""
    return Response(
        agent=agent,
        way=way,
        step=step,
        games=len(payoffs),
        won=float((payoffs > 0).mean()),
        drawn=float((payoffs == 0).mean()),
    )
