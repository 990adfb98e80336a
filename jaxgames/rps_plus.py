"""RPS+: rock-paper-scissors in which scissors count double (Brown, Sandholm, Amos 2018, section 2).

If either player shows scissors, the winner gets 2 instead of 1. In equilibrium both players play
rock with probability 0.4, paper 0.4 and scissors 0.2, and the value is 0. Player 0 moves first and
unseen: every action of player 0 then has value 0, so that at a depth limit of one move the values
alone do not determine the equilibrium.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from jaxgames.matrix import MatrixGame
from jaxgames.registry import register


@register("rps_plus")
@dataclasses.dataclass(frozen=True)
class RockPaperScissorsPlus(MatrixGame):
    """Rock-paper-scissors in which a win counts double if scissors are shown."""

    payoffs: ClassVar = ((0, -1, 2), (1, 0, -2), (-2, 2, 0))
    action_names: ClassVar = ("rock", "paper", "scissors")
