"""River subgames: payoffs by brute force over pairs of hands, and another solver's solution."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgames.holdem.betting import FOLD, NO_NODE, SHOWDOWN, Sizes, build_betting_tree
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.equity import hand_strengths
from jaxgames.holdem.ranges import HANDS, parse_range
from solvers import cfr, evaluation
from solvers.holdem.tree import holdem_tree

BOARD = parse_cards("Td9d6hQc2s")
SIZES = Sizes.parse("50%, 100%, allin", "3x")


def betting(**more):
    return build_betting_tree(pot=200, stack=900, streets=1, sizes=SIZES, **more)


def test_payoffs_are_those_of_all_pairs_of_hands():
    """Whatever the other's reach at each end of the hand; ranges that differ, and share hands."""
    tree = holdem_tree(
        BOARD, (parse_range("66+, A8s+"), parse_range("88-55, ATs+, QTo")), betting()
    )
    strength = np.asarray(hand_strengths(jnp.array(BOARD)))
    rng, game = np.random.default_rng(0), tree.betting
    for player in range(2):
        mine, others = tree.hands[player], tree.hands[1 - player]
        apart = (HANDS[mine][:, None, :, None] != HANDS[others][None, :, None, :]).all((2, 3))
        sign = np.sign(strength[mine][:, None].astype(int) - strength[others][None])
        policy = [
            rng.dirichlet(np.ones(game.child.shape[1]), count.num_decisions)
            for count in tree.public.players
        ]
        for rows, p in zip(policy, range(2), strict=True):
            count = (game.child[tree.decisions[p]] != NO_NODE).sum(axis=1)
            legal = np.arange(game.child.shape[1]) < np.repeat(count, len(tree.hands[p]))[:, None]
            rows *= legal
            rows /= rows.sum(axis=1, keepdims=True)
        ranges = tuple(jnp.array(rng.random(len(hands)), jnp.float32) for hands in tree.hands)
        found = evaluation.expected_value(
            tree.public, tuple(jnp.array(rows, jnp.float32) for rows in policy), ranges
        )
        expected = 0.0
        for node in np.flatnonzero((game.actor == FOLD) | (game.actor == SHOWDOWN)):
            reach = [reach_of(tree, policy, ranges, p, node) for p in range(2)]
            if game.actor[node] == SHOWDOWN:
                chips = sign * (game.pot / 2 + game.paid[node, 0])
            else:
                won = game.winner[node] == player
                chips = game.pot / 2 + game.paid[node, 1 - game.winner[node]]
                chips = chips if won else -chips
            expected += reach[player] @ (apart * chips) @ reach[1 - player]
        assert float(found[player]) == pytest.approx(expected, rel=1e-4, abs=1e-2)


def reach_of(tree, policy, ranges, player, node):
    """A player's own reach of a node, by hand."""
    reach = np.asarray(ranges[player], np.float64)
    while node != 0:
        above = tree.betting.parent[node]
        if tree.betting.actor[above] == player:
            action = int(np.flatnonzero(tree.betting.child[above] == node)[0])
            number = int(np.flatnonzero(tree.decisions[player] == above)[0])
            rows = policy[player].reshape(-1, len(reach), policy[player].shape[1])
            reach = reach * rows[number, :, action]
        node = above
    return reach


@functools.cache
def solved():
    """A solution of another solver's case: all hands, pot 200, stacks 900."""
    everything = parse_range("random")
    tree = holdem_tree(BOARD, (everything, everything), betting())
    ranges = tuple(map(jnp.asarray, tree.ranges))
    state = cfr.init(tree.public, root_reach=ranges)
    state = cfr.run(tree.public, state, solver=cfr.dcfr(gamma=3.0), num_iterations=390)
    return tree, ranges, cfr.average_policy(tree.public, state)


def test_values_of_another_solver():
    tree, ranges, policy = solved()
    values = evaluation.expected_value(tree.public, policy, ranges) / tree.total + 100
    np.testing.assert_allclose(values, [93.6587, 106.3413], atol=0.05)
    responses = evaluation.best_response_value(tree.public, policy, ranges)
    assert float(responses.sum()) / 2 / tree.total < 0.2  # a thousandth of the pot; theirs: 0.096


def test_frequencies_of_another_solver():
    tree, _, policy = solved()
    first, second = tree.hands
    assert len(first) == len(second) == 1081
    apart = (HANDS[first][:, None, :, None] != HANDS[second][None, :, None, :]).all((2, 3))
    weight = tree.ranges[0] * (apart @ tree.ranges[1])
    root = np.asarray(policy[0])[: len(first)]  # check, bet 100, bet 200, all-in
    found = weight @ root / weight.sum()
    np.testing.assert_allclose(found, [0.7089, 0.2904, 0.0005, 0.0002], atol=0.01)


def test_solves_side_by_side_are_solves_one_by_one():
    tree = holdem_tree(BOARD, (parse_range("QQ+, T9s"), parse_range("AJs+, 66")), betting())
    ranges = tuple(
        jnp.stack([jnp.asarray(held), jnp.asarray(held) * jnp.linspace(0.2, 1, len(held))])
        for held in tree.ranges
    )

    def solve(*ranges):
        state = cfr.init(tree.public, root_reach=ranges)
        state = cfr.run(tree.public, state, solver=cfr.cfr_plus(), num_iterations=20)
        return cfr.average_policy(tree.public, state)

    together = jax.vmap(solve)(*ranges)
    for number in range(2):
        alone = solve(*(held[number] for held in ranges))
        for some, one in zip(together, alone, strict=True):
            np.testing.assert_allclose(some[number], one, atol=1e-4)


def test_bad_subgames():
    everything, two = parse_range("random"), parse_cards("2c2d")
    with pytest.raises(ValueError, match=r"board=\(0, 1\) must have five different cards"):
        holdem_tree(two, (everything, everything), betting())
    with pytest.raises(ValueError, match="player 1's range is empty on this board"):
        holdem_tree(BOARD, (everything, parse_range("TdAh")), betting())
    streets = build_betting_tree(pot=1, stack=2, streets=2, sizes=SIZES)
    with pytest.raises(ValueError, match="has more than one street"):
        holdem_tree(BOARD, (everything, everything), streets)
