"""Compressed states: rounding errors cancel, and solutions are as good as in full precision."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solver_cases import form_of

from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_sizes import build_betting_tree
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.ranges import parse_range
from solvers import cfr, checkpoint, evaluation
from solvers.holdem.subgame_spec import estimated_bytes
from solvers.holdem.subgame_tree import holdem_tree
from solvers.sequence_form.compression import compress, decompress


def num_bytes(state):
    return sum(leaf.nbytes for leaf in jax.tree.leaves(state))


def river():
    betting = build_betting_tree(pot=200, stack=900, streets=1, sizes=BetSizes.parse("50%", "3x"))
    return holdem_tree(parse_cards("Td9d6hQc2s"), (parse_range("random"),) * 2, betting)


def test_rounding_errors_are_below_a_unit_and_cancel():
    values = jax.random.normal(jax.random.key(0), (3, 50, 40)) * 10.0 ** jnp.arange(-2, 1)[
        :, None, None
    ].astype(jnp.float32)
    kept = jax.vmap(lambda step: compress(values, axis=2, step=step))(jnp.arange(1000))
    assert kept.numbers.dtype == jnp.int16
    errors = (jax.vmap(decompress)(kept) - values[None]) / kept.unit
    assert np.abs(errors).max() < 1.01  # and what float32 itself rounds
    assert np.abs(errors.mean(axis=0)).max() < 0.02


def test_rows_without_a_unit():
    """Rows of zeros and of numbers too small for a reciprocal become 0; NaN remains NaN."""
    rows = jnp.array([[0.0, 0.0], [1e-42, -1e-42], [np.nan, 1.0], [0.0, 1e30]], jnp.float32)
    again = decompress(compress(rows, axis=1, step=jnp.int32(1)))
    np.testing.assert_array_equal(again[:2], 0)
    assert np.isnan(again[2]).any()
    np.testing.assert_allclose(again[3], rows[3], rtol=1e-4)


# what full precision reaches in as many iterations, and twice that or one thousandth of a chip
@pytest.mark.parametrize(
    "solver",
    [pytest.param(s, marks=[pytest.mark.slow] * (s != "cfr")) for s in cfr.SOLVERS],
)
def test_leduc_is_solved_as_in_full_precision(solver):
    form, solver = form_of("leduc_poker", dtype="float32"), cfr.make_solver(solver)
    measured = {}
    for storage in ("full", "int16"):
        state = cfr.run(form, cfr.init(form, storage=storage), solver=solver, num_iterations=400)
        measured[storage] = float(evaluation.exploitability(form, cfr.average_policy(form, state)))
    assert measured["int16"] < max(2 * measured["full"], measured["full"] + 0.001)


@pytest.mark.slow
def test_a_river_is_solved_in_half_the_bytes():
    tree, solver, gains, size = river(), cfr.dcfr(gamma=3.0), {}, {}
    for storage in ("full", "int16"):
        state = cfr.init(tree.sequence_form, root_reach=tree.root_reach, storage=storage)
        state = cfr.run(tree.sequence_form, state, solver=solver, num_iterations=100)
        policy = cfr.average_policy(tree.sequence_form, state)
        gain = evaluation.exploitability(tree.sequence_form, policy, tree.root_reach)
        gains[storage], size[storage] = float(gain) / tree.total_weight, num_bytes(state)
    assert size["int16"] < 0.52 * size["full"]
    assert gains["int16"] < 1.25 * gains["full"] < 1  # chips, of 200


def test_solves_side_by_side_are_solves_one_by_one():
    form = form_of("kuhn_poker", root=2, dtype="float32")
    reaches = tuple(np.random.default_rng(0).random((2, 4, 3), np.float32))

    def solve(*reach):
        state = cfr.init(form, root_reach=reach, storage="int16")
        state = cfr.run(form, state, solver=cfr.cfr_plus(), num_iterations=9)
        return cfr.average_policy(form, state), cfr.current_policy(form, state)

    together = jax.vmap(solve)(*reaches)
    for number in range(4):
        alone = solve(*(reach[number] for reach in reaches))
        jax.tree.map(
            lambda batch, alone, number=number: np.testing.assert_allclose(
                batch[number], alone, atol=1e-3
            ),
            together,
            alone,
        )


def test_checkpoints_are_of_one_storage(tmp_path):
    form, solver = form_of("kuhn_poker", dtype="float32"), cfr.dcfr()
    state = cfr.run(form, cfr.init(form, storage="int16"), solver=solver, num_iterations=7)
    checkpoint.save(tmp_path, state, form=form, solver=solver)
    again = checkpoint.restore(tmp_path, form=form, solver=solver, storage="int16")
    chex.assert_trees_all_equal(again, state)
    assert again.storage == "int16"
    with pytest.raises(ValueError, match="has dtype='float32 in int16', not 'float32'"):
        checkpoint.restore(tmp_path, form=form, solver=solver)


def test_the_estimate_of_memory_knows_the_storage():
    tree = river()
    sizes = tuple(map(len, tree.hands))
    full, half = (
        estimated_bytes(tree.betting, tree.streets, sizes, storage=storage)
        for storage in ("full", "int16")
    )
    states = [
        num_bytes(cfr.init(tree.sequence_form, root_reach=tree.root_reach, storage=storage))
        for storage in ("full", "int16")
    ]
    assert full - half == pytest.approx(states[0] - states[1], rel=0.05)


def test_unknown_storages_are_refused():
    form = form_of("kuhn_poker", dtype="float32")
    with pytest.raises(ValueError, match=r"unknown storage 'int8'.* \(known: full, int16\)"):
        cfr.init(form, storage="int8")
