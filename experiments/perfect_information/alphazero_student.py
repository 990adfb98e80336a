"""AlphaZero in training (Silver et al. 2018), as the experiments about board games share it."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from experiments.harness.runs import Run
from experiments.perfect_information.student import NetworkMoves, Student, network_sizes
from experiments.student_of_games.training_run import Trainee
from jaxgames.beliefs.contract import BeliefGame
from nets import value_prior
from nets.value_prior import ValuePriorEvaluator
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.positions import legal_actions
from train import alphazero_training
from train.alphazero_training import AlphaZeroSettings
from train.learner import LearnerSettings

_NOISE = 0.25  # of Dirichlet in the prior of the root, in training


def alphazero_student(
    game: BeliefGame,
    run: Run,
    *,
    learner: LearnerSettings,
    sampled_moves: int,
    concentration: float = 1.0,
    td_steps: int | None = None,
    seed: int,
    name: str = "",
) -> Student:
    """The agent in training.

    Args:
      game: what it learns.
      run: its config has the sizes of the network (`network_sizes`) and of a step of training
        (`moves` in each of `episodes` games, which go on in the next step, and `updates`), and
        `training_simulations`.
      learner: how the network learns.
      sampled_moves: at the start of a game of training, drawn by visits.
      concentration: of the noise in training.
      td_steps: values learn from those of searches this many moves later; None: from the results
        of games.
      seed: of the network and of training.
      name: tells the networks of a run apart.
    """
    config = run.config
    network = value_prior.new_value_prior(game, seed=seed, **network_sizes(config))
    graph, params = nnx.split(network)
    evaluate = ValuePriorEvaluator(graph)
    settings = AlphaZeroSettings(
        search=AlphaZero(
            evaluate,
            simulations=config.training_simulations,
            noise=_NOISE,
            concentration=concentration,
            sampled_moves=sampled_moves,
        ),
        learner=learner,
        games=config.episodes,
        moves=config.moves,
        updates=config.updates,
        td_steps=td_steps,
    )
    common = dict(settings=settings, mesh=run.mesh)
    state = alphazero_training.init(game, params, jax.random.key(seed), **common)

    def step(state: Any) -> Any:
        return alphazero_training.train_step(game, graph, state, **common)

    return Student(
        trainee=Trainee(state, step, run, name=name),
        agent=functools.partial(_agent, evaluate),
        alone=_alone(game, evaluate),
    )


def _agent(evaluate, params, simulations) -> AlphaZeroAgent:
    """Plays the most visited move of its searches."""
    settings = AlphaZero(evaluate, simulations=simulations)
    return AlphaZeroAgent(params=params, settings=settings)


def _alone(game, evaluate) -> NetworkMoves:
    """The likeliest moves of the network."""

    def move(params, state):
        _, logits = evaluate(params, game, state)
        return jnp.argmax(jnp.where(legal_actions(game, state), logits, -jnp.inf))

    return jax.vmap(move, (None, 0))
