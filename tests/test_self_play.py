"""Sound self-play: outcomes as targets, resignation, greedy moves, games cut off, presets."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from uneven_game import uneven_game

from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.core import TERMINAL
from jaxgames.registry import make
from nets import cvpn
from solvers.evaluation import belief_exploitability
from solvers.search import growing_tree_cfr, leaf_evaluators, readouts
from solvers.search.readouts import expected_payoff
from solvers.search.search_state import GrowingTreeCfr
from solvers.search.search_tree import uniform
from train.learner import LearnerSettings
from train.paper_settings import PAPER_LEARNER, learner_deviations, paper_settings
from train.self_play import SelfPlaySettings, go_on, new_episode

SEARCH = GrowingTreeCfr(leaf_evaluators.zero, simulations=2, max_path=1)
GAMES = 256  # side by side


@functools.cache
def table_of(name):
    return belief_table(uneven_game().tree if name == "uneven" else make(name))


def kuhn():
    return table_of("kuhn_poker")


@functools.cache
def search(name):
    def search_one(key, problem):
        return growing_tree_cfr.search(table_of(name), None, key, problem=problem, settings=SEARCH)

    return jax.jit(jax.vmap(search_one))


@functools.cache
def unsearched(name):
    """Searches that end before their first iteration: uniform play does not look at them."""

    def begin(_, problems):
        table = table_of(name)
        state = growing_tree_cfr.start(table, None, problems=problems, settings=SEARCH)
        return growing_tree_cfr.finish(state)

    return jax.jit(begin)


def keys(seed):
    return jax.random.split(jax.random.key(seed), GAMES)


def play(settings, moves, name="kuhn_poker", find=search):
    """Many games for a number of moves: episodes, searches, examples and masks, move by move."""
    table, searched = table_of(name), find(name)
    begin = functools.partial(new_episode, table, max_path=1, settings=settings)
    step = jax.jit(jax.vmap(functools.partial(go_on, table, settings=settings)))
    episodes = jax.jit(jax.vmap(begin))(keys(0))
    for number in range(moves):
        searches = searched(keys(2 * number + 1), episodes.problem)
        after, examples, ready = step(keys(2 * number + 2), episodes, searches)
        yield episodes, searches, after, examples, np.asarray(ready)
        episodes = after


@functools.cache
def uniform_play(name):
    """All examples of uniform play, a share of 0.75 with the outcome; games and moves ended."""
    settings = SelfPlaySettings(exploration=1.0, outcome_targets=0.75)
    examples, games, moves = [], 0, 0
    for before, _, after, ready, exists in play(settings, 24, name, unsearched):
        examples.append(jax.tree.map(lambda x, exists=exists: np.asarray(x)[exists], ready))
        ended = np.asarray(after.moves) == 0
        games, moves = games + ended.sum(), moves + (np.asarray(before.moves) + 1)[ended].sum()
    return jax.tree.map(lambda *x: np.concatenate(x), *examples), games, moves


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("kuhn_poker", 4 * 6), ("uneven", 7 * 3)])
def test_outcomes_are_on_average_the_values_of_the_policies(name, rows):
    """By public state and row: exact counterfactual values of uniform play, per unit of reach."""
    table, (examples, *_) = table_of(name), uniform_play(name)
    states = list_public_states(table)

    @jax.jit
    def by_state(states):
        policy = jax.vmap(lambda state: uniform(table, state, jnp.dtype("float32")))(states.state)
        reach, exact = belief_exploitability.reach_and_values(table, states, policy)
        each = lambda s, r: [table.compatible(s, p, r[1 - p]) for p in (0, 1)]  # noqa: E731
        mass = jax.vmap(each)(states.state, reach)
        return exact, mass, jax.vmap(table.encode)(states.state)

    exact, mass, features = jax.tree.map(np.asarray, by_state(states))
    wanted = examples.value_weight > 0
    compared = 0
    for number in np.flatnonzero(np.asarray(states.actor) >= 0):
        here = wanted & (examples.features == features[number]).all(axis=1)
        both = [np.flatnonzero(own) for own in table.rows(states.state[number])]
        for player, row in [(p, row) for p in range(2) for row in both[p]]:
            drawn = here & (examples.mass[player][:, row] > 0)
            won = examples.values[player][drawn, row]
            error = won.mean() - exact[player][number, row] / mass[player][number, row]
            assert abs(error) < 4 * won.std() / np.sqrt(len(won)) + 1e-6
            compared += 1
    assert compared == rows


def test_games_teach_once_and_each_move():
    """Moves of unfinished games wait; every one of a finished game comes, with one row each."""
    examples, games, moves = uniform_play("kuhn_poker")
    assert (examples.features == 0).all(axis=1).sum() == games > 1000  # roots
    assert len(examples.features) == moves
    for mass in examples.mass:
        np.testing.assert_array_equal((mass > 0).sum(axis=1), 1)
    share = examples.value_weight.mean()
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / len(examples.value_weight))
    first, second = (values.sum(axis=1) for values in examples.values)  # of one row
    np.testing.assert_allclose(first, -second, atol=1e-6)  # zero-sum
    assert set(np.abs(first).round(5)) == {1, 2}


@pytest.mark.slow
def test_searches_expect_the_value_of_the_game():
    """The first player's expectation over the deals, after a thorough search."""
    thorough = GrowingTreeCfr(leaf_evaluators.zero, simulations=100, pace=0.02, max_path=1)
    problem = new_episode(
        kuhn(), jax.random.key(0), max_path=1, settings=SelfPlaySettings()
    ).problem

    @jax.jit
    def expectations(key):
        search = growing_tree_cfr.search(kuhn(), None, key, problem=problem, settings=thorough)
        pairs = jnp.stack(jnp.meshgrid(*[jnp.arange(3, dtype=jnp.int32)] * 2, indexing="ij"), -1)
        return jax.vmap(lambda rows: expected_payoff(kuhn(), search, rows))(pairs.reshape(-1, 2))

    keys = jax.random.split(jax.random.key(1), 16)
    expected = np.asarray(jax.vmap(expectations)(keys)).reshape(16, 3, 3)
    weights = np.asarray(kuhn().weights[kuhn().root()])
    assert (expected == expected[..., :1]).all()  # the player to move knows its own card only
    worth = (weights * expected).sum(axis=(1, 2))
    np.testing.assert_allclose(worth.mean(), -1 / 18, atol=2e-3)
    np.testing.assert_allclose(worth, -1 / 18, atol=2e-2)


@pytest.mark.slow
def test_hopeless_games_are_resigned_but_for_some():
    """They teach no values, unless the move of who expected to lose has ended the game anyway."""
    settings = SelfPlaySettings(outcome_targets=1.0, resign_below=-0.2, never_resign=0.25)
    went_on, hopeless, ended = 0, 0, []
    for before, searches, after, examples, exists in play(settings, 8):
        expects = np.asarray(jax.vmap(expected_payoff, (None, 0, 0))(kuhn(), searches, before.rows))
        resigns = (expects < -0.2) & np.asarray(before.may_resign)
        hopeless += (expects < -0.2).sum()
        went_on += ((expects < -0.2) & ~np.asarray(before.may_resign)).sum()
        assert (np.asarray(after.moves)[resigns] == 0).all()
        taught = np.asarray(examples.value_weight) * exists
        won = np.abs(np.asarray(examples.values[0])).sum(axis=-1)[resigns]  # 0 before the end
        assert ((won > 0) == (taught[resigns] > 0)).all()
        ended += [*(won > 0).any(axis=1)]
        assert exists[resigns].any(axis=1).all()  # their policies are still learnt
        others = (np.asarray(after.moves) == 0) & ~resigns
        assert taught[others].any(axis=1).all()
    assert hopeless > 200
    assert 0 < np.mean(ended) < 1
    assert abs(went_on / hopeless - 0.25) < 4 * np.sqrt(0.25 * 0.75 / hopeless)


@pytest.mark.slow
def test_greedy_moves_after_some_and_games_cut_off():
    """The first move is drawn, the second the likeliest; a third is never made."""
    settings = SelfPlaySettings(exploration=0.0, outcome_targets=1.0, greedy_after=1, max_moves=2)
    (begun, _, middle, _, _), (before, searches, after, examples, exists) = play(settings, 2)
    row, reached = np.asarray(begun.rows)[:, 0], np.asarray(middle.problem.state)
    assert max(len(set(reached[row == number])) for number in range(3)) == 2
    assert (np.asarray(middle.moves) == 1).all()
    assert (np.asarray(after.moves) == 0).all()
    assert exists.all()
    table, pair = jax.tree.map(np.asarray, kuhn()), np.asarray(before.rows)
    _, policy = jax.tree.map(np.asarray, jax.vmap(readouts.average_policy)(searches))
    likeliest = policy[np.arange(GAMES), :, pair[:, 1]].argmax(axis=1)
    end = table.successors[reached, likeliest]
    over = table.actors[end] == TERMINAL
    assert 0 < over.sum() < GAMES
    place = end, pair[:, 0], pair[:, 1]
    won = np.where(over, table.payoffs[place] / table.weights[place], 0)
    first, second = (values.sum(axis=2) for values in examples.values)  # of one row each
    np.testing.assert_allclose(first, np.stack([won, won], axis=1), atol=1e-5)
    np.testing.assert_allclose(second, -first, atol=1e-5)


@pytest.mark.parametrize("name", PAPER_LEARNER)
def test_one_name_gives_all_settings(name):
    graph, _ = nnx.split(cvpn.new_cvpn(kuhn(), seed=0, width=8, depth=1))
    evaluator = GrowingTreeCfr(cvpn.CvpnEvaluator(graph), simulations=9)
    settings = paper_settings(name, evaluator, episodes=4, solves=2, updates=1)
    assert settings.learner == PAPER_LEARNER[name]
    assert settings.search.simulations == 9
    play = settings.self_play
    settings_of_the_table = (
        settings.queries_per_search,
        settings.queries_per_solve,
        settings.search.evaluate.temperature,
        play.outcome_targets,
        play.exploration,
        play.resign_below,
        play.greedy_after,
        play.max_moves,
    )
    table_s2 = {
        "chess": (1, 0.2, 1.5, 0, 0, -0.9, 30, 512),
        "go": (0, 0, 1.5, 0.2, 0, -0.9, 30, 722),
        "scotland_yard": (0.3, 0.1, 1, 0, 0, None, None, None),
        "holdem": (0.9, 0.1, 1, 0, 0.1, None, None, None),
    }
    assert settings_of_the_table == table_s2[name]
    smaller = LearnerSettings(batch_size=8, capacity=16)
    assert (
        paper_settings(name, evaluator, episodes=4, solves=2, updates=1, learner=smaller).learner
        == smaller
    )


def test_settings_that_are_not_the_papers_are_named():
    paper = PAPER_LEARNER["scotland_yard"]
    momentum = ["momentum 0.9 of sgd (the paper: not given)"]
    assert learner_deviations("scotland_yard", paper) == momentum
    other = dataclasses.replace(
        paper,
        optimizer="adam",
        learning_rate=1e-3,
        batch_size=256,
        policy_shares=(1.0, 0.5),
        max_gradient_norm=2.5,
    )
    assert learner_deviations("scotland_yard", other) == [
        "optimizer adam (the paper: sgd)",
        "learning rate 0.001 (the paper: 0.1)",
        "batch size 256 (the paper: 1,024)",
        "policy shares 1 and 0.5 (ours with its settings: 0.25 and 1)",
        "max gradient norm 2.5 (ours with its settings: none)",
    ]
    with pytest.raises(ValueError, match=r"unknown settings 'checkers'.* \(known: chess, go, "):
        learner_deviations("checkers", paper)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: paper_settings("shogi", SEARCH, episodes=1, solves=1, updates=1),
            r"unknown settings 'shogi' \(known: chess, go, holdem, scotland_yard\)",
        ),
        (lambda: SelfPlaySettings(exploration=1.5), "exploration=1.5 must be from 0 to 1"),
        (lambda: SelfPlaySettings(never_resign=-1.0), "never_resign=-1.0 must be from 0 to 1"),
        (lambda: SelfPlaySettings(greedy_after=-1), "greedy_after=-1 must be at least 0"),
        (lambda: SelfPlaySettings(max_moves=0), "max_moves=0 must be at least 1"),
    ],
)
def test_bad_settings(call, message):
    with pytest.raises(ValueError, match=message):
        call()
