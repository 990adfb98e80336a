"""Policies to OpenSpiel and back: values computed there and here agree."""

import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms.expected_game_score import policy_value
from open_spiel.python.policy import TabularPolicy, UniformRandomPolicy

from jaxgames import enumerate_game, make
from jaxgames.adapters import from_openspiel_policy, to_openspiel_policy
from jaxgames.adapters.gambit import parse_efg
from jaxgames.adapters.openspiel import from_openspiel

GOOFSPIEL = "goofspiel(imp_info=True,points_order=descending,num_cards=3)"
LEDUC = "leduc_poker(suit_isomorphism=True)"
TREES = {
    "kuhn": (lambda: from_openspiel("kuhn_poker").tree, "kuhn_poker"),
    "native kuhn": (lambda: enumerate_game(make("kuhn_poker")), "kuhn_poker"),
    "native kuhn 3": (
        lambda: enumerate_game(make("kuhn_poker(players=3)")),
        "kuhn_poker(players=3)",
    ),
    "leduc": (lambda: from_openspiel(LEDUC).tree, LEDUC),
    "goofspiel": (lambda: from_openspiel(GOOFSPIEL).tree, GOOFSPIEL),
    "native goofspiel": (
        lambda: enumerate_game(make("goofspiel(cards=3,points=descending)")),
        GOOFSPIEL,
    ),
}


@pytest.fixture(scope="module", params=TREES)
def pair(request):
    build, name = TREES[request.param]
    return build(), name


@pytest.fixture(scope="module")
def kuhn():
    return from_openspiel("kuhn_poker").tree


def random_policies(tree, seed=0):
    generator = np.random.default_rng(seed)
    weights = [
        generator.exponential(size=(count, tree.num_actions)) * tree.legal_actions(player)
        for player, count in enumerate(tree.num_decisions)
    ]
    return tuple(weight / weight.sum(axis=1, keepdims=True) for weight in weights)


def expected_returns(tree, policies):
    """By the probability of each history."""
    reach = np.ones(tree.num_histories)
    for row in range(1, tree.num_histories):
        parent, action = tree.parent[row], tree.parent_action[row]
        player = tree.actor[parent]
        chosen = tree.chance_prob[row]
        if player >= 0:
            chosen = policies[player][tree.information_state[parent, player], action]
        reach[row] = reach[parent] * chosen
    return reach @ tree.returns


def test_exported_policy_has_the_same_value(pair):
    tree, name = pair
    policies = random_policies(tree)
    exported = to_openspiel_policy(tree, policies, name)
    assert isinstance(exported, TabularPolicy)
    root = exported.game.new_initial_state()
    players = [exported] * tree.num_players
    expected = policy_value(root, players)
    np.testing.assert_allclose(expected_returns(tree, policies), expected, atol=1e-12)


def test_policies_return_unchanged(pair):
    tree, name = pair
    policies = random_policies(tree)
    game = pyspiel.load_game(name)
    again = from_openspiel_policy(tree, to_openspiel_policy(tree, policies, game), game)
    for policy, other in zip(policies, again, strict=True):
        np.testing.assert_array_equal(policy, other)


def test_uniform_policy_is_imported(pair):
    tree, name = pair
    uniform = UniformRandomPolicy(pyspiel.load_game_as_turn_based(name))
    for player, policy in enumerate(from_openspiel_policy(tree, uniform, name)):
        legal = tree.legal_actions(player)
        np.testing.assert_allclose(policy, legal / legal.sum(axis=1, keepdims=True))


def test_equilibrium_of_kuhn_is_worth_minus_one_eighteenth(kuhn):
    solver = pyspiel.CFRPlusSolver(pyspiel.load_game("kuhn_poker"))
    for _ in range(300):
        solver.evaluate_and_update_policy()
    policies = from_openspiel_policy(kuhn, solver.average_policy(), "kuhn_poker")
    np.testing.assert_allclose(expected_returns(kuhn, policies), [-1 / 18, 1 / 18], atol=1e-3)


def test_games_that_differ_are_refused(kuhn):
    policies = random_policies(kuhn)
    with pytest.raises(ValueError, match=r"differ after moves \[\]: moves \[0, 1, 2\] here"):
        to_openspiel_policy(kuhn, policies, "kuhn_poker(players=3)")
    with pytest.raises(ValueError, match=r"differ after moves \[.*\]: returns .* here, .* there"):
        to_openspiel_policy(kuhn, policies, "misere(game=kuhn_poker())")
    with pytest.raises(ValueError, match=r"differ after moves \[\]: actor -1 here, 0 there"):
        from_openspiel_policy(kuhn, UniformRandomPolicy(pyspiel.load_game("nim")), "nim")


PENNIES = """EFG 2 R "pennies" {{ "A" "B" }}
p "" 1 1 "" {{ "h" "t" }} 0
p "" 2 1 "first" {{ "h" "t" }} 0 t "" 1 "" {{ 1 -1 }} t "" 2 "" {{ -1 1 }}
p "" 2 {} {{ "h" "t" }} 0 t "" 2 "" {{ -1 1 }} t "" 1 "" {{ 1 -1 }}
"""
HIDDEN, OPEN = PENNIES.format('1 "first"'), PENNIES.format('2 "second"')


def test_information_states_must_agree():
    ours, theirs = parse_efg(OPEN, name="open").tree, pyspiel.load_efg_game(HIDDEN)
    policies = random_policies(ours)
    with pytest.raises(
        ValueError, match=r"open: OpenSpiel's information state '.*' is more than one"
    ):
        to_openspiel_policy(ours, policies, theirs)
    ours, theirs = parse_efg(HIDDEN, name="hidden").tree, pyspiel.load_efg_game(OPEN)
    copying = TabularPolicy(theirs)
    copying.action_probability_array[1:] = [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="hidden: the policy differs within information state 0"):
        from_openspiel_policy(ours, copying, theirs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p[:1], "1 policies given; openspiel:kuhn_poker.* has 2"),
        (lambda p: (p[0], p[1][:3]), r"policy of player 1 has shape \(3, 2\), not \(6, 2\)"),
        (lambda p: (p[0] * 2, p[1]), r"policy of player 0 is .* in information state 0"),
        (lambda p: (p[0], p[1] * np.nan), r"policy of player 1 is \[nan nan\]"),
        (lambda p: (p[0] * [-1, 0] + [1, 1], p[1]), "policy of player 0"),
    ],
)
def test_what_is_no_policy_is_refused(kuhn, change, message):
    with pytest.raises(ValueError, match=message):
        to_openspiel_policy(kuhn, change(random_policies(kuhn)), "kuhn_poker")


def test_illegal_actions_have_no_probability():
    tree = from_openspiel(LEDUC).tree
    policies = tuple(np.full((count, 3), 1 / 3) for count in tree.num_decisions)
    with pytest.raises(ValueError, match=r"state 0, where the legal actions are \[1 2\]"):
        to_openspiel_policy(tree, policies, LEDUC)
