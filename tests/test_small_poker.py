"""Poker with one hole card as explicit trees, and strategies of abstractions played there."""

import functools

import numpy as np
import pytest
from holdem_reference import LEDUC

from jaxgames import enumerate_game, make
from jaxgames.core import TERMINAL
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_rules import betting_of_rules
from jaxgames.holdem.betting_from_sizes import build_betting_tree
from jaxgames.holdem.rules import Poker
from jaxgames.holdem.small_poker import build_small_poker, known_actions
from solvers import evaluation, linear_program
from solvers.holdem.small_poker_translation import translated
from solvers.sequence_form import build_sequence_form


def no_limit_leduc(stack):
    rules = dict(blinds=(1, 1), first=(0, 0), board=(0, 1), max_raises=(0, 0), raise_sizes=())
    return Poker(limit=False, stack=stack, hole=1, ranks=3, suits=2, **rules)


@functools.cache
def leduc(stack, bets):
    betting = betting_of_rules(no_limit_leduc(stack), sizes=BetSizes.parse(bets, bets))
    return build_small_poker(betting, ranks=3, suits=2)


@functools.cache
def one_bet(stack, bets, kind="kuhn"):
    """The first player may bet, the second may call or fold; the pot of 1 is ten chips."""
    sizes = BetSizes.parse(bets, ""), BetSizes.parse("", "")
    betting = build_betting_tree(pot=10, stack=10 * stack, streets=1, sizes=(sizes,))
    weights = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]) if kind == "clairvoyance" else None
    return build_small_poker(betting, ranks=3, weights=weights)


def test_limit_leduc_is_the_leduc_that_is_known():
    """Another implementation, and the value that OpenSpiel and linear programs agree on."""
    game = build_small_poker(betting_of_rules(LEDUC), ranks=3, suits=2)
    known = enumerate_game(make("leduc_poker(suit_isomorphism=true)"))
    assert game.tree.num_decisions == known.num_decisions
    for actor in (0, 1, TERMINAL):
        assert (game.tree.actor == actor).sum() == (known.actor == actor).sum()
    value, _ = linear_program.solve(build_sequence_form(game.tree))
    assert value == pytest.approx(-0.085606424078, abs=1e-6)


def test_all_in_before_the_board_is_what_all_boards_are_on_average():
    """No-limit Leduc for three chips, as enumerated by the rules, card by card."""
    game = leduc(3, "any")
    value, _ = linear_program.solve(build_sequence_form(game.tree))
    whole = enumerate_game(no_limit_leduc(3))
    assert whole.num_histories > 5 * game.tree.num_histories
    assert linear_program.solve(build_sequence_form(whole))[0] == pytest.approx(value, abs=1e-6)


def test_actions_that_an_abstraction_has():
    """All but the bets of other sizes; after them, all."""
    game, abstract = one_bet(2, "any"), one_bet(2, "40%, allin")
    first, second = known_actions(game, abstract)
    np.testing.assert_array_equal(second, game.tree.legal_actions(1))
    sizes = game.betting.paid[game.betting.child[0], 0]
    np.testing.assert_array_equal(first, np.isin(sizes, (0, 4, 20))[None].repeat(3, axis=0))
    with pytest.raises(ValueError, match="lacks actions of the abstraction at node=0"):
        known_actions(abstract, game)
    with pytest.raises(ValueError, match=r"abstract.deals differ from game.deals; allowed"):
        known_actions(game, leduc(3, "any"))


@pytest.mark.parametrize("stack", [1, 4, 20])
def test_values_of_games_of_one_bet(stack):
    """Published: clairvoyance n / 2 (1 + n) of the pot (Ankenman and Chen 2006), above the half
    that the first player has in it."""
    game = one_bet(stack, "any", kind="clairvoyance")
    value, _ = linear_program.solve(build_sequence_form(game.tree))
    assert value / 10 == pytest.approx(stack / (2 * (1 + stack)), abs=1e-6)


def exploited(real, abstract, policy, mapping):
    """What the second player loses in the `real` one-bet game beyond its value, in pots."""
    tree = build_sequence_form(real.tree)
    rows = translated(real, abstract, policy, player=1, mapping=mapping)
    first = np.zeros((tree.treeplexes[0].num_decisions, tree.num_actions), np.float32)
    best = evaluation.best_response_value(tree, (first, rows.astype(np.float32)))
    return (float(best[0]) - linear_program.solve(tree)[0]) / 10


@pytest.mark.parametrize(
    ("bets", "stack", "mapping", "published"),
    [
        ("100%, allin", 3, "pseudo_harmonic", 0.029),
        ("100%, allin", 3, "arithmetic", 0.055),
        ("100%, allin", 3, "geometric_1", 0.121),
        ("40%, allin", 1, "pseudo_harmonic", 0.008),
        ("40%, allin", 3, "geometric_2", 0.083),
        ("40%, allin", 5, "pseudo_harmonic", 0.017),
        ("40%, allin", 5, "arithmetic", 0.068),
    ],
)
def test_published_exploitability_in_no_limit_kuhn(bets, stack, mapping, published):
    """Ganzfried and Sandholm 2013, Tables 3 and 4; the equilibrium is one of the abstraction."""
    abstract = one_bet(stack, bets)
    _, equilibrium = linear_program.solve(build_sequence_form(abstract.tree))
    loss = exploited(one_bet(stack, "any"), abstract, equilibrium[1], mapping)
    assert loss == pytest.approx(published, abs=6e-4)


@pytest.mark.parametrize("player", [0, 1])
def test_nothing_is_translated_in_the_game_itself(player):
    """What is reached stays as it is, all of two streets."""
    game = leduc(6, "100%, allin")
    tree = build_sequence_form(game.tree)
    legal = game.tree.legal_actions(player)
    policy = np.random.default_rng(0).uniform(0.1, 1, legal.shape) * legal
    policy /= policy.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(translated(game, game, policy, player=player), policy, atol=1e-6)
    assert len(policy) == tree.treeplexes[player].num_decisions


@pytest.mark.parametrize("player", [0, 1])
def test_who_calls_everything_does_so_whatever_is_bet(player):
    """Bets that are taken for checks are called too, and so is what follows an all-in in mind."""
    real, abstract = leduc(6, "any"), leduc(6, "100%, allin")
    calls = np.zeros(abstract.tree.legal_actions(player).shape)
    for node, numbers in enumerate(abstract.states):
        if abstract.betting.actor[node] == player:
            calls[numbers[numbers >= 0], call(abstract, node)] = 1
    rows = translated(real, abstract, calls, player=player, mapping="arithmetic")
    reached = rows.max(axis=1) == 1
    for node, numbers in enumerate(real.states):
        if real.betting.actor[node] == player:
            mine = numbers[numbers >= 0]
            mine = mine[reached[mine]]
            np.testing.assert_array_equal(rows[mine, call(real, node)], 1.0)
    tree = build_sequence_form(real.tree)
    best = evaluation.best_response_value(tree, both(tree, rows, player))[1 - player]
    assert float(best) > 1  # all-in with the best cards


def call(game, node):
    return game.betting.actions[node].index(
        "call" if "call" in game.betting.actions[node] else "check"
    )


def both(tree, rows, player):
    """A player's policy beside anything for the other."""
    shape = (tree.treeplexes[1 - player].num_decisions, tree.num_actions)
    pair = [np.zeros(shape, np.float32)] * 2
    pair[player] = rows.astype(np.float32)
    return tuple(pair)


def test_terminals_pay_what_was_paid():
    tree = leduc(6, "any").tree
    over = tree.actor == TERMINAL
    assert set(np.abs(tree.returns[over, 0]).round(6)) <= {*range(7), *np.arange(1, 25) / 4}
    assert tree.chance_reach()[over].sum() > 1  # players' moves do not count


def test_errors():
    betting = betting_of_rules(LEDUC)
    with pytest.raises(ValueError, match="ranks=2 times suits=1 must be at least 3 cards"):
        build_small_poker(betting, ranks=2)
    with pytest.raises(ValueError, match="must allow a deal of ranks=3"):
        build_small_poker(betting, ranks=3, suits=2, weights=np.zeros((2, 3)))
    game = leduc(6, "100%, allin")
    with pytest.raises(ValueError, match=r"abstract.deals differ from real.deals; allowed"):
        translated(game, one_bet(1, "any"), np.zeros((1, 2)), player=0)
