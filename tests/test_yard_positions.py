"""The compact positions of Scotland Yard searches, against the rules and the game of beliefs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from yard_cases import FULL, GLASSES, LONDON

from jaxgames import CHANCE, TERMINAL, make, random_playouts
from jaxgames.scotland_yard import add_map, maps, scotland_yard_beliefs
from jaxgames.scotland_yard.board import LOST, RUNNING
from jaxgames.scotland_yard.maps import FAR
from solvers.scotland_yard import possible_stations, station_sets
from solvers.scotland_yard.position import advance, from_state, legal
from solvers.scotland_yard.tables import yard_tables

# Many doubles and few tickets, so that Mr X is often stuck and detectives often pass.
DOUBLES = FULL.replace("rounds=3", "rounds=5").replace("doubles=1", "doubles=2")


@functools.cache
def games(spec, number):
    """All steps of random games: the states before and after, and actions, of players only."""
    game = make(spec)
    played = random_playouts(game, jax.random.key(1), num_playouts=number)
    before, after = (
        jax.tree.map(lambda x, cut=cut: x[:, cut].reshape(-1, *x.shape[2:]), played.states)
        for cut in (slice(None, -1), slice(1, None))
    )
    keep = np.flatnonzero(before.actor >= 0)
    before, after = (jax.tree.map(lambda x: x[keep], states) for states in (before, after))
    return game, before, played.moves.reshape(-1)[keep], after


GO, LEGAL = jax.jit(advance), jax.jit(legal)


def rules_agree(spec, number):
    game, before, actions, after = games(spec, number)
    tables = yard_tables(game)
    np.testing.assert_array_equal(LEGAL(tables, from_state(before)).T, before.legal)
    made, expected = GO(tables, from_state(before), actions), from_state(after)
    stuck = (expected.result == LOST) & (made.result == RUNNING)
    options = np.asarray(LEGAL(tables, made))
    assert not options[:, stuck].any()
    assert options[:, after.actor >= 0].any(axis=0).all()
    running = expected.replace(result=jnp.where(stuck, RUNNING, expected.result))
    jax.tree.map(np.testing.assert_array_equal, made, running)
    over, later = np.asarray(after.actor == TERMINAL), GO(tables, expected, actions)
    for one, other in zip(jax.tree.leaves(later), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(one[..., over], other[..., over])
    return stuck


def test_rules_are_those_of_the_game():
    """Where Mr X cannot move the game ends, and after its end nothing changes."""
    assert rules_agree(DOUBLES, 1000).any()


@pytest.mark.slow
def test_rules_without_black_and_double_cards_are_those_of_the_game():
    rules_agree(GLASSES, 100)


@pytest.mark.slow(minutes=2)
def test_rules_are_those_of_the_game_along_thousands_of_games():
    for edition in ("student_of_games", "bristol", "milton_bradley_1985"):
        rules_agree(f"scotland_yard(edition={edition})", 1000)
        games.cache_clear()
    rules_agree(DOUBLES, 20_000)


def test_possible_stations_are_those_of_the_game_of_beliefs():
    cheap_sets_are_larger = beliefs_agree(DOUBLES, blocks=1)
    assert 0 < cheap_sets_are_larger < 0.3


@pytest.mark.slow
def test_possible_stations_on_london_are_those_of_the_game_of_beliefs():
    assert beliefs_agree(LONDON, blocks=1) < 0.01


@pytest.mark.slow(minutes=5)
def test_possible_stations_are_those_of_the_game_of_beliefs_along_thousands_of_games():
    assert 0 < beliefs_agree(DOUBLES, blocks=15) < 0.3
    assert beliefs_agree(LONDON, blocks=5) < 0.01


def beliefs_agree(spec, *, blocks):
    """Compares possible stations along blocks of 200 random games; returns how often the cheap
    sets, which must hold them and no station of a detective, are larger."""
    game = make(spec)
    starts = game.detective_starts[: game.detectives]
    beliefs = scotland_yard_beliefs(game, detective_starts=starts)
    compare = jax.jit(jax.vmap(functools.partial(_compare, game, yard_tables(game), beliefs)))
    counts = []
    for key in jax.random.split(jax.random.key(2), blocks):
        played = random_playouts(game, key, num_playouts=200)
        moved, wrong, missed, larger = compare(played.states, played.moves)
        assert not (moved & (wrong | missed)).any()
        counts.append([(moved & larger).sum(), moved.sum()])
    larger, all_moves = np.sum(counts, axis=0)
    return float(larger / all_moves)


def _compare(game, tables, beliefs, states, moves):
    """In which turns of one game `[T]` there was a move; our stations are not those of the game of
    beliefs; the cheap set misses one of them or has a detective's; it has more."""
    first = jax.tree.map(lambda x: x[game.num_deals], states)
    possible = possible_stations.first_stations(game, first)
    public = beliefs.root().replace(board=first.board, possible=possible)

    def follow(carry):
        public, pair, action = carry
        pairs = beliefs.follow(public, pair, action)
        child = jnp.argmax(jnp.all(pairs >= 0, axis=1))
        public = jax.tree.map(lambda x: x[child], beliefs.children(public))
        return public, pairs[child], jnp.int32(0)

    def step(carry, line):
        public, possible, cheap = carry
        before, action, after = line
        moved = before.actor != TERMINAL
        pair = jnp.stack([before.mr_x, jnp.int32(0)])
        seen = jax.lax.while_loop(
            lambda carry: beliefs.actor(carry[0]) == CHANCE, follow, follow((public, pair, action))
        )[0]
        ours = possible_stations.after_action(game, possible, before, action, after)
        position = from_state(before).replace(possible=cheap)
        cheap = advance(tables, position, action).possible
        larger = station_sets.unpack(cheap, game.num_stations)
        wrong = jnp.any(ours != seen.possible)
        missed = jnp.any(ours & ~larger) | jnp.any(larger[after.board.detectives])
        missed &= after.actor != TERMINAL
        return (seen, ours, cheap), (moved, wrong, missed, jnp.any(larger & ~ours))

    before, after = (jax.tree.map(lambda x, c=c: x[c], states) for c in (slice(-1), slice(1, None)))
    line = jax.tree.map(lambda x: x[game.num_deals :], (before, moves, after))
    return jax.lax.scan(step, (public, possible, station_sets.pack(possible)), line)[1]


def test_sets_spread_along_the_lines_of_a_ticket():
    tables, moves = yard_tables(make(LONDON)), maps.moves("london", black=True)
    mask = jax.random.bernoulli(jax.random.key(0), 0.1, (199, 8))
    kinds = jnp.arange(8, dtype=jnp.int32) % 4
    sets = station_sets.pack(mask)
    np.testing.assert_array_equal(station_sets.unpack(sets, 199), mask)
    spread = station_sets.unpack(jax.jit(station_sets.spread)(tables, sets, kinds), 199)
    for game in range(8):
        expected = np.zeros(199, bool)
        for station in np.flatnonzero(mask[:, game]):
            lines = (moves.to[station] >= 0) & (moves.ticket[station] == kinds[game])
            expected[moves.to[station][lines]] = True
        np.testing.assert_array_equal(spread[:, game], expected)


def test_distances_are_of_moves_by_taxi_bus_and_underground():
    add_map("islands", [(1, 2, "taxi"), (2, 3, "taxi"), (3, 4, "ferry"), (4, 5, "bus")])
    game = make(
        "scotland_yard(map=islands,detectives=1,rounds=2,reveals=0,detective_starts=1,mr_x_starts=4)"
    )
    tables = yard_tables(game)
    far = FAR
    expected = [[0, 1, 2, far, far], [1, 0, 1, far, far], [2, 1, 0, far, far]]
    expected += [[far, far, far, 0, 1], [far, far, far, 1, 0]]
    np.testing.assert_array_equal(tables.distance, expected)
    assert tables.only_taxi.tolist() == [True, True, False, False, False]
    london = yard_tables(make(LONDON)).distance
    assert (london == london.T).all()
    assert london.max() < FAR


def test_too_many_tickets_are_refused():
    with pytest.raises(ValueError, match=r"256 tickets of a kind .* must be at most 255"):
        yard_tables(make("scotland_yard(mr_x_tickets=206/3/3)"))
    yard_tables(make("scotland_yard(mr_x_tickets=205/3/3)"))
