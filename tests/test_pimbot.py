"""PimBot's parts by hand, its searches, and matches of it."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from yard_cases import LONDON

from experiments.harness.win_shares import wilson_interval
from jaxgames import make, random_playouts
from jaxgames.scotland_yard import maps
from jaxgames.scotland_yard.board import LOST, RUNNING, WON
from solvers.scotland_yard import location_categories, matches, pimbot, playouts
from solvers.scotland_yard.location_categories import WEIGHTS
from solvers.scotland_yard.position import Position, advance, legal, own_station
from solvers.scotland_yard.tables import TICKET_BITS, yard_tables

TICKETS = "detective_tickets=3/3/0,mr_x_tickets=3/3/0,detective_starts=1/6,mr_x_starts=3/4"
TOY = f"scotland_yard(map=toy,detectives=2,rounds=4,reveals=2,black=2,doubles=1,{TICKETS})"
BATCH, SIMULATIONS = 8, 400


@functools.cache
def toy():
    game = make(TOY)
    return game, yard_tables(game)


def cards(*numbers):
    """Tickets by taxi, bus, underground and black ticket as one number."""
    return sum(number << TICKET_BITS * kind for kind, number in enumerate(numbers))


def position(mr_x, detectives, *, turn, moves=0, doubles=0, his=(3, 3, 0, 2), theirs=(3, 3, 0, 0)):
    """B equal positions of the toy map or of London, by the numbers printed at stations."""
    tickets = [cards(*his)] + [cards(*theirs)] * len(detectives)
    one = Position(
        mr_x=jnp.int32(mr_x - 1),
        detectives=jnp.asarray(detectives, jnp.int32) - 1,
        tickets=jnp.asarray(tickets, jnp.uint32),
        doubles=jnp.int32(doubles),
        moves=jnp.int32(moves),
        turn=jnp.int32(turn),
        doubling=jnp.int32(0),
        result=jnp.int32(RUNNING),
        possible=None,
    )
    return jax.tree.map(lambda x: jnp.repeat(x[..., None], BATCH, axis=-1), one)


def possible(*numbers, stations=6):
    """The same possible stations of B positions."""
    mask = np.isin(np.arange(1, stations + 1), numbers)
    return jnp.asarray(np.repeat(mask[:, None], BATCH, axis=1))


def keys(seed, number=BATCH):
    return jax.random.split(jax.random.key(seed), number)


def names(spec, root, actions, player):
    """Where actions lead, and by which tickets."""
    table = maps.moves(make(spec).map, black=True)
    station = root.mr_x if player == 0 else root.detectives[player - 1]
    return {
        (int(table.to[s, a]) + 1, maps.TICKETS[table.ticket[s, a]])
        for s, a in zip(np.asarray(station), np.asarray(actions), strict=True)
    }


# Parts


def test_uct_with_progressive_history():
    visits, means, history = np.array([3.0, 1.0, 6.0]), np.array([0.5, 0.0, 1.0]), [0.2, 0.9, 0.4]
    bounds = pimbot.upper_bounds(
        *(jnp.asarray(x, jnp.float32) for x in (visits, means, history)),
        exploration=0.5,
        history_weight=5.0,
    )
    expected = [
        0.5 + 0.5 * math.sqrt(math.log(10) / 3) + 0.2 * 5 / (3 * 0.5 + 1),
        0.0 + 0.5 * math.sqrt(math.log(10) / 1) + 0.9 * 5 / (1 * 1.0 + 1),
        1.0 + 0.5 * math.sqrt(math.log(10) / 6) + 0.4 * 5 / (6 * 0.0 + 1),
    ]
    np.testing.assert_allclose(bounds, expected, rtol=1e-6)


def test_roulette_of_location_categories():
    """Detectives at 1 and 6 of a line 1 ... 10: weights of distances, then uniform stations."""
    edges = [(n, n + 1, "taxi") for n in range(1, 16)]
    maps.add_map("line", edges)
    game = make(
        "scotland_yard(map=line,detectives=2,rounds=2,reveals=0,detective_starts=1/2,mr_x_starts=9)"
    )
    tables = yard_tables(game)
    detectives = jnp.array([0, 1], jnp.int32)
    may = np.isin(np.arange(1, 17), [3, 4, 6, 7, 9, 16])  # distances 1, 2, 4, 5, 7, 14 from 2
    shares = location_categories.location_probabilities(
        tables, jnp.asarray(may), detectives, jnp.asarray(WEIGHTS)
    )
    one, two, _, four, far = 2454 / 12523, 9735 / 14502, 4047 / 7491, 1109 / 2890, 344 / 1756
    total = one + two + four + far
    expected = np.zeros(16)
    expected[[2, 3, 5]] = np.array([one, two, four]) / total
    expected[[6, 8, 15]] = far / total / 3
    np.testing.assert_allclose(shares, expected, rtol=1e-6)

    number = jax.random.uniform(jax.random.key(0), (20_000,), jnp.float32)
    columns = jnp.repeat(jnp.cumsum(shares)[:, None], len(number), axis=1)
    drawn = np.bincount(location_categories.draw(columns, number), minlength=16)
    chi_square = ((drawn - len(number) * expected)[may] ** 2 / (len(number) * expected)[may]).sum()
    assert drawn[~may].sum() == 0
    assert chi_square < 20.5  # 5 degrees of freedom, 0.1 %


def test_coalition_reduction():
    """Rewards of Mr X and of the detectives, by who searches, from who stands on Mr X's station."""
    end = position(3, (3, 5), turn=0)
    searcher = jnp.array([0, 1, 2, 1, 1, 2, 0, 0], jnp.int32)
    end = end.replace(
        result=jnp.array([LOST, LOST, LOST, WON, LOST, LOST, WON, LOST], jnp.int32),
        mr_x=jnp.array([2, 2, 2, 3, 4, 4, 3, 3], jnp.int32),  # stuck in the last game
    )
    his, theirs = pimbot.side_rewards(end, searcher, jnp.float32(0.25))
    assert his.tolist() == [0, 0, 0, 1, 0, 0, 1, 0]
    assert theirs.tolist() == [0.75, 1.0, 0.75, 0.0, 0.75, 1.0, 0.0, 0.75]
    # nobody else's share is reduced when Mr X searches
    assert pimbot.side_rewards(end, searcher, jnp.float32(0.0))[1].tolist() == [
        *(1, 1, 1, 0, 1, 1, 0, 1)
    ]


@pytest.mark.parametrize(
    ("station", "moves", "his", "black"),
    [
        (1, 0, (3, 3, 3, 2), False),  # round 1
        (1, 1, (3, 3, 3, 2), False),  # round 2
        (1, 2, (3, 3, 3, 2), False),  # he shows himself after his third move
        (1, 3, (3, 3, 3, 2), True),
        (5, 3, (3, 3, 3, 2), False),  # only taxis
        (5, 3, (0, 3, 3, 2), True),  # nothing else is left
    ],
)
def test_filter_of_black_tickets(station, moves, his, black):
    tables = yard_tables(make(LONDON))
    place = position(station, (100, 101, 102, 103, 104), turn=0, moves=moves, his=his)
    allowed, kept = _kept(tables, place)
    table = make(LONDON).moves
    tickets = table.ticket[station - 1]
    assert bool(kept[:, 0][tickets == maps.BLACK].any()) == black
    other = tickets != maps.BLACK
    np.testing.assert_array_equal(kept[:, 0][other], allowed[:, 0][other])


@jax.jit
def _kept(tables, place):
    """Mr X's legal moves, and those that the filter keeps."""
    lines, allowed = tables.lines[:, place.mr_x], legal(tables, place)[:-1]
    return allowed, playouts.without_black(tables, place, lines, allowed)


def test_playouts_play_by_the_rules():
    """Every move of a playout is legal where it is made, until the end of the game."""
    game, tables = toy()
    begin = position(3, (1, 6), turn=0, moves=2)
    seed = jnp.arange(BATCH, dtype=jnp.uint32)
    played = jax.jit(playouts.play)(tables, begin, seed, jnp.float32(1.0))
    place, options_of, go = begin, jax.jit(legal), jax.jit(advance)
    players = 1 + game.detectives
    for number, made in enumerate(np.asarray(played.played[: played.length])):
        options = options_of(tables, place)
        stuck = ~options.any(axis=0)
        place = place.replace(result=jnp.where(stuck, LOST, place.result))
        running = place.result == RUNNING
        turn = number % players
        assert (place.turn[running] == turn).all()
        station = place.mr_x if turn == 0 else place.detectives[turn - 1]
        lines = playouts.move_number(tables, turn, tables.lines[:, station])
        found = (lines == made[None]) & options[:-1]
        assert (found.any(axis=0) | ~running | (options[tables.num_open] & (turn > 0))).all()
        assert (made[~running] == playouts.NO_MOVE).all()
        action = jnp.where(found.any(axis=0), found.argmax(axis=0), tables.num_open)
        place = go(tables, place, action.astype(jnp.int32))
    for name in ("mr_x", "detectives", "result", "moves"):
        np.testing.assert_array_equal(getattr(place, name), getattr(played.position, name))
    assert {*place.result.tolist()} == {LOST, WON}


def test_greedy_playouts_chase_and_flee():
    """On a line without random moves, a detective goes towards Mr X, who goes away from it."""
    maps.add_map("row", [(n, n + 1, "taxi") for n in range(1, 12)])
    game = make(
        "scotland_yard(map=row,detectives=1,rounds=3,reveals=0,black=0,doubles=0,"
        "detective_starts=1,mr_x_starts=7)"
    )
    tables = yard_tables(game)
    begin = position(7, (1,), turn=0, his=(9, 0, 0, 0), theirs=(9, 0, 0, 0))
    play = jax.jit(playouts.play)
    seed = jnp.arange(BATCH, dtype=jnp.uint32)
    end = play(tables, begin, seed, jnp.float32(0.0)).position
    assert set(end.mr_x.tolist()) == {9}
    assert set(end.detectives[0].tolist()) == {3}
    # a detective that does not know better goes to where Mr X may be: three stations at the left
    one_step = begin.replace(
        turn=jnp.ones(BATCH, jnp.int32),
        moves=jnp.full(BATCH, 3, jnp.int32),
        detectives=jnp.full((1, BATCH), 5, jnp.int32),
    )
    sets = jnp.full((1, BATCH), 0b111 | (1 << 9), jnp.uint32)
    end = play(tables, one_step.replace(possible=sets), seed, jnp.float32(0.0)).position
    assert set(end.detectives[0].tolist()) == {4}


# Searches


@functools.cache
def settings(simulations=SIMULATIONS, **changes):
    return pimbot.PimBot(simulations=simulations, **changes)


def find(root, may, seed=0, *, mr_x, **changes):
    return pimbot.search(
        toy()[1], root, may, keys(seed), settings=settings(**changes), mr_x_searches=mr_x
    )


def test_detectives_catch_at_once():
    """Mr X is at 3; detective 2, at 5 and next to move, can reach 6, 4 and by no other way 2."""
    root = position(4, (1, 5), turn=2, moves=1)
    found = find(root, possible(4), mr_x=False)
    assert names(TOY, root, found.action, 2) == {(4, "taxi")}
    np.testing.assert_allclose(found.rewards[found.action[0], 0], 1.0)
    assert (np.asarray(found.visits.sum(axis=0)) == SIMULATIONS).all()
    # where Mr X is not looked at: the same search with another station of his
    other = find(root.replace(mr_x=jnp.zeros(BATCH, jnp.int32)), possible(4), mr_x=False)
    jax.tree.map(np.testing.assert_array_equal, found, other)


def test_mr_x_does_not_walk_into_detectives():
    """From 2, with detectives at 4 and 6 and his station known, 5 is next to both."""
    root = position(2, (4, 6), turn=0, moves=3, his=(1, 0, 0, 1))
    found = find(root, possible(2), mr_x=True)
    assert {to for to, _ in names(TOY, root, found.action, 0)} == {1}
    best = found.rewards[found.action, jnp.arange(BATCH)]
    assert (best > 0.9).all()


PAGE = 2048  # positions that are looked at together


@jax.jit
def _options(tables, place):
    """Actions that Mr X's filter leaves, and the positions after all actions `[A, P]`."""
    lines, allowed = tables.lines[:, own_station(place)], legal(tables, place)
    kept = playouts.without_black(tables, place, lines, allowed[:-1])
    kept = jnp.where((place.turn == 0)[None], kept, allowed[:-1])
    actions = jnp.arange(len(allowed), dtype=jnp.int32)
    after = jax.vmap(lambda a: advance(tables, place, jnp.full_like(place.turn, a)))(actions)
    return jnp.concatenate([kept, allowed[-1:]]), after


def perfect_play(tables, place):
    """Whether Mr X gets away `[P]` if both sides see everything and play perfectly."""
    return _perfect_play(tables, jax.tree.map(np.asarray, place))


def _perfect_play(tables, place):
    size = len(place.turn)
    won = (place.result == WON).astype(float)
    for begin in range(0, size, PAGE):
        part = np.arange(begin, min(begin + PAGE, size))
        values = action_values(tables, jax.tree.map(lambda x: x[..., part], place))  # noqa: B023
        goes_on = (place.result[part] == RUNNING) & ~np.isnan(values).all(axis=0)
        his = place.turn[part] == 0
        best = np.where(his, np.nanmax(values, axis=0), np.nanmin(values, axis=0))
        won[part] = np.where(goes_on, best, won[part])
    return won


def action_values(tables, place):
    """The same after every action `[A, P]`; NaN where it is not legal."""
    size = len(place.turn)
    padded = jax.tree.map(lambda x: np.resize(x, (*x.shape[:-1], PAGE)), place)
    if size < PAGE:
        fill = np.minimum(np.arange(PAGE), size - 1)
        padded = jax.tree.map(lambda x: x[..., fill], place)
    options, after = _options(tables, padded)
    options = np.asarray(options)[:, :size] & (place.result == RUNNING)[None]
    values = np.full(options.shape, np.nan)
    if options.any():
        action, number = np.nonzero(options)
        below = jax.tree.map(
            lambda x: np.moveaxis(np.asarray(x), 0, -2)[..., action, number], after
        )
        values[options] = _perfect_play(tables, below)
    return values


def _decisive_roots(tables, turn, seed, assumed=1):
    """B positions with two rounds to go in which the next move decides.

    Returns:
      The positions, where Mr X may be `[N, B]`, and mean values of actions over that `[A, B]`.
    """
    number = 600
    rng = np.random.default_rng(seed)
    stations = np.array([rng.permutation(6) for _ in range(number)], np.int32).T
    one = jax.tree.map(lambda x: x[..., :1], position(1, (1, 2), turn=turn, moves=2, doubles=1))
    roots = jax.tree.map(lambda x: np.repeat(np.asarray(x), number, axis=-1), one)
    roots = roots.replace(mr_x=stations[0], detectives=stations[-2:])
    may = np.zeros((6, number), bool)
    np.put_along_axis(may, stations[:assumed], True, axis=0)
    shares = location_categories.location_probabilities(
        tables, jnp.asarray(may), jnp.asarray(stations[-2:]), jnp.asarray(WEIGHTS)
    )
    values = sum(
        np.asarray(shares)[station, np.arange(number)]
        * action_values(tables, roots.replace(mr_x=station))
        for station in stations[:assumed]
    )
    spread = np.nanmax(values, axis=0) - np.nanmin(values, axis=0)
    decisive = np.flatnonzero(spread > 0.2)[:BATCH]
    assert len(decisive) == BATCH
    roots = jax.tree.map(lambda x: jnp.asarray(x[..., decisive]), roots)
    return roots, jnp.asarray(may[:, decisive]), values[:, decisive]


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize(("turn", "assumed"), [(0, 1), (1, 1), (2, 1), (2, 2), (2, 3)])
def test_searches_find_perfect_play(turn, assumed):
    """Where Mr X's station is known, UCT converges to perfect play of both sides; where the last
    detective assumes it, to the best action on average over determinisations."""
    root, may, values = _decisive_roots(toy()[1], turn, seed=turn, assumed=assumed)
    found = find(root, may, mr_x=turn == 0, reduction=0.0)
    best = np.nanmax(values, axis=0) if turn == 0 else np.nanmin(values, axis=0)
    chosen = values[np.asarray(found.action), np.arange(BATCH)]
    np.testing.assert_allclose(chosen, best, atol=0.02)


@pytest.mark.parametrize("mr_x", [True, False])
def test_trees_count_simulations(mr_x):
    root = position(3, (1, 6), turn=0 if mr_x else 1, moves=1, doubles=1)
    found = find(root, possible(3, 4), mr_x=mr_x)
    assert (np.asarray(found.visits.sum(axis=0)) == SIMULATIONS).all()
    assert (found.size <= SIMULATIONS + 1).all()
    assert (found.size > 10).all()
    assert ((found.rewards >= 0) & (found.rewards <= 1)).all()
    options = legal(toy()[1], root)
    assert (found.visits[~options] == 0).all()
    assert (found.visits[options] > 0).any()


@pytest.mark.slow
@pytest.mark.parametrize("turn", [0, 1, 2])
def test_trees_are_trees(turn):
    """Every node has one way that leads to it, which was taken as often as its own moves and once
    more; where Mr X's station is assumed, only the nodes of the stations have moves."""
    tables = toy()[1]
    root = position(3, (1, 6), turn=turn, moves=1, doubles=1)
    grow = jax.jit(pimbot.grow, static_argnames="mr_x_searches")
    tree = grow(tables, root, possible(3, 4), keys(0), settings=settings(), mr_x_searches=turn == 0)
    for game in range(BATCH):
        size, child = int(tree.size[game]), np.asarray(tree.child[game])
        taken = np.asarray(tree.visits[game])
        ways = [*zip(*np.nonzero(child), strict=True)]
        children = [child[way] for way in ways]
        splits = set()
        if turn != 0:
            stations = np.asarray(tree.by_station[game])
            children += stations[stations > 0].tolist()
            splits = {*np.nonzero(stations)[0].tolist()}
            assert splits
            assert (stations.sum(axis=0)[[0, 1, 4, 5]] == 0).all()
        assert sorted(children) == [*range(1, size)]
        through = taken.sum(axis=1)
        for node in splits:
            below = stations[node][stations[node] > 0]
            assert through[node] == 0
            through[node] = (through[below] + 1).sum()
        ends = np.array([taken[way] - through[child[way]] - 1 for way in ways])
        if turn == 0:  # else a detective may catch him at one of the stations
            # where Mr X cannot move simulations end, and make no move
            ends = ends[[through[child[way]] > 0 for way in ways]]
            assert (ends == 0).all()
        assert (ends >= 0).all()


@pytest.mark.parametrize("mr_x", [True, False])
def test_a_search_has_the_result_that_it_has_alone(mr_x):
    root = position(3, (1, 6), turn=0 if mr_x else 1, moves=1, doubles=1)
    root = root.replace(mr_x=jnp.asarray([2, 3] * (BATCH // 2), jnp.int32))
    may = possible(3, 4)
    together = find(root, may, mr_x=mr_x)
    last = jax.tree.map(lambda x: jnp.repeat(x[..., -1:], BATCH, axis=-1), root)
    alone = pimbot.search(
        toy()[1],
        last,
        may,
        jnp.repeat(keys(0)[-1:], BATCH),
        settings=settings(),
        mr_x_searches=mr_x,
    )
    for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
        np.testing.assert_array_equal(one[..., 0], other[..., -1])


def test_settings_do_not_compile_again():
    root, may = position(3, (1, 6), turn=1, moves=1), possible(3, 4)
    find(root, may, mr_x=False)
    compiled = pimbot.search._cache_size()
    found = [
        find(root, may, mr_x=False, exploration=c, reduction=r) for c, r in ((2.0, 0.5), (0.2, 0.1))
    ]
    assert pimbot.search._cache_size() == compiled
    assert (found[0].visits != found[1].visits).any()


class Begun(Exception):
    """A playout has begun."""


@pytest.mark.slow
@pytest.mark.parametrize(("mr_x", "epsilon"), [(True, 0.1), (False, 0.2)])
def test_random_moves_of_playouts_by_who_searches(monkeypatch, mr_x, epsilon):
    """As in the literature, unless the settings say otherwise."""

    def begin(tables, place, seed, share):
        raise Begun(float(share))

    monkeypatch.setattr(playouts, "play", begin)
    root = position(3, (1, 6), turn=0 if mr_x else 1, moves=1)
    others = {"epsilon_mr_x": 0.3, "epsilon_detectives": 0.4}
    for changes, expected in (({}, epsilon), (others, 0.3 if mr_x else 0.4)):
        how = dict(settings=pimbot.PimBot(simulations=1, **changes), mr_x_searches=mr_x)
        with jax.disable_jit(), pytest.raises(Begun) as begun:
            pimbot.grow(toy()[1], root, possible(3, 4), keys(0), **how)
        assert begun.value.args[0] == pytest.approx(expected)


# Matches


@pytest.mark.slow
def test_matches():
    """Every game is legal, ends by the rules, and is the same alone as beside others."""
    game, tables = toy()
    agent = matches.PimBotAgent(tables=tables, settings=settings(20))
    played = matches.play(game, keys(3), agent, matches.UniformAgent())
    assert played.legal.all()
    assert (played.mr_x_won <= (played.moves == game.rounds)).all()
    turned = jax.random.wrap_key_data(jnp.flip(jax.random.key_data(keys(3)), axis=0))
    again = matches.play(game, turned, agent, matches.UniformAgent())
    for one, other in zip(jax.tree.leaves(played), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, jnp.flip(other))


@pytest.mark.slow
def test_agents_search_where_mr_x_may_be():
    """Wherever a detective can catch him, and his station is known, PimBot does."""
    game, tables = toy()
    played = random_playouts(game, jax.random.key(0), num_playouts=100)
    states = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), played.states)
    to = jnp.asarray(game.moves.to)[states.board.detectives[:, 0]]
    catches = (
        (to == states.mr_x[:, None]) & states.legal[:, :-1] & (states.board.turn == 1)[:, None]
    )
    chosen = np.flatnonzero(catches.any(axis=1))[:BATCH]
    assert len(chosen) == BATCH
    states = jax.tree.map(lambda x: x[chosen], states)
    known = states.mr_x[:, None] == jnp.arange(6, dtype=jnp.int32)[None]
    agent = matches.PimBotAgent(tables=tables, settings=settings())
    games = matches.MatchStates(state=states, possible=known)
    _, actions = agent.act(keys(5), (), games, side=matches.DETECTIVES)
    assert catches[chosen][np.arange(BATCH), actions].all()


@pytest.mark.slow
def test_search_beats_random_play():
    game, tables = toy()
    agent = matches.PimBotAgent(tables=tables, settings=settings(20))
    wins = [
        float(matches.play(game, keys(4), *agents).mr_x_won.mean())
        for agents in ((agent, matches.UniformAgent()), (matches.UniformAgent(), agent))
    ]
    assert wins[0] > wins[1]


@pytest.mark.slow(minutes=5)
def test_strength_rises_with_simulations():
    """On London, against 100 simulations: the intervals of 10, 100 and 1,000 do not touch."""
    game = make(LONDON)
    tables = yard_tables(game)

    def agent(simulations):
        return matches.PimBotAgent(tables=tables, settings=pimbot.PimBot(simulations=simulations))

    def interval(simulations, batch):
        """Of the share won by `simulations` simulations in both roles, `batch` games each."""
        pair = agent(simulations), agent(100)
        as_mr_x = matches.play(game, keys(1, batch), *pair)
        as_detectives = matches.play(game, keys(2, batch), *reversed(pair))
        assert as_mr_x.legal.all()
        assert as_detectives.legal.all()
        wins = int(as_mr_x.mr_x_won.sum() + (~as_detectives.mr_x_won).sum())
        return wilson_interval(wins, 2 * batch)

    weak, middle, strong = interval(10, 32), interval(100, 32), interval(1000, 24)
    assert weak[1] < middle[0]
    assert middle[1] < strong[0]
