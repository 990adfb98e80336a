"""Games of OpenSpiel as tables: against walks through pyspiel, our own games and the contract."""

import dataclasses
import sys

import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest
from openspiel_parity import assert_same_tree

from jaxgames import TreeTooLargeError, check_game, enumerate_game, make
from jaxgames.adapters.openspiel import from_openspiel
from jaxgames.core import CHANCE, TERMINAL

GOOFSPIEL = "goofspiel(imp_info=True,points_order=descending,num_cards={})"
LEDUC = "leduc_poker(suit_isomorphism=True)"  # a fifth of the histories
GAMES = [
    "kuhn_poker",
    "kuhn_poker(players=3)",
    LEDUC,
    "liars_dice(numdice=1,dice_sides=3)",
    GOOFSPIEL.format(3),
    GOOFSPIEL.format(4),
    "goofspiel(imp_info=True,points_order=random,num_cards=3)",
    "matrix_pd",
    "matching_pennies_3p",
    "tiny_hanabi",
    "dark_hex(board_size=2)",
    "hex(board_size=2)",
]

# A variant of Selten's horse in which player 2 cannot tell how many moves were made.
UNTIMED = """EFG 2 R "horse" { "a" "b" "c" }
p "" 1 1 "" { "R" "L" } 0
 p "" 3 1 "" { "R" "L" } 0
  t "" 1 "" { 3 0 3 }
  t "" 2 "" { 0 0 0 }
 p "" 2 1 "" { "R" "L" } 0
  p "" 1 2 "" { "R" "L" } 0
   p "" 3 1 "" { "R" "L" } 0
    t "" 3 "" { 4 4 0 }
    t "" 4 "" { 0 0 5 }
   t "" 5 "" { 2 0 0 }
  t "" 6 "" { 1 3 0 }
"""


def walked(game):
    """Histories by kind, and the strings at which each player acts."""
    counts, strings = {"chance": 0, "decision": 0, "terminal": 0}, {}
    pending = [game.new_initial_state()]
    while pending:
        state = pending.pop()
        kind = "terminal" if state.is_terminal() else "decision"
        counts["chance" if state.is_chance_node() else kind] += 1
        if not (state.is_terminal() or state.is_chance_node()):
            player = state.current_player()
            strings.setdefault(player, set()).add(state.information_state_string(player))
        pending += [state.child(action) for action in state.legal_actions()]
    return counts, tuple(len(strings.get(p, ())) for p in range(game.num_players()))


@pytest.mark.parametrize("name", GAMES)
def test_sizes_are_those_of_a_walk_through_openspiel(name):
    counts, decisions = walked(pyspiel.load_game_as_turn_based(name))
    tree = from_openspiel(name).tree
    assert tree.num_decisions == decisions
    assert counts == {
        "chance": int((tree.actor == CHANCE).sum()),
        "decision": int((tree.actor >= 0).sum()),
        "terminal": int((tree.actor == TERMINAL).sum()),
    }


@pytest.mark.parametrize("name", GAMES)
def test_histories_and_information_states_are_openspiels(name):
    game = from_openspiel(name)
    # while others act, the strings of dark hex forget what was known at the own last decision
    information = "decisions" if "dark_hex" in name else "before_the_end"
    assert_same_tree(game, game.spiel, information=information)


def test_leduc_has_the_published_counts():
    tree = from_openspiel("leduc_poker").tree
    assert tree.num_decisions == (468, 468)
    counts = [int((tree.actor == CHANCE).sum()), int((tree.actor >= 0).sum())]
    assert [*counts, int((tree.actor == TERMINAL).sum())] == [157, 3780, 5520]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("kuhn_poker", "kuhn_poker"),
        ("kuhn_poker(players=3)", "kuhn_poker(players=3)"),
        ("liars_dice(numdice=1,dice_sides=3)", "liars_dice(dice=1,sides=3)"),
        ("leduc_poker", "leduc_poker"),
    ],
)
def test_public_states_are_those_of_the_native_game(theirs, ours):
    """In these games the common-knowledge classes are the public states by the rules."""
    assert_equal_trees(from_openspiel(theirs).tree, enumerate_game(make(ours)))


def assert_equal_trees(one, other):
    for field in dataclasses.fields(one):
        if field.name != "game":
            np.testing.assert_allclose(
                getattr(one, field.name), getattr(other, field.name), atol=1e-12
            )


@pytest.mark.parametrize("name", GAMES)
def test_public_states_keep_the_contract(name):
    """All players know the public state, whose turn it is, and what was public before."""
    tree = from_openspiel(name).tree
    for player in range(tree.num_players):
        assert_function(tree.information_state[:, player], tree.public_state)
    assert_function(tree.public_state, tree.actor)
    assert_function(tree.public_state, tree.depth)
    assert_function(tree.public_state[1:], tree.public_state[tree.parent[1:]])


def assert_function(keys, values):
    pairs = np.unique(np.stack([keys, values]), axis=1)
    assert len(np.unique(pairs[0])) == pairs.shape[1]


@pytest.mark.parametrize("name", [GAMES[4], "tiny_hanabi"])
def test_adapted_game_keeps_the_contract(name):
    check_game(from_openspiel(name), num_playouts=16)


def test_public_states_are_connected_classes():
    """Against a brute-force closure of "some player cannot tell these two apart"."""
    tree = from_openspiel("tiny_hanabi").tree
    same = (tree.information_state[:, None] == tree.information_state[None]).any(axis=2)
    same &= tree.depth[:, None] == tree.depth[None]
    for _ in range(6):  # paths of up to 2^6 links
        same = (same.astype(int) @ same.astype(int)) > 0
    np.testing.assert_array_equal(same, tree.public_state[:, None] == tree.public_state[None])


def test_information_that_spans_depths_is_kept():
    tree = from_openspiel(pyspiel.load_efg_game(UNTIMED)).tree
    assert tree.num_decisions == (2, 1, 1)
    rows = np.flatnonzero(tree.actor == 2)
    assert tree.depth[rows].tolist() == [1, 3]
    assert len(set(tree.information_state[rows, 2])) == 1
    assert len(set(tree.public_state[rows])) == 2


def test_chance_keeps_its_probabilities():
    biased = 'EFG 2 R "" { "a" } c "" 1 "" { "x" 0.25 "y" 0.0 "z" 0.75 } 0 '
    ends = [f't "" {number} "" {{ {number} }}' for number in (1, 2, 3)]
    tree = from_openspiel(pyspiel.load_efg_game(biased + " ".join(ends))).tree
    assert tree.parent_action.tolist() == [-1, 0, 2]
    assert tree.chance_prob.tolist() == [1, 0.25, 0.75]
    assert tree.returns[:, 0].tolist() == [0, 1, 3]


class Tacit:
    """OpenSpiel's Kuhn poker, which tells nothing to players who do not act."""

    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __getattr__(self, name):
        return getattr(self.wrapped, name)

    def __str__(self):
        return str(self.wrapped)

    def new_initial_state(self):
        return Tacit(self.wrapped.new_initial_state())

    def child(self, action):
        return Tacit(self.wrapped.child(action))

    def information_state_string(self, player):
        if player != self.wrapped.current_player():
            raise pyspiel.SpielError("not your turn")
        return self.wrapped.information_state_string(player)


@pytest.mark.parametrize("name", ["kuhn_poker", "kuhn_poker(players=3)", LEDUC])
def test_what_is_not_told_is_found(name):
    """Decisions alone determine the public states of poker: cards hidden, bets public."""
    game = pyspiel.load_game(name)
    assert_equal_trees(from_openspiel(Tacit(game)).tree, from_openspiel(game).tree)


def test_simultaneous_games_are_played_in_turns():
    game = from_openspiel(pyspiel.create_matrix_game([[3, 0], [5, 1]], [[3, 5], [0, 1]]))
    assert game.tree.actor.tolist() == [0, 1, 1, *[TERMINAL] * 4]
    assert game.tree.returns[3:].tolist() == [[3, 3], [0, 5], [5, 0], [1, 1]]
    assert len(set(game.tree.information_state[1:3, 1])) == 1


def test_tree_is_taken_as_it_is():
    game = from_openspiel("kuhn_poker")
    assert enumerate_game(game) is game.tree
    with pytest.raises(TreeTooLargeError, match=r"58 histories.*limit of 57"):
        enumerate_game(game, max_histories=57)
    assert hash(game) != hash(from_openspiel("kuhn_poker"))
    assert game.parameters() == {}


def test_text_is_openspiels():
    game = make("openspiel:kuhn_poker")
    assert str(game) == "openspiel:kuhn_poker()"
    assert str(make(str(game))) == str(game)
    state = game.init()
    for move, name in [(2, "Deal:2"), (0, "Deal:0"), (1, "Bet")]:
        assert game.action_name(state, move) == name
        state = game.step(state, jnp.int32(move))
    assert game.render(state) == "2 0 b"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kuhn_pokr", "unknown OpenSpiel game 'kuhn_pokr'; did you mean 'kuhn_poker'"),
        ("kuhn_poker(players=20)", r"OpenSpiel game 'kuhn_poker\(players=20\)'"),
        ("mfg_crowd_modelling", "mean-field"),
        ("stones_and_gems", "chance is sampled"),
        ("pig", "no information states"),
        ("liars_dice_ir(numdice=1,dice_sides=3)", "imperfect recall"),
        ("chess", "more than the limit of 5,000,000"),
    ],
)
def test_refusals(name, message):
    with pytest.raises(ValueError, match=message) as caught:
        from_openspiel(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("limit", [57, 20, 2])  # found while walking, or estimated before
def test_too_large_trees_are_refused(limit):
    with pytest.raises(TreeTooLargeError, match=f"limit of {limit} "):
        from_openspiel("kuhn_poker", max_histories=limit)
    assert from_openspiel("kuhn_poker", max_histories=58).tree.num_histories == 58


def test_make_limits_the_size_of_the_tree():
    with pytest.raises(TreeTooLargeError, match="limit of 57 "):
        make("openspiel:kuhn_poker", max_histories=57)


def test_missing_openspiel_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    monkeypatch.delitem(sys.modules, "jaxgames.adapters.openspiel")
    with pytest.raises(ImportError, match=r"pip install 'jaxgames\[openspiel\]'"):
        make("openspiel:kuhn_poker")
