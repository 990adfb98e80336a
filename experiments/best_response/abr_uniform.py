"""Best responses to uniform random play, learned and exact (Timbers et al. 2020, Table 1)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from experiments.best_response import response_curves
from experiments.best_response.enumerable_responses import points
from experiments.best_response.response_learning import PAPER_LEARNING, SMOKE_LEARNING, Learning
from experiments.harness.experiment import Experiment
from experiments.harness.runs import Run
from experiments.student_of_games.training_run import LOG

GAMES = (
    "kuhn_poker",
    "leduc_poker",
    "liars_dice(dice=1,sides=6)",
    "goofspiel(cards=4,points=descending)",
    "goofspiel(cards=5,points=descending)",
    "goofspiel(cards=6,points=descending)",
    "scotland_yard(map=glasses)",
    "tic_tac_toe",
)
# The paper's other maps (War Museum, Queen Mary's Garden, Kennington Double) are published as
# drawings only. In their place stand stations of London, with games that are short enough for all
# histories to be enumerated.
DISTRICTS = (
    "scotland_yard(map=district,rounds=4)",
    "scotland_yard(map=district,edition=district_two_detectives,rounds=2)",
    "scotland_yard(map=district,edition=district_reveals,rounds=3)",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    learning: Learning
    games: tuple[str, ...] = GAMES
    agents: tuple[str, ...] = ("uniform",)


PRESETS = {
    "smoke": Config(
        games=(
            "kuhn_poker",
            "goofspiel(cards=3,points=descending)",
            "scotland_yard(map=district,rounds=3)",
        ),
        learning=SMOKE_LEARNING,
    ),
    "districts": Config(games=DISTRICTS, learning=Learning(measured_at=(0, 100, 400))),
    "cpu": Config(learning=Learning(measured_at=(0, 100, 400))),
    "paper": Config(learning=PAPER_LEARNING),
}


def deviations(config: Config) -> list[str]:
    """What differs from the paper."""
    return [*response_curves.DEVIATIONS, *stand_ins(config.games)]


def stand_ins(games: Sequence[str]) -> list[str]:
    """What is said of games on the map `district`, if there are any.

    Args:
      games: names of games.
    """
    districts = [game for game in games if "map=district" in game]
    if not districts:
        return []
    return [
        f"{'; '.join(districts)}: in place of three maps of the paper (War Museum, Queen Mary's"
        " Garden, Kennington Double), which are published as drawings only; with fewer rounds than"
        " districts have elsewhere here, so that all histories can be enumerated"
    ]


def compute(run: Run) -> response_curves.Curves:
    """A learning curve by game."""
    config = run.config
    return {game: points(run, game, "uniform", config.learning) for game in config.games}


COMMAND = Experiment(
    name="abr_uniform",
    shown="what responders win by training steps",
    presets=PRESETS,
    preset_docs={
        "smoke": "seconds",
        "districts": "minutes, on stations of London in place of the paper's smaller maps",
        "cpu": "minutes",
        "paper": "larger searches and networks, for an accelerator",
    },
    batches=lambda config: config.learning.shared_sizes(),
    compute=compute,
    more_files=(LOG,),
    rows=response_curves.rows,
    draw=response_curves.draw,
    numbers=response_curves.numbers,
    tables=functools.partial(response_curves.tables, "abr_uniform"),
    error_bars=response_curves.ERROR_BARS,
    measure=response_curves.MEASURE,
    deviations=deviations,
)
