"""Betting trees: sizes by hand, counts, and what the rules of whole games say."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from holdem_reference import NO_LIMIT

from jaxgames import make
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.holdem import betting_from_rules
from jaxgames.holdem.bet_sizes import BetSizes, sizes_by_street
from jaxgames.holdem.betting_from_rules import BATCH, betting_of_rules
from jaxgames.holdem.betting_from_sizes import build_betting_tree, subtree, with_bet
from jaxgames.holdem.betting_tree import FOLD, NO_NODE, SHOWDOWN
from jaxgames.holdem.named_games import limit_holdem
from jaxgames.holdem.rules import Poker


def small_tree(*, bets, raises, streets=1, pot=200, stack=900, **more):
    sizes = BetSizes.parse(bets, raises)
    return build_betting_tree(pot=pot, stack=stack, streets=streets, sizes=sizes, **more)


def follow(tree, *names):
    node = 0
    for name in names:
        node = int(tree.child[node, tree.actions[node].index(name)])
    return node


def test_sizes_of_a_river():
    """Those of a reference solution: half the pot, the pot, all-in; raises to three times that."""
    tree = small_tree(bets="50%, 100%, allin", raises="3x")
    assert tree.actions[0] == ("check", "bet 100", "bet 200", "allin")
    assert tree.actions[follow(tree, "bet 100")] == ("fold", "call", "raise 300")
    # three times 300 is the whole stack
    assert tree.actions[follow(tree, "bet 100", "raise 300")] == ("fold", "call", "allin")
    assert tree.actions[follow(tree, "allin")] == ("fold", "call")
    end = follow(tree, "bet 200", "call")
    assert (tree.actor[end], tuple(tree.paid[end])) == (SHOWDOWN, (200, 200))


def test_who_acts_and_who_wins():
    tree = small_tree(bets="100%", raises="")
    assert tree.actor[0] == 0
    assert tree.actor[follow(tree, "check")] == 1
    assert tree.actor[follow(tree, "check", "check")] == SHOWDOWN
    answer = follow(tree, "check", "bet 200")
    assert tree.actor[answer] == 0
    folded = follow(tree, "check", "bet 200", "fold")
    assert tree.actor[folded] == FOLD
    assert tree.winner[folded] == 1
    assert tuple(tree.paid[folded]) == (0, 200)
    assert len(tree.actor) == 9


def test_streets():
    tree = small_tree(bets="50%", raises="", streets=2)
    dealt = follow(tree, "bet 100", "call")
    assert tree.actor[dealt] == CHANCE
    after = follow(tree, "bet 100", "call", "deal")
    assert (tree.actor[after], tree.street[after]) == (0, 1)
    assert tree.actions[after] == ("check", "bet 200")  # half of 400, on top of 100
    end = follow(tree, "bet 100", "call", "deal", "bet 200", "call")
    assert (tree.actor[end], tuple(tree.paid[end])) == (SHOWDOWN, (300, 300))


def test_raises_are_named_by_what_is_bet_on_their_street():
    tree = small_tree(bets="50%", raises="3x", streets=2)
    before = "bet 100", "call", "deal", "bet 200"
    assert tree.actions[follow(tree, *before)] == ("fold", "call", "raise 600")
    assert tuple(tree.paid[follow(tree, *before, "raise 600")]) == (300, 700)


def test_nobody_bets_when_all_in():
    tree = small_tree(bets="allin", raises="", streets=3)
    end = follow(tree, "allin", "call")
    assert (tree.actor[end], tree.street[end]) == (SHOWDOWN, 0)


def test_geometric_bets_are_all_in_on_the_last_street():
    tree = small_tree(bets="3e", raises="", streets=3, pot=100, stack=1300)
    # the pot grows threefold each time: 100, 300, 900, 2700
    assert tree.actions[0] == ("check", "bet 100")
    assert tree.actions[follow(tree, "bet 100", "call", "deal")] == ("check", "bet 300")
    third = follow(tree, "bet 100", "call", "deal", "bet 300", "call", "deal")
    assert tree.actions[third] == ("check", "allin")


def test_raises_are_as_large_as_the_one_before():
    """A tenth of 240 is 24, but 20 are faced; of 280, 28 is enough."""
    tree = small_tree(bets="10%", raises="9%")
    assert tree.actions[0] == ("check", "bet 20")
    assert tree.actions[follow(tree, "bet 20")] == ("fold", "call", "raise 42")
    assert tree.actions[follow(tree, "bet 20", "raise 42")] == ("fold", "call", "raise 68")
    assert small_tree(bets="10%, 15%", raises="", least_bet=40).actions[0] == ("check", "bet 40")
    assert small_tree(bets="10%", raises="", least_bet=40, stack=30).actions[0] == (
        "check",
        "allin",
    )


def test_the_smaller_stack_counts():
    paths = {"bets": "50%, allin", "raises": "3x", "streets": 2}
    assert shape(small_tree(**paths, stack=(900, 2000))) == shape(small_tree(**paths, stack=900))
    assert shape(small_tree(**paths, stack=(2000, 900))) == shape(small_tree(**paths, stack=900))


def shape(tree, node=0):
    """The subtree at a node, by the names of actions."""
    children = tree.child[node][tree.child[node] != NO_NODE]
    moves = zip(tree.actions[node], children, strict=True)
    content = int(tree.actor[node]), int(tree.street[node]), tuple(tree.paid[node].tolist())
    return content, {name: shape(tree, child) for name, child in moves}


def test_sizes_by_player_and_street():
    passive, active = BetSizes.parse("", ""), BetSizes.parse("100%", "")
    sizes = ((passive, active), (active, passive))
    tree = build_betting_tree(pot=10, stack=100, streets=2, sizes=sizes)
    assert tree.actions[0] == ("check",)
    assert tree.actions[follow(tree, "check")] == ("check", "bet 10")
    assert tree.actions[follow(tree, "check", "check", "deal")] == ("check", "bet 10")


def test_changes_of_sizes():
    changes = ["turn bets 33%", "river oop bets", "IP raises 2.5x,allin"]
    tree = sizes_by_street("50%", "3x", changes, streets=("turn", "river"))
    assert tree == (
        (BetSizes.parse("33%", "3x"), BetSizes.parse("33%", "2.5x,allin")),
        (BetSizes.parse("", "3x"), BetSizes.parse("50%", "2.5x,allin")),
    )
    with pytest.raises(ValueError, match="'trun bets 5%' must be like 'turn oop bets 50%,allin'"):
        sizes_by_street("50%", "3x", ["trun bets 5%"], streets=("turn",))
    with pytest.raises(ValueError, match="'flop bets 5%' must be for one of the streets turn, riv"):
        sizes_by_street("50%", "3x", ["flop bets 5%"], streets=("turn", "river"))


def test_parents_come_first_and_know_their_children():
    tree = small_tree(bets="33%, 75%, allin", raises="50%, allin", streets=3)
    assert_parents_and_children(tree)
    assert_parents_and_children(with_bet(tree, follow(tree, "check"), 150))
    assert_parents_and_children(subtree(tree, follow(tree, "bet 66", "call", "deal", "check")))


def assert_parents_and_children(tree):
    nodes = np.arange(len(tree.actor))
    assert (tree.parent[1:] < nodes[1:]).all()
    for node, row in enumerate(tree.child):
        children = row[row != NO_NODE]
        assert (tree.parent[children] == node).all()
        assert len(children) == len(tree.actions[node])
    assert (tree.paid <= 900).all()


@pytest.mark.parametrize(
    ("bets", "raises", "message"),
    [
        ("50", "", "size '50' must be like 50%, 3x, 2e, allin or any"),
        ("", "1x", "size '1x' must be more than 1"),
        ("0%", "", "size '0%' must be more than 0"),
        ("2x", "", "bet 2x is a multiple of a bet, but no bet precedes it"),
    ],
)
def test_bad_sizes(bets, raises, message):
    with pytest.raises(ValueError, match=message):
        BetSizes.parse(bets, raises)


def test_bad_trees():
    with pytest.raises(ValueError, match="stack=0 must be at least 1"):
        small_tree(bets="50%", raises="", stack=0)
    with pytest.raises(ValueError, match="has more than max_nodes=100 nodes"):
        small_tree(bets="20%, 50%", raises="2x", streets=2, max_nodes=100)
    pair = (BetSizes.parse("", ""),) * 2
    with pytest.raises(ValueError, match="sizes of 1 streets are given, for streets=2"):
        build_betting_tree(pot=1, stack=1, streets=2, sizes=(pair,))
    with pytest.raises(ValueError, match="stack=-3 must be at least 1"):
        small_tree(bets="50%", raises="", stack=(10, -3))
    with pytest.raises(ValueError, match="of pot=2 and stack=900 has lines of hundreds of raises"):
        build_betting_tree(pot=2, stack=900, streets=1, sizes=BetSizes.parse("any", "any"))
    with pytest.raises(ValueError, match="least_bet=0 must be at least 1"):
        small_tree(bets="50%", raises="", least_bet=0)


SHORT = dataclasses.replace(NO_LIMIT, stack=9)
ANTES = dataclasses.replace(NO_LIMIT, blinds=(2, 2), first=(0, 0, 0))
RULES = {
    "blinds": NO_LIMIT,
    "antes": ANTES,
    "other order": dataclasses.replace(NO_LIMIT, first=(1, 1, 0)),
    "limited": dataclasses.replace(NO_LIMIT, max_raises=(2, 1, 0)),
}


@pytest.mark.parametrize("name", RULES)
def test_whole_games_with_sizes_are_those_whose_rules_have_them(name):
    """The pot is never too little to raise, and the rest is all-in. Only names are others."""
    sizes = "100%, allin"
    tree = betting_of_rules(RULES[name], sizes=BetSizes.parse(sizes, sizes))
    theirs = betting_of_rules(dataclasses.replace(RULES[name], bets=("1", "allin")))
    for array in ("actor", "street", "parent", "child", "paid"):
        np.testing.assert_array_equal(getattr(tree, array), getattr(theirs, array))
    assert tree.num_streets == theirs.num_streets


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n in ("antes", "other order"))) for n in RULES],
)
def test_bets_are_legal_by_the_rules(name):
    """Every node is played with the full rules: small sizes are lifted to the least legal raise."""
    game = RULES[name]
    tree = betting_of_rules(game, sizes=BetSizes.parse("20%", "20%, 2.7x"))
    compiled_step = jax.jit(game.step)

    def step(state, action):
        return jax.device_get(compiled_step(state, np.int32(action)))

    def check(node, state):
        while state.actor == CHANCE:
            state = step(state, np.argmax(state.chance_probs))
        if tree.actor[node] == CHANCE:
            node = int(tree.child[node, 0])
        assert tree.paid[node].tolist() == state.spent.tolist()
        if state.actor == TERMINAL:
            assert tree.actor[node] == (FOLD if state.folded.any() else SHOWDOWN)
            return
        assert (tree.actor[node], tree.street[node]) == (state.actor, state.round)
        to = tree.paid[tree.child[node], tree.actor[node]].tolist()
        legal, raises = np.flatnonzero(state.legal).tolist(), []
        for place, action in enumerate(tree.actions[node]):
            move = {"fold": 0, "call": 1, "check": 1}.get(action, 1 + to[place])
            assert move in legal
            raises += [move] * (move > 1)
            check(int(tree.child[node, place]), step(state, move))
        assert (legal[-1] > 1) == bool(raises)  # somebody can raise
        assert (0 in legal) == ("fold" in tree.actions[node])
        pot, stakes = int(state.spent.max()) * 2, int(state.spent.max())
        if raises and stakes + pot * 0.2 < min(move - 1 for move in legal if move > 1):
            assert raises[0] == min(move for move in legal if move > 1)

    check(0, jax.device_get(game.init()))


def test_first_bets_of_no_limit_holdem():
    """Blinds of 100 and 50: after a limp the other player may check or raise."""
    sizes = BetSizes.parse("50%, 100%, allin", "50%, 3x, allin")
    tree = betting_of_rules(make("nlfh"), sizes=sizes)
    assert (tree.actor[0], tree.paid[0].tolist(), tree.pot) == (1, [100, 50], 0)
    assert tree.actions[0] == ("fold", "call", "raise 200", "raise 300", "allin")
    option = follow(tree, "call")
    assert tree.actions[option] == ("check", "raise 200", "raise 300", "allin")
    flop = follow(tree, "raise 300", "call", "deal")
    assert (tree.actor[flop], tree.paid[flop].tolist()) == (0, [300, 300])
    assert tree.actions[flop] == ("check", "bet 300", "bet 600", "allin")
    assert tree.actions[follow(tree, "call", "check", "deal")][1] == "bet 100"
    assert tree.paid.max() == 20_000


def test_games_that_have_no_such_sizes():
    sizes = BetSizes.parse("50%", "3x")
    with pytest.raises(ValueError, match="sizes are for no-limit games without bets, but poker"):
        betting_of_rules(limit_holdem(), sizes=sizes)
    with pytest.raises(ValueError, match="sizes are for no-limit games without bets, but poker"):
        betting_of_rules(make("hunl(bets=1/allin)"), sizes=sizes)
    with pytest.raises(ValueError, match="sizes of 1 streets are given, for streets=4"):
        betting_of_rules(make("hunl"), sizes=((sizes, sizes),))
    for changes in ({"blinds": (0, 0)}, {"first": (0, 0, 0)}):
        with pytest.raises(ValueError, match="games with blinds where the smaller one acts first"):
            betting_of_rules(dataclasses.replace(NO_LIMIT, **changes), sizes=sizes)
    with pytest.raises(ValueError, match=r"bets of poker.* must not be random"):
        betting_of_rules(make("hunl(bets=random/allin)"))


def test_a_bet_put_into_a_tree_is_as_if_it_had_been_there():
    """Player 0 has another size on the first street, which nobody else has."""
    some, more, none = (
        BetSizes.parse("50%", "3x"),
        BetSizes.parse("37%, 50%", "3x"),
        BetSizes.parse("", ""),
    )
    without = build_betting_tree(
        pot=200, stack=900, streets=2, sizes=((some, none), (some, some)), least_bet=10
    )
    with_it = build_betting_tree(
        pot=200, stack=900, streets=2, sizes=((more, none), (some, some)), least_bet=10
    )
    tree = with_bet(without, 0, 74)
    assert shape(tree) == shape(with_it)
    for array in ("actor", "street", "parent", "paid"):  # the others keep their numbers
        kept = getattr(tree, array)[: len(without.actor)]
        np.testing.assert_array_equal(kept, getattr(without, array))
    assert with_bet(tree, 0, 74) is tree
    twice = with_bet(tree, follow(tree, "bet 74"), 300)
    assert twice.actions[follow(twice, "bet 74")] == ("fold", "call", "raise 300")
    assert twice.actions[follow(twice, "bet 74", "raise 300")] == ("fold", "call", "allin")


def test_what_follows_a_decision_is_a_tree_itself():
    """In a whole game, on either street: with a bet put in before or after, it is the same."""
    sizes = BetSizes.parse("50%, allin", "50%")
    whole = betting_of_rules(RULES["limited"], sizes=sizes)
    for path in (("raise 4",), ("raise 4", "call", "deal", "check")):
        node = follow(whole, *path)
        part = subtree(whole, node)
        assert (part.actor[0], part.street[0], part.parent[0]) == (whole.actor[node], 0, NO_NODE)
        assert part.num_streets == whole.num_streets - whole.street[node]
        assert len(part.actor) < len(whole.actor)
        assert without_streets(shape(part)) == without_streets(shape(whole, node))
        before, after = subtree(with_bet(whole, node, 11), node), with_bet(part, 0, 11)
        assert shape(before) == shape(after)
        assert any(name in after.actions[0] for name in ("raise 11", "bet 7"))
        # the rules allow two raises before the flop and one after it
        answers = after.child[0, [name in ("raise 11", "bet 7") for name in after.actions[0]]]
        assert after.actions[int(answers[0])] == ("fold", "call")


def without_streets(shaped):
    (actor, _, paid), children = shaped
    return (actor, paid), {name: without_streets(child) for name, child in children.items()}


def test_bets_that_cannot_be_put_in():
    tree = small_tree(bets="50%", raises="3x")
    with pytest.raises(ValueError, match=r"to=150 at node=\d+ must be from 200 to 900"):
        with_bet(tree, follow(tree, "bet 100"), 150)
    with pytest.raises(ValueError, match="to=901 at node=0 must be from 1 to 900"):
        with_bet(tree, 0, 901)
    facing = follow(tree, "bet 100", "raise 300", "allin")
    with pytest.raises(ValueError, match="must be nothing: no raise is legal"):
        with_bet(tree, facing, 900)
    for act in (lambda node: with_bet(tree, node, 200), lambda node: subtree(tree, node)):
        with pytest.raises(ValueError, match=r"node=\d+ is no decision (or deal )?of"):
            act(follow(tree, "check", "check"))
    with pytest.raises(ValueError, match="has all bets of the rules, and no sizes to go on"):
        with_bet(betting_of_rules(dataclasses.replace(NO_LIMIT, bets=("allin",))), 0, 8)


def test_any_size_is_all_that_the_rules_allow():
    """The rules themselves are the other way to find them."""
    rules = dict(blinds=(2, 2), first=(0, 0), board=(0, 1), max_raises=(0, 2), raise_sizes=())
    game = Poker(limit=False, stack=9, hole=1, ranks=3, suits=2, **rules)
    tree, known = (
        betting_of_rules(game, sizes=BetSizes.parse("any", "any")),
        betting_of_rules(game),
    )
    for name in ("actor", "street", "parent", "child", "paid"):
        np.testing.assert_array_equal(getattr(tree, name), getattr(known, name))


def test_limit_holdem_has_as_many_decisions_as_published():
    """Bowling et al. (2015): 3.16e17 states and 3.19e14 information sets, whose exact numbers are
    those of Johanson (2013, "Measuring the Size of Large No-Limit Poker Games", Table 1)."""
    tree = betting_of_rules(limit_holdem())
    decisions = np.bincount(tree.street[tree.actor >= 0]).tolist()
    assert decisions == [8, 70, 630, 5670]
    assert np.bincount(tree.street[tree.actor == CHANCE]).tolist() == [7, 63, 567]
    ends = tree.street[(tree.actor == FOLD) | (tree.actor == SHOWDOWN)]
    assert np.bincount(ends).tolist() == [7, 56, 504, 9639]
    actions = [sum(map(len, np.array(tree.actions, object)[tree.street == s])) for s in range(4)]
    assert np.subtract(actions, [7, 63, 567, 0]).tolist() == [21, 182, 1638, 14742]
    flops = math.comb(50, 3)
    cards = [1326, 1326 * flops, 1326 * flops * 47, 1326 * flops * 47 * 46]
    assert sum(np.multiply(decisions, cards).tolist()) == 319_365_922_522_608


def test_nodes_of_whole_games_are_in_the_order_of_a_walk():
    """The first action with all that follows, then the second one, and so on."""
    tree = betting_of_rules(SHORT)
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += reversed(tree.child[node, : len(tree.actions[node])].tolist())
    assert order == list(range(len(tree.actor)))
    assert len(order) > 3 * BATCH
    assert_parents_and_children(tree)


def test_large_whole_games_are_refused_before_they_are_built(monkeypatch):
    """No-limit hold'em has 20,000 sizes of the first raise, and nearly as many of the answer: after
    the deal and some of the raises it is known that there are more than a million."""
    play, played = betting_from_rules._states_after, []

    def play_twice(*batch):
        played.append(batch)
        assert len(played) <= 2
        return play(*batch)

    with monkeypatch.context() as patched:
        patched.setattr(betting_from_rules, "_states_after", play_twice)
        with pytest.raises(ValueError, match=r"tree of poker.* has more than max_nodes=1,000,000 "):
            betting_of_rules(make("hunl"))


def test_trees_have_as_many_nodes_as_allowed_and_no_more():
    size = len(betting_of_rules(SHORT).actor)
    assert len(betting_of_rules(SHORT, max_nodes=size).actor) == size
    with pytest.raises(ValueError, match=f"more than max_nodes={size - 1:,} nodes"):
        betting_of_rules(SHORT, max_nodes=size - 1)


@pytest.mark.slow
def test_long_games_are_no_deeper_than_python_can_go():
    """After a raise or a call there are a thousand raises by one chip, in turn."""
    rules = dict(blinds=(2, 1), first=(1,), board=(0,), max_raises=(1000,), raise_sizes=(1,))
    tree = betting_of_rules(Poker(hole=1, ranks=3, suits=1, **rules))
    assert (tree.actor >= 0).sum() == 2 * 1001
    assert tree.paid.max() == 1002
