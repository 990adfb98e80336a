"""Reinforcement learners: updates by hand, best responses, and the same numbers side by side."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling_cases import (
    KUHN_STATES,
    assert_side_by_side_is_one_by_one,
    compiled,
    kuhn_index,
    random_table,
)

from jaxgames.core import TERMINAL
from jaxgames.game_tree import enumerate_game, states_at
from jaxgames.registry import make
from solvers import evaluation
from solvers.sampling.decision_tree import split_by_player
from solvers.sampling.episodes import Trajectory
from train.rl import a2c, dqn, q_learning
from train.rl.a2c import A2c
from train.rl.dqn import Dqn
from train.rl.environment import (
    build_environment,
    next_own_decision,
    payoff_of_actor,
    rules_environment,
)
from train.rl.q_learning import QLearning

KUHN = make("kuhn_poker")
SMALL = {"width": 32, "depth": 1}


@functools.cache
def environment(name):
    return build_environment(make(name))


def line():
    """Of Kuhn: player 0 passes, 1 bets, 0 folds; and one step after the end."""
    return Trajectory(
        actor=jnp.array([0, 1, 0, TERMINAL], jnp.int32),
        state=jnp.array([0, 7, 4, 12], jnp.int32),
        action=jnp.array([0, 1, 0, 0], jnp.int32),
        recorded=jnp.array([0, 7, 4, 12], jnp.int32),
        payoffs=jnp.array([-1.0, 1.0]),
    )


def test_next_own_decisions_and_payoffs():
    np.testing.assert_array_equal(next_own_decision(line(), num_players=2)[:3], [2, 4, 4])
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
    learner = q_learning.update_from_trajectory(
        here, learner.replace(values=values), line(), settings=QLearning(step_size=0.5)
    )
    np.testing.assert_allclose(learner.values[0], [0.5, 9.0])  # 0.25 to 0.75
    np.testing.assert_allclose(learner.values[7], [0.0, 0.5])  # 0 to 1
    np.testing.assert_allclose(learner.values[4], [-0.75, 0.75])  # -0.5 to -1
    assert int(learner.step) == 1


def test_replay_takes_transitions_in_place_of_the_oldest():
    replay = dqn.DqnReplay(
        count=jnp.array([4, 0], jnp.int32),
        seen=jnp.full((2, 4), 9, jnp.int32),
        action=jnp.full((2, 4), 9, jnp.int32),
        following=jnp.full((2, 4), 9, jnp.int32),
        last=jnp.zeros((2, 4), bool),
        payoff=jnp.full((2, 4), 9.0),
    )
    after = dqn.add_transitions(replay, jax.tree.map(lambda x: x[None], line()))
    np.testing.assert_array_equal(after.count, [6, 1])  # of a capacity of 3
    np.testing.assert_array_equal(after.seen[:, :3], [[9, 0, 4], [7, 9, 9]])
    np.testing.assert_array_equal(after.action[:, :3], [[9, 0, 0], [1, 9, 9]])
    np.testing.assert_array_equal(after.last[:, :3], [[0, 0, 1], [1, 0, 0]])
    assert int(after.following[0, 1]) == 4
    np.testing.assert_array_equal(after.payoff[:, :3], [[9, 0, -1], [1, 9, 9]])


def test_of_more_transitions_than_there_is_room_for_the_last_ones_stay():
    three = jax.tree.map(lambda x: jnp.stack([x] * 3), line())
    replay = dqn.DqnReplay(
        count=jnp.zeros(2, jnp.int32),
        **{name: jnp.zeros((2, 6), jnp.int32) for name in ("seen", "action", "following")},
        last=jnp.zeros((2, 6), bool),
        payoff=jnp.zeros((2, 6)),
    )
    after = dqn.add_transitions(replay, three)
    np.testing.assert_array_equal(after.count, [6, 3])  # of a capacity of 5
    np.testing.assert_array_equal(after.seen[:, :5], [[4, 4, 0, 4, 0], [7, 7, 7, 0, 0]])
    np.testing.assert_array_equal(after.last[:, :5], [[1, 1, 0, 1, 0], [1, 1, 1, 0, 0]])


@pytest.mark.slow
def test_who_has_not_acted_learns_nothing():
    """In coin toss player 0 may sell at once."""
    here, settings = environment("coin_toss"), Dqn(**SMALL, batch=1, capacity=5)
    start = dqn.init(here, jax.random.key(0), settings=settings)
    with pytest.raises(ValueError, match=r"first_exploration=1.5 must be from 0 to 1"):
        dqn.init(here, jax.random.key(0), settings=settings, first_exploration=1.5)
    run = functools.partial(dqn.run, here, start, settings=settings, num_rounds=1)
    after = jax.vmap(lambda key: run(key))(jax.random.split(jax.random.key(1), 16))
    moved = [
        np.abs(np.asarray(new) - np.asarray(old)).reshape(16, 2, -1).max(axis=-1)
        for new, old in zip(*map(jax.tree.leaves, (after.params, start.params)), strict=True)
    ]
    acted = np.asarray(after.replay.count) > 0
    assert 0 < acted[:, 1].sum() < 16
    np.testing.assert_array_equal(np.max(moved, axis=0) > 0, acted)


def by_rules():
    """Kuhn by its rules, and its row of every information state of the tree."""
    here = rules_environment(KUHN, kuhn_index, num_states=KUHN_STATES)
    return here, [np.asarray(jax.vmap(here.game.at)(states).state) for states in nodes_of_kuhn()]


def nodes_of_kuhn():
    """By player a state at each information state of the tree."""
    tree, nodes = enumerate_game(KUHN), []
    for player in range(2):
        histories = tree.representative(player)[: tree.num_decisions[player]]
        nodes.append(jax.tree.map(lambda *x: jnp.stack(x), *states_at(KUHN, tree, histories)))
    return nodes


def best_response(run, policy_of, *, compiled_game, player, seed=5):
    """What `player` earns with what it learned against a fixed opponent, and could earn.

    The learner is `run(environment, fixed=)`, its table or policy `policy_of(environment, learner)`
    where the game is compiled, `policy_of(environment, learner, node)` where it is not.
    """
    _, public, tree = compiled("kuhn_poker")
    opponent = split_by_player(tree, random_table(tree, seed=seed))
    other = 1 - player
    if compiled_game:
        here, ends = environment("kuhn_poker"), np.cumsum((0, *tree.num_decisions))
        rows = np.arange(ends[other], ends[other + 1])
    else:
        here, each = by_rules()
        rows = each[other]
    fixed = jnp.zeros((here.game.num_states + 1, 2)).at[rows].set(opponent[other])
    learner = run(here, fixed=fixed)
    if compiled_game:
        learned = policy_of(here, learner)
    else:
        asked = jax.vmap(lambda state: policy_of(here, learner, here.game.at(state)))
        learned = [asked(states) for states in nodes_of_kuhn()]
    pair = tuple(learned[p] if p == player else opponent[p] for p in range(2))
    best = evaluation.best_response(public, opponent)
    best = tuple(best[p] if p == player else opponent[p] for p in range(2))
    values = (float(evaluation.expected_value(public, each)[player]) for each in (pair, best))
    return tuple(values)


# The two are the same environment, as a test below asserts.
slow_by_rules = pytest.param(False, marks=pytest.mark.slow, id="by rules")
either = pytest.mark.parametrize(
    "compiled_game", [pytest.param(True, id="compiled"), slow_by_rules]
)


@either
@pytest.mark.parametrize("player", [0, 1])
def test_q_learning_finds_the_best_response(player, compiled_game):
    settings = QLearning(step_size=0.005)

    def run(here, fixed):
        start, key = q_learning.init(here), jax.random.key(1)
        return q_learning.run(
            here, start, key, settings=settings, num_episodes=100_000, fixed=fixed
        )

    policy = q_learning.greedy_policy if compiled_game else q_learning.policy_at
    won, best = best_response(run, policy, compiled_game=compiled_game, player=player)
    assert won == pytest.approx(best, abs=1e-5)


@either
@pytest.mark.parametrize("player", [0, 1])
def test_a2c_finds_the_best_response(player, compiled_game):
    """Up to the softness of its policy; against others it may stay at a local optimum."""
    settings = A2c(**SMALL, critic_updates=2, entropy=0.0)

    def run(here, fixed):
        key = jax.random.key(0)
        start = a2c.init(here, key, settings=settings, actor_rate=0.1, critic_rate=0.1)
        key = jax.random.key(1)
        return a2c.run(here, start, key, settings=settings, num_rounds=4000, fixed=fixed)

    policy = a2c.current_policy if compiled_game else a2c.policy_at
    policy = functools.partial(policy, settings=settings)
    won, best = best_response(run, policy, compiled_game=compiled_game, player=player, seed=2)
    assert won == pytest.approx(best, abs=0.01)


@either
def test_dqn_finds_the_best_response(compiled_game):
    settings = Dqn(**SMALL, exploration_rounds=2000)

    def run(here, fixed):
        start = dqn.init(here, jax.random.key(0), settings=settings, rate=0.05)
        key = jax.random.key(1)
        return dqn.run(here, start, key, settings=settings, num_rounds=4000, fixed=fixed)

    policy = dqn.greedy_policy if compiled_game else dqn.policy_at
    policy = functools.partial(policy, settings=settings)
    won, best = best_response(run, policy, compiled_game=compiled_game, player=0)
    assert won == pytest.approx(best, abs=0.02)


@pytest.mark.slow
def test_what_is_seen_by_rules_is_what_is_compiled():
    here, (mine, _) = environment("kuhn_poker"), nodes_of_kuhn()
    by_its_rules = rules_environment(KUHN, num_states=16)
    seen = jax.vmap(lambda state: by_its_rules.observe(by_its_rules.game.at(state)))(mine)
    features, legal = here.encoded(np.arange(len(mine.actor)))
    np.testing.assert_array_equal(seen.features, features)
    np.testing.assert_array_equal(seen.legal, legal)
    assert by_its_rules.num_features == here.num_features


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["a2c", "dqn", "q_learning"])
def test_games_too_large_to_list(algorithm):
    """In limit hold'em: learners step, ask only for legal actions, and say what cannot be had."""
    game = make("limit_holdem")
    here = rules_environment(game, num_states=512)
    node = here.game.at(here.game.start(jnp.array([0.5, 0.25])))
    key = jax.random.key(0)
    if algorithm == "q_learning":
        settings = QLearning()
        learner = q_learning.run(
            here, q_learning.init(here), key, settings=settings, num_episodes=64
        )
        policy = q_learning.policy_at(here, learner, node)
        assert np.count_nonzero(learner.values) > 64  # more than a decision is learned an episode
        table = functools.partial(q_learning.greedy_policy, here, learner)
    else:
        module, settings = {
            "a2c": (a2c, A2c(**SMALL, critic_updates=1)),
            "dqn": (dqn, Dqn(**SMALL, capacity=500)),
        }[algorithm]
        start = module.init(here, key, settings=settings)
        learner = module.run(here, start, key, settings=settings, num_rounds=4)
        chex.assert_tree_all_finite(learner.params)
        policy = module.policy_at(here, learner, node, settings=settings)
        ask = {"a2c": a2c.current_policy, "dqn": dqn.greedy_policy}[algorithm]
        table = functools.partial(ask, here, learner, settings=settings)
    assert float(jnp.sum(policy)) == pytest.approx(1)
    assert not np.any(np.asarray(policy)[~np.asarray(node.place.legal)])
    with pytest.raises(ValueError, match=r"max_raises.* is played by its rules"):
        table()


@pytest.mark.slow
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
        (lambda: QLearning(step_size=0.0), "step_size=0.0 must be above 0 and at most 1"),
        (lambda: A2c(critic_updates=0), "critic_updates=0 must be at least 1"),
        (lambda: A2c(entropy=-1.0), "entropy=-1.0 must be at least 0"),
        (lambda: Dqn(capacity=0), "capacity=0 must be at least 1"),
        (lambda: Dqn(last_exploration=2.0), "last_exploration=2.0 must be from 0 to 1"),
    ],
)
def test_bad_settings(make_settings, message):
    with pytest.raises(ValueError, match=message):
        make_settings()
