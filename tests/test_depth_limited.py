"""Depth-limited subgames and the strategies offered at their leaves, against linear programs,
closed forms and recursion over every history."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from normal_form import guaranteed, pure_strategies

from jaxgames import make
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import enumerate_game
from solvers import cfr, evaluation, linear_program
from solvers.sequence_form import build_sequence_form, uniform, unpack
from solvers.subgames import continuations, leaf_values, nested_solving
from solvers.subgames.depth_limited_subgame import (
    NOT_OF_GAME,
    after_decisions,
    build_subgame,
    embed,
    ends_of_rounds,
    with_leaf_values,
)

TINY_LEDUC = "leduc_poker(ranks=2,max_raises=1,suit_isomorphism=true)"
FOLD, CALL, RAISE = np.eye(3, dtype=bool)


@functools.cache
def game(name):
    """A game as a tree and as a sequence form, its value and an equilibrium."""
    tree = enumerate_game(make(name))
    public = build_sequence_form(tree)
    value, policy = linear_program.solve(public)
    return tree, public, value, tuple(jnp.asarray(rows, jnp.float32) for rows in policy)


def random_strategies(tree, player, count, seed):
    legal = tree.legal_actions(player)
    weight = np.random.default_rng(seed).exponential(size=(count, *legal.shape)) * legal
    return jnp.asarray(weight / weight.sum(axis=2, keepdims=True), jnp.float32)


def all_pure(tree, player):
    """Every pure strategy [S, D, A]."""
    actions = pure_strategies(tree, player)
    return jnp.asarray(np.eye(tree.num_actions)[actions], jnp.float32)


def offers(tree, blueprint, own_choices, player):
    """Continuations: the blueprint for one player, other strategies for its opponent."""
    strategies = [rows[None] for rows in blueprint]
    strategies[1 - player] = own_choices
    return tuple(strategies)


def value_below(tree, policy, row):
    """Expected payoff to player 0 from a history on, by recursion."""
    if tree.actor[row] == TERMINAL:
        return tree.returns[row, 0]
    total = 0.0
    for child in np.flatnonzero(tree.parent == row):
        if tree.actor[row] == CHANCE:
            weight = tree.chance_prob[child]
        else:
            player = tree.actor[row]
            state = tree.information_state[row, player]
            weight = float(policy[player][state, tree.parent_action[child]])
        total += weight * value_below(tree, policy, child)
    return total


def cut_at(name):
    tree = game(name)[0]
    return ends_of_rounds(tree) if name == TINY_LEDUC else after_decisions(tree, 1)


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(
    "name", [pytest.param("rps_plus", marks=pytest.mark.slow), "kuhn_poker", "coin_toss"]
)
def test_all_pure_strategies_at_the_leaves_make_an_equilibrium(name, player):
    """Proposition 1: the subgame has the game's value, and its solution, continued by the
    blueprint, guarantees that."""
    tree, _, value, blueprint = game(name)
    offered = offers(tree, blueprint, all_pure(tree, 1 - player), player)
    subgame = build_subgame(tree, cut_at(name), choices=tuple(map(len, offered)))
    values = leaf_values.values(leaf_values.paths_from_leaves(tree, subgame), offered)
    depth_limited, policy = linear_program.solve(with_leaf_values(subgame, values))
    assert depth_limited == pytest.approx(value, abs=1e-5)
    composed = embed(subgame, policy, blueprint)
    assert guaranteed(tree, list(map(np.asarray, composed)))[player] == pytest.approx(
        value, abs=1e-5
    )


def test_both_players_with_all_pure_strategies_play_the_game():
    tree, _, value, _ = game("kuhn_poker")
    offered = tuple(all_pure(tree, player) for player in range(2))
    subgame = build_subgame(tree, after_decisions(tree, 1), choices=tuple(map(len, offered)))
    values = leaf_values.values(leaf_values.paths_from_leaves(tree, subgame), offered)
    solved = linear_program.solve(with_leaf_values(subgame, values))[0]
    assert solved == pytest.approx(value, abs=1e-5)


def test_one_value_is_not_enough():
    """The paper, Figure 1: every action is worth 0, so nothing speaks against rock alone."""
    tree, public, _, blueprint = game("rps_plus")
    np.testing.assert_allclose(blueprint, [[[0.4, 0.4, 0.2]]] * 2, atol=1e-6)
    subgame = build_subgame(tree, [1])
    values = leaf_values.values(
        leaf_values.paths_from_leaves(tree, subgame), tuple(rows[None] for rows in blueprint)
    )
    np.testing.assert_allclose(values, 0.0, atol=1e-6)
    rock = (jnp.array([[1.0, 0.0, 0.0]]), jnp.zeros((0, 3)))
    without_choice = with_leaf_values(subgame, values)
    assert evaluation.nash_conv(without_choice, rock) == pytest.approx(0.0, abs=1e-6)
    composed = embed(subgame, rock, blueprint)
    assert evaluation.best_response_value(public, composed)[1] == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("name", ["kuhn_poker", TINY_LEDUC])
def test_another_value_is_never_better_for_the_player_without_choice(name, player):
    tree, *_ = game(name)
    blueprint = tuple(random_strategies(tree, p, 1, seed=p)[0] for p in range(2))
    others = random_strategies(tree, 1 - player, 4, seed=3)
    leaves = after_decisions(tree, 1 + player) if name == "kuhn_poker" else ends_of_rounds(tree)
    game_values = []
    for count in range(1, 5):
        offered = offers(tree, blueprint, others[:count], player)
        subgame = build_subgame(tree, leaves, choices=tuple(map(len, offered)))
        values = leaf_values.values(leaf_values.paths_from_leaves(tree, subgame), offered)
        game_values.append(linear_program.solve(with_leaf_values(subgame, values))[0])
    own = np.array(game_values) * (1 if player == 0 else -1)
    assert (np.diff(own) <= 1e-6).all()
    assert own[-1] < own[0] - 1e-3


@pytest.mark.parametrize("name", ["kuhn_poker", TINY_LEDUC])
def test_values_of_leaves_by_recursion(name):
    tree, *_ = game(name)
    offered = (random_strategies(tree, 0, 2, seed=0), random_strategies(tree, 1, 3, seed=1))
    subgame = build_subgame(tree, cut_at(name), choices=(2, 3))
    values = leaf_values.values(leaf_values.paths_from_leaves(tree, subgame), offered)
    for leaf in (0, 3, len(subgame.leaf_history) - 1):
        for pair in np.ndindex(2, 3):
            policy = [rows[k] for rows, k in zip(offered, pair, strict=True)]
            expected = value_below(tree, policy, int(subgame.leaf_history[leaf]))
            assert values[(leaf, *pair)] == pytest.approx(expected, abs=1e-5)


def test_biased_strategies():
    """By hand; their values by recursion. The paper's four: blueprint, fold, call and raise."""
    strategy = jnp.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.0, 1.0, 0.0]])
    folds = continuations.biased(strategy, FOLD)
    np.testing.assert_allclose(folds, [[10 / 11, 0.5 / 11, 0.5 / 11], *strategy[1:]], atol=1e-6)
    where = jnp.zeros((3, 3), bool).at[1].set(jnp.asarray(RAISE))
    some_states = continuations.biased(strategy, where, 3.0)
    np.testing.assert_allclose(some_states, [strategy[0], [0, 0.25, 0.75], strategy[2]], atol=1e-6)
    tree, *_ = game(TINY_LEDUC)
    policy = tuple(random_strategies(tree, player, 1, seed=player)[0] for player in range(2))
    four = continuations.bias_set(policy[1], jnp.stack([FOLD, CALL, RAISE]))
    chex.assert_shape(four, (4, *policy[1].shape))
    subgame = build_subgame(tree, cut_at(TINY_LEDUC), choices=(1, 4))
    paths = leaf_values.paths_from_leaves(tree, subgame)
    values = leaf_values.values(paths, (policy[0][None], four))
    row = int(subgame.leaf_history[2])
    expected = [value_below(tree, (policy[0], other), row) for other in four]
    np.testing.assert_allclose(values[2, 0], expected, atol=1e-5)
    assert len(set(np.round(expected, 3))) == 4


def test_biased_equilibria_are_best_responses_to_the_blueprint():
    """The paper, section 4: biased strategies are best responses too, whatever the bias."""
    _, public, value, blueprint = game(TINY_LEDUC)
    four = continuations.bias_set(blueprint[1], jnp.stack([FOLD, CALL, RAISE]))
    for other in four:
        earned = evaluation.expected_value(public, (blueprint[0], other))[0]
        assert earned == pytest.approx(value, abs=1e-5)


def generate(name, choices, *, weaken=False, blueprint=None):
    tree, public, _, equilibrium = game(name)
    blueprint = equilibrium if blueprint is None else blueprint
    subgame = build_subgame(tree, cut_at(name), choices=choices)
    paths = leaf_values.paths_to_leaves(tree, subgame), leaf_values.paths_from_leaves(tree, subgame)
    strategies = continuations.self_generated(
        public,
        subgame,
        paths,
        blueprint,
        solver=cfr.pcfr_plus(),
        num_iterations=300,
        weaken=weaken,
    )
    values = continuations.values_of(subgame, paths, blueprint, strategies, weaken=weaken)
    policy = continuations.solve(subgame, values, solver=cfr.pcfr_plus(), num_iterations=1000)
    return subgame, paths, strategies, values, embed(subgame, policy, blueprint)


@pytest.mark.slow
def test_self_generated_strategies_recover_the_equilibrium_of_rps_plus():
    subgame, _, strategies, values, composed = generate("rps_plus", (1, 6))
    np.testing.assert_allclose(composed[0], [[0.4, 0.4, 0.2]], atol=0.003)
    first = strategies[1][0, 0]  # the blueprint
    np.testing.assert_allclose(first, [0.4, 0.4, 0.2], atol=1e-6)
    assert set(map(tuple, strategies[1][1:, 0].tolist())) == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}
    chex.assert_shape(values, (3, 1, 6))
    fewer = generate("rps_plus", (1, 3))[2]
    np.testing.assert_array_equal(fewer[1], strategies[1][:3])
    assert subgame.leaf_choice[0].tolist() == [NOT_OF_GAME] * 3


@pytest.mark.slow
def test_self_generated_strategies_in_leduc():
    """Exploitability falls from that of one value to almost nothing."""
    public = game(TINY_LEDUC)[1]
    exploitabilities = []
    for count in (1, 8):
        composed = [
            generate(TINY_LEDUC, (1, count) if p == 0 else (count, 1))[-1][p] for p in range(2)
        ]
        exploitabilities.append(float(evaluation.exploitability(public, tuple(composed))))
    assert exploitabilities[1] < 0.02 * exploitabilities[0] < 0.02


@pytest.mark.slow
def test_weakened_strategies_do_no_better_than_the_blueprint():
    """In information states at leaves, against the other's blueprint. Strategies that were not
    better keep their values."""
    tree = game(TINY_LEDUC)[0]
    blueprint = tuple(random_strategies(tree, p, 1, seed=5 + p)[0] for p in range(2))
    subgame, paths, strategies, values, _ = generate(
        TINY_LEDUC, (1, 4), weaken=True, blueprint=blueprint
    )
    plain = continuations.values_of(subgame, paths, blueprint, strategies)
    belief = paths[0].chance * leaf_values.own_reach(paths[0], blueprint[0][None], 0)[0]
    better = 0
    for state in np.unique(subgame.leaf_choice[1]):
        rows = np.flatnonzero(np.asarray(subgame.leaf_choice[1]) == state)
        earned, before = (-np.asarray(belief[rows] @ x[rows, 0]) for x in (values, plain))
        np.testing.assert_allclose(earned, np.minimum(before, before[0]), atol=1e-6)
        better += int((before > before[0] + 1e-4).sum())
    assert better > 0


def test_subgames_below_the_root():
    """Without leaves, their values are those of the game."""
    tree, _, _, _ = game(TINY_LEDUC)
    policy = tuple(random_strategies(tree, p, 1, seed=8 + p)[0] for p in range(2))
    dealt = np.unique(tree.public_state[1:][tree.actor[tree.parent[1:]] == CHANCE])
    after_a_card = [int(p) for p in dealt if tree.actor[tree.public_state == p][0] >= 0][-1:]
    for root in (*map(int, ends_of_rounds(tree)), *after_a_card):
        known = build_sequence_form(tree, root=root)
        subgame = build_subgame(tree, [], root=root)
        inside = with_leaf_values(subgame, jnp.zeros((0, 1, 1)))
        rows = tuple(jnp.asarray(p)[n] for p, n in zip(policy, subgame.decisions, strict=True))
        reach = tuple(random_reach(len(states)) for states in subgame.root_states)
        for measure in (evaluation.expected_value, evaluation.best_response_value):
            for form in (inside, subgame.form):
                np.testing.assert_allclose(
                    measure(form, rows, reach), measure(known, policy, reach), atol=1e-6
                )


def random_reach(count):
    return jnp.asarray(np.random.default_rng(count).uniform(size=count), jnp.float32)


def best_response_values(tree, policy, root, player, states):
    """Counterfactual best-response values of `player` at a public state, one state at a time."""
    known = build_sequence_form(tree, root=root)
    reach = nested_solving.ranges(
        nested_solving.paths_to_root(tree, build_subgame(tree, [], root=root)), policy
    )
    values = []
    for range_of_one in jnp.eye(len(states)):
        ranges = tuple(range_of_one if p == player else reach[p] for p in range(2))
        values.append(evaluation.best_response_value(known, policy, ranges)[player])
    return jnp.stack(values)


def resolved_below(tree, subgame, policy, opt_out, player, constraint):
    """The policy with a re-solved subgame, which has no leaves, in its place."""
    solution = nested_solving.resolve(
        subgame,
        jnp.zeros((0, 1, 1)),
        nested_solving.ranges(nested_solving.paths_to_root(tree, subgame), policy),
        opt_out,
        resolver=player,
        constraint=constraint,
        solver=cfr.pcfr_plus(),
        num_iterations=2000,
    )
    return embed(subgame, solution, policy)


@pytest.mark.parametrize("constraint", ["resolve", "maxmargin"])
def test_safe_resolving_needs_opt_out_values(constraint):
    tree, _, _, equilibrium = game(TINY_LEDUC)
    subgame = build_subgame(tree, [], root=int(ends_of_rounds(tree)[0]))
    with pytest.raises(ValueError, match=f"opt_out=None with constraint='{constraint}'; allowed"):
        resolved_below(tree, subgame, equilibrium, None, 0, constraint)


def resolved(tree, policy, player, *, constraint):
    """The policy with all of the second round re-solved for `player`."""
    for root in map(int, ends_of_rounds(tree)):
        subgame = build_subgame(tree, [], root=root)
        states = subgame.root_states[1 - player]
        opt_out = best_response_values(tree, policy, root, 1 - player, states)
        inner = resolved_below(tree, subgame, policy, opt_out, player, constraint)
        policy = tuple(inner[p] if p == player else policy[p] for p in range(2))
    return policy


def least(public, policy, player):
    """What a policy is worth against a best response."""
    return -float(evaluation.best_response_value(public, policy)[1 - player])


@pytest.mark.slow
@pytest.mark.parametrize("constraint", ["resolve", "maxmargin"])
@pytest.mark.parametrize("player", [0, 1])
def test_safe_resolving_is_no_worse_than_the_blueprint(player, constraint):
    """It is no worse than the blueprint (Burch, Johanson and Bowling 2014), good or bad; behind the
    first round of an equilibrium it recovers the equilibrium."""
    tree, public, value, equilibrium = game(TINY_LEDUC)
    value = value if player == 0 else -value
    again = resolved(tree, equilibrium, player, constraint=constraint)
    assert least(public, again, player) > value - 1e-3
    bad = tuple(random_strategies(tree, p, 1, seed=p)[0] for p in range(2))
    after = least(public, resolved(tree, bad, player, constraint=constraint), player)
    assert after > least(public, bad, player) - 1e-3
    assert after < value - 0.01


@pytest.mark.slow
@pytest.mark.parametrize("player", [0, 1])
def test_opt_out_values_at_leaves_are_best_response_values(player):
    """If all pure strategies are offered. So safe re-solving after depth-limited solving makes an
    equilibrium."""
    tree, public, value, blueprint = game("kuhn_poker")
    leaves = after_decisions(tree, 1)
    offered = offers(tree, blueprint, all_pure(tree, 1 - player), player)
    subgame = build_subgame(tree, leaves, choices=tuple(map(len, offered)))
    paths = leaf_values.paths_to_leaves(tree, subgame), leaf_values.paths_from_leaves(tree, subgame)
    values = continuations.values_of(subgame, paths, blueprint, offered)
    solution = continuations.solve(subgame, values, solver=cfr.pcfr_plus(), num_iterations=2000)
    policy = embed(subgame, solution, blueprint)
    for root in map(int, leaves):
        below = build_subgame(tree, [], root=root)
        states = below.root_states[1 - player]
        opt_out = nested_solving.opt_out_values_at_leaves(
            subgame, paths[0], values, solution, policy, player=1 - player, states=states
        )
        expected = best_response_values(tree, policy, root, 1 - player, states)
        np.testing.assert_allclose(opt_out, expected, atol=1e-5)
        policy = resolved_below(tree, below, policy, opt_out, player, "resolve")
    assert least(public, policy, player) == pytest.approx(
        value if player == 0 else -value, abs=1e-3
    )


@pytest.mark.slow
@pytest.mark.parametrize("player", [0, 1])
def test_opt_out_values_inside_a_subgame_are_best_response_values(player):
    """In the whole game, whose rest is played by the strategies at the leaves."""
    tree, public, _, blueprint = game("leduc_poker(suit_isomorphism=true)")
    subgame = build_subgame(tree, ends_of_rounds(tree))
    offered = tuple(rows[None] for rows in blueprint)
    values = leaf_values.values(leaf_values.paths_from_leaves(tree, subgame), offered)
    even = unpack(subgame.form, uniform(subgame.form))
    composed = embed(subgame, even, blueprint)
    response = embed(
        subgame, evaluation.best_response(with_leaf_values(subgame, values), even), blueprint
    )
    pair = tuple(response[p] if p == player else composed[p] for p in range(2))
    _, known = evaluation.counterfactual_values(public, pair)
    states = subgame.decisions[player][::-1]
    ones = tuple(jnp.ones(len(roots)) for roots in subgame.root_states)
    opt_out = nested_solving.opt_out_values_inside(
        subgame, values, even, ones, player=player, states=states
    )
    np.testing.assert_allclose(opt_out, known[player][states], atol=1e-5)
    assert float(jnp.abs(opt_out).max()) > 0.1


def test_subgames_without_some_actions():
    """Leduc without raises to a raise is Leduc with one raise."""
    tree, _, value, _ = game("leduc_poker(max_raises=1,suit_isomorphism=true)")
    whole, *_ = game("leduc_poker(suit_isomorphism=true)")
    above, raised = whole.parent[1:], np.append(False, whole.parent_action[1:] == 2)
    raised[1:] &= whole.actor[above] >= 0
    second = np.unique(whole.public_state[1:][raised[1:] & raised[above]])
    subgame = build_subgame(whole, [], without=second)
    assert subgame.form.num_actions == tree.num_actions
    subgame_value, policy = linear_program.solve(subgame.form)
    assert subgame_value == pytest.approx(value, abs=1e-6)
    for decisions, rows in zip(subgame.decisions, policy, strict=True):
        assert len(decisions) == len(rows)
    with pytest.raises(ValueError, match="without: public state 0 must be below the root"):
        build_subgame(whole, [], without=[0])
    first = int(whole.public_state[np.argmax(whole.actor >= 0)])
    children = np.unique(whole.public_state[1:][whole.public_state[whole.parent[1:]] == first])
    with pytest.raises(ValueError, match=f"without: no action is left at public state {first}"):
        build_subgame(whole, [], without=children)
    with pytest.raises(ValueError, match="without: 10000000 must be a public state"):
        build_subgame(whole, [], without=[10_000_000])


def test_values_may_be_batched():
    tree, _, _, blueprint = game("kuhn_poker")
    subgame = build_subgame(tree, after_decisions(tree, 1), choices=(1, 2))
    paths = leaf_values.paths_from_leaves(tree, subgame)
    others = jnp.stack([random_strategies(tree, 1, 2, seed) for seed in range(3)])

    def solved(others):
        values = leaf_values.values(paths, (blueprint[0][None], others))
        return continuations.solve(subgame, values, solver=cfr.cfr_plus(), num_iterations=50)

    together = jax.vmap(solved)(others)
    for number, leaf_values_alone in enumerate(others):
        for rows, alone in zip(together, solved(leaf_values_alone), strict=True):
            np.testing.assert_allclose(rows[number], alone, atol=1e-5)


def test_errors():
    tree = game("kuhn_poker")[0]
    with pytest.raises(ValueError, match="root=0 must not be among the leaves"):
        build_subgame(tree, [0])
    with pytest.raises(ValueError, match="leaves: 99 must be a public state, 0 to"):
        build_subgame(tree, [99])
    with pytest.raises(ValueError, match=r"choices=\(0, 1\) must be two numbers of at least 1"):
        build_subgame(tree, [], choices=(0, 1))
    with pytest.raises(ValueError, match="two-player zero-sum"):
        build_subgame(enumerate_game(make("kuhn_poker(players=3)")), [])
    subgame = build_subgame(tree, after_decisions(tree, 1), choices=(1, 2))
    with pytest.raises(ValueError, match=r"leaf_values have shape \(12, 1, 1\), must be"):
        with_leaf_values(subgame, jnp.zeros((12, 1, 1)))


def test_uniform_policies_embed_as_they_are():
    tree, public, _, _ = game(TINY_LEDUC)
    outer = unpack(public, uniform(public))
    subgame = build_subgame(tree, cut_at(TINY_LEDUC), choices=(3, 4))
    inner = unpack(subgame.form, uniform(subgame.form))
    for rows, expected in zip(embed(subgame, inner, outer), outer, strict=True):
        np.testing.assert_allclose(rows, expected, atol=1e-6)
