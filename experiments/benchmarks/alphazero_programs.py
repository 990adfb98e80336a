"""What the benchmark of AlphaZero's training measures in a process of its own: ours, and pgx's
recipe, in turns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array

from experiments.benchmarks import pgx_alphazero
from experiments.benchmarks.measurements import Clock, mesh_of_cores
from experiments.benchmarks.pgx_alphazero import PgxSettings
from jaxgames.adapters.pgx_beliefs import PgxBeliefs, pgx_beliefs
from nets.alphazero_network import AlphaZeroNetwork
from nets.value_prior import ValuePriorEvaluator, new_value_prior
from solvers.device_batches import on_each_device
from solvers.perfect_information import alphazero_search
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from train import alphazero_training
from train.alphazero_training import AlphaZeroSettings, AlphaZeroTraining
from train.learner import LearnerSettings

OURS, WHOLE, PEER = "ours", "ours in whole games", "pgx's recipe"
_REPLAY = 4  # steps whose positions our replay buffer holds
_MAX_USES = 20  # of a position in updates of ours


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A step of training: positions that are searched, and updates that use as many."""

    game: str  # of pgx
    width: int  # channels of the network
    depth: int  # its residual blocks
    simulations: int = 32
    games: int  # side by side
    moves: int  # in each of them
    batch_size: int  # positions of an update

    @property
    def positions(self) -> int:
        """That a step searches."""
        return self.games * self.moves

    @property
    def updates(self) -> int:
        """Of a step."""
        return self.positions // self.batch_size


TASKS = {
    "Connect Four, 2x32 blocks": Task(
        game="connect_four", width=32, depth=2, games=64, moves=64, batch_size=256
    ),
    "Connect Four, 5x64 blocks": Task(
        game="connect_four", width=64, depth=5, games=32, moves=64, batch_size=256
    ),
    "Gardner chess, 2x32 blocks": Task(
        game="gardner_chess", width=32, depth=2, games=16, moves=128, batch_size=256
    ),
    # the sizes of pgx's example, for accelerators
    "9x9 Go, 6x128 blocks": Task(
        game="go_9x9", width=128, depth=6, games=1024, moves=256, batch_size=4096
    ),
    "tic-tac-toe, 1x4 blocks": Task(
        game="tic_tac_toe", width=4, depth=1, simulations=4, games=4, moves=12, batch_size=16
    ),
}


class Program(NamedTuple):
    """A way to train: the state of a run, and its step."""

    state: Any
    step: Callable[[Any], tuple[Any, dict[str, Array]]]  # also counts what the step has done
    simulations: int | None = None  # counted in a search, if the step does not count its own


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Reports of each program how long it takes to compile and samples of steps; by turns, so that
    what else the machine does meets all programs alike.

    A sample is of one step: `rate` in positions per second, `seconds`, and its counts: `positions`
    searched, `simulations` of a search, `updates`, `games` that ended, and `valued`, positions with
    a value to learn.

    Args:
      job: `task`, a key of `TASKS`; `programs`, keys of `PROGRAMS`; `devices`, which share the
        games and the batches (on an accelerator, where cores are no devices, only their number is
        reported); `repeats` samples are taken, and after `sampling_seconds` two are enough.
      report: takes the numbers as keywords.
    """
    mesh = mesh_of_cores(job["devices"])
    report(devices=1 if mesh is None else mesh.size)
    if mesh is None and job["devices"] > 1:
        return
    task = TASKS[job["task"]]
    measured, runs = {}, {}
    for name in job["programs"]:
        program = PROGRAMS[name](task, mesh)
        clock = Clock()
        step = jax.jit(program.step, donate_argnums=0).lower(program.state).compile()
        measured[name] = {"compile_seconds": round(clock.seconds(), 3), "samples": []}
        runs[name] = _samples(program, step)
        report(programs=measured)
    begin = Clock()
    while len(measured[job["programs"][-1]]["samples"]) < job["repeats"]:
        for name in job["programs"]:
            measured[name]["samples"].append(next(runs[name]))
        report(programs=measured)
        enough = len(measured[job["programs"][-1]]["samples"]) >= 2
        if enough and begin.seconds() > job["sampling_seconds"]:
            break


def _samples(program, step) -> Iterator[dict[str, float]]:
    """Samples of a compiled step; the first step, after which games are no longer side by side at
    the same move, is none of them."""
    state, counts = step(program.state)
    updates = int(counts["updates"])
    while True:
        clock = Clock()
        state, counts = jax.block_until_ready(step(state))
        sample = clock.sample(1)
        seconds = 1 / sample["rate"]
        done = {name: float(count) for name, count in jax.device_get(counts).items()}
        if "simulations" in done:
            done["simulations"] /= done["positions"]
        else:
            done["simulations"] = float(program.simulations)
        done["updates"] -= updates
        updates += int(done["updates"])
        yield sample | done | {"rate": done["positions"] / seconds, "seconds": seconds}


def _network(task: Task, game: PgxBeliefs) -> AlphaZeroNetwork:
    return new_value_prior(game, seed=0, width=task.width, depth=task.depth, torso="alphazero")


def ours(task: Task, mesh: Mesh | None, *, whole: bool = False) -> Program:
    """Our training, in which games go on from step to step.

    Args:
      task: what is trained.
      mesh: the devices; None: one.
      whole: whether a step plays as many games to their ends instead.
    """
    game = pgx_beliefs(task.game)
    graph, params = nnx.split(_network(task, game))
    settings = AlphaZeroSettings(
        search=AlphaZero(
            ValuePriorEvaluator(graph),
            simulations=task.simulations,
            noise=0.25,
            sampled_moves=10,
        ),
        learner=LearnerSettings(
            learning_rate=PgxSettings.learning_rate,
            decay_rate=1.0,
            batch_size=task.batch_size,
            capacity=_REPLAY * task.positions,
            max_uses=_MAX_USES,
            policy_weight=1.0,
        ),
        games=task.games,
        updates=task.updates,
        moves=None if whole else task.moves,
    )
    common = dict(settings=settings, mesh=mesh)
    state = alphazero_training.init(game, params, jax.random.key(0), **common)

    def step(state: AlphaZeroTraining) -> tuple[AlphaZeroTraining, dict[str, Array]]:
        after, metrics = alphazero_training.train_step(game, graph, state, **common)
        learned = metrics["games"].astype(jnp.float32) * metrics["moves"]
        waiting = 0.0 if whole else _waiting(after) - _waiting(state)
        counts = {
            "positions": jnp.round(learned + waiting),
            "updates": after.learner.step,
            "games": metrics["games"],
            "valued": jnp.round(learned),
        }
        return after, counts

    return Program(state, step, _simulations(game, params, settings.search))


def _waiting(state):
    """The positions of games under way."""
    return jnp.sum(state.self_play.games.num_moves).astype(jnp.float32)


def _simulations(game, params, settings):
    """The simulations of a search, by its visits."""
    agent = AlphaZeroAgent(params=params, settings=settings)
    search = jax.jit(functools.partial(alphazero_search.search, game, agent))
    return int(jnp.sum(search(jax.random.key(0), game.root()).visits))


def pgx_recipe(task: Task, mesh: Mesh | None) -> Program:
    """The recipe of pgx's example, with our network.

    Args:
      task: what is trained.
      mesh: the devices; None: one.
    """
    game = pgx_beliefs(task.game)
    graph, params = nnx.split(_network(task, game))
    settings = PgxSettings(
        simulations=task.simulations,
        games=task.games,
        moves=task.moves,
        batch_size=task.batch_size,
    )
    state = pgx_alphazero.init(params, jax.random.key(0), settings=settings)
    step = functools.partial(
        pgx_alphazero.train_step, game.env, graph, settings=settings, mesh=mesh
    )
    return Program(on_each_device(state, mesh), step)


PROGRAMS: dict[str, Callable[[Task, Mesh | None], Program]] = {
    OURS: ours,
    PEER: pgx_recipe,
    WHOLE: functools.partial(ours, whole=True),
}
