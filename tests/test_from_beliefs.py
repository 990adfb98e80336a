"""Sequence forms of belief-level games, with merged rows, against those of their histories."""

import functools

import jax
import numpy as np
import pytest
import row_program
from belief_cases import listed_policy
from solver_reference import random_policies

from jaxgames.beliefs import belief_table, list_public_states
from jaxgames.beliefs.row_moves import row_moves
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import cfr, evaluation
from solvers.evaluation import belief_exploitability
from solvers.sequence_form import build_sequence_form, by_public_state, sequence_form_of_beliefs

GLASSES = "scotland_yard(map=glasses,rounds=2)"  # rows merge: Mr X may go to and fro
SHOWN = "scotland_yard(map=district,rounds=2,reveals=1)"  # chance nodes, and moves by bus


@pytest.fixture
def _x64():
    with jax.enable_x64(True):
        yield


@functools.cache
def compiled(name):
    """The belief-level game in float64, its public states and its sequence form."""
    game = make(name)
    beliefs = game.belief_game() or belief_table(game, dtype="float64")
    listing = list_public_states(beliefs)
    return beliefs, listing, sequence_form_of_beliefs(beliefs, listing, dtype="float64")


def random_policy(beliefs, listing):
    """A random policy `[S * N_p, A]` of both players."""
    drawn = []
    legal = jax.tree.map(np.asarray, jax.vmap(beliefs.legal)(listing.state))
    for p, own in enumerate(legal):
        weights = np.random.default_rng(p).random(own.shape) * own
        total = weights.sum(axis=1, keepdims=True)
        own = (weights / np.where(total > 0, total, 1)).swapaxes(1, 2)
        own = own.reshape(-1, own.shape[2])
        drawn.append(np.pad(own, ((0, 0), (0, max(beliefs.num_actions) - own.shape[1]))))
    return tuple(drawn)


@pytest.mark.usefixtures("_x64")
@pytest.mark.parametrize(
    "name",
    [
        "kuhn_poker",
        pytest.param("goofspiel(cards=3)", marks=pytest.mark.slow),
        pytest.param(GLASSES, marks=pytest.mark.slow),
        pytest.param(SHOWN, marks=pytest.mark.slow),
    ],
)
def test_policies_are_worth_what_the_beliefs_say(name):
    beliefs, listing, form = compiled(name)
    policy = random_policy(beliefs, listing)
    mine = by_public_state(beliefs, policy)
    value = belief_exploitability.expected_value(beliefs, listing, mine)
    expected = belief_exploitability.exploitability(beliefs, listing, mine)
    assert float(evaluation.expected_value(form, policy)[0]) == pytest.approx(
        float(value), abs=1e-9
    )
    assert float(evaluation.exploitability(form, policy)) == pytest.approx(
        float(expected), abs=1e-9
    )


@pytest.mark.usefixtures("_x64")
@pytest.mark.parametrize(
    "name", ["kuhn_poker", pytest.param("leduc_poker", marks=pytest.mark.slow)]
)
def test_without_merged_rows_it_is_the_sequence_form_of_the_histories(name):
    """Iterations of CFR+ are the same, and so is the value of any policy."""
    beliefs, _, form = compiled(name)
    tree = enumerate_game(make(name))
    whole = build_sequence_form(tree, dtype="float64")
    values = []
    for each in (form, whole):
        state = cfr.run(each, cfr.init(each), solver=cfr.cfr_plus(), num_iterations=20)
        policy = cfr.average_policy(each, state)
        values.append(np.append(*evaluation.values_and_nash_conv(each, policy)))
    np.testing.assert_allclose(*values, atol=1e-12)
    listing = list_public_states(beliefs)
    policy = random_policies(tree, 0)
    mine = listed_policy(beliefs, listing, policy)
    rows = tuple(np.asarray(own).swapaxes(1, 2).reshape(-1, own.shape[1]) for own in mine)
    np.testing.assert_allclose(
        evaluation.expected_value(form, rows), evaluation.expected_value(whole, policy), atol=1e-12
    )


@pytest.mark.slow
def test_moves_of_rows_are_those_of_the_rules():
    """On the glasses map Mr X, at 6, may go to 5 or 7; a detective's move leaves him there."""
    beliefs, listing = compiled_moves(GLASSES)
    his, theirs = row_moves(beliefs, listing)
    numbers = beliefs.game.layout.numbers
    first = his.state == 0
    assert {*zip(numbers[his.row[first]], numbers[his.row_below[first]], strict=True)} == {
        (6, 5),
        (6, 7),
    }
    watched = his.action < 0
    assert (np.asarray(listing.actor)[his.state[watched]] == 1).all()
    np.testing.assert_array_equal(his.row[watched], his.row_below[watched])
    assert not theirs.row_below.any()
    child = np.asarray(listing.child)
    for moves in (his, theirs):
        np.testing.assert_array_equal(child[moves.state, moves.slot], moves.child)


@functools.cache
def compiled_moves(name):
    beliefs = make(name).belief_game()
    return beliefs, list_public_states(beliefs)


@pytest.mark.slow
@pytest.mark.usefixtures("_x64")
def test_glasses_with_and_without_merged_rows():
    beliefs, listing, form = compiled(GLASSES)
    whole = build_sequence_form(make(GLASSES), dtype="float64")
    bounds = []
    for each in (form, whole):
        state = cfr.run(each, cfr.init(each), solver=cfr.pcfr_plus(), num_iterations=300)
        first, second = evaluation.best_response_value(each, cfr.average_policy(each, state))
        assert float(first + second) < 2e-3
        bounds.append((-float(second), float(first)))
    (low, high), (whole_low, whole_high) = bounds
    assert max(low, whole_low) <= min(high, whole_high) + 1e-12
    assert form.treeplexes[0].num_decisions == len(listing.parent) * beliefs.num_rows[0]


def test_bad_precision_is_refused():
    beliefs = belief_table(make("kuhn_poker"))
    listing = list_public_states(beliefs)
    with pytest.raises(ValueError, match="dtype='float16' must be 'float32' or 'float64'"):
        sequence_form_of_beliefs(beliefs, listing, dtype="float16")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kuhn_poker", -1 / 18),
        pytest.param("leduc_poker", -0.085606424078, marks=pytest.mark.slow),
        pytest.param("scotland_yard(map=glasses)", -7 / 9, marks=pytest.mark.slow),
    ],
)
def test_known_values(name, value):
    """By a linear program over rows, which the next test trusts, and by CFR."""
    game = make(name)
    beliefs = game.belief_game() or belief_table(game)
    listing = list_public_states(beliefs)
    assert row_program.game_value(beliefs, listing) == pytest.approx(value, abs=1e-6)
    assert solved(beliefs, listing) == pytest.approx(value, abs=1e-3)


@pytest.mark.slow(minutes=2)
@pytest.mark.parametrize(
    ("edition", "nodes", "value"),
    [
        ("district", 5_059, -0.60),
        ("district_two_detectives", 13_655, 0.0),
    ],
)
def test_districts_are_worth_what_an_independent_solver_found(edition, nodes, value):
    game = make(f"scotland_yard(map=district,edition={edition})").belief_game()
    listing = list_public_states(game)
    assert listing.num_inner == nodes
    assert solved(game, listing) == pytest.approx(value, abs=0.005)


@pytest.mark.slow(minutes=2)
@pytest.mark.parametrize(("reveals", "nodes", "value"), [(2, 10_226, 0.75), (0, 2_293, 19 / 22)])
def test_what_a_reveal_costs_mr_x(reveals, nodes, value):
    name = f"scotland_yard(map=district,edition=district_reveals,reveals={reveals})"
    game = make(name).belief_game()
    listing = list_public_states(game)
    assert listing.num_inner == nodes
    assert row_program.game_value(game, listing) == pytest.approx(value, abs=1e-5)
    assert solved(game, listing) == pytest.approx(value, abs=0.005)


def solved(game, listing):
    """Player 0's value by 400 iterations, of which the exploitability is below 0.005."""
    form = sequence_form_of_beliefs(game, listing)
    state = cfr.run(form, cfr.init(form), solver=cfr.pcfr_plus(), num_iterations=400)
    values, nash_conv = evaluation.values_and_nash_conv(form, cfr.average_policy(form, state))
    assert float(nash_conv) / 2 < 0.005
    return float(values[0])
