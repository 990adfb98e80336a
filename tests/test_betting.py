"""Betting trees: sizes by hand, and counts."""

import numpy as np
import pytest

from jaxgames.core import CHANCE
from jaxgames.holdem.betting import FOLD, NO_NODE, SHOWDOWN, Sizes, build_betting_tree


def tree(*, bets, raises, streets=1, pot=200, stack=900, **more):
    sizes = Sizes.parse(bets, raises)
    return build_betting_tree(pot=pot, stack=stack, streets=streets, sizes=sizes, **more)


def follow(found, *names):
    node = 0
    for name in names:
        node = int(found.child[node, found.actions[node].index(name)])
    return node


def test_sizes_of_a_river():
    """Those of a reference solution: half the pot, the pot, all-in; raises to three times that."""
    found = tree(bets="50%, 100%, allin", raises="3x")
    assert found.actions[0] == ("check", "bet 100", "bet 200", "allin")
    assert found.actions[follow(found, "bet 100")] == ("fold", "call", "raise 300")
    # three times 300 is all that there is
    assert found.actions[follow(found, "bet 100", "raise 300")] == ("fold", "call", "allin")
    assert found.actions[follow(found, "allin")] == ("fold", "call")
    end = follow(found, "bet 200", "call")
    assert (found.actor[end], tuple(found.paid[end])) == (SHOWDOWN, (200, 200))


def test_who_acts_and_who_wins():
    found = tree(bets="100%", raises="")
    assert found.actor[0] == 0
    assert found.actor[follow(found, "check")] == 1
    assert found.actor[follow(found, "check", "check")] == SHOWDOWN
    answer = follow(found, "check", "bet 200")
    assert found.actor[answer] == 0
    folded = follow(found, "check", "bet 200", "fold")
    assert found.actor[folded] == FOLD
    assert found.winner[folded] == 1
    assert tuple(found.paid[folded]) == (0, 200)
    assert len(found.actor) == 9


def test_streets():
    found = tree(bets="50%", raises="", streets=2)
    dealt = follow(found, "bet 100", "call")
    assert found.actor[dealt] == CHANCE
    after = follow(found, "bet 100", "call", "deal")
    assert (found.actor[after], found.street[after]) == (0, 1)
    assert found.actions[after] == ("check", "bet 200")  # half of 400, on top of 100
    end = follow(found, "bet 100", "call", "deal", "bet 200", "call")
    assert (found.actor[end], tuple(found.paid[end])) == (SHOWDOWN, (300, 300))


def test_raises_are_named_by_what_is_bet_on_their_street():
    found = tree(bets="50%", raises="3x", streets=2)
    before = "bet 100", "call", "deal", "bet 200"
    assert found.actions[follow(found, *before)] == ("fold", "call", "raise 600")
    assert tuple(found.paid[follow(found, *before, "raise 600")]) == (300, 700)


def test_nobody_bets_when_all_in():
    found = tree(bets="allin", raises="", streets=3)
    end = follow(found, "allin", "call")
    assert (found.actor[end], found.street[end]) == (SHOWDOWN, 0)


def test_geometric_bets_are_all_in_on_the_last_street():
    found = tree(bets="3e", raises="", streets=3, pot=100, stack=1300)
    # the pot grows threefold each time: 100, 300, 900, 2700
    assert found.actions[0] == ("check", "bet 100")
    assert found.actions[follow(found, "bet 100", "call", "deal")] == ("check", "bet 300")
    third = follow(found, "bet 100", "call", "deal", "bet 300", "call", "deal")
    assert found.actions[third] == ("check", "allin")


def test_sizes_by_player_and_street():
    passive, active = Sizes.parse("", ""), Sizes.parse("100%", "")
    sizes = ((passive, active), (active, passive))
    found = build_betting_tree(pot=10, stack=100, streets=2, sizes=sizes)
    assert found.actions[0] == ("check",)
    assert found.actions[follow(found, "check")] == ("check", "bet 10")
    assert found.actions[follow(found, "check", "check", "deal")] == ("check", "bet 10")


def test_parents_come_first_and_know_their_children():
    found = tree(bets="33%, 75%, allin", raises="50%, allin", streets=3)
    nodes = np.arange(len(found.actor))
    assert (found.parent[1:] < nodes[1:]).all()
    for node, row in enumerate(found.child):
        children = row[row != NO_NODE]
        assert (found.parent[children] == node).all()
        assert len(children) == len(found.actions[node])
    assert (found.paid <= 900).all()


@pytest.mark.parametrize(
    ("bets", "raises", "message"),
    [
        ("50", "", "size '50' must be like 50%, 3x, 2e or allin"),
        ("", "1x", "size '1x' must be more than 1"),
        ("0%", "", "size '0%' must be more than 0"),
        ("2x", "", "bet 2x is a multiple of a bet, but there is none yet"),
    ],
)
def test_bad_sizes(bets, raises, message):
    with pytest.raises(ValueError, match=message):
        Sizes.parse(bets, raises)


def test_bad_trees():
    with pytest.raises(ValueError, match="stack=0 must be at least 1"):
        tree(bets="50%", raises="", stack=0)
    with pytest.raises(ValueError, match="has more than max_nodes=100 nodes"):
        tree(bets="20%, 50%", raises="2x", streets=2, max_nodes=100)
    pair = (Sizes.parse("", ""),) * 2
    with pytest.raises(ValueError, match="sizes of 1 streets are given, for streets=2"):
        build_betting_tree(pot=1, stack=1, streets=2, sizes=(pair,))
