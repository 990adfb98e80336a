"""Sums of tied hands, against a matrix: short rows, long ones that are cut, and empty ones."""

import jax
import jax.numpy as jnp
import numpy as np

from solvers.holdem.tied_hands import build_tied_sums


def test_sums_of_several_plans_are_products_with_a_matrix():
    generator, lengths = np.random.default_rng(0), [[0, 1, 16, 17, 300], [5, 40, 0, 2, 2]]
    num_columns, plan, row, column = 301, [], [], []
    for number, of_plan in enumerate(lengths):
        for place, length in enumerate(of_plan):
            plan += [number] * length
            row += [place] * length
            column += generator.choice(num_columns, length, replace=False).tolist()
    order = generator.permutation(len(row))  # entries may come in any order
    plan, row, column = (np.array(x)[order] for x in (plan, row, column))
    sums = build_tied_sums(
        plan=plan, row=row, column=column, num_plans=2, num_rows=(2, 3), num_columns=num_columns
    )
    table = np.append(generator.normal(size=(num_columns, 3)), [[0, 0, 0]], axis=0)
    first, second = jax.lax.map(lambda each: each(jnp.asarray(table, jnp.float32)), sums)
    matrix = np.zeros((2, 5, num_columns))
    matrix[plan, row, column] = 1
    expected = matrix @ table[:-1]
    np.testing.assert_allclose(first, expected[:, :2], atol=1e-4)
    np.testing.assert_allclose(second, expected[:, 2:], atol=1e-4)


def test_rows_that_are_all_short():
    sums = build_tied_sums(
        plan=np.zeros(3, int),
        row=np.array([1, 0, 1]),
        column=np.array([0, 1, 2]),
        num_plans=1,
        num_rows=(2,),
        num_columns=3,
    )
    table = jnp.array([[1.0], [2.0], [4.0], [0.0]])
    (each,) = jax.tree.map(lambda x: x[0], sums)(table)
    np.testing.assert_array_equal(each, [[2.0], [5.0]])
