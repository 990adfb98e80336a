"""What the commands that make our agents engines have in common."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineArguments:
    """Options of an agent that an interface talks to."""

    agent: Literal["alphazero", "student_of_games", "uniform"] = "alphazero"
    """Who plays: a search, or uniformly random moves."""
    network: str = ""
    """File of the network, in the folder networks of a training run. Empty: none; then all values
    are 0 and all priors uniform."""
    simulations: int = 800
    """Simulations of a search, unless the interface asks for another number."""
    seed: int = 0
    """Seed of everything random."""
