"""AlphaZero agents in training, their duels, and responses that learn to exploit them.

Timbers et al. 2020, Section 4.2; `abr_alphazero` is the experiment.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float, PyTree

from experiments.best_response.alphazero_presets import network_of
from experiments.engines import networks
from experiments.harness import devices
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from experiments.perfect_information.perfect_player import perfect_player
from experiments.perfect_information.student import network_sizes
from experiments.student_of_games.training_run import Trainee, unplaced
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from nets import value_prior
from solvers.perfect_information import duels, matches
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from train import alphazero_training
from train.alphazero_training import AlphaZeroSettings
from train.learner import LearnerSettings

AGENTS = ("returns", "TD")  # by what their values learn from
WAYS = ("direct", "curriculum")  # in which responses are trained
HEAD_TO_HEAD, RANDOM = "head to head", "random"
PERFECT = "perfect player"
PERFECT_WAYS = (PERFECT, f"{PERFECT} first", f"{PERFECT} second")  # all games, and by who begins
_HEAD_TO_HEAD_DUELS = 4  # times as many games as other measurements have


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Points:
    """Of both players in a duel: 1 for a win, 1/2 for a draw."""

    first: float
    second: float


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
        """Trains an agent, or reads it; its parameters by the steps at which it is measured."""
        from solvers import checkpoint  # imports Orbax

        config = self.config
        folder = {"returns": config.agent, "TD": config.td_agent}[name]
        if folder:
            _, params = networks.load_value_prior(network_of(folder), self.game)
            return {config.measured_at[-1]: params}
        settings = self._training(
            config.measured_at[-1],
            games=config.games,
            moves=config.moves,
            td_steps=config.td_steps if name == "TD" else None,
        )
        common = dict(settings=settings, mesh=self.run.mesh)
        state = alphazero_training.init(self.game, self.start, jax.random.key(0), **common)

        def step(state):
            return alphazero_training.train_step(self.game, self.graph, state, **common)

        trainee, params = Trainee(state, step, self.run, name=f"agent {name}"), {}
        for number in config.measured_at:
            folder = self.run.checkpoint / f"{name}-{number}"

            def read(folder=folder):
                return unplaced(checkpoint.read(folder, self.start, identity={}))

            try:
                params[number] = read()
            except FileNotFoundError:
                trainee.train(number)
                for _ in range(2):  # the first is read if the second is damaged
                    checkpoint.write(folder, jax.device_get(trainee.params), identity={})
                params[number] = read()  # training goes on in the arrays that it was given
        return params

    def ladder(self, agents: Mapping[str, Mapping[int, PyTree]]) -> Iterator[Rated]:
        """Duels of all pairs of players: agents by training steps, and by simulations."""
        config = self.config
        players = [(RANDOM, 0, 0)]
        for name in agents:
            players += [(name, step, config.curriculum[-1]) for step in config.measured_at[:-1]]
            counts = config.rated or config.curriculum
            players += [(name, config.measured_at[-1], count) for count in counts]
        points = np.zeros((len(players), len(players)))
        pairs = list(itertools.combinations(range(len(players)), 2))
        with progress("ladder", len(pairs)) as report:
            count = counter(report)
            for i, j in pairs:
                pair = [self._player(agents, *players[n]) for n in (i, j)]
                games = functools.partial(self._points, *pair, seed=len(players) * i + j)
                (met,) = self.run.kept(f"ladder-{i}-{j}", _Points, games)
                points[i, j], points[j, i] = met.first, met.second
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

    def perfect(self, name: str, params: PyTree) -> Iterator[Response]:
        """What a perfect player wins against an agent with all simulations.

        Raises:
          ValueError: the game is not Connect Four, or the player's solver is not installed.
        """
        mesh, pairs = devices.local(self.run.mesh), self.config.perfect_duels // 2
        agent = AlphaZeroAgent(params=params, settings=self.playing)
        payoffs = matches.play_pairs(
            self.game,
            jax.random.split(jax.random.key(3000), pairs),
            [perfect_player(self.game), matches.chooser(self.game, agent, mesh)],
            np.zeros((pairs, 0), np.int32),
            batch=2 * pairs,
            devices=1 if mesh is None else mesh.size,
        )
        for way, own in zip(PERFECT_WAYS, (payoffs.ravel(), *payoffs.T), strict=True):
            yield _response(name, way, 0, own)

    def responses(self, name: str, way: str, params: PyTree) -> Iterator[Response]:
        """Trains a response to an agent in one of the ways, and measures it in the course.

        Each stage of a curriculum is a training of its own, which begins with the network of the
        stage before (Timbers et al. 2020, Fig. 3).
        """
        config = self.config
        opponent, steps = (
            AlphaZeroAgent(params=params, settings=self.playing),
            config.responses_at[-1],
        )
        stages = config.curriculum if way == "curriculum" else config.curriculum[-1:]
        games = config.response_games or config.games
        settings = self._training(-(-steps // len(stages)), games=games)
        start = nnx.split(self._network(1))[1]
        common = dict(settings=settings, mesh=self.run.mesh)
        state = alphazero_training.init(self.game, start, jax.random.key(1), **common)

        def stage_of(number):
            return min(number * len(stages) // steps, len(stages) - 1)

        def step(state):
            number = int(state.step)
            stage = stage_of(number)
            if number and stage != stage_of(number - 1):
                learned, key = state.learner.params, state.key
                fresh = alphazero_training.init(self.game, learned, key, **common)
                state = fresh.replace(step=state.step, games=state.games)
            fixed = opponent.replace(simulations=jnp.int32(stages[stage]))
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
        return value_prior.new_value_prior(self.game, seed=seed, **network_sizes(self.config))

    def _training(self, steps, *, games, moves=None, td_steps=None):
        """The settings of a training of `steps` steps with `games` games, whole ones or `moves` in
        each in a step."""
        config = self.config
        return AlphaZeroSettings(
            search=AlphaZero(
                self.evaluate,
                simulations=config.training_simulations,
                noise=0.25,
                concentration=config.concentration,
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
            games=games,
            moves=moves,
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

    def _points(self, first, second, *, seed) -> Iterator[_Points]:
        """The points of both players in a duel."""
        won = self._duel(first, second, seed=seed)
        yield _Points(first=float(np.sum((1 + won) / 2)), second=float(np.sum((1 - won) / 2)))

    def _duel(self, first, second, *, seed) -> Float[np.ndarray, " G"]:
        """The payoffs of the first player in every game."""
        key, mesh = jax.random.key(seed), devices.local(self.run.mesh)
        payoffs = duels.duel(self.game, first, second, key, num_games=self.config.duels, mesh=mesh)
        return np.asarray(payoffs)


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
