"""Bet sizes in the notation of players.

"50%" is of the pot after calling; "3x" raises to three times what the opponent has bet on this
street; "allin"; "2e" is the fraction of the pot that, bet on two streets, is all-in on the second;
"any" stands for all sizes that are legal.

    >>> from jaxgames.holdem.bet_sizes import BetSizes, sizes_by_street
    >>> print(*BetSizes.parse(bets="50%, 100%, allin", raises="3x").bets)
    50% 100% allin
    >>> streets = "turn", "river"
    >>> turn, river = sizes_by_street("50%", "3x", ["river ip bets 75%,allin"], streets=streets)
    >>> print(*river[1].bets)  # in position
    75% allin
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

SEATS = ("oop", "ip")  # players 0 and 1: out of position and in position
_SIZE = re.compile(r"(allin|all-in|any)|([0-9.]+)(%|x|e)")
_CHANGE = re.compile(r"(?:(preflop|flop|turn|river)\s+)?(?:(oop|ip)\s+)?(bets|raises)(?:\s+(.*))?")


@dataclasses.dataclass(frozen=True)
class BetSize:
    """One bet size: `kind` "allin", or "any", or `amount` in units of "%", "x" or "e"."""

    kind: str
    amount: float = 0.0

    @classmethod
    def parse(cls, text: str) -> BetSize:
        """Reads a size such as "50%", "3x", "2e", "allin" or "any".

        Raises:
          ValueError: the text is no size, or its amount is not positive (for "x": not above 1).
        """
        match = _SIZE.fullmatch(text.strip().lower())
        if match is None or (match[2] and match[2].count(".") > 1) or match[2] == ".":
            raise ValueError(f"size {text.strip()!r} must be like 50%, 3x, 2e, allin or any")
        if match[1]:
            return cls("any" if match[1] == "any" else "allin")
        amount = float(match[2])
        if not amount > 0 or (match[3] == "x" and amount <= 1):
            least = "more than 1" if match[3] == "x" else "more than 0"
            raise ValueError(f"size {text.strip()!r} must be {least}")
        return cls(match[3], amount)

    def __str__(self) -> str:
        return f"{self.amount:g}{self.kind}" if self.amount else self.kind


@dataclasses.dataclass(frozen=True)
class BetSizes:
    """The sizes that one player may bet, and raise to, on one street."""

    bets: tuple[BetSize, ...]
    raises: tuple[BetSize, ...]

    @classmethod
    def parse(cls, bets: str, raises: str) -> BetSizes:
        """Reads two lists of sizes.

        Args:
          bets: sizes with commas between them; an empty text means that nobody may bet.
          raises: the same for raises.

        Raises:
          ValueError: a size is not understood, or a bet is a multiple ("3x") of another bet.
        """
        parsed = [
            tuple(BetSize.parse(part) for part in text.split(",") if part.strip())
            for text in (bets, raises)
        ]
        for size in parsed[0]:
            if size.kind == "x":
                raise ValueError(f"bet {size} is a multiple of a bet, but no bet precedes it")
        return cls(*parsed)


BetSizesByStreet = tuple[tuple[BetSizes, BetSizes], ...]  # by street, then by player


def sizes_by_street(
    bets: str, raises: str, changes: Iterable[str] = (), *, streets: tuple[str, ...]
) -> BetSizesByStreet:
    """Reads sizes for both players on all streets, with changes for some streets or players.

    Args:
      bets: sizes of bets, as in `BetSizes.parse`.
      raises: sizes of raises.
      changes: texts such as "turn oop bets 33%". Without a street a change is for all streets,
        without a seat for both players, and without sizes ("river ip raises") it removes them all.
        Later changes replace earlier ones.
      streets: names of the streets that the tree has: "preflop", "flop", "turn", "river".

    Returns:
      The sizes by street and player.

    Raises:
      ValueError: a change or a size is not understood, or is for a street that is not in `streets`.
    """
    texts = {(street, seat): [bets, raises] for street in streets for seat in SEATS}
    for change in changes:
        match = _CHANGE.fullmatch(change.strip().lower())
        if match is None:
            raise ValueError(f"sizes {change!r} must be like 'turn oop bets 50%,allin'")
        street, seat, kind, sizes = match.groups()
        if street and street not in streets:
            raise ValueError(
                f"sizes {change!r} must be for one of the streets {', '.join(streets)}"
            )
        for (each_street, each_seat), text in texts.items():
            if street in (None, each_street) and seat in (None, each_seat):
                text[kind == "raises"] = sizes or ""
    oop, ip = ([BetSizes.parse(*texts[street, seat]) for street in streets] for seat in SEATS)
    return tuple(zip(oop, ip, strict=True))
