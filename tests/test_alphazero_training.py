"""AlphaZero's training: examples and targets, games that go on, learning, several devices."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import other_devices
import pytest
from flax import nnx
from test_alphazero import GAME, SEARCH, decisions, positions, searches

from experiments.student_of_games import sog_tictactoe
from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from nets.value_prior import ValuePriorEvaluator, new_value_prior
from solvers.perfect_information import alphazero_search, duels, minimax
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.duels import Games
from train import alphazero_training as training
from train import data_sharding
from train.alphazero_training import AlphaZeroSettings
from train.learner import LearnerSettings


def test_searches_become_examples():
    """The policy to be learned is the share of visits, the value the first player's."""
    numbers, _ = decisions((3, 4), 8)
    agent = AlphaZeroAgent(settings=AlphaZero(alphazero_search.zero, simulations=30, noise=1.0))
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf[numbers]), positions().state)
    keys, moves = jax.random.split(jax.random.key(0), 8), jnp.full(8, 3)
    _, result = duels.player(GAME, agent)(jax.random.clone(keys), states, moves)
    _, notes = training._noting(GAME, agent, policy_weight=0.5)(keys, states, moves)
    np.testing.assert_allclose(notes.example.policy, result.visits / 30, rtol=1e-6)
    np.testing.assert_array_equal(notes.example.policy_weight, 0.5)
    sign = np.where(positions().actor[numbers] == 0, 1, -1)
    np.testing.assert_array_equal(notes.value, sign * np.asarray(result.value))


def test_value_targets():
    """Against the definition, game by game."""
    random = np.random.default_rng(0)
    lengths, payoffs = np.array([5, 9, 3]), np.array([1.0, -1.0, 0.0], np.float32)
    value = random.normal(size=(3, 9)).astype(np.float32)
    moved = np.arange(9) < lengths[:, None]
    notes = training.Note(example=None, sign=None, value=jnp.asarray(value))
    games = Games(payoffs=jnp.asarray(payoffs), moved=jnp.asarray(moved), notes=notes)
    for steps in (None, 1, 4, 20):
        targets = np.asarray(training.value_targets(games, steps))
        for game, length in enumerate(lengths):
            for turn in range(length):
                later = None if steps is None else turn + steps
                goes_on = later is not None and later < length
                assert targets[game, turn] == (value[game, later] if goes_on else payoffs[game])


def test_value_targets_of_games_in_a_row():
    """Of a game of four turns, one of two, and three turns of one that goes on after them."""
    values = np.arange(9, dtype=np.float32)[None, :]
    last = np.array([[3, 3, 3, 3, 5, 5, 20, 20, 20]], np.int32)
    returns = np.where(last == 3, 100, 200).astype(np.float32)
    for steps, expected in (
        (1, [1, 2, 3, 100, 5, 200, 7, 8]),
        (3, [3, 100, 100, 100, 200, 200]),
        (12, [100, 100, 100, 100, 200, 200]),
    ):
        targets = training._targets(*map(jnp.asarray, (returns, values, last)), steps)
        assert targets[0, : len(expected)].tolist() == expected


LINES = [[*range(i, i + 3)] for i in (0, 3, 6)] + [[i, i + 3, i + 6] for i in range(3)]
LINES += [[0, 4, 8], [2, 4, 6]]


@pytest.mark.slow
def test_games_that_go_on_teach_what_the_rules_say():
    """From the boards in the examples: games one after the other, none of them cut, with the
    payoffs that their last boards have."""
    games, moves, steps = 3, 4, 6
    settings = AlphaZeroSettings(
        search=AlphaZero(alphazero_search.zero, simulations=6, noise=1.0, concentration=0.3),
        learner=LearnerSettings(),
        games=games,
        updates=1,
        moves=moves,
    )
    self_play = training._new_self_play(GAME, games)
    step = jax.jit(functools.partial(training._go_on, settings=settings))
    found, ended = [[] for _ in range(games)], np.zeros(games, int)
    for number in range(steps):
        keys = jax.random.split(jax.random.key(number), games)
        self_play, examples, exists, turns = step((GAME, None), (keys, self_play))
        ended += np.asarray(turns.ended).sum(axis=1)
        for slot, place in np.argwhere(exists):
            board = np.asarray(examples.features[slot, place])[:18].reshape(9, 2)
            move = int(np.argmax(examples.policy[slot, place]))  # the most visited one was made
            found[slot].append((board, move, float(examples.value[slot, place])))
    for slot, history in enumerate(found):
        boards, actions, values = zip(*history, strict=True)
        begins = [number for number, board in enumerate(boards) if not board.any()]
        assert len(begins) == ended[slot] > 1
        for begin, end in itertools.pairwise([*begins, len(boards)]):
            for number in range(begin, end):
                after = boards[number].copy()  # own stones, and the opponent's
                after[actions[number], 0] = 1
                if number < end - 1:
                    np.testing.assert_array_equal(boards[number + 1], after[:, ::-1])
            won = any(after[line, 0].all() for line in LINES)
            assert won or after.sum() == 9
            assert [*values[begin:end]] == [
                won * (-1) ** (end - 1 - number) for number in range(begin, end)
            ]
        assert len(boards) + self_play.games.num_moves[slot] == steps * moves


def trained(
    steps, *, opponent=None, simulations=16, seed=0, games=32, moves=None, updates=8, mesh=None
):
    """A network's graph, and a run after `steps` steps with the metrics of the last."""
    graph, params = nnx.split(new_value_prior(GAME, seed=seed, width=64, depth=2))
    settings = AlphaZeroSettings(
        search=AlphaZero(
            ValuePriorEvaluator(graph),
            simulations=simulations,
            noise=0.25,
            sampled_moves=9,
        ),
        learner=LearnerSettings(
            learning_rate=3e-3,
            decay_rate=0.03,
            decay_steps=steps * updates,
            batch_size=128,
            capacity=20_000,
            max_uses=20,
            policy_weight=1.0,
            l2=1e-4,
        ),
        games=games,
        updates=updates,
        moves=moves,
    )
    state = training.init(GAME, params, jax.random.key(seed), settings=settings, mesh=mesh)
    for _ in range(steps):
        state, metrics = training.train_step(
            GAME, graph, state, settings=settings, opponent=opponent, mesh=mesh
        )
    return graph, state, metrics


def composed(agent):
    """The policy of an agent that plays its most visited actions, at all positions it can meet."""
    find = functools.partial(_most_visited, agent)
    return sog_tictactoe.composed(positions(), find, batch=64)


def _most_visited(agent, numbers, states):
    keys = jax.random.split(jax.random.key(0), len(numbers))
    return np.asarray(searches(agent, keys, states).visits).argmax(axis=1)


def gain_of_best_response(policy):
    """NashConv / 2; the value of the game is 0."""
    values = [
        minimax.best_response_values(positions(), policy, player=player)[0] for player in (0, 1)
    ]
    return (values[0] - values[1]) / 2


@pytest.mark.slow
@pytest.mark.parametrize("moves", [None, 8])
def test_training_teaches_to_win(moves):
    """A policy head without search wins more of random play after a little training."""
    graph, state, metrics = trained(25, moves=moves)
    assert metrics["moves"] > 5
    assert metrics["games"] > 20
    assert 0 < state.replay.size <= 25 * 32 * 9
    np.testing.assert_array_equal(state.learner.step, 25 * 8)
    head = AlphaZero(ValuePriorEvaluator(graph), simulations=1)
    untrained = nnx.split(new_value_prior(GAME, seed=0, width=64, depth=2))[1]
    points = [
        float(
            duels.duel(
                GAME,
                AlphaZeroAgent(params=params, settings=head),
                AlphaZeroAgent(),
                jax.random.key(1),
                num_games=512,
            ).mean()
        )
        for params in (untrained, state.learner.params)
    ]
    assert points[1] > points[0] + 0.2


@pytest.mark.slow
def test_training_comes_to_perfect_play():
    """Nothing beats the trained agent in any of the positions that it can meet."""
    graph, state, _ = trained(400, games=64)
    agent = AlphaZeroAgent(
        params=state.learner.params,
        settings=AlphaZero(ValuePriorEvaluator(graph), simulations=64),
    )
    assert gain_of_best_response(composed(agent)) == 0


@pytest.mark.slow
def test_learned_responses_come_to_the_exact_one():
    """Against an agent of little training; a response cannot win more than the exact one."""
    graph, state, _ = trained(5)
    evaluate = ValuePriorEvaluator(graph)
    agent = AlphaZeroAgent(params=state.learner.params, settings=AlphaZero(evaluate, simulations=8))
    exact = gain_of_best_response(composed(agent))
    assert exact > 0.5
    _, state, _ = trained(150, opponent=agent, seed=1)
    response = AlphaZeroAgent(
        params=state.learner.params, settings=AlphaZero(evaluate, simulations=64), opponent=agent
    )
    won = duels.duel(GAME, response, agent, jax.random.key(2), num_games=256).mean()
    assert 0.9 * exact <= won <= exact + 1e-6


def numbers():
    """Parameters after two steps on all devices, and duels, for the test below."""
    mesh = data_sharding.data_mesh()
    states = [trained(2, moves=moves, mesh=mesh)[1] for moves in (None, 6)]
    agents = AlphaZeroAgent(settings=SEARCH), AlphaZeroAgent()
    won = duels.duel(GAME, *agents, jax.random.key(0), num_games=8, mesh=mesh)
    arrays = jax.tree.leaves([state.learner.params for state in states])
    return np.concatenate([np.ravel(x) for x in (won, *arrays)])


@pytest.mark.slow
def test_two_devices_learn_and_play_what_one_does(tmp_path):
    spread = other_devices.numbers(__name__, tmp_path, devices=2)
    np.testing.assert_allclose(spread, numbers(), rtol=1e-3, atol=1e-5)


def test_bad_input():
    fine = dict(search=SEARCH, learner=LearnerSettings(), games=2, updates=1)
    for name, value in (("games", 0), ("updates", 0), ("td_steps", 0), ("moves", 0)):
        with pytest.raises(ValueError, match=f"{name}=0 must be"):
            AlphaZeroSettings(**fine | {name: value})
    hidden, settings = belief_table(make("kuhn_poker")), AlphaZeroSettings(**fine)
    with pytest.raises(ValueError, match=r"kuhn_poker.* has num_rows=\(3, 3\); allowed: \(1, 1\)"):
        training.init(hidden, {}, jax.random.key(0), settings=settings)
    graph, params = nnx.split(new_value_prior(GAME, seed=0, width=2, depth=1))
    fine["learner"] = LearnerSettings(batch_size=8, capacity=64)
    for name in ("td_steps", "moves"):
        settings = AlphaZeroSettings(**fine | {name: 3})
        state = training.init(GAME, params, jax.random.key(0), settings=settings)
        with pytest.raises(ValueError, match=f"{name}=3 must be None against an opponent"):
            training.train_step(GAME, graph, state, settings=settings, opponent=AlphaZeroAgent())
