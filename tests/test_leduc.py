"""Leduc poker against OpenSpiel: its own Leduc, and universal_poker for other decks and stakes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest
from openspiel_parity import assert_same_game, assert_same_tree

from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.leduc import CALL, FOLD, RAISE, LeducPoker
from jaxgames.registry import make


@pytest.mark.parametrize("players", [2, pytest.param(3, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("suits", ["suit_isomorphism=false", "suit_isomorphism=true"])
def test_random_playouts_agree_with_openspiel(players, suits):
    spec = f"leduc_poker(players={players},{suits})"
    assert_same_game(make(spec), pyspiel.load_game(spec), num_playouts=40, seed=players)


@pytest.mark.parametrize(("players", "max_raises"), [(2, 3), (3, 1)])
def test_other_decks_and_stakes_agree_with_universal_poker(players, max_raises):
    """Three suits make ties frequent; universal_poker ranks hands by a general evaluator."""
    game = LeducPoker(players=players, ranks=2, suits=3, raise_sizes=(3, 5), max_raises=max_raises)
    blinds, stacks = " ".join(["1"] * players), " ".join(["1000"] * players)
    theirs = pyspiel.load_game(
        f"universal_poker(betting=limit,numPlayers={players},numRounds=2,blind={blinds},"
        f"stack={stacks},firstPlayer=1 1,raiseSize=3 5,maxRaises={max_raises} {max_raises},"
        "numSuits=3,numRanks=2,numHoleCards=1,numBoardCards=0 1)"
    )
    assert_same_game(game, theirs, num_playouts=60, seed=0)


def test_whole_tree_agrees_with_openspiel():
    tree = assert_same_tree(
        make("leduc_poker"), pyspiel.load_game("leduc_poker"), information="before_the_end"
    )
    assert counts(tree) == (157, 3780, 5520)
    assert tree.num_histories == 9457
    assert tree.num_decisions == (468, 468)


def test_whole_tree_with_suit_isomorphism_agrees_with_openspiel():
    spec = "leduc_poker(suit_isomorphism=true)"
    tree = assert_same_tree(make(spec), pyspiel.load_game(spec), information="before_the_end")
    assert counts(tree) == (49, 774, 1116)
    assert tree.num_decisions == (144, 144)


@pytest.mark.slow
def test_whole_tree_of_three_players_agrees_with_openspiel():
    spec = "leduc_poker(players=3,suit_isomorphism=true)"
    assert_same_tree(make(spec), pyspiel.load_game(spec), information="before_the_end")


@pytest.mark.slow
def test_three_player_counts():
    """Every deal of three of the eight cards leads to the same betting; counted by OpenSpiel."""
    state = pyspiel.load_game("leduc_poker(players=3)").new_initial_state()
    for card in (0, 1, 2):
        state.apply_action(card)
    below = np.zeros(3, int)
    stack = [state]
    while stack:
        state = stack.pop()
        below[0 if state.is_chance_node() else 2 if state.is_terminal() else 1] += 1
        stack.extend(state.child(action) for action in state.legal_actions())
    expected = 8 * 7 * 6 * below
    expected[0] += 1 + 8 + 8 * 7
    assert counts(enumerate_game(make("leduc_poker(players=3)"))) == tuple(expected)


def test_three_way_tie_after_a_fold_splits_the_pot():
    game = make("leduc_poker(players=4,suit_isomorphism=true,suits=4)")
    bets = [RAISE, CALL, FOLD, CALL, CALL, CALL, CALL]
    state = play(game, [1, 1, 0, 1, *bets[:4], 2, *bets[4:]])
    assert int(state.actor) == TERMINAL
    np.testing.assert_allclose(np.asarray(state.returns), [1 / 3, 1 / 3, -1, 1 / 3], atol=1e-6)


def test_ranks_follow_the_players_by_default():
    assert make("leduc_poker(players=3)") == make("leduc_poker(players=3,ranks=4)")
    assert make(str(make("leduc_poker(raise_sizes=1/5)"))).raise_sizes == (1, 5)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ("players=1", "players=1"),
        ("ranks=1,suits=2", "ranks=1"),
        ("raise_sizes=2", "raise_sizes"),
        ("raise_sizes=2/0", "raise_sizes"),
        ("max_raises=-1", "max_raises=-1"),
    ],
)
def test_illegal_parameters_are_refused(parameters, named):
    with pytest.raises(ValueError, match=named):
        make(f"leduc_poker({parameters})")


def test_text():
    game = make("leduc_poker")
    assert game.action_name(play(game, []), 3) == "deal 1b"
    state = play(game, [0, 5, RAISE, CALL])
    assert int(state.actor) == CHANCE
    assert game.render(state) == "cards: 0a 2b  public: ?  actions: rc  paid: 3 3"
    state = play(game, [0, 5, RAISE, CALL, 2])
    assert [game.action_name(state, action) for action in range(3)] == ["fold", "call", "raise"]
    assert "public: 1a" in game.render(state)


def play(game, moves):
    step, state = jitted(game)
    for move in moves:
        state = step(state, jnp.int32(move))
    return state


@functools.cache
def jitted(game):
    return jax.jit(game.step), jax.jit(game.init)()


def counts(tree):
    """Chance, decision and terminal histories."""
    kinds = (tree.actor == CHANCE, tree.actor >= 0, tree.actor == TERMINAL)
    return tuple(int(kind.sum()) for kind in kinds)
