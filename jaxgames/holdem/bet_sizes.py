"""Sizes of bets as players write them: "50%" of the pot after calling; "3x", a raise to three times
what the other has bet on this street; "allin"; "2e", the share of the pot that, bet on two streets,
is all-in on the second; "any", all that are legal.

    >>> from jaxgames.holdem.bet_sizes import Sizes, sizes_by_street
    >>> sizes = Sizes.parse(bets="50%, 100%, allin", raises="3x")
    >>> len(sizes.bets), len(sizes.raises)
    (3, 1)
    >>> change = "river ip bets 75%,allin"
    >>> turn, river = sizes_by_street("50%", "3x", [change], streets=("turn", "river"))
    >>> [len(seat.bets) for seat in river]  # out of position, in position
    [1, 2]
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

SEATS = ("oop", "ip")  # players 0 and 1: out of position and in position
_SIZE = re.compile(r"(allin|all-in|any)|([0-9.]+)(%|x|e)")
_CHANGE = re.compile(r"(?:(preflop|flop|turn|river)\s+)?(?:(oop|ip)\s+)?(bets|raises)(?:\s+(.*))?")


@dataclasses.dataclass(frozen=True)
class Size:
    """One size of bets: "allin", an amount of "%", "x" or "e", or "any" of all sizes."""

    kind: str
    amount: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Size:
        """Reads "50%", "3x", "2e", "allin" or "any".

        Raises:
          ValueError: it is none of these, or not positive.
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
class Sizes:
    """What may be bet, and raised to, by one player on one street."""

    bets: tuple[Size, ...]
    raises: tuple[Size, ...]

    @classmethod
    def parse(cls, bets: str, raises: str) -> Sizes:
        """Reads sizes between commas; nothing is none.

        Raises:
          ValueError: a size is not understood, or a bet is a multiple of one that is faced.
        """
        found = [
            tuple(Size.parse(part) for part in text.split(",") if part.strip())
            for text in (bets, raises)
        ]
        for size in found[0]:
            if size.kind == "x":
                raise ValueError(f"bet {size} is a multiple of a bet, but there is none yet")
        return cls(*found)


SizesByStreet = tuple[tuple[Sizes, Sizes], ...]  # and player


def sizes_by_street(
    bets: str, raises: str, changes: Iterable[str] = (), *, streets: tuple[str, ...]
) -> SizesByStreet:
    """The same sizes for both players on all streets, but for changes such as "turn oop bets 33%".

    A change is for a street and a player, or without one for all streets, without the other for
    both players; "river ip raises" is none at all. Later ones go before earlier ones.

    Raises:
      ValueError: a change or a size is not understood, or for another street.
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
        for (street_here, seat_here), text in texts.items():
            if street in (None, street_here) and seat in (None, seat_here):
                text[kind == "raises"] = sizes or ""
    oop, ip = ([Sizes.parse(*texts[street, seat]) for street in streets] for seat in SEATS)
    return tuple(zip(oop, ip, strict=True))
