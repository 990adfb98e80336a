"""The belief-level contract against the game tree behind it, and against its own laws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solver_reference import random_policies

from jaxgames.adapters import from_efg
from jaxgames.beliefs import belief_table
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import evaluation
from solvers.search import continual_resolving, growing_tree_cfr, leaf_evaluators
from solvers.search.search_state import GrowingTreeCfr
from solvers.sequence_form import build_sequence_form

# Mr X has two moves of the map's four actions, each detective has one.
TAXIS = "scotland_yard(map=glasses,rounds=1)"
GAMES = (
    "kuhn_poker",
    "leduc_poker",
    "liars_dice(dice=1,sides=3)",
    "goofspiel(cards=3)",
    "coin_toss",
    "rps_plus",
    TAXIS,
)


@functools.cache
def compiled(name):
    with jax.enable_x64(True):
        tree = enumerate_game(make(name))
        return tree, belief_table(tree, dtype="float64")


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


@jax.jit
def below(table, state, reach, policy):
    """Both players' reaches `[K, N]` in the children, by the contract."""
    children = jnp.arange(table.num_children, dtype=jnp.int32)
    return jax.vmap(lambda child: table.down(state, child, reach, policy))(children)


@jax.jit
def step(table, state, reach, policy):
    """The children, which of them exist, and both players' reaches there."""
    return table.children(state), table.child_mask(state), below(table, state, reach, policy)


def row_policy(table, policy, state):
    """Both players' probabilities `[A, N]` in a public state; 0 for who does not act."""
    rows = [np.zeros(size) for size in zip(table.num_actions, table.num_rows, strict=True)]
    actor = int(np.asarray(table.actors)[state])
    if actor >= 0:
        numbers = np.asarray(table.information_states[actor])[state]
        own = policy[actor][np.maximum(numbers, 0), : table.num_actions[actor]]
        rows[actor] = np.where(numbers >= 0, own.T, 0)
    return tuple(rows)


@pytest.mark.parametrize(
    ("name", "num_rows", "num_actions"),
    [
        ("leduc_poker", (6, 6), (3, 3)),
        ("coin_toss", (2, 1), (2, 2)),
        (TAXIS, (2, 1), (4, 1)),
    ],
)
def test_players_have_rows_and_actions_of_their_own(name, num_rows, num_actions):
    _, table = compiled(name)
    assert (table.num_rows, table.num_actions) == (num_rows, num_actions)
    for player, (rows, actions) in enumerate(zip(num_rows, num_actions, strict=True)):
        assert table.rows(table.root())[player].shape == (rows,)
        assert table.legal(table.root())[player].shape == (actions, rows)


@pytest.mark.parametrize("name", GAMES)
def test_expected_values_are_those_of_the_game(name):
    """Own reach goes down by the maps, terminals are worth what the game pays."""
    tree, table = compiled(name)
    policy = random_policies(tree, 0)
    root = int(table.root())
    reaches = {root: tuple(rows.astype(float) for rows in table.rows(root))}
    value, worth = 0.0, jax.jit(lambda s, r: table.terminal_values(s, 0, r))
    actors = np.asarray(table.actors)
    for state in range(int(table.first), len(actors)):
        reach = reaches[state]
        if actors[state] == TERMINAL:
            value += float(np.vdot(reach[0], worth(state, reach[1])))
            continue
        given = step(table, state, reach, row_policy(table, policy, state))
        children, exists, after = jax.device_get(given)
        for k in np.flatnonzero(exists):
            reaches[int(children[k])] = tuple(own[k] for own in after)
    public = build_sequence_form(tree, dtype="float64")
    assert value == pytest.approx(float(evaluation.expected_value(public, policy)[0]), abs=1e-12)


@pytest.mark.parametrize("name", GAMES)
def test_up_is_down_transposed(name):
    _, table = compiled(name)
    generator = np.random.default_rng(1)
    sizes = tuple(zip(table.num_actions, table.num_rows, strict=True))
    policy, reach, values = (
        tuple(jnp.asarray(generator.normal(size=shape(*size))) for size in sizes)
        for shape in (
            lambda actions, rows: (actions, rows),
            lambda actions, rows: rows,
            lambda actions, rows: (table.num_children, rows),
        )
    )

    @jax.jit
    def products(state):
        """Of reaches and values, in the children and here, for both players `[2]`."""
        played = jax.tree.map(lambda legal, x: jnp.where(legal, x, 0), table.legal(state), policy)
        exists, mask = jax.vmap(table.rows)(table.children(state)), table.child_mask(state)[:, None]
        worth = jax.tree.map(lambda rows, x: jnp.where(rows & mask, x, 0), exists, values)
        actions, seen = table.up(state, worth)
        acted = jax.tree.map(lambda p, x: jnp.sum(p * x, axis=0), played, actions)
        own = [jnp.where(table.actor(state) == p, acted[p], seen[p]) for p in range(2)]
        down = below(table, state, reach, played)
        return (
            jnp.stack([jnp.vdot(*both) for both in zip(down, worth, strict=True)]),
            jnp.stack([jnp.vdot(*both) for both in zip(reach, own, strict=True)]),
        )

    states = jnp.arange(int(table.first), len(table.actors))
    down, up = jax.vmap(products)(states)
    np.testing.assert_allclose(down, up, atol=1e-12)


@pytest.mark.parametrize("name", GAMES)
def test_pairs_follow_histories(name):
    """Every history's rows go where its children's rows are, and weigh what chance gave them."""
    tree, table = compiled(name)
    depth = np.asarray(table.depth)[tree.public_state]
    numbers = [np.asarray(own)[tree.public_state] for own in table.information_states]
    pair = np.stack(
        [np.argmax(numbers[p] == tree.information_state[:, p, None], axis=1) for p in range(2)],
        axis=1,
    )
    child = np.flatnonzero(depth > 0)
    above = tree.parent[child]
    action = np.where(tree.actor[above] == CHANCE, 0, tree.parent_action[child])
    followed = jax.jit(jax.vmap(table.follow))(
        tree.public_state[above], pair[above].astype(np.int32), action.astype(np.int32)
    )
    slot = np.argmax(
        np.asarray(table.successors)[tree.public_state[above]] == tree.public_state[child][:, None],
        axis=1,
    )
    np.testing.assert_array_equal(np.asarray(followed)[np.arange(len(child)), slot], pair[child])
    total = np.zeros(table.weights.shape)
    reach = tree.chance_prob.copy()
    for history in range(1, tree.num_histories):
        reach[history] *= reach[tree.parent[history]]
    np.add.at(total, (tree.public_state, pair[:, 0], pair[:, 1]), reach)
    np.testing.assert_allclose(table.weights, total, atol=1e-15)


@pytest.mark.parametrize("name", GAMES)
def test_legal_actions_are_the_games(name):
    tree, table = compiled(name)
    actors, legal_actions = np.asarray(table.actors), [tree.legal_actions(p) for p in range(2)]
    states = np.flatnonzero(actors >= 0)
    every = [np.asarray(own) for own in jax.jit(jax.vmap(table.legal))(states)]
    for place, state in enumerate(states):
        actor = int(actors[state])
        numbers = np.asarray(table.information_states[actor])[state]
        legal = legal_actions[actor][numbers[numbers >= 0]].T
        here = [own[place] for own in every]
        count = table.num_actions[actor]
        np.testing.assert_array_equal(here[actor][:, numbers >= 0], legal[:count])
        assert not legal[count:].any()
        assert not here[1 - actor].any()


def test_beliefs_weigh_by_chance():
    """In Kuhn poker every pair of different cards has chance 1/6."""
    _, table = compiled("kuhn_poker")
    cards = np.asarray(table.compatible(table.root(), 0, jnp.asarray([1.0, 0.0, 0.0])))
    np.testing.assert_allclose(np.sort(cards), [0, 1 / 6, 1 / 6])


def test_codes_tell_public_states_apart():
    _, table = compiled("leduc_poker")
    codes = np.asarray(table.features)[int(table.first) :]
    assert len(np.unique(codes, axis=0)) == len(codes)


def test_two_players_only():
    with pytest.raises(ValueError, match="has 3 players; a belief table needs 2"):
        belief_table(make("kuhn_poker(players=3)"))


def gambit(text, folder):
    """The game of a Gambit file."""
    path = folder / "game.efg"
    path.write_text(text)
    return from_efg(path)


LATE_DEAL = """EFG 2 R "" { "A" "B" }
p "" 1 1 "" { "l" "r" } 0
c "" 1 "" { "x" 1/2 "y" 1/2 } 0
p "" 2 1 "" { "u" "d" } 0
t "" 1 "" { 1 -1 }
t "" 2 "" { -1 1 }
p "" 2 2 "" { "u" "d" } 0
t "" 3 "" { -1 1 }
t "" 4 "" { 1 -1 }
t "" 5 "" { 0 0 }
"""


DEEP = """EFG 2 R "" { "A" "B" }
p "" 1 1 "" { "stop" "go" } 0
p "" 2 1 "" { "u" "d" } 0
t "" 1 "" { 1 -1 }
t "" 2 "" { -1 1 }
p "" 1 2 "" { "on" "off" } 0
p "" 2 1 "" { "u" "d" } 0
t "" 3 "" { -1 1 }
t "" 4 "" { 1 -1 }
p "" 2 1 "" { "u" "d" } 0
t "" 5 "" { -1 1 }
t "" 6 "" { 1 -1 }
"""


def test_players_know_no_more_than_in_the_game(tmp_path):
    """Player 1 cannot tell after how many moves it acts, so no public state may tell it."""
    with pytest.raises(ValueError, match="information state 0 of player 1 is in several public"):
        belief_table(gambit(DEEP, tmp_path))


HIDDEN = """EFG 2 R "" { "A" "B" }
p "" 1 1 "" { "x" "y" "z" } 0
p "" 2 1 "" { "u" "d" } 0
t "" 1 "" { 1 -1 }
t "" 2 "" { -1 1 }
p "" 2 1 "" { "u" "d" } 0
t "" 3 "" { -1 1 }
t "" 4 "" { 1 -1 }
p "" 2 1 "" { "u" "d" } 0
t "" 5 "" { 0 0 }
t "" 6 "" { 0 0 }
"""


def test_there_may_be_more_hidden_actions_than_public_children(tmp_path):
    table = belief_table(gambit(HIDDEN, tmp_path))
    assert (table.num_children, table.num_actions) == (2, (3, 2))
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=3)
    problem = continual_resolving.first_problem(table, max_path=settings.max_path)
    search = functools.partial(growing_tree_cfr.search, problem=problem, settings=settings)
    found = jax.eval_shape(lambda key: search(table, None, key), jax.random.key(0))
    assert found.iterations.shape == ()


def test_chance_deals_before_the_first_decision_only(tmp_path):
    with pytest.raises(ValueError, match="chance deals privately after the first decision"):
        belief_table(gambit(LATE_DEAL, tmp_path))
