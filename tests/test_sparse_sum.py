"""Sums over ragged rows against SciPy's sparse matrices and loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from solvers.sequence_form import sparse_sum

NUM_COLUMNS = 50


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def entries(lengths, *, num_factors=1, seed=0):
    """Rows of the given lengths in shuffled order, with weights: row, columns, weight."""
    generator = np.random.default_rng(seed)
    row = generator.permutation(np.repeat(np.arange(len(lengths)), lengths))
    columns = [generator.integers(NUM_COLUMNS, size=len(row)) for _ in range(num_factors)]
    return row, tuple(columns), generator.normal(size=len(row))


def plan_of(row, columns, num_rows, weight=None):
    return sparse_sum.build(
        row=row, columns=columns, num_rows=num_rows, num_columns=NUM_COLUMNS, weight=weight
    )


def num_gathers(plan):
    """How many elements one call reads through an index, padding included: its work."""
    blocks = [block for stage in plan.stages for block in stage]
    return sum(column.size for block in blocks for column in jax.tree.leaves(block.columns))


def expected(row, columns, weight, num_rows, factors):
    """By definition: every entry's product is added to its row."""
    total = np.zeros((num_rows, *factors[0].shape[1:]))
    for e, r in enumerate(row):
        terms = [factor[column[e]] for factor, column in zip(factors, columns, strict=True)]
        total[r] += np.prod(terms, axis=0) * weight[e]
    return total


ROWS = {
    "all empty": [0, 0, 0],
    "one each": [1] * 9,
    "of one length": [16] * 5,
    "one more than fits": [17, 16, 0, 33],
    "mixed": [0, 1, 2, 3, 5, 7, 100, 0, 16, 17, 0],
    "one long row among short ones": [1] * 60 + [400] + [0] * 10,
}
apply = jax.jit(lambda plan, *factors: plan(*factors))


@pytest.mark.parametrize("lengths", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("weighted", [False, True])
def test_product_with_a_matrix(lengths, weighted):
    row, columns, weight = entries(lengths)
    weight = weight if weighted else np.ones(len(row))
    shape = (len(lengths), NUM_COLUMNS)
    matrix = scipy.sparse.coo_array((weight, (row, columns[0])), shape)
    x = np.random.default_rng(1).normal(size=NUM_COLUMNS)
    plan = plan_of(row, columns, len(lengths), weight if weighted else None)
    np.testing.assert_allclose(apply(plan, jnp.asarray(x)), matrix @ x, atol=1e-12)


def test_a_hundred_rows_of_every_length():
    lengths = np.random.default_rng(2).permutation(101)
    row, columns, weight = entries(lengths)
    matrix = scipy.sparse.coo_array((weight, (row, columns[0])), (101, NUM_COLUMNS))
    x = np.random.default_rng(1).normal(size=(NUM_COLUMNS, 2))
    plan = plan_of(row, columns, 101, weight)
    np.testing.assert_allclose(apply(plan, jnp.asarray(x)), matrix @ x, atol=1e-12)


@pytest.mark.parametrize("num_factors", [2, 3])
@pytest.mark.parametrize("trailing", [(), (2, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_products_of_several_factors(num_factors, trailing, weighted):
    lengths = [0, 1, 20, 3]
    row, columns, weight = entries(lengths, num_factors=num_factors)
    weight = weight if weighted else np.ones(len(row))
    generator = np.random.default_rng(1)
    factors = [generator.normal(size=(NUM_COLUMNS, *trailing)) for _ in range(num_factors)]
    sums = apply(plan_of(row, columns, 4, weight if weighted else None), *map(jnp.asarray, factors))
    np.testing.assert_allclose(sums, expected(row, columns, weight, 4, factors), atol=1e-12)


def test_no_factors_sum_the_weights():
    row, _, weight = entries([0, 3, 20])
    plan = plan_of(row, (), 3, weight)
    np.testing.assert_allclose(apply(plan), np.bincount(row, weight, 3), atol=1e-12)


def test_padding_reads_nothing_that_matters():
    """Unweighted padding must not pick up a real column, nor weighted padding a wrong weight."""
    row, columns, weight = entries([1, 2, 40, 0, 5])
    huge = jnp.full(NUM_COLUMNS, 1e300)
    sums = apply(plan_of(row, columns, 5), huge)
    np.testing.assert_allclose(sums, np.array([1, 2, 40, 0, 5]) * 1e300)
    sums = apply(plan_of(row, columns, 5, np.sign(weight)), huge)
    np.testing.assert_allclose(sums, np.bincount(row, np.sign(weight), 5) * 1e300)


def tiled_entries(*, num_tiles=300, shape=(5, 6), num_factors=2, seed=0):
    """Rows that share their columns, as hands do at a public state (a fifth of the pairs missing),
    and as many loose entries, all shuffled: row, columns, weight, number of rows."""
    generator = np.random.default_rng(seed)
    tile, r, c = np.indices((num_tiles, *shape)).reshape(3, -1)
    tuples = generator.permutation(NUM_COLUMNS**num_factors)[: num_tiles * shape[1]]
    columns = np.array(np.unravel_index(tuples, (NUM_COLUMNS,) * num_factors))
    kept = generator.random(len(tile)) < 0.8
    row = (tile * shape[0] + r)[kept]
    columns = columns[:, (tile * shape[1] + c)[kept]]
    num_rows = num_tiles * shape[0] + 20
    order = generator.permutation(len(row))
    return row[order], tuple(columns[:, order]), generator.normal(size=len(row)), num_rows


def tiles_of(plan):
    return [block for block in plan.stages[0] if isinstance(block, sparse_sum.Tiles)]


class TestTiles:
    row, columns, weight, num_rows = tiled_entries()
    factors = tuple(np.random.default_rng(1).normal(size=(2, NUM_COLUMNS)))

    @property
    def plan(self):
        return plan_of(self.row, self.columns, self.num_rows, self.weight)

    def test_save_gathers(self):
        assert tiles_of(self.plan)
        assert num_gathers(self.plan) < len(self.row) * len(self.columns)

    @pytest.mark.parametrize("trailing", [(), (2, 3)])
    def test_have_the_same_sums(self, trailing):
        factors = np.random.default_rng(1).normal(size=(2, NUM_COLUMNS, *trailing))
        sums = apply(self.plan, *map(jnp.asarray, factors))
        anew = expected(self.row, self.columns, self.weight, self.num_rows, factors)
        np.testing.assert_allclose(sums, anew, atol=1e-12)

    def test_stand_beside_loose_entries(self):
        generator = np.random.default_rng(2)
        row = np.concatenate([self.row, np.full(40, self.num_rows - 1), [self.num_rows]])
        columns = [np.append(c, generator.integers(NUM_COLUMNS, size=41)) for c in self.columns]
        weight = np.append(self.weight, generator.normal(size=41))
        plan = plan_of(row, tuple(columns), self.num_rows + 2, weight)
        assert tiles_of(plan)
        assert len(plan.stages[0]) > len(tiles_of(plan))
        sums = apply(plan, *map(jnp.asarray, self.factors))
        anew = expected(row, columns, weight, self.num_rows + 2, self.factors)
        np.testing.assert_allclose(sums, anew, atol=1e-12)

    def test_are_reweighed_in_batches_with_gradients(self):
        def sums(weight):
            plan = sparse_sum.reweigh(self.plan, weight)
            return plan(*map(jnp.asarray, self.factors))

        other = np.random.default_rng(2).normal(size=(2, len(self.weight)))
        batch = jax.vmap(sums)(jnp.asarray(other))
        for got, weight in zip(batch, other, strict=True):
            anew = expected(self.row, self.columns, weight, self.num_rows, self.factors)
            np.testing.assert_allclose(got, anew, atol=1e-12)
        slope = jax.grad(lambda weight: sums(weight).sum())(jnp.asarray(other[0]))
        first, second = (x[c] for x, c in zip(self.factors, self.columns, strict=True))
        np.testing.assert_allclose(slope, first * second, atol=1e-12)

    def test_are_not_cut_where_rows_share_nothing(self):
        row, columns, weight = entries([1] * 2000, num_factors=2)
        columns = (np.arange(2000) % NUM_COLUMNS, np.arange(2000) // NUM_COLUMNS)
        assert not tiles_of(plan_of(row, columns, 2000, weight))


class TestReweigh:
    lengths = (0, 1, 2, 40, 7, 0)
    row, columns, weight = entries(lengths, num_factors=2)
    factors = tuple(np.random.default_rng(1).normal(size=(2, NUM_COLUMNS)))
    other = np.random.default_rng(2).normal(size=len(weight))

    @property
    def plan(self):
        return plan_of(self.row, self.columns, len(self.lengths), self.weight)

    def sums(self, weight, *factors):
        return sparse_sum.reweigh(self.plan, weight)(*factors)

    def test_is_building_anew(self):
        sums = self.sums(jnp.asarray(self.other), *map(jnp.asarray, self.factors))
        anew = expected(self.row, self.columns, self.other, len(self.lengths), self.factors)
        np.testing.assert_allclose(sums, anew, atol=1e-12)

    def test_batches(self):
        weights = jnp.stack([jnp.asarray(self.weight), jnp.asarray(self.other)])
        batch = jax.vmap(self.sums, in_axes=(0, None, None))(
            weights, *map(jnp.asarray, self.factors)
        )
        for sums, weight in zip(batch, (self.weight, self.other), strict=True):
            anew = expected(self.row, self.columns, weight, len(self.lengths), self.factors)
            np.testing.assert_allclose(sums, anew, atol=1e-12)

    def test_gradient(self):
        slope = np.random.default_rng(3).normal(size=len(self.lengths))
        loss = lambda *args: jnp.vdot(jnp.asarray(slope), self.sums(*args))  # noqa: E731
        arguments = map(jnp.asarray, (self.other, *self.factors))
        by_weight, by_first, by_second = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*arguments)
        first, second = (x[c] for x, c in zip(self.factors, self.columns, strict=True))
        along = slope[self.row]
        np.testing.assert_allclose(by_weight, along * first * second, atol=1e-12)
        for actual, column, rest in (
            (by_first, self.columns[0], second),
            (by_second, self.columns[1], first),
        ):
            expected_sum = np.bincount(column, along * self.other * rest, NUM_COLUMNS)
            np.testing.assert_allclose(actual, expected_sum, atol=1e-12)


@pytest.mark.parametrize("lengths", ROWS.values(), ids=ROWS)
def test_padding_stays_small(lengths):
    """Work grows with the entries, not with the longest row times the number of rows."""
    row, columns, weight = entries(lengths)
    count = num_gathers(plan_of(row, columns, len(lengths), weight))
    assert len(row) <= count <= 1.6 * len(row) + 2 * len(lengths)


def test_precision_is_that_of_the_factors():
    row, columns, weight = entries([3, 20])
    plan = plan_of(row, columns, 2, weight.astype(np.float32))
    assert apply(plan, jnp.ones(NUM_COLUMNS, jnp.float32)).dtype == jnp.float32
    assert apply(plan_of(row, columns, 2), jnp.ones(NUM_COLUMNS, jnp.float32)).dtype == jnp.float32
