"""Matches of agents in pairs of games: the games of the rules, whatever is played beside them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_alphazero import by_the_rules

from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs import belief_table
from jaxgames.core import TERMINAL
from jaxgames.registry import make
from solvers.perfect_information import alphazero_search, matches
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.growing_tree_agent import GrowingTreeAgent
from solvers.perfect_information.positions import legal_actions
from solvers.search import leaf_evaluators
from solvers.search.search_state import GrowingTreeCfr

GAME = pgx_beliefs("tic_tac_toe")
ALPHAZERO = AlphaZeroAgent(settings=AlphaZero(alphazero_search.zero, simulations=30))
SEARCH = GrowingTreeCfr(leaf_evaluators.zero, simulations=30, max_path=1, expand=1)
STUDENT = GrowingTreeAgent(settings=SEARCH)
NO_OPENING = np.zeros((1, 0), np.int32)


def scripted(pick):
    """A player that takes the first legal action (0) or the last one (-1)."""
    return lambda keys, states, num_moves: jnp.asarray(
        [np.flatnonzero(legal)[pick] for legal in legal_moves(states)], jnp.int32
    )


@jax.jit
def legal_moves(states):
    # a place of a batch that is not needed holds any position, which may be at its end
    legal = jax.vmap(functools.partial(legal_actions, GAME))(states)
    return legal | ~jnp.any(legal, axis=1, keepdims=True)


def played(players, openings, *, batch, seed=0, numbers=slice(None)):
    keys = jax.random.split(jax.random.key(seed), len(openings))[numbers]
    return matches.play_pairs(GAME, keys, players, openings[numbers], batch=batch)


@pytest.fixture(scope="module")
def openings():
    return matches.draw_openings(GAME, number=12, length=2, seed=0)


def test_games_are_those_of_the_rules():
    won = played([scripted(0), scripted(-1)], NO_OPENING, batch=1)
    assert won.tolist() == [[by_the_rules([0, -1])[1], -by_the_rules([-1, 0])[1]]]
    won = played([scripted(0), scripted(0)], NO_OPENING, batch=1)
    assert won.tolist() == [[by_the_rules([0, 0])[1], -by_the_rules([0, 0])[1]]]


@pytest.mark.parametrize(
    "agent",
    [AlphaZeroAgent(), ALPHAZERO, pytest.param(STUDENT, marks=pytest.mark.slow)],
    ids=["uniform", "alphazero", "student_of_games"],
)
def test_games_alone_and_in_batches_and_with_swapped_colours(agent, openings):
    """Against an agent that draws; and an agent gets nothing from itself."""
    players = [matches.chooser(GAME, each) for each in (agent, AlphaZeroAgent())]
    together = played(players, openings, batch=8)
    assert len(np.unique(together)) > 1
    for number in (0, 7):
        alone = played(players, openings, batch=2, numbers=slice(number, number + 1))
        np.testing.assert_array_equal(alone, together[number : number + 1])
    swapped = played(players[::-1], openings, batch=8)
    np.testing.assert_array_equal(swapped, -together[:, ::-1])
    own = played(players[:1] * 2, openings, batch=8)
    np.testing.assert_array_equal(own.sum(axis=1), 0)


@pytest.mark.slow
def test_searches_beat_random_play():
    """Even after the worst openings; 30 simulations see all that wins or loses at once."""
    openings = matches.draw_openings(GAME, number=9, length=1, seed=1)
    for agent in (ALPHAZERO, STUDENT):
        players = [matches.chooser(GAME, each) for each in (agent, AlphaZeroAgent())]
        assert played(players, openings, batch=8).mean() > 0.5


def test_nobody_is_asked_about_a_game_that_is_over(openings):
    """Batches are full until fewer games are left than two batches, and small for the last."""
    asked = []

    def draws(keys, states, num_moves):
        actors = np.asarray(jax.vmap(GAME.actor)(states))
        asked.append((len(actors), int(np.sum(actors != TERMINAL))))
        return matches.chooser(GAME, AlphaZeroAgent())(keys, states, num_moves)

    played([draws, draws], openings, batch=4)
    rooms = np.array([room for room, _ in asked])
    assert (rooms[:15] == 4).all()
    assert [matches._room(n, 32, 2) for n in (32, 9, 8, 3, 2, 1)] == [32, 32, 8, 8, 2, 2]


def test_openings_are_different_positions_of_the_game():
    openings = matches.draw_openings(GAME, number=20, length=3, seed=3)
    fewer = matches.draw_openings(GAME, number=5, length=3, seed=3)
    np.testing.assert_array_equal(fewer, openings[:5])
    positions = {(frozenset(line[::2]), line[1]) for line in openings.tolist()}
    assert len(positions) == 20
    assert all(len({*line}) == 3 for line in openings.tolist())
    every = matches.draw_openings(GAME, number=72, length=2, seed=0)
    assert len({*map(tuple, every.tolist())}) == 72  # all there are
    with pytest.raises(ValueError, match="only 72 of number=73 different openings"):
        matches.draw_openings(GAME, number=73, length=2, seed=0)
    with pytest.raises(ValueError, match="length=-1 at least 0"):
        matches.draw_openings(GAME, number=1, length=-1, seed=0)


@pytest.mark.parametrize(
    ("line", "message"),
    [([0, 0], r"openings\[1\] has an illegal move"), ([4, 9], r"openings\[1\] has an illegal")],
)
def test_bad_openings_are_refused(line, message):
    players = [scripted(0)] * 2
    with pytest.raises(ValueError, match=message):
        played(players, np.array([[0, 1], line]), batch=1)
    with pytest.raises(ValueError, match="the game is over after it"):
        played(players, np.array([[0, 3, 1, 4, 2]]), batch=1)
    with pytest.raises(ValueError, match="batch=0 must be a multiple of devices=1"):
        played(players, NO_OPENING, batch=0)


def test_games_with_hidden_information_are_refused():
    table = belief_table(make("kuhn_poker"))
    with pytest.raises(ValueError, match=r"allowed: \(1, 1\), perfect information"):
        matches.draw_openings(table, number=1, length=1, seed=0)


def test_the_shares_of_uniform_play():
    """In tic-tac-toe whoever begins wins 58.5 % of the games, and loses 28.8 %."""
    number = 1_000
    uniform = matches.chooser(GAME, AlphaZeroAgent())
    keys = jax.random.split(jax.random.key(0), number)
    generator = np.random.default_rng(0)

    def drawn(_, states, num_moves):
        legal = np.asarray(legal_moves(states))
        return jnp.asarray(np.where(legal, generator.uniform(size=legal.shape), -1).argmax(axis=1))

    openings = np.zeros((number, 0), np.int32)
    won = matches.play_pairs(GAME, keys, [uniform, drawn], openings, batch=2 * number)
    for mine, begins in ((won[:, 0], 1), (won[:, 1], -1)):
        shares = [(mine == begins).mean(), (mine == -begins).mean()]
        np.testing.assert_allclose(shares, [0.5849, 0.2881], atol=0.05)
