"""Elo ratings by maximum likelihood, in the model of Bradley and Terry (1952)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

_PER_UNIT = 400 / math.log(10)  # Elo points of one unit of log-odds
_STEPS = 1000


def ratings(
    points: Float[np.ndarray, "N N"], *, drawn: float = 1.0
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Computes the ratings of N players.

    Args:
      points: those of player i from games with j at `[i, j]`: 1 for a win, 1/2 for a draw.
      drawn: how many drawn games are added for every pair that played, so that the ratings of
        players who won all their games are finite.

    Returns:
      Elo ratings, that of player 0 being 0, and their standard errors.

    Raises:
      ValueError: some players are not connected to player 0 by games.
    """
    points = points + np.where(points + points.T > 0, drawn / 2, 0)
    games = points + points.T
    _check_connected(games)
    strength = np.zeros(len(points))
    for _ in range(_STEPS):  # Newton's method: the likelihood is concave
        expected = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
        gradient = np.sum(points - games * expected, axis=1)[1:]
        each = games * expected * expected.T
        information = (np.diag(each.sum(axis=1)) - each)[1:, 1:]
        change = np.linalg.solve(information, gradient)
        strength[1:] += np.clip(change, -1, 1)
        if np.abs(change).max(initial=0) < 1e-9:
            break
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    return _PER_UNIT * strength, _PER_UNIT * np.concatenate([[0], errors])


def difference(share: float) -> float:
    """The difference in Elo at which the stronger player is expected to get this share of the
    points, between 0 and 1."""
    return _PER_UNIT * math.log(share / (1 - share))


def expected_share(stronger: float) -> float:
    """Of the points, what a player is expected to get who is so much stronger, in Elo."""
    return 1 / (1 + math.exp(-stronger / _PER_UNIT))


def _check_connected(games):
    played = (games > 0) | np.eye(len(games), dtype=bool)
    connected = played[0]
    for _ in games:
        connected = played[connected].any(axis=0)
    if not connected.all():
        others = np.flatnonzero(~connected).tolist()
        raise ValueError(f"points: no games connect players {others} to player 0")
