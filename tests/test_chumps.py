"""Exact responses to opponents who do not look at their cards: another solver, published values."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.holdem import canonical_boards, equity
from jaxgames.holdem.named_games import hunl, limit_holdem
from jaxgames.holdem.rules import Poker
from solvers import evaluation
from solvers.approximate_best_response import exact_chump_responses
from solvers.approximate_best_response.exact_chump_responses import (
    Chump,
    ResponsePlan,
    chump_responses,
)
from solvers.holdem.whole_games import whole_game_tree

ONE_CARD = Poker(board=(0, 1), first=(1, 0), raise_sizes=(10, 20), max_raises=(2, 1))
BOTH = (ResponsePlan(), ResponsePlan(rule=exact_chump_responses.local_value))
# Johanson et al. 2011, Table 1: means over seats, in thousandths of a big blind
PUBLISHED = {"always fold": 750.0, "always call": 1163.4758, "always raise": 3697.6929}


def table_of(tree, chump):
    """A chump as policies of a hold'em tree, for both players."""
    policies = []
    for player, layout in enumerate(tree.layouts):
        size = len(tree.hands[player])
        table = np.zeros(
            (tree.sequence_form.treeplexes[player].num_decisions, tree.sequence_form.num_actions)
        )
        for node, first in layout.first_decision.items():
            boards = len(tree.streets[tree.betting.street[node]].boards)
            legal = np.isin(["fold", "call", "raise"], tree.betting.actions[node])
            row = np.asarray(chump.probabilities(jnp.asarray(legal)))[legal]
            table[first * size : (first + boards) * size, : len(row)] = row
        policies.append(jnp.asarray(table, jnp.float32))
    return tuple(policies)


def test_always_call_in_closed_form():
    """Every bet is called, so each round one is made with the better hand on average."""
    boards = jnp.arange(52, dtype=jnp.int32)[:, None]
    uniform = jnp.ones(1326, jnp.float32)

    @jax.jit
    @jax.vmap
    def equities(board):
        ranking = equity.rank_hands(board)
        possible = ranking.strength != equity.BLOCKED
        return jnp.where(possible, 2 * equity.showdown_equity(ranking, uniform) - 1, 0), possible

    last, possible = map(np.asarray, equities(boards))
    first = last.sum(axis=0) / 50
    expected = 10 * np.maximum(first, 0).mean() + 20 * np.maximum(last, 0).sum() / possible.sum()
    for response in chump_responses(ONE_CARD, Chump((0.0, 1.0, 0.0)), BOTH):
        assert response.values[0] == pytest.approx(expected, rel=1e-5)
        assert (response.by_hand[0, first > 0] > 0).all()


def test_always_fold_in_closed_form():
    """It gives up its blind, or the first bet that it meets."""
    (response,) = chump_responses(ONE_CARD, Chump((1.0, 0.0, 0.0)))
    np.testing.assert_allclose(response.values, [5, 10], atol=1e-4)


@pytest.mark.slow
def test_values_of_another_solver():
    """A hold'em tree with all 52 cards and a board of one."""
    tree = whole_game_tree(ONE_CARD)
    for name in ("always raise", "uniform"):
        chump = exact_chump_responses.chumps(ONE_CARD)[name]
        expected = (
            evaluation.best_response_value(tree.sequence_form, table_of(tree, chump))
            / tree.total_weight
        )
        best, local = chump_responses(ONE_CARD, chump, BOTH)
        np.testing.assert_allclose(best.values, expected, rtol=1e-5)
        # the local rule is one policy among others
        assert (np.array(local.values) <= np.array(best.values) + 1e-4).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values_in_limit_holdem(name):
    game = limit_holdem()
    chump = exact_chump_responses.chumps(game)[name]
    best, local = chump_responses(game, chump, BOTH)
    value = 1000 * np.mean(best.values) / max(game.blinds)
    assert value == pytest.approx(PUBLISHED[name], abs=0.05)
    if name == "always call":
        np.testing.assert_allclose(local.values, best.values, rtol=1e-5)


def test_boards_and_equities():
    """Numbers of boards up to suits; before the flop, equities by hand."""
    assert [len(boards.cards) for boards in canonical_boards.canonical_boards(3)] == [
        1,
        13,
        169,
        1755,
    ]
    last = canonical_boards.canonical_boards(3)[2]
    # hands share as many cards with a board as their images with its example
    row, place = 77, 31
    dealt = np.append(last.cards[row], np.setdiff1d(np.arange(52), last.cards[row])[place])
    after = canonical_boards.canonical_boards(3)[3].cards[last.child[row, place]]
    cards_in_common = [np.isin(canonical_boards.HANDS, x).sum(axis=1) for x in (dealt, after)]
    images = canonical_boards.HAND_IMAGES[last.exchange[row, place]]
    np.testing.assert_array_equal(cards_in_common[0], cards_in_common[1][images])


def test_half_of_what_calls_or_raises_is_a_call():
    """Three readings of "call or raise with equal probability" where there are two raises."""
    game = hunl(bets=("1", "allin"))
    for name, raises in (("raise", (1 / 4, 1 / 4)), ("pot", (1 / 2, 0)), ("all-in", (0, 1 / 2))):
        chump = exact_chump_responses.chumps(game)[f"call or {name}"]
        np.testing.assert_allclose(chump.probabilities(jnp.ones(4, bool)), [0, 1 / 2, *raises])
    limit = exact_chump_responses.chumps(limit_holdem())
    np.testing.assert_allclose(
        limit["call or raise"].probabilities(jnp.ones(3, bool)), [0, 0.5, 0.5]
    )
    assert not {"call or pot", "call or all-in"} & set(limit)


def test_chumps_fall_back_on_calling():
    chump = exact_chump_responses.chumps(hunl(bets=("1", "allin")))["always pot"]
    row = chump.probabilities(jnp.array([True, True, False, True]))
    np.testing.assert_array_equal(row, [0, 1, 0, 0])


def test_bad_input():
    chump = Chump((0.0, 1.0, 0.0))
    with pytest.raises(ValueError, match=r"weights=\(0.0,\) must be"):
        Chump((0.0,))
    with pytest.raises(ValueError, match="a deck of 52"):
        chump_responses(dataclasses.replace(ONE_CARD, ranks=12), chump)
    with pytest.raises(ValueError, match="one entry for each of 3 actions"):
        chump_responses(ONE_CARD, Chump((0.0, 1.0)))
    with pytest.raises(ValueError, match="allowed="):
        chump_responses(ONE_CARD, chump, (ResponsePlan(allowed=((0, 2), (0, 1))),))
    with pytest.raises(ValueError, match="must be a limit game or have bets"):
        exact_chump_responses.chumps(hunl())
    for num_cards in (0, 6):
        with pytest.raises(ValueError, match=f"num_cards={num_cards}"):
            canonical_boards.net_wins(num_cards)
