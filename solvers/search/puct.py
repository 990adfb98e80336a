"""PUCT, the rule by which simulations choose actions (Silver et al. 2018; Schmid et al. 2023)."""

from __future__ import annotations

from jaxtyping import Array

from solvers.search.search_state import GrowingTreeCfr


def puct_scores(
    value: Array,
    visits: Array,
    settled: Array | None,
    prior: Array,
    root: Array,
    settings: GrowingTreeCfr,
) -> Array:
    """What PUCT maximises: q(a) + c * prior(a) * sqrt(n) / (1 + n(a)), with q the values of the
    last iteration. Visits since then count as losses of `virtual_loss`.

    Args:
      value: of the actions, for the player who takes them.
      visits: of the actions.
      settled: their visits at the last iteration, if there were simulations since then.
      prior: of the actions.
      root: sqrt(n).
      settings: of the searches.
    """
    if settled is not None:
        under_way, weight = visits - settled, 1 + settled
        value = (weight * value - settings.virtual_loss * under_way) / (weight + under_way)
    bonus = prior * root / (1 + visits)
    return value + settings.exploration * bonus
