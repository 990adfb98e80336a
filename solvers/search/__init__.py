"""Search in belief-level games: growing-tree CFR and what is built on it (Schmid et al. 2023).

    >>> import jax
    >>> import jaxgames
    >>> from jaxgames.beliefs import belief_table
    >>> from solvers.search import GrowingTreeCfr, average_policy, first_problem
    >>> from solvers.search import leaf_evaluators, search
    >>> game = belief_table(jaxgames.make("kuhn_poker"))
    >>> settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=20)
    >>> problem = first_problem(game, max_path=settings.max_path)
    >>> result = search(game, None, jax.random.key(0), problem=problem, settings=settings)
    >>> [own.shape for own in average_policy(result)]  # actions, information states
    [(2, 3), (2, 3)]

- `search` runs one search with the settings `GrowingTreeCfr`. Its leaves are valued by an
  evaluator: one of the module `leaf_evaluators`, or a network of `nets`. `growing_tree_search` does
  all of the above in one call, and gives a `SearchResult`.
- A `Problem` says what to search: `first_problem` at the root of a game, `fixed_problem` where both
  ranges are given, `next_problem` after another `Search` (continual re-solving). `check_problem`
  examines one.
- `average_policy`, `average_values`, `expected_payoff` and `logged_queries` read a finished search.
- The module `search_agent` is an agent as a state machine (`init`, `observe`, `think`, `act`);
  `searched_exploitability` measures agents exactly, whose searches are given by a `Chain`.
- `solve_below` is the exact solver below a belief with its settings `Whole`; `equilibrium` solves a
  whole game, and `oracle` is an exact evaluator.
"""

from solvers.search import leaf_evaluators, search_agent
from solvers.search.agent_exploitability import Chain, searched_exploitability
from solvers.search.continual_resolving import first_problem, fixed_problem, next_problem
from solvers.search.exact_below_belief import Whole, equilibrium, oracle, solve_below
from solvers.search.growing_tree_cfr import search
from solvers.search.problem_checks import check_problem
from solvers.search.readouts import average_policy, average_values, expected_payoff, logged_queries
from solvers.search.search_result import SearchResult, growing_tree_search
from solvers.search.search_state import GrowingTreeCfr, Problem, Search

__all__ = [
    "Chain",
    "GrowingTreeCfr",
    "Problem",
    "Search",
    "SearchResult",
    "Whole",
    "average_policy",
    "average_values",
    "check_problem",
    "equilibrium",
    "expected_payoff",
    "first_problem",
    "fixed_problem",
    "growing_tree_search",
    "leaf_evaluators",
    "logged_queries",
    "next_problem",
    "oracle",
    "search",
    "search_agent",
    "searched_exploitability",
    "solve_below",
]
