"""Expected values, best responses and NashConv against OpenSpiel, constants and plain code."""

import jax
import numpy as np
import pyspiel
import pytest
import solver_reference as reference
from normal_form import pure_strategies
from open_spiel.python.algorithms.exploitability import nash_conv as openspiel_nash_conv
from solver_cases import (
    OPENSPIEL_NAMES,
    form_of,
    from_openspiel,
    gains,
    game_tree,
    openspiel,
    to_openspiel,
)
from solver_reference import random_policies, uniform_policies

from jaxgames.adapters.openspiel_policies import to_openspiel_policy
from solvers import evaluation

SLOW = {"tic_tac_toe", "liars_dice(sides=4)", "goofspiel(cards=4,points=descending)"}
PARITY = [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in OPENSPIEL_NAMES]


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", PARITY)
def test_random_policies_are_worth_what_openspiel_says(name):
    form, spiel = form_of(name), openspiel(name)[0]
    root = spiel.new_initial_state()
    for seed, num_pure in enumerate((0.0, 0.5, 1.0)):
        policies = random_policies(game_tree(name), seed, num_pure=num_pure)
        theirs = pyspiel.TabularPolicy(to_openspiel(name, policies))
        value, best, nash_conv = gains(form, policies)
        expected = pyspiel.expected_returns(root, theirs, -1, True)
        np.testing.assert_allclose(value, expected, atol=1e-12)
        np.testing.assert_allclose(nash_conv, pyspiel.nash_conv(spiel, theirs), atol=1e-12)
        responses = [pyspiel.TabularBestResponse(spiel, p, theirs) for p in range(len(value))]
        expected = [response.value_from_state(root) for response in responses]
        np.testing.assert_allclose(best, expected, atol=1e-12)


def test_an_exported_policy_has_our_nash_conv():
    policies = random_policies(game_tree("kuhn_poker"), 0)
    exported = to_openspiel_policy(game_tree("kuhn_poker"), policies, "kuhn_poker")
    expected = openspiel_nash_conv(pyspiel.load_game("kuhn_poker"), exported)
    *_, nash_conv = gains(form_of("kuhn_poker"), policies)
    np.testing.assert_allclose(nash_conv, expected, atol=1e-12)


# the first five from OpenSpiel's nash_conv, the last by hand: rock gains 1/3 on the uniform policy
UNIFORM_NASH_CONV = {
    "kuhn_poker": 11 / 12,
    "leduc_poker": 4.747222,
    "liars_dice(sides=4)": 1.310119,
    "goofspiel(cards=4,points=descending)": 1.416667,
    "matrix_mp": 0.0,
    "rps_plus": 2 / 3,
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * ("liars_dice" in case[0]))
        for case in UNIFORM_NASH_CONV.items()
    ],
)
def test_nash_conv_of_the_uniform_policy(name, expected):
    *_, nash_conv = gains(form_of(name), uniform_policies(game_tree(name)))
    np.testing.assert_allclose(nash_conv, expected, atol=1e-6)


# from OpenSpiel's nash_conv
@pytest.mark.parametrize(
    ("preferred", "expected"),
    [((0, 1, 2), 2.0), ((1,), 2.933333), ((2, 1), 4.733333)],
    ids=["always fold", "always call", "always raise"],
)
def test_nash_conv_of_simple_policies_of_leduc(preferred, expected):
    """Each plays the first action of `preferred` that is legal."""
    policies = []
    for player in range(2):
        legal = game_tree("leduc_poker").legal_actions(player)[:, list(preferred)]
        policies.append(np.eye(3)[np.array(preferred)[legal.argmax(axis=1)]])
    *_, nash_conv = gains(form_of("leduc_poker"), tuple(policies))
    np.testing.assert_allclose(nash_conv, expected, atol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1 / 3])
def test_the_equilibria_of_kuhn_cannot_be_exploited(alpha):
    """The chances of a bet with jack, queen and king; Kuhn (1950), OpenSpiel's GetOptimalPolicy."""
    bets = {
        "": (alpha, 0, 3 * alpha),
        "pb": (0, alpha + 1 / 3, 1),
        "p": (1 / 3, 0, 1),
        "b": (0, 1 / 3, 1),
    }
    table = {
        f"{card}{history}": [(0, 1 - chance), (1, chance)]
        for history, chances in bets.items()
        for card, chance in enumerate(chances)
    }
    value, _, nash_conv = gains(form_of("kuhn_poker"), from_openspiel("kuhn_poker", table))
    np.testing.assert_allclose(value, [-1 / 18, 1 / 18], atol=1e-12)
    np.testing.assert_allclose(nash_conv, 0, atol=1e-12)


@jax.jit
def evaluate(form, policy):
    """Everything that is compared with plain code, in one compilation."""
    best = evaluation.best_response(form, policy)
    cut = evaluation.exploitability(form, policy)
    return gains(form, policy), evaluation.counterfactual_values(form, policy), best, cut


RANDOM = [
    "random(seed=35)",
    "random(seed=3)",  # player 0 never acts
    pytest.param("random(seed=6,players=3)", marks=pytest.mark.slow),
    "random(seed=10,players=1)",
]


@pytest.mark.parametrize("name", RANDOM)
def test_values_and_responses_agree_with_plain_code(name):
    explicit = game_tree(name)
    for num_pure in (0.0, 0.6):
        policies = random_policies(explicit, 3, num_pure=num_pure)
        evaluated = evaluate(form_of(name), policies)
        (value, best, nash_conv), counterfactual, response, cut = evaluated
        np.testing.assert_allclose(
            value, reference.history_values(explicit, policies)[0], atol=1e-12
        )
        for player in range(explicit.num_players):
            expected = reference.counterfactual_values(explicit, policies, player)
            np.testing.assert_allclose(counterfactual[0][player], expected[0], atol=1e-12)
            np.testing.assert_allclose(counterfactual[1][player], expected[1], atol=1e-12)
            expected = reference.best_response_value(explicit, policies, player)
            np.testing.assert_allclose(best[player], expected, atol=1e-12)
            mixed = [*policies]
            mixed[player] = np.asarray(response[player])
            np.testing.assert_array_equal(mixed[player].max(axis=1), 1.0)  # pure
            achieved = reference.history_values(explicit, mixed)[0, player]
            np.testing.assert_allclose(achieved, expected, atol=1e-12)
        np.testing.assert_allclose(nash_conv, np.sum(best - value), atol=1e-12)
        np.testing.assert_allclose(cut, nash_conv / explicit.num_players, atol=1e-12)


def test_a_game_whose_moves_have_no_order_in_time():
    explicit, form = game_tree("untimed"), form_of("untimed")
    assert explicit.num_decisions == (1, 1)
    policies = random_policies(explicit, 0)
    (value, best, _), counterfactual, _, _ = evaluate(form, policies)
    np.testing.assert_allclose(value, reference.history_values(explicit, policies)[0], atol=1e-12)
    for player in range(2):
        expected = reference.counterfactual_values(explicit, policies, player)
        np.testing.assert_allclose(counterfactual[0][player], expected[0], atol=1e-12)
        values = []
        for (action,) in pure_strategies(explicit, player):
            mixed = [*policies]
            mixed[player] = np.eye(2)[[action]]
            values.append(reference.history_values(explicit, mixed)[0, player])
        np.testing.assert_allclose(best[player], max(values), atol=1e-12)


def test_many_policies_at_once():
    name = "kuhn_poker"
    each = [random_policies(game_tree(name), seed) for seed in range(4)]
    batch = jax.tree.map(lambda *rows: np.stack(rows), *each)
    actual = jax.vmap(gains, in_axes=(None, 0))(form_of(name), batch)
    expected = [gains(form_of(name), policies) for policies in each]
    for values, others in zip(actual, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(values, np.stack(others), atol=1e-12)


def test_values_are_differentiable_in_the_policy():
    """The derivative in a probability is own reach times the action's counterfactual value."""
    name = "random(seed=35)"
    explicit, form = game_tree(name), form_of(name)
    policies = random_policies(explicit, 0)
    _, (actions, _), *_ = evaluate(form, policies)
    for player in range(2):
        gradient = jax.grad(lambda x, p=player: evaluation.expected_value(form, x)[p])(policies)
        first = explicit.representative(player)[: explicit.num_decisions[player]]
        own = reference.reach(explicit, policies)[player, first]
        np.testing.assert_allclose(gradient[player], own[:, None] * actions[player], atol=1e-12)


def test_float32_is_close():
    name = "goofspiel(cards=4,points=descending)"
    policies = random_policies(game_tree(name), 0)
    single = gains(form_of(name, dtype="float32"), policies)
    exact = gains(form_of(name), policies)
    for value, expected in zip(single, exact, strict=True):
        assert value.dtype == np.float32
        np.testing.assert_allclose(value, expected, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        lambda policies: policies[:1],
        lambda policies: (policies[0], policies[0][:5]),
        lambda policies: tuple(policy[:, :1] for policy in policies),
    ],
    ids=["a player too few", "a row too few", "an action too few"],
)
@pytest.mark.parametrize("function", ["expected_value", "best_response", "nash_conv"])
def test_policies_of_wrong_shape_are_refused(change, function):
    policies = change(random_policies(game_tree("kuhn_poker"), 0))
    with pytest.raises(
        ValueError, match=r"^policy of kuhn_poker.* has shapes .*, must be \[\(6, 2"
    ):
        getattr(evaluation, function)(form_of("kuhn_poker"), policies)


@pytest.mark.parametrize("game", ["kuhn_poker", game_tree("kuhn_poker")])
def test_what_is_no_sequence_form_is_refused(game):
    policies = uniform_policies(game_tree("kuhn_poker"))
    for function in (
        evaluation.exploitability,
        evaluation.best_response,
        evaluation.expected_value,
    ):
        with pytest.raises(
            ValueError, match=r"form is a (str|GameTree), must be a SequenceForm: see"
        ):
            function(game, policies)
