"""Student of Games in Leduc hold'em: training by sound self-play, and exact exploitability.

The experiment is that of Schmid et al. 2023, Fig. 3A.
"""

from __future__ import annotations

from experiments.student_of_games.training_curve import Config, training_experiment

PRESETS = {
    "smoke": Config(
        game="kuhn_poker",
        simulations=(4,),
        seeds=2,
        measured_at=(0, 20),
        training_simulations=4,
        width=16,
        depth=1,
        batch_size=32,
        capacity=512,
    ),
    "quick": Config(
        game="leduc_poker",
        simulations=(33, 100),
        seeds=10,
        measured_at=(0, 250, 1000),
        training_simulations=33,
    ),
    "cpu": Config(
        game="leduc_poker",
        simulations=(33, 100, 300, 1000),
        seeds=10,
        measured_at=(0, 1000, 5000),
        batch=64,
    ),
    "paper": Config(
        game="leduc_poker",
        simulations=(33, 100, 300, 1000),
        seeds=50,
        measured_at=(0, 25_000, 50_000, 100_000, 150_000),
        width=256,
        episodes=512,
        solves=512,
        batch=1024,
        capacity=1_000_000,
    ),
}


COMMAND = training_experiment(
    "sog_leduc",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "quick": "four to twelve minutes",
        "cpu": "ten to twenty minutes, with more search and training",
        "paper": "as long as the paper's training, for an accelerator",
    },
    default_preset="quick",
)
