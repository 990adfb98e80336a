"""Liar's dice against OpenSpiel, and by a plain reference where OpenSpiel has no such game."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest
from openspiel_parity import assert_same_game, assert_same_tree

from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.liars_dice import LiarsDice
from jaxgames.registry import make


@pytest.mark.parametrize(("dice", "sides"), [(1, 6), (2, 3), (5, 6)])
def test_random_playouts_agree_with_openspiel(dice, sides):
    game = LiarsDice(dice=dice, sides=sides)
    theirs = pyspiel.load_game(f"liars_dice(numdice={dice},dice_sides={sides})")
    assert_same_game(game, theirs, num_playouts=60, seed=dice)


def test_whole_tree_agrees_with_openspiel():
    theirs = pyspiel.load_game("liars_dice(dice_sides=4)")
    tree = assert_same_tree(LiarsDice(sides=4), theirs)
    assert tree.num_decisions == (512, 512)
    assert int((tree.actor == TERMINAL).sum()) == 4_080


def test_whole_tree_of_several_dice_agrees_with_openspiel():
    """OpenSpiel also sorts the dice, but shows the first one before the others are rolled."""
    theirs = pyspiel.load_game("liars_dice(numdice=2,dice_sides=2)")
    assert_same_tree(LiarsDice(dice=2, sides=2), theirs, information="decisions")


@pytest.mark.parametrize(
    ("sides", "terminals", "information_states"), [(5, 25_575, 5_120), (6, 147_420, 24_576)]
)
def test_known_counts(sides, terminals, information_states):
    tree = enumerate_game(LiarsDice(sides=sides))
    assert int((tree.actor == TERMINAL).sum()) == terminals
    assert sum(tree.num_decisions) == information_states
    assert int((tree.actor >= 0).sum()) == sides**2 * 2 ** (2 * sides)
    assert int((tree.actor == CHANCE).sum()) == 1 + sides


def test_players_do_not_look_before_their_last_die():
    game = LiarsDice(dice=2)
    observe = [jax.jit(functools.partial(game.information_state, player=p)) for p in range(2)]

    def keys(*rolls):
        return [np.asarray(key(play(game, rolls))).tolist() for key in observe]

    assert keys(3) == keys(4)
    assert keys(3, 4, 0) == keys(4, 3, 1)
    assert keys(3, 4, 0)[0] != keys(3, 3, 0)[0]
    assert keys(3, 4, 0)[1] == keys(3, 3, 0)[1]


def test_three_players_bid_and_call_in_turn():
    game = LiarsDice(dice=2, sides=4, players=3)
    step, _ = jitted(game)
    generator = np.random.default_rng(0)
    for _ in range(30):
        dice = generator.integers(0, 4, 6)
        state = play(game, dice)
        bids = []
        while int(state.actor) != TERMINAL:
            assert int(state.actor) == len(bids) % 3
            legal = np.flatnonzero(np.asarray(state.legal))
            assert legal.tolist() == list(range(bids[-1] + 1 if bids else 0, 25 if bids else 24))
            bids.append(int(generator.choice(legal)))
            state = step(state, jnp.int32(bids[-1]))
        quantity, face = bids[-2] // 4 + 1, bids[-2] % 4
        holds = sum(die in (face, 3) for die in dice) >= quantity
        expected = np.zeros(3)
        expected[(len(bids) - 2) % 3] = 1 if holds else -1
        expected[(len(bids) - 1) % 3] = -1 if holds else 1
        np.testing.assert_array_equal(np.asarray(state.returns), expected)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [("players=1", "players=1"), ("dice=0", "dice=0"), ("sides=31", "sides=31")],
)
def test_illegal_parameters_are_refused(parameters, named):
    with pytest.raises(ValueError, match=named):
        make(f"liars_dice({parameters})")


def test_text():
    game = LiarsDice(dice=2)
    assert game.action_name(play(game, []), 3) == "roll 4"
    state = play(game, [3, 0, 5])
    assert game.render(state) == "dice: 1 4 | 6  bids: -"
    state = play(game, [3, 0, 5, 5, 7, 24])
    assert game.render(state) == "dice: 1 4 | 6 6  bids: 2-2 liar"
    assert game.action_name(play(game, [3, 0, 5, 5]), 7) == "2-2"


def play(game, moves):
    step, state = jitted(game)
    for move in moves:
        state = step(state, jnp.int32(move))
    return state


@functools.cache
def jitted(game):
    return jax.jit(game.step), jax.jit(game.init)()
