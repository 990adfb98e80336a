"""Kuhn poker against OpenSpiel, and its counts."""

import numpy as np
import pyspiel
import pytest
from normal_form import guaranteed, moves_before
from openspiel_parity import assert_same_game, assert_same_tree

from jaxgames import enumerate_game, make
from jaxgames.core import CHANCE, TERMINAL

JACK, QUEEN, KING = 0, 1, 2


@pytest.mark.parametrize("players", [2, 3, 5])
def test_playouts_equal_openspiel(players):
    theirs = pyspiel.load_game(f"kuhn_poker(players={players})")
    assert_same_game(make(f"kuhn_poker(players={players})"), theirs, num_playouts=30, seed=0)


@pytest.mark.parametrize("players", [2, 3])
def test_every_history_equals_openspiel(players):
    theirs = pyspiel.load_game(f"kuhn_poker(players={players})")
    assert_same_tree(make(f"kuhn_poker(players={players})"), theirs)


def test_counts():
    tree = enumerate_game(make("kuhn_poker"))
    assert tree.num_histories == 58
    assert np.sum(tree.actor == CHANCE) == 4
    assert np.sum(tree.actor == TERMINAL) == 30
    assert tree.num_decisions == (6, 6)


@pytest.mark.parametrize("alpha", [0, 0.2, 1 / 3])
def test_equilibrium_family_of_value_minus_one_eighteenth(alpha):
    """Kuhn 1950: probabilities to bet by card; after a check and a bet; after a check or a bet."""
    tree = enumerate_game(make("kuhn_poker"))
    bets = (
        {(): (alpha, 0, 3 * alpha), (0, 1): (0, alpha + 1 / 3, 1)},
        {(0,): (1 / 3, 0, 1), (1,): (0, 1 / 3, 1)},
    )
    policies = []
    for player in range(2):
        rows = tree.representative(player)[: tree.num_decisions[player]]
        before = [moves_before(tree, row) for row in rows]
        bet = np.array([bets[player][tuple(moves[2:])][moves[player]] for moves in before])
        policies.append(np.stack([1 - bet, bet], axis=1))
    assert guaranteed(tree, policies) == pytest.approx((-1 / 18, -1 / 18), abs=1e-12)


@pytest.mark.parametrize("players", [1, 11])
def test_illegal_number_of_players_is_refused(players):
    with pytest.raises(
        ValueError, match=rf"kuhn_poker: players={players} must be between 2 and 10"
    ):
        make(f"kuhn_poker(players={players})")
