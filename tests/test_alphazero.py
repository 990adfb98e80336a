"""AlphaZero: its search, also against a fixed opponent, games side by side, training."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import other_devices
import pytest
from flax import nnx
from test_pgx_beliefs import Midgame

from experiments.student_of_games import sog_tictactoe
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs import belief_table
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from nets.value_prior import ValuePriorEvaluator, new_value_prior
from solvers.perfect_information import alphazero_search, duels, minimax
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent
from solvers.perfect_information.duels import Games
from train import alphazero_training as training
from train import data_sharding
from train.alphazero_training import AlphaZeroSettings
from train.learner import LearnerSettings

GAME = pgx_beliefs("tic_tac_toe")
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
    settings = AlphaZeroSettings(search=SEARCH, learner=LearnerSettings(), games=2, updates=1)
    calls = (
        lambda: alphazero_search.search(table, agent, key, table.root()),
        lambda: duels.duel(table, agent, agent, key, num_games=2),
        lambda: training.init(table, {}, key, settings=settings),
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


def by_the_rules(pick_by_seat):
    """Actions and payoff of a scripted game by the other implementation of the rules."""
    game = make("tic_tac_toe")
    state, actions = game.init(), []
    while int(state.actor) >= 0:
        legal = np.flatnonzero(state.legal)
        actions.append(int(legal[pick_by_seat[int(state.actor)]]))
        state = game.step(state, jnp.int32(actions[-1]))
    return actions, float(state.returns[0])


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


@pytest.mark.slow
def test_duels_are_told_from_the_first_agents_side():
    """A search does well against random play, from either seat."""
    strong = AlphaZeroAgent(settings=AlphaZero(alphazero_search.zero, simulations=40))
    won = duels.duel(GAME, strong, AlphaZeroAgent(), jax.random.key(0), num_games=48)
    lost_ = duels.duel(GAME, AlphaZeroAgent(), strong, jax.random.key(0), num_games=48)
    for seat in range(2):
        assert won[seat::2].mean() > 0.4
        assert lost_[seat::2].mean() < -0.4


def test_searches_become_examples():
    """The policy to be learned is the share of visits, the value the first player's."""
    numbers, _ = decisions((3, 4), 8)
    agent = AlphaZeroAgent(settings=AlphaZero(alphazero_search.zero, simulations=30, noise=1.0))
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf[numbers]), positions().state)
    keys, moves = jax.random.split(jax.random.key(0), 8), jnp.full(8, 3)
    _, result = duels.player(GAME, agent)(jax.random.clone(keys), states, moves)
    _, notes = training._noting(GAME, agent, policy_weight=0.5)(keys, states, moves)
    np.testing.assert_allclose(notes.example.policy, result.visits / 30, rtol=1e-6)
    np.testing.assert_array_equal(notes.example.policy_weight, 0.5)
    sign = np.where(positions().actor[numbers] == 0, 1, -1)
    np.testing.assert_array_equal(notes.value, sign * np.asarray(result.value))


def test_value_targets():
    """Against the definition, game by game."""
    random = np.random.default_rng(0)
    lengths, payoffs = np.array([5, 9, 3]), np.array([1.0, -1.0, 0.0], np.float32)
    value = random.normal(size=(3, 9)).astype(np.float32)
    moved = np.arange(9) < lengths[:, None]
    notes = training.Note(example=None, sign=None, value=jnp.asarray(value))
    games = Games(payoffs=jnp.asarray(payoffs), moved=jnp.asarray(moved), notes=notes)
    for steps in (None, 1, 4, 20):
        targets = np.asarray(training.value_targets(games, steps))
        for game, length in enumerate(lengths):
            for turn in range(length):
                later = None if steps is None else turn + steps
                goes_on = later is not None and later < length
                assert targets[game, turn] == (value[game, later] if goes_on else payoffs[game])


def test_value_targets_of_games_in_a_row():
    """Of a game of four turns, one of two, and three turns of one that goes on after them."""
    values = np.arange(9, dtype=np.float32)[None, :]
    last = np.array([[3, 3, 3, 3, 5, 5, 20, 20, 20]], np.int32)
    returns = np.where(last == 3, 100, 200).astype(np.float32)
    for steps, expected in (
        (1, [1, 2, 3, 100, 5, 200, 7, 8]),
        (3, [3, 100, 100, 100, 200, 200]),
        (12, [100, 100, 100, 100, 200, 200]),
    ):
        targets = training._targets(*map(jnp.asarray, (returns, values, last)), steps)
        assert targets[0, : len(expected)].tolist() == expected


LINES = [[*range(i, i + 3)] for i in (0, 3, 6)] + [[i, i + 3, i + 6] for i in range(3)]
LINES += [[0, 4, 8], [2, 4, 6]]


def test_games_that_go_on_teach_what_the_rules_say():
    """From the boards in the examples: games one after the other, none of them cut, with the
    payoffs that their last boards have."""
    games, moves, steps = 3, 4, 6
    settings = AlphaZeroSettings(
        search=AlphaZero(alphazero_search.zero, simulations=6, noise=1.0, concentration=0.3),
        learner=LearnerSettings(),
        games=games,
        updates=1,
        moves=moves,
    )
    self_play = training._new_self_play(GAME, games)
    step = jax.jit(functools.partial(training._go_on, settings=settings))
    found, ended = [[] for _ in range(games)], np.zeros(games, int)
    for number in range(steps):
        keys = jax.random.split(jax.random.key(number), games)
        self_play, examples, exists, turns = step((GAME, None), (keys, self_play))
        ended += np.asarray(turns.ended).sum(axis=1)
        for slot, place in np.argwhere(exists):
            board = np.asarray(examples.features[slot, place])[:18].reshape(9, 2)
            move = int(np.argmax(examples.policy[slot, place]))  # the most visited one was made
            found[slot].append((board, move, float(examples.value[slot, place])))
    for slot, history in enumerate(found):
        boards, actions, values = zip(*history, strict=True)
        begins = [number for number, board in enumerate(boards) if not board.any()]
        assert len(begins) == ended[slot] > 1
        for begin, end in itertools.pairwise([*begins, len(boards)]):
            for number in range(begin, end):
                after = boards[number].copy()  # own stones, and the opponent's
                after[actions[number], 0] = 1
                if number < end - 1:
                    np.testing.assert_array_equal(boards[number + 1], after[:, ::-1])
            won = any(after[line, 0].all() for line in LINES)
            assert won or after.sum() == 9
            assert [*values[begin:end]] == [
                won * (-1) ** (end - 1 - number) for number in range(begin, end)
            ]
        assert len(boards) + self_play.games.num_moves[slot] == steps * moves


def trained(
    steps, *, opponent=None, simulations=16, seed=0, games=32, moves=None, updates=8, mesh=None
):
    """A network's graph, and a run after so many steps with the metrics of the last."""
    graph, params = nnx.split(new_value_prior(GAME, seed=seed, width=64, depth=2))
    settings = AlphaZeroSettings(
        search=AlphaZero(
            ValuePriorEvaluator(graph),
            simulations=simulations,
            noise=0.25,
            sampled_moves=9,
        ),
        learner=LearnerSettings(
            learning_rate=3e-3,
            decay_rate=0.03,
            decay_steps=steps * updates,
            batch_size=128,
            capacity=20_000,
            max_uses=20,
            policy_weight=1.0,
            l2=1e-4,
        ),
        games=games,
        updates=updates,
        moves=moves,
    )
    state = training.init(GAME, params, jax.random.key(seed), settings=settings, mesh=mesh)
    for _ in range(steps):
        state, metrics = training.train_step(
            GAME, graph, state, settings=settings, opponent=opponent, mesh=mesh
        )
    return graph, state, metrics


def composed(agent):
    """The policy of an agent that plays its most visited actions, at all positions it can meet."""
    find = functools.partial(_most_visited, agent)
    return sog_tictactoe.composed(positions(), find, batch=64)


def _most_visited(agent, numbers, states):
    keys = jax.random.split(jax.random.key(0), len(numbers))
    return np.asarray(searches(agent, keys, states).visits).argmax(axis=1)


def gain_of_best_response(policy):
    """NashConv / 2; the value of the game is 0."""
    values = [
        minimax.best_response_values(positions(), policy, player=player)[0] for player in (0, 1)
    ]
    return (values[0] - values[1]) / 2


@pytest.mark.slow
@pytest.mark.parametrize("moves", [None, 8])
def test_training_teaches_to_win(moves):
    """A policy head without search wins more of random play after a little training."""
    graph, state, metrics = trained(25, moves=moves)
    assert metrics["moves"] > 5
    assert metrics["games"] > 20
    assert 0 < state.replay.size <= 25 * 32 * 9
    np.testing.assert_array_equal(state.learner.step, 25 * 8)
    head = AlphaZero(ValuePriorEvaluator(graph), simulations=1)
    untrained = nnx.split(new_value_prior(GAME, seed=0, width=64, depth=2))[1]
    points = [
        float(
            duels.duel(
                GAME,
                AlphaZeroAgent(params=params, settings=head),
                AlphaZeroAgent(),
                jax.random.key(1),
                num_games=512,
            ).mean()
        )
        for params in (untrained, state.learner.params)
    ]
    assert points[1] > points[0] + 0.2


@pytest.mark.slow
def test_training_comes_to_perfect_play():
    """Nothing beats the trained agent in any of the positions that it can meet."""
    graph, state, _ = trained(400, games=64)
    agent = AlphaZeroAgent(
        params=state.learner.params,
        settings=AlphaZero(ValuePriorEvaluator(graph), simulations=64),
    )
    assert gain_of_best_response(composed(agent)) == 0


@pytest.mark.slow
def test_learned_responses_come_to_the_exact_one():
    """Against an agent of little training; a response cannot win more than the exact one."""
    graph, state, _ = trained(5)
    evaluate = ValuePriorEvaluator(graph)
    agent = AlphaZeroAgent(params=state.learner.params, settings=AlphaZero(evaluate, simulations=8))
    exact = gain_of_best_response(composed(agent))
    assert exact > 0.5
    _, state, _ = trained(150, opponent=agent, seed=1)
    response = AlphaZeroAgent(
        params=state.learner.params, settings=AlphaZero(evaluate, simulations=64), opponent=agent
    )
    won = duels.duel(GAME, response, agent, jax.random.key(2), num_games=256).mean()
    assert 0.9 * exact <= won <= exact + 1e-6


def numbers():
    """Parameters after two steps on all devices, and duels, for the test below."""
    mesh = data_sharding.data_mesh()
    states = [trained(2, moves=moves, mesh=mesh)[1] for moves in (None, 6)]
    agents = AlphaZeroAgent(settings=SEARCH), AlphaZeroAgent()
    won = duels.duel(GAME, *agents, jax.random.key(0), num_games=8, mesh=mesh)
    arrays = jax.tree.leaves([state.learner.params for state in states])
    return np.concatenate([np.ravel(x) for x in (won, *arrays)])


@pytest.mark.slow
def test_two_devices_learn_and_play_what_one_does(tmp_path):
    spread = other_devices.numbers("test_alphazero", tmp_path, devices=2)
    np.testing.assert_allclose(spread, numbers(), rtol=1e-3, atol=1e-5)


def test_bad_input():
    for fields, message in (
        ({"simulations": 0}, "simulations=0 must be at least 1"),
        ({"simulations": 1, "noise": 1.5}, "noise=1.5 must be from 0 to 1"),
        ({"simulations": 1, "exploration": 0.0}, "exploration=0.0 must be positive"),
        ({"simulations": 1, "sampled_moves": -1}, "sampled_moves=-1 must be at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            AlphaZero(alphazero_search.zero, **fields)
    fine = dict(search=SEARCH, learner=LearnerSettings(), games=2, updates=1)
    for name, value in (("games", 0), ("updates", 0), ("td_steps", 0), ("moves", 0)):
        with pytest.raises(ValueError, match=f"{name}=0 must be"):
            AlphaZeroSettings(**fine | {name: value})
    graph, params = nnx.split(new_value_prior(GAME, seed=0, width=2, depth=1))
    fine["learner"] = LearnerSettings(batch_size=8, capacity=64)
    for name in ("td_steps", "moves"):
        settings = AlphaZeroSettings(**fine | {name: 3})
        state = training.init(GAME, params, jax.random.key(0), settings=settings)
        with pytest.raises(ValueError, match=f"{name}=3 must be None against an opponent"):
            training.train_step(GAME, graph, state, settings=settings, opponent=AlphaZeroAgent())


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
    found = alphazero_search.statistics(tree)
    np.testing.assert_array_equal(found.visits, whole.visits)
    assert found.value == whole.value
    line = alphazero_search.most_visited_line(tree, 32)
    assert line[0] == jnp.argmax(whole.visits)
    known = np.asarray(line)[line >= 0]
    assert 1 < len(known) == len({*known.tolist()}) <= 9  # legal moves, then nothing
    assert (line[len(known) :] == -1).all()
