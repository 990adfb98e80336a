"""Approximate best responses to AlphaZero agents (Timbers et al. 2020, Section 4.2, Figures 2, 3).

Two agents that differ in what their values learn, the returns of games or the searches of 25 moves
later, play each other, and ISMCTS-BR learns to exploit each: directly, or against more and more of
the agent's simulations. The learned response searches with the agent's policy head in place of the
agent's search; what it wins is measured against the agent as it plays.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float, PyTree
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run, RunArguments
from experiments.student_of_games import elo
from experiments.student_of_games.training_run import LOG, Trainee
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from nets import cvpn, value_prior
from solvers.perfect_information import duels
from solvers.perfect_information.alphazero_search import Agent, AlphaZero
from train import alphazero_training
from train.alphazero_training import AlphaZeroSettings
from train.learner import LearnerSettings

AGENTS = ("returns", "TD")  # what their values learn from
WAYS = ("direct", "curriculum")
HEAD_TO_HEAD, RANDOM = "head to head", "random"
_HEAD_TO_HEAD_DUELS = 4  # times as many games as other measurements have
# Shares of games won in 9x9 Go, against 800 simulations: text of Section 4.2.
PAPER = {
    ("returns", HEAD_TO_HEAD): 0.2325,
    ("returns", "direct"): 0.2,
    ("TD", "direct"): 0.4,
    ("returns", "curriculum"): 0.9,
    ("TD", "curriculum"): 0.9,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is trained and measured. A step plays `games` games and makes `updates` updates."""

    measured_at: tuple[int, ...]  # steps of the agents' training, the last of which ends it
    responses_at: tuple[int, ...]  # steps of the responders'
    curriculum: tuple[int, ...]  # the opponent's simulations, the last of which it has in earnest
    duels: int  # games that a measurement plays
    game: str = "pgx:connect_four"
    td_steps: int = 25
    training_simulations: int = 32
    response_simulations: int = 64  # when measured
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
    explored_moves: int = 10  # first moves of games of training, drawn by visits
    sampled_moves: int = 4  # likewise of games that are measured, so that they differ


PRESETS = {
    "smoke": Config(
        game="pgx:tic_tac_toe",
        measured_at=(0, 2),
        responses_at=(0, 2),
        curriculum=(1, 2),
        duels=4,
        training_simulations=2,
        response_simulations=2,
        td_steps=3,
        width=8,
        depth=1,
        games=4,
        updates=1,
        batch_size=8,
        capacity=100,
    ),
    "cpu": Config(
        measured_at=(0, 60, 180),
        responses_at=(0, 20, 40, 60),
        curriculum=(1, 10, 50),
        duels=96,
        response_simulations=50,
        width=64,
        capacity=20_000,
    ),
    "paper": Config(
        game="pgx:go_9x9",
        measured_at=(0, 1000, 3000, 10_000),
        responses_at=(0, 350, 700, 1400, 2100, 2800, 3500),
        curriculum=(1, 10, 50, 100, 200, 400, 800),
        duels=1024,
        training_simulations=200,
        response_simulations=800,
        torso="convolutional",
        width=128,
        depth=10,
        games=512,
        updates=100,
        learning_rate=1e-3,
        batch_size=2048,
        capacity=2_000_000,
        explored_moves=30,
        sampled_moves=30,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Train two AlphaZero agents, and see how much a learned best response wins against each.

    Writes what the responses win as they learn as curve.csv, the agents' Elo as elo.csv, both as
    curve.png, the agents' networks and result.json into --out. Ctrl-C leaves a checkpoint there,
    from which --resume continues to exactly the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: a minute, in tic-tac-toe; cpu: half an hour on two cores, in Connect Four; paper: 9x9
    Go, for an accelerator."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Response:
    """What a response wins against an agent after so much training."""

    agent: str
    way: str
    step: int
    games: int
    won: float  # shares of games
    drawn: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rated:
    """A player of the ladder and its points against each."""

    agent: str  # or RANDOM, which draws from all moves alike
    step: int
    simulations: int
    points: list[float]


def main(arguments: Arguments, *, command: str) -> None:
    """Trains, measures and writes the results.

    Raises:
      ValueError: the folder holds another run.
      FloatingPointError: training met a number that is not finite.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; a checkpoint has been left.
    """
    config = PRESETS[arguments.preset]
    networks = [f"network_{name}.npz" for name in AGENTS]
    files = ("curve.csv", "elo.csv", "curve.png", *networks, LOG)
    run = Run(arguments, config, experiment="abr_alphazero", command=command, files=files)
    laboratory = _Laboratory(run)
    agents = {name: laboratory.agent(name) for name in AGENTS}
    players = run.kept("ladder", Rated, lambda: laboratory.ladder(agents))
    last = {name: found[config.measured_at[-1]] for name, found in agents.items()}
    responses = run.kept("head to head", Response, lambda: [laboratory.head_to_head(last)])
    for name, way in itertools.product(AGENTS, WAYS):
        responses += laboratory.responses(name, way, last[name])
    strengths, errors = elo.ratings(np.array([player.points for player in players]))
    results.write_csv(run.out / "curve.csv", [dataclasses.asdict(one) for one in responses])
    results.write_csv(run.out / "elo.csv", [*_rows(players, strengths, errors)])
    for name, file in zip(AGENTS, networks, strict=True):
        results.write_file(run.out / file, cvpn.to_bytes(last[name]))
    draw(run.out / "curve.png", config, responses, players, strengths)
    numbers = list(_numbers(config, responses, players, strengths, errors))
    run.finish(numbers, measure=_measure(config), deviations=_deviations(config))
    _print(config, numbers)


class _Laboratory:
    """Agents in training, their duels, and responses to them."""

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
        """Trains an agent: its parameters by the steps that it is measured at."""
        config = self.config
        settings = self._training(
            config.measured_at[-1],
            td_steps=config.td_steps if name == "TD" else None,
        )
        state = alphazero_training.init(self.game, self.start, jax.random.key(0), settings=settings)

        def step(state):
            return alphazero_training.train_step(self.game, self.graph, state, settings=settings)

        trainee, found = Trainee(state, step, self.run, name=f"agent {name}"), {}
        for number in config.measured_at:
            path = self.run.checkpoint / f"{name}-{number}.npz"
            if not path.exists():
                trainee.train(number)
                results.write_file(path, cvpn.to_bytes(trainee.params))
            found[number] = cvpn.from_bytes(path.read_bytes(), self.start)
        return found

    def ladder(self, agents: Mapping[str, Mapping[int, PyTree]]) -> Iterator[Rated]:
        """Everybody against everybody: agents after more training, and with more simulations."""
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
        """What the agent of the returns wins against the other, as both play in earnest."""
        first, second = (Agent(params=agents[name], settings=self.playing) for name in AGENTS)
        payoffs = [self._duel(first, second, seed=seed) for seed in range(_HEAD_TO_HEAD_DUELS)]
        return _response(AGENTS[0], HEAD_TO_HEAD, 0, np.concatenate(payoffs))

    def responses(self, name: str, way: str, params: PyTree) -> Iterator[Response]:
        """Trains a response to an agent, and measures it on the way."""
        config = self.config
        opponent, steps = Agent(params=params, settings=self.playing), config.responses_at[-1]
        stages = config.curriculum if way == "curriculum" else config.curriculum[-1:]
        settings = self._training(steps)
        start = nnx.split(self._network(1))[1]
        state = alphazero_training.init(self.game, start, jax.random.key(1), settings=settings)

        def step(state):
            stage = stages[min(int(state.step) * len(stages) // steps, len(stages) - 1)]
            fixed = opponent.replace(simulations=jnp.int32(stage))
            return alphazero_training.train_step(
                self.game, self.graph, state, settings=settings, opponent=fixed
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
            responder = Agent(params=trainee.params, settings=search, opponent=opponent)
            yield _response(name, way, number, self._duel(responder, opponent, seed=2000))

        for number in config.responses_at:
            if number == steps:
                trainee.train(number)
            yield from self.run.kept(
                f"{name}-{way}-{number}", Response, lambda n=number: measure(n)
            )

    def _network(self, seed):
        config = self.config
        return value_prior.new_value_prior(
            self.game, seed=seed, width=config.width, depth=config.depth, torso=config.torso
        )

    def _training(self, steps, td_steps=None):
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
        if name == RANDOM:
            return Agent()
        return Agent(
            params=agents[name][step],
            settings=self.playing,
            simulations=jnp.int32(simulations),
        )

    def _duel(self, first, second, *, seed) -> Float[np.ndarray, " G"]:
        key = jax.random.key(seed)
        return np.asarray(duels.duel(self.game, first, second, key, num_games=self.config.duels))


def _response(agent, way, step, payoffs):
    return Response(
        agent=agent,
        way=way,
        step=step,
        games=len(payoffs),
        won=float((payoffs > 0).mean()),
        drawn=float((payoffs == 0).mean()),
    )


def _rows(players, strengths, errors):
    for one, strength, error in zip(players, strengths, errors, strict=True):
        fields = dict(agent=one.agent, step=one.step, simulations=one.simulations)
        yield fields | dict(elo=f"{strength:.1f}", error=f"{error:.1f}")


def draw(
    path: pathlib.Path,
    config: Config,
    responses: Sequence[Response],
    players: Sequence[Rated],
    strengths: Float[np.ndarray, " N"],
) -> None:
    """Elo of the agents by training and by simulations, and what the responses win."""
    most, last = config.curriculum[-1], config.measured_at[-1]
    with plots.figure(path, rows=1, columns=3, size=(10.2, 3.0)) as axes:
        for number, agent in enumerate(AGENTS):
            style = dict(color=_COLOURS[number], marker="os"[number], markersize=4, label=agent)
            rated = [(one, elo) for one, elo in zip(players, strengths, strict=True)]
            mine = [(one, elo) for one, elo in rated if one.agent == agent]
            line = [(one.step, elo) for one, elo in mine if one.simulations == most]
            axes[0, 0].plot(*zip(*line, strict=True), **style)
            line = [(one.simulations, elo) for one, elo in mine if one.step == last]
            axes[0, 1].plot(*zip(*line, strict=True), **style)
        for (number, agent), way in itertools.product(enumerate(AGENTS), WAYS):
            line = [one for one in responses if (one.agent, one.way) == (agent, way)]
            axes[0, 2].plot(
                [one.step for one in line],
                [one.won for one in line],
                color=_COLOURS[number],
                linestyle="-" if way == "direct" else "--",
                marker="os"[number],
                markersize=4,
                label=f"{agent}, {way}",
            )
            axes[0, 2].plot(
                [config.responses_at[-1] * (1.04 + 0.03 * number)],
                [PAPER[agent, way]],
                markeredgecolor=_COLOURS[number],
                **plots.HOLLOW,
            )
        axes[0, 2].plot([], [], markeredgecolor="black", label="Go (paper)", **plots.HOLLOW)
        axes[0, 0].set(xlabel="training steps", ylabel=f"Elo with {most} simulations")
        axes[0, 0].legend(frameon=False, fontsize=8)
        axes[0, 1].set(xlabel="simulations", ylabel="Elo when trained", xscale="log")
        axes[0, 2].set(xlabel="training steps of the response", ylabel="games won", ylim=(0, 1))
        axes[0, 2].legend(**plots.BESIDE)
        axes[0, 0].set_title(f"AlphaZero, {config.game.removeprefix('pgx:')}")
        axes[0, 2].set_title("ISMCTS-BR")


_COLOURS = tuple(plots.COLOURS.values())


def _measure(config: Config) -> str:
    return (
        f"games that a learned response wins against the agent with {config.curriculum[-1]}"
        " simulations, half of them as the first player; what it gains is a lower bound on"
        " exploitability (NashConv / 2); Elo of the agents, 0 for one that plays at random; low and"
        " high are two standard errors away; published: 9x9 Go"
    )


def _deviations(config: Config) -> list[str]:
    found = [
        f"agents draw their first {config.sampled_moves} moves by visits, so that games differ",
        "the response's network also learns what positions are worth in which the agent acts",
    ]
    if config != PRESETS["paper"]:
        found = [
            f"{config.game} instead of 9x9 Go, with small networks and little training",
            f"{config.curriculum[-1]} simulations instead of 800",
            *found,
        ]
    return found


def _numbers(
    config: Config,
    responses: Sequence[Response],
    players: Sequence[Rated],
    strengths: Float[np.ndarray, " N"],
    errors: Float[np.ndarray, " N"],
) -> Iterator[results.Number]:
    last = [one for one in responses if one.step == config.responses_at[-1]]
    last += [one for one in responses if one.way == HEAD_TO_HEAD]
    for one in last:
        paper = PAPER[one.agent, one.way]
        error = 2 * (one.won * (1 - one.won) / one.games) ** 0.5
        yield _around(
            f"{one.way}:{one.agent}", one.won, error, unit="share of games won", paper=paper
        )
    for one in last:
        gain, square = 2 * one.won + one.drawn - 1, 1 - one.drawn
        error = 2 * ((square - gain**2) / one.games) ** 0.5
        yield _around(f"{one.way}:gained from {one.agent}", gain, error, unit="payoff")
    for one, strength, error in zip(players, strengths, errors, strict=True):
        if one.agent != RANDOM:
            column = f"{one.step} steps, {one.simulations} simulations"
            yield _around(f"{column}:{one.agent}", strength, 2 * error, unit="Elo")


def _around(name, value, error, **more):
    value, error = float(value), float(error)
    return results.Number(name=name, value=value, low=value - error, high=value + error, **more)


def _print(config: Config, numbers: Sequence[results.Number]) -> None:
    table = Table(title="abr_alphazero: " + _measure(config))
    for column in ("", "value", "range", "unit"):
        table.add_column(column, justify="left" if column in ("", "unit") else "right")
    for one in numbers:
        span = f"{one.low:.3g} to {one.high:.3g}"
        table.add_row(one.name.replace(":", ", "), f"{one.value:.3g}", span, one.unit)
    Console().print(table)
