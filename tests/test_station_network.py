"""The network for Scotland Yard that has the map built in."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from yard_cases import LONDON, london_games

from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from jaxgames.scotland_yard import ScotlandYard, add_map, load_map, scotland_yard_beliefs
from jaxgames.scotland_yard.board import encode
from jaxgames.scotland_yard.maps import KINDS, NOWHERE, distances
from nets.cvpn import CvpnEvaluator
from nets.station_network import new_station_network
from solvers.search.search_state import GrowingTreeCfr
from train import student_of_games_training
from train.learner import require_finite_losses
from train.paper_settings import PAPER_LEARNER, paper_settings

_SHIFT = 7  # of stations in the renumbered district


@functools.cache
def renumbered():
    """The name of a map with the lines of the district, and its stations in another order."""
    district = load_map("district")
    numbers = np.roll(district.numbers, _SHIFT)
    name = "renumbered_district"
    add_map(
        name, [(int(numbers[a]), int(numbers[b]), KINDS[kind]) for a, b, kind in district.edges]
    )
    return name


def order():
    """Where each station of the district is in the renumbered one."""
    count = len(load_map("district").numbers)
    return np.roll(np.arange(count), _SHIFT)


def beliefs(map_name, starts):
    """A game of two detectives, who start at stations with these numbers in the district."""
    numbers = load_map("district").numbers
    if map_name != "district":
        starts = tuple(int(numbers[order()[np.searchsorted(numbers, start)]]) for start in starts)
    rules = ScotlandYard(
        map=map_name,
        edition="student_of_games",
        detectives=2,
        rounds=5,
        reveals=(2,),
        detective_starts=starts,
        mr_x_starts=tuple(map(int, numbers)),
    )
    return scotland_yard_beliefs(rules)


def evaluated(game, params, graph, ranges, path):
    """The public state that some children lead to from the root, its values and its prior."""
    state, follow = game.root(), jax.jit(game.child)
    for child in path:
        state = follow(state, jnp.int32(child))
    return state, jax.jit(CvpnEvaluator(graph))(params, game, state, ranges)


def same_moves(one, other, station):
    """Pairs of numbers of the same move from a station, in the two games."""
    there, (table, others) = order(), (one.game.moves, other.game.moves)
    to, ticket = others.to[there[station]], others.ticket[there[station]]
    for slot in np.flatnonzero(table.to[station] != NOWHERE):
        target, pays = there[table.to[station, slot]], table.ticket[station, slot]
        (same,) = np.flatnonzero((to == target) & (ticket == pays))
        yield slot, same


@pytest.mark.parametrize(
    "path", [*(pytest.param(path, marks=pytest.mark.slow) for path in ((), (0,))), (0, 0)]
)
def test_numbers_of_stations_do_not_matter(path):
    """The same position on the same map with other numbers: values and priors move along."""
    starts = (13, 4)
    one, other = beliefs("district", starts), beliefs(renumbered(), starts)
    graph, params = nnx.split(new_station_network(one, seed=0, width=8, depth=3))
    other_graph, other_params = nnx.split(new_station_network(other, seed=1, width=8, depth=3))
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, other_params)
    there = order()
    range_ = jax.random.uniform(jax.random.key(0), (len(there),))
    ranges = range_, jnp.ones(1)
    moved = jnp.zeros_like(range_).at[there].set(range_), jnp.ones(1)
    state, (values, prior) = evaluated(one, params, graph, ranges, path)
    turn = len(path)
    assert int(state.board.turn) == turn
    if turn == 2:  # the first detective went the same way in the other game
        station = int(one.root().board.detectives[0])
        moves = dict(same_moves(one, other, station))
        path = (0, 2 * int(moves[0]))
    _, (found, priors) = evaluated(other, params, other_graph, moved, path)
    np.testing.assert_allclose(found[0][there], values[0], atol=1e-6)
    np.testing.assert_allclose(found[1], values[1], atol=1e-6)
    stations = range(len(there)) if turn == 0 else [int(state.board.detectives[turn - 1])]
    player = min(turn, 1)
    for station in stations:
        rows = (station, there[station]) if turn == 0 else (0, 0)
        for slot, same in same_moves(one, other, station):
            if turn == 0 or slot < one.game.num_open:
                assert float(priors[player][same, rows[1]]) == pytest.approx(
                    float(prior[player][slot, rows[0]]), abs=1e-6
                )
    assert prior[player].max() < 0.9  # not all alike


@pytest.mark.slow
def test_it_sees_the_board():
    """The detectives' stations and whose turn it is, along random games."""
    game, states = make(LONDON), london_games().states
    public = scotland_yard_beliefs(game, detective_starts=game.detective_starts[:5])
    network = new_station_network(public, seed=0)
    running = states.actor >= 0
    board = jax.tree.map(lambda leaf: jnp.asarray(leaf[running][::25]), states.board)

    @jax.jit
    @jax.vmap
    def sees(board):
        features = encode(board, jnp.bool(True), 199, game.rounds)
        return network._detectives(features), network._turn(features)

    detectives, turn = map(np.asarray, sees(board))
    dealt = (board.detectives >= 0).all(axis=1)
    np.testing.assert_array_equal(detectives[dealt], board.detectives[dealt])
    np.testing.assert_array_equal(turn, board.turn)
    assert {*board.turn.tolist()} == {*range(6)}


def test_a_detective_sees_far_stations():
    """Its moves' logits depend on where Mr X is five moves away, but not without `chase`."""
    game = make(LONDON)
    public = scotland_yard_beliefs(game, detective_starts=game.detective_starts[:5])
    network = new_station_network(public, seed=0, width=8)
    network.expected.kernel[...] = jnp.zeros((8, 8))  # what all stations see of the range
    away = distances(game.map)[public.root().board.detectives[0]]
    far = np.flatnonzero(away == 5)[:2]
    state = public.root()
    state = state.replace(board=state.board.replace(turn=jnp.int32(1)))
    features = public.encode(state)

    @functools.partial(jax.jit, static_argnums=0)
    def answer(graph, params, his):
        return nnx.merge(graph, params)(features, (his, jnp.ones(1)))[1][1]

    def logits(station):
        return answer(*nnx.split(network), jax.nn.one_hot(int(station), 199))

    assert np.abs(np.subtract(*map(logits, far))).max() > 1e-3
    network.chase.kernel[...] = jnp.zeros_like(network.chase.kernel[...])
    np.testing.assert_array_equal(*map(logits, far))


@pytest.mark.parametrize("part", [1, 2])
def test_a_station_sees_its_neighbours(part):
    """A layer that sees one kind of means only: of the stations of all lines, and of taxis."""
    district, game = load_map("district"), beliefs("district", (13, 4))
    network = new_station_network(game, seed=0, width=8, depth=2)
    kernel = network.layers[0].kernel[...]
    own = jnp.arange(len(kernel)) // 8 == part  # of the station itself and both kinds of means
    network.layers[0].kernel[...] = jnp.where(own[:, None], kernel, 0)

    def second(first):
        network._first = lambda features: first
        return network.prepare(game.encode(game.root()))

    first = jax.random.uniform(jax.random.key(0), (20, 8), minval=1.0, maxval=2.0)
    before, changed = second(first), second(first.at[6].add(1.0))  # on a bus line, too
    lines = [(a, b) for a, b, kind in district.edges if part == 1 or KINDS[kind] == "taxi"]
    near = {int(b if a == 6 else a) for a, b in lines if 6 in (a, b)}
    assert {*np.flatnonzero((before != changed).any(axis=0)).tolist()} == near
    equal = second(jnp.ones((20, 8)))  # means of what is alike are that
    np.testing.assert_allclose(equal - equal[:, :1], 0, atol=1e-6)


@pytest.mark.slow
def test_it_learns_in_self_play():
    """All parameters change in some steps of training, with factors of bfloat16."""
    game = beliefs("district", (13, 4))
    graph, params = nnx.split(new_station_network(game, seed=0, width=4, dtype="bfloat16"))
    learner = dataclasses.replace(
        PAPER_LEARNER["scotland_yard"],
        optimizer="adam",
        learning_rate=1e-2,
        batch_size=4,
        capacity=64,
        max_uses=10,
    )
    search = GrowingTreeCfr(CvpnEvaluator(graph), simulations=2, max_path=3)
    sizes = dict(episodes=4, solves=2, updates=1, learner=learner)
    settings = paper_settings("scotland_yard", search, **sizes)
    state = student_of_games_training.init(game, params, jax.random.key(0), settings=settings)
    for _ in range(6):
        state, metrics = student_of_games_training.train_step(game, graph, state, settings=settings)
        require_finite_losses(metrics, 0)
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), params, state.learner.params)
    assert all(jax.tree.leaves(changed)), changed


def test_values_ahead_are_those_of_the_whole_network():
    game = beliefs("district", (13, 4))
    graph, params = nnx.split(new_station_network(game, seed=0, width=8, depth=3))
    evaluate = CvpnEvaluator(graph)
    state = game.root()
    reach = jax.random.uniform(jax.random.key(1), (20,)) * state.possible.astype(float), jnp.ones(1)
    whole, prior = jax.jit(evaluate)(params, game, state, reach)
    ahead = jax.jit(evaluate.prepare)(params, game, state)
    again = jax.jit(evaluate.prepared_values)(params, game, state, ahead, reach)
    for value, found in zip(whole, again, strict=True):
        np.testing.assert_allclose(found, value, atol=1e-6)
    np.testing.assert_allclose(prior[0].sum(axis=0), state.possible.astype(float), atol=1e-6)


def test_detectives_expect_what_mr_x_expects_with_the_other_sign():
    game = beliefs("district", (13, 4))
    network = new_station_network(game, seed=0, width=8)
    his = jax.random.dirichlet(jax.random.key(1), jnp.ones(20), (3,))
    features = jnp.stack([game.encode(game.root())] * 3)
    answer = jax.jit(lambda features, his: network(features, (his, jnp.ones((3, 1)))))
    (values, theirs), _ = answer(features, his)
    np.testing.assert_allclose(theirs[:, 0], -jnp.sum(his * values, axis=1), atol=1e-6)


def test_another_game_or_another_network_is_refused():
    one = beliefs("district", (13, 4))
    graph, params = nnx.split(new_station_network(one, seed=0, width=8))
    other = beliefs("district", (13, 36))
    table = belief_table(make("kuhn_poker"))
    for game in (other, table):
        reach = jax.tree.map(lambda rows: rows.astype(float), game.rows(game.root()))
        with pytest.raises(ValueError, match="the network has rules="):
            CvpnEvaluator(graph)(params, game, game.root(), reach)
    _, narrow = nnx.split(new_station_network(one, seed=0, width=4))
    reach = jax.tree.map(lambda rows: rows.astype(float), one.rows(one.root()))
    with pytest.raises(ValueError, match="params are of a network of width 4"):
        CvpnEvaluator(graph)(narrow, one, one.root(), reach)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"width": 0}, "width=0 and depth=3 must be at least 1"),
        ({"depth": 1}, "depth=1 must be at least 2"),
        ({"dtype": "float8"}, "unknown dtype 'float8'"),
    ],
)
def test_bad_sizes(sizes, words):
    with pytest.raises(ValueError, match=words):
        new_station_network(beliefs("district", (13, 4)), seed=0, **sizes)
