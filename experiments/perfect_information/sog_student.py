"""Student of Games in training (Schmid et al. 2023), as experiments about board games share it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

from experiments.harness.runs import Run
from experiments.perfect_information.student import (
    NetworkMoves,
    Student,
    network_sizes,
    new_sog_network,
)
from experiments.perfect_information.student_search import student_search
from experiments.student_of_games.training_run import student
from jaxgames.beliefs.contract import BeliefGame
from nets.cvpn import CvpnEvaluator
from solvers.perfect_information.growing_tree_agent import GrowingTreeAgent
from solvers.perfect_information.positions import legal_actions
from solvers.search import continual_resolving
from solvers.search.search_state import GrowingTreeCfr
from train.student_of_games_training import StudentOfGamesSettings


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
      run: its config has `training_simulations`, and kind and sizes of the network (`network`,
        `network_sizes`).
      settings_of: the settings of training with such searches, with c = 1 as in the paper. Their
        evaluator, whose prior may have got a temperature, also plays when the agent is measured.
      seed: of the network and of training.
      name: tells the networks of a run apart.
    """
    config = run.config
    network = new_sog_network(game, config.network, seed=seed, **network_sizes(config))
    evaluate = CvpnEvaluator(nnx.graphdef(network))
    settings = settings_of(student_search(evaluate, config.training_simulations, pace=1.0))
    return Student(
        trainee=student(game, network, settings, run, seed=seed, name=name),
        agent=functools.partial(_agent, settings.search.evaluate),
        alone=_alone(game, settings.search.evaluate),
    )


def evaluations(game: BeliefGame, simulations: int, *, expand: int = 1) -> int:
    """Of the network in a search, at most: of the root, all its legal children, and k in each
    simulation."""
    return 1 + game.most_legal + expand * simulations


def _agent(evaluate, params, simulations) -> GrowingTreeAgent:
    """Plays the likeliest move of its searches."""
    return GrowingTreeAgent(params=params, settings=student_search(evaluate, simulations))


def _alone(game, evaluate) -> NetworkMoves:
    """The likeliest moves by the network's policy."""
    one = continual_resolving.first_problem(game, max_path=1)

    def move(params, state):
        _, (first, second) = evaluate(params, game, state, one.reach)
        legal = legal_actions(game, state)
        return jnp.argmax(jnp.where(legal, first[:, 0] + second[:, 0], -1.0))

    return jax.vmap(move, (None, 0))
