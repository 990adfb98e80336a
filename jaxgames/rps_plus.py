"""RPS+: rock-paper-scissors in which scissors count double (Brown, Sandholm and Amos 2018, s. 2).

If either player shows scissors, the winner gets 2 instead of 1. Both players' equilibrium is rock
0.4, paper 0.4, scissors 0.2, of value 0. Player 0 moves first, unseen: every action of player 0
then has value 0, so that values alone, put at a depth limit of one, do not lead to the equilibrium.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from jaxgames.matrix import MatrixGame
from jaxgames.registry import register


@register("rps_plus")
@dataclasses.dataclass(frozen=True)
class RockPaperScissorsPlus(MatrixGame):
    """Rock-paper-scissors for double stakes whenever scissors are shown."""

    payoffs: ClassVar = ((0, -1, 2), (1, 0, -2), (-2, 2, 0))
    action_names: ClassVar = ("rock", "paper", "scissors")
