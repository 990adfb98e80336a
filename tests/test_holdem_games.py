"""Whole games of poker as hold'em trees: other trees of them, OpenSpiel, and all pairs of hands."""

import functools

import jax
import numpy as np
import pyspiel
import pytest
from holdem_reference import (
    RandomPolicy,
    Subgame,
    from_tree,
    moves_to,
    suits_that_keep,
    to_explicit,
    to_tree,
)
from openspiel_parity import universal_poker

from jaxgames import enumerate_game
from jaxgames.core import CHANCE
from jaxgames.holdem.acpc import parse_game
from jaxgames.holdem.betting import FOLD, SHOWDOWN, betting_of_rules
from jaxgames.holdem.rules import Poker, hunl, limit_holdem
from solvers import cfr, evaluation
from solvers.holdem.game import game_tree
from solvers.public_tree import build_public_tree

LEDUC = Poker(
    blinds=(1, 1),
    first=(0, 0),
    board=(0, 1),
    raise_sizes=(2, 4),
    max_raises=(2, 2),
    hole=1,
    ranks=3,
    suits=2,
)
# of the kind of Rhode Island's; in one player 1 begins, and pays less
THREE_STREETS = """GAMEDEF
limit
numPlayers = 2
numRounds = 3
blind = 2 1
raiseSize = 2 4 4
firstPlayer = 2 1 1
maxRaises = 1 1 1
numSuits = 3
numRanks = 2
numHoleCards = 1
numBoardCards = 0 1 1
END GAMEDEF
"""
FOUR_RANKS = Poker(
    blinds=(5, 5),
    first=(0, 0, 0),
    board=(0, 1, 1),
    raise_sizes=(10, 20, 20),
    max_raises=(1, 1, 1),
    hole=1,
    ranks=4,
    suits=2,
)
GAMES = {"Leduc": LEDUC, "three streets": parse_game(THREE_STREETS), "four ranks": FOUR_RANKS}
OPENSPIEL = {"Leduc": "leduc_poker", "three streets": THREE_STREETS}
TWO_CARDS = Poker(
    blinds=(2, 1),
    first=(1, 0),
    board=(0, 1),
    raise_sizes=(2, 4),
    max_raises=(2, 2),
    ranks=4,
    suits=2,
)
ALL_IN = Poker(
    limit=False,
    stack=12,
    blinds=(2, 1),
    first=(1, 0, 0),
    board=(0, 2, 1),
    raise_sizes=(),
    max_raises=(0, 0, 0),
    ranks=3,
    suits=3,
    bets=("1", "allin"),
)
WAYS = [
    pytest.param(form, isomorphism, id=f"{form}, {'one suit for all alike' * isomorphism}")
    for form in ("ranks", "products")
    for isomorphism in (True, False)
]


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


@jax.jit
def gains(tree, policy):
    """Values, values of best responses, NashConv."""
    return (
        evaluation.expected_value(tree, policy),
        evaluation.best_response_value(tree, policy),
        evaluation.nash_conv(tree, policy),
    )


@functools.cache
def explicit(name):
    """A game's history by history, and compiled."""
    tree = enumerate_game(GAMES[name])
    return tree, build_public_tree(tree, dtype="float64")


@functools.cache
def betting(game):
    return betting_of_rules(game)


def exchanges(tree, *, isomorphism):
    return suits_that_keep(tree.deck if isomorphism else (0, 5, 10, 15))


@pytest.mark.parametrize(("form", "isomorphism"), WAYS)
@pytest.mark.parametrize("name", GAMES)
def test_policies_are_worth_what_another_tree_says(name, form, isomorphism):
    """Random ones, and what CFR+ finds in fifty iterations."""
    game = GAMES[name]
    histories, other = explicit(name)
    tree = game_tree(game, dtype="float64", form=form, isomorphism=isomorphism)
    alike = exchanges(tree, isomorphism=isomorphism)
    policies = [RandomPolicy(tree.betting, alike, seed) for seed in range(3)]
    state = cfr.run(
        tree.public, cfr.init(tree.public), solver=cfr.cfr_plus(), num_iterations=50
    )
    average = cfr.average_policy(tree.public, state)
    policies.append(from_tree(tree, average, alike))
    for policy in policies:
        found = gains(tree.public, to_tree(tree, policy))
        expected = gains(other, to_explicit(game, histories, tree.betting, policy))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours / tree.total, theirs, atol=1e-9)
    assert found[-1] / tree.total < 0.1 * max(game.raise_sizes)  # of CFR+
