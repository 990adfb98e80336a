"""Bad questions to the search."""

import numpy as np
import pytest

from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from solvers.search import continual_resolving, leaf_evaluators
from solvers.search.problem_checks import check_problem
from solvers.search.search_state import NO_STEP, GrowingTreeCfr

SETTINGS = GrowingTreeCfr(leaf_evaluators.zero, simulations=4, max_path=2)
PASS, BET = 0, 1
ONES, NONE = np.ones(3), np.zeros(3)


def changed(**fields):
    table = belief_table(make("kuhn_poker"))
    problem = continual_resolving.first_problem(table, max_path=2)
    return table, problem.replace(**fields)


@pytest.mark.parametrize("path", [[NO_STEP, NO_STEP], [PASS, BET]])
def test_good_problems_pass(path):
    table, problem = changed(path=path)
    check_problem(table, problem, settings=SETTINGS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reach": (ONES, np.ones(4))}, r"reach\[1\] has shape \(4,\), not \(3,\), in kuhn"),
        ({"reach": (ONES,)}, "reach is of 1 players, not 2, in kuhn_poker"),
        ({"reach": np.ones((3, 3))}, "reach is of 3 players, not 2, in kuhn_poker"),
        ({"reach": (-ONES, ONES)}, r"reach\[0\] of kuhn.* must be at least 0 and finite"),
        ({"reach": (ONES, NONE * np.nan)}, r"reach\[1\] of kuhn.* at least 0 and finite"),
        ({"reach": (ONES, NONE)}, r"reach\[1\] sums to 0"),
        ({"resolver": 2}, r"resolver=2 is no player of kuhn.*; allowed: 0, 1, or -1"),
        ({"resolver": 1, "opt_out": (NONE * np.nan, NONE)}, r"opt_out\[0\]=\[nan nan nan\]"),
        ({"resolver": 0, "opt_out": (NONE, NONE[:2])}, r"opt_out\[1\]=.*allowed: 3 finite values"),
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
    same = int(np.argmin(table.weights[table.root(), 0]))
    reach = np.eye(3)[0], np.eye(3)[same]
    with pytest.raises(ValueError, match=r"reach: .* deals no pair of rows that both reach"):
        check_problem(table, problem.replace(reach=reach), settings=SETTINGS)
