"""The settings that the MCCFR algorithms share (Lanctot, Waugh, Zinkevich, Bowling 2009)."""

from __future__ import annotations

import dataclasses
import math

from solvers.regret import RegretMatching, RegretMatchingPlus


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mccfr:
    """Settings that all MCCFR algorithms share. Static under `jit`."""

    minimizer: RegretMatching | RegretMatchingPlus = dataclasses.field(
        default_factory=RegretMatching
    )
    averaging_power: float = 0.0  # iteration (or episode) t has weight t**power

    def __post_init__(self):
        if not isinstance(self.minimizer, RegretMatching | RegretMatchingPlus):
            raise ValueError(
                f"minimizer={self.minimizer} must be RegretMatching() or RegretMatchingPlus():"
                " others count iterations, which sampled regrets do not have"
            )
        if not 0 <= self.averaging_power < math.inf:
            raise ValueError(
                f"averaging_power={self.averaging_power} must be at least 0 and finite"
            )
