"""Scotland Yard as a belief-level game: against all histories, and along random games."""

import dataclasses
import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from yard_cases import FULL, GLASSES, LONDON, london_games

from jaxgames import CHANCE, TERMINAL, enumerate_game, make
from jaxgames.game_tree import levels
from jaxgames.scotland_yard import load_map, scotland_yard_beliefs
from solvers import cfr, evaluation
from solvers.sequence_form import build_sequence_form
from train.self_play import SelfPlaySettings, new_episode

# Beliefs against histories


@pytest.fixture
def _x64():
    with jax.enable_x64(True):
        yield


BLOCK = 256


def in_blocks(function, *arguments):
    """`function` of one, for many, as NumPy arrays: one compilation serves any number."""
    count = len(jax.tree.leaves(arguments)[0])
    pad = lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], -count % BLOCK, axis=0)])  # noqa: E731
    arguments = jax.tree.map(lambda leaf: pad(np.asarray(leaf)), arguments)
    parts = []
    for begin in range(0, count, BLOCK):
        block = jax.tree.map(lambda leaf, b=begin: jnp.asarray(leaf[b : b + BLOCK]), arguments)
        parts.append(jax.tree.map(np.asarray, function(*block)))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *parts)


def take(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


@dataclasses.dataclass
class Walk:
    """All public states of a game, breadth first, by level."""

    public: object
    states: object  # leaves [S, ...]
    levels: list[slice]
    actor: np.ndarray  # [S]
    legal: tuple  # [S, A, N] of both players
    rows: tuple  # [S, N] of both players
    child: np.ndarray  # [S, K] numbers, -1 where there is none
    follow: np.ndarray  # [S, N, A, K, 2] from rows (n, 0)


@functools.cache
def walk(spec):
    with jax.enable_x64(True):
        return _walk(scotland_yard_beliefs(make(spec)))


def _walk(public):
    rows = jnp.arange(public.num_rows[0], dtype=jnp.int32)
    actions = jnp.arange(max(public.num_actions), dtype=jnp.int32)

    @jax.jit
    @jax.vmap
    def look(state):
        by_action = jax.vmap(public.follow, in_axes=(None, None, 0))
        by_row = jax.vmap(by_action, in_axes=(None, 0, None))
        pairs = jnp.stack([rows, jnp.zeros_like(rows)], axis=1)
        known = public.actor(state), public.legal(state), public.rows(state)
        follow = by_row(state, pairs, actions)
        return *known, public.child_mask(state), public.children(state), follow

    level = jax.tree.map(lambda leaf: np.asarray(leaf)[None], public.root())
    parts, slices, first = [], [], 0
    while len(level.result):
        actor, legal, exists, mask, children, follow = in_blocks(look, level)
        after = first + len(actor)
        child = np.where(mask, after + np.cumsum(mask).reshape(mask.shape) - 1, -1)
        parts.append((level, actor, legal, exists, child, follow))
        slices.append(slice(first, after))
        level, first = take(children, np.nonzero(mask)), after
    states, *rest = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    return Walk(public, states, slices, *rest)


@functools.cache
def histories(spec):
    """The tree of histories, and the public state and Mr X's row in each (-1 before the deal)."""
    tree, all_states, game = enumerate_game(make(spec)), walk(spec), make(spec)
    node = np.full(tree.num_histories, -1)
    row = np.full(tree.num_histories, -1)
    starts = np.searchsorted(game.layout.numbers, game.mr_x_starts)
    if tree.actor[0] != CHANCE:
        node[0], row[0] = 0, starts[0]
    for part in levels(tree.parent):
        above, action = tree.parent[part], tree.parent_action[part]
        by_chance = tree.actor[above] == CHANCE
        if by_chance.any():
            node[part], row[part] = 0, starts[action]
        else:
            node[part], row[part] = _follow(all_states, node[above], row[above], action)
    return tree, node, row


def _follow(states, node, row, action):
    """Where each action leads; states in which Mr X shows himself are passed through."""
    moving = np.ones(len(node), bool)
    while moving.any():
        pairs = states.follow[node, row, action]
        possible = pairs[:, :, 0] >= 0
        assert (possible.sum(axis=1) == 1)[moving].all()
        k = np.argmax(possible, axis=1)
        row = np.where(moving, pairs[np.arange(len(k)), k, 0], row)
        node = np.where(moving, states.child[node, k], node)
        moving = states.actor[node] == CHANCE
    return node, row


@functools.cache
def random_policy(spec):
    """Policies [S, A, N] that depend on public state and station only."""
    generator, policy = np.random.default_rng(0), []
    for legal in walk(spec).legal:
        noise = generator.random(legal.shape) * legal
        policy.append(noise / np.maximum(noise.sum(axis=1, keepdims=True), 1e-300))
    return tuple(policy)


def beliefs(spec):
    """Both players' reaches and values [S, N] under the random policy, by the contract."""
    states, policy = walk(spec), random_policy(spec)
    public = states.public

    @jax.jit
    @jax.vmap
    def down(state, reach, policy):
        children = jnp.arange(public.num_children, dtype=jnp.int32)
        return jax.vmap(lambda child: public.down(state, child, reach, policy))(children)

    @jax.jit
    @jax.vmap
    def up(state, reach, policy, below):
        actor = public.actor(state)
        actions, seen = public.up(state, below)
        values = []
        for p in range(2):
            inner = jnp.where(actor == p, jnp.sum(policy[p] * actions[p], axis=0), seen[p])
            final = public.terminal_values(state, p, reach[1 - p])
            values.append(jnp.where(actor == TERMINAL, final, inner))
        return tuple(values)

    reach, values = (tuple(np.zeros(rows.shape) for rows in states.rows) for _ in range(2))
    for own, rows in zip(reach, states.rows, strict=True):
        own[0] = rows[0]
    for level in states.levels:
        child = states.child[level]
        below = in_blocks(down, take(states.states, level), *take((reach, policy), level))
        for own, after in zip(reach, below, strict=True):
            own[child[child >= 0]] = after[child >= 0]
    for level in reversed(states.levels):
        child = states.child[level]
        below = tuple(own[child] * (child >= 0)[:, :, None] for own in values)
        here = in_blocks(up, take(states.states, level), *take((reach, policy), level), below)
        for own, new in zip(values, here, strict=True):
            own[level] = new
    return reach, values


def by_hand(spec):
    """Own reach [H, 2], chance's [H] and expected returns [H, 2] of every history."""
    (tree, node, row), policy = histories(spec), random_policy(spec)
    reach, chance = np.ones((tree.num_histories, 2)), np.ones(tree.num_histories)
    factor, expected = tree.chance_prob.copy(), tree.returns.copy()
    parts = list(levels(tree.parent))
    for part in parts:
        above, action = tree.parent[part], tree.parent_action[part]
        actor = tree.actor[above]
        at, (his, theirs) = node[above], (np.minimum(action, own.shape[1] - 1) for own in policy)
        played = np.where(actor == 0, policy[0][at, his, row[above]], policy[1][at, theirs, 0])
        factor[part] = np.where(actor == CHANCE, tree.chance_prob[part], played)
        by_player = np.where(actor[:, None] == np.arange(2), played[:, None], 1)
        reach[part] = reach[above] * by_player
        chance[part] = chance[above] * tree.chance_prob[part]
    for part in reversed(parts):
        np.add.at(expected, tree.parent[part], factor[part, None] * expected[part])
    return reach, chance, expected


SPECS = pytest.mark.parametrize("spec", [GLASSES, pytest.param(FULL, marks=pytest.mark.slow)])


@SPECS
@pytest.mark.usefixtures("_x64")
def test_public_states_are_those_of_the_histories(spec):
    states, (tree, node, row) = walk(spec), histories(spec)
    on = node >= 0
    np.testing.assert_array_equal(states.actor[node[on]], tree.actor[on])
    for player, own_row in enumerate((row, np.zeros_like(row))):
        legal = np.zeros_like(tree.legal)
        legal[:, : states.public.num_actions[player]] = states.legal[player][node, :, own_row]
        expected = tree.legal & (tree.actor == player)[:, None]
        np.testing.assert_array_equal(legal[on], expected[on])
    silent = states.actor == CHANCE
    assert silent.any() == (spec == FULL)
    for theirs in (tree.public_state[on], tree.information_state[on, 1]):
        pairs = np.unique(np.stack([theirs, node[on]]), axis=1)
        assert pairs.shape[1] == len(np.unique(theirs)) == np.sum(~silent)
    exists = np.zeros(states.rows[0].shape, bool)
    exists[node[on], row[on]] = True
    np.testing.assert_array_equal(exists[~silent], states.rows[0][~silent])
    assert states.public.num_rows == (len(load_map(make(spec).map).numbers), 1)
    assert states.rows[1].all()
    assert len(states.levels) - 1 <= states.public.max_depth


def test_glasses_has_as_many_public_states_as_published():
    actor = walk(GLASSES).actor
    assert (np.sum(actor == 0), np.sum(actor == 1)) == (257, 748)


@SPECS
@pytest.mark.usefixtures("_x64")
def test_beliefs_and_values_are_sums_over_histories(spec):
    states, (tree, node, row) = walk(spec), histories(spec)
    reach, values = beliefs(spec)
    own, chance, expected = by_hand(spec)
    on, heard = node >= 0, states.actor != CHANCE
    assert np.ptp(expected[tree.actor == TERMINAL, 0]) == 2
    total = np.zeros_like(reach[0])
    np.add.at(total, (node[on], row[on]), own[on, 0])
    np.testing.assert_allclose(reach[0][heard], total[heard], rtol=1e-12)
    np.testing.assert_allclose(reach[1][node[on], 0], own[on, 1], rtol=1e-12)
    his = (chance * own[:, 1])[:, None] * expected
    np.testing.assert_allclose(values[0][node[on], row[on]], his[on, 0], rtol=1e-9, atol=1e-14)
    theirs = np.bincount(node[on], (chance * own[:, 0] * expected[:, 1])[on], len(values[1]))
    np.testing.assert_allclose(values[1][heard, 0], theirs[heard], rtol=1e-9, atol=1e-14)
    for p in range(2):
        assert not values[p][~states.rows[p]].any()
        assert not reach[p][~states.rows[p]].any()
    weight = jax.jit(jax.vmap(states.public.weight))
    pairs = np.stack([row[on], np.zeros_like(row[on])], axis=1).astype(np.int32)
    weights = in_blocks(weight, take(states.states, node[on]), pairs)
    np.testing.assert_allclose(weights, chance[on], rtol=1e-12)


# Laws of the contract


def assert_transposed(public, states):
    """Downwards and upwards are transposes of each other: equal inner products."""
    count, random = len(states.result), np.random.default_rng(3)

    @jax.jit
    @jax.vmap
    def products(state, policy, values, reach):
        """Of reaches and values, in the children and here, for both players `[2, 2]`."""
        children = jnp.arange(public.num_children, dtype=jnp.int32)
        below = jax.vmap(lambda child: public.down(state, child, reach, policy))(children)
        actions, seen = public.up(state, values)
        both = []
        for p in range(2):
            acted = jnp.sum(policy[p] * actions[p], axis=0)
            own = jnp.where(public.actor(state) == p, acted, seen[p])
            both.append(jnp.stack([jnp.vdot(below[p], values[p]), jnp.vdot(reach[p], own)]))
        return jnp.stack(both)

    policy, values, reach = (
        tuple(random.normal(size=(count, *shape(p))) for p in range(2))
        for shape in (
            lambda p: (public.num_actions[p], public.num_rows[p]),
            lambda p: (public.num_children, public.num_rows[p]),
            lambda p: (public.num_rows[p],),
        )
    )
    pairs = in_blocks(products, states, policy, values, reach)
    assert (pairs[:, :, 0] != 0).any(axis=0).all()
    np.testing.assert_allclose(pairs[:, :, 0], pairs[:, :, 1], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("_x64")
def test_up_is_down_transposed():
    assert_transposed(walk(FULL).public, walk(FULL).states)


@pytest.mark.slow
@pytest.mark.usefixtures("_x64")
def test_pairs_follow_the_maps():
    states = walk(FULL)
    public = states.public
    assert public.num_rows == (6, 1)
    assert public.num_actions == (10, 6)
    rows, actions = np.eye(public.num_rows[0]), np.arange(max(public.num_actions))

    @jax.jit
    @jax.vmap
    def units(state):
        """Where reaches of 1 in a row go if an action is played: [N, A, K, N] of both players."""
        children = jnp.arange(public.num_children, dtype=jnp.int32)

        def down(row, action):
            sizes = zip(public.num_actions, public.num_rows, strict=True)
            reach = row, jnp.ones(1)
            policy = tuple(jnp.zeros(size).at[action].set(1, mode="drop") for size in sizes)
            return jax.vmap(lambda child: public.down(state, child, reach, policy))(children)

        return jax.vmap(lambda row: jax.vmap(lambda action: down(row, action))(actions))(rows)

    sample = np.random.default_rng(4).permutation(len(states.actor))[:512]
    reach = in_blocks(units, take(states.states, sample))
    follow = states.follow[sample]
    where = lambda unit: np.where(unit.any(axis=-1), unit.argmax(axis=-1), -1)  # noqa: E731
    mr_x, theirs = map(where, reach)
    assert mr_x.shape == theirs.shape == follow.shape[:-1]  # [S, N, A, K]
    possible = (mr_x >= 0) & (theirs >= 0) & states.rows[0][sample][:, :, None, None]
    np.testing.assert_array_equal(follow[..., 0], np.where(possible, mr_x, -1))
    np.testing.assert_array_equal(follow[..., 1], np.where(possible, theirs, -1))


@jax.jit
def _forward(public, state, pair, action):
    """The child in which a pair of rows ends up, and how many such children there are."""
    pairs = public.follow(state, pair, action)
    possible = pairs[:, 0] >= 0
    k = jnp.argmax(possible)
    child = jax.tree.map(lambda leaf: leaf[k], public.children(state))
    ok = (jnp.sum(possible, dtype=jnp.int32) == 1) & public.child_mask(state)[k]
    return child, pairs[k], ok & (public.weight(child, pairs[k]) > 0)


def test_features_tell_how_many_moves_a_double_card_owes():
    public = scotland_yard_beliefs(make(GLASSES))
    root = public.root()
    after = [
        public.encode(root.replace(board=root.board.replace(doubling=jnp.int32(owed))))
        for owed in range(3)
    ]
    changes = [np.flatnonzero(np.asarray(other - after[0])) for other in after[1:]]
    assert changes[0].tolist() == changes[1].tolist()
    assert len(changes[0]) == 1
    assert [float(other[changes[0][0]]) for other in after] == [0, 0.5, 1]


@jax.jit
def _look(public, state):
    return public.actor(state), public.legal(state), public.encode(state)


@pytest.mark.slow
def test_beliefs_follow_random_games_in_london():
    game, seen, played = make(LONDON), [], london_games()
    for number in range(2):
        states, moves = take(played.states, number), played.moves[number]
        first = game.num_deals
        starts = game.layout.numbers[states.board.detectives[first]].tolist()
        public = scotland_yard_beliefs(game, detective_starts=starts)
        state, pair = public.root(), jnp.array([states.mr_x[first], 0], jnp.int32)
        for time in range(first, len(moves) + 1):
            expected = take(states, time)
            actor, legal, features = jax.tree.map(np.asarray, _look(public, state))
            assert actor == expected.actor
            if actor == TERMINAL:
                assert state.result == expected.result
                break
            assert pair.tolist() == [expected.mr_x, 0]
            chex.assert_trees_all_equal(state.board, expected.board)
            mine = legal[actor][:, pair[actor]]
            np.testing.assert_array_equal(mine, expected.legal[: len(mine)])
            assert not expected.legal[len(mine) :].any()
            assert not legal[1 - actor].any()
            np.testing.assert_array_equal(
                features, _features(game, jax.tree.map(jnp.asarray, expected))[2 * 199 :]
            )
            seen.append(state)
            state, pair, ok = _forward(public, state, pair, jnp.int32(moves[time]))
            assert ok
            if int(state.showing):
                for _ in range(2):
                    seen.append(state)
                    state, pair, ok = _forward(public, state, pair, jnp.int32(0))
                    assert ok
                assert np.flatnonzero(state.possible).tolist() == [states.shown[time + 1]]
    assert public.num_children == 28
    assert sum(int(state.showing) > 0 for state in seen) >= 4
    with jax.enable_x64(True):
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *seen)
        assert_transposed(scotland_yard_beliefs(game, detective_starts=starts), stacked)


@functools.partial(jax.jit, static_argnums=0)
def _features(game, state):
    return game.features(state, 0)


def test_roots_are_dealt_evenly_in_self_play():
    """All ordered pairs of the detectives' cards are as frequent, and Mr X has the others."""
    name = "scotland_yard(map=glasses,detective_starts=1/3/9/11,mr_x_starts=6/7)"
    game = scotland_yard_beliefs(make(name), detective_starts=(1, 3))
    begin = functools.partial(new_episode, game, max_path=1, settings=SelfPlaySettings())
    states = jax.jit(jax.vmap(begin))(jax.random.split(jax.random.key(0), 2400)).problem.state
    dealt = game.game.layout.numbers[np.asarray(states.board.detectives)]
    pairs, counts = np.unique(dealt, axis=0, return_counts=True)
    assert {*map(tuple, pairs.tolist())} == {*itertools.permutations((1, 3, 9, 11), 2)}
    assert scipy.stats.chisquare(counts).pvalue > 0.001
    stations = game.game.layout.numbers[np.flatnonzero(states.possible[0])]
    assert stations.tolist() == [6, 7]
    fixed = make(GLASSES).belief_game()
    chex.assert_trees_all_equal(fixed.random_root(jax.random.key(1)), fixed.root())


def test_late_starts_are_positions_after_a_reveal():
    """Those tickets are missing that Mr X has paid with, and detectives have moved as often as he
    has had turns before."""
    rules = make(LONDON)
    starts = rules.detective_starts[:5]
    game = scotland_yard_beliefs(rules, detective_starts=starts, late_starts=0.75)
    begin = functools.partial(new_episode, game, max_path=3, settings=SelfPlaySettings())
    episodes = jax.jit(jax.vmap(begin))(jax.random.split(jax.random.key(0), 2000))
    state, late = episodes.problem.state, np.asarray(episodes.problem.state.board.moves) > 0
    assert abs(late.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 2000)
    board = jax.tree.map(lambda leaf: np.asarray(leaf)[late], state.board)
    assert {*board.moves.tolist()} == {3, 8, 13, 18}
    assert (board.turn == 1).all()
    possible = np.asarray(state.possible)[late]
    assert (possible.sum(axis=1) == 1).all()
    station = possible.argmax(axis=1)
    assert (np.asarray(episodes.rows)[late, 0] == station).all()
    stations = np.concatenate([board.detectives, station[:, None]], axis=1)
    assert all(len({*row}) == 6 for row in stations.tolist())
    assert scipy.stats.chisquare(np.bincount(station, minlength=199)).pvalue > 0.001

    black, doubles = 5 - board.tickets[:, 0, 3], 2 - board.doubles
    assert {*black.tolist()} == {*range(6)}
    assert {*doubles.tolist()} == {0, 1, 2}
    assert (doubles <= board.moves // 2).all()
    turns = board.moves - doubles
    assert (board.tickets[:, 1:, :3].sum(axis=2) == 22 - (turns - 1)[:, None]).all()
    assert (board.tickets >= 0).all()
    total = board.tickets[:, :, :3].sum(axis=(1, 2))
    enough = board.tickets[:, 0, :3].min(axis=1) > 0  # else he has paid for less
    assert enough.mean() > 0.5
    assert (total == 5 * 22 + 10 - (board.moves - black))[enough].all()


def test_bad_late_starts():
    with pytest.raises(ValueError, match=r"late_starts=1.5 must be from 0 to 1"):
        scotland_yard_beliefs(make(GLASSES), late_starts=1.5)
    with pytest.raises(ValueError, match="Mr X must show himself before the last round"):
        scotland_yard_beliefs(make(GLASSES), late_starts=0.5)


def test_deals_are_checked_and_batched():
    game = make(LONDON)
    for starts in ((), (13, 26, 29, 34), (13, 26, 29, 34, 34), (13, 26, 29, 34, 51)):
        with pytest.raises(ValueError, match="must be 5 different stations of"):
            scotland_yard_beliefs(game, detective_starts=starts)
    with pytest.raises(ValueError, match=r"detective_starts=\(11, 1\) must be 2 exactly \(1, 11\)"):
        scotland_yard_beliefs(make(GLASSES), detective_starts=(11, 1))
    uneven = make("scotland_yard(map=glasses,detective_starts=1/3/9/11,mr_x_starts=3/6/7)")
    with pytest.raises(ValueError, match="must contain all or none of"):
        scotland_yard_beliefs(uneven, detective_starts=(1, 3)).random_root(jax.random.key(0))
    publics = [
        scotland_yard_beliefs(game, detective_starts=s)
        for s in ((13, 26, 29, 34, 50), (198, 197, 174, 155, 141))
    ]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *publics)
    roots = jax.vmap(lambda public: public.root())(batch)
    assert (roots.possible.sum(axis=1) == 13).all()
    np.testing.assert_allclose(batch.deal, 1 / 13, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("_x64")
def test_glasses_is_worth_what_the_reference_solved():
    tree = build_sequence_form(histories(GLASSES)[0], dtype="float64")
    solver = cfr.pcfr_plus()
    state = cfr.run(tree, cfr.init(tree), solver=solver, num_iterations=300)
    policy = cfr.average_policy(tree, state)
    best = evaluation.best_response_value(tree, policy)
    low, high = -best[1], best[0]
    assert -0.7783 <= low <= high <= -0.7775
