"""The perfect player of Connect Four, by what is known of the game and by its scored positions."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.perfect_information import move_quality
from experiments.perfect_information.connect_four_positions import CELLS, read_positions
from experiments.perfect_information.perfect_player import perfect_player
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.core import TERMINAL
from solvers.perfect_information import alphazero_search, matches
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent

CENTRE = 3
SEARCH = AlphaZeroAgent(settings=AlphaZero(alphazero_search.zero, simulations=16))


@pytest.fixture(scope="module")
def game():
    return pgx_beliefs("connect_four")


@pytest.fixture(scope="module")
def perfect(game):
    return perfect_player(game)


def moves_in(perfect, states, number, *, seed=0):
    keys = jax.random.split(jax.random.key(seed), number)
    return perfect(keys, states, np.zeros(number, np.int32))


def copies(state, number):
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *x.shape)), state)


def test_its_first_move_is_the_centre(game, perfect):
    """The only one that wins (Allis 1988)."""
    assert (moves_in(perfect, copies(game.root(), 64), 64) == CENTRE).all()


def test_its_moves_are_best_and_all_of_these_are_drawn(game, perfect):
    """In positions of all lengths, whose scores minimax confirms towards the end."""
    positions = read_positions().every(7)
    states, number = move_quality.states_of(game, positions), len(positions.moves)
    drawn = np.stack([moves_in(perfect, states, number, seed=seed) for seed in range(40)])
    assert all(positions.is_best(moves).all() for moves in drawn)
    best = positions.scores == np.nanmax(positions.scores, axis=1, keepdims=True)
    few = best.sum(axis=1) <= 3  # of which each is missed once in ten million times
    assert (best.sum(axis=1)[few] > 1).sum() > 20
    for here in np.flatnonzero(few):
        assert {*drawn[:, here].tolist()} == {*np.flatnonzero(best[here]).tolist()}


@pytest.mark.slow
@pytest.mark.parametrize("opponent", ["itself", "random", "search"])
def test_as_the_first_player_it_always_wins(game, perfect, opponent):
    """And as the second it loses to itself alone, who begins in the centre."""
    agents = {"random": AlphaZeroAgent(), "search": SEARCH}
    other = perfect if opponent == "itself" else matches.chooser(game, agents[opponent])
    won = matches.play_pairs(
        game,
        jax.random.split(jax.random.key(1), 4),
        [perfect, other],
        np.zeros((4, 0), np.int32),
        batch=8,
    )
    np.testing.assert_array_equal(won[:, 0], 1)
    np.testing.assert_array_equal(won[:, 1], -1 if opponent == "itself" else 1)


def test_perfect_players_fill_the_board_but_for_one_place(game, perfect):
    """The first player wins with its last stone (Allis 1988; the score 1 of the first move)."""
    step = jax.jit(jax.vmap(lambda state, move: game.child(state, move)))
    actor = jax.jit(jax.vmap(lambda state: game.actor(state)))
    state = copies(game.root(), 1)
    for number in range(CELLS - 1):
        assert actor(state)[0] == number % 2
        state = step(state, moves_in(perfect, state, 1, seed=number))
    assert actor(state)[0] == TERMINAL
    assert state.score[0] == 1
    assert moves_in(perfect, state, 1) == 0  # as batches may ask of a game that is over


def test_what_it_refuses(game, monkeypatch):
    with pytest.raises(ValueError, match="game=pgx:tic_tac_toe must be pgx:connect_four"):
        perfect_player(pgx_beliefs("tic_tac_toe"))
    monkeypatch.setitem(sys.modules, "bitbully", None)
    with pytest.raises(ValueError, match="bitbully is not installed: pip install bitbully"):
        perfect_player(game)
