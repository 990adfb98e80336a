"""AlphaZero in Connect Four (Silver et al. 2018), beside a perfect player.

Its counterpart is `sog_connect_four`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from flax import nnx

from experiments.harness.runs import Run
from experiments.perfect_information.connect_four_training import (
    ALONE,
    SMOKE,
    Config,
    Student,
    training_experiment,
)
from experiments.student_of_games.training_run import Trainee
from jaxgames.beliefs.contract import BeliefGame
from nets import cvpn, value_prior
from nets.value_prior import ValuePriorEvaluator
from solvers.perfect_information import alphazero_search
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.positions import legal_actions
from train import alphazero_training
from train.alphazero_training import AlphaZeroSettings
from train.learner import LearnerSettings

_EXPLORED_MOVES = 10  # at the start of a game of training, drawn by visits
_NOISE = 0.25  # of Dirichlet in the prior of the root, in training
PRESETS = {
    "smoke": SMOKE,
    "cpu": Config(
        measured_at=(0, 25, 50, 100, 200, 400),
        simulations=(ALONE, 32, 100, 800),
    ),
    "paper": Config(
        measured_at=(0, 500, 2_000, 10_000),
        simulations=(ALONE, 32, 100, 800),
        episodes=1024,
        updates=64,
        batch_size=2048,
        capacity=2_000_000,
        batch=256,
    ),
}


def new_student(game: BeliefGame, run: Run, seed: int) -> Student:
    """The agent in training."""
    config = run.config
    network = value_prior.new_value_prior(
        game, seed=seed, width=config.width, depth=config.depth, torso=config.torso
    )
    graph, params = nnx.split(network)
    evaluate = ValuePriorEvaluator(graph)
    settings = AlphaZeroSettings(
        search=AlphaZero(
            evaluate,
            simulations=config.training_simulations,
            noise=_NOISE,
            sampled_moves=_EXPLORED_MOVES,
        ),
        learner=LearnerSettings(
            learning_rate=config.learning_rate,
            decay_rate=config.decay,
            decay_steps=config.measured_at[-1] * config.updates,
            batch_size=config.batch_size,
            capacity=config.capacity,
            max_uses=20,
            policy_weight=1.0,
            l2=config.l2,
        ),
        games=config.episodes,
        updates=config.updates,
    )
    common = dict(settings=settings, mesh=run.mesh)
    state = alphazero_training.init(game, params, jax.random.key(seed), **common)

    def step(state):
        return alphazero_training.train_step(game, graph, state, **common)

    return Student(
        trainee=Trainee(state, step, run, name=str(seed)),
        chooses=functools.partial(_chooses, game, evaluate),
        evaluations=config.episodes * game.max_depth * (1 + config.training_simulations),
        to_bytes=cvpn.to_bytes,
    )


def _chooses(game, evaluate, simulations):
    """The moves of the network alone, or the most visited ones of searches."""

    def alone(params, key, state):
        _, logits = evaluate(params, game, state)
        return jnp.argmax(jnp.where(legal_actions(game, state), logits, -jnp.inf))

    def searched(params, key, state):
        settings = AlphaZero(evaluate, simulations=simulations)
        agent = AlphaZeroAgent(params=params, settings=settings)
        return alphazero_search.act(game, agent, key, state, jnp.int32(0))[0]

    return jax.vmap(searched if simulations else alone, (None, 0, 0))


COMMAND = training_experiment(
    "alphazero_connect_four",
    new_student,
    label=lambda simulations: f"AlphaZero({simulations})" if simulations else "network alone",
    shared=lambda config: {
        name: getattr(config, name) for name in ("episodes", "batch_size", "capacity")
    },
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "two hours on two cores",
        "paper": "larger batches and more games, for an accelerator",
    },
    deviations=(
        "evaluations of the network in training are counted as if each game filled the board",
    ),
)
