"""Games compiled for sampling, against the trees that they are compiled from."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxgames.core import TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import evaluation
from solvers.sampling import episodes
from solvers.sampling.decision_tree import build_decision_tree, split_by_player
from solvers.sequence_form import build_sequence_form

GAMES = ["kuhn_poker", "leduc_poker", "kuhn_poker(players=3)", "goofspiel(cards=3)"]


@functools.cache
def compiled(name):
    """A tree, what it compiles to, and that on the host."""
    tree = enumerate_game(make(name))
    decisions = build_decision_tree(tree)
    return tree, decisions, jax.tree.map(np.asarray, decisions)


def tickets(first, count, share, other):
    """What neighbouring tickets are drawn with, by number."""
    chance, rows = {}, np.arange(first, first + count)
    own = np.ones(count) if share is None else share[rows]
    to = rows if other is None else other[rows]
    for numbers, weights in ((rows, own / count), (to, (1 - own) / count)):
        for number, weight in zip(numbers.tolist(), weights.tolist(), strict=True):
            chance[number] = chance.get(number, 0) + weight
    return {number: weight for number, weight in chance.items() if weight > 1e-9}


@pytest.mark.parametrize("name", GAMES)
def test_uniform_play_earns_what_it_earns_on_the_public_tree(name):
    """By going through all places, with the probabilities of the lotteries."""
    tree, compact, decisions = compiled(name)
    reach, earned = np.zeros(len(decisions.table)), np.zeros(tree.num_players)
    lottery = functools.partial(tickets, share=decisions.share, other=decisions.other)
    for place, chance in lottery(0, decisions.num_starts).items():
        reach[place] += chance
    first, count = np.split(decisions.table[:, 2:], 2, axis=1)
    for place in np.argsort(longest_way(decisions), kind="stable"):  # parents first
        if decisions.actor[place] == TERMINAL:
            earned += reach[place] * decisions.payoffs[place]
            continue
        legal = np.flatnonzero(decisions.uniform[decisions.state[place]])
        np.testing.assert_array_equal(legal, np.flatnonzero(count[place]))
        for action in legal:
            for below, chance in lottery(first[place, action], count[place, action]).items():
                reach[below] += reach[place] * chance / len(legal)
    public = build_sequence_form(tree)
    policy = split_by_player(compact, compact.uniform)
    np.testing.assert_allclose(earned, evaluation.expected_value(public, policy), atol=1e-5)
    assert reach[decisions.actor == TERMINAL].sum() == pytest.approx(1, abs=1e-6)


def longest_way(decisions):
    """Decisions before each place."""
    before = np.zeros(len(decisions.table), int)
    first, count = np.split(decisions.table[:, 2:], 2, axis=1)
    for _ in range(decisions.max_decisions):
        for begin, size in zip(first.T, count.T, strict=True):
            for place in np.flatnonzero(size):
                before[begin[place] : begin[place] + size[place]] = before[place] + 1
    return before


@pytest.mark.parametrize("name", GAMES)
def test_worlds_are_as_likely_as_chance_makes_them(name):
    tree, _, decisions = compiled(name)
    reach, worlds, state = tree.chance_reach(), decisions.worlds, decisions.state
    for number in range(0, decisions.num_states, max(1, decisions.num_states // 50)):
        player = int(decisions.actor[np.flatnonzero(state == number)[0]])
        own = number - sum(tree.num_decisions[:player])
        possible = (tree.actor == player) & (tree.information_state[:, player] == own)
        drawn = tickets(worlds.first[number], worlds.count[number], worlds.share, worlds.other)
        assert (state[worlds.place[list(drawn)]] == number).all()
        expected = np.sort(reach[possible] / reach[possible].sum())
        np.testing.assert_allclose(np.sort([*drawn.values()]), expected, atol=1e-6)


def test_lotteries_of_unequal_chances():
    """Ranks dealt without suits: a pair is half as likely as any two others."""
    _, decisions, host = compiled("leduc_poker(suit_isomorphism=true)")
    root = tickets(0, host.num_starts, host.share, host.other)
    assert sorted(root.values()) == pytest.approx([1 / 15] * 3 + [2 / 15] * 6, abs=1e-6)
    noise = (jnp.arange(60_000, dtype=jnp.float32) + 0.5) / 60_000
    drawn = jax.jit(jax.vmap(lambda number: decisions.start(number[None])))(noise)
    counts = np.bincount(np.asarray(drawn), minlength=max(root) + 1) / len(noise)
    np.testing.assert_allclose(counts[list(root)], list(root.values()), atol=1e-4)


def test_fair_lotteries_need_no_tables():
    assert compiled("leduc_poker")[1].share is None


def test_terminals_stay():
    _, decisions, _ = compiled("kuhn_poker")
    node = decisions.at(jnp.int32(decisions.nowhere))
    assert int(node.actor) == TERMINAL
    assert int(decisions.after(node, jnp.int32(1), jnp.array([0.9]))) == decisions.nowhere


def test_numbers_are_uniform_and_independent():
    keys = jax.random.split(jax.random.key(1), 4000)
    draw_all = jax.vmap(lambda key: episodes.uniform_numbers(key, (24,)))
    numbers = np.asarray(draw_all(keys))
    assert 0 <= numbers.min() < 1e-4
    assert 1 - 1e-4 < numbers.max() < 1
    for column in numbers.T:
        assert scipy.stats.kstest(column, "uniform").pvalue > 1e-4
    correlation = np.corrcoef(numbers.T) - np.eye(numbers.shape[1])
    assert np.abs(correlation).max() < 5 / np.sqrt(len(numbers))
    along = np.corrcoef(numbers.reshape(-1)[:-1], numbers.reshape(-1)[1:])[0, 1]
    assert abs(along) < 5 / np.sqrt(numbers.size)


def test_actions_are_drawn_by_weight():
    noise = (jnp.arange(10_000, dtype=jnp.float32) + 0.5) / 10_000
    weights = jnp.array([0.0, 3.0, 0.0, 1.0, 0.0])
    drawn = jax.vmap(lambda number: episodes.pick_action(weights, number))(noise)
    np.testing.assert_array_equal(np.bincount(drawn, minlength=5), [0, 7500, 0, 2500, 0])
    assert episodes.pick_action(jnp.zeros(3), jnp.float32(0.7)) == 0


def test_games_without_decisions_are_refused():
    tree, *_ = compiled("kuhn_poker")
    idle = tree.replace(actor=np.minimum(tree.actor, -1))
    with pytest.raises(ValueError, match="no player ever acts"):
        build_decision_tree(idle)
