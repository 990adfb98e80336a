"""Whole games of poker as hold'em trees, against explicit trees, OpenSpiel, and brute force over
pairs of hands."""

import dataclasses
import functools

import jax
import numpy as np
import pyspiel
import pytest
from holdem_reference import (
    LEDUC,
    NO_LIMIT,
    RandomPolicy,
    Subgame,
    assert_values_by_hand,
    from_tree,
    gains,
    known_to,
    moves_to,
    suits_that_keep,
    to_explicit,
    to_tree,
)
from openspiel_parity import assert_same_game, universal_poker

from jaxgames import enumerate_game
from jaxgames.core import CHANCE
from jaxgames.holdem.acpc import parse_game
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_rules import betting_of_rules
from jaxgames.holdem.betting_tree import FOLD, SHOWDOWN
from jaxgames.holdem.named_games import hunl, limit_holdem
from jaxgames.holdem.rules import Poker
from solvers import cfr
from solvers.holdem.whole_games import whole_game_tree
from solvers.sequence_form import build_sequence_form

# player 1 acts first, and has the smaller blind
TWO_STREETS = """GAMEDEF
limit
numPlayers = 2
numRounds = 2
blind = 2 1
raiseSize = 2 4
firstPlayer = 2 1
maxRaises = 1 2
numSuits = 2
numRanks = 3
numHoleCards = 1
numBoardCards = 0 1
END GAMEDEF
"""
# of the kind of Rhode Island hold'em
THREE_STREETS = """GAMEDEF
limit
numPlayers = 2
numRounds = 3
blind = 5 5
raiseSize = 10 20 20
firstPlayer = 1 1 1
maxRaises = 1 1 1
numSuits = 3
numRanks = 2
numHoleCards = 1
numBoardCards = 0 1 1
END GAMEDEF
"""
GAMES = {
    "Leduc": LEDUC,
    "two streets": parse_game(TWO_STREETS),
    "three streets": parse_game(THREE_STREETS),
}
OPENSPIEL = {
    "Leduc": lambda: pyspiel.load_game("leduc_poker"),
    "two streets": lambda: universal_poker(TWO_STREETS),
}
TWO_CARDS = Poker(
    blinds=(2, 1),
    first=(1, 0),
    board=(0, 2),
    raise_sizes=(2, 4),
    max_raises=(2, 1),
    ranks=4,
    suits=2,
)
POTS = dataclasses.replace(NO_LIMIT, stack=12, bets=("1", "allin"))
ALL_IN = dataclasses.replace(POTS, bets=("allin",))
slowly = functools.partial(pytest.param, marks=pytest.mark.slow)  # most of it is compilation
CASES = [
    ("Leduc", "ranks", True),
    slowly("Leduc", "products", False),
    slowly("Leduc", "ranks", False),
    slowly("Leduc", "products", True),
    slowly("two streets", "products", True),
    slowly("two streets", "ranks", False),
    slowly("three streets", "ranks", True),
    slowly("three streets", "products", False),
]


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


@functools.cache
def explicit(name):
    """A game's histories one by one, compiled, and what players know there."""
    game = GAMES[name]
    tree, betting = enumerate_game(game), betting_of_rules(game)
    known = [known_to(game, tree, betting, player) for player in range(2)]
    return tree, build_sequence_form(tree, dtype="float64"), known


@functools.cache
def openspiel(name):
    """OpenSpiel's game, and its names of our information states by player."""
    spiel, tree = OPENSPIEL[name](), explicit(name)[0]
    names = []
    for player in range(2):
        names.append([])
        for history in tree.representative(player)[: tree.num_decisions[player]]:
            state = spiel.new_initial_state()
            for _, move in moves_to(tree, history):
                state.apply_action(move)
            names[player].append(state.information_state_string(player))
    return spiel, names


def gains_of_openspiel(name, policy):
    """`gains` of an explicit policy, computed by OpenSpiel."""
    spiel, names = openspiel(name)
    table = {
        name: [(action, chance) for action, chance in enumerate(row) if chance >= 0]
        for player, rows in enumerate(policy)
        for name, row in zip(names[player], rows.tolist(), strict=True)
    }
    root, theirs = spiel.new_initial_state(), pyspiel.TabularPolicy(table)
    best = [pyspiel.TabularBestResponse(spiel, p, theirs).value_from_state(root) for p in range(2)]
    return pyspiel.expected_returns(root, theirs, -1, True), best


def exchanges(tree, isomorphism):
    """The permutations of suits under which policies are the same."""
    return suits_that_keep(tree.deck) if isomorphism else [(0, 1, 2, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "showdowns", "isomorphism"), CASES)
def test_values_are_those_of_explicit_trees_and_openspiel(name, showdowns, isomorphism):
    """For random policies, and for the average of fifty iterations of CFR+."""
    game = GAMES[name]
    histories, other, known = explicit(name)
    tree = whole_game_tree(game, dtype="float64", showdowns=showdowns, isomorphism=isomorphism)
    symmetries = exchanges(tree, isomorphism)
    policies = [RandomPolicy(tree.betting, symmetries, seed) for seed in range(3)]
    if name == "Leduc" or isomorphism:
        state = cfr.init(tree.sequence_form)
        state = cfr.run(tree.sequence_form, state, solver=cfr.cfr_plus(), num_iterations=50)
        policies.append(from_tree(tree, cfr.average_policy(tree.sequence_form, state), symmetries))
    for number, policy in enumerate(policies):
        value, best = gains(tree.sequence_form, to_tree(tree, policy))
        table = to_explicit(histories, known, policy)
        others = [gains(other, table)]
        if name in OPENSPIEL and number in (0, 3):
            others.append(gains_of_openspiel(name, table))
        for theirs in others:
            np.testing.assert_allclose(value / tree.total_weight, theirs[0], atol=1e-9)
            np.testing.assert_allclose(best / tree.total_weight, theirs[1], atol=1e-9)
        nash_conv = float((best - value).sum()) / tree.total_weight
        assert (nash_conv < 0.05 * max(game.raise_sizes)) == (number == 3)


def test_three_streets_are_those_of_openspiel():
    """State by state only: in OpenSpiel, information states contain the order of the board."""
    theirs = universal_poker(THREE_STREETS)
    assert_same_game(GAMES["three streets"], theirs, num_playouts=15, seed=0)


@pytest.mark.parametrize(
    ("game", "showdowns", "isomorphism"),
    [
        slowly(TWO_CARDS, "ranks", True),
        slowly(TWO_CARDS, "products", False),
        slowly(ALL_IN, "ranks", False),
        slowly(ALL_IN, "products", True),
    ],
)
def test_values_with_two_cards_are_those_of_all_pairs_of_hands(game, showdowns, isomorphism):
    """With all-in bets, after which cards are dealt without betting."""
    tree = whole_game_tree(game, dtype="float64", showdowns=showdowns, isomorphism=isomorphism)
    symmetries = exchanges(tree, isomorphism)
    winners = {}
    for seed in range(2):
        policy = RandomPolicy(tree.betting, symmetries, seed)
        subgame = Subgame(
            betting=tree.betting,
            deck=tree.deck,
            deals=game.board[1:],
            hands=tree.hands,
            policy=policy,
            winners=winners,
        )
        assert_values_by_hand(tree, policy, subgame, tree.ranges)


def test_sizes_of_bets_for_a_whole_game():
    """The same as with rules that have these sizes: Leduc's cards, bets of the pot and all-in."""
    changes = {"limit": False, "stack": 5, "raise_sizes": (), "max_raises": (0, 0)}
    game = dataclasses.replace(LEDUC, **changes)
    tree = whole_game_tree(
        game, sizes=BetSizes.parse("100%, allin", "100%, allin"), dtype="float64"
    )
    expected = whole_game_tree(dataclasses.replace(game, bets=("1", "allin")), dtype="float64")
    assert tree.betting.actions[0] == ("check", "bet 2", "allin")
    leaves = jax.tree.leaves(tree.sequence_form), jax.tree.leaves(expected.sequence_form)
    for array, other in zip(*leaves, strict=True):
        np.testing.assert_array_equal(array, other)


def test_betting_is_that_of_the_rules():
    """Blinds of 2 and 1, stacks of 12; the smaller blind acts first, on later streets the other."""
    betting = betting_of_rules(POTS)
    assert betting.actions[0] == ("fold", "call", "raise 1 of the pot", "all-in")
    assert (betting.actor[0], betting.pot, betting.num_streets) == (1, 0, 3)

    def after(*actions):
        node = 0
        for action in actions:
            node = betting.child[node, betting.actions[node].index(action)]
        return (
            *(int(x[node]) for x in (betting.actor, betting.street)),
            betting.paid[node].tolist(),
        )

    assert after("fold") == (FOLD, 0, [2, 1])
    assert betting.winner[betting.child[0, 0]] == 0
    assert after("call") == (0, 0, [2, 2])
    assert after("call", "call") == (CHANCE, 0, [2, 2])
    assert after("call", "call", "deal") == (0, 1, [2, 2])
    assert after("raise 1 of the pot") == (0, 0, [2, 6])  # four in the pot after calling
    assert after("all-in", "call") == (SHOWDOWN, 0, [12, 12])
    end = ("call", "call", "deal", "call", "call", "deal", "call")
    assert after(*end) == (1, 2, [2, 2])
    assert after(*end, "call") == (SHOWDOWN, 2, [2, 2])
    assert after(*end, "raise 1 of the pot", "fold") == (FOLD, 2, [2, 6])


def test_bad_games():
    with pytest.raises(ValueError, match=r"players=3 of poker.* must be 2"):
        whole_game_tree(limit_holdem(players=3))
    with pytest.raises(ValueError, match=r"board=\(3, 1\) of poker.* must begin with 0"):
        whole_game_tree(Poker(first=(0, 0), board=(3, 1), raise_sizes=(2, 4), max_raises=(1, 1)))
    omaha = Poker(hole=4, board=(0, 3), first=(0, 0), raise_sizes=(2, 4), max_raises=(1, 1))
    with pytest.raises(ValueError, match=r"hole=4 of poker.* must be 1 or 2 cards"):
        whole_game_tree(omaha)
    with pytest.raises(ValueError, match=r"of poker.* has more than max_nodes=50 nodes"):
        whole_game_tree(hunl(("1", "allin")), max_nodes=50)
