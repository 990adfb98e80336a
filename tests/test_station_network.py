"""The network for Scotland Yard that has the map built in."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxgames.registry import make
from jaxgames.scotland_yard import add_map, load_map, scotland_yard_beliefs
from jaxgames.scotland_yard.maps import KINDS, NOWHERE
from nets.cvpn import CvpnEvaluator
from nets.station_network import new_station_network

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


def beliefs(map_name, starts, **sizes):
    numbers = load_map("district").numbers
    if map_name != "district":
        starts = tuple(int(numbers[order()[np.searchsorted(numbers, start)]]) for start in starts)
    rules = make("scotland_yard")
    rules = dataclasses.replace(
        rules,
        map=map_name,
        edition="student_of_games",
        detectives=2,
        rounds=5,
        reveals=(2,),
        detective_starts=starts,
        mr_x_starts=tuple(map(int, numbers)),
        **sizes,
    )
    return scotland_yard_beliefs(rules)


def evaluated(game, params, graph, ranges, depth):
    """Values and prior of a public state `depth` moves after the root: always the first child."""
    state = game.root()
    for _ in range(depth):
        state = jax.tree.map(lambda leaf: leaf[0], game.children(state))
    return state, CvpnEvaluator(graph)(params, game, state, ranges)


@pytest.mark.parametrize("detective", [False, True])
def test_numbers_of_stations_do_not_matter(detective):
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
    depth = 1 if detective else 0
    state, (values, prior) = evaluated(one, params, graph, ranges, depth)
    assert one.actor(state) == depth
    _, (found, priors) = evaluated(other, params, other_graph, moved, depth)
    np.testing.assert_allclose(found[0][there], values[0], atol=1e-6)
    np.testing.assert_allclose(found[1], values[1], atol=1e-6)
    if detective:
        return
    table, other_table = one.game.moves, other.game.moves
    for station, other_station in enumerate(there):
        line = table.to[station], table.ticket[station]
        to, ticket = other_table.to[other_station], other_table.ticket[other_station]
        for slot in np.flatnonzero(line[0] != NOWHERE):
            (same,) = np.flatnonzero((to == there[line[0][slot]]) & (ticket == line[1][slot]))
            assert float(priors[0][same, other_station]) == pytest.approx(
                float(prior[0][slot, station]), abs=1e-6
            )


def test_values_ahead_are_those_of_the_whole_network():
    game = beliefs("district", (13, 4))
    graph, params = nnx.split(new_station_network(game, seed=0, width=8, depth=3))
    evaluate = CvpnEvaluator(graph)
    state = game.root()
    reach = jax.random.uniform(jax.random.key(1), (20,)) * state.possible.astype(float), jnp.ones(1)
    whole, prior = evaluate(params, game, state, reach)
    ahead = evaluate.prepare(params, game, state)
    for value, found in zip(
        whole, evaluate.prepared_values(params, game, state, ahead, reach), strict=True
    ):
        np.testing.assert_allclose(found, value, atol=1e-6)
    np.testing.assert_allclose(prior[0].sum(axis=0), state.possible.astype(float), atol=1e-6)


def test_detectives_expect_what_mr_x_expects_with_the_other_sign():
    game = beliefs("district", (13, 4))
    network = new_station_network(game, seed=0, width=8)
    his = jax.random.dirichlet(jax.random.key(1), jnp.ones(20), (3,))
    features = jnp.broadcast_to(game.encode(game.root()), (3, network.num_features))
    (values, theirs), _ = network(features, (his, jnp.ones((3, 1))))
    np.testing.assert_allclose(theirs[:, 0], -jnp.sum(his * values, axis=1), atol=1e-6)


def test_another_game_is_refused():
    graph, params = nnx.split(new_station_network(beliefs("district", (13, 4)), seed=0, width=8))
    other = beliefs("district", (13, 36))
    reach = jax.tree.map(lambda rows: rows.astype(float), other.rows(other.root()))
    with pytest.raises(ValueError, match="the network has rules="):
        CvpnEvaluator(graph)(params, other, other.root(), reach)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"width": 0}, "width=0 and depth=2 must be at least 1"),
        ({"depth": 1}, "depth=1 must be at least 2"),
        ({"dtype": "float8"}, "unknown dtype 'float8'"),
    ],
)
def test_bad_sizes(sizes, words):
    with pytest.raises(ValueError, match=words):
        new_station_network(beliefs("district", (13, 4)), seed=0, **sizes)
