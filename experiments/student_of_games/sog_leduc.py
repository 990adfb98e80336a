"""Student of Games in Leduc hold'em: training by sound self-play, and exact exploitability.

Schmid et al. 2023, Fig. 3A.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from experiments.harness.runs import RunArguments
from experiments.student_of_games import training_curve
from experiments.student_of_games.training_curve import Config

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
        capacity=500,
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Train a Student of Games agent in Leduc hold'em, and measure its exact exploitability.

    Writes exploitability against training steps as curve.csv and curve.png, the trained network and
    result.json into --out. Ctrl-C leaves a checkpoint there, from which --resume continues to
    exactly the same numbers.
    """

    preset: Literal["smoke", "quick", "cpu", "paper"] = "quick"
    """smoke: a minute; quick: five minutes; cpu: three quarters of an hour, with more search and
    training; paper: as long as the paper's, for an accelerator."""
    seed: int = 0
    """Of the network before training and of training; measurements have seeds of their own."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment; see `student_of_games.run`."""
    config = dataclasses.replace(PRESETS[arguments.preset], seed=arguments.seed)
    training_curve.run(arguments, config, experiment="sog_leduc", command=command)
