"""Reinforcement learners: updates by hand, best responses, and the same numbers side by side."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling_cases import assert_side_by_side_is_one_by_one, compiled, random_table

from jaxgames.core import TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.histories import states_at
from jaxgames.registry import make
from solvers import evaluation
from solvers.sampling.decision_tree import policies
from solvers.sampling.episodes import Line
from train.rl import a2c, dqn, q_learning
from train.rl.a2c import A2c
from train.rl.dqn import Dqn
from train.rl.environment import build_environment, next_own, payoff_of_actor
from train.rl.q_learning import QLearning

SMALL = {"width": 32, "depth": 1}


@functools.cache
def environment(name):
    return build_environment(make(name))


def line():
    """Of Kuhn: player 0 passes, 1 bets, 0 folds; and one step after the end."""
    return Line(
        actor=jnp.array([0, 1, 0, TERMINAL], jnp.int32),
        state=jnp.array([0, 7, 4, 12], jnp.int32),
        action=jnp.array([0, 1, 0, 0], jnp.int32),
        told=None,
        payoffs=jnp.array([-1.0, 1.0]),
    )


def test_next_own_decisions_and_payoffs():
    np.testing.assert_array_equal(next_own(line(), num_players=2)[:3], [2, 4, 4])
    np.testing.assert_array_equal(payoff_of_actor(line()), [-1, 1, -1, 0])


def test_features_are_those_of_the_game():
    game, here = make("leduc_poker(ranks=2)"), environment("leduc_poker(ranks=2)")
    tree, begin = enumerate_game(game), 0
    for player in range(2):
        histories = tree.representative(player)[: tree.num_decisions[player]]
        for number in (0, len(histories) // 2, len(histories) - 1):
            (state,) = states_at(game, tree, histories[[number]])
            expected = game.features(jax.tree.map(jnp.asarray, state), player)
            np.testing.assert_array_equal(here.features[begin + number], expected)
        begin += tree.num_decisions[player]
    assert not np.asarray(here.features[-1]).any()


def test_q_learning_by_hand():
    """Half-way towards the best at the next own decision, or to the payoff."""
    here = environment("kuhn_poker")
    learner = q_learning.init(here)
    values = learner.values.at[4].set(jnp.array([-0.5, 0.75])).at[0].set(jnp.array([0.25, 9.0]))
    learner = q_learning.learned(
        here, learner.replace(values=values), line(), settings=QLearning(step_size=0.5)
    )
    np.testing.assert_allclose(learner.values[0], [0.5, 9.0])  # 0.25 to 0.75
    np.testing.assert_allclose(learner.values[7], [0.0, 0.5])  # 0 to 1
    np.testing.assert_allclose(learner.values[4], [-0.75, 0.75])  # -0.5 to -1
    assert int(learner.step) == 1


def test_replay_takes_transitions_in_place_of_the_oldest():
    replay = dqn.Replay(
        seen=jnp.array([4, 0], jnp.int32),
        state=jnp.full((2, 4), 9, jnp.int32),
        action=jnp.full((2, 4), 9, jnp.int32),
        following=jnp.full((2, 4), 9, jnp.int32),
        payoff=jnp.full((2, 4), 9.0),
    )
    found = dqn.stored(replay, jax.tree.map(lambda x: x[None], line()))
    np.testing.assert_array_equal(found.seen, [6, 1])  # of a capacity of 3
    np.testing.assert_array_equal(found.state[:, :3], [[9, 0, 4], [7, 9, 9]])
    np.testing.assert_array_equal(found.action[:, :3], [[9, 0, 0], [1, 9, 9]])
    np.testing.assert_array_equal(found.following[:, :3], [[9, 4, -1], [-1, 9, 9]])
    np.testing.assert_array_equal(found.payoff[:, :3], [[9, 0, -1], [1, 9, 9]])


def best_response(learner, policy_of, player, seed=5):
    """What `player` earns with what it learned against a fixed opponent, and could earn."""
    _, public, tree = compiled("kuhn_poker")
    opponent = policies(tree, random_table(tree, seed=seed))
    ends = np.cumsum((0, *tree.num_decisions))
    own = jnp.arange(tree.num_states + 1)
    own = (own >= ends[player]) & (own < ends[player + 1])
    fixed = jnp.where(own[:, None], 0, random_table(tree, seed=seed))
    learned = policy_of(learner(fixed))
    pair = tuple(learned[p] if p == player else opponent[p] for p in range(2))
    best = evaluation.best_response(public, opponent)
    best = tuple(best[p] if p == player else opponent[p] for p in range(2))
    values = (float(evaluation.expected_value(public, each)[player]) for each in (pair, best))
    return tuple(values)


@pytest.mark.parametrize("player", [0, 1])
def test_q_learning_finds_the_best_response(player):
    here, key = environment("kuhn_poker"), jax.random.key(1)
    run = functools.partial(q_learning.run, here, q_learning.init(here), key)
    settings = QLearning(step_size=0.005)
    found, best = best_response(
        lambda fixed: run(settings=settings, num_episodes=100_000, fixed=fixed),
        functools.partial(q_learning.greedy_policy, here),
        player,
    )
    assert found == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("player", [0, 1])
def test_a2c_finds_the_best_response(player):
    """Up to the softness of its policy; against others it may stay at a local optimum."""
    here, settings = environment("kuhn_poker"), A2c(**SMALL, critic_updates=2, entropy=0.0)
    start = a2c.init(here, jax.random.key(0), settings=settings, actor_rate=0.1, critic_rate=0.1)
    run = functools.partial(a2c.run, here, start, jax.random.key(1), settings=settings)
    found, best = best_response(
        lambda fixed: run(num_rounds=4000, fixed=fixed),
        functools.partial(a2c.current_policy, here, settings=settings),
        player,
        seed=2,
    )
    assert found == pytest.approx(best, abs=0.01)


def test_dqn_finds_the_best_response():
    here, settings = environment("kuhn_poker"), Dqn(**SMALL, exploration_rounds=2000)
    start = dqn.init(here, jax.random.key(0), settings=settings, rate=0.05)
    run = functools.partial(dqn.run, here, start, jax.random.key(1), settings=settings)
    found, best = best_response(
        lambda fixed: run(num_rounds=4000, fixed=fixed),
        functools.partial(dqn.greedy_policy, here, settings=settings),
        player=0,
    )
    assert found == pytest.approx(best, abs=0.02)


@pytest.mark.parametrize("algorithm", ["a2c", "dqn", "q_learning"])
def test_learners_side_by_side_are_learners_one_by_one(algorithm):
    here = environment("kuhn_poker")
    if algorithm == "q_learning":
        start, settings = q_learning.init(here), QLearning()
        run = functools.partial(q_learning.run, here, start, settings=settings, num_episodes=20)
    else:
        module, settings = {"a2c": (a2c, A2c(**SMALL)), "dqn": (dqn, Dqn(**SMALL))}[algorithm]
        start = module.init(here, jax.random.key(3), settings=settings)
        run = functools.partial(module.run, here, start, settings=settings, num_rounds=5)
    assert_side_by_side_is_one_by_one(run)


def test_learning_rates_go_side_by_side():
    here, settings, key = environment("kuhn_poker"), A2c(**SMALL), jax.random.key(0)

    @jax.vmap
    def learned(rate):
        start = a2c.init(here, key, settings=settings, actor_rate=rate)
        learner = a2c.run(here, start, key, settings=settings, num_rounds=3)
        return a2c.current_policy(here, learner, settings=settings)[0]

    still, moved = learned(jnp.array([0.0, 0.1]))
    assert np.abs(still - moved).max() > 1e-3


@pytest.mark.parametrize(
    ("make_settings", "message"),
    [
        (lambda: QLearning(step_size=0.0), "step_size=0.0 must be over 0 and at most 1"),
        (lambda: A2c(critic_updates=0), "critic_updates=0 must be at least 1"),
        (lambda: A2c(entropy=-1.0), "entropy=-1.0 must be at least 0"),
        (lambda: Dqn(capacity=0), "capacity=0 must be at least 1"),
        (lambda: Dqn(last_exploration=2.0), "last_exploration=2.0 must be from 0 to 1"),
    ],
)
def test_bad_settings(make_settings, message):
    with pytest.raises(ValueError, match=message):
        make_settings()
