"""Best responses by search: exact beliefs, searches that approach the exact best response."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from response_cases import beliefs_by_hand, best_values, solved, uniform, value
from sampling_cases import compiled

from jaxgames.core import TERMINAL, record
from jaxgames.game_tree import states_at
from jaxgames.kuhn import BET, PASS
from jaxgames.registry import make
from solvers.approximate_best_response import opponents, posterior, response_matches
from solvers.approximate_best_response.ismcts_br import IsmctsBr, search
from solvers.approximate_best_response.opponents import (
    TabularOpponent,
    UniformOpponent,
    rules_opponent,
)
from solvers.approximate_best_response.posterior import PerfectInformation, build_response_game
from solvers.approximate_best_response.response_game import (
    Belief,
    ResponseGame,
    ResponseState,
    begin,
)
from solvers.sampling.indexed_game import indexed_game

KUHN, SMALL = "kuhn_poker", "leduc_poker(ranks=2,max_raises=1,suit_isomorphism=true)"
SETTINGS = IsmctsBr(simulations=1000, scale=2.0)
BETS = (0.02, 0.05, 0.95)  # chance that the one who plays its cards bets, by card


def policies_by_card():
    """Policies in Kuhn that tell the card; beliefs without Bayes take it for any."""
    tree = compiled(KUHN)[0]
    policies = []
    for player in range(2):
        states = states_at(make(KUHN), tree, tree.representative(player)[:6])
        bets = [BETS[int(state.cards[player])] for state in states]
        policies.append(np.array([[1 - bet, bet] for bet in bets]))
    return tuple(policies)


def others_reach(source, tree, policies):
    """The reach of chance and of the other players at every information state."""
    _, state, weight = posterior._weights(source, tree, policies)
    return np.bincount(state, weight, tree.num_states)


@pytest.mark.parametrize("name", [KUHN, SMALL])
def test_posteriors_are_bayes(name):
    source, _, tree = compiled(name)
    policies = solved(name, 4)  # some of its chances are 0
    beliefs, never = beliefs_by_hand(name, policies), 0
    for (player, state), expected in beliefs.items():
        number = state + (source.num_decisions[0] if player else 0)
        if None in expected.values():
            never += 1
            with pytest.raises(ValueError, match=rf"never reach information state {number}"):
                posterior.history_probabilities(source, tree, policies, number)
            continue
        actual = posterior.history_probabilities(source, tree, policies, number)
        assert actual.keys() == expected.keys()
        np.testing.assert_allclose([actual[h] for h in expected], [*expected.values()], atol=1e-6)
    assert len(beliefs) == tree.num_states
    assert never == (others_reach(source, tree, policies) == 0).sum()


def test_places_are_drawn_from_the_posterior():
    source, _, tree = compiled(SMALL)
    policies = solved(SMALL, 4)
    belief = posterior.posterior(source, tree, policies)
    noise = (jnp.arange(20_000, dtype=jnp.float32) + 0.5) / 20_000

    @jax.jit
    def drawn(state):
        node = tree.at(belief.worlds.place[belief.worlds.first[state]])
        return jax.vmap(lambda number: belief.sample((), None, node, number))(noise)

    for state in np.flatnonzero(others_reach(source, tree, policies))[::5]:
        history = np.asarray(tree.history)[np.asarray(drawn(jnp.int32(state)))]
        expected = posterior.history_probabilities(source, tree, policies, int(state))
        shares = [np.mean(history == each) for each in expected]
        np.testing.assert_allclose(shares, [*expected.values()], atol=1e-3)


def shares_of_the_best(name, policies, settings, *, belief=None):
    """What composed searches win, over what exact best responses win, both players together."""
    source, _, tree = compiled(name)
    won = 0.0
    for player in range(2):
        response = build_response_game(source, tree, policies, responder=player)
        response = response if belief is None else response.replace(belief=belief)
        policy = response_matches.response_policy(
            response, None, jax.random.key(player), source, settings=settings, batch=16
        )
        won += value(name, policies, player, policy)
    return won / best_values(name, policies).sum()


@pytest.mark.slow
def test_search_alone_finds_the_best_response_in_kuhn():
    policies = policies_by_card()
    assert shares_of_the_best(KUHN, policies, SETTINGS) == pytest.approx(1, abs=0.005)


def test_search_without_bayes_does_not():
    policies, belief = policies_by_card(), posterior.Posterior(worlds=compiled(KUHN)[2].worlds)
    assert shares_of_the_best(KUHN, policies, SETTINGS, belief=belief) < 0.5


@pytest.mark.slow
def test_more_search_is_a_better_response_in_leduc():
    policies = solved(SMALL, 4)
    settings = IsmctsBr(simulations=3000, exploration=0.5, scale=3.0)
    few = dataclasses.replace(settings, simulations=10)
    share = shares_of_the_best(SMALL, policies, settings)
    assert 0.97 < share < 1 + 1e-5
    assert shares_of_the_best(SMALL, policies, few) < share - 0.1


@pytest.mark.slow
def test_search_alone_comes_near_the_best_response_in_leduc():
    """And without Bayes it does not."""
    policies, settings = solved("leduc_poker", 10), IsmctsBr(simulations=20_000, scale=13.0)
    share = shares_of_the_best("leduc_poker", policies, settings)
    assert 0.85 < share < 1 + 1e-5
    belief = posterior.Posterior(worlds=compiled("leduc_poker")[2].worlds)
    assert shares_of_the_best("leduc_poker", policies, settings, belief=belief) < 0.7


def searched(response, key, settings):
    """The search of a responder's first turn."""
    start_key, search_key = jax.random.split(key)
    return search(response, None, search_key, begin(response, start_key), settings=settings)


def test_side_by_side_is_one_by_one():
    source, _, tree = compiled(KUHN)
    response = build_response_game(source, tree, policies_by_card(), responder=1)
    settings = IsmctsBr(simulations=50, scale=2.0, noise=0.3)
    one = functools.partial(searched, response, settings=settings)
    keys = jax.random.split(jax.random.key(0), 3)
    together, one = jax.jit(jax.vmap(one))(keys), jax.jit(one)
    for number, key in enumerate(keys):
        alone = one(key)
        np.testing.assert_array_equal(together.visits[number], alone.visits)
        np.testing.assert_allclose(together.values[number], alone.values, rtol=1e-5)
    np.testing.assert_array_equal(together.visits.sum(axis=1), [50, 50, 50])


def test_the_network_leads_the_search():
    """What it says is good is tried first; what it says a state is worth comes back up."""

    def says(params, node):
        return jnp.where(node.actor == 0, params, 0.0), jnp.array([0.0, 9.0])

    source, _, tree = compiled(KUHN)
    response = build_response_game(source, tree, uniform(KUHN), responder=0)
    place = tree.worlds.place[tree.worlds.first[0]]
    settings = IsmctsBr(evaluate=says, simulations=1, scale=2.0)
    run = jax.jit(functools.partial(search, settings=settings))
    result = run(response, 0.25, jax.random.key(0), ResponseState(place=place, memory=()))
    np.testing.assert_array_equal(result.visits, [0, 1])  # a bet, after which the game ends
    settings = IsmctsBr(evaluate=lambda p, n: (p, jnp.array([9.0, 0.0])), simulations=1, scale=2.0)
    run = jax.jit(functools.partial(search, settings=settings))
    keys = jax.random.split(jax.random.key(1), 12)
    state = ResponseState(place=place, memory=())
    values = {float(run(response, 0.25, key, state).values[0]) for key in keys}
    assert 0.5 in values  # passed, the opponent bet: 0.25 of a scale of 2
    assert values <= {0.5, 1.0, -1.0}


@pytest.mark.slow
def test_games_against_the_opponent_are_worth_what_they_should_be():
    source, _, tree = compiled(KUHN)
    policies = policies_by_card()
    best = best_values(KUHN, policies)
    for player in range(2):
        response = build_response_game(source, tree, policies, responder=player)
        settings = IsmctsBr(simulations=300, scale=2.0)
        won = response_matches.play(
            response, None, jax.random.key(3), settings=settings, num_games=2000
        )
        error = won.std() / np.sqrt(len(won))
        assert abs(won.mean() - best[player]) < 4 * error + 0.01


def test_games_of_policies_are_worth_what_they_should_be():
    policies = policies_by_card()
    won = response_matches.sampled_payoffs(
        compiled(KUHN)[2], policies, jax.random.key(0), num_games=20_000
    )
    expected = value(KUHN, policies, 0, policies[0])
    assert abs(won[:, 0].mean() - expected) < 4 * won[:, 0].std() / np.sqrt(len(won))
    np.testing.assert_allclose(won.sum(axis=1), 0, atol=1e-6)


@record
class Cards(Belief):
    """What player 1's actions tell of its card, by the rules of Kuhn."""

    def start(self):
        return jnp.ones(3)

    def after(self, memory, node, action):
        bets = jnp.array(BETS)
        told = memory * jnp.where(action == BET, bets, 1 - bets)
        return jnp.where(node.actor == 1, told, memory)

    def sample(self, memory, place, node, noise):
        cards = jnp.arange(3, dtype=jnp.int32)
        weights = jnp.where(cards == place.cards[0], 0, memory)
        card = jnp.sum((jnp.cumsum(weights) <= noise * jnp.sum(weights)).astype(jnp.int32))
        return place.replace(cards=place.cards.at[1].set(card))


def plays_its_cards(params, state):
    bet = params[jnp.maximum(state.cards[jnp.maximum(state.actor, 0)], 0)]
    return jnp.where(state.actor >= 0, jnp.stack([1 - bet, bet]), 0)


@pytest.mark.slow
def test_games_by_their_rules():
    """A belief with a memory, a policy of states, states found by hash: as good as tables."""
    game = indexed_game(make(KUHN), num_states=2**31 - 1)
    response = ResponseGame(
        game=game,
        opponent=rules_opponent(game, plays_its_cards, jnp.array(BETS)),
        belief=Cards(),
        responder=jnp.int32(0),
    )
    settings = IsmctsBr(simulations=300, scale=2.0)
    won = response_matches.play(
        response, None, jax.random.key(5), settings=settings, num_games=2000
    )
    best = best_values(KUHN, policies_by_card())[0]
    assert abs(won.mean() - best) < 4 * won.std() / np.sqrt(len(won)) + 0.01


def test_games_that_hide_nothing():
    """Against uniform play in tic-tac-toe, one move from the end of a game."""
    game = indexed_game(make("tic_tac_toe"), num_states=2**31 - 1)
    response = ResponseGame(
        game=game, opponent=UniformOpponent(), belief=PerfectInformation(), responder=jnp.int32(0)
    )
    state = game.game.init()
    for action in (0, 3, 1, 4):
        state = game.game.step(state, jnp.int32(action))
    run = jax.jit(functools.partial(search, settings=IsmctsBr(simulations=200)))
    result = run(response, None, jax.random.key(0), ResponseState(place=state, memory=()))
    assert int(jnp.argmax(result.visits)) == 2  # three in a row
    assert float(result.values[2]) == 1.0
    assert (np.asarray(result.visits)[[0, 1, 3, 4]] == 0).all()


def test_finished_games_are_not_searched():
    source, _, tree = compiled(KUHN)
    response = build_response_game(source, tree, uniform(KUHN), responder=0)
    over = ResponseState(place=jnp.int32(tree.nowhere), memory=())
    result = jax.jit(functools.partial(search, settings=SETTINGS))(
        response, None, jax.random.key(0), over
    )
    assert int(tree.at(over.place).actor) == TERMINAL
    assert (np.asarray(result.visits) == 0).all()


def test_an_agent_that_tells_no_probabilities_is_counted():
    tree = compiled(KUHN)[2]
    bets = jnp.asarray(policies_by_card()[0][:, BET], jnp.float32)

    def act(node, key):
        return jax.random.bernoulli(key, bets[node.state % 6]).astype(jnp.int32)

    frequencies = opponents.sampled_policy(tree, act, jax.random.key(0), count=2000)
    np.testing.assert_allclose(frequencies[0][:, BET], bets, atol=0.05)
    with pytest.raises(ValueError, match="chooses an illegal action in information state 0"):
        opponents.sampled_policy(tree, lambda node, key: jnp.int32(7), jax.random.key(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"simulations": 0}, "simulations=0 must be at least 1"),
        ({"exploration": -1.0}, "exploration=-1.0 must be at least 0 and finite"),
        ({"scale": 0.0}, "scale=0.0 must be positive and finite"),
        ({"noise": 1.5}, "noise=1.5 must be from 0 to 1"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        IsmctsBr(**options)


def test_bad_opponents():
    source, _, tree = compiled(KUHN)
    good = uniform(KUHN)
    for policies, message in (
        (good[:1], r"1 policies given; kuhn_poker.* has 2"),
        (uniform(SMALL), r"policy of player 0 has shape \(\d+, 3\), not \(6, 2\)"),
        ((good[0] * 2, good[1]), r"policy of player 0 is .* in information state 0"),
    ):
        with pytest.raises(ValueError, match=message):
            build_response_game(source, tree, policies, responder=0)
    with pytest.raises(ValueError, match=r"responder=2 must be a player of kuhn_poker.*, 0 to 1"):
        build_response_game(source, tree, good, responder=2)
    with pytest.raises(ValueError, match="state=12 must be from 0 to 11"):
        posterior.history_probabilities(source, tree, good, 12)
    game = indexed_game(make(KUHN), num_states=100)
    with pytest.raises(
        ValueError, match=r"policy in a state of kuhn_poker.* has shape \(\), not \(2,\)"
    ):
        rules_opponent(game, lambda params, state: jnp.int32(PASS))
    with pytest.raises(ValueError, match=r"where the legal actions are .* not a policy"):
        rules_opponent(game, lambda params, state: jnp.array([0.5, 0.6]))
    response = ResponseGame(
        game=game, opponent=UniformOpponent(), belief=PerfectInformation(), responder=jnp.int32(0)
    )
    with pytest.raises(ValueError, match="must be a game compiled from kuhn_poker"):
        response_matches.response_policy(
            response, None, jax.random.key(0), source, settings=SETTINGS
        )
    with pytest.raises(ValueError, match="num_games=0 must be at least 1"):
        response_matches.play(response, None, jax.random.key(0), settings=SETTINGS, num_games=0)
    assert isinstance(
        build_response_game(source, tree, good, responder=0).opponent, TabularOpponent
    )
