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
from solvers.public_tree import build_public_tree
from solvers.sampling import episodes
from solvers.sampling.decision_tree import after, build_decision_tree, draw, policies

GAMES = ["kuhn_poker", "leduc_poker", "kuhn_poker(players=3)", "goofspiel(cards=3)"]


@functools.cache
def compiled(name):
    """A tree, what it compiles to, and that on the host."""
    tree = enumerate_game(make(name))
    found = build_decision_tree(tree)
    return tree, found, jax.tree.map(np.asarray, found)


def tickets(lotteries, number):
    """What a lottery's places are drawn with, by place."""
    first = lotteries.first[number]
    rows = slice(first, first + lotteries.count[number])
    chance, share = {}, lotteries.share[rows] / lotteries.count[number]
    rest = 1 / lotteries.count[number] - share
    other = lotteries.place[lotteries.other[rows]]
    for places, weights in ((lotteries.place[rows], share), (other, rest)):
        for place, weight in zip(places.tolist(), weights.tolist(), strict=True):
            chance[place] = chance.get(place, 0) + weight
    return {place: weight for place, weight in chance.items() if weight > 1e-9}


@pytest.mark.parametrize("name", GAMES)
def test_uniform_play_earns_what_it_earns_on_the_public_tree(name):
    """By going through all places, with the probabilities of the lotteries."""
    tree, compact, found = compiled(name)
    reach, earned = np.zeros(len(found.actor)), np.zeros(tree.num_players)
    for place, chance in tickets(found.chance, -1).items():
        reach[place] += chance
    for place in range(len(found.actor)):  # parents come first, terminals last
        if found.actor[place] == TERMINAL:
            earned += reach[place] * found.payoffs[place]
            continue
        legal = np.flatnonzero(found.uniform[found.state[place]])
        for action in legal:
            lottery = tickets(found.chance, place * found.num_actions + action)
            assert sum(lottery.values()) == pytest.approx(1, abs=1e-6)
            for below, chance in lottery.items():
                reach[below] += reach[place] * chance / len(legal)
    public = build_public_tree(tree)
    policy = policies(compact, compact.uniform)
    np.testing.assert_allclose(earned, evaluation.expected_value(public, policy), atol=1e-5)
    assert reach[found.actor == TERMINAL].sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", GAMES)
def test_worlds_are_as_likely_as_chance_makes_them(name):
    tree, _, found = compiled(name)
    decisions = np.flatnonzero(tree.actor >= 0)
    state, chance = found.state, tree.chance_reach()[decisions]
    for number in range(0, found.num_states, max(1, found.num_states // 50)):
        (there,) = np.nonzero(state[: len(decisions)] == number)
        expected = dict(zip(there.tolist(), chance[there] / chance[there].sum(), strict=True))
        assert tickets(found.worlds, number) == pytest.approx(expected, abs=1e-6)


def test_lotteries_of_unequal_chances():
    """Ranks dealt without suits: a pair is half as likely as any two others."""
    _, found, host = compiled("leduc_poker(suit_isomorphism=true)")
    root = tickets(host.chance, -1)
    assert len(set(np.round(list(root.values()), 6))) == 2  # a pair, or two ranks
    luck = (jnp.arange(60_000, dtype=jnp.float32) + 0.5) / 60_000
    number = jnp.int32(len(found.chance.count) - 1)
    drawn = jax.jit(jax.vmap(lambda one: draw(found.chance, number, one)))(luck)
    counts = np.bincount(np.asarray(drawn), minlength=max(root) + 1) / len(luck)
    np.testing.assert_allclose(counts[list(root)], list(root.values()), atol=1e-4)


def test_terminals_stay():
    _, found, _ = compiled("kuhn_poker")
    (end,) = np.flatnonzero(found.actor == TERMINAL)[:1]
    assert after(found, jnp.int32(end), jnp.int32(1), jnp.float32(0.9)) == end


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kuhn_poker", ((1, 2, 1), (1, 1, 1))),  # check and bet; after check, bet: call or fold
        ("matrix_rps", ((1, 3), (1, 1))),
    ],
)
def test_widths(name, expected):
    _, found, _ = compiled(name)
    assert found.widths == expected
    assert found.longest == len(expected[0])


def test_numbers_are_uniform_and_independent():
    keys = jax.random.split(jax.random.key(1), 4000)
    draw_all = jax.vmap(lambda key: episodes.numbers(key, (24,)))
    found = np.asarray(draw_all(keys))
    assert 0 <= found.min() < 1e-4
    assert 1 - 1e-4 < found.max() < 1
    for column in found.T:
        assert scipy.stats.kstest(column, "uniform").pvalue > 1e-4
    correlation = np.corrcoef(found.T) - np.eye(found.shape[1])
    assert np.abs(correlation).max() < 5 / np.sqrt(len(found))
    along = np.corrcoef(found.reshape(-1)[:-1], found.reshape(-1)[1:])[0, 1]
    assert abs(along) < 5 / np.sqrt(found.size)


def test_actions_are_drawn_by_weight():
    luck = (jnp.arange(10_000, dtype=jnp.float32) + 0.5) / 10_000
    weights = jnp.array([0.0, 3.0, 0.0, 1.0, 0.0])
    drawn = jax.vmap(lambda one: episodes.pick(weights, one))(luck)
    np.testing.assert_array_equal(np.bincount(drawn, minlength=5), [0, 7500, 0, 2500, 0])
    assert episodes.pick(jnp.zeros(3), jnp.float32(0.7)) == 0


def test_games_without_decisions_are_refused():
    tree, *_ = compiled("kuhn_poker")
    idle = tree.replace(actor=np.minimum(tree.actor, -1))
    with pytest.raises(ValueError, match="no player ever acts"):
        build_decision_tree(idle)
