"""pgx at the level of beliefs: against the games' own rules, backward induction, and in search."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pytest

from jaxgames import TERMINAL, make
from jaxgames.adapters.pgx import from_pgx, lenient, make_env
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs import belief_table
from jaxgames.game_tree import enumerate_game
from jaxgames.tic_tac_toe import TicTacToe
from solvers.perfect_information import minimax
from solvers.search import (
    continual_resolving,
    growing_tree_cfr,
    leaf_evaluators,
    readouts,
    search_state,
)

public = functools.cache(pgx_beliefs)


def positions_after(game, moves):
    """The positions `[B, T + 1]` along each of the rows of `moves` `[B, T]`; -1: stays."""

    def step(state, move):
        children, chosen = game.children(state), jnp.maximum(move, 0)
        after = jax.tree.map(lambda old, x: jnp.where(move < 0, old, x[chosen]), state, children)
        return after, after

    def play(moves):
        _, rest = jax.lax.scan(step, game.root(), moves)
        return jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs]), game.root(), rest)

    return jax.jit(jax.vmap(play))(jnp.asarray(moves, jnp.int32))


@pytest.mark.parametrize("name", ["connect_four", "gardner_chess"])
def test_states_of_a_training_loop_with_pgx_become_positions(name):
    """Whoever pgx lets begin: a step of pgx leads where the child of the position is."""
    game, env = public(name), make_env(name)
    with lenient():
        states = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(1), 8))
    assert set(np.asarray(states.current_player)) == {0, 1}

    @jax.jit
    @jax.vmap
    def both(state):
        move = jnp.argmax(state.legal_action_mask).astype(jnp.int32)
        with lenient():
            after = env.step(state, move)
        return game.position(after), game.child(game.position(state), move), after

    found, expected, states = both(states)
    chex.assert_trees_all_equal(found, expected)
    actors = jax.vmap(game.actor)(found)
    seats = np.asarray(states.current_player) != int(game.first)
    np.testing.assert_array_equal(actors, seats)
    np.testing.assert_array_equal(
        jax.vmap(game.child_mask)(found), np.asarray(states.legal_action_mask)
    )


def assert_same_games(name, rules, num_games):
    """Turns, legal actions and returns of the same random games."""
    game = public(name)
    noise = np.random.default_rng(0).uniform(size=(num_games, game.max_depth, game.num_children))

    def step(both, noise):
        theirs, ours = both
        here = shown(theirs, ours)
        move = jnp.argmax(jnp.where(theirs.legal, noise, -1)).astype(jnp.int32)
        after = game.child(ours, move)
        over = theirs.actor == TERMINAL
        ours = jax.tree.map(lambda old, new: jnp.where(over, old, new), ours, after)
        return (rules.step(theirs, move), ours), here

    def shown(theirs, ours):
        pays = jnp.asarray([0.5], jnp.float32)
        ends = jnp.stack([game.terminal_values(ours, p, pays)[0] for p in range(2)])
        ends = jnp.where(game.actor(ours) == TERMINAL, ends, 0)
        first, second = game.legal(ours)
        legal = (first | second)[:, 0]
        here = game.actor(ours), legal, game.child_mask(ours), 2 * ends
        return (theirs.actor, theirs.legal, theirs.legal, theirs.returns), here

    def play(noise):
        last, seen = jax.lax.scan(step, (rules.init(), game.root()), noise)
        return seen, shown(*last)

    seen, last = jax.jit(jax.vmap(play))(noise.astype(np.float32))
    assert (np.asarray(last[0][0]) == TERMINAL).all()
    for theirs, ours in (*zip(*seen, strict=True), *zip(*last, strict=True)):
        np.testing.assert_array_equal(ours, theirs)


def test_tic_tac_toe_is_ours():
    assert_same_games("tic_tac_toe", make("tic_tac_toe"), 200)


def test_connect_four_is_pgxs():
    assert_same_games("connect_four", from_pgx("connect_four"), 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["animal_shogi", "othello", "hex", "go_9x9", "go_19x19", "gardner_chess", "chess"]
)
def test_larger_games_are_pgxs(name):
    assert_same_games(name, from_pgx(pgx.make(name)), 2)


@dataclasses.dataclass(frozen=True)
class Midgame(TicTacToe):
    """Our tic-tac-toe after an opening."""

    opening: tuple[int, ...] = (0, 4, 8, 2)

    def init(self):
        state = super().init()
        for action in self.opening:
            state = self.step(state, jnp.int32(action))
        return state


def test_the_contract_is_that_of_the_public_table():
    """Every map of every public state below an opening, action by action."""
    tree = enumerate_game(Midgame())
    table, game = belief_table(tree), public("tic_tac_toe")
    count, parent = tree.num_histories, tree.parent
    moves = np.full((count, 9), -1)
    moves[:, :4] = Midgame().opening
    for history in range(1, count):  # parents come first
        moves[history] = moves[parent[history]]
        moves[history, 3 + tree.depth[history]] = tree.parent_action[history]
    state = jax.tree.map(lambda x: x[:, -1], positions_after(game, moves))
    number = jnp.asarray(tree.public_state, jnp.int32)
    noise = np.random.default_rng(0).uniform(size=(count, 3, 9, 1)).astype(np.float32)
    child = np.arange(1, count)
    place = parent[child], np.asarray(tree.parent_action)[child]
    below = np.asarray(jax.vmap(table.children)(number))[parent[child]]
    slot = parent[child], np.argmax(below == np.asarray(number)[child, None], axis=1)
    by_slot = np.zeros((count, table.num_children, 1), np.float32)
    by_slot[slot] = noise[:, 0][place]
    pair, policy = jnp.zeros(2, jnp.int32), (noise[:, 2], noise[:, 2])
    reach = noise[:, 1, 0], noise[:, 1, 1]

    def at_states(game, state, values, reach, policy):
        """What does not name children, and what lists them."""
        actor, pays = game.actor(state), jnp.asarray([0.25], jnp.float32)
        ends = jnp.stack([game.terminal_values(state, p, pays) for p in range(2)])
        actions, children = (jnp.arange(n, dtype=jnp.int32) for n in (9, game.num_children))
        follow = jax.vmap(game.follow, (None, None, 0), 1)
        acted, seen = game.up(state, (values, -values))
        here = dict(
            actor=actor,
            legal=game.legal(state),
            children=jnp.sum(game.child_mask(state), dtype=jnp.int32),
            actions=[jnp.where(actor == p, acted[p], 0) for p in range(2)],
            seen=[jnp.where(actor == p, 0, seen[p]) for p in range(2)],
            ends=jnp.where(actor == TERMINAL, ends, 0),
            weight=game.weight(state, pair),
            compatible=game.compatible(state, 0, pays),
        )
        below = dict(
            down=jax.vmap(lambda k: game.down(state, k, reach, policy))(children),
            follow=jnp.min(follow(state, pair, actions), axis=-1),  # -1 if impossible for one
        )
        return here, below

    ours = jax.jit(jax.vmap(functools.partial(at_states, game)))
    theirs = jax.jit(jax.vmap(functools.partial(at_states, table)))
    here, below = ours(state, noise[:, 0], reach, policy)
    expected, expected_below = theirs(number, by_slot, reach, policy)
    assert here.keys() == expected.keys()
    for name, values in expected.items():
        chex.assert_trees_all_close(here[name], values, rtol=1e-6)
    for name, nothing in (("down", 0), ("follow", -1)):
        both = jax.tree.leaves(below[name]), jax.tree.leaves(expected_below[name])
        for mine, values in zip(*both, strict=True):
            mine = np.array(mine)
            np.testing.assert_allclose(mine[place], np.asarray(values)[slot], err_msg=name)
            mine[place] = nothing
            assert (mine == nothing).all(), name


def test_positions_are_small_and_seen_as_pgx_shows_them():
    env, game = make_env("connect_four"), public("connect_four")
    state, position = jax.jit(env.init)(jax.random.key(5)), game.root()
    step, after, encode = jax.jit(env.step), jax.jit(game.child), jax.jit(game.encode)
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(position)) <= 201
    for turn, column in enumerate((3, 3, 2)):
        with lenient():
            state = step(state, jnp.int32(column))
        position = after(position, jnp.int32(column))
        expected = [*np.asarray(state.observation, float).ravel(), (turn + 1) % 2]
        np.testing.assert_array_equal(encode(position), expected)


def test_a_shorter_horizon_ends_the_game_in_a_draw():
    game = pgx_beliefs("tic_tac_toe", max_depth=2)
    positions = minimax.enumerate_positions(game)
    assert (len(positions.actor), positions.actor[-1]) == (1 + 9 + 72, TERMINAL)
    assert not positions.payoff.any()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tictactoe", "unknown pgx game 'tictactoe'; did you mean 'tic_tac_toe'"),
        ("2048", "pgx:2048 is not a two-player game of perfect.*allowed: animal_shogi, .*go_19x19"),
        ("backgammon", "pgx:backgammon is not .* without chance; allowed: .*tic_tac_toe"),
        ("kuhn_poker", "pgx:kuhn_poker is not a two-player game of perfect information.*chess"),
    ],
)
def test_refusals(name, message):
    with pytest.raises(ValueError, match=message):
        pgx_beliefs(name, max_depth=9)


class Other:
    """Tic-tac-toe by another name, which pays the winner `prize`."""

    id, num_players = "other", 2

    def __init__(self, prize):
        self.prize, self.env = prize, make_env("tic_tac_toe")
        self.init, self.observe = self.env.init, self.env.observe

    def step(self, state, action, key=None):
        after = self.env.step(state, action)
        return after.replace(rewards=jnp.where(after.rewards > 0, self.prize, after.rewards))


def test_other_environments_are_examined():
    with pytest.raises(ValueError, match="pgx:other: max_depth must be given"):
        pgx_beliefs(Other(1.0))
    with pytest.raises(
        ValueError, match=r"pgx:other.* is not zero-sum: returns add up to 1 somewhere"
    ):
        pgx_beliefs(Other(2.0), max_depth=9)


@functools.cache
def solved():
    positions = minimax.enumerate_positions(public("tic_tac_toe"))
    return positions, minimax.perfect_values(positions), minimax.perfect_actions(positions)


def paths_to(positions):
    """How many ways lead to each position."""
    ways = np.zeros(len(positions.actor), np.int64)
    ways[0] = 1
    for number, below in enumerate(positions.child):
        ways[below[below >= 0]] += ways[number]
    return ways


def test_tic_tac_toe_has_as_many_positions_and_games_as_is_known():
    """5,478 positions, of those at the end 626 won by crosses, 316 by noughts, 16 drawn; 255,168
    games: 131,184, 77,904 and 46,080. Perfect play draws."""
    positions, values, _ = solved()
    assert np.bincount(positions.depth).tolist() == [1, 9, 72, 252, 756, 1260, 1520, 1140, 390, 78]
    over, ways = positions.actor == TERMINAL, paths_to(positions)
    results = [over & (positions.payoff == result) for result in (1, -1, 0)]
    assert [int(result.sum()) for result in results] == [626, 316, 16]
    assert [int(ways[result].sum()) for result in results] == [131184, 77904, 46080]
    assert values[0] == 0


def test_the_perfect_replies_are_those_every_child_knows():
    positions, _, kept = solved()
    after = lambda *moves: functools.reduce(lambda s, m: positions.child[s, m], moves, 0)  # noqa: E731
    replies = lambda *moves: np.flatnonzero(kept[after(*moves)]).tolist()  # noqa: E731
    assert replies() == list(range(9))
    assert replies(0) == [4]  # only the centre against a corner
    assert replies(4) == [0, 2, 6, 8]  # only corners against the centre
    assert replies(0, 4, 8) == [1, 3, 5, 7]  # an edge against two opposite corners
    assert replies(0, 3, 1, 4) == [2]  # completes its line: to block would only draw


def test_a_perfect_player_never_loses_and_others_do():
    positions, values, kept = solved()
    perfect = minimax.perfect_policy(positions)
    uniform = (positions.child >= 0) / np.maximum((positions.child >= 0).sum(1, keepdims=True), 1)
    for player, sign in ((0, 1), (1, -1)):
        respond = functools.partial(minimax.best_response_values, positions, player=player)
        np.testing.assert_allclose(respond(perfect), values, atol=1e-12)
        assert 0.9 < sign * respond(uniform)[0] < 1
    assert not kept[positions.actor == TERMINAL].any()


def test_enumeration_refuses_other_games():
    with pytest.raises(ValueError, match=r"has num_rows=\(3, 3\)"):
        minimax.enumerate_positions(belief_table(make("kuhn_poker")))
    with pytest.raises(ValueError, match="has more than max_positions=50 positions"):
        minimax.enumerate_positions(public("tic_tac_toe"), max_positions=50)


LINES = np.asarray(
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]
)


def completing(board, color):
    """Cells `[9]` where `color` would complete a line."""
    lines = board[LINES]
    ready = ((lines == color).sum(axis=1) == 2) & (lines == -1).any(axis=1)
    cells = LINES[ready][lines[ready] == -1]
    return np.isin(np.arange(9), cells)


@pytest.mark.slow
def test_search_wins_at_once_and_blocks():
    """200 simulations without any knowledge, on a sample of positions where one of both is due."""
    positions, values, kept = solved()
    boards = positions.state.pgx._x.board
    inner = np.flatnonzero(positions.actor >= 0)
    wins, blocks = (
        np.stack([completing(boards[i], c) for i, c in zip(inner, colors, strict=True)])
        for colors in (positions.actor[inner], 1 - positions.actor[inner])
    )
    generator = np.random.default_rng(0)
    can_win = wins.any(axis=1)
    lost = values[inner] == np.where(positions.actor[inner] == 0, -1, 1)
    must_block = ~can_win & (blocks.sum(axis=1) == 1) & ~lost
    draw = lambda which: generator.choice(np.flatnonzero(which), 12, replace=False)  # noqa: E731
    here = np.concatenate([draw(can_win), draw(must_block)])
    due = np.where(can_win[here, None], wins[here], blocks[here])
    policy, worth = search(jax.tree.map(lambda x: x[inner[here]], positions.state))
    assert due[np.arange(24), policy.argmax(axis=1)].all()
    assert kept[inner[here]][np.arange(24), policy.argmax(axis=1)].all()
    np.testing.assert_allclose(worth, values[inner[here]], atol=0.2)


def search(states):
    """Policies `[B, A]` and player 0's values `[B]` of searches at all these positions."""
    game = public("tic_tac_toe")
    settings = search_state.GrowingTreeCfr(leaf_evaluators.zero, simulations=200, max_path=1)
    problem = continual_resolving.first_problem(game, max_path=1)

    def run(given):
        state, key = given
        asked = problem.replace(state=state)
        done = growing_tree_cfr.search(game, None, key, problem=asked, settings=settings)
        first, second = readouts.average_policy(done)
        return (first + second)[:, 0], readouts.average_values(done)[0][0]

    keys = jax.random.split(jax.random.key(0), len(states.score))
    one_by_one = jax.jit(lambda given: jax.lax.map(run, given))  # compiles faster than a batch
    return jax.tree.map(np.asarray, one_by_one((states, keys)))
