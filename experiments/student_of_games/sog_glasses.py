"""Student of Games in Scotland Yard on the map `glasses` (Schmid et al. 2023, Fig. 3B).

An agent is trained by sound self-play, and its exploitability is exact. It searches at every public
state, as in the paper; the numbers that begin with "ours:" are of the same network with other
searches. The map has no reveal rounds: with any, Mr X loses for certain.
"""

from __future__ import annotations

from experiments.student_of_games.training_curve import Config, training_experiment

_GLASSES = "scotland_yard(map=glasses)"
_OURS = ("half-uniform ranges", "half-uniform ranges, exploration 3, own decisions only")
PRESETS = {
    "smoke": Config(
        game="scotland_yard(map=glasses,rounds=2)",
        simulations=(4,),
        seeds=2,
        measured_at=(0, 10),
        training_simulations=4,
        width=16,
        depth=1,
        episodes=2,
        solves=2,
        updates=1,
        batch_size=32,
        capacity=500,
        variants=_OURS,
    ),
    "cpu": Config(
        game=_GLASSES,
        simulations=(33, 100, 300, 1000),
        seeds=4,
        measured_at=(0, 3000),
        solves=32,
        updates=8,
        queries_per_search=3.0,
        variants=_OURS,
        batch=64,
    ),
    "paper": Config(
        game=_GLASSES,
        simulations=(33, 100, 300, 1000),
        seeds=50,
        measured_at=(0, 5_000, 20_000, 50_000),
        episodes=512,
        solves=512,
        variants=_OURS,
        batch=1024,
        capacity=1_000_000,
    ),
}


COMMAND = training_experiment(
    "sog_glasses",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "three quarters of an hour on one core",
        "paper": "as long as the paper's training, for an accelerator",
    },
)
