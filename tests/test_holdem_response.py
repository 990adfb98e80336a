"""Hold'em for learned best responses: features, beliefs by Bayes, payoffs by all hands."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_local_best_response import SMALL, any_policy

from jaxgames import make, random_playouts
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.holdem.rules import CALL, NOTHING
from solvers.approximate_best_response import holdem_opponents
from solvers.approximate_best_response import local_best_response as lbr
from solvers.approximate_best_response.exact_chump_responses import Chump

CALLS = Chump((0.0, 1.0, 0.0))
POKER = holdem_opponents.StrengthPoker(**SMALL.parameters())
STEP = jax.jit(POKER.step)


def test_features_tell_what_the_player_knows():
    """They are the same whatever the other player holds."""
    states = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), playouts().states)
    states = jax.tree.map(lambda x: x[states.num_dealt >= 2], states)
    features = jax.jit(jax.vmap(POKER.features, in_axes=(0, None)))
    for player in np.arange(2, dtype=np.int32):
        others = np.arange(2)[None, :, None] != player
        hidden = states.replace(hole=np.where(others, np.int32(NOTHING), states.hole))
        np.testing.assert_array_equal(features(states, player), features(hidden, player))


def test_strength_is_the_share_of_hands_that_are_beaten():
    """With a pair, and the lowest card without one: of the other four cards."""
    state = POKER.init()
    for card in (4, 0, 5):  # an ace, the lowest card, and the other ace
        state = STEP(state, np.int32(card))
        while int(state.actor) >= 0:
            state = STEP(state, np.int32(CALL))
    of_player = jax.jit(POKER.features)
    features = np.stack([of_player(state, player) for player in np.arange(2, dtype=np.int32)])
    np.testing.assert_allclose(features[:, 0], [1, 1 / 8], atol=1e-6)


@functools.cache
def playouts():
    batch = random_playouts(POKER, jax.random.key(0), num_playouts=64)
    return jax.device_get(batch)


def test_the_belief_is_what_bayes_says():
    """The product of the policy's probabilities, of hands that share no card with what is seen."""
    policy = functools.partial(any_policy, POKER)
    for responder in range(2):
        belief = holdem_opponents.RangeBelief(
            game=POKER, policy_of_hands=policy, responder=jnp.int32(responder)
        )
        nodes = holdem_opponents.IndexedGame(
            game=POKER, index=lambda s, p: p, num_states=9, max_decisions=9
        )

        @jax.jit
        def seen_from(memory, state, action, belief=belief, nodes=nodes):
            """What each hand would do, the memory after an action, and the weights of hands."""
            node = nodes.at(state)
            after = belief.after(memory, node, action)
            rows = lbr.probabilities(POKER, policy, node.place)
            return rows, after, belief.weights(after, node.place)

        checked = 0
        for game in range(8):
            memory, expected = belief.start(), np.ones(6)
            for step in range(playouts().moves.shape[1]):
                state = jax.tree.map(lambda x, g=game, s=step: x[g, s], playouts().states)
                if state.actor in (CHANCE, TERMINAL):
                    continue
                action = playouts().moves[game, step]
                given = memory, jax.tree.map(np.asarray, state), np.int32(action)
                rows, memory, weights = seen_from(*given)
                rows, weights = np.asarray(rows), np.asarray(weights)
                if state.actor == 1 - responder:
                    expected = expected * rows[:, action]
                    checked += 1
                seen = {int(state.hole[responder, 0]), int(state.board[0])}
                mine = np.where(np.isin(np.arange(6), list(seen)), 0, expected)
                np.testing.assert_allclose(weights / weights.sum(), mine / mine.sum(), rtol=1e-5)
        assert checked > 8


@pytest.mark.parametrize("policy", [None, functools.partial(any_policy, POKER)])
def test_hands_are_drawn_in_proportion_to_their_weights(policy):
    belief = holdem_opponents.RangeBelief(
        game=POKER, policy_of_hands=policy, responder=jnp.int32(1)
    )
    state = POKER.init()
    for card in (2, 5):
        state = STEP(state, np.int32(card))
    noise = (jnp.arange(1000, dtype=jnp.float32) + 0.5) / 1000
    memory = belief.start()
    draw = jax.jit(jax.vmap(lambda noise: belief.sample(memory, state, None, noise)))
    hands = draw(noise).hole
    np.testing.assert_array_equal(hands[:, 1, 0], 5)
    np.testing.assert_array_equal(np.bincount(hands[:, 0, 0], minlength=6), [200] * 5 + [0])


def test_any_two_cards_are_drawn_equally_often():
    game = make(
        "poker(hole=2,ranks=3,suits=2,board=0/1,raise_sizes=10/20,max_raises=1/1,first=1/0)"
    )
    belief = holdem_opponents.RangeBelief(game=game, policy_of_hands=None, responder=jnp.int32(0))
    state, step = game.init(), jax.jit(game.step)
    for card in (1, 4, 0, 5):
        state = step(state, np.int32(card))
    noise = (jnp.arange(1200, dtype=jnp.float32) + 0.5) / 1200
    hands = jax.jit(jax.vmap(lambda noise: belief.sample((), state, None, noise)))(noise).hole
    mine = hands[:, 0]
    assert (mine == mine[:1]).all()
    pairs, counts = np.unique(np.asarray(hands[:, 1]), axis=0, return_counts=True)
    others = sorted(set(range(6)) - set(mine[0].tolist()))
    assert pairs.tolist() == [list(pair) for pair in itertools.combinations(others, 2)]
    np.testing.assert_array_equal(counts, 200)


@pytest.mark.slow
def test_cards_are_dealt_as_by_the_rules():
    """Round by round, every card equally often, none of them twice."""
    game = holdem_opponents.StrengthPoker(**make("limit_holdem").parameters())
    play = holdem_opponents.build_chump_game(game, CALLS, responder=0).game

    def run(noise):
        def call(state, noise):
            return play.after(play.at(state), jnp.int32(CALL), noise), state.num_dealt

        return jax.lax.scan(call, play.start(noise[0]), noise[1:])

    noise = jax.random.uniform(jax.random.key(0), (4096, 9, 2))
    last, num_dealt = jax.jit(jax.vmap(run))(noise)
    assert (np.asarray(num_dealt) == [4, 4, 7, 7, 8, 8, 9, 9]).all()
    assert (np.asarray(last.actor) == TERMINAL).all()
    cards = np.concatenate([last.hole.reshape(-1, 4), last.board], axis=1)
    assert (np.diff(np.sort(cards, axis=1), axis=1) > 0).all()
    for place in range(9):
        counts = np.bincount(cards[:, place], minlength=52)
        assert ((counts - 4096 / 52) ** 2 / (4096 / 52)).sum() < 100  # 51 on average


def test_showdowns_pay_the_mean_over_all_hands():
    states = playouts().states
    payoffs_at = jax.jit(jax.vmap(holdem_opponents.ChumpGame.payoffs_at, in_axes=(None, 0)))
    for responder in range(2):
        game = holdem_opponents.build_chump_game(POKER, CALLS, responder=responder).game
        last = jax.tree.map(lambda x: x[:, -1], states)
        payoffs = np.asarray(payoffs_at(game, last))
        np.testing.assert_allclose(payoffs.sum(axis=1), 0, atol=1e-5)
        for row in range(64):
            state = jax.tree.map(lambda x, r=row: x[r], last)
            if state.folded.any():
                np.testing.assert_allclose(payoffs[row], state.returns)
                continue
            own, board = int(state.hole[responder, 0]), int(state.board[0])
            rank = lambda card, b=board: (card // 2 == b // 2, card // 2)  # noqa: E731
            others = [card for card in range(6) if card not in (own, board)]
            wins = [(rank(own) > rank(o)) - (rank(own) < rank(o)) for o in others]
            expected = float(np.mean(wins)) * int(state.spent[0])
            assert payoffs[row, responder] == pytest.approx(expected, abs=1e-5)


def test_bad_input():
    with pytest.raises(ValueError, match="responder=2 must be 0 or 1"):
        holdem_opponents.build_chump_game(POKER, CALLS, responder=2)
    drawn = holdem_opponents.StrengthPoker(**make("hunl(bets=random/allin)").parameters())
    with pytest.raises(ValueError, match="must not be drawn by chance"):
        holdem_opponents.build_chump_game(drawn, CALLS, responder=0)
    with pytest.raises(ValueError, match="one entry for each of 3 actions"):
        holdem_opponents.build_chump_game(POKER, Chump((1.0, 1.0)), responder=0)
