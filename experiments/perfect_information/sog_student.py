"""Student of Games in training (Schmid et al. 2023), as experiments about board games share it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Int

from experiments.harness.runs import Run
from experiments.perfect_information.simulation_pace import simulation_pace
from experiments.perfect_information.student import Choose, Student
from experiments.student_of_games.training_run import Trainee
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.core import record
from nets import cvpn
from nets.cvpn import CvpnEvaluator
from solvers.perfect_information.positions import legal_actions
from solvers.search import continual_resolving, growing_tree_cfr, readouts
from solvers.search.search_state import GrowingTreeCfr
from train import student_of_games_training
from train.student_of_games_training import StudentOfGamesSettings, StudentOfGamesTraining


@record
class CountedTraining:
    """A state of training, and how many games have ended in it."""

    training: StudentOfGamesTraining
    games: Array  # [] int32

    @property
    def learner(self) -> Any:
        """The network in training."""
        return self.training.learner

    @property
    def step(self) -> Array:
        """The number of steps that were made."""
        return self.training.step


def sog_student(
    game: BeliefGame,
    run: Run,
    *,
    settings_of: Callable[[GrowingTreeCfr], StudentOfGamesSettings],
    seed: int,
    name: str = "",
) -> Student:
    """The agent in training.

    Args:
      game: what it learns.
      run: its config has the sizes of the network (`torso`, `width`, `depth`), and
        `training_simulations`.
      settings_of: the settings of training with such searches. Their evaluator, whose prior may
        have got a temperature, also plays when the agent is measured.
      seed: of the network and of training.
      name: tells the networks of a run apart.
    """
    config = run.config
    network = cvpn.new_cvpn(
        game, seed=seed, width=config.width, depth=config.depth, torso=config.torso
    )
    graph, params = nnx.split(network)
    settings = settings_of(_search(CvpnEvaluator(graph), config.training_simulations))
    common = dict(settings=settings, mesh=run.mesh)
    state = student_of_games_training.init(game, params, jax.random.key(seed), **common)
    everywhere = None if run.mesh is None else NamedSharding(run.mesh, P())
    none = jax.jit(lambda: jnp.int32(0), out_shardings=everywhere)()

    def step(state: CountedTraining) -> tuple[CountedTraining, dict[str, Array]]:
        after, metrics = student_of_games_training.train_step(game, graph, state.training, **common)
        games = games_ended(state.games, after.episodes.moves)
        return CountedTraining(training=after, games=games), metrics

    return Student(
        trainee=Trainee(CountedTraining(training=state, games=none), step, run, name=name),
        chooses=functools.partial(_chooses, game, settings.search.evaluate),
        games=lambda state: int(state.games),
    )


@jax.jit
def games_ended(before: Int[Array, ""], moves: Int[Array, " B"]) -> Int[Array, ""]:
    """How many games have ended.

    Args:
      before: how many had before a step, in which each of B episodes made a move.
      moves: of the episodes after it. Where a game has ended, the next has none yet.
    """
    return before + jnp.sum(moves == 0, dtype=jnp.int32)


def _search(evaluate, simulations):
    """The paper's searches: k = 1 child at a time, and c = 10 where there are many simulations."""
    pace = simulation_pace(simulations)
    return GrowingTreeCfr(evaluate, simulations=simulations, pace=pace, max_path=1, expand=1)


def _chooses(game, evaluate, simulations) -> Choose:
    """The likeliest moves by the network's policy, or by searches."""
    one = continual_resolving.first_problem(game, max_path=1)

    def alone(params, key, state):
        _, policy = evaluate(params, game, state, one.reach)
        return _likeliest(policy, legal_actions(game, state))

    def searched(params, key, state):
        search = growing_tree_cfr.search(
            game,
            params,
            key,
            problem=one.replace(state=state),
            settings=_search(evaluate, simulations),
        )
        return _likeliest(readouts.average_policy(search), legal_actions(game, state))

    return jax.vmap(searched if simulations else alone, (None, 0, 0))


def _likeliest(policy, legal):
    first, second = policy
    return jnp.argmax(jnp.where(legal, first[:, 0] + second[:, 0], -1.0))


def label(simulations: int) -> str:
    """The agent with so many simulations, in the words of the paper."""
    return f"SoG({simulations},{round(simulation_pace(simulations))})"
