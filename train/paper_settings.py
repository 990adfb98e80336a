"""The settings of Student of Games by game (Schmid et al. 2023, Table S2).

The table has the settings of self-play and of the learner, but not those of the search, nor the
numbers of games and queries that run side by side.
"""

from __future__ import annotations

import dataclasses

from jaxgames.registry import unknown
from solvers.search.search_state import GrowingTreeCfr
from train.learner import MOMENTUM, LearnerSettings
from train.self_play import SelfPlaySettings
from train.student_of_games_training import StudentOfGamesSettings

# Of Scotland Yard's examples about a fifth are Mr X's, whose policies are large.
PAPER_LEARNER = {
    "chess": LearnerSettings(
        optimizer="sgd",
        learning_rate=0.1,
        decay_rate=0.8,
        decay_steps=40_000,
        batch_size=2048,
        capacity=50_000_000,
        max_uses=1,
        value_weight=0.25,
        policy_weight=1.0,
    ),
    "go": LearnerSettings(
        optimizer="sgd",
        learning_rate=0.02,
        decay_rate=0.1,
        decay_steps=200_000,
        batch_size=2048,
        capacity=50_000_000,
        max_uses=0.2,
        value_weight=0.5,
        policy_weight=1.0,
    ),
    "scotland_yard": LearnerSettings(
        optimizer="sgd",
        learning_rate=0.1,
        decay_rate=0.5,
        decay_steps=2_000_000,
        batch_size=1024,
        capacity=1_000_000,
        max_uses=5,
        value_weight=1.0,
        policy_weight=0.05,
        policy_shares=(0.25, 1.0),
    ),
    "holdem": LearnerSettings(
        optimizer="adam",
        learning_rate=1e-4,
        decay_rate=0.5,
        decay_steps=2_000_000,
        batch_size=1024,
        capacity=1_000_000,
        max_uses=10,
        value_weight=1.0,
        policy_weight=0.01,
    ),
}
_RESIGNING = dict(resign_below=-0.9, never_resign=0.2)
PAPER_SELF_PLAY = {
    "chess": SelfPlaySettings(exploration=0.0, greedy_after=30, max_moves=512, **_RESIGNING),
    "go": SelfPlaySettings(
        exploration=0.0, outcome_targets=0.2, greedy_after=30, max_moves=722, **_RESIGNING
    ),
    "scotland_yard": SelfPlaySettings(exploration=0.0),
    "holdem": SelfPlaySettings(exploration=0.1),
}
# q_search, q_recursive
PAPER_QUERIES = {
    "chess": (1.0, 0.2),
    "go": (0.0, 0.0),
    "scotland_yard": (0.3, 0.1),
    "holdem": (0.9, 0.1),
}
# settings of the learner that are not in the table
_UNSAID = ("policy_dtype", "policy_shares", "max_gradient_norm", "l2")
# T_prior
PAPER_TEMPERATURE = {"chess": 1.5, "go": 1.5, "scotland_yard": 1.0, "holdem": 1.0}


def paper_settings(
    name: str,
    search: GrowingTreeCfr,
    *,
    episodes: int,
    solves: int,
    updates: int,
    learner: LearnerSettings | None = None,
    temperature: float | None = None,
) -> StudentOfGamesSettings:
    """The paper's settings of training.

    Args:
      name: "chess", "go", "scotland_yard" or "holdem".
      search: its evaluator is a `CvpnEvaluator`, whose prior gets the temperature.
      episodes: games side by side.
      solves: the most queries that are solved in a step.
      updates: gradient updates in a step.
      learner: in place of the paper's learner, whose replay buffers have up to 50 million examples.
      temperature: of the prior, in place of the paper's.

    Returns:
      The settings.

    Raises:
      ValueError: unknown name.
    """
    if name not in PAPER_LEARNER:
        raise ValueError(unknown("settings", name, PAPER_LEARNER))
    if temperature is None:
        temperature = PAPER_TEMPERATURE[name]
    evaluate = dataclasses.replace(search.evaluate, temperature=temperature)
    per_search, per_solve = PAPER_QUERIES[name]
    return StudentOfGamesSettings(
        search=dataclasses.replace(search, evaluate=evaluate),
        learner=learner or PAPER_LEARNER[name],
        self_play=PAPER_SELF_PLAY[name],
        episodes=episodes,
        solves=solves,
        updates=updates,
        queries_per_search=per_search,
        queries_per_solve=per_solve,
    )


def learner_deviations(name: str, learner: LearnerSettings) -> list[str]:
    """The settings of a learner that are not the paper's, in words.

    Args:
      name: of the paper's settings: "chess", "go", "scotland_yard" or "holdem".
      learner: the settings.

    Returns:
      For each setting that differs its name, its value and the paper's, such as "batch size 256
      (the paper: 1,024)"; where the paper says nothing, what `PAPER_LEARNER` has; and the
      momentum of "sgd", which the paper does not give.

    Raises:
      ValueError: unknown name.
    """
    if name not in PAPER_LEARNER:
        raise ValueError(unknown("settings", name, PAPER_LEARNER))
    own, paper = (dataclasses.asdict(each) for each in (learner, PAPER_LEARNER[name]))
    momentum = f"momentum {MOMENTUM:g} of sgd (the paper: not given)"
    whose = lambda field: "ours with its settings" if field in _UNSAID else "the paper"  # noqa: E731
    return [
        f"{field.replace('_', ' ')} {_in_words(value)} ({whose(field)}: {_in_words(paper[field])})"
        for field, value in own.items()
        if value != paper[field]
    ] + [momentum] * (learner.optimizer == "sgd")


def _in_words(value):
    if isinstance(value, tuple):
        return " and ".join(map(_in_words, value))
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value or "none")
