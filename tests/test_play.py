"""Sampled play: chance by its probabilities, random playouts, refused moves."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames import (
    CHANCE,
    TERMINAL,
    checked_step,
    make,
    random_action,
    random_playouts,
    sample_chance,
)


def test_chance_is_sampled_by_its_probabilities():
    probs = np.array([0.1, 0.0, 0.6, 0.3])
    state = make("coin_toss").init().replace(chance_probs=jnp.asarray(probs, float))
    keys = jax.random.split(jax.random.key(0), 4000)
    seen = np.bincount(jax.vmap(lambda key: sample_chance(key, state))(keys), minlength=4)
    assert seen[1] == 0
    np.testing.assert_allclose(seen / 4000, probs, atol=4 * 0.5 / np.sqrt(4000))


def test_legal_actions_are_equally_likely():
    state = make("tic_tac_toe").init()
    legal = np.arange(9) % 3 == 0
    state = state.replace(legal=jnp.asarray(legal))
    keys = jax.random.split(jax.random.key(0), 3000)
    seen = np.bincount(jax.vmap(lambda key: random_action(key, state))(keys), minlength=9)
    np.testing.assert_allclose(seen / 3000, legal / 3, atol=4 * 0.5 / np.sqrt(3000))


def test_random_playouts_make_possible_moves_to_the_end():
    game = make("kuhn_poker")
    playouts = random_playouts(game, jax.random.key(0), num_playouts=500)
    states, moves = jax.tree.map(np.asarray, (playouts.states, playouts.moves))
    chex.assert_shape(moves, (500, game.max_depth))
    assert (states.actor[:, 0] == CHANCE).all()
    assert (states.actor[:, -1] == TERMINAL).all()
    for actor, possible in ((CHANCE, states.chance_probs > 0), (0, states.legal)):
        playout, time = np.nonzero(states.actor[:, :-1] == actor)
        assert possible[playout, time, moves[playout, time]].all()
    assert (moves[states.actor[:, :-1] == TERMINAL] == 0).all()
    # The uniform policies' value by OpenSpiel's expected_game_score is 1/8.
    returns = states.returns[:, -1, 0]
    assert returns.mean() == pytest.approx(0.125, abs=4 * returns.std() / np.sqrt(500))


def test_checked_step_gives_the_step():
    game = make("kuhn_poker")
    state = checked_step(game, game.init(), 2)
    assert state.cards.tolist() == [2, -1]


@pytest.mark.parametrize(
    ("moves", "illegal", "message"),
    [
        (
            [],
            3,
            r"3 is not a legal outcome of chance \(legal: 0 \(deal 0\), 1 \(deal 1\), 2 \(deal 2\)",
        ),
        ([1], 1, r"1 is not a legal outcome of chance \(legal: 0 \(deal 0\), 2 \(deal 2\)\)"),
        ([1, 0], 2, r"2 is not a legal action for player 0 \(legal: 0 \(pass\), 1 \(bet\)\)"),
        ([1, 0], -1, "-1 is not a legal action for player 0"),
        ([1, 0, 1, 0], 1, "action 1 is illegal: the game is over"),
    ],
)
def test_checked_step_refuses_an_illegal_move(moves, illegal, message):
    game = make("kuhn_poker")
    state = game.init()
    for move in moves:
        state = checked_step(game, state, move)
    with pytest.raises(ValueError, match=rf"kuhn_poker\(players=2\): {message}"):
        checked_step(game, state, illegal)
