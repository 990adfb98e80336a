"""Games of pgx: perfect information against OpenSpiel, hidden chance by simulation."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest
from openspiel_parity import assert_same_game

from jaxgames import TERMINAL, check_game, make, random_playouts
from jaxgames.adapters.pgx import from_pgx, make_env
from jaxgames.adapters.pgx_simulator import PgxSimulator


@pytest.fixture(scope="module")
def tic_tac_toe():
    return make("pgx:tic_tac_toe")


@pytest.mark.slow
def test_tic_tac_toe_keeps_the_contract(tic_tac_toe):
    assert str(tic_tac_toe) == "pgx:tic_tac_toe"
    check_game(tic_tac_toe, num_playouts=16)


def test_tic_tac_toe_is_openspiels(tic_tac_toe):
    assert_same_game(tic_tac_toe, pyspiel.load_game("tic_tac_toe"), num_playouts=20, seed=0)


def test_connect_four_is_openspiels():
    game = from_pgx("connect_four")
    assert game.max_depth == 42
    assert_same_game(game, pyspiel.load_game("connect_four"), num_playouts=10, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["othello", "hex", "go_9x9", "gardner_chess", "chess"])
def test_larger_games_end_in_time_with_returns_of_sum_zero(name):
    playouts = random_playouts(from_pgx(name), jax.random.key(0), num_playouts=4)
    last = jax.tree.map(lambda leaf: np.asarray(leaf)[:, -1], playouts.states)
    assert (last.actor == TERMINAL).all()
    assert (last.returns.sum(axis=1) == 0).all()
    assert (abs(last.returns) <= 1).all()


def test_a_shorter_horizon_ends_the_game_in_a_draw():
    game = from_pgx(make_env("tic_tac_toe"), max_depth=2)
    state = game.init()
    for action in (4, 0):
        assert state.actor != TERMINAL
        state = game.step(state, jnp.int32(action))
    assert (state.actor, state.returns.tolist()) == (TERMINAL, [0, 0])
    assert game.information_state(state, 0).tolist() == [2, 4, 0]
    assert game.render(state) == "pgx:tic_tac_toe(max_depth=2): 4 0"
    again = make(str(game))
    assert (again.max_depth, str(again)) == (2, str(game))
    assert str(make("pgx:tic_tac_toe(max_depth=9)")) == "pgx:tic_tac_toe"
    with pytest.raises(ValueError, match="max_depth=3 is given again in the name"):
        from_pgx("tic_tac_toe(max_depth=2)", max_depth=3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tictactoe", "unknown pgx game 'tictactoe'; did you mean 'tic_tac_toe'"),
        ("2048", r"pgx:2048 has 1 player\(s\); from_pgx needs 2"),
        ("kuhn_poker", r"pgx:kuhn_poker deals at random inside init\(key\).*Simulator"),
        ("leduc_holdem", r"pgx:leduc_holdem deals at random inside init\(key\).*Simulator"),
    ],
)
def test_refusals(name, message):
    with pytest.raises(ValueError, match=message):
        make(f"pgx:{name}")


class Other:
    """Tic-tac-toe by another name, with a coin tossed in each step if `lucky`."""

    id, num_players = "other", 2

    def __init__(self, lucky):
        self.lucky, self.env = lucky, make_env("tic_tac_toe")
        self.init = self.env.init

    def step(self, state, action, key=None):
        after = self.env.step(state, action)
        if self.lucky:
            after = after.replace(terminated=jax.random.bernoulli(key) | after.terminated)
        return after


def test_other_environments_are_examined():
    with pytest.raises(ValueError, match="pgx:other draws at random inside step"):
        from_pgx(Other(lucky=True), max_depth=9)
    with pytest.raises(ValueError, match="pgx:other: max_depth must be given"):
        from_pgx(Other(lucky=False))
    with pytest.raises(ValueError, match="max_depth=0 must be at least 1"):
        from_pgx(Other(lucky=False), max_depth=0)
    assert from_pgx(Other(lucky=False), max_depth=9).max_depth == 9


class Rewarding(Other):
    """Who moves wins 1 from the other player at once."""

    def step(self, state, action, key=None):
        rewards = jnp.where(jnp.arange(2) == state.current_player, 1.0, -1.0)
        return self.env.step(state, action).replace(rewards=rewards)


def test_rewards_on_the_way_are_paid_at_the_end():
    game = from_pgx(Rewarding(lucky=False), max_depth=3)
    state, paid = game.init(), []
    for action in range(3):
        state = game.step(state, jnp.int32(action))
        paid.append(state.returns.tolist())
    assert paid == [[0, 0], [0, 0], [1, -1]]


# What the actions 0, 1, ... of pgx are in the native games (there: pass, bet; fold, call, raise).
SIMULATED = {"kuhn_poker": ("kuhn_poker", [1, 0]), "leduc_holdem": ("leduc_poker", [1, 2, 0])}


@pytest.mark.parametrize("name", SIMULATED)
def test_simulated_poker_is_the_native_game(name):
    """From the same deal, the same actions give the same turns, legal actions and returns."""
    simulator, (native, translation) = PgxSimulator(name), SIMULATED[name]
    game = make(native)
    start, play, step = jax.jit(simulator.init), jax.jit(simulator.step), jax.jit(game.step)
    generator = np.random.default_rng(0)
    for seed in range(12):
        key, deal_key = jax.random.split(jax.random.key(seed))
        state = start(deal_key)
        cards = np.asarray(state.pgx._cards).tolist()
        first = int(state.first)
        deal = [cards[first], cards[1 - first], *cards[2:]]
        if name == "leduc_holdem":  # ranks there, cards of two suits here
            deal = [2 * rank + deal[:place].count(rank) for place, rank in enumerate(deal)]
        ours = game.init()
        while True:
            while ours.actor < 0 and ours.actor != TERMINAL:  # the deal
                ours = step(ours, jnp.int32(deal.pop(0)))
            assert state.actor == ours.actor
            np.testing.assert_allclose(state.returns, ours.returns)
            np.testing.assert_array_equal(state.legal, np.asarray(ours.legal)[translation])
            if state.actor == TERMINAL:
                break
            action = int(generator.choice(np.flatnonzero(state.legal)))
            key, step_key = jax.random.split(key)
            state = play(state, jnp.int32(action), step_key)
            ours = step(ours, jnp.int32(translation[action]))


def test_simulator_stops_at_the_end_and_is_batched():
    simulator = PgxSimulator("kuhn_poker")
    assert (simulator.num_players, simulator.num_actions) == (2, 2)
    deal_key, *keys = jax.random.split(jax.random.key(0), 5)
    states = jax.vmap(simulator.init)(jax.random.split(deal_key, 64))
    assert (states.actor == 0).all()
    assert set(np.asarray(states.first).tolist()) == {0, 1}
    step = jax.jit(jax.vmap(simulator.step))
    bets = jnp.zeros(64, jnp.int32)
    for key in keys:
        states = step(states, bets, jax.random.split(key, 64))
    assert (states.actor == TERMINAL).all()
    assert not states.legal.any()
    winner = np.asarray(states.pgx._cards).argmax(axis=1) != np.asarray(states.first)
    expected = np.where(winner[:, None], [-2, 2], [2, -2])
    np.testing.assert_array_equal(states.returns, expected)


def test_missing_pgx_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pgx", None)
    with pytest.raises(ImportError, match="pip install pgx"):
        make("pgx:chess")


def test_a_game_is_searched_by_positions_of_the_same_length():
    beliefs = from_pgx("tic_tac_toe", max_depth=5).belief_game()
    assert beliefs.max_depth == 5
    assert beliefs.has_perfect_information
    assert not beliefs.merges_rows  # tables are made of histories
