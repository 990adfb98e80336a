"""Games that are played by their rules, with an index of information states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling_cases import (
    KUHN_STATES,
    assert_side_by_side_is_one_by_one,
    compiled,
    kuhn_index,
)

from jaxgames.core import TERMINAL
from jaxgames.game_tree import states_at
from jaxgames.registry import make
from solvers import evaluation
from solvers.sampling import episodes, uct
from solvers.sampling.indexed_game import hash_index, indexed_game

KUHN = make("kuhn_poker")


def rows_of_tree(game, tree):
    """By player the row of each information state of the tree."""
    rows = []
    for player in range(2):
        histories = tree.representative(player)[: tree.num_decisions[player]]
        states = jax.tree.map(lambda *x: np.stack(x), *states_at(game, tree, histories))
        rows.append(jax.vmap(lambda state, p=player: kuhn_index(state, p))(states))
    return rows


@pytest.mark.slow
def test_uct_learns_what_it_learns_from_tables():
    """Not the same episodes, so on average: visits of all actions, and how good the policy is."""
    tree, _, tables = compiled("kuhn_poker")
    game = indexed_game(KUHN, kuhn_index, num_states=KUHN_STATES)
    rows, ends = rows_of_tree(KUHN, tree), np.cumsum((0, *tables.num_decisions))

    def visits(game, key):
        run = jax.vmap(
            lambda key: uct.run(
                game, uct.init(game), key, settings=uct.smooth_uct(2.0), num_episodes=500
            )
        )
        return np.asarray(run(jax.random.split(key, 400)).visits)

    mine, others = visits(game, jax.random.key(1)), visits(tables, jax.random.key(2))
    for player in range(2):
        some = mine[:, rows[player]]
        same = others[:, ends[player] : ends[player + 1]]
        error = np.sqrt((some.var(axis=0) + same.var(axis=0)) / 400)
        assert (np.abs(some.mean(axis=0) - same.mean(axis=0)) < 4.5 * error + 1e-6).all()


def test_states_of_one_row_play_their_own_moves_only():
    """The row has seen folds, where nobody can fold."""
    game = indexed_game(
        make("leduc_poker(ranks=2)"),
        lambda state, _: state.legal[0].astype(jnp.int32),
        num_states=2,
    )
    learner = uct.init(game)
    learner = learner.replace(visits=learner.visits.at[0].set(jnp.array([100, 0, 0])))
    settings = uct.Uct(exploration=1.0, start=0.0, least=0.0)  # by average policies alone
    run = jax.jit(lambda key: uct.run(game, learner, key, settings=settings, num_episodes=20))
    visits = np.asarray(run(jax.random.key(0)).visits)
    assert visits[0, 0] == 100
    assert visits[0, 1:].sum() > 0


def test_lines_of_play_follow_the_rules():
    game = indexed_game(KUHN, kuhn_index, num_states=KUHN_STATES, max_decisions=3)

    def choose(carry, node, noise):
        return carry, episodes.pick_action(node.uniform, noise[0]), node.uniform

    keys = jax.random.split(jax.random.key(0), 2000)
    lines = jax.jit(jax.vmap(lambda key: episodes.play(game, key, choose, None)))(keys)
    over = np.asarray(lines.actor == TERMINAL)
    np.testing.assert_array_equal(lines.state == KUHN_STATES, over)
    np.testing.assert_allclose(lines.payoffs.sum(axis=1), 0)
    tree, public, _ = compiled("kuhn_poker")
    uniform = tuple(np.full((n, 2), 0.5, np.float32) for n in tree.num_decisions)
    value = float(evaluation.expected_value(public, uniform)[0])
    error = np.std(lines.payoffs[:, 0]) / np.sqrt(len(keys))
    assert abs(float(lines.payoffs[:, 0].mean()) - value) < 4 * error


def test_learners_side_by_side_are_learners_one_by_one():
    game = indexed_game(KUHN, kuhn_index, num_states=KUHN_STATES)

    def run(key):
        return uct.run(game, uct.init(game), key, settings=uct.uct(2.0), num_episodes=20)

    assert_side_by_side_is_one_by_one(run)


def test_rows_by_hash_tell_information_states_apart():
    """Equal rows exactly for what a player cannot tell apart, in a table with room for all."""
    game, (tree, _, _) = make("leduc_poker"), compiled("leduc_poker")
    index, rows = hash_index(game, num_states=2**31 - 1), []
    for player in range(2):
        decides = np.flatnonzero(tree.actor == player)
        states = jax.tree.map(lambda *x: np.stack(x), *states_at(game, tree, decides))
        hashed = np.asarray(jax.jit(jax.vmap(index, (0, None)))(states, jnp.int32(player)))
        known = tree.information_state[decides, player]
        pairs = len(np.unique(np.column_stack([hashed, known]), axis=0))
        assert pairs == len(np.unique(hashed)) == len(np.unique(known))
        rows.append(np.unique(hashed))
    assert len(np.intersect1d(*rows)) == 0
    few = jax.jit(jax.vmap(hash_index(game, num_states=7), (0, None)))
    assert set(few(states, jnp.int32(1)).tolist()) == set(range(7))


def test_bad_indices():
    with pytest.raises(ValueError, match="num_states=0 must be at least 1"):
        indexed_game(KUHN, kuhn_index, num_states=0)
    with pytest.raises(ValueError, match=r"index gives row \d+ in kuhn_poker.*from 0 to 19"):
        indexed_game(KUHN, kuhn_index, num_states=20)
    with pytest.raises(ValueError, match="max_decisions=2 is below the 3 decisions of an episode"):
        indexed_game(KUHN, kuhn_index, num_states=KUHN_STATES, max_decisions=2)
