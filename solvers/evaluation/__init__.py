"""How good policies are: expected values, best responses, NashConv and exploitability, exact.

`exploitability` evaluates policies on a sequence form; `belief_exploitability` does the same on the
public states of a belief-level game.
"""

from solvers.evaluation.exploitability import (
    best_response,
    best_response_value,
    counterfactual_values,
    expected_value,
    exploitability,
    nash_conv,
    root_best_response_values,
    root_values,
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
]
