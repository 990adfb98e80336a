"""Student of Games in Connect Four, beside a perfect player.

Schmid et al. 2023 let it learn chess and Go. Its counterpart is `alphazero_connect_four`.
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
from experiments.perfect_information.simulation_pace import simulation_pace
from experiments.student_of_games.training_run import shared_sizes, student
from jaxgames.beliefs.contract import BeliefGame
from nets import cvpn
from solvers.perfect_information.positions import legal_actions
from solvers.search import continual_resolving, growing_tree_cfr, readouts
from solvers.search.search_state import GrowingTreeCfr
from train.agent import training_settings
from train.self_play import SelfPlaySettings

_GREEDY_AFTER = 10  # moves of a game of training
PRESETS = {
    "smoke": SMOKE,
    "cpu": Config(
        measured_at=(0, 250, 500, 1_000, 2_000, 4_000),
        simulations=(ALONE, 32, 100, 800),
        solves=64,
        updates=4,
    ),
    "paper": Config(
        measured_at=(0, 5_000, 20_000, 100_000),
        simulations=(ALONE, 32, 100, 800),
        episodes=1024,
        solves=1024,
        updates=16,
        batch_size=2048,
        capacity=2_000_000,
        batch=256,
    ),
}


def new_student(game: BeliefGame, run: Run, seed: int) -> Student:
    """The agent in training."""
    config = run.config
    network = cvpn.new_cvpn(
        game, seed=seed, width=config.width, depth=config.depth, torso=config.torso
    )
    evaluate = cvpn.CvpnEvaluator(nnx.graphdef(network))
    settings = training_settings(
        config,
        _search(evaluate, config.training_simulations),
        steps=config.measured_at[-1],
        policy_weight=1.0,
        self_play=SelfPlaySettings(exploration=0.0, greedy_after=_GREEDY_AFTER),
        queries_per_search=1.0,
        queries_per_solve=0.2,
    )
    return Student(
        trainee=student(game, network, settings, run, seed=seed, name=str(seed)),
        chooses=functools.partial(_chooses, game, evaluate),
        evaluations=(config.episodes + config.solves) * (1 + config.training_simulations),
        to_bytes=cvpn.to_bytes,
    )


def _search(evaluate, simulations):
    """The paper's searches: k = 1 child at a time, and c = 10 where there are many simulations."""
    pace = simulation_pace(simulations)
    return GrowingTreeCfr(evaluate, simulations=simulations, pace=pace, max_path=1, expand=1)


def _chooses(game, evaluate, simulations):
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


def _label(simulations):
    pace = round(simulation_pace(simulations))
    return f"SoG({simulations},{pace})" if simulations else "network alone"


COMMAND = training_experiment(
    "sog_connect_four",
    new_student,
    label=_label,
    shared=shared_sizes,
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "two hours on two cores",
        "paper": "larger batches and more training, for an accelerator",
    },
    deviations=(
        "settings of training are those of chess in Table S2 but for greedy moves after 10 instead"
        " of 30, no resignation, and the learner's sizes, which are ours",
    ),
)
