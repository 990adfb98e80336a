"""Local best response, against sums over all histories of small games of poker."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from holdem_reference import LEDUC, NO_LIMIT

from jaxgames import enumerate_game
from jaxgames.core import TERMINAL
from jaxgames.game_tree import levels, states_at
from jaxgames.holdem.equity import hand_strengths
from jaxgames.holdem.named_games import limit_holdem
from jaxgames.holdem.ranges import HANDS
from jaxgames.holdem.rules import CALL, FOLD, NOTHING
from solvers.approximate_best_response import local_best_response as lbr
from solvers.approximate_best_response.local_best_response import LocalBestResponse
from solvers.approximate_best_response.showdown_chances import showdown_chances
from solvers.evaluation.history_values import history_values
from solvers.sampling.episodes import mix_bits

SMALL = dataclasses.replace(LEDUC, max_raises=(1, 1))
POTS = dataclasses.replace(
    SMALL, limit=False, stack=4, raise_sizes=(), max_raises=(0, 0), bets=("1", "allin")
)
GAMES = {"limit": SMALL, "no limit": POTS}
compiled_chances = jax.jit(showdown_chances, static_argnames=("game", "drawn"))


def any_policy(game, state):
    """Probabilities that depend on hand, board and betting as if by chance."""
    public = jnp.concatenate([state.history, state.board]).astype(jnp.uint32)
    word = functools.reduce(lambda word, part: mix_bits(word * 31 + part), public, jnp.uint32(1))
    hands = jnp.arange(len(lbr.all_hands(game)), dtype=jnp.uint32)[:, None]
    actions = jnp.arange(game.num_actions, dtype=jnp.uint32)[None]
    weight = (mix_bits(mix_bits(word + hands) + actions) % 8 + 1).astype(jnp.float32)
    weight = jnp.where(state.legal[None], weight, 0)
    return weight / jnp.sum(weight, axis=1, keepdims=True)


def always(action, game, state):
    row = jnp.arange(game.num_actions) == jnp.where(state.legal[action], action, CALL)
    hands = len(lbr.all_hands(game))
    return jnp.broadcast_to(row.astype(jnp.float32)[None], (hands, game.num_actions))


@functools.cache
def explicit(name):
    game = GAMES[name]
    tree = enumerate_game(game)
    rows = [tree.representative(p)[: tree.num_decisions[p]] for p in range(2)]
    return tree, [states_at(game, tree, r) for r in rows]


@functools.cache
def table_of(name, policy, player):
    """A policy by hands, as one of the explicit tree."""
    game, states = GAMES[name], explicit(name)[1][player]
    hands = lbr.all_hands(game)
    hidden = [s.replace(hole=np.full_like(s.hole, NOTHING)) for s in states]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *hidden)
    rows = np.asarray(jax.jit(jax.vmap(functools.partial(policy, game)))(batch), np.float64)
    held = [int(np.flatnonzero((hands == np.sort(s.hole[player])).all(axis=1))[0]) for s in states]
    return rows[np.arange(len(states)), held]


def reach_of(tree, table, player):
    """The player's own reach of every history."""
    reach = np.ones(tree.num_histories)
    for rows in levels(tree.parent):
        above = tree.parent[rows]
        acted = tree.actor[above] == player
        state = np.where(acted, tree.information_state[above, player], 0)
        chance = table[state, np.maximum(tree.parent_action[rows], 0) % tree.num_actions]
        reach[rows] = reach[above] * np.where(acted, chance, 1)
    return reach


def cards_of(tree, player):
    """The card that the player was dealt, at every history; hands of one card are cards."""
    cards = np.full(tree.num_histories, -1)
    for rows in levels(tree.parent):
        dealt = tree.depth[rows] == player + 1
        cards[rows] = np.where(dealt, tree.parent_action[rows], cards[tree.parent[rows]])
    return cards


def by_the_rule(name, policy, player):
    """Utilities `[D, A]` and a policy, from their definition over histories."""
    tree, states = explicit(name)
    theirs = table_of(name, policy, 1 - player)
    reach = tree.chance_reach() * reach_of(tree, theirs, 1 - player)
    checks = [np.eye(tree.num_actions)[np.full(count, CALL)] for count in tree.num_decisions]
    value = history_values(tree, checks)[:, player]
    # the value of an action if both players only check and call afterwards
    worth = value.copy()
    facing = np.flatnonzero(tree.actor == 1 - player)
    state = tree.information_state[facing, 1 - player]
    first = np.full((tree.num_histories, tree.num_actions), -1)
    first[tree.parent[1:], tree.parent_action[1:] % tree.num_actions] = np.arange(1, len(value))
    fold = np.where(tree.legal[facing, FOLD], theirs[state, FOLD], 0)
    folded = np.where(first[facing, FOLD] >= 0, tree.returns[first[facing, FOLD], player], 0)
    bet = fold * folded + (1 - fold) * value[first[facing, CALL]]
    after_bet = np.zeros(len(value))
    after_bet[facing] = bet
    legal = tree.legal_actions(player)
    sums, total = np.zeros(legal.shape), np.zeros(len(legal))
    for history in np.flatnonzero(tree.actor == player):
        here = tree.information_state[history, player]
        spent = states[player][here].spent[player]
        total[here] += reach[history]
        for action in np.flatnonzero(legal[here]):
            child = first[history, action]
            then = worth[child] if action <= CALL else after_bet[child]
            sums[here, action] += reach[history] * (then + spent)
    utility = np.where(legal, sums / np.where(total > 0, total, 1)[:, None], -np.inf)
    return utility, np.eye(tree.num_actions)[utility.argmax(axis=1)], total


@functools.partial(jax.jit, static_argnums=(0, 1))
def utilities(settings, policy, states, reaches, hands, boards):
    def one(state, reach, hand, board):
        key = jax.random.key(0)
        mine = showdown_chances(settings.game, key, hand, board, drawn=settings.drawn)
        return lbr.utilities(settings, policy, state, reach, mine)

    return jax.lax.map(lambda given: one(*given), (states, reaches, hands, boards), batch_size=64)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["limit", "no limit"])
def test_utilities_are_those_of_all_histories(name):
    """Against a policy that tells much about the hand; ranges by Bayes over histories."""
    game, (tree, states) = GAMES[name], explicit(name)
    hands = lbr.all_hands(game)
    for player in range(2):
        expected, _, total = by_the_rule(name, any_policy, player)
        reach = reach_of(tree, table_of(name, any_policy, 1 - player), 1 - player)
        ranges = np.zeros((len(states[player]), len(hands)), np.float32)
        acts = tree.actor == player
        ranges[tree.information_state[acts, player], cards_of(tree, 1 - player)[acts]] = reach[acts]
        assert (total > 0).all()
        batch = jax.tree.map(lambda *leaves: np.stack(leaves), *states[player])
        actual = utilities(
            LocalBestResponse(game, boards=(0, 0)),
            functools.partial(any_policy, game),
            batch,
            jnp.asarray(ranges),
            batch.hole[:, player],
            batch.board,
        )
        np.testing.assert_allclose(actual, expected, atol=1e-4)


@pytest.mark.parametrize("name", ["limit", pytest.param("no limit", marks=pytest.mark.slow)])
def test_it_is_a_best_response_to_always_call(name):
    """With one size of bets: there the rule's assumption holds. Else it is a bound from below."""
    tree, _ = explicit(name)
    for policy, exact in ((functools.partial(always, CALL), name == "limit"), (any_policy, False)):
        for player in range(2):
            _, mine, _ = by_the_rule(name, policy, player)
            theirs = table_of(name, policy, 1 - player)
            both = (mine, theirs) if player == 0 else (theirs, mine)
            value = history_values(tree, both)[0, player]
            best = best_value(tree, theirs, player)
            assert value <= best + 1e-9
            assert (value == pytest.approx(best, abs=1e-9)) == exact


def best_value(tree, theirs, player):
    """Of a best response, by histories."""
    reach = tree.chance_reach() * reach_of(tree, theirs, 1 - player)
    weighed = np.where(tree.actor == TERMINAL, tree.returns[:, player], 0) * reach
    for rows in reversed(list(levels(tree.parent))):
        above = tree.parent[rows]
        mine = tree.actor[above] == player
        state = np.where(mine, tree.information_state[above, player], 0)
        sums = np.zeros((tree.num_decisions[player], tree.num_actions))
        action = np.maximum(tree.parent_action[rows], 0) % tree.num_actions
        np.add.at(sums, (state[mine], action[mine]), weighed[rows][mine])
        legal = tree.legal_actions(player)
        chosen = np.where(legal, sums, -np.inf).argmax(axis=1)
        keep = ~mine | (action == chosen[state])
        np.add.at(weighed, above[keep], weighed[rows][keep])
    return weighed[0]


@pytest.mark.slow
def test_duplicate_deals_keep_the_mean_and_cut_the_variance():
    """Both players' cards are the same in both games of a deal; the mean is the policy's value."""
    game, tree = SMALL, explicit("limit")[0]
    settings = LocalBestResponse(game)
    policy = functools.partial(any_policy, game)
    won = np.asarray(lbr.duplicate_deals(settings, policy, jax.random.key(1), num_deals=4000))
    for player in range(2):
        _, mine, _ = by_the_rule("limit", any_policy, player)
        theirs = table_of("limit", any_policy, 1 - player)
        both = (mine, theirs) if player == 0 else (theirs, mine)
        value = history_values(tree, both)[0, player]
        error = float(won[:, player].std()) / len(won) ** 0.5
        assert won[:, player].mean() == pytest.approx(value, abs=4 * error)
    independent = won.var(axis=0).sum() / 4
    assert won.mean(axis=1).var() < 0.8 * independent


def test_drawn_boards_come_near_all_of_them():
    """On the turn of hold'em, 44 boards; those drawn hold no card that is seen."""
    hand, board = jnp.array([51, 50]), jnp.array([0, 5, 20, 33, 47])
    every, some = (
        compiled_chances(limit_holdem(), jax.random.key(0), hand, board, drawn=(10, 10, drawn, 1))
        for drawn in (0, 1000)
    )
    apart = np.asarray(every.apart[2])
    np.testing.assert_array_equal(every.met[2], np.where(apart, 44, 0))
    np.testing.assert_array_equal(some.met[2] > 0, apart)
    share = [np.asarray(x.won[2])[apart] / np.asarray(x.met[2])[apart] for x in (every, some)]
    np.testing.assert_allclose(share[0], share[1], atol=0.08)
    assert abs((share[0] - share[1]).mean()) < 0.02


def test_hands_are_compared_as_by_the_evaluator():
    """On the river, also with flushes and straight flushes in each suit."""
    chances = functools.partial(compiled_chances, drawn=(10, 10, 0, 1))
    strengths_of = jax.jit(hand_strengths)
    generator = np.random.default_rng(0)
    cases = [generator.permutation(52)[:7] for _ in range(4)]
    # four adjacent ranks of one suit on the board, and an ace
    cases += [[0, 7, *range(20 + suit, 36 + suit, 4), 51 - suit] for suit in range(4)]
    for cards in cases:
        hand, board = np.sort(cards[:2]).astype(np.int32), np.array(cards[2:], np.int32)
        found = chances(limit_holdem(), jax.random.key(1), jnp.asarray(hand), jnp.asarray(board))
        strengths = np.asarray(strengths_of(board))
        own = strengths[(hand == HANDS).all(axis=1)]
        apart = ~np.isin(HANDS, cards).any(axis=1)
        wins = (own > strengths) + (own == strengths) / 2
        np.testing.assert_array_equal(found.won[3], np.where(apart, wins, 0))
        np.testing.assert_array_equal(found.met[3], apart)
        np.testing.assert_array_equal(found.apart[3], apart)


def test_hands_are_in_the_order_of_ranges():
    np.testing.assert_array_equal(lbr.all_hands(limit_holdem()), HANDS)
    assert len(lbr.all_hands(NO_LIMIT)) == 28


def test_bad_input():
    game = limit_holdem()
    with pytest.raises(ValueError, match="must have players=2, and no"):
        LocalBestResponse(limit_holdem(players=3))
    with pytest.raises(ValueError, match="must list actions for each of the 4 rounds"):
        LocalBestResponse(game, allowed=((0, 1),))
    with pytest.raises(ValueError, match=r"must list actions from 0 to 2 .* among them 1 \(call\)"):
        LocalBestResponse(game, allowed=((0, 1), (0, 1), (0, 1), (0, 2)))
    with pytest.raises(ValueError, match="must give the number of sampled boards for each"):
        LocalBestResponse(game, boards=(1, 1))
    with pytest.raises(ValueError, match="all 2,118,760 boards of round 0 are more than"):
        LocalBestResponse(game, boards=(0, 0, 0, 0))
    with pytest.raises(ValueError, match="sampled=0 must be at least 1"):
        LocalBestResponse(game, sampled=0)
    with pytest.raises(ValueError, match=r"an array of shape \(2, 3\) in .*; allowed: \(6, 3\)"):
        lbr.duplicate_deals(
            LocalBestResponse(LEDUC), lambda state: jnp.ones((2, 3)), jax.random.key(0), num_deals=1
        )
