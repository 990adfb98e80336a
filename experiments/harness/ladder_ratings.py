"""Elo ratings of many players from pairs of games, with intervals, and bounds for clean sweeps.

Ratings are those of maximum likelihood (`elo.ratings`). Intervals are from the bootstrap over pairs
of games (Efron 1979), since the two games from one opening are not independent. In each sample a
part of the pairs is unlike all that were played, or a match whose pairs all ended alike would count
as known. Where players have won all points of all their games with others, no rating is the
likeliest; the lowest one that is not refused at 5 % is given, as a bound.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from experiments.harness import elo, plots, results

RESAMPLES = 1_000
ERROR_BARS = (
    "95 %, by the bootstrap over pairs of games, among which are some unlike those that were"
    " played; where all points went one way, 'at least' or 'at most' instead: what an exact test of"
    " the pairs does not refuse at 5 %"
)
_DRAWN = 0.5  # drawn games added to each match of a sample in which somebody has won everything
_WIDEST = 4000.0  # Elo


@dataclasses.dataclass(frozen=True, kw_only=True)
class Match:
    """What a player got from another one."""

    first: int
    """A player's number."""
    second: int
    shares: Sequence[float]
    """Of the points of each pair of games, what the first player got: 0, 1/4, ..., 1."""


def matches_of(pairs: Iterable[tuple[int, int, float]]) -> list[Match]:
    """The matches of all pairs of games.

    Args:
      pairs: the numbers of both players, and what the first one got of the points.
    """
    shares: dict[tuple[int, int], list[float]] = {}
    for first, second, share in pairs:
        shares.setdefault((first, second), []).append(share)
    return [Match(first=i, second=j, shares=each) for (i, j), each in shares.items()]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rating:
    """A difference in Elo; either it has an interval or it is a bound."""

    value: float | None
    """None: the games say nothing."""
    low: float | None = None
    high: float | None = None
    bound: str = ""
    """">=" or "<=": the value is a bound; "?": there is none."""

    def __str__(self):
        if self.value is None:
            return "?"
        if self.bound:
            return f"{self.bound} {self.value:.0f}"
        return f"{self.value:+.0f} ({self.low:+.0f} to {self.high:+.0f})"

    def number(self, name: str, *, paper: float | None = None) -> results.Number | None:
        """The number on record, whose name says whether it is a bound; None: the games say
        nothing."""
        if self.value is None:
            return None
        words = {">=": ", at least", "<=": ", at most", "": ""}[self.bound]
        return results.Number(
            name=name + words,
            value=self.value,
            low=self.low,
            high=self.high,
            unit="Elo",
            paper=paper,
        )


class Ladder:
    """Players who have met in matches.

    Args:
      matches: of the players; two players may have several.
      num_players: N. Games connect all of them.
      resamples: R, of the bootstrap, whose random numbers are always the same.

    Raises:
      ValueError: no games connect some players.
    """

    def __init__(self, matches: Sequence[Match], num_players: int, *, resamples: int = RESAMPLES):
        self._matches, self._count, self._resamples = matches, num_players, resamples
        self.points = self._points(np.array([np.sum(match.shares) for match in matches], float))
        self._pairs = np.zeros((num_players, num_players))
        for match in matches:
            self._pairs[match.first, match.second] += len(match.shares)
        self._pairs += self._pairs.T
        self.estimates = _estimates(self.points)
        """[N] Elo, 0 for player 0; half a drawn game is added to each match if it has to be."""

    @functools.cached_property
    def samples(self) -> Float[np.ndarray, "R N"]:
        """The bootstrap's, as `estimates`.

        In each sample, a part q of the pairs of a match is unlike those that were played: one
        player wins them all, either of them with the chance that its rating gives it. That q > x
        has the probability (1 - x)^n for n pairs. So where the pairs of two equals all ended alike,
        their interval is that of `results.unseen_range`.
        """
        generator, size, found = np.random.default_rng(0), self._resamples, []
        for match in self._matches:
            shares, count = np.asarray(match.shares, float), len(match.shares)
            drawn = generator.integers(count, size=(size, count))
            stronger = self.estimates[match.first] - self.estimates[match.second]
            won = generator.random(size) < elo.expected_share(stronger)
            unseen = generator.beta(1, count, size)
            seen = shares[drawn].sum(axis=1)
            # exactly all or none where `seen` and `won` are: a rounded rest would be a chain down
            found.append(seen + unseen * (count * won - seen))
        return _estimates(self._points(np.stack(found, axis=1)))

    def ratings(self, anchor: int) -> list[Rating]:
        """Elo of all players, with 0 for one of them."""
        above = _reach(self.points)
        ranked = _ranked(self.points, self._pairs, above, anchor)
        below = _ranked(self.points.T, self._pairs, above.T, anchor)
        equal = above[anchor] & above[:, anchor]
        spread = self.samples - self.samples[:, [anchor]]
        low, high = np.quantile(spread, (results.LEVEL / 2, 1 - results.LEVEL / 2), axis=0)
        found = []
        for player in range(self._count):
            if equal[player]:
                ends = dict(low=float(low[player]), high=float(high[player]))
                found.append(Rating(value=ranked[player], **ends))
            elif player in ranked:
                found.append(Rating(value=ranked[player], bound=">="))
            elif player in below:
                found.append(Rating(value=-below[player], bound="<="))
            else:
                found.append(Rating(value=None, bound="?"))
        return found

    def difference(self, first: int, second: int) -> Rating:
        """How much stronger a player is than another one."""
        return self.ratings(second)[first]

    def growth(self, players: Sequence[int]) -> tuple[float, float]:
        """Whether ratings grow from each of some players to the next.

        Returns:
          The share of the steps at which they do, and the share of the bootstrap's samples in which
          they do at all steps.
        """
        places = [*players]
        steps, all_steps = (np.diff(x[..., places]) > 0 for x in (self.estimates, self.samples))
        return float(steps.mean()), float(all_steps.all(axis=1).mean())

    def _points(self, sums: Float[np.ndarray, "*R M"]) -> Float[np.ndarray, "*R N N"]:
        """What each player got from each, from the sums of the shares of each match."""
        points = np.zeros((*sums.shape[:-1], self._count, self._count))
        for match, total in zip(self._matches, np.moveaxis(sums, -1, 0), strict=True):
            points[..., match.first, match.second] += 2 * total
            points[..., match.second, match.first] += 2 * (len(match.shares) - total)
        return points


def draw(axes: Any, ratings: Mapping[int, Rating], number: int, label: str) -> None:
    """Draws ratings by x as line `number`, with their intervals; bounds are arrow heads."""
    known = {x: rating for x, rating in ratings.items() if rating.value is not None}
    colour = plots.colour(number)
    axes.plot([*known], [r.value for r in known.values()], color=colour, label=label)
    for x, rating in known.items():
        if rating.bound:
            shape = "^" if rating.bound == ">=" else "v"
            axes.plot([x], [rating.value], color=colour, marker=shape)
        else:
            axes.plot([x, x], [rating.low, rating.high], color=colour, linewidth=1)
            axes.plot([x], [rating.value], color=colour, marker="o", markersize=3.5)


def _estimates(points):
    """Ratings `[*R, N]`, of maximum likelihood where they are finite."""
    finite = _reach(points).all(axis=(-2, -1))
    return elo.ratings(points, drawn=np.where(finite, 0.0, _DRAWN))[0]


def _reach(points):
    """[*R, N, N] whether a chain of points goes from a player down to another one."""
    count = points.shape[-1]
    reach = (points > 0) | np.eye(count, dtype=bool)
    for _ in range(max(1, math.ceil(math.log2(count)))):
        reach = (reach.astype(int) @ reach) > 0
    return reach


def _ranked(points, pairs, above, anchor) -> dict[int, float]:
    """Ratings of the anchor's equals and of all players above them, group by group.

    Equals are players between whom chains of points go both ways. Of the groups above, each gets
    the lowest rating that its games with those below allow.
    """
    found = _group_ratings(points, above, anchor)
    while True:
        left = [p for p in np.flatnonzero(above[:, anchor]).tolist() if p not in found]
        # the next group: nobody who is left is below it
        free = [p for p in left if all(above[other, p] for other in left if above[p, other])]
        if not free:
            return found
        group = _group_ratings(points, above, free[0])
        shift = _lowest_shift(group, found, pairs)
        found |= {player: rating + shift for player, rating in group.items()}


def _group_ratings(points, above, player) -> dict[int, float]:
    """Ratings of a player, which is 0, and its equals."""
    others = np.flatnonzero(above[player] & above[:, player]).tolist()
    members = [player, *(other for other in others if other != player)]
    if len(members) == 1:
        return {player: 0.0}
    strengths, _ = elo.ratings(points[np.ix_(members, members)], drawn=0.0)
    return dict(zip(members, strengths.tolist(), strict=True))


def _lowest_shift(group, found, pairs) -> float:
    """What must be added to a group's ratings so that it wins all its pairs in 5 % of matches."""
    met = [(a, b, pairs[i, j]) for i, a in group.items() for j, b in found.items() if pairs[i, j]]
    low, high = -_WIDEST, _WIDEST
    for _ in range(60):  # bisection: the probability grows with the shift
        shift = (low + high) / 2
        logs = (-n * math.log1p(10 ** (min(b - a - shift, _WIDEST) / 400)) for a, b, n in met)
        low, high = (shift, high) if sum(logs) < math.log(results.LEVEL) else (low, shift)
    return low
