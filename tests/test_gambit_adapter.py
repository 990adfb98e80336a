"""Gambit's .efg files: good ones against OpenSpiel and by hand, bad ones by their messages."""

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms.gambit import export_gambit

from jaxgames import TreeTooLargeError, check_game, make
from jaxgames.adapters.gambit import from_efg, parse_efg
from jaxgames.adapters.openspiel import from_openspiel
from jaxgames.core import CHANCE, TERMINAL

# Every feature of the format once: a comment, quotes in quotes, rationals, decimals, exponents,
# payoffs on the way, with and without commas, sets and outcomes named once, three players.
FEATURES = r"""EFG 2 R "Title with \"quotes\" and a \\" { "A" "B" "" }
"A comment
over two lines { p c t"

c "root" 7 "luck" { "good" 1/3 "bad" 2/3 } 5 "stage" { 1/2, -1, +.25 }
p "" 1 9 "mine" { "up" "down" } 0
p "" 2 9 "hers" { "l" "m" "r" } 3 "bonus" { 1e1 2.5e-1 0 }
t "" 5 t "" 0
t "" 4 "end" { -3 1.50 7/4 } p "" 2 9 0
t "" 4
t "" 0 t "" 4
p "" 1 9
0 t "" 0 t "" 3
"""
HEAD = 'EFG 2 R "" { "A" "B" }\n'
KUHN, BAYES = pyspiel.get_kuhn_poker_efg_data().strip(), pyspiel.get_sample_efg_data()


def parse(text, **options):
    return parse_efg(text, name="file", **options)


def test_every_feature_of_the_format():
    game = parse(FEATURES)
    tree = game.tree
    assert (game.title, game.players) == ('Title with "quotes" and a \\', ("A", "B", ""))
    assert tree.actor.tolist() == [CHANCE, 0, 0, 1, 1, *[TERMINAL] * 8]
    assert tree.parent.tolist() == [-1, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4]
    assert tree.parent_action.tolist() == [-1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 0, 1, 2]
    np.testing.assert_array_equal(tree.chance_prob[1:3], [1 / 3, 2 / 3])
    assert tree.num_decisions == (1, 1, 0)
    stage, bonus = (Fraction(1, 2), -1, Fraction(1, 4)), (10, Fraction(1, 4), 0)
    end, none = (-3, Fraction(3, 2), Fraction(7, 4)), (0, 0, 0)
    expected = [
        [stage],
        [stage, bonus],
        *[[stage, bonus, own] for own in (stage, none, end)],
        *[[stage, own] for own in (end, none, end)],
    ]
    # in breadth-first order the children of the bad branch come first
    np.testing.assert_array_equal(
        tree.returns[5:], [[float(sum(parts)) for parts in zip(*e, strict=True)] for e in expected]
    )
    assert (tree.returns[:5] == 0).all()


def test_names_are_shown():
    game = parse(FEATURES)
    state = game.init()
    assert [game.action_name(state, outcome) for outcome in (0, 1)] == ["good", "bad"]
    for move in (0, 1, 2):
        state = game.step(state, jnp.int32(move))
    assert game.render(state) == "file: chance good, player 0 down, player 1 r"
    twins = parse(HEAD + 'p "" 1 1 "" { "x" "x" } 0 t "" 0 t "" 0')
    assert [twins.action_name(twins.init(), action) for action in (0, 1)] == ["0 x", "1 x"]


@pytest.mark.parametrize(
    "name",
    [
        "kuhn_poker",
        "kuhn_poker(players=3)",
        pytest.param("leduc_poker", marks=pytest.mark.slow),
        "liars_dice(numdice=1,dice_sides=3)",
        "tiny_hanabi",
    ],
)
def test_openspiels_export_is_read_back(name, tmp_path):
    """Same histories, payoffs, probabilities and decisions; in poker even the same public states,
    though the file tells nothing of them."""
    spiel = pyspiel.load_game(name)
    path = tmp_path / "game.efg"
    path.write_text(export_gambit(spiel))
    ours, theirs = make(f"efg:{path}").tree, from_openspiel(spiel).tree
    assert ours.game == f"efg:{path}"
    for field in ("parent", "actor", "depth", "returns"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))
    np.testing.assert_allclose(ours.chance_prob, theirs.chance_prob, atol=1e-12)
    assert ours.num_decisions == theirs.num_decisions
    for player in range(ours.num_players):
        own = ours.actor == player
        np.testing.assert_array_equal(
            ours.information_state[own, player], theirs.information_state[own, player]
        )
    if "poker" in name or "dice" in name:
        np.testing.assert_array_equal(ours.information_state, theirs.information_state)
        np.testing.assert_array_equal(ours.public_state, theirs.public_state)


@pytest.mark.parametrize("text", [KUHN, BAYES], ids=["kuhn", "bayes"])
def test_openspiels_own_reader_agrees(text):
    ours, theirs = parse(text).tree, from_openspiel(pyspiel.load_efg_game(text)).tree
    for field in ("parent", "actor", "returns", "chance_prob"):
        np.testing.assert_allclose(getattr(ours, field), getattr(theirs, field), atol=1e-12)
    assert ours.num_decisions == theirs.num_decisions
    for player in range(2):
        own = ours.actor == player
        np.testing.assert_array_equal(
            ours.information_state[own, player], theirs.information_state[own, player]
        )


def test_read_game_keeps_the_contract():
    check_game(parse(KUHN), num_playouts=16)


def test_branches_of_probability_zero_are_left_out():
    chance = HEAD + 'c "" 1 "" { "a" 0 "b" 1 "c" 0.0 } 0\n'
    never = 'p "" 1 1 "" { "x" } 0 t "" 1 "" { 1 1 }\n'
    tree = parse(chance + never + 't "" 2 "" { 2 2 } t "" 0').tree
    assert tree.num_decisions == (0, 0)
    assert (tree.parent_action.tolist(), tree.returns.tolist()) == ([-1, 1], [[0, 0], [2, 2]])


def test_a_game_may_be_a_single_node():
    tree = parse(HEAD + 't "" 1 "" { 2 3 }').tree
    assert (tree.num_histories, tree.returns.tolist()) == (1, [[2, 3]])


@pytest.mark.slow
def test_truncation_is_refused_with_its_line():
    """No proper beginning of the file is a file; the message names its last line."""
    # cut between words only: half a number may be a number
    for end in [place for place, letter in enumerate(KUHN) if letter in " \n"][::4]:
        part = KUHN[:end].rstrip()
        with pytest.raises(ValueError, match=rf"^file, line {part.count(chr(10)) + 1}: expected"):
            parse(part)


T = 't "" 0 '
P = 'p "" 1 1 "s" { "x" "y" } 0 '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"line 1: expected 'EFG'.*; found the end of the file"),
        ("NFG 1 R", r"line 1: expected 'EFG'.*; found 'NFG'"),
        ("EFG 1 R", r"line 1: expected '2'.*; found '1'"),
        ("EFG 2 Q", r"line 1: expected 'R'; found 'Q'"),
        ('EFG 2 R "" { }', r"expected the name of a player in quotes; found '}'"),
        ('EFG 2 R "" { "A', r"line 1: expected a closing quote"),
        (HEAD + "\n\n x", r"line 4: expected a node: c, p or t; found 'x'"),
        (HEAD + "t 0", "expected the name of the node in quotes; found '0'"),
        (HEAD + P + T, r"line 2: expected a node: c, p or t; found the end of the file"),
        (HEAD + T + T, r"line 2: expected the end of the file: the tree is complete; found 't'"),
        (HEAD + 'p "" 3 1', r"expected the number of a player, from 1 to 2; found '3'"),
        (HEAD + 'p "" 0 1', r"expected the number of a player, from 1 to 2; found '0'"),
        (HEAD + 'p "" 1 0', r"expected the number of an information set, at least 1; found '0'"),
        (HEAD + 'p "" 1 1 0', r"name and actions of information set 1 of player 1, not defined"),
        (HEAD + 'p "" 1 1 "" { } 0', r"expected the name of an action in quotes; found '}'"),
        (HEAD + P + 'p "" 1 1 "s" { "y" "x" } 0', r"expected information set 1 of player 1 as it"),
        (HEAD + P + 'p "" 1 1 "z" { "x" "y" } 0', r'as it was defined before; found "z"'),
        (HEAD + 'c "" 1 "" { "a" 1/2 "b" 1/3 } 0', r"expected probabilities with sum 1, not 0.83"),
        (HEAD + 'c "" 1 "" { "a" 3/2 "b" -1/2 } 0', r"the probability of the action; found '-1/2'"),
        (HEAD + 'c "" 1 "" { "a" "b" } 0', r"expected the probability of the action; found \"b\""),
        (HEAD + 't "" 4', r"name and payoffs of outcome 4, not defined before"),
        (HEAD + 't "" 0 "" { 0 0 }', r"outcome 0 has no name and no payoffs"),
        (HEAD + 't "" 1 "" { 1 }', r"expected the payoff of player 2; found '}'"),
        (HEAD + 't "" 1 "" { 1,, 2 }', r"expected the payoff of player 2; found ','"),
        (HEAD + 't "" 1 "" { 1 2 3 }', r"expected '}', the end of the 2 payoffs"),
        (HEAD + 't "" 1 "" { 1 nan }', r"expected the payoff of player 2; found 'nan'"),
        (HEAD + 't "" 1 "" { 1/0 2 }', r"the payoff of player 1, a finite number; found '1/0'"),
        (HEAD + 't "" 1 "" { 1e999 2 }', r"the payoff of player 1, a finite number"),
        (HEAD + 't "" 1 "" { 1e999999999 2 }', r"the payoff of player 1; found '1e999999999'"),
        (HEAD + P + 't "" 1 "o" { 1 2 } t "" 1 "o" { 1 3 }', r"expected outcome 1 as it was"),
        (HEAD + 't "a\nb" "c\nd"', r"the number of an outcome; found \"c d\""),
        (HEAD + P + P + T * 3, r"information state of player 0 differ in own past"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse(text)
    assert str(caught.value).startswith("file")
    assert "\n" not in str(caught.value)


def test_imperfect_recall_is_refused():
    forgets = P + 'p "" 1 2 "t" { "x" "y" } 0 ' + T * 2 + 'p "" 1 2 0 ' + T * 2
    with pytest.raises(ValueError, match=r"player 0 differ in own past \(imperfect recall\)"):
        parse(HEAD + forgets)


def test_unreadable_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"efg file '.*nothing.efg': No such file"):
        from_efg(tmp_path / "nothing.efg")
    (tmp_path / "binary.efg").write_bytes(b"EFG 2 R \xff\xfe")
    with pytest.raises(ValueError, match="is not UTF-8"):
        make(f"efg:{tmp_path / 'binary.efg'}")


def test_too_large_files_are_refused():
    with pytest.raises(TreeTooLargeError, match="limit of 57 nodes"):
        parse(KUHN, max_histories=57)
    assert parse(KUHN, max_histories=58).tree.num_histories == 58


@pytest.mark.slow
def test_deep_trees_are_read():
    """Deeper than Python's recursion."""
    moves = [f'p "" {1 + k % 2} {1 + k} "" {{ "on" "off" }} 0' for k in range(3000)]
    tree = parse(HEAD + "\n".join([*moves, T * 3001])).tree
    assert (int(tree.depth[-1]), tree.num_histories) == (3000, 6001)
