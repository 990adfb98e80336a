"""Value-and-policy networks as evaluators of a search."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from jaxgames.scotland_yard import scotland_yard_beliefs
from nets import cvpn, parameters
from solvers.search import continual_resolving, growing_tree_cfr, readouts, search_state


@functools.cache
def table():
    return belief_table(make("leduc_poker"))


@functools.cache
def evaluator(**options):
    network = cvpn.new_cvpn(table(), seed=0, width=16, depth=2, **options)
    return nnx.split(network)


STATES = jnp.arange(3, 60)


@functools.cache
def rows_of_states():
    return jax.jit(jax.vmap(table().rows))(STATES)


def random_reach(seed=0):
    rows = rows_of_states()
    reach = jax.random.uniform(jax.random.key(seed), (2, len(STATES), 6))
    return tuple(jnp.where(rows[p], reach[p], 0) for p in range(2))


def expectations(reach, values):
    """What both players expect to win, added up `[S]`."""
    return sum(np.sum(reach[p] * values[p], axis=1) for p in range(2))


@functools.cache
def evaluation(zero_sum=True, smoothing=0.0, **options):
    graph, params = evaluator(**options)
    evaluate = cvpn.CvpnEvaluator(graph, zero_sum=zero_sum, smoothing=smoothing)
    return jax.jit(jax.vmap(functools.partial(evaluate, params, table())))


def evaluated(reach, **options):
    return evaluation(**options)(STATES, reach)


def test_beliefs_expect_opposite_payoffs():
    reach = random_reach()
    values, _ = evaluated(reach)
    np.testing.assert_allclose(expectations(reach, values), 0, atol=1e-6)
    values, _ = evaluated(reach, zero_sum=False)
    assert np.abs(expectations(reach, values)).max() > 1e-3


def test_values_scale_with_the_opponents_reach_only():
    reach = random_reach()
    values, prior = evaluated(reach)
    scaled, same = evaluated((0.25 * reach[0], reach[1]))
    expected = values[0], 0.25 * values[1]
    chex.assert_trees_all_close(scaled, expected, rtol=1e-4, atol=1e-7)
    chex.assert_trees_all_close(same, prior, rtol=1e-5)


def test_smoothed_ranges_are_between_the_beliefs_and_uniform_ones():
    """Of the network's answer; what it is scaled with remains the true reach."""
    reach = tuple(share * own for share, own in zip((0.3, 0.7), random_reach(), strict=True))
    half, prior = evaluated(reach, smoothing=0.5, zero_sum=False)
    rows = [np.asarray(own) for own in jax.vmap(table().rows)(STATES)]
    share = lambda x: np.asarray(x) / np.sum(x, axis=1, keepdims=True)  # noqa: E731
    seen = [0.5 * share(reach[p]) + 0.5 * share(rows[p]) for p in range(2)]
    seen = tuple(jnp.asarray(own, jnp.float32) for own in seen)
    expected, same = evaluated(seen, zero_sum=False)
    compatible = jax.vmap(table().compatible, (0, None, 0))
    mass = lambda x, p: compatible(STATES, p, x[1 - p])  # noqa: E731
    per_unit = lambda values, x: [(values[p] / mass(x, p))[rows[p]] for p in range(2)]  # noqa: E731
    chex.assert_trees_all_close(per_unit(half, reach), per_unit(expected, seen), rtol=1e-4)
    chex.assert_trees_all_close(prior, same, rtol=1e-5)
    blind, _ = evaluated(reach, smoothing=1.0, zero_sum=False)
    other = random_reach(1)
    moved, _ = evaluated(other, smoothing=1.0, zero_sum=False)
    chex.assert_trees_all_close(per_unit(blind, reach), per_unit(moved, other), rtol=1e-4)
    with pytest.raises(ValueError, match=r"smoothing=1.5 must be from 0 to 1"):
        cvpn.CvpnEvaluator(evaluator()[0], smoothing=1.5)
    for temperature in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=f"temperature={temperature} must be positive"):
            cvpn.CvpnEvaluator(evaluator()[0], temperature=temperature)


def test_absent_rows_have_value_0():
    values, prior = evaluated(random_reach())
    rows, legal = rows_of_states(), jax.jit(jax.vmap(table().legal))(STATES)
    for p in range(2):
        assert not np.asarray(values[p])[~rows[p]].any()
        assert not np.asarray(prior[p])[~legal[p]].any()
        total = np.asarray(prior[p]).sum(axis=1)[legal[p].any(axis=1)]
        np.testing.assert_allclose(total, 1, rtol=1e-5)


def test_what_players_have_may_be_of_unequal_sizes():
    """Mr X's black cards give him stations and actions that the detectives do not have."""
    game = scotland_yard_beliefs(make("scotland_yard(map=glasses,rounds=2,black=1)"))
    assert (game.num_rows, game.num_actions) == ((11, 1), (7, 4))
    graph, params = nnx.split(cvpn.new_cvpn(game, seed=0, width=16, depth=2))
    evaluate, root = cvpn.CvpnEvaluator(graph), game.root()
    reach = tuple(rows.astype(jnp.float32) for rows in game.rows(root))
    values, prior = jax.jit(evaluate)(params, game, root, reach)
    chex.assert_trees_all_equal_shapes(values, game.rows(root))
    chex.assert_trees_all_equal_shapes(prior, game.legal(root))
    legal = np.asarray(game.legal(root)[0]).any(axis=0)
    np.testing.assert_allclose(np.sum(prior[0], axis=0), legal, rtol=1e-5)
    assert not np.asarray(prior[1]).any()
    ahead = jax.jit(evaluate.prepare)(params, game, root)
    again = jax.jit(evaluate.prepared_values)(params, game, root, ahead, reach)
    chex.assert_trees_all_close(again, values, rtol=1e-5, atol=1e-6)


def test_every_output_has_weights_of_its_own():
    """Each value and logit of either player moves with one bias, in the order of the sizes."""
    network = cvpn.Cvpn(
        num_features=2, num_rows=(3, 2), num_actions=(2, 4), width=4, depth=1, rngs=nnx.Rngs(0)
    )
    network.values.kernel[...] *= 0
    network.policy.kernel[...] *= 0
    network.values.bias[...] = jnp.arange(5.0)
    network.policy.bias[...] = jnp.arange(14.0)
    values, logits = network(jnp.ones(2), (jnp.ones(3), jnp.ones(2)))
    chex.assert_trees_all_equal(values, (jnp.arange(3.0), jnp.arange(3.0, 5)))
    expected = jnp.arange(6.0).reshape(2, 3), jnp.arange(6.0, 14).reshape(4, 2)
    chex.assert_trees_all_equal(logits, expected)


@pytest.mark.parametrize("player", [0, 1])
def test_a_player_who_reaches_nothing_is_seen_with_all_its_rows(player):
    """What it would win there counts; the other one never comes there, and wins nothing."""
    reach, rows = random_reach(), rows_of_states()
    nobody, anybody = (
        tuple(own if p == player else reach[p] for p in range(2))
        for own in (jnp.zeros_like(reach[0]), rows[player].astype(jnp.float32))
    )
    values, prior = evaluated(nobody)
    expected, same = evaluated(anybody)
    chex.assert_trees_all_close((values[player], prior), (expected[player], same), rtol=1e-5)
    assert np.abs(values[player]).max() > 1e-3
    assert not np.asarray(values[1 - player]).any()


def test_nothing_reached_is_finite():
    values, prior = evaluated((jnp.zeros((len(STATES), 6)),) * 2)
    chex.assert_tree_all_finite((values, prior))


@pytest.mark.parametrize("torso", ["mlp", "residual"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_outputs_are_float32(torso, dtype):
    answers = evaluated(random_reach(), torso=torso, dtype=dtype)
    assert {leaf.dtype for leaf in jax.tree.leaves(answers)} == {jnp.dtype("float32")}


@pytest.mark.parametrize(
    ("options", "atol"),
    [
        ({}, 1e-6),
        ({"torso": "residual"}, 1e-6),
        ({"smoothing": 0.5, "zero_sum": False}, 1e-6),
        ({"dtype": "bfloat16"}, 2e-2),
    ],
)
def test_values_from_what_was_prepared_are_the_values(options, atol):
    reach = random_reach()
    reach = reach[0].at[::3].set(0), reach[1].at[1::3].set(0)
    how = {name: options[name] for name in ("smoothing", "zero_sum") if name in options}
    graph, params = evaluator(**{k: x for k, x in options.items() if k not in how})
    evaluate = cvpn.CvpnEvaluator(graph, **how)
    expected, _ = evaluated(reach, **options)
    ahead = jax.jit(jax.vmap(functools.partial(evaluate.prepare, params, table())))(STATES)
    values = functools.partial(evaluate.prepared_values, params, table())
    given = jax.jit(jax.vmap(values))(STATES, ahead, reach)
    chex.assert_trees_all_close(given, expected, rtol=1e-7, atol=atol)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"torso": "conv"}, r"unknown torso 'conv' \(known: convolutional, mlp, residual\)"),
        ({"width": 0}, "width=0 and depth=3 must be at least 1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        cvpn.new_cvpn(table(), seed=0, **options)


@pytest.mark.slow
def test_a_search_takes_it():
    graph, params = evaluator()
    settings = search_state.GrowingTreeCfr(cvpn.CvpnEvaluator(graph), simulations=5, max_path=1)
    problem = continual_resolving.first_problem(table(), max_path=1)
    search = jax.jit(growing_tree_cfr.search, static_argnames="settings")
    result = search(table(), params, jax.random.key(0), problem=problem, settings=settings)
    assert int(result.iterations) == 5
    chex.assert_tree_all_finite(readouts.average_policy(result))


@pytest.mark.parametrize("torso", ["mlp", "residual"])
@pytest.mark.parametrize("name", ["kuhn_poker", "scotland_yard(map=glasses,rounds=2)"])
def test_networks_of_another_game_are_refused(name, torso):
    game = make(name)
    other = game.belief_game() or belief_table(game)
    graph, params = evaluator(torso=torso)
    _, foreign = nnx.split(cvpn.new_cvpn(other, seed=0, width=16, depth=2, torso=torso))
    evaluate, state = cvpn.CvpnEvaluator(graph), other.root()
    reach = tuple(map(jnp.ones, other.num_rows))
    message = r"the network has num_rows=\(6, 6\), and does not fit .*; allowed: \(\d+, \d\)"
    for call in (evaluate, evaluate.prepare):
        given = (reach,) if call is evaluate else ()
        with pytest.raises(ValueError, match=message):
            jax.eval_shape(lambda call=call, given=given: call(params, other, state, *given))
    with pytest.raises(ValueError, match=message):
        evaluate.prepared_values(params, other, state, jnp.ones(16), reach)
    with pytest.raises(ValueError, match=r"params are of a network with \d+ .*, and do not fit"):
        evaluate.prepare(foreign, table(), table().root())
    with pytest.raises(ValueError, match=r"params have 0 arrays; the network has \d+"):
        evaluate.prepare(None, table(), table().root())


@pytest.mark.parametrize(
    ("name", "size", "what"),
    [("num_actions", (3, 4), "policy logits"), ("num_features", 7, "inputs")],
    ids=str,
)
def test_every_size_of_a_network_counts(name, size, what):
    features = table().encode(table().root())
    sizes = dict(num_features=len(features), num_rows=(6, 6), num_actions=(3, 3))
    fitting, other = (
        cvpn.Cvpn(**given, rngs=nnx.Rngs(0)) for given in (sizes, sizes | {name: size})
    )
    fitting.check_fits(table(), features)
    with pytest.raises(
        ValueError, match=rf"the network has {name}=.*, .* leduc_poker.*; allowed: "
    ):
        other.check_fits(table(), features)
    mixed = parameters.merged(nnx.graphdef(fitting), nnx.split(other)[1])
    with pytest.raises(ValueError, match=rf"params are of a network with \d+ {what}, and do not"):
        mixed.check_fits(table(), features)
