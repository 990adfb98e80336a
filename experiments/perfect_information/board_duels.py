"""Duels of networks along a training, from random openings with swapped colours, and their Elo."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from experiments.engines import match
from experiments.harness import ladder_ratings
from experiments.harness.ladder_ratings import Ladder, Match, Rating

UNIFORM = -1  # the opponent that draws all legal moves equally often, where else a step stands
ERROR_BARS = f"of shares: {match.ERROR_BARS}; of Elo: {ladder_ratings.ERROR_BARS}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Duel:
    """The games of a network in training against an opponent."""

    step: int  # of training
    opponent: int  # the step of an earlier network, or UNIFORM
    payoffs: list[float]  # of the network; the games of a pair follow each other

    @property
    def points(self) -> Float[np.ndarray, " G"]:
        """Of each game: 1 for a win, 1/2 for a draw."""
        return (1 + np.asarray(self.payoffs)) / 2

    @property
    def share(self) -> float:
        """Of the points."""
        return float(self.points.mean())

    @property
    def pairs(self) -> Float[np.ndarray, " N"]:
        """The share of the points of each pair of games."""
        return self.points.reshape(-1, 2).mean(axis=1)

    @property
    def interval(self) -> tuple[float, float]:
        """Of the share, of 95 % confidence."""
        _, low, high = match.share_interval(self.pairs)
        return low, high

    def count(self, payoff: float) -> int:
        """The games that ended so."""
        return self.payoffs.count(payoff)


def opponents(measured_at: Sequence[int], step: int) -> tuple[int, ...]:
    """Whom the network of a step meets.

    Args:
      measured_at: steps of training, ascending.
      step: one of them.

    Returns:
      UNIFORM, and the steps of those networks that came before: the untrained one, the one after
      about a tenth of the training, and the last one.
    """
    tenth = min(measured_at, key=lambda other: abs(other - measured_at[-1] / 10))
    before = [other for other in measured_at if other < step]
    return UNIFORM, *sorted({*before[:1], *before[-1:], tenth} & {*before})


def ratings(measured_at: Sequence[int], found: Sequence[Duel]) -> dict[int, Rating]:
    """Elo of the networks by the step of training.

    Args:
      measured_at: the steps, each of which has met UNIFORM, whose Elo is 0.
      found: all duels.
    """
    players = (UNIFORM, *measured_at)
    met = [
        Match(
            first=players.index(duel.step),
            second=players.index(duel.opponent),
            shares=duel.pairs.tolist(),
        )
        for duel in found
    ]
    return dict(zip(players, Ladder(met, len(players)).ratings(0), strict=True))
