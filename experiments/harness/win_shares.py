"""Shares of games won, with intervals of confidence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

WILSON = "Wilson's interval of 95 % confidence"
NEWCOMBE = "Newcombe's interval of 95 % confidence, by those of Wilson"
_SCORE = 1.959964  # of 95 %


def wilson_interval(wins: int, games: int) -> tuple[float, float]:
    """Wilson's score interval (1927) of the probability of winning a game.

    Args:
      wins: games that were won.
      games: all games.

    Returns:
      The ends of the interval of 95 % confidence.

    Raises:
      ValueError: there are no games, or more were won.
    """
    if not 0 <= wins <= games or games < 1:
        raise ValueError(f"wins={wins} must be from 0 to games={games}, which must be at least 1")
    share, square = wins / games, _SCORE**2 / games
    middle = (share + square / 2) / (1 + square)
    half = math.sqrt(square * share * (1 - share) + square**2 / 4) / (1 + square)
    return max(middle - half, 0.0), min(middle + half, 1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """The games that a player has won."""

    wins: int
    games: int

    @property
    def value(self) -> float:
        """The share of the games."""
        return self.wins / self.games

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 % confidence."""
        return wilson_interval(self.wins, self.games)


@runtime_checkable
class Played(Protocol):
    """A record of games."""

    @property
    def share(self) -> Share:
        """The games that were won."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counted:
    """A record of games, whose further fields say which."""

    games: int
    won: int

    @property
    def share(self) -> Share:
        """The games that were won."""
        return Share(wins=self.won, games=self.games)

    def row(self) -> dict[str, object]:
        """The fields, the games and the ends of the interval last."""
        counts = {"games": self.games, "won": self.won}
        which = {name: x for name, x in dataclasses.asdict(self).items() if name not in counts}
        low, high = self.share.interval
        return which | counts | {"low": low, "high": high}


def shares_by(records: Iterable[Played], *names: str) -> dict[tuple[Any, ...], Share]:
    """Adds up the games of records that agree in some fields.

    Args:
      records: of games.
      names: of the fields.

    Returns:
      The games by the values of these fields, in the order of the records.
    """
    found: dict[tuple[Any, ...], Share] = {}
    for record in records:
        which = tuple(getattr(record, name) for name in names)
        before, more = found.get(which, Share(wins=0, games=0)), record.share
        found[which] = Share(wins=before.wins + more.wins, games=before.games + more.games)
    return found


def interval_of_sum(terms: Sequence[tuple[float, Share]]) -> tuple[float, float]:
    """The interval of a weighted sum of shares, such as a mean or a difference.

    It is Newcombe's, who adds the squares of the distances to the limits of Wilson's intervals
    ("Interval estimation for the difference between independent proportions", 1998, method 10).

    Args:
      terms: the weights and the shares, which are of independent games.

    Returns:
      The ends of the interval of 95 % confidence.
    """
    low = high = sum(weight * share.value for weight, share in terms)
    ends = [
        sorted(weight * (end - share.value) for end in share.interval) for weight, share in terms
    ]
    return low - math.hypot(*(end[0] for end in ends)), high + math.hypot(*(end[1] for end in ends))


def error_bars(shares: Sequence[Share]) -> tuple[list[float], list[float]]:
    """How far the intervals go below and above the shares, as `errorbar` of Matplotlib takes it."""
    below = [share.value - share.interval[0] for share in shares]
    return below, [share.interval[1] - share.value for share in shares]
