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
from solvers.sequence_form import build_sequence_form

GAMES = (
    "kuhn_poker",
    "leduc_poker",
    "liars_dice(dice=1,sides=3)",
    "goofspiel(cards=3)",
    "coin_toss",
    "rps_plus",
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
    """Reaches `[K, 2, N]` of the children, by the contract."""
    children = jnp.arange(table.num_children, dtype=jnp.int32)
    return jax.vmap(lambda child: table.down(state, child, reach, policy))(children)


def row_policy(table, policy, state):
    """The actor's probabilities `[A, N]` in the rows of a public state."""
    actor = int(table.actors[state])
    numbers = np.asarray(table.information_states[state, actor])
    if actor < 0:
        return np.zeros((table.num_actions, table.num_rows))
    return np.where(numbers >= 0, policy[actor][np.maximum(numbers, 0)].T, 0)


@pytest.mark.parametrize("name", GAMES)
def test_expected_values_are_those_of_the_game(name):
    """Own reach goes down by the maps, terminals are worth what the game pays."""
    tree, table = compiled(name)
    policy = random_policies(tree, 0)
    reaches = {int(table.root()): np.asarray(table.rows(table.root()), float)}
    value, worth = 0.0, jax.jit(lambda s, r: table.terminal_values(s, 0, r))
    for state in range(int(table.first), len(table.actors)):
        reach = jnp.asarray(reaches[state])
        if int(table.actors[state]) == TERMINAL:
            value += float(jnp.vdot(reach[0], worth(state, reach[1])))
            continue
        found = np.asarray(below(table, state, reach, row_policy(table, policy, state)))
        for k in np.flatnonzero(table.child_mask(state)):
            reaches[int(table.children(state)[k])] = found[k]
    public = build_sequence_form(tree, dtype="float64")
    assert value == pytest.approx(float(evaluation.expected_value(public, policy)[0]), abs=1e-12)


@pytest.mark.parametrize("name", GAMES)
def test_up_is_down_transposed(name):
    _, table = compiled(name)
    generator = np.random.default_rng(1)
    policy = jnp.asarray(generator.normal(size=(table.num_actions, table.num_rows)))
    reach = jnp.asarray(generator.normal(size=(2, table.num_rows)))
    values = jnp.asarray(generator.normal(size=(2, table.num_children, table.num_rows)))

    @jax.jit
    def products(state):
        """Of reaches and values, in the children and here, for both players `[2]`."""
        played = jnp.where(table.legal(state), policy, 0)
        exists = (
            jax.vmap(table.rows)(table.children(state)) & table.child_mask(state)[:, None, None]
        )
        worth = jnp.where(exists.swapaxes(0, 1), values, 0)
        actions, seen = table.up(state, worth)
        acts = jnp.arange(2, dtype=jnp.int32)[:, None] == table.actor(state)
        own = jnp.where(acts, jnp.sum(played * actions, axis=0)[None], seen)
        down = below(table, state, reach, played).swapaxes(0, 1)
        return jnp.sum(down * worth, axis=(1, 2)), jnp.sum(reach * own, axis=1)

    states = jnp.arange(int(table.first), len(table.actors))
    down, up = jax.vmap(products)(states)
    np.testing.assert_allclose(down, up, atol=1e-12)


@pytest.mark.parametrize("name", GAMES)
def test_pairs_follow_histories(name):
    """Every history's rows go where its children's rows are, and weigh what chance gave them."""
    tree, table = compiled(name)
    depth = np.asarray(table.depth)[tree.public_state]
    numbers = np.asarray(table.information_states)[tree.public_state]
    pair = np.stack(
        [np.argmax(numbers[:, p] == tree.information_state[:, p, None], axis=1) for p in range(2)],
        axis=1,
    )
    child = np.flatnonzero(depth > 0)
    above = tree.parent[child]
    action = np.where(tree.actor[above] == CHANCE, 0, tree.parent_action[child])
    found = jax.jit(jax.vmap(table.follow))(
        tree.public_state[above], pair[above].astype(np.int32), action.astype(np.int32)
    )
    slot = np.argmax(
        np.asarray(table.successors)[tree.public_state[above]] == tree.public_state[child][:, None],
        axis=1,
    )
    np.testing.assert_array_equal(np.asarray(found)[np.arange(len(child)), slot], pair[child])
    total = np.zeros(table.weights.shape)
    reach = tree.chance_prob.copy()
    for history in range(1, tree.num_histories):
        reach[history] *= reach[tree.parent[history]]
    np.add.at(total, (tree.public_state, pair[:, 0], pair[:, 1]), reach)
    np.testing.assert_allclose(table.weights, total, atol=1e-15)


@pytest.mark.parametrize("name", GAMES)
def test_legal_actions_are_the_games(name):
    tree, table = compiled(name)
    for state in np.flatnonzero(np.asarray(table.actors) >= 0):
        actor = int(table.actors[state])
        numbers = np.asarray(table.information_states[state, actor])
        legal = tree.legal_actions(actor)[numbers[numbers >= 0]].T
        np.testing.assert_array_equal(np.asarray(table.legal(state))[:, numbers >= 0], legal)


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


def test_chance_deals_before_the_first_decision_only(tmp_path):
    path = tmp_path / "late.efg"
    path.write_text(LATE_DEAL)
    with pytest.raises(ValueError, match="chance deals privately after the first decision"):
        belief_table(from_efg(path))
