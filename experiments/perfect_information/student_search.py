"""The searches of Student of Games in games without secrets."""

from solvers.search.search_state import Evaluator, GrowingTreeCfr

_FAST_FROM = 320  # simulations


def simulation_pace(simulations: int) -> float:
    """c for a search of `simulations`: 10 if there are many, as in most searches of Figure 4
    (in Go it has c = 1 with 800 simulations), else 1."""
    return 10.0 if simulations >= _FAST_FROM else 1.0


def agent_name(simulations: int, pace: float | None = None) -> str:
    """The agent in the words of the paper, such as SoG(800,10).

    Args:
      simulations: of a search.
      pace: c, simulations for an iteration of CFR; None: the paper's.
    """
    return f"SoG({simulations},{simulation_pace(simulations) if pace is None else pace:g})"


def student_search(
    evaluate: Evaluator, simulations: int, *, pace: float | None = None, expand: int = 1
) -> GrowingTreeCfr:
    """The settings of a search.

    Args:
      evaluate: values and priors.
      simulations: of the search.
      pace: c, simulations for an iteration of CFR; None: the paper's.
      expand: k, children that a new node starts with.
    """
    return GrowingTreeCfr(
        evaluate,
        simulations=simulations,
        pace=simulation_pace(simulations) if pace is None else pace,
        max_path=1,
        expand=expand,
    )
