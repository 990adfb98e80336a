"""Student of Games in Scotland Yard on a district of London, whose values are known.

Schmid et al. 2023, Fig. 3B, has this curve on the map `glasses`. The district is ours: games of the
real map's stations and lines that are as large as exact exploitability allows, on the way to all of
London. The equilibria are those of `solvers.sequence_form.sequence_form_of_beliefs`.
"""

from __future__ import annotations

from experiments.student_of_games.training_curve import Config, training_experiment

_DISTRICT = "scotland_yard(map=district)"
_TWO_DETECTIVES = "scotland_yard(map=district,edition=district_two_detectives)"
PRESETS = {
    "smoke": Config(
        game="scotland_yard(map=district,rounds=2)",
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
    ),
    "district": Config(
        game="scotland_yard(map=district,rounds=4)",
        simulations=(10, 100),
        seeds=2,
        measured_at=(0, 1000),
        solves=32,
        updates=8,
        queries_per_search=3.0,
        batch=64,
    ),
    "cpu": Config(
        game=_DISTRICT,
        simulations=(33, 100, 300, 1000),
        seeds=2,
        measured_at=(0, 1000, 3000),
        solves=32,
        updates=8,
        queries_per_search=3.0,
        batch=64,
    ),
    "two_detectives": Config(
        game=_TWO_DETECTIVES,
        simulations=(33, 100, 300, 1000),
        seeds=1,
        measured_at=(0, 1000, 3000),
        solves=32,
        updates=3,  # with more, batches would not be full: 48 new examples a step are used 20 times
        capacity=10_000,
        queries_per_search=3.0,
        batch=64,
    ),
    "paper": Config(
        game=_TWO_DETECTIVES,
        simulations=(33, 100, 300, 1000),
        seeds=10,
        measured_at=(0, 5_000, 20_000, 50_000),
        episodes=512,
        solves=512,
        batch=1024,
        capacity=1_000_000,
    ),
}


COMMAND = training_experiment(
    "sog_district",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "district": "four rounds, short enough for a list of all histories: minutes",
        "cpu": "one detective: more than three hours on one core of a loaded machine",
        "two_detectives": "two hours on one core",
        "paper": "two detectives, as long as the paper's training, for an accelerator",
    },
)
