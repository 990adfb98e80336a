"""Exact measures of policies: expected values, best responses, NashConv and exploitability.

`expected_values`, `best_response` and `exploitability` work on a sequence form;
`belief_exploitability` measures policies on the public states of a belief-level game;
`history_values` and `aivat` work on an explicit tree.
"""

from solvers.evaluation.best_response import (
    best_response,
    best_response_value,
    root_best_response_values,
)
from solvers.evaluation.expected_values import (
    counterfactual_values,
    expected_value,
    root_values,
)
from solvers.evaluation.exploitability import (
    exploitability,
    nash_conv,
    values_and_nash_conv,
)

__all__ = [
    "best_response",
    "best_response_value",
    "counterfactual_values",
    "expected_value",
    "exploitability",
    "nash_conv",
    "root_best_response_values",
    "root_values",
    "values_and_nash_conv",
]
