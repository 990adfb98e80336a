"""Bad questions to the search."""

import jax.numpy as jnp
import pytest

from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from solvers.search import continual_resolving, leaf_evaluators
from solvers.search.problem_checks import check_problem
from solvers.search.search_state import NO_STEP, GrowingTreeCfr

SETTINGS = GrowingTreeCfr(leaf_evaluators.zero, simulations=4, max_path=2)
PASS, BET = 0, 1


def changed(**fields):
    table = belief_table(make("kuhn_poker"))
    problem = continual_resolving.first_problem(table, max_path=2)
    return table, problem.replace(**{name: jnp.asarray(x) for name, x in fields.items()})


@pytest.mark.parametrize("path", [[NO_STEP, NO_STEP], [PASS, BET]])
def test_good_problems_pass(path):
    table, problem = changed(path=path)
    check_problem(table, problem, settings=SETTINGS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reach": jnp.ones((2, 4))}, r"reach has shape \(2, 4\), not \(2, 3\), in kuhn_poker"),
        ({"reach": -jnp.ones((2, 3))}, "reach of kuhn.* must be at least 0 and finite"),
        (
            {"reach": jnp.full((2, 3), jnp.nan)},
            "reach of kuhn.* must be at least 0 and finite",
        ),
        ({"reach": jnp.array([[1.0, 1, 1], [0, 0, 0]])}, r"reach\[1\] sums to 0"),
        ({"path": [2, NO_STEP]}, r"path\[0\]=2 is no public child; allowed"),
        ({"path": [PASS, PASS]}, "ends the game: there is nothing to search"),
        ({"path": [NO_STEP, PASS]}, "must have its steps first"),
        ({"path": [NO_STEP] * 3}, "path has 3 steps, more than max_path=2"),
    ],
)
def test_bad_problems_are_told(fields, message):
    table, problem = changed(**fields)
    with pytest.raises(ValueError, match=message):
        check_problem(table, problem, settings=SETTINGS)


def test_both_cannot_hold_one_card():
    table, problem = changed()
    same = int(jnp.argmin(table.weights[table.root(), 0]))
    reach = jnp.zeros((2, 3)).at[0, 0].set(1).at[1, same].set(1)
    with pytest.raises(ValueError, match="never deals what both players' reach"):
        check_problem(table, problem.replace(reach=reach), settings=SETTINGS)
