"""Hold'em spots that another program has solved, with the same algorithm and no abstraction.

The other program is an open-source solver in float32 that ran on two cores, with discounted CFR and
gamma 3. Values, of the player out of position, and exploitability (NashConv / 2) are in chips. A
bet of 50% is half of the pot, a raise of 3x is three times the bet.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_sizes import build_betting_tree
from jaxgames.holdem.betting_tree import BettingTree
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.ranges import parse_range

_OOP = "66+,A8s+,A5s-A4s,AJo+,K9s+,KQo,QTs+,JTs,96s+,85s+,75s+,65s,54s"
_IP = "QQ-22,AQs-A2s,ATo+,K5s+,KJo+,Q8s+,J8s+,T7s+,96s+,86s+,75s+,64s+,53s+"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spot:
    """A spot and the other program's solution."""

    board: str
    oop: str
    ip: str
    bets: str
    raises: str = "3x"
    pot: int = 200
    stack: int = 900
    iterations: int
    ev: float  # value of the player out of position
    exploitability: float
    equity: float  # of the player out of position
    frequencies: tuple[float, ...] | None  # of the first actions, if they are known to 0.01
    seconds: float  # per iteration of the other program
    tolerance: float = 0.05  # for `ev`

    @property
    def cards(self) -> tuple[int, ...]:
        """The cards of the board."""
        return parse_cards(self.board)

    @property
    def ranges(self) -> tuple[Float[np.ndarray, "1326"], Float[np.ndarray, "1326"]]:
        """The weights of both players' hands."""
        return parse_range(self.oop), parse_range(self.ip)

    @property
    def betting(self) -> BettingTree:
        """The betting tree from the board's street on."""
        return build_betting_tree(
            pot=self.pot,
            stack=self.stack,
            streets=6 - len(self.cards),
            sizes=BetSizes.parse(self.bets, self.raises),
        )


SPOTS = {
    "river": Spot(
        board="Td9d6h Qc 2s",
        oop="random",
        ip="random",
        bets="50%,100%,allin",
        iterations=390,
        ev=93.6587,
        exploitability=0.096,
        equity=0.5,
        frequencies=(0.7089, 0.2904, 0.0005, 0.0002),
        seconds=0.25e-3,
    ),
    "turn": Spot(
        board="Td9d6h Qc",
        oop=_OOP,
        ip=_IP,
        bets="50%,100%,allin",
        iterations=250,
        ev=91.9253,
        exploitability=0.1959,
        equity=0.5306,
        frequencies=(0.9245, 0.0751, 0.0003, 0.0),
        seconds=22e-3,
    ),
    "turn, all hands": Spot(
        board="Ks7h2d 8c",
        oop="random",
        ip="random",
        bets="75%,allin",
        iterations=130,
        ev=91.5289,
        exploitability=0.3931,
        equity=0.5,
        frequencies=None,
        seconds=30e-3,
    ),
    "flop": Spot(
        board="Td9d6h",
        oop=_OOP,
        ip=_IP,
        bets="50%",
        iterations=130,
        ev=107.2454,
        exploitability=0.5189,
        equity=0.53647,
        frequencies=None,
        seconds=0.8,
        tolerance=0.1,
    ),
}
