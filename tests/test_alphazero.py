"""AlphaZero: its search, also against a fixed opponent, and games side by side."""

import functools
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mctx_reference import visits_and_value
from test_pgx_beliefs import Midgame

from jaxgames.adapters.pgx import MOST_LEGAL
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs import belief_table
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers.perfect_information import alphazero_search, duels, minimax, puct_tree
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.positions import legal_actions, num_actions, position_after

GAME = pgx_beliefs("tic_tac_toe")
AFTER, LEGAL = jax.jit(position_after), jax.jit(legal_actions)
SEARCH = AlphaZero(alphazero_search.zero, simulations=200)
TASTE = -1.5 * np.arange(9, dtype=np.float32)  # of a player who likes the first cells
BIASED = AlphaZeroAgent(
    settings=AlphaZero(lambda *_: (jnp.float32(0), jnp.asarray(TASTE)), simulations=1)
)


@functools.cache
def positions():
    return minimax.enumerate_positions(GAME)


@jax.jit
def searches(agent, keys, states):
    return jax.vmap(functools.partial(alphazero_search.search, GAME, agent))(keys, states)


def search_at(agent, numbers, seed=0):
    """Statistics of the agent's searches at these positions."""
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf[numbers]), positions().state)
    return searches(agent, jax.random.split(jax.random.key(seed), len(numbers)), states)


def decisions(depths, count):
    """Some positions of these depths, and the exact values of their actions to the actor against
    the biased player."""
    all_ = positions()
    legal = all_.child != minimax.NOWHERE
    policy = np.where(legal, np.exp(TASTE), 0)
    policy /= np.maximum(policy.sum(axis=1, keepdims=True), 1e-9)
    here = np.flatnonzero(np.isin(all_.depth, depths) & (all_.actor >= 0))
    here = np.random.default_rng(0).choice(here, count, replace=False)
    exact = np.zeros(all_.child.shape)
    for player in range(2):
        values = minimax.best_response_values(all_, policy, player=player)
        sign = 1 if player == 0 else -1
        mine = all_.actor == player
        exact[mine] = sign * values[np.maximum(all_.child[mine], 0)]
    return here, np.where(legal, exact, -np.inf)[here]


def lost(exact, result):
    """The mean difference of the values of the best and of the most visited actions."""
    taken = np.asarray(result.visits).argmax(axis=1)
    return float(np.mean(exact.max(axis=1) - exact[np.arange(len(exact)), taken]))


@pytest.mark.slow
def test_search_without_a_network_comes_to_the_best_response():
    """More simulations lose less; a search that expects its opponent to play well loses more."""
    numbers, exact = decisions((3, 4), 32)
    agent = AlphaZeroAgent(settings=SEARCH, opponent=BIASED)
    losses = [
        lost(exact, search_at(agent.replace(simulations=jnp.int32(count)), numbers))
        for count in (4, 25, 200)
    ]
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 0.005
    blind = lost(
        exact, search_at(AlphaZeroAgent(settings=SEARCH, simulations=jnp.int32(200)), numbers)
    )
    assert blind > 0.02


@pytest.mark.slow
def test_values_are_those_of_the_best_response():
    """Three moves before the end every position is searched many times."""
    numbers, exact = decisions((6,), 32)
    result = search_at(AlphaZeroAgent(settings=SEARCH, opponent=BIASED), numbers)
    errors = np.abs(result.value - exact.max(axis=1))
    assert errors.mean() < 0.05  # of exploration and sampling
    assert lost(exact, result) < 0.01


@pytest.mark.slow
def test_an_opponent_may_play_at_random():
    numbers, _ = decisions((2, 3), 4)
    settings = AlphaZero(alphazero_search.zero, simulations=20)
    same_prior = AlphaZeroAgent(settings=settings)
    first, second = (
        search_at(AlphaZeroAgent(settings=settings, opponent=opponent), numbers)
        for opponent in (AlphaZeroAgent(), same_prior)
    )
    chex.assert_trees_all_equal(first, second)


@pytest.mark.slow
def test_fewer_simulations_than_there_is_room_for():
    numbers, _ = decisions((0, 2), 8)
    roomy = AlphaZeroAgent(settings=SEARCH, simulations=jnp.int32(20), opponent=BIASED)
    tight = AlphaZeroAgent(
        settings=AlphaZero(alphazero_search.zero, simulations=20), opponent=BIASED
    )
    first, second = (search_at(agent, numbers) for agent in (roomy, tight))
    np.testing.assert_array_equal(first.visits, second.visits)
    np.testing.assert_array_equal(first.visits.sum(axis=1), 20)
    np.testing.assert_allclose(first.value, second.value, rtol=1e-6)


@pytest.mark.slow
def test_any_game_of_perfect_information_is_searched():
    """Our own tic-tac-toe after an opening, as a belief table, against pgx's."""
    table = belief_table(enumerate_game(Midgame()))
    position = functools.reduce(GAME.child, jnp.array(Midgame().opening), GAME.root())
    agent, run = AlphaZeroAgent(settings=SEARCH), jax.jit(alphazero_search.search)
    ours, theirs = (
        run(game, agent, jax.random.key(0), state)
        for game, state in ((table, table.root()), (GAME, position))
    )
    np.testing.assert_array_equal(ours.visits, theirs.visits)
    np.testing.assert_allclose(ours.value, theirs.value, rtol=1e-6)
    payoffs = duels.duel(table, agent, agent, jax.random.key(0), num_games=4)
    perfect = minimax.perfect_values(minimax.enumerate_positions(table))[0]
    np.testing.assert_array_equal(payoffs[::2], perfect)


def test_games_with_hidden_information_are_refused():
    table, agent, key = (
        belief_table(make("kuhn_poker")),
        AlphaZeroAgent(settings=SEARCH),
        jax.random.key(0),
    )
    calls = (
        lambda: alphazero_search.search(table, agent, key, table.root()),
        lambda: duels.duel(table, agent, agent, key, num_games=2),
    )
    for call in calls:
        with pytest.raises(
            ValueError, match=r"kuhn_poker.* has num_rows=\(3, 3\); allowed: \(1, 1\)"
        ):
            call()


def test_illegal_actions_are_never_visited():
    numbers, exact = decisions((3, 5, 7), 32)
    noisy = AlphaZeroAgent(
        settings=AlphaZero(alphazero_search.zero, simulations=30, noise=1.0, concentration=0.1)
    )
    visits, others = (np.asarray(search_at(noisy, numbers, seed).visits) for seed in range(2))
    assert (visits[np.isinf(exact)] == 0).all()
    assert (visits.sum(axis=1) == 30).all()
    assert (visits != others).any()  # noise


def scripted(take):
    """A player that takes the first or the last legal action, and notes which."""

    def move(key, state, num_moves):
        action = take(GAME.child_mask(state)).astype(jnp.int32)
        return action, {"action": action}

    return jax.vmap(move)


FIRST = scripted(jnp.argmax)
LAST = scripted(lambda legal: 8 - jnp.argmax(legal[::-1]))


RULES = make("tic_tac_toe")
STEP = jax.jit(RULES.step)


def by_the_rules(pick_by_seat):
    """Actions and payoff of a scripted game by the other implementation of the rules."""
    state, actions = RULES.init(), []
    while int(state.actor) >= 0:
        legal = np.flatnonzero(state.legal)
        actions.append(int(legal[pick_by_seat[int(state.actor)]]))
        state = STEP(state, np.int32(actions[-1]))
    return actions, float(state.returns[0])


@pytest.mark.parametrize(
    ("name", "simulations", "depths"),
    [
        ("tic_tac_toe", 120, (0, 3, 5, 7)),
        pytest.param("connect_four", 60, (0, 20), marks=pytest.mark.slow),
    ],
)
def test_searches_are_those_of_mctx(name, simulations, depths):
    """With values and priors that look random, after random moves."""
    game = pgx_beliefs(name)
    mixing = np.random.default_rng(0).normal(size=(len(game.encode(game.root())), 1 + 9))
    mixing = jnp.asarray(mixing, jnp.float32)

    def evaluate(params, game, state):
        mixed = jnp.sin(game.encode(state).astype(jnp.float32) @ params)
        return 0.9 * mixed[0], 2 * mixed[1 : 1 + num_actions(game)]

    settings = AlphaZero(evaluate, simulations=simulations)
    agent = AlphaZeroAgent(params=mixing, settings=settings)
    ours = jax.jit(jax.vmap(functools.partial(alphazero_search.search, game, agent)))
    theirs = jax.jit(jax.vmap(functools.partial(visits_and_value, game, settings, mixing)))
    random, states = np.random.default_rng(1), []
    for depth in depths:
        state = game.root()
        while depth and int(game.actor(state)) >= 0:
            legal = np.flatnonzero(LEGAL(game, state))
            below = AFTER(game, state, jnp.int32(random.choice(legal)))
            state, depth = (state, 0) if int(game.actor(below)) < 0 else (below, depth - 1)
        states.append(state)
    states = jax.tree.map(lambda *each: jnp.stack(each), *states)
    found, (visits, value) = (
        ours(jax.random.split(jax.random.key(0), len(depths)), states),
        theirs(states),
    )
    np.testing.assert_array_equal(found.visits, visits)
    np.testing.assert_allclose(found.value, value, atol=1e-5)


def test_ends_of_the_game_are_added_once():
    """However often they are visited; the places of the tree are different positions."""
    agent, keys = AlphaZeroAgent(settings=SEARCH), jax.random.split(jax.random.key(0))

    @jax.jit
    def searched():
        state = GAME.root()
        for cell in (0, 3, 1, 4):  # the third one wins now
            state = position_after(GAME, state, jnp.int32(cell))
        tree = alphazero_search.plant(GAME, agent, keys[0], state)
        return alphazero_search.grow(GAME, agent, keys[1], tree)

    tree = searched()
    assert int(tree.simulations) == SEARCH.simulations
    count = int(tree.count)
    ends, visits = np.asarray(tree.actor)[:count] < 0, np.asarray(tree.visits)
    children = np.asarray(tree.child)
    assert sorted(children[children >= 0].tolist()) == [*range(1, count)]
    assert not (children[:count][ends] >= 0).any()
    assert count < 100 < visits[:count][ends].sum()
    assert not visits[count:].any()
    assert float(tree.visits[0]) == 1 + SEARCH.simulations


def test_columns_of_the_legal_actions_are_enough(monkeypatch):
    """Trees with room for as many actions as are legal make the same searches."""
    agent, state = AlphaZeroAgent(settings=SEARCH), GAME.root()
    for cell in (4, 0, 8):  # six cells are left
        state = AFTER(GAME, state, jnp.int32(cell))

    def searched(state):
        keys = jax.random.split(jax.random.key(0))
        tree = alphazero_search.plant(GAME, agent, keys[0], state)
        tree = alphazero_search.grow(GAME, agent, keys[1], tree)
        return tree.prior, alphazero_search.statistics(tree), puct_tree.most_visited_line(tree, 6)

    _, *expected = jax.jit(searched)(state)
    monkeypatch.setitem(MOST_LEGAL, "tic_tac_toe", 6)
    prior, *found = jax.jit(lambda state: searched(state))(state)
    assert prior.shape == (SEARCH.simulations + 1, 6)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_no_simulation_copies_a_table_of_actions():
    """Searches side by side end their walks at different depths."""
    agent, game = AlphaZeroAgent(settings=SEARCH), pgx_beliefs("connect_four")
    states = jax.tree.map(lambda x: jnp.stack([x] * 3), game.root())
    search = jax.vmap(functools.partial(alphazero_search.search, game, agent))
    lowered = jax.jit(search).lower(jax.random.split(jax.random.key(0), 3), states)
    program = lowered.compile().as_text()
    table = rf"\w+\[3,{SEARCH.simulations + 1},7\]"
    assert re.search(rf"= {table}", program)
    assert not re.findall(rf"= {table}\S* (?:copy|select|convert)\(", program)


def test_games_side_by_side_are_those_of_the_rules():
    keys, seats = jax.random.split(jax.random.key(0), 4), jnp.array([0, 1, 1, 0])
    play = jax.jit(functools.partial(duels.play, GAME, players=[FIRST, LAST]))
    games = play(keys, seats)
    for number, seat in enumerate(seats.tolist()):
        actions, payoff = by_the_rules([0, -1] if seat == 0 else [-1, 0])
        moved = games.moved[number]
        assert games.notes["action"][number][moved].tolist() == actions
        assert not games.notes["action"][number][~moved].any()
        assert games.payoffs[number] == payoff
        assert bool(moved[0]) == (seat == 1)  # the second player has the even turns
    alone = jax.jit(functools.partial(duels.play, GAME, players=[FIRST]))(keys, seats)
    actions, payoff = by_the_rules([0, 0])
    for number in range(4):
        assert alone.notes["action"][number][alone.moved[number]].tolist() == actions
    np.testing.assert_array_equal(alone.payoffs, payoff)


def test_a_new_game_follows_where_one_has_ended():
    """All games are the same one, again and again, whose moves are counted from its beginning."""

    def counting(keys, states, num_moves):
        actions, notes = FIRST(keys, states, num_moves)
        return actions, notes | {"number": num_moves}

    actions, payoff = by_the_rules([0, 0])
    length = len(actions)
    play_on = jax.jit(functools.partial(duels.play_on, GAME, player=counting, turns=length + 2))
    under_way, found = duels.begin(GAME, 2), []
    for seed in range(3):
        under_way, turns = play_on(jax.random.split(jax.random.key(seed), 2), under_way)
        found.append(turns)
    np.testing.assert_array_equal(under_way.num_moves, 6 % length)
    turns = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *found)
    number = np.arange(3 * (length + 2)) % length
    for game in range(2):
        assert turns.notes["action"][game].tolist() == np.asarray(actions)[number].tolist()
        assert turns.notes["number"][game].tolist() == number.tolist()
        ends = number == length - 1
        assert turns.ended[game].tolist() == ends.tolist()
        assert turns.payoffs[game].tolist() == np.where(ends, payoff, 0).tolist()


@pytest.mark.slow
def test_duels_are_told_from_the_first_agents_side():
    """A search does well against random play, from either seat."""
    strong = AlphaZeroAgent(settings=AlphaZero(alphazero_search.zero, simulations=40))
    won = duels.duel(GAME, strong, AlphaZeroAgent(), jax.random.key(0), num_games=48)
    lost_ = duels.duel(GAME, AlphaZeroAgent(), strong, jax.random.key(0), num_games=48)
    for seat in range(2):
        assert won[seat::2].mean() > 0.4
        assert lost_[seat::2].mean() < -0.4


def test_bad_input():
    for fields, message in (
        ({"simulations": 0}, "simulations=0 must be at least 1"),
        ({"simulations": 2**15}, "simulations=32768 must be at least 1 and at most 32,767"),
        ({"simulations": 1, "noise": 1.5}, "noise=1.5 must be from 0 to 1"),
        ({"simulations": 1, "exploration": 0.0}, "exploration=0.0 must be positive"),
        ({"simulations": 1, "sampled_moves": -1}, "sampled_moves=-1 must be at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            AlphaZero(alphazero_search.zero, **fields)


@pytest.mark.slow
def test_a_search_in_pieces_is_the_whole_search():
    settings = AlphaZero(alphazero_search.zero, simulations=32, noise=0.25)
    agent, root = AlphaZeroAgent(settings=settings), GAME.root()
    whole = jax.jit(functools.partial(alphazero_search.search, GAME))(
        agent, jax.random.key(3), root
    )
    grow = jax.jit(functools.partial(alphazero_search.grow, GAME))
    tree = jax.jit(functools.partial(alphazero_search.plant, GAME))(agent, jax.random.key(3), root)
    for count in (1, 5, 20, 32):
        other = jax.random.key(count)  # nothing is drawn any more
        tree = grow(agent.replace(simulations=jnp.int32(count)), other, tree)
        assert alphazero_search.statistics(tree).visits.sum() == count
    full = grow(agent.replace(simulations=jnp.int32(100)), jax.random.key(0), tree)
    assert int(full.simulations) == 32  # there is no more room
    found = alphazero_search.statistics(tree)
    np.testing.assert_array_equal(found.visits, whole.visits)
    assert found.value == whole.value
    line = puct_tree.most_visited_line(tree, 32)
    assert int(line[0]) == int(jnp.argmax(whole.visits))
    known = np.asarray(line)[line >= 0]
    assert 1 < len(known) == len({*known.tolist()}) <= 9  # legal moves, then nothing
    assert (line[len(known) :] == -1).all()


def test_an_opponents_moves_do_not_depend_on_the_pieces_of_a_search():
    """With the same key for all pieces."""
    agent = AlphaZeroAgent(settings=AlphaZero(alphazero_search.zero, simulations=32))
    agent, root = agent.replace(opponent=BIASED), GAME.root()
    grow = jax.jit(functools.partial(alphazero_search.grow, GAME))
    tree = jax.jit(functools.partial(alphazero_search.plant, GAME))(agent, jax.random.key(3), root)
    whole, found = grow(agent, jax.random.key(5), tree), tree
    for count in (3, 10, 32):
        found = grow(agent.replace(simulations=jnp.int32(count)), jax.random.key(5), found)
    chex.assert_trees_all_equal(found, whole)
