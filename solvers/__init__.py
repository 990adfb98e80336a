"""Solvers: exact ones on sequence forms, sampling ones, search at the level of beliefs.

    >>> import solvers
    >>> solution = solvers.solve("kuhn_poker", "dcfr(gamma=3)", num_iterations=1000)
    >>> solution.exploitability < 1e-3
    True

Everything here is imported on first use, so `import solvers` is cheap. In one call:

- `solve` computes an equilibrium by any solver of `solver_names`, and gives a `Solution`.
- `growing_tree_search` searches one public state, and gives a `SearchResult`.

Game and measures, for policies of your own:

- `build_sequence_form` compiles a game into a `SequenceForm`.
- `expected_value`, `best_response`, `best_response_value`, `nash_conv` and `exploitability` are
  exact evaluations of policies on it; `counterfactual_values` are those of every action.
- `compile_game` (to a `CompiledGame`), `solver_by_name` and `prepare_solver` are the steps of
  `solve` one by one; `GrowingTreeCfr` holds all settings of a search.

Below that, each algorithm is a module of pure functions that compose under `jit` and `vmap`:
`solvers.cfr`, `solvers.fictitious_play` and those of `solvers.sampling` have `init`, `run` and
`average_policy`; `solvers.search`, `solvers.subgames` and `solvers.approximate_best_response` say
what theirs are. `solvers.linear_program` runs on the host.
"""

from __future__ import annotations

from jaxgames.lazy_exports import lazy_exports

_MODULES = {
    "CompiledGame": "registry",
    "GrowingTreeCfr": "search.search_state",
    "SearchResult": "search.search_result",
    "SequenceForm": "sequence_form",
    "Solution": "solution",
    "best_response": "evaluation",
    "best_response_value": "evaluation",
    "build_sequence_form": "sequence_form",
    "compile_game": "solution",
    "counterfactual_values": "evaluation",
    "expected_value": "evaluation",
    "exploitability": "evaluation",
    "growing_tree_search": "search.search_result",
    "nash_conv": "evaluation",
    "prepare_solver": "registry",
    "solve": "solution",
    "solver_by_name": "registry",
    "solver_names": "registry",
}
__all__ = [*_MODULES]
__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
