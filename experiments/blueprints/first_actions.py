"""What the dealer does first with each hand before the flop, in numbers and as a picture."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from experiments.harness import hand_grid
from jaxgames.holdem.ranges import CLASSES, HANDS, class_numbers
from solvers.blueprint.blueprint import Blueprint

# the classes of hands with the largest share of the pot against a random hand
TOP_TEN = ("AA", "KK", "QQ", "JJ", "TT", "99", "88", "AKs", "77", "AQs")


class FirstActions(NamedTuple):
    """Shares of all deals to the dealer, or of those of its ten best classes, in per cent."""

    limps: float  # it calls
    folds: float
    top_ten_limps: float
    top_ten_folds: float


def first_policy(blueprint: Blueprint) -> Float[np.ndarray, "1326 A"]:
    """What each hand does at the first decision."""
    policy = np.asarray(blueprint.policy[0][0])[0, :, :, 0]  # [C, B]
    actions = blueprint.game.rounds.tree.actions[0]
    return policy[: len(actions)].T[np.asarray(blueprint.buckets.tables[0])[0]]


def first_actions(blueprint: Blueprint) -> FirstActions:
    """How often the dealer limps and folds."""
    policy, names = first_policy(blueprint), blueprint.game.rounds.tree.actions[0]
    best = np.isin(class_numbers(), [CLASSES.index(name) for name in TOP_TEN])
    share = lambda hands, name: 100 * float(policy[hands, names.index(name)].mean())  # noqa: E731
    every = slice(None)
    return FirstActions(
        limps=share(every, "call"),
        folds=share(every, "fold"),
        top_ten_limps=share(best, "call"),
        top_ten_folds=share(best, "fold"),
    )


def draw(path: pathlib.Path, blueprint: Blueprint, *, title: str) -> None:
    """Draws the grid of all classes of hands as a PNG file."""
    hand_grid.draw(
        path,
        title=title,
        actions=blueprint.game.rounds.tree.actions[0],
        hands=HANDS,
        weights=np.ones(len(HANDS)),
        policy=first_policy(blueprint),
    )
